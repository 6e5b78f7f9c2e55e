//! The scene of a run: a table, the recorded history, and the faults found.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use atoll::machine::Machine;
use atoll_txn::EngineOptions;
use atoll_txn::history::{End, History, Item, Recorder, Transaction};

use super::hands::{AMOUNT, ByName, Ground, Halt, ID, Maker, NAME, NAMED, Row, VERSION};
use super::rules::Rules;
use super::truths::{
    Fault, amount_of, check_row, check_rows, first_row, initial, name_item, row_of_crowd,
};
use super::workload::{Cast, FLOOD, NAMES, Plan};

/// First version that a run assigns; initial rows have smaller ones.
const FIRST_VERSION: u64 = 1000;

/// This many rows are inserted before the initial rows and then deleted, so that the key predictor
/// has seen enough keys in ascending order to predict slots. Its predictions are right for the
/// initial rows, and wrong for rows that are deleted and inserted again into another slot.
const FORERUNNERS: i64 = 70;

/// Counts of transactions by their end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Tally {
    /// Committed.
    pub committed: u64,
    /// Attempts that a conflict rolled back.
    pub aborted: u64,
    /// Rolled back on purpose.
    pub rolled_back: u64,
    /// Rolled back because another row had the name.
    pub refused: u64,
    /// Snapshots.
    pub snapshots: u64,
}

impl Tally {
    /// Adds the counts of another tally.
    pub fn add(&mut self, other: Self) {
        self.committed += other.committed;
        self.aborted += other.aborted;
        self.rolled_back += other.rolled_back;
        self.refused += other.refused;
        self.snapshots += other.snapshots;
    }
}

/// See the module.
pub struct Scene<M: Machine> {
    pub(super) ground: Ground<M>,
    pub(super) cast: Cast,
    pub(super) recorder: Recorder,
    pub(super) readers_never_abort: bool,
    faults: Mutex<Vec<Fault>>,
    tally: Mutex<Tally>,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<M: Machine> Scene<M> {
    /// A table with its initial rows.
    ///
    /// # Errors
    /// An error of the engine.
    pub fn new(make: Maker<M>, rules: &Rules, cast: Cast) -> Result<Arc<Self>, String> {
        let by_name = match (cast.named, rules.unique) {
            (false, _) => ByName::Missing,
            (true, true) => ByName::Unique,
            (true, false) => ByName::Unchecked,
        };
        let options = EngineOptions {
            // Few, so that transactions meet in them, and a scan of all rows is short.
            stripes: 32,
            partitions: rules.partitions,
            accounting: false,
            rows_in_section: cast.rows_in_section,
        };
        let ground = Ground::new(make, options, by_name)?;
        let mut hands = ground.hands()?;
        let mut fill = || {
            hands.begin(None, &Plan::default())?;
            let forerunners = if cast.crowded { 0..0 } else { -FORERUNNERS..0 };
            for key in forerunners.clone() {
                hands.insert(&first_row(key))?;
            }
            for key in cast.crowd() {
                hands.insert(&row_of_crowd(key))?;
            }
            for key in cast.at_first() {
                hands.insert(&first_row(key))?;
            }
            hands.commit()?;
            hands.begin(None, &Plan::default())?;
            for key in forerunners {
                hands.delete(key)?;
            }
            hands.commit()
        };
        fill().map_err(|halt: Halt| format!("the first rows could not be inserted: {halt:?}"))?;
        drop(hands);
        let (faults, tally) = (Mutex::default(), Mutex::default());
        let recorder = Recorder::new(FIRST_VERSION);
        let readers_never_abort = rules.readers_never_abort;
        Ok(Arc::new(Self { ground, cast, recorder, readers_never_abort, faults, tally }))
    }

    pub(super) fn fault(&self, fault: Fault) {
        lock(&self.faults).push(fault);
    }

    pub(super) fn count(&self, add: impl FnOnce(&mut Tally)) {
        add(&mut lock(&self.tally));
    }

    pub(super) fn tally(&self) -> Tally {
        *lock(&self.tally)
    }

    pub(super) fn first_fault(&self) -> Option<Fault> {
        lock(&self.faults).first().cloned()
    }

    /// Takes a snapshot, see [`Ground::snapshot`], and records what it shows.
    pub fn snapshot(&self, thread: u32, patched: bool, pause: impl FnMut()) {
        let shown = self.recorder.begin(thread);
        self.shows(shown, self.ground.snapshot(patched, pause));
    }

    fn shows(&self, mut shown: Transaction, rows: Result<Vec<Row>, String>) {
        let rows = match rows {
            Ok(rows) => rows,
            Err(text) => return self.fault(Fault { kind: "unreadable snapshot".to_owned(), text }),
        };
        let mut by_key: BTreeMap<i64, Row> = BTreeMap::new();
        let (crowd, rows): (Vec<_>, Vec<_>) =
            rows.into_iter().partition(|row| self.cast.crowd().contains(&row[ID]));
        let others = self.cast.crowd().count();
        if crowd.len() != others {
            let text = format!("a snapshot shows {} of {others} rows of the crowd", crowd.len());
            self.fault(Fault { kind: "missing row".to_owned(), text });
        }
        for row in rows {
            check_row(&row).into_iter().for_each(|fault| self.fault(fault));
            if by_key.insert(row[ID], row).is_some() {
                let text = format!("a snapshot shows row {} twice", row[ID]);
                self.fault(Fault { kind: "duplicate key".to_owned(), text });
            }
        }
        for key in 0..self.cast.keys_end + FLOOD {
            let row = by_key.get(&key);
            shown.read(Item::row(key), row.map(|row| row[VERSION] as u64));
            shown.read(amount_of(key), row.map(|row| row[AMOUNT] as u64));
        }
        for name in (0..NAMES).filter_map(name_item) {
            let row = by_key.values().find(|row| row[NAME] == name.key);
            shown.read(name, row.map(|row| row[NAMED] as u64));
        }
        check_rows(&by_key).into_iter().for_each(|fault| self.fault(fault));
        self.recorder.end(shown, End::Snapshot);
        self.count(|tally| tally.snapshots += 1);
    }

    /// Frees extents that wait only until no worker reads them.
    pub fn reclaim(&self) {
        self.ground.reclaim();
    }

    /// All transactions so far.
    pub fn history(&self) -> History {
        self.recorder.history(initial(&self.cast))
    }
}

#[cfg(test)]
mod tests {
    use atoll::machine::Native;
    use atoll_txn::schemes::SchemeOptions;
    use atoll_txn::schemes::no_wait::NoWait;

