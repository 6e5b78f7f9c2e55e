//! Durable databases: what was committed is there again, however the database ended.
#![allow(clippy::unwrap_used, missing_docs)]

use std::collections::BTreeMap;
use std::time::Duration;

use atoll::machine::medium::crash::Fault;
use atoll::machine::{CrashMedium, Medium};
use atoll::{
    Column, DataType, Database, DatabaseOptions, Durability, Error, IndexSpec, LogError,
    LogsOptions, Planted, Schema, SchemeKind, Table, TableOptions, Value,
};

const LOGS: LogsOptions = LogsOptions {
    file_bytes: 256 << 10,
    ring_bytes: 4 << 20,
    in_turns: false,
    planted: Planted::Nothing,
};

fn options(scheme: SchemeKind) -> DatabaseOptions {
    DatabaseOptions {
        scheme,
        partitions: Some(2),
        tablespaces: Some(2),
        memory_limit_bytes: Some(256 << 20),
        logs: LOGS,
        ..DatabaseOptions::default()
    }
}

fn schema() -> Schema {
    let columns = vec![
        Column::new("id", DataType::Int64),
        Column::nullable("name", DataType::Text),
        Column::new("amount", DataType::Int32),
        Column::nullable("is_open", DataType::Bool),
        Column::nullable("price", DataType::Float64),
    ];
    Schema::new(columns, &["id"]).unwrap()
}

fn row(id: i64, round: i64) -> Vec<Value> {
    let name = match (id + round) % 4 {
        0 => Value::Null,
        1 => Value::Text("short".into()),
        _ => Value::Text(format!("a longer name of {id} in round {round}")),
    };
    let is_open = if id % 3 == 0 { Value::Null } else { Value::Bool((id + round) % 2 == 0) };
    let amount = Value::Int32((id * 7 + round) as i32);
    let price = if id % 5 == 0 { Value::Null } else { Value::Float64(id as f64 / 3.0) };
    vec![Value::Int64(id), name, amount, is_open, price]
}

fn create(db: &Database, name: &str) -> Table {
    let indexes =
        vec![IndexSpec { name: "by_amount".into(), columns: vec!["amount".into()], unique: false }];
    let options = TableOptions { indexes, ..TableOptions::default() };
    db.create_table_with(name, schema(), &options).unwrap()
}

type Rows = BTreeMap<i64, Vec<Value>>;

/// All rows, by snapshot; and that keys and the index find them.
fn rows(db: &Database, name: &str) -> Rows {
    let table = db.table(name).unwrap();
    let index = table.index("by_amount").unwrap();
    let mut by_index = Rows::new();
    let mut by_key = Rows::new();
    let mut session = db.session().unwrap();
    session
        .transaction(|tx| {
            by_index.clear();
            by_key.clear();
            tx.scan(
                &index,
                atoll::Range::ALL,
                |row| (0..5).map(|at| row.value(at)).collect::<Vec<_>>(),
                |row| {
                    let Value::Int64(id) = row[0] else { panic!("a key is a number") };
                    assert!(by_index.insert(id, row).is_none());
                    std::ops::ControlFlow::Continue(())
                },
            )?;
            for id in by_index.keys() {
                let row = tx.read(&table, &[Value::Int64(*id)])?.unwrap();
                by_key.insert(*id, row);
            }
            Ok(())
        })
        .unwrap();
    assert_eq!(by_index, by_key);
    let snapshot = db.snapshot().unwrap();
    assert_eq!(snapshot.table(name).unwrap().row_count().unwrap(), by_key.len() as u64);
    by_key
}

