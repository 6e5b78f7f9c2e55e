//! Databases larger than their DRAM budget: rows and snapshots are right, and the memory stays
//! within the budget.

use std::path::Path;
use std::process::Command;

use crate::limits_common::{self, Mounted, eventually, in_time, is_out_of_memory};
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use atoll::machine::CrashMedium;
use atoll::{
    Column, DataType, Database, DatabaseOptions, Durability, Error, Schema, Snapshot, Table, Value,
};

const BUDGET_BYTES: u64 = 32 << 20;
const PAYLOAD: u32 = 1024;
/// Five times the budget.
const ROWS: i64 = 160 << 10;

fn options() -> DatabaseOptions {
    DatabaseOptions {
        memory_budget_bytes: Some(BUDGET_BYTES),
        // Space for snapshots that are held while every segment changes.
        memory_limit_bytes: Some(2 << 30),
        durability: Durability::None,
        ..DatabaseOptions::default()
    }
}

/// Beside the test programs, and not in memory, where nothing would be evicted.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// Whether files there are in memory, so that nothing can be evicted.
fn is_in_memory(folder: &Path) -> bool {
    let kind = Command::new("stat").args(["-f", "-c", "%T"]).arg(folder).output().unwrap();
    let is_in_memory = String::from_utf8_lossy(&kind.stdout).trim() == "tmpfs";
    if is_in_memory {
        limits_common::skipped::say(format!("{} is in memory", folder.display()));
    }
    is_in_memory
}

fn schema() -> Schema {
    let columns = vec![
        Column::new("id", DataType::Int64),
        Column::new("value", DataType::Int64),
        Column::new("payload", DataType::FixedBinary(PAYLOAD)),
    ];
    Schema::new(columns, &["id"]).unwrap()
}

fn payload(id: i64, value: i64) -> Value {
    Value::Binary(vec![(id * 31 + value) as u8; PAYLOAD as usize])
}

fn insert(db: &Database, table: &Table, ids: std::ops::Range<i64>) -> atoll::Result<()> {
    db.transaction(|tx| {
        ids.clone().try_for_each(|id| tx.insert(table, &[id.into(), 0i64.into(), payload(id, 0)]))
    })
}

fn filled(db: &Database, rows: i64) -> Table {
    let table = db.create_table("t", schema()).unwrap();
    for start in (0..rows).step_by(1000) {
        insert(db, &table, start..rows.min(start + 1000)).unwrap();
    }
    table
}

struct Random(u64);

impl Random {
    fn below(&mut self, most: i64) -> i64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        ((self.0 >> 33) % most as u64) as i64
    }
}

/// Reads rows with random keys and changes others, and compares them with the model.
fn work(db: &Database, table: &Table, model: &mut [i64], random: &mut Random, count: usize) {
    let mut session = db.session().unwrap();
    for _ in 0..count {
        let (read, written) = (random.below(ROWS), random.below(ROWS));
        let value = model[written as usize] + 1;
        let row = session.transaction(|tx| {
            let changes = [(1, value.into()), (2, payload(written, value))];
            assert!(tx.update(table, &[written.into()], &changes)?);
            tx.read(table, &[read.into()])
        });
        model[written as usize] = value;
        let expected = model[read as usize];
        assert_eq!(row.unwrap().unwrap(), [read.into(), expected.into(), payload(read, expected)]);
    }
}

/// Checks that a snapshot shows the rows of the model.
fn check(snapshot: &Snapshot, model: &[i64]) {
    let table = snapshot.table("t").unwrap();
    let mut rows = 0;
    for at in 0..table.segment_count() {
        let segment = table.segment(at).unwrap();
        let batch = segment.batch(&[0, 1, 2]).unwrap();
        for (start, len) in segment.runs() {
            let part = batch.slice(start, len);
            let ids = part.column(0).as_primitive::<Int64Type>();
            let values = part.column(1).as_primitive::<Int64Type>();
            let payloads = part.column(2).as_fixed_size_binary();
            for row in 0..len {
                let (id, value) = (ids.value(row), values.value(row));
                assert_eq!(value, model[id as usize], "row {id}");
                let byte = (id * 31 + value) as u8;
                assert!(payloads.value(row).iter().all(|b| *b == byte), "row {id} is torn");
            }
            rows += len;
        }
    }
    assert_eq!(rows, model.len());
}

fn comes_within_its_budget(db: &Database) {
    let budget = || db.budget().unwrap().unwrap();
    eventually("it is within its budget", || budget().resident_bytes <= BUDGET_BYTES);
    assert!(budget().evicted_bytes > 0 && !budget().has_failed);
}

#[test]
fn a_database_five_times_its_budget_has_every_row_and_every_snapshot_and_is_opened_again() {
    let folder = folder();
    if is_in_memory(folder.path()) {
        return;
    }
    let mut model = vec![0; ROWS as usize];
    let mut random = Random(7);
    {
        let db = Database::open(folder.path(), options()).unwrap();
        let table = filled(&db, ROWS);
        assert!(db.counters().memory_committed_bytes > 5 * BUDGET_BYTES);
        comes_within_its_budget(&db);
        let mut held = Vec::new();
        for round in 0..2 {
            held.push((db.snapshot().unwrap(), model.clone()));
            work(&db, &table, &mut model, &mut random, 400);
            if round == 0 {
                db.checkpoint().unwrap();
            }
            let (snapshot, shown) = &held[random.below(held.len() as i64) as usize];
            check(snapshot, shown);
        }
        comes_within_its_budget(&db);
        held.iter().for_each(|(snapshot, shown)| check(snapshot, shown));
        check(&db.snapshot().unwrap(), &model);
        drop(held);
        db.close().unwrap();
    }
    let db = Database::open(folder.path(), options()).unwrap();
    comes_within_its_budget(&db);
    check(&db.snapshot().unwrap(), &model);
    let table = db.table("t").unwrap();
    work(&db, &table, &mut model, &mut random, 500);
    db.flush().unwrap();
    drop(db);
    // A budget is for one incarnation: the database can be opened without one.
    let db =
        Database::open(folder.path(), DatabaseOptions { memory_budget_bytes: None, ..options() });
    let db = db.unwrap();
    assert!(db.budget().unwrap().is_none());
    check(&db.snapshot().unwrap(), &model);
}