    use super::super::hands::{MARK, with_scheme};
    use super::super::workload::TWINS_END;
    use super::*;

    type Quiet = Arc<Scene<Native>>;

    const CAST: Cast =
        Cast { keys_end: 22, guests_from: 17, named: true, crowded: false, rows_in_section: 2 };

    /// A scene without a fault.
    fn scene(cast: Cast) -> Quiet {
        let scheme = NoWait::new(&SchemeOptions::default());
        Scene::new(with_scheme(scheme), &Rules::default(), cast)
            .expect("there is memory for some rows")
    }

    /// The verdict after `harm`.
    fn after(harm: impl FnOnce(&Quiet)) -> Option<String> {
        let scene = scene(CAST);
        harm(&scene);
        scene.verdict(&Rules::default()).1.map(|fault| fault.kind)
    }

    #[test]
    fn nothing_is_wrong_with_a_scene_that_is_looked_at() {
        assert_eq!(after(|_| ()), None);
        assert_eq!(after(|scene| scene.snapshot(0, true, || ())), None);
    }

    #[test]
    fn a_snapshot_that_cannot_be_read_or_shows_a_row_twice_is_a_fault() {
        let shows = |rows: fn(Vec<Row>) -> Result<Vec<Row>, String>| {
            after(|scene| {
                let shown = scene.recorder.begin(0);
                let read = scene.ground.snapshot(true, || ()).and_then(rows);
                scene.shows(shown, read);
            })
        };
        assert_eq!(shows(Ok), None);
        let unreadable = shows(|_| Err("no such extent".to_owned()));
        assert_eq!(unreadable.as_deref(), Some("unreadable snapshot"));
        let twice = shows(|rows| Ok([&rows[..], &rows[..1]].concat()));
        assert_eq!(twice.as_deref(), Some("duplicate key"));
        let torn = shows(|mut rows| {
            rows[7][MARK] ^= 1;
            Ok(rows)
        });
        assert_eq!(torn.as_deref(), Some("torn row"));
    }

    #[test]
    fn the_rows_of_a_crowded_scene_fill_a_block_until_one_goes() {
        const CROWDED: Cast = Cast { guests_from: TWINS_END, crowded: true, ..CAST };
        let (plain, crowded) = (scene(CAST), scene(CROWDED));
        assert!(!plain.ground.is_exact(0));
        for key in CROWDED.at_first() {
            assert!(crowded.ground.is_exact(key), "{key}");
        }
        crowded.snapshot(0, true, || ());
        assert!(lock(&crowded.faults).is_empty());
        let mut hands = crowded.ground.hands().expect("there is memory for a worker");
        let guest = CROWDED.keys_end - 1;
        let gone = hands.begin(None, &Plan::default()).and_then(|()| hands.delete(guest));
        assert!(matches!(gone, Ok(true)));
        assert!(hands.commit().is_ok());
        hands.collect_garbage(usize::MAX);
        assert!(!crowded.ground.is_exact(0));
        // A row of the crowd, which no transaction of a run accesses.
        let gone = hands.begin(None, &Plan::default()).and_then(|()| hands.delete(-1));
        assert!(matches!(gone, Ok(true)));
        assert!(hands.commit().is_ok());
        crowded.snapshot(0, true, || ());
        assert!(lock(&crowded.faults).iter().any(|fault| fault.kind == "missing row"));
    }

    #[test]
    fn what_a_transaction_finds_is_a_fault_of_the_run() {
        let kind = "unequal twins".to_owned();
        let found = after(|scene| scene.fault(Fault { kind, text: String::new() }));
        assert_eq!(found.as_deref(), Some("unequal twins"));
    }

    #[test]
    fn a_snapshot_that_is_not_let_go_is_a_leak() {
        let leak = after(|scene| {
            let cut = scene.ground.engine.memory().cut();
            assert!(cut.epoch > 0);
        });
        assert_eq!(leak.as_deref(), Some("leak"));
    }
}