/// Inserts, updates and deletes; returns what should be there.
fn work(db: &Database, table: &Table, expected: &mut Rows, round: i64) {
    let mut session = db.session().unwrap();
    for base in 0..20 {
        let mut next = expected.clone();
        session
            .transaction(|tx| {
                next = expected.clone();
                for id in (base * 10..base * 10 + 10).filter(|id| (id + round) % 3 != 2) {
                    let key = [Value::Int64(id)];
                    let new = row(id, round);
                    match next.get(&id) {
                        None => tx.insert(table, &new)?,
                        Some(_) if (id + round) % 7 == 0 => {
                            tx.delete(table, &key)?;
                            next.remove(&id);
                            continue;
                        }
                        Some(_) => {
                            let changes: Vec<_> = (1..5).map(|at| (at, new[at].clone())).collect();
                            assert!(tx.update(table, &key, &changes)?);
                        }
                    }
                    next.insert(id, new);
                }
                Ok(())
            })
            .unwrap();
        *expected = next;
    }
}

#[test]
fn every_scheme_finds_everything_again_after_closing_and_without() {
    for scheme in SchemeKind::ALL.iter().copied() {
        let medium = CrashMedium::default();
        let mut expected = [Rows::new(), Rows::new(), Rows::new()];
        for round in 0..5 {
            let db = Database::open_on(&medium, options(scheme)).unwrap();
            let report = db.recovery().unwrap();
            assert_eq!(report.created, round == 0, "{scheme}");
            assert!(report.notes.is_empty(), "{:?}", report.notes);
            for (number, expected) in expected.iter_mut().enumerate() {
                let name = format!("table_{number}");
                let table = if round == 0 { create(&db, &name) } else { db.table(&name).unwrap() };
                assert_eq!(&rows(&db, &name), expected, "{scheme} round {round}");
                work(&db, &table, expected, round);
                assert_eq!(&rows(&db, &name), expected, "{scheme} round {round}");
            }
            if round % 2 == 1 {
                let report = db.checkpoint().unwrap();
                assert!(report.bytes > 0 && report.segments >= 3, "{report:?}");
                work(&db, &db.table("table_1").unwrap(), &mut expected[1], round + 10);
            }
            if round % 3 == 0 {
                db.close().unwrap();
            } else {
                // As if the process had been killed.
                let killed = medium.crash(medium.events(), || true);
                drop(db);
                let db = Database::open_on(&killed, options(scheme)).unwrap();
                assert!(!db.recovery().unwrap().was_closed);
                for (number, expected) in expected.iter().enumerate() {
                    assert_eq!(&rows(&db, &format!("table_{number}")), expected, "{scheme}");
                }
            }
        }
    }
}

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
    // One line of values, and what says where it belongs; the index is not kept.
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
fn a_transaction_larger_than_a_block_is_there_or_not() {
    for scheme in [SchemeKind::default(), SchemeKind::ALL[5]] {
        let medium = CrashMedium::default();
        let db = Database::open_on(&medium, options(scheme)).unwrap();
        let table = create(&db, "table_0");
        let long = Value::Text("x".repeat(3 << 20));
        db.transaction(|tx| {
            (0..9_000).try_for_each(|id| tx.insert(&table, &row(id, 0)))?;
            let mut giant = row(9_000, 0);
            giant[1] = long.clone();
            tx.insert(&table, &giant)
        })
        .unwrap();
        let done = medium.events();
        // Another one that spills and is rolled back, across a checkpoint.
        let mut open = db.begin().unwrap();
        (10_000..19_000).try_for_each(|id| open.insert(&table, &row(id, 0))).unwrap();
        db.checkpoint().unwrap();
        open.rollback();
        let expected = rows(&db, "table_0");
        assert_eq!(expected.len(), 9_001);
        assert_eq!(expected[&9_000][1], long);
        for events in [done, medium.events()] {
            let killed = medium.crash(events, || true);
            let db = Database::open_on(&killed, options(scheme)).unwrap();
            assert_eq!(rows(&db, "table_0"), expected);
        }
        // Before its commit is durable, nothing of it is there.
        let killed = medium.crash(done - 1, || false);
        let db = Database::open_on(&killed, options(scheme)).unwrap();
        assert_eq!(rows(&db, "table_0").len(), 0);
    }
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
        // And once more through a checkpoint, which must not take what it stored for unchanged.
        db.checkpoint().unwrap();
        let killed = medium.crash(medium.events(), || true);
        let again = Database::open_on(&killed, options(scheme)).unwrap();
        assert_eq!(rows(&again, "table_0"), expected, "{scheme}");
    }
}

