//! Damaged, lost and full files: there is an error, and nothing is made worse.

use std::time::Duration;

use atoll::machine::medium::crash::Fault;
use atoll::machine::{CrashMedium, Medium};
use atoll::{Database, DatabaseOptions, Durability, Error, Health, LogError, SchemeKind, Value};

use super::scene::{Rows, create, options, row, rows, work};

#[test]
fn a_failed_flush_ends_acknowledgements_and_reading_goes_on() {
    let medium = CrashMedium::default();
    let db = Database::open_on(&medium, options(SchemeKind::default())).unwrap();
    let table = create(&db, "table_0");
    let mut expected = Rows::new();
    work(&db, &table, &mut expected, 0);
    medium.fail(Fault::Sync, 0);
    let failed = db.transaction(|tx| tx.insert(&table, &row(5_000, 0))).unwrap_err();
    assert!(matches!(failed, Error::Log(LogError::Poisoned { .. })), "{failed}");
    medium.mend();
    let failed = db.transaction(|tx| tx.insert(&table, &row(5_001, 0))).unwrap_err();
    assert!(matches!(failed, Error::Log(LogError::Poisoned { .. })), "{failed}");
    let read = db.transaction(|tx| tx.read(&table, &[Value::Int64(1)])).unwrap();
    assert_eq!(read.as_ref(), expected.get(&1));
    drop(db);
    let db = Database::open_on(&medium, options(SchemeKind::default())).unwrap();
    let mut found = rows(&db, "table_0");
    // Of the transactions without acknowledgement, the first may be there.
    found.remove(&5_000);
    assert_eq!(found, expected);
}

