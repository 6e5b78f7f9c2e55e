//! Checkpoints and backups.

use std::time::Duration;

use atoll::machine::CrashMedium;
use atoll::{
    Column, DataType, Database, DatabaseOptions, Durability, Error, LogError, Schema, SchemeKind,
    Value,
};

use super::scene::{Rows, create, options, row, rows, work};

#[test]
fn a_checkpoint_writes_what_has_changed_and_shortens_the_logs() {
    let medium = CrashMedium::default();
    let db = Database::open_on(&medium, options(SchemeKind::default())).unwrap();
    let table = create(&db, "table_0");
    let mut session = db.session().unwrap();
    for base in 0..40 {
        session
            .transaction(|tx| {
                (base * 500..base * 500 + 500).try_for_each(|id| tx.insert(&table, &row(id, 0)))
            })
            .unwrap();
    }
    let first = db.checkpoint().unwrap();
    assert_eq!((first.segments, first.segments_changed), (3, 3));
    let second = db.checkpoint().unwrap();
    assert_eq!((second.segments_changed, second.bytes), (0, 0));
    session
        .transaction(|tx| {
            let changes = [(2, Value::Int32(1))];
            tx.update(&table, &[Value::Int64(5)], &changes)?;
            Ok(())
        })
        .unwrap();
    let third = db.checkpoint().unwrap();
    // One line of values, and the metadata of its place; the index is not in checkpoints.
    assert_eq!((third.segments_changed, third.bytes), (1, 0));
    assert!((64..256).contains(&third.file_bytes), "{third:?}");
    let files = |medium: &CrashMedium| {
        let all = medium.all_files();
        all.into_iter().filter(|(name, _)| name.starts_with("node-0/log")).count()
    };
    let before = files(&medium);
    for round in 1..30 {
        session
            .transaction(|tx| {
                for id in 0..200 {
                    let new = row(id, round);
                    let changes: Vec<_> = (1..5).map(|at| (at, new[at].clone())).collect();
                    tx.update(&table, &[Value::Int64(id)], &changes)?;
                }
                Ok(())
            })
            .unwrap();
        if round % 10 == 0 {
            db.checkpoint().unwrap();
        }
    }
    assert!(files(&medium) <= before + 5, "{} files", files(&medium));
    let expected = rows(&db, "table_0");
    drop(session);
    drop(db);
    let db = Database::open_on(&medium, options(SchemeKind::default())).unwrap();
    assert_eq!(rows(&db, "table_0"), expected);
    assert!(db.recovery().unwrap().redone < 15, "{:?}", db.recovery());
}

#[test]
fn a_transaction_that_is_open_across_a_checkpoint_is_not_forgotten() {
    for scheme in SchemeKind::ALL.iter().copied() {
        let medium = CrashMedium::default();
        let db = Database::open_on(&medium, options(scheme)).unwrap();
        let table = create(&db, "table_0");
        let mut expected = Rows::new();
        work(&db, &table, &mut expected, 0);
        db.checkpoint().unwrap();
        let mut open = db.begin().unwrap();
        open.update(&table, &[Value::Int64(1)], &[(2, Value::Int32(-1))]).unwrap();
        open.insert(&table, &row(1_000, 0)).unwrap();
        open.delete(&table, &[Value::Int64(4)]).unwrap();
        db.checkpoint().unwrap();
        let killed = medium.crash(medium.events(), || true);
        match open.commit() {
            Ok(()) => {}
            Err(atoll::TxnError::Abort(atoll::AbortReason::Cut)) => continue,
            Err(error) => panic!("{scheme}: {error}"),
        }
        let without = Database::open_on(&killed, options(scheme)).unwrap();
        assert_eq!(rows(&without, "table_0"), expected, "{scheme}");
        expected.get_mut(&1).unwrap()[2] = Value::Int32(-1);
        expected.insert(1_000, row(1_000, 0));
        expected.remove(&4);
        let killed = medium.crash(medium.events(), || true);
        let with = Database::open_on(&killed, options(scheme)).unwrap();
        assert_eq!(rows(&with, "table_0"), expected, "{scheme}");
        // Through another checkpoint, which must not regard the stored values as unchanged.
        db.checkpoint().unwrap();
        let killed = medium.crash(medium.events(), || true);
        let again = Database::open_on(&killed, options(scheme)).unwrap();
        assert_eq!(rows(&again, "table_0"), expected, "{scheme}");
    }
}

