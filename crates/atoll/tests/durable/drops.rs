//! Tables that are dropped in a durable database: what recovery, checkpoints, backups and tools
//! make of it.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use atoll::machine::medium::Open;
use atoll::machine::{CrashMedium, Medium};
use atoll::restore::{Sources, restore_on};
use atoll::{
    Column, DataType, Database, DatabaseOptions, LogsOptions, Schema, SchemeKind, Table,
    TableOptions, Until, Value, inspect,
};

const TABLESPACES: u32 = 3;

fn options() -> DatabaseOptions {
    let logs = LogsOptions { file_bytes: 64 << 10, ring_bytes: 2 << 20, ..LogsOptions::default() };
    DatabaseOptions {
        tablespaces: Some(TABLESPACES as usize),
        partitions: Some(1),
        memory_limit_bytes: Some(256 << 20),
        checkpoint_log_bytes: u64::MAX,
        checkpoint_steps_max: 3,
        logs,
        ..DatabaseOptions::default()
    }
}

fn create(db: &Database, name: &str, tablespace: u32) -> Table {
    let columns =
        vec![Column::new("id", DataType::Int64), Column::nullable("text", DataType::Text)];
    let options = TableOptions { tablespace: Some(tablespace), ..TableOptions::default() };
    db.create_table_with(name, Schema::new(columns, &["id"]).unwrap(), &options).unwrap()
}

fn text(id: i64, version: i64) -> Value {
    let long = "long ".repeat((id % 7) as usize);
    if id % 5 == 0 { Value::Null } else { Value::Text(format!("{long}text {id} {version}")) }
}

fn fill(db: &Database, table: &Table, ids: std::ops::Range<i64>, version: i64) {
    db.transaction(|tx| {
        ids.clone().try_for_each(|id| {
            if tx.update(table, &[id.into()], &[(1, text(id, version))])? {
                return Ok(());
            }
            tx.insert(table, &[id.into(), text(id, version)])
        })
    })
    .unwrap();
}

type Tables = BTreeMap<String, BTreeMap<i64, Value>>;

/// All tables, by a snapshot.
fn found(db: &Database) -> Tables {
    let snapshot = db.snapshot().unwrap();
    let names = snapshot.tables().into_iter();
    names
        .map(|name| {
            let table = snapshot.table(&name).unwrap();
            let own = db.table(&name).unwrap();
            let mut rows = BTreeMap::new();
            db.transaction(|tx| {
                rows.clear();
                for id in 0..400i64 {
                    if let Some(row) = tx.read(&own, &[id.into()])? {
                        rows.insert(id, row[1].clone());
                    }
                }
                Ok(())
            })
            .unwrap();
            assert_eq!(table.row_count().unwrap(), rows.len() as u64, "{name}");
            assert_eq!(own.row_count(), rows.len() as u64, "{name}");
            (name, rows)
        })
        .collect()
}

struct Random(u64);

impl Random {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % most
    }
}

/// What was acknowledged is there after each crash, whatever came before.
#[test]
fn any_sequence_of_definitions_changes_checkpoints_and_crashes_agrees_with_a_model() {
    for seed in 1..=16 {
        let scheme = SchemeKind::ALL[seed as usize % SchemeKind::ALL.len()];
        let options = || DatabaseOptions { scheme, ..options() };
        let mut random = Random(seed * 0x9e37_79b9);
        let mut medium = CrashMedium::default();
        let mut db = Database::open_on(&medium, options()).unwrap();
        let mut model = Tables::new();
        for step in 0..300i64 {
            let name = format!("t{}", random.below(6));
            match random.below(20) {
                0..9 => {
                    let Some(rows) = model.get_mut(&name) else {
                        create(&db, &name, random.below(TABLESPACES.into()) as u32);
                        model.insert(name, BTreeMap::new());
                        continue;
                    };
                    let from = random.below(300) as i64;
                    let to = from + random.below(60) as i64;
                    fill(&db, &db.table(&name).unwrap(), from..to, step);
                    rows.extend((from..to).map(|id| (id, text(id, step))));
                }
                9..12 => {
                    let Some(rows) = model.get_mut(&name) else { continue };
                    let from = random.below(300) as i64;
                    let table = db.table(&name).unwrap();
                    db.transaction(|tx| {
                        (from..from + 20)
                            .try_for_each(|id| tx.delete(&table, &[id.into()]).map(drop))
                    })
                    .unwrap();
                    rows.retain(|id, _| !(from..from + 20).contains(id));
                }
                12..16 => {
                    if model.remove(&name).is_some() {
                        db.drop_table(&name).unwrap();
                    }
                }
                16..18 => {
                    db.checkpoint().unwrap();
                }
                _ => {
                    let keep = random.below(2) == 0;
                    medium = medium.crash(medium.events(), || keep);
                    db = Database::open_on(&medium, options()).unwrap();
                    assert_eq!(found(&db), model, "seed {seed} step {step}");
                }
            }
        }
        drop(db);
        let db = Database::open_on(&medium, options()).unwrap();
        assert_eq!(found(&db), model, "seed {seed}");
    }
}

/// The serial numbers and names of the tables that the logs say were created, and the serial
/// numbers of those that were dropped.
fn definitions(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    inspect::log_records(folder, None, |record| {
        if matches!(record.kind, "table" | "drop") {
            found.extend(record.changes);
        }
        ControlFlow::Continue(())
    })
    .unwrap();
    found
}

