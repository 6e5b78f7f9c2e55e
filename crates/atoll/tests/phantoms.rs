//! A key that a transaction has found absent stays absent for it, although another one inserts the
//! key.
//!
//! Two threads meet at one key after the other: one inserts it, the other looks it up twice. Only
//! this test shows the effect of store buffers (a store that other threads do not see yet while the
//! storing thread already loads), so the threads meet very often, with varying delays.
#![allow(clippy::unwrap_used)]

use std::hint::spin_loop;
use std::sync::atomic::{AtomicU64, Ordering};

use atoll::{Column, DataType, Database, DatabaseOptions, Schema, SchemeKind, Table, Value};

const MEETINGS: u64 = 100_000;

fn table(scheme: SchemeKind) -> (Database, Table) {
    let options = DatabaseOptions { scheme, ..DatabaseOptions::default() };
    let db = Database::create(options).unwrap();
    let schema = Schema::new(vec![Column::new("id", DataType::Int64)], &["id"]).unwrap();
    let table = db.create_table("t", schema).unwrap();
    (db, table)
}

/// Waits until both threads have reached this meeting, and then for `delay`.
fn meet(here: &AtomicU64, there: &AtomicU64, meeting: u64, delay: u64) {
    here.store(meeting + 1, Ordering::SeqCst);
    let mut rounds = 0u32;
    while there.load(Ordering::SeqCst) <= meeting {
        rounds += 1;
        // With a single CPU, the other thread must be scheduled.
        if rounds.is_multiple_of(1 << 14) { std::thread::yield_now() } else { spin_loop() }
    }
    (0..delay).for_each(|_| spin_loop());
}

#[test]
fn a_key_that_was_absent_does_not_appear_within_the_transaction() {
    for scheme in SchemeKind::ALL.iter().copied() {
        let (db, table) = table(scheme);
        let (reader, writer) = (AtomicU64::new(0), AtomicU64::new(0));
        let appeared = std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut session = db.session().unwrap();
                for key in 0..MEETINGS {
                    meet(&writer, &reader, key, key % 7);
                    session
                        .transaction(|tx| tx.insert(&table, &[Value::Int64(key as i64)]))
                        .unwrap();
                }
            });
            let mut session = db.session().unwrap();
            let mut appeared = 0;
            for key in 0..MEETINGS {
                meet(&reader, &writer, key, key / 7 % 29);
                let wanted = [Value::Int64(key as i64)];
                let seen = session.transaction(|tx| {
                    let first = tx.read(&table, &wanted)?.is_some();
                    (0..40).for_each(|_| spin_loop());
                    Ok((first, tx.read(&table, &wanted)?.is_some()))
                });
                appeared += u64::from(seen.unwrap() == (false, true));
            }
            appeared
        });
        assert_eq!(appeared, 0, "{scheme}: of {MEETINGS} keys");
    }
}
