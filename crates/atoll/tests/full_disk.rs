//! A disk that becomes full at any moment: acknowledged commits stay, others are there completely
//! or not at all, and every error explains the cause.
#![allow(clippy::unwrap_used, missing_docs)]

mod limits_common;

use std::collections::BTreeSet;
use std::io::Write;
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

use atoll::machine::medium::Open;
use atoll::machine::medium::crash::Fault;
use atoll::machine::{CrashMedium, Medium};
use atoll::{
    Column, DataType, Database, DatabaseOptions, Error, LogError, LogsOptions, Result, Schema,
    Table, TableOptions, Value,
};
use limits_common::Mounted;

/// Number of panics of all threads.
static PANICS: AtomicU64 = AtomicU64::new(0);

fn count_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            PANICS.fetch_add(1, Ordering::Relaxed);
            usual(panic);
        }));
    });
}

fn options() -> DatabaseOptions {
    DatabaseOptions {
        tablespaces: Some(2),
        memory_limit_bytes: Some(128 << 20),
        checkpoint_log_bytes: u64::MAX,
        logs: LogsOptions {
            file_bytes: 64 << 10,
            ring_bytes: 2 << 20,
            in_turns: true,
            ..LogsOptions::default()
        },
        ..DatabaseOptions::default()
    }
}

const NAMES: [&str; 2] = ["a", "b"];

/// The table of each tablespace, if it exists.
fn tables(db: &Database) -> Vec<Table> {
    NAMES.iter().filter_map(|name| db.table(name).ok()).collect()
}

fn create(db: &Database, tablespace: usize) -> Result<()> {
    let columns = vec![Column::new("id", DataType::Int64), Column::new("text", DataType::Text)];
    let schema = Schema::new(columns, &["id"])?;
    let options = TableOptions { tablespace: Some(tablespace as u32), ..TableOptions::default() };
    db.create_table_with(NAMES[tablespace], schema, &options).map(drop)
}

fn count(row: Option<Vec<Value>>) -> i64 {
    row.map_or(0, |row| match &row[1] {
        Value::Text(text) => text.parse().unwrap(),
        other => panic!("{other:?}"),
    })
}

/// Inserts a row with this id into both tables, and counts it in row 0 of each.
fn add(db: &Database, id: i64, bytes: usize) -> Result<()> {
    let tables = tables(db);
    db.transaction(|tx| {
        for table in &tables {
            tx.insert(table, &[id.into(), Value::Text("x".repeat(bytes))])?;
            let counted = count(tx.read(table, &[0i64.into()])?);
            let text = Value::Text((counted + 1).to_string());
            match counted {
                0 => tx.insert(table, &[0i64.into(), text])?,
                _ => assert!(tx.update(table, &[0i64.into()], &[(1, text)])?),
            }
        }
        Ok(())
    })
}

/// The knowledge of a client of a database.
#[derive(Default, Clone)]
struct Told {
    begun: i64,
    acknowledged: BTreeSet<i64>,
    /// Number of errors so far.
    errors: u64,
    /// Whether a flush has failed: this incarnation accepts no more changes.
    is_over: bool,
}

/// The state of the disk after it was full once.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Then {
    /// It stays full until the database is opened again.
    Full,
    /// There is space again at once.
    Free,
}

impl Told {
    /// Records the result of an operation; checks that an error says what to do.
    fn note(&mut self, medium: &CrashMedium, done: Result<()>, then: Then) -> bool {
        let Err(error) = done else { return true };
        let text = error.to_string();
        let is_full = match &error {
            Error::Log(LogError::Medium(cause)) => cause.is_full(),
            Error::Log(LogError::Poisoned { cause, .. }) => {
                self.is_over = true;
                cause.is_full()
            }
            _ => false,
        };
        assert!(is_full && text.contains("free some space"), "{text}: {error:?}");
        if then == Then::Free {
            // Space helps, unless it is unknown what the logs contain.
            assert!(self.errors == 0 || self.is_over, "there is space: {text}");
            medium.mend();
        }
        self.errors += 1;
        false
    }

    /// Opens a database, works, takes checkpoints and closes it; goes on after every error. `look`
    /// sees the state right before the end.
    fn live(&mut self, medium: &CrashMedium, then: Then, look: impl FnOnce(&Self)) {
        self.is_over = false;
        let mut opened = Database::open_on(medium, options());
        if then == Then::Free
            && let Err(error) = opened
        {
            self.note(medium, Err(error), then);
            opened = Database::open_on(medium, options());
        }
        let db = match opened {
            Ok(db) => db,
            Err(error) => {
                self.note(medium, Err(error), then);
                return look(self);
            }
        };
        // Twice, since there may be space the second time.
        for tablespace in [0, 0, 1, 1].into_iter().filter(|at| db.table(NAMES[*at]).is_err()) {
            self.note(medium, create(&db, tablespace), then);
        }
        for step in 0..12 {
            if step % 5 == 4 {
                self.note(medium, db.checkpoint().map(drop), then);
                continue;
            }
            if tables(&db).len() < NAMES.len() {
                continue;
            }
            self.begun += 1;
            // Some need new files, and one is too large for a block.
            let bytes = [20, 40_000, 30, 200_000][usize::from(step == 6) * 3 + step % 3];
            if self.note(medium, add(&db, self.begun, bytes), then) {
                self.acknowledged.insert(self.begun);
            }
        }
        look(self);
        self.note(medium, db.close(), then);
    }