#[test]
fn a_serial_number_is_never_given_again() {
    let folder = tempfile::tempdir().unwrap();
    let open = || Database::open(folder.path(), options()).unwrap();
    let db = open();
    for name in ["a", "b", "c"] {
        create(&db, name, 0);
    }
    for name in ["c", "b"] {
        db.drop_table(name).unwrap();
    }
    db.close().unwrap();
    assert_eq!(
        definitions(folder.path()),
        [
            "table 0 \"a\"",
            "table 1 \"b\"",
            "table 2 \"c\"",
            "table 2 is dropped",
            "table 1 is dropped"
        ]
    );
    // No map and no log has a word of the newest tables after this.
    let db = open();
    let a = db.table("a").unwrap();
    for round in 0..3 {
        fill(&db, &a, 0..300, round);
        db.checkpoint().unwrap();
    }
    db.close().unwrap();
    assert_eq!(definitions(folder.path()), [""; 0]);
    for (round, expected) in [(0, "table 3 \"d0\""), (1, "table 4 \"d1\"")] {
        let db = open();
        create(&db, &format!("d{round}"), 1);
        db.drop_table("a").ok();
        db.close().unwrap();
        assert!(definitions(folder.path()).contains(&expected.to_owned()), "{round}");
    }
    let report = inspect::check(folder.path(), None).unwrap();
    assert!(report.damages.is_empty(), "{report:?}");
}

#[test]
fn a_backup_keeps_the_serial_numbers() {
    let (folder, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let copy = copy.path().join("copy");
    let db = Database::open(folder.path(), options()).unwrap();
    for name in ["a", "b", "c"] {
        create(&db, name, 0);
    }
    db.drop_table("c").unwrap();
    db.backup(&copy).unwrap();
    let db = Database::open(&copy, options()).unwrap();
    assert_eq!(db.tables(), ["a", "b"]);
    create(&db, "d", 0);
    db.close().unwrap();
    assert_eq!(definitions(&copy), ["table 3 \"d\""]);
}

/// More tables than a database can have at a time come and go in the logs behind one checkpoint.
#[test]
fn a_log_of_many_tables_that_came_and_went_is_redone() {
    let medium = CrashMedium::default();
    let db = Database::open_on(&medium, options()).unwrap();
    let kept = create(&db, "kept", 1);
    for round in 0..1000 {
        let table = create(&db, "t", round % TABLESPACES);
        fill(&db, &table, 0..5, round.into());
        if round % 100 == 0 {
            fill(&db, &kept, 0..300, round.into());
        }
        db.drop_table("t").unwrap();
    }
    let table = create(&db, "t", 2);
    fill(&db, &table, 3..9, -1);
    let expected = found(&db);
    let medium = medium.crash(medium.events(), || false);
    let db = Database::open_on(&medium, options()).unwrap();
    assert_eq!(found(&db), expected);
    assert!(db.counters().memory_allocated_bytes < 8 << 20, "{:?}", db.counters());
}

fn sizes(medium: &CrashMedium) -> u64 {
    let folders = medium.folders().unwrap();
    let files = folders.iter().map(|folder| medium.folder(folder).unwrap());
    files
        .map(|folder| {
            let names = folder.names().unwrap();
            let size = |name: &String| folder.open(name, Open::Read).unwrap().size().unwrap();
            names.iter().map(size).sum::<u64>()
        })
        .sum()
}

#[test]
fn the_blocks_of_dropped_tables_and_their_log_are_used_again() {
    let medium = CrashMedium::default();
    let db = Database::open_on(&medium, options()).unwrap();
    fill(&db, &create(&db, "kept", 0), 0..300, 1);
    let mut sizes_of = Vec::new();
    for round in 0..40 {
        let table = create(&db, "t", round % TABLESPACES);
        fill(&db, &table, 0..3000, round.into());
        db.checkpoint().unwrap();
        db.drop_table("t").unwrap();
        db.checkpoint().unwrap();
        sizes_of.push(sizes(&medium));
    }
    let (early, late) = (sizes_of[9], *sizes_of.last().unwrap());
    assert!(late <= early + (512 << 10), "{sizes_of:?}");
}

#[test]
fn a_restore_has_the_tables_of_its_moment() {
    let world = CrashMedium::default();
    let [db_at, archive, backup] =
        ["db", "archive", "backup"].map(|name| world.folder(name).unwrap());
    let db = Database::open_archived_on(&*db_at, Some(Arc::clone(&archive)), options()).unwrap();
    let old = create(&db, "t", 1);
    fill(&db, &old, 0..300, 1);
    fill(&db, &create(&db, "gone_before", 2), 0..10, 1);
    db.drop_table("gone_before").unwrap();
    db.backup_on(&*backup).unwrap();
    fill(&db, &old, 0..50, 2);
    let mut moments = vec![(db.mark().unwrap(), found(&db))];
    db.drop_table("t").unwrap();
    moments.push((db.mark().unwrap(), found(&db)));
    let new = create(&db, "t", 2);
    moments.push((db.mark().unwrap(), found(&db)));
    fill(&db, &new, 200..260, 3);
    create(&db, "u", 0);
    moments.push((db.mark().unwrap(), found(&db)));
    db.checkpoint().unwrap();
    db.drop_table("u").unwrap();
    db.close().unwrap();
    let sources = Sources { backup: &*backup, archive: &*archive, data: Some(&*db_at) };
    for (moment, expected) in moments {
        let new = CrashMedium::default();
        restore_on(&sources, &new, Until::Gsn(moment.gsn), options()).unwrap();
        let db = Database::open_on(&new, options()).unwrap();
        assert_eq!(found(&db), expected);
        create(&db, "next", 0);
    }
}