#[test]
fn weaker_durabilities_lose_no_more_than_their_end() {
    for durability in [Durability::Group(Duration::from_millis(1)), Durability::None] {
        let medium = CrashMedium::default();
        let options = DatabaseOptions { durability, ..options(SchemeKind::default()) };
        let db = Database::open_on(&medium, options.clone()).unwrap();
        let table = create(&db, "table_0");
        let mut expected = Rows::new();
        work(&db, &table, &mut expected, 0);
        db.flush().unwrap();
        let killed = medium.crash(medium.events(), || false);
        let found = Database::open_on(&killed, options.clone()).unwrap();
        assert_eq!(rows(&found, "table_0"), expected);
        db.close().unwrap();
        let db = Database::open_on(&medium, options).unwrap();
        assert!(db.recovery().unwrap().was_closed);
        assert_eq!(rows(&db, "table_0"), expected);
    }
}

#[test]
fn one_folder_is_open_once() {
    let folder = tempfile::tempdir().unwrap();
    let db = Database::open(folder.path(), options(SchemeKind::default())).unwrap();
    let error = Database::open(folder.path(), options(SchemeKind::default())).unwrap_err();
    let pid = std::process::id();
    assert!(matches!(error, Error::InUse { pid: Some(holder), .. } if holder == pid), "{error}");
    drop(db);
    Database::open(folder.path(), options(SchemeKind::default())).unwrap();
}

#[test]
fn a_folder_that_is_no_database_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("thesis.txt"), "important").unwrap();
    let error = Database::open(folder.path(), options(SchemeKind::default())).unwrap_err();
    assert!(matches!(error, Error::Log(LogError::NoDatabase { .. })), "{error}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    // Not even one that has the name of something of ours.
    let other = tempfile::tempdir().unwrap();
    std::fs::write(other.path().join("lock"), "of a door").unwrap();
    std::fs::write(other.path().join("key"), "to it").unwrap();
    assert!(Database::open(other.path(), options(SchemeKind::default())).is_err());
    assert_eq!(std::fs::read_to_string(other.path().join("lock")).unwrap(), "of a door");
}

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
    // Of what was never acknowledged, the first may be there.
    found.remove(&5_000);
    assert_eq!(found, expected);
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
fn a_damaged_checkpoint_is_helped_by_the_one_before_and_other_damage_is_told() {
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
    // A bit anywhere: told, or not needed.
    for (name, size) in medium.all_files() {
        for at in (0..size).step_by((size as usize / 60).max(1)) {
            let damaged = medium.copy();
            damaged.damage(&name, at, 0x20);
            match Database::open_on(&damaged, options(SchemeKind::default())) {
                Ok(db) => assert_eq!(rows(&db, "table_0"), expected, "{name} at {at}"),
                Err(Error::Log(_)) => {}
                Err(error) => panic!("{name} at {at}: {error}"),
            }
        }
        let cut = medium.copy();
        cut.truncate(&name, size / 2);
        match Database::open_on(&cut, options(SchemeKind::default())) {
            Ok(db) => assert_eq!(rows(&db, "table_0"), expected, "{name} cut"),
            Err(Error::Log(_)) => {}
            Err(error) => panic!("{name} cut: {error}"),
        }
    }
}