    /// Checks that the database on a medium is right, and usable.
    fn judge(&self, medium: &CrashMedium, what: &str) {
        let opened = Database::open_on(medium, options());
        let db = opened.unwrap_or_else(|error| panic!("{what}: cannot be opened: {error}"));
        self.judge_in(&db, what);
        let missing = (0..NAMES.len()).filter(|at| db.table(NAMES[*at]).is_err());
        missing.for_each(|missing| create(&db, missing).unwrap());
        add(&db, self.begun + 1, 10).unwrap();
        db.checkpoint().unwrap();
        db.close().unwrap();
    }

    /// Checks that a database has everything that was acknowledged, and no part of a transaction.
    fn judge_in(&self, db: &Database, what: &str) {
        let mut found = Vec::new();
        for table in tables(db) {
            let mut ids = BTreeSet::new();
            for id in 1..=self.begun {
                let row = db.transaction(|tx| tx.read(&table, &[id.into()])).unwrap();
                if let Some(Value::Text(text)) = row.as_ref().map(|row| &row[1]) {
                    assert!(text.bytes().all(|byte| byte == b'x'), "{what}: {id} is torn");
                    ids.insert((id, text.len()));
                }
            }
            let counted = count(db.transaction(|tx| tx.read(&table, &[0i64.into()])).unwrap());
            assert_eq!(counted, ids.len() as i64, "{what}: {ids:?}");
            found.push(ids);
        }
        let ids: BTreeSet<i64> = found.iter().flatten().map(|(id, _)| *id).collect();
        assert!(found.windows(2).all(|pair| pair[0] == pair[1]), "{what}: a half: {found:?}");
        assert!(self.acknowledged.is_subset(&ids), "{what}: {:?} of {ids:?}", self.acknowledged);
        assert!(found.len() == NAMES.len() || self.acknowledged.is_empty(), "{what}");
    }
}

/// Fills the disk at every request of an incarnation that starts on a medium.
fn sweep(begin: &CrashMedium, known: &Told) {
    count_panics();
    let panics = PANICS.load(Ordering::Relaxed);
    for then in [Then::Full, Then::Free] {
        for after in 0.. {
            let (medium, mut told) = (begin.copy(), known.clone());
            let what = format!("full at request {after}, then {then:?}");
            medium.fail(Fault::Full, after);
            told.live(&medium, then, |told| {
                let mut bits = after as u64;
                for (keeps, mixes) in [(true, false), (false, false), (true, true)] {
                    let crashed = medium.crash(medium.events(), || {
                        bits = bits.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                        keeps && (!mixes || bits >> 63 == 0)
                    });
                    told.judge(&crashed, &format!("{what}, crashed {keeps} {mixes}"));
                }
            });
            let is_over = medium.failures() == 0;
            assert_eq!(told.errors == 0, is_over, "{what}: {} errors", told.errors);
            medium.mend();
            told.judge(&medium, &what);
            if is_over {
                eprintln!("{after} requests");
                break;
            }
        }
    }
    assert_eq!(PANICS.load(Ordering::Relaxed), panics, "a thread has panicked");
}

#[test]
fn a_disk_that_is_full_at_any_request_of_a_new_database() {
    sweep(&CrashMedium::default(), &Told::default());
}

#[test]
fn a_disk_that_is_full_at_any_request_of_a_recovery() {
    let (medium, mut told) = (CrashMedium::default(), Told::default());
    let mut crashed = None;
    told.live(&medium, Then::Full, |_| {
        crashed = Some(medium.crash(medium.events(), || false));
    });
    sweep(&crashed.unwrap(), &told);
}

/// Checks that a database that was opened without space can be read, gives the reason why it
/// accepts no change, and accepts changes once there is space.
fn reads_only_until(db: &Database, told: &mut Told, make_space: impl FnOnce()) {
    let notes = &db.recovery().unwrap().notes;
    assert!(notes.iter().any(|note| note.contains("can be read")), "{notes:?}");
    told.judge_in(db, "without space");
    let snapshot = db.snapshot().unwrap();
    assert!(snapshot.table(NAMES[0]).unwrap().row_count().unwrap() > 0);
    for _ in 0..3 {
        told.begun += 1;
        let refused = add(db, told.begun, 10).unwrap_err();
        assert!(refused.to_string().contains("free some space"), "{refused}");
        let [trouble] = &db.health().troubles()[..] else { panic!("{:?}", db.health()) };
        assert!(trouble.contains("changes are refused until there is space"), "{trouble}");
        db.checkpoint().unwrap_err();
    }
    make_space();
    told.begun += 1;
    add(db, told.begun, 10).unwrap();
    told.acknowledged.insert(told.begun);
    db.checkpoint().unwrap();
    assert!(db.health().is_well(), "{:?}", db.health());
    told.judge_in(db, "with space again");
}