/// Waits for a state of the database's health; the deadline ends a test that hangs.
fn wait_for(db: &Database, is_so: impl Fn(&Health) -> bool) -> Health {
    let deadline = std::time::Instant::now() + Duration::from_secs(120);
    loop {
        let health = db.health();
        if is_so(&health) {
            return health;
        }
        assert!(std::time::Instant::now() < deadline, "{health:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_log_that_fails_is_told_to_who_asks_and_nothing_acknowledged_is_lost() {
    for (fault, call) in [(Fault::Full, "write"), (Fault::Sync, "sync")] {
        // Also where no transaction waits for the flush that fails.
        for durability in [Durability::Strict, Durability::Group(Duration::from_millis(1))] {
            let medium = CrashMedium::default();
            let options = DatabaseOptions { durability, ..options(SchemeKind::default()) };
            let db = Database::open_on(&medium, options.clone()).unwrap();
            let table = create(&db, "table_0");
            let mut expected = Rows::new();
            work(&db, &table, &mut expected, 0);
            db.flush().unwrap(); // Acknowledges all commits.
            assert!(db.health().is_well(), "{:?}", db.health());
            medium.fail(fault, 0);
            let insert = |id: i64| db.transaction(|tx| tx.insert(&table, &row(id, 0)));
            let first = insert(5_000);
            assert_eq!(first.is_err(), durability == Durability::Strict, "{first:?}");
            let health = wait_for(&db, |health| !health.logs.is_empty());
            let [LogError::Poisoned { tablespace: 0, cause }] = &health.logs[..] else {
                panic!("{health:?}")
            };
            assert_eq!(cause.what, call);
            // The log stays failed when the medium is repaired, and a checkpoint does not help.
            medium.mend();
            for id in 5_001..5_010 {
                let refused = insert(id).unwrap_err();
                assert!(matches!(refused, Error::Log(LogError::Poisoned { .. })), "{refused}");
            }
            assert!(db.flush().is_err() && db.checkpoint().is_err() && db.checkpoint().is_err());
            let health = db.health();
            assert_eq!((health.logs.len(), health.checkpoint.as_ref().unwrap().in_a_row), (1, 2));
            // One message, though two operations have failed.
            let [told] = &health.troubles()[..] else { panic!("{:?}", health.troubles()) };
            assert!(told.contains("a flush failed") && told.contains(&cause.path), "{told}");
            // Reads go on, also of changes that the flush has lost.
            let mut seen = rows(&db, "table_0");
            assert_eq!(seen.remove(&5_000), Some(row(5_000, 0)));
            assert_eq!(seen, expected);
            let crashed = medium.crash(medium.events(), || false);
            let again = Database::open_on(&crashed, options).unwrap();
            assert_eq!(rows(&again, "table_0"), expected, "{call} {durability}");
            assert!(again.health().is_well());
        }
    }
}

#[test]
fn what_fails_where_nobody_waits_is_told_until_it_is_done() {
    let medium = CrashMedium::default();
    let db = Database::open_on(&medium, options(SchemeKind::default())).unwrap();
    let table = create(&db, "table_0");
    let mut expected = Rows::new();
    work(&db, &table, &mut expected, 0);
    // The next file of a log, which is prepared ahead of need.
    medium.fail(Fault::Create, 0);
    for id in 10_000.. {
        let mut new = row(id, 0);
        new[1] = Value::Text("y".repeat(10_000));
        if db.transaction(|tx| tx.insert(&table, &new)).is_err() {
            break;
        }
        expected.insert(id, new);
    }
    wait_for(&db, |health| health.files.is_some());
    // A checkpoint also needs a file, for its map.
    for in_a_row in 1..=3 {
        assert!(db.checkpoint().is_err());
        let failed = db.health().checkpoint.unwrap();
        assert_eq!(failed.in_a_row, in_a_row);
        assert!(failed.cause.contains("free some space"), "{}", failed.cause);
    }
    let health = db.health();
    assert!(health.logs.is_empty() && health.troubles().len() == 2, "{health:?}");
    medium.mend();
    db.checkpoint().unwrap();
    wait_for(&db, Health::is_well);
    assert_eq!(rows(&db, "table_0"), expected);
}

#[test]
fn a_full_medium_stops_changes_and_nothing_else() {
    let medium = CrashMedium::default();
    let db = Database::open_on(&medium, options(SchemeKind::default())).unwrap();
    let table = create(&db, "table_0");
    let mut expected = Rows::new();
    work(&db, &table, &mut expected, 0);
    medium.fail(Fault::Create, 0);
    let mut id = 10_000;
    let full = loop {
        let mut new = row(id, 0);
        new[1] = Value::Text("y".repeat(50_000));
        match db.transaction(|tx| tx.insert(&table, &new)) {
            Ok(()) => expected.insert(id, new),
            Err(error) => break error,
        };
        id += 1;
    };
    assert!(full.to_string().contains("free some space"), "{full}");
    assert_eq!(rows(&db, "table_0"), expected);
    medium.mend();
    let new = row(20_000, 0);
    db.transaction(|tx| tx.insert(&table, &new)).unwrap();
    expected.insert(20_000, new);
    let killed = medium.crash(medium.events(), || true);
    let db = Database::open_on(&killed, options(SchemeKind::default())).unwrap();
    assert_eq!(rows(&db, "table_0"), expected);
}

#[test]
fn a_damaged_checkpoint_is_helped_by_the_one_before() {
    let medium = CrashMedium::default();
    let db = Database::open_on(&medium, options(SchemeKind::default())).unwrap();
    let table = create(&db, "table_0");
    let mut expected = Rows::new();
    for round in 0..3 {
        work(&db, &table, &mut expected, round);
        db.checkpoint().unwrap();
    }
    work(&db, &table, &mut expected, 3);
    db.close().unwrap();
    let newest = |kind: &str| {
        let names = medium.folder("node-0").unwrap().names().unwrap();
        let name = names.into_iter().rev().find(|name| name.starts_with(kind));
        format!("node-0/{}", name.unwrap())
    };
    for (kind, note) in [("step-", "checkpoint 3 cannot be used"), ("map-", "a copy was used")] {
        let damaged = medium.copy();
        damaged.damage(&newest(kind), 20, 1);
        let db = Database::open_on(&damaged, options(SchemeKind::default())).unwrap();
        assert_eq!(rows(&db, "table_0"), expected);
        assert!(db.recovery().unwrap().notes[0].contains(note), "{:?}", db.recovery());
    }
}

#[test]
fn a_lost_control_file_is_told_and_nothing_is_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let db = Database::open(folder.path(), options(SchemeKind::default())).unwrap();
    create(&db, "table_0");
    db.close().unwrap();
    assert!(atoll::inspect::check(folder.path(), None).unwrap().damages.is_empty());
    let control = folder.path().join("control");
    let kept = std::fs::read(&control).unwrap();
    std::fs::remove_file(&control).unwrap();
    let error = Database::open(folder.path(), options(SchemeKind::default())).unwrap_err();
    assert!(matches!(error, Error::Log(LogError::Missing { .. })), "{error}");
    std::fs::write(&control, kept).unwrap();
    let db = Database::open(folder.path(), options(SchemeKind::default())).unwrap();
    assert_eq!(db.tables(), ["table_0"]);
}

#[test]
fn what_is_missing_is_told_and_not_made() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let db = Database::open(path, options(SchemeKind::default())).unwrap();
    create(&db, "table_0");
    db.checkpoint().unwrap();
    db.close().unwrap();
    for name in ["node-1", "node-0/home"] {
        let (from, aside) = (path.join(name), path.join("aside"));
        std::fs::rename(&from, &aside).unwrap();
        let error = Database::open(path, options(SchemeKind::default())).unwrap_err();
        let is_told =
            matches!(&error, Error::Log(LogError::Missing { file }) if file.ends_with(name));
        assert!(is_told, "{name}: {error}");
        assert!(!from.exists());
        std::fs::rename(&aside, &from).unwrap();
    }
    // An interrupted backup is not a database.
    std::fs::rename(path.join("control"), path.join("control.copy")).unwrap();
    let error = Database::open(path, options(SchemeKind::default())).unwrap_err();
    assert!(matches!(error, Error::Log(LogError::CutShort { .. })), "{error}");
    std::fs::rename(path.join("control.copy"), path.join("control")).unwrap();
    let db = Database::open(path, options(SchemeKind::default())).unwrap();
    assert_eq!(db.tables(), ["table_0"]);
}