#[test]
fn a_crash_while_a_database_is_made_or_opened_again_leaves_one_that_opens() {
    let medium = CrashMedium::default();
    let db = Database::open_on(&medium, options(SchemeKind::default())).unwrap();
    let made = medium.events();
    let table = create(&db, "table_0");
    let mut expected = Rows::new();
    work(&db, &table, &mut expected, 0);
    db.close().unwrap();
    let closed = medium.events();
    drop(Database::open_on(&medium, options(SchemeKind::default())).unwrap());
    let mut turn = 0u64;
    for events in (0..=made).chain(closed..=medium.events()) {
        for chance in [0, 1, 2, 4] {
            let crashed = medium.crash(events, || {
                turn = turn.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (turn >> 33) % 4 < chance
            });
            let db = Database::open_on(&crashed, options(SchemeKind::default()))
                .unwrap_or_else(|error| panic!("event {events} chance {chance}: {error}"));
            if events >= closed {
                assert_eq!(rows(&db, "table_0"), expected);
            } else {
                create(&db, "table_0");
            }
        }
    }
}

#[test]
fn tables_of_a_log_are_found_by_the_others() {
    // Nothing but descriptions in the first log, and changes in the second.
    for _ in 0..20 {
        let medium = CrashMedium::default();
        let db = Database::open_on(&medium, options(SchemeKind::default())).unwrap();
        create(&db, "table_0");
        let table = create(&db, "table_1");
        let mut expected = Rows::new();
        work(&db, &table, &mut expected, 0);
        let killed = medium.crash(medium.events(), || true);
        let db = Database::open_on(&killed, options(SchemeKind::default())).unwrap();
        assert_eq!(rows(&db, "table_1"), expected);
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
        // One that was open at the cut, in the slot that is free.
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
fn what_is_left_of_a_closed_database_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let db = Database::open(folder.path(), options(SchemeKind::default())).unwrap();
    let table = create(&db, "table_0");
    let mut session = db.session().unwrap();
    session.transaction(|tx| tx.insert(&table, &row(1, 0))).unwrap();
    drop(db);
    let again = Database::open(folder.path(), options(SchemeKind::default())).unwrap();
    let late = session.transaction(|tx| tx.insert(&table, &row(2, 0))).unwrap_err();
    assert!(matches!(late, Error::Log(LogError::Closed)), "{late}");
    let read = session.transaction(|tx| tx.read(&table, &[Value::Int64(1)])).unwrap();
    assert_eq!(read, Some(row(1, 0)));
    assert_eq!(rows(&again, "table_0").len(), 1);
    // Nor does a clone, whose files are somebody else's now.
    let clone = again.clone();
    again.close().unwrap();
    let third = Database::open(folder.path(), options(SchemeKind::default())).unwrap();
    let closed = |error: Error| assert!(matches!(error, Error::Log(LogError::Closed)), "{error}");
    closed(clone.checkpoint().unwrap_err());
    closed(clone.backup(&folder.path().join("copy")).unwrap_err());
    closed(clone.create_table("late", schema()).err().unwrap());
    clone.flush().unwrap();
    drop(clone);
    assert_eq!(third.tables(), ["table_0"]);
}

#[test]
fn a_table_that_was_refused_is_not_in_the_log() {
    let medium = CrashMedium::default();
    let db = Database::open_on(&medium, options(SchemeKind::default())).unwrap();
    let index = |name: &str, column: &str| IndexSpec {
        name: name.into(),
        columns: vec![column.into()],
        unique: false,
    };
    let wrong = [
        vec![index("twice", "amount"), index("twice", "price")],
        vec![index("unknown", "colour")],
        (0..70).map(|at| index(&format!("index_{at}"), "amount")).collect(),
    ];
    for indexes in wrong {
        let options = TableOptions { indexes, ..TableOptions::default() };
        assert!(db.create_table_with("wrong", schema(), &options).is_err());
    }
    let far = TableOptions { tablespace: Some(2), ..TableOptions::default() };
    let error = db.create_table_with("far", schema(), &far).err().unwrap();
    assert!(matches!(error, Error::Log(LogError::NoTablespace(2, 2))), "{error}");
    assert!(db.create_table("bad name\0", schema()).is_err());
    let table = create(&db, "table_0");
    let mut expected = Rows::new();
    work(&db, &table, &mut expected, 0);
    db.checkpoint().unwrap();
    let killed = medium.crash(medium.events(), || true);
    let db = Database::open_on(&killed, options(SchemeKind::default())).unwrap();
    assert_eq!(db.tables(), ["table_0"]);
    assert_eq!(rows(&db, "table_0"), expected);
}

#[test]
fn a_lost_control_file_is_told_and_nothing_is_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let db = Database::open(folder.path(), options(SchemeKind::default())).unwrap();
    create(&db, "table_0");
    db.close().unwrap();
    assert!(atoll::inspect::check(folder.path()).unwrap().damages.is_empty());
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
fn a_check_tells_every_damage_and_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    for round in 0..3 {
        let db = Database::open(path, options(SchemeKind::default())).unwrap();
        let table = if round == 0 { create(&db, "table_0") } else { db.table("table_0").unwrap() };
        let mut expected = rows(&db, "table_0");
        work(&db, &table, &mut expected, round);
        db.checkpoint().unwrap();
        work(&db, &table, &mut expected, round + 1);
        db.close().unwrap();
        let report = atoll::inspect::check(path).unwrap();
        assert_eq!(report.damages, Vec::<String>::new());
        assert!(report.home_blocks > 0 && report.log_blocks > 0, "{report:?}");
    }
    let mut places = Vec::new();
    atoll::inspect::log_records(path, Some(0), |record| {
        places.push(record.lsn as usize);
        std::ops::ControlFlow::Continue(())
    })
    .unwrap();
    assert!(places.len() > 20, "{places:?}");
    for name in ["control", "node-0/home", "node-0/log-000000000000"] {
        let file = path.join(name);
        let sound = std::fs::read(&file).unwrap();
        let mut bytes = sound.clone();
        match name {
            "control" => bytes[50] ^= 0x40,
            // Every block, since some are free.
            "node-0/home" => bytes.iter_mut().step_by(4096).for_each(|byte| *byte ^= 0x40),
            _ => bytes[places[places.len() / 2] + 50] ^= 0x40,
        }
        std::fs::write(&file, &bytes).unwrap();
        let report = atoll::inspect::check(path).unwrap();
        assert!(!report.damages.is_empty(), "{name}");
        let named = report.damages.iter().all(|damage| damage.contains(name));
        assert!(named, "{name}: {:?}", report.damages);
        std::fs::write(&file, &sound).unwrap();
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
                // Two at a time, so that a half is seen.
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
            assert!(atoll::inspect::check(&to).unwrap().damages.is_empty());
            let error = db.backup(&to).unwrap_err();
            assert!(matches!(error, Error::Log(LogError::NotEmpty { .. })), "{error}");
            let copy = Database::open(&to, options(SchemeKind::ALL[4])).unwrap();
            let mut found = rows(&copy, "table_0");
            let late = found.split_off(&10_000);
            assert_eq!(found, expected);
            assert!(late.len().is_multiple_of(2), "{} rows of pairs", late.len());
            // It goes on by itself.
            let table = copy.table("table_0").unwrap();
            copy.transaction(|tx| tx.insert(&table, &row(5_000, 0))).unwrap();
            drop(copy);
            let copy = Database::open(&to, options(SchemeKind::default())).unwrap();
            assert_eq!(rows(&copy, "table_0").get(&5_000), Some(&row(5_000, 0)));
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
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
    // A backup that was cut short is no database.
    std::fs::rename(path.join("control"), path.join("control.copy")).unwrap();
    let error = Database::open(path, options(SchemeKind::default())).unwrap_err();
    assert!(matches!(error, Error::Log(LogError::CutShort { .. })), "{error}");
    std::fs::rename(path.join("control.copy"), path.join("control")).unwrap();
    let db = Database::open(path, options(SchemeKind::default())).unwrap();
    assert_eq!(db.tables(), ["table_0"]);
}

#[test]
fn options_that_make_no_sense_are_refused_before_anything_is_made() {
    for (file_bytes, ring_bytes) in [
        (0, 4 << 20),
        (100_000, 4 << 20),
        (1 << 20, 1 << 20),
        (1 << 20, 3 << 20),
        (1 << 20, 1 << 62),
    ] {
        let medium = CrashMedium::default();
        let logs = LogsOptions { file_bytes, ring_bytes, ..LogsOptions::default() };
        let options = DatabaseOptions { logs, ..options(SchemeKind::default()) };
        let error = Database::open_on(&medium, options).unwrap_err();
        assert!(matches!(error, Error::Log(LogError::Options { .. })), "{error}");
        assert!(medium.all_files().is_empty());
    }
}

/// Waits until so many checkpoints have been taken; the deadline is for a test that would hang.
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
        // What a checkpoint has to flush is not taken for something new.
        durability: Durability::None,
        ..options(SchemeKind::default())
    };
    let db = Database::open_on(&medium, options.clone()).unwrap();
    // No texts, which the database would move when it finds that they keep sparse blocks.
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
    // Nothing has been logged since, so none is due, however long it takes.
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

