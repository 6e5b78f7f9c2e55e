//! Every commit is there again, however the database ended.

use std::sync::Arc;
use std::time::Duration;

use atoll::machine::CrashMedium;
use atoll::machine::medium::crash::Fault;
use atoll::{
    Database, DatabaseOptions, Durability, Error, IndexSpec, LogError, LogsOptions, OpenProgress,
    SchemeKind, TableOptions, Value,
};

use super::scene::{LOGS, Rows, create, options, row, rows, schema, work};

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
                // As after a kill of the process.
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
        // Another transaction that spills and is rolled back, across a checkpoint.
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
        // Before its commit is durable, nothing of the transaction is there.
        let killed = medium.crash(done - 1, || false);
        let db = Database::open_on(&killed, options(scheme)).unwrap();
        assert_eq!(rows(&db, "table_0").len(), 0);
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
fn commits_of_which_only_the_end_says_that_they_count_are_all_there() {
    // So many commits that they are sent to the appliers in several batches.
    const COMMITS: i64 = 300;
    let medium = CrashMedium::default();
    let logs = LogsOptions { file_bytes: 1 << 20, ring_bytes: 16 << 20, ..LOGS };
    let durability = Durability::None;
    let options = DatabaseOptions { durability, logs, ..options(SchemeKind::default()) };
    let db = Database::open_on(&medium, options.clone()).unwrap();
    let table = create(&db, "table_0");
    let long = |id: i64| Value::Text(format!("{id:>20000}"));
    for id in 0..COMMITS {
        let values = [Value::Int64(id), long(id), Value::Int32(0), Value::Null, Value::Null];
        db.transaction(|tx| tx.insert(&table, &values)).unwrap();
    }
    db.flush().unwrap();
    let killed = medium.crash(medium.events(), || true);
    let found = Database::open_on(&killed, options).unwrap();
    let rows = rows(&found, "table_0");
    assert_eq!(rows.len(), COMMITS as usize);
    rows.iter().for_each(|(id, row)| assert_eq!(row[1], long(*id)));
}

#[test]
fn tables_of_a_log_are_found_by_the_others() {
    // The first log has only table descriptions, the second one the changes.
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
    // Nor does a copy, which is another owner's now.
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
        nulls_not_distinct: false,
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
fn how_far_the_opening_is_can_be_watched() {
    let medium = CrashMedium::default();
    let db = Database::open_on(&medium, options(SchemeKind::default())).unwrap();
    let (near, far) = (create(&db, "table_0"), create(&db, "table_1"));
    let mut expected = [Rows::new(), Rows::new()];
    work(&db, &near, &mut expected[0], 0);
    work(&db, &far, &mut expected[1], 0);
    db.checkpoint().unwrap();
    work(&db, &near, &mut expected[0], 1);
    let killed = medium.crash(medium.events(), || false);
    db.close().unwrap();
    for (medium, is_closed) in [(medium, true), (killed, false)] {
        // Reads fail from the first one on, from the second one on, and so on.
        let mut reached = Vec::new();
        let report = (0..).find_map(|reads| {
            let medium = medium.copy();
            medium.fail(Fault::Read, reads);
            let progress = Arc::new(OpenProgress::default());
            let watched = Some(Arc::clone(&progress));
            let options = DatabaseOptions { progress: watched, ..options(SchemeKind::default()) };
            let opened = Database::open_on(&medium, options);
            let OpenProgress { checkpoint, log, indexes } = &*progress;
            reached.push([checkpoint, log, indexes].map(|part| (part.done(), part.total())));
            opened.ok().map(|db| db.recovery().unwrap().clone())
        });
        let report = report.unwrap();
        assert_eq!(report.was_closed, is_closed);
        assert_eq!(reached[0], [(0, 0); 3]);
        let [home, log, indexes] = reached.pop().unwrap();
        assert!(home.0 > 0 && home.0 == home.1 && home.0.is_multiple_of(4096), "{home:?}");
        assert_eq!(log, (report.log_bytes, report.log_bytes));
        assert_eq!(indexes, (2, 2));
        // Half of the checkpoint store was read; or all of it, and nothing of the log yet.
        assert!(reached.iter().any(|parts| parts[0].0 > 0 && parts[0].0 < home.1), "{reached:?}");
        let in_log =
            |parts: &[(u64, u64); 3]| parts[0] == home && parts[1].0 < log.0 && parts[2] == (0, 0);
        assert!(reached.iter().any(in_log), "{reached:?}");
        // The length of a log that was not closed is estimated to within a file.
        let most = if is_closed { log.1 } else { log.1 + 2 * LOGS.file_bytes };
        let begun = reached.iter().map(|parts| parts[1]).find(|part| part.1 > 0).unwrap();
        assert!(begun.0 <= begun.1 && (log.1..=most).contains(&begun.1), "{reached:?}");
    }
}