#[test]
fn snapshots_in_memory_beside_threads_that_work_beyond_the_budget() {
    let folder = folder();
    let db = Database::open(folder.path(), options()).unwrap();
    let rows = 96 << 10;
    let table = filled(&db, rows);
    in_time(move || {
        let _folder = folder;
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let (db, table) = (&db, &table);
                scope.spawn(move || {
                    let mut random = Random(thread);
                    let mut session = db.session().unwrap();
                    for _ in 0..1500 {
                        let (a, b) = (random.below(rows), random.below(rows));
                        // The sum is constant: one row gains what the other loses.
                        let moved = session.transaction(|tx| {
                            for (id, by) in [(a, 1), (b, -1)] {
                                let row = tx.read(table, &[id.into()])?.unwrap();
                                let Value::Int64(value) = row[1] else { panic!("{row:?}") };
                                let value = value + by;
                                let changes = [(1, value.into()), (2, payload(id, value))];
                                tx.update(table, &[id.into()], &changes)?;
                            }
                            Ok(())
                        });
                        moved.unwrap();
                    }
                });
            }
            for _ in 0..5 {
                let snapshot = db.snapshot().unwrap();
                let shown = snapshot.table("t").unwrap();
                let mut sum = 0;
                for at in 0..shown.segment_count() {
                    let segment = shown.segment(at).unwrap();
                    let batch = segment.batch(&[1]).unwrap();
                    for (start, len) in segment.runs() {
                        let part = batch.slice(start, len);
                        sum +=
                            part.column(0).as_primitive::<Int64Type>().values().iter().sum::<i64>();
                    }
                }
                assert_eq!(sum, 0);
            }
        });
    });
}

#[test]
fn the_limit_of_the_store_is_a_multiple_of_the_budget_as_far_as_the_disk_goes() {
    let limit_bytes = |folder: &Path| {
        let options = DatabaseOptions { memory_limit_bytes: None, ..options() };
        Database::open(folder, options).unwrap().counters().memory_limit_bytes
    };
    let large = folder();
    let free = atoll::machine::medium::file::free_bytes(large.path()).unwrap();
    let expected = (16 * BUDGET_BYTES).min(free / 2);
    assert!(limit_bytes(large.path()).abs_diff(expected) < expected / 4, "others write there too");
    let small = folder();
    let spill = small.path().join("spill");
    let Some(_disk) = Mounted::small_disk(&spill, 100) else { return };
    assert_eq!(limit_bytes(small.path()), 50 << 20);
    let error = atoll::machine::medium::file::free_bytes(&spill.join("nothing")).unwrap_err();
    assert!(error.to_string().contains("nothing"), "{error}");
}

#[test]
fn a_budget_needs_a_folder() {
    let refused = |made: atoll::Result<Database>| {
        let error = made.err().unwrap();
        assert!(matches!(error, Error::BudgetWithoutFolder), "{error}");
    };
    refused(Database::create(options()));
    refused(Database::open_on(&CrashMedium::default(), options()));
}

#[test]
fn a_folder_that_is_not_a_databases_stays_as_it_is() {
    let folder = folder();
    std::fs::write(folder.path().join("letter"), "dear").unwrap();
    assert!(Database::open(folder.path(), options()).is_err());
    let names: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(names.len(), 1, "{names:?}");
}

#[test]
fn a_full_disk_is_an_error_and_the_database_goes_on() {
    let folder = folder();
    let spill = folder.path().join("spill");
    let Some(_disk) = Mounted::small_disk(&spill, 80) else { return };
    // The limit is greater than the disk.
    let rows = {
        let db = Database::open(folder.path(), options()).unwrap();
        let table = db.create_table("t", schema()).unwrap();
        let mut rows = 0;
        let error = loop {
            match insert(&db, &table, rows..rows + 1000) {
                Ok(()) => rows += 1000,
                Err(error) => break error,
            }
        };
        assert!(is_out_of_memory(&error), "{error}");
        assert!(error.to_string().contains("free memory or disk space"), "{error}");
        assert!((20_000..200_000).contains(&rows), "{rows}");
        let one = |id: i64| db.transaction(|tx| tx.read(&table, &[id.into()])).unwrap();
        assert_eq!(one(rows - 1).unwrap()[2], payload(rows - 1, 0));
        assert_eq!(one(rows), None);
        // There is space again, and it is used.
        db.transaction(|tx| {
            (0..9000i64).try_for_each(|id| tx.delete(&table, &[id.into()]).map(drop))
        })
        .unwrap();
        insert(&db, &table, 0..9000).unwrap();
        check(&db.snapshot().unwrap(), &vec![0; rows as usize]);
        db.close().unwrap();
        rows
    };
    let db = Database::open(folder.path(), options()).unwrap();
    check(&db.snapshot().unwrap(), &vec![0; rows as usize]);
}