#[test]
fn a_table_stays_in_its_tablespace_and_one_that_is_not_there_is_refused() {
    let make = |db: &Database, name: &str, tablespace| {
        let options = TableOptions { tablespace: Some(tablespace), ..TableOptions::default() };
        db.create_table_with(name, schema(), &options)
    };
    let medium = CrashMedium::default();
    let db = Database::open_on(&medium, options(SchemeKind::default())).unwrap();
    assert_eq!(db.tablespaces(), 2);
    make(&db, "first", 1).unwrap();
    make(&db, "second", 1).unwrap();
    db.checkpoint().unwrap();
    make(&db, "third", 0).unwrap();
    db.close().unwrap();
    let db = Database::open_on(&medium, options(SchemeKind::default())).unwrap();
    let of = |name: &str| db.table(name).unwrap().tablespace();
    assert_eq!([of("first"), of("second"), of("third")], [1, 1, 0]);
    let memory_only = DatabaseOptions { nodes: Some(3), ..options(SchemeKind::default()) };
    let db = Database::create(memory_only).unwrap();
    assert_eq!(db.tablespaces(), 3);
    assert_eq!(make(&db, "last", 2).unwrap().tablespace(), 2);
    let error = make(&db, "far", 3).err().unwrap();
    assert!(matches!(error, Error::Log(LogError::NoTablespace(3, 3))), "{error}");
    assert_eq!(db.tables(), ["last"]);
}

