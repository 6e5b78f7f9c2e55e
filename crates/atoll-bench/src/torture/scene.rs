//! A table, what has happened to it, and what is wrong with that.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use atoll::machine::Machine;
use atoll_txn::Scheme;
use atoll_txn::history::{self, End, History, Item, Recorder};

use super::actor::Actor;
use super::hands::{AMOUNT, Ground, Halt, ID, Row, VERSION};
use super::truths::{Fault, amount_of, check_row, check_rows, first_row, initial};
use super::workload::{Cast, FLOOD, Plan, Step, Walk};

/// First version of a run; those that are there at first are below.
const FIRST_VERSION: u64 = 1000;

/// How many transactions ended how.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Tally {
    /// Committed.
    pub committed: u64,
    /// Attempts that were rolled back because of others.
    pub aborted: u64,
    /// Rolled back on purpose.
    pub rolled_back: u64,
    /// Snapshots.
    pub snapshots: u64,
}

impl Tally {
    /// Adds another.
    pub fn add(&mut self, other: Self) {
        self.committed += other.committed;
        self.aborted += other.aborted;
        self.rolled_back += other.rolled_back;
        self.snapshots += other.snapshots;
    }
}

/// A table, and what happened to it.
pub struct Scene<S: Scheme<M>, M: Machine> {
    pub(super) ground: Ground<S, M>,
    cast: Cast,
    pub(super) recorder: Recorder,
    faults: Mutex<Vec<Fault>>,
    tally: Mutex<Tally>,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<S: Scheme<M>, M: Machine> Scene<S, M> {
    /// A table with its first rows.
    ///
    /// # Errors
    /// What the engine refused.
    pub fn new(scheme: S, partitions: u32, cast: Cast) -> Result<Arc<Self>, String> {
        let ground = Ground::new(scheme, partitions)?;
        let mut hands = ground.hands()?;
        let mut fill = || {
            hands.begin(None, &Plan::default())?;
            for key in cast.at_first() {
                hands.insert(&first_row(key))?;
            }
            hands.commit()
        };
        fill().map_err(|halt: Halt| format!("the first rows could not be inserted: {halt:?}"))?;
        drop(hands);
        let (faults, tally) = (Mutex::default(), Mutex::default());
        Ok(Arc::new(Self { ground, cast, recorder: Recorder::new(FIRST_VERSION), faults, tally }))
    }

    pub(super) fn fault(&self, fault: Fault) {
        lock(&self.faults).push(fault);
    }

    pub(super) fn count(&self, add: impl FnOnce(&mut Tally)) {
        add(&mut lock(&self.tally));
    }

    /// Takes a snapshot, see [`Ground::snapshot`], and writes down what it shows.
    pub fn snapshot(&self, thread: u32, patched: bool, pause: impl FnMut()) {
        let mut shown = self.recorder.begin(thread);
        let rows = match self.ground.snapshot(patched, pause) {
            Ok(rows) => rows,
            Err(text) => return self.fault(Fault { kind: "unreadable snapshot".to_owned(), text }),
        };
        let mut by_key: BTreeMap<i64, Row> = BTreeMap::new();
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
        check_rows(&by_key).into_iter().for_each(|fault| self.fault(fault));
        self.recorder.end(shown, End::Snapshot);
        self.count(|tally| tally.snapshots += 1);
    }

    /// Frees what waits for workers only.
    pub fn reclaim(&self) {
        self.ground.reclaim();
    }

    /// All transactions so far.
    pub fn history(&self) -> History {
        self.recorder.history(initial(&self.cast))
    }

    /// Looks at everything once more, by every index, and says what is wrong with the run.
    /// `strict` as in [`history::check`].
    pub fn verdict(self: &Arc<Self>, strict: bool) -> (Tally, Option<Fault>) {
        let all = |end: i64| Walk { from: 0, to: end, descending: false, limit: usize::MAX };
        let mut steps = vec![Step::Audit, Step::ScanPlaces(all(i64::MAX))];
        steps.extend((0..self.cast.keys_end + FLOOD).map(Step::Read));
        let plan = Plan { steps, read_only: true, hurried: false, rolls_back: false };
        match Actor::new(self, u32::MAX) {
            Ok(mut actor) => actor.run(&plan),
            Err(text) => self.fault(Fault { kind: "error".to_owned(), text }),
        }
        self.snapshot(u32::MAX, true, || ());
        let tally = *lock(&self.tally);
        if let Err(anomaly) = history::check(&self.history(), strict) {
            let kind = anomaly.kind.to_string();
            return (tally, Some(Fault { kind, text: anomaly.text }));
        }
        let (bytes, leases) = self.ground.kept();
        if (bytes, leases) != (0, 0) {
            let text = format!("{leases} leases and {bytes} bytes are kept for no snapshot");
            self.fault(Fault { kind: "leak".to_owned(), text });
        }
        (tally, lock(&self.faults).first().cloned())
    }
}