/// Removes the prepared files of a log, so that the next block needs a new one.
fn remove_unused(medium: &CrashMedium, tablespace: usize) {
    let folder = medium.folder(&format!("node-{tablespace}")).unwrap();
    let logs = folder.names().unwrap().into_iter().filter(|name| name.starts_with("log-"));
    for name in logs.collect::<Vec<_>>().into_iter().rev() {
        let file = folder.open(&name, Open::Read).unwrap();
        let mut bytes = vec![0; file.size().unwrap() as usize];
        file.read_at(0, &mut bytes).unwrap();
        if bytes.iter().any(|byte| *byte != 0) {
            return;
        }
        folder.remove(&name).unwrap();
    }
}

#[test]
fn a_database_opens_on_a_full_disk_to_be_read_and_goes_on_when_there_is_space() {
    for closed in [false, true] {
        let (medium, mut told) = (CrashMedium::default(), Told::default());
        let mut left = None;
        told.live(&medium, Then::Full, |_| left = Some(medium.crash(medium.events(), || false)));
        let medium = if closed { medium } else { left.unwrap() };
        // The control file cannot be written, or only new files cannot be made.
        for (fault, after) in [(Fault::Full, 0), (Fault::Create, 0)] {
            let (medium, mut told) = (medium.copy(), told.clone());
            (0..NAMES.len()).for_each(|tablespace| remove_unused(&medium, tablespace));
            medium.fail(fault, after);
            // The database can be closed without having written anything, and opened again.
            Database::open_on(&medium, options()).unwrap().close().unwrap();
            let db = Database::open_on(&medium, options()).unwrap();
            reads_only_until(&db, &mut told, || medium.mend());
            told.judge(&medium.crash(medium.events(), || false), "after it went on");
            db.close().unwrap();
            told.judge(&medium, "closed after it went on");
        }
    }
}

#[test]
fn a_file_system_that_is_full_is_told_and_is_worked_on_again_when_there_is_space() {
    let room = tempfile::tempdir().unwrap();
    let folder = room.path().join("disk");
    let Some(disk) = Mounted::small_disk(&folder, 32) else { return };
    let options = || DatabaseOptions {
        // Checkpoints are taken while the disk fills up.
        checkpoint_log_bytes: 4 << 20,
        logs: LogsOptions { file_bytes: 1 << 20, ring_bytes: 4 << 20, ..LogsOptions::default() },
        ..options()
    };
    let mut told = Told::default();
    let fill = |db: &Database, told: &mut Told, most: i64| {
        for _ in 0..most {
            told.begun += 1;
            if let Err(error) = add(db, told.begun, 50_000) {
                return Some(error);
            }
            told.acknowledged.insert(told.begun);
        }
        None
    };
    let is_told = |error: Error| {
        let text = error.to_string();
        let is_full = match error {
            Error::Log(LogError::Medium(cause) | LogError::Poisoned { cause, .. }) => {
                cause.is_full()
            }
            _ => false,
        };
        assert!(is_full && text.contains("free some space"), "{text}");
    };
    let db = Database::open(&folder, options()).unwrap();
    (0..NAMES.len()).for_each(|tablespace| create(&db, tablespace).unwrap());
    is_told(fill(&db, &mut told, i64::MAX).unwrap());
    assert!(told.acknowledged.len() > 50, "{} fit", told.acknowledged.len());
    // Existing rows can be read, and nothing more fits.
    let last = told.acknowledged.last().copied().unwrap();
    let table = db.table(NAMES[0]).unwrap();
    assert!(db.transaction(|tx| tx.read(&table, &[last.into()])).unwrap().is_some());
    is_told(fill(&db, &mut told, i64::MAX).unwrap());
    // There is space again, without opening anything.
    disk.remount("size=64m");
    assert!(fill(&db, &mut told, 20).is_none());
    is_told(fill(&db, &mut told, i64::MAX).unwrap());
    let _ = db.close().map_err(is_told);
    // Inspecting and reading is possible without any space.
    std::fs::remove_file(folder.join("lock")).unwrap();
    let mut rest = std::fs::File::create(folder.join("rest")).unwrap();
    while rest.write_all(&[1; 4096]).is_ok() {}
    let report = atoll::inspect::check(&folder, None).unwrap();
    assert!(report.damages.is_empty(), "{:?}", report.damages);
    let db = Database::open(&folder, options()).unwrap();
    told.judge_in(&db, "a real disk without space");
    is_told(fill(&db, &mut told, i64::MAX).unwrap()); // Some may fit into the logs.
    disk.remount("size=128m");
    assert!(fill(&db, &mut told, 20).is_none());
    drop(db);
    told.judge_in(&Database::open(&folder, options()).unwrap(), "a real disk");
    told.judge_in(&Database::open(&folder, options()).unwrap(), "a real disk, closed");
}
