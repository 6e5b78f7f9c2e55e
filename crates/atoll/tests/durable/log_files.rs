//! Log files: prepared concurrently with commits, recycled, and unchanged after a database is
//! closed.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use atoll::machine::medium::{Locked, MediumFile, Open};
use atoll::machine::{CrashMedium, Medium, MediumError, MediumKind};
use atoll::{
    Column, DataType, Database, DatabaseOptions, Durability, Error, LogsOptions, Schema, Table,
    Value,
};

/// Ends a test that hangs.
const PATIENCE: Duration = Duration::from_secs(60);

fn options(file_bytes: u64) -> DatabaseOptions {
    DatabaseOptions {
        tablespaces: Some(1),
        memory_limit_bytes: Some(256 << 20),
        checkpoint_log_bytes: u64::MAX,
        logs: LogsOptions { file_bytes, ring_bytes: 4 << 20, ..LogsOptions::default() },
        ..DatabaseOptions::default()
    }
}

fn create(db: &Database) -> Table {
    let columns = vec![Column::new("id", DataType::Int64), Column::new("value", DataType::Int64)];
    db.create_table("t", Schema::new(columns, &["id"]).unwrap()).unwrap()
}

fn insert(db: &Database, table: &Table, ids: std::ops::Range<i64>) -> Result<(), Error> {
    db.transaction(|tx| {
        ids.clone().try_for_each(|id| tx.insert(table, &[Value::Int64(id), Value::Int64(id)]))
    })
}

#[test]
fn a_file_that_is_being_made_holds_up_no_flush() {
    const FILE_BYTES: u64 = 64 << 20;
    let medium = CrashMedium::default();
    let durability = Durability::Group(Duration::from_millis(10));
    let options = DatabaseOptions { durability, ..options(FILE_BYTES) };
    let db = Database::open_on(&medium, options.clone()).unwrap();
    let table = create(&db);
    medium.slow(Duration::from_millis(5));
    insert(&db, &table, 0..1).unwrap();
    let begun = Instant::now();
    loop {
        let crashed = medium.crash(medium.events(), || false);
        let found = Database::open_on(&crashed, options.clone()).unwrap();
        let row = found
            .table("t")
            .map(|table| found.transaction(|tx| tx.read(&table, &[Value::Int64(0)])).unwrap());
        if matches!(row, Ok(Some(_))) {
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "it is never durable");
    }
    // The next file may have been begun, but has not been completed.
    let files = medium.all_files();
    let logs = files.iter().filter(|(name, _)| name.contains("log-"));
    let whole = logs.filter(|(_, bytes)| *bytes == FILE_BYTES).count();
    assert_eq!(whole, 1, "{files:?}");
}

#[test]
fn nothing_is_written_once_a_database_is_closed() {
    for round in 0..15 {
        let medium = CrashMedium::default();
        let db = Database::open_on(&medium, options(64 << 10)).unwrap();
        let table = create(&db);
        medium.slow(Duration::from_millis(2));
        let writer = {
            let db = db.clone();
            std::thread::spawn(move || {
                let mut from = 0;
                while insert(&db, &table, from..from + 20_000).is_ok() {
                    from += 20_000;
                }
            })
        };
        std::thread::sleep(Duration::from_millis(30 + round * 5));
        db.close().unwrap();
        let closed = medium.events();
        writer.join().unwrap();
        assert_eq!(medium.events(), closed, "round {round}");
    }
}

/// A medium on which a rename of a log file fails, when that is switched on.
#[derive(Debug, Clone)]
struct Failing {
    inner: Arc<dyn Medium>,
    renames_left: Arc<AtomicI64>,
}

impl Medium for Failing {
    fn open(&self, name: &str, how: Open) -> Result<Arc<dyn MediumFile>, MediumError> {
        self.inner.open(name, how)
    }

    fn names(&self) -> Result<Vec<String>, MediumError> {
        self.inner.names()
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), MediumError> {
        if from.starts_with("log-") && self.renames_left.fetch_sub(1, Ordering::SeqCst) == 0 {
            let source = Arc::new(io::Error::from_raw_os_error(5));
            return Err(MediumError { what: "rename", path: from.into(), source });
        }
        self.inner.rename(from, to)
    }

    fn remove(&self, name: &str) -> Result<(), MediumError> {
        self.inner.remove(name)
    }

    fn sync_names(&self) -> Result<(), MediumError> {
        self.inner.sync_names()
    }

    fn folders(&self) -> Result<Vec<String>, MediumError> {
        self.inner.folders()
    }

    fn folder(&self, name: &str) -> Result<Arc<dyn Medium>, MediumError> {
        let inner = self.inner.folder(name)?;
        Ok(Arc::new(Self { inner, renames_left: Arc::clone(&self.renames_left) }))
    }

    fn lock(&self) -> Result<Result<Box<dyn Locked>, Option<u32>>, MediumError> {
        self.inner.lock()
    }

    fn path(&self, name: &str) -> String {
        self.inner.path(name)
    }

    fn kind(&self) -> MediumKind {
        self.inner.kind()
    }
}

#[test]
fn a_file_that_cannot_be_used_again_is_in_nobodys_way() {
    let renames_left = Arc::new(AtomicI64::new(i64::MAX));
    let crash_medium = CrashMedium::default();
    let inner: Arc<dyn Medium> = Arc::new(crash_medium.clone());
    let medium = Failing { inner, renames_left: Arc::clone(&renames_left) };
    let db = Database::open_on(&medium, options(256 << 10)).unwrap();
    let (table, mut next) = (create(&db), 0);
    let mut some = |count: i64| {
        for _ in 0..count {
            insert(&db, &table, next..next + 1000).unwrap();
            next += 1000;
        }
    };
    some(80);
    db.checkpoint().unwrap();
    some(80);
    renames_left.store(5, Ordering::SeqCst);
    // The checkpoint counts, and reports leftovers.
    let report = db.checkpoint().unwrap();
    assert!(report.has_leftovers && report.number == 2, "{report:?}");
    renames_left.store(i64::MAX, Ordering::SeqCst);
    some(200);
    assert!(!db.checkpoint().unwrap().has_leftovers);
    some(50);
    let all = next as u64;
    db.close().unwrap();
    let db = Database::open_on(&crash_medium, options(256 << 10)).unwrap();
    assert_eq!(db.snapshot().unwrap().table("t").unwrap().row_count().unwrap(), all);
}