#[test]
fn long_values_of_rows_that_come_back_are_kept_by_checkpoints() {
    let columns = vec![Column::new("id", DataType::Text), Column::nullable("text", DataType::Text)];
    let schema = Schema::new(columns, &["id"]).unwrap();
    for scheme in SchemeKind::ALL.iter().copied() {
        let medium = CrashMedium::default();
        let db = Database::open_on(&medium, options(scheme)).unwrap();
        let table = db.create_table("texts", schema.clone()).unwrap();
        let text = |id: i64, what: &str| Value::Text(format!("{what} number {id}, which is long"));
        let row = |id: i64| vec![text(id, "key"), text(id, "value")];
        let all = |ids: std::ops::Range<i64>| {
            db.transaction(|tx| ids.clone().try_for_each(|id| tx.insert(&table, &row(id)))).unwrap()
        };
        all(0..20);
        let delete = |id: i64| db.transaction(|tx| tx.delete(&table, &[text(id, "key")])).unwrap();
        assert!(delete(19) && delete(7));
        db.checkpoint().unwrap();
        // A transaction that is open at the cut, in the free slot.
        let mut open = db.begin().unwrap();
        open.insert(&table, &row(30)).unwrap();
        open.insert(&table, &row(19)).unwrap();
        db.checkpoint().unwrap();
        let is_there = open.commit().is_ok();
        all(7..8);
        db.checkpoint().unwrap();
        let killed = medium.crash(medium.events(), || true);
        let db = Database::open_on(&killed, options(scheme)).unwrap();
        let table = db.table("texts").unwrap();
        for id in (0..19).chain([30, 19].into_iter().filter(|_| is_there)) {
            let found = db.transaction(|tx| tx.read(&table, &[text(id, "key")])).unwrap();
            assert_eq!(found, Some(row(id)), "{scheme} {id}");
        }
    }
}

#[test]
fn a_backup_of_a_database_at_work_is_a_database() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let db = Database::open(&path("db"), options(SchemeKind::default())).unwrap();
    let table = create(&db, "table_0");
    create(&db, "table_1");
    let mut expected = Rows::new();
    work(&db, &table, &mut expected, 0);
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut session = db.session().unwrap();
            let mut id = 10_000;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                // Two rows at a time, so that half a transaction would be visible.
                session
                    .transaction(|tx| {
                        (id..id + 2).try_for_each(|id| tx.insert(&table, &row(id, 0)))
                    })
                    .unwrap();
                id += 2;
            }
        });
        for number in 0..3 {
            let to = path(&format!("backup_{number}"));
            let report = db.backup(&to).unwrap();
            assert!(report.bytes > 0);
            assert!(atoll::inspect::check(&to, None).unwrap().damages.is_empty());
            let error = db.backup(&to).unwrap_err();
            assert!(matches!(error, Error::Log(LogError::NotEmpty { .. })), "{error}");
            let copy = Database::open(&to, options(SchemeKind::ALL[4])).unwrap();
            let mut found = rows(&copy, "table_0");
            let late = found.split_off(&10_000);
            assert_eq!(found, expected);
            assert!(late.len().is_multiple_of(2), "{} rows of pairs", late.len());
            // The copy can be used further.
            let table = copy.table("table_0").unwrap();
            copy.transaction(|tx| tx.insert(&table, &row(5_000, 0))).unwrap();
            drop(copy);
            let copy = Database::open(&to, options(SchemeKind::default())).unwrap();
            assert_eq!(rows(&copy, "table_0").get(&5_000), Some(&row(5_000, 0)));
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

/// Waits until `count` checkpoints have been taken; the deadline ends a test that would hang.
fn wait_for_checkpoints(db: &Database, count: u64) {
    let deadline = std::time::Instant::now() + Duration::from_secs(120);
    while db.checkpoints() < count {
        assert!(std::time::Instant::now() < deadline, "no checkpoint is taken");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn checkpoints_are_taken_by_time_while_something_is_logged() {
    let medium = CrashMedium::default();
    let options = DatabaseOptions {
        checkpoint_log_bytes: u64::MAX,
        checkpoint_interval: Some(Duration::from_millis(1)),
        // A flush by the checkpoint itself must not count as new log.
        durability: Durability::None,
        ..options(SchemeKind::default())
    };
    let db = Database::open_on(&medium, options.clone()).unwrap();
    // No texts, because the keeper would move them when it compacts sparse blocks.
    let columns = vec![Column::new("id", DataType::Int64), Column::new("round", DataType::Int32)];
    let schema = Schema::new(columns, &["id"]).unwrap();
    let table = db.create_table("numbers", schema).unwrap();
    let insert = |round| {
        let row = [Value::Int64(i64::from(round)), Value::Int32(round)];
        db.transaction(|tx| tx.insert(&table, &row)).unwrap();
    };
    for round in 0..3 {
        let before = db.checkpoints();
        insert(round);
        wait_for_checkpoints(&db, before + 1);
    }
    insert(3);
    let last = db.checkpoint().unwrap().number;
    assert_eq!(db.checkpoints(), last);
    // Nothing was logged since, so no checkpoint is due, however long it takes.
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(db.checkpoints(), last);
    let killed = medium.crash(medium.events(), || false);
    let db = Database::open_on(&killed, options).unwrap();
    assert_eq!(db.recovery().unwrap().checkpoint, last);
    assert_eq!((db.recovery().unwrap().redone, db.recovery().unwrap().rows), (0, 4));
}

#[test]
fn a_backup_counts_as_a_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let db = Database::open(&folder.path().join("db"), options(SchemeKind::default())).unwrap();
    create(&db, "table_0");
    assert_eq!(db.checkpoints(), 0);
    let report = db.backup(&folder.path().join("copy")).unwrap();
    assert_eq!((db.checkpoints(), report.checkpoint.number), (1, 1));
}
