//! Lanes of a durable database: one flush is for the commits of all lanes of a thread.

use atoll::machine::CrashMedium;
use atoll::{Column, DataType, Database, DatabaseOptions, Request, Schema, Value};

struct Insert(i64);

impl Request for Insert {}

#[test]
fn a_flush_is_for_all_lanes_and_nothing_is_told_before_it() {
    let medium = CrashMedium::default();
    let options =
        || DatabaseOptions { memory_limit_bytes: Some(64 << 20), ..DatabaseOptions::default() };
    let db = Database::open_on(&medium, options()).unwrap();
    let schema = Schema::new(vec![Column::new("id", DataType::Int64)], &["id"]).unwrap();
    let table = db.create_table("numbers", schema).unwrap();
    let before = db.flushes();
    let mut next = 0..800;
    let mut told = 0u64;
    db.lanes(8).unwrap().run(
        || next.next().map(Insert),
        async |tx, insert| tx.insert(&table, &[Value::Int64(insert.0)]),
        |insert, done| {
            done.unwrap();
            told += 1;
            medium.note(insert.0 as u64);
        },
    );
    assert_eq!(told, 800);
    let flushes = db.flushes() - before;
    assert!((100..=120).contains(&flushes), "{flushes} flushes for 800 commits of 8 lanes");
    // After a crash anywhere, every acknowledged commit is there.
    let events = medium.events();
    for at in (0..20).map(|part| events - part * events / 25) {
        let crashed = medium.crash(at, || false);
        let notes = medium.notes(at);
        let db = Database::open_on(&crashed, options()).unwrap();
        let Ok(table) = db.table("numbers") else { continue };
        for id in notes {
            let found = db.transaction(|tx| tx.read(&table, &[Value::Int64(id as i64)])).unwrap();
            assert!(found.is_some(), "{id} was told of");
        }
    }
}

#[test]
fn lanes_end_when_nothing_can_be_durable_any_more() {
    let medium = CrashMedium::default();
    let options = DatabaseOptions { memory_limit_bytes: Some(64 << 20), ..Default::default() };
    let db = Database::open_on(&medium, options).unwrap();
    let schema = Schema::new(vec![Column::new("id", DataType::Int64)], &["id"]).unwrap();
    let table = db.create_table("numbers", schema).unwrap();
    let mut next = 0..100;
    let (mut told, mut failed) = (0, 0);
    db.lanes(8).unwrap().run(
        || {
            let request = next.next().map(Insert);
            if next.start == 50 {
                medium.fail(atoll::machine::medium::crash::Fault::Sync, 0);
            }
            request
        },
        async |tx, insert| tx.insert(&table, &[Value::Int64(insert.0)]),
        |_, done| match done {
            Ok(()) => told += 1,
            Err(_) => failed += 1,
        },
    );
    assert_eq!(told + failed, 100);
    assert!((40..=50).contains(&told), "{told} were told of");
}