#[test]
fn tablespaces_lie_in_the_folders_that_were_named() {
    let root = tempfile::tempdir().unwrap();
    let (data, other, used) =
        (root.path().join("db"), root.path().join("other"), root.path().join("used"));
    let open = |folders: Vec<std::path::PathBuf>| {
        let options = DatabaseOptions { node_folders: folders, ..options(SchemeKind::default()) };
        Database::open(&data, options)
    };
    std::fs::create_dir(&used).unwrap();
    std::fs::write(used.join("photo"), "of somebody").unwrap();
    let error = open(vec![other.clone(), used.clone()]).unwrap_err();
    assert!(error.to_string().contains("used"), "{error}");
    // The same again, with a folder that is free.
    let (one, two) = (root.path().join("one"), other);
    let mut expected = Rows::new();
    {
        let db = open(vec![two.clone(), one.clone()]).unwrap();
        assert_eq!(db.tablespaces(), 2);
        let table = create(&db, "table_0");
        work(&db, &table, &mut expected, 0);
        db.checkpoint().unwrap();
        db.close().unwrap();
    }
    for folder in [&one, &two] {
        let names = std::fs::read_dir(folder).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        assert!(names.into_iter().any(|name| name == "home"), "{folder:?}");
    }
    assert_eq!(std::fs::read_dir(&used).unwrap().count(), 1);
    let db = open(Vec::new()).unwrap();
    assert_eq!(rows(&db, "table_0"), expected);
    assert_eq!(db.recovery().unwrap().media.len(), 2);
}
