//! A transaction of many rows stores in several steps, and may be aborted before the last one. A
//! reader that reads a row during all that time must not regard rolled-back values as committed.
#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Thread;
use std::time::{Duration, Instant};

use atoll::{
    Column, DataType, Database, DatabaseOptions, Schema, SchemeKind, Session, Table, Transaction,
    Value,
};

/// Rows that always hold the same number.
const SAME: i64 = 20_000;
/// The row that conflicts with a transaction that has read it.
const OTHER: i64 = SAME;
/// The event for which a reader waits happens within this time or not at all.
const SOON: Duration = Duration::from_millis(20);
/// Longer than releasing all rows, shorter than adding to all of them.
const LET_GO: Duration = Duration::from_millis(1);
const ROUNDS: usize = 20;

fn key(id: i64) -> [Value; 1] {
    [Value::Int64(id)]
}

fn filled(scheme: SchemeKind) -> (Database, Table) {
    let options = DatabaseOptions { scheme, ..DatabaseOptions::default() };
    let db = Database::create(options).unwrap();
    let columns = ["id", "number"].map(|name| Column::new(name, DataType::Int64));
    let schema = Schema::new(columns.into(), &["id"]).unwrap();
    let table = db.create_table("numbers", schema).unwrap();
    db.transaction(|tx| {
        (0..=OTHER).try_for_each(|id| tx.insert(&table, &[Value::Int64(id), Value::Int64(0)]))
    })
    .unwrap();
    (db, table)
}

fn add(tx: &mut Transaction, table: &Table, id: i64) -> atoll::TxnResult<()> {
    tx.update_with(table, &key(id), |row| {
        let number = row.i64(1);
        row.set_i64(1, number + 1);
    })
    .map(|_| ())
}

/// Reads the last of the rows, and then the first one while it holds another number in between,
/// while the adder aborts the transaction that stores it; returns both numbers if the transaction
/// commits. If the database reads the first row again, the second read is short: otherwise the row
/// would change all the time.
fn straddle(session: &mut Session, table: &Table, adder: &Thread) -> Option<[i64; 2]> {
    let (mut is_first_try, mut is_first_look) = (true, true);
    let read = session.transaction(|tx| {
        if !std::mem::take(&mut is_first_try) {
            return Ok(None);
        }
        let last = tx.read_with(table, &key(SAME - 1), |row| row.i64(1))?.unwrap();
        let first = tx.read_with(table, &key(0), |row| {
            let number = row.i64(1);
            if !std::mem::take(&mut is_first_look) {
                return number;
            }
            let wait_for = |is_it: &dyn Fn(i64) -> bool| {
                let begin = Instant::now();
                while begin.elapsed() < SOON && !is_it(row.i64(1)) {
                    std::thread::yield_now();
                }
                row.i64(1)
            };
            let number = wait_for(&|number| number != last);
            adder.unpark();
            wait_for(&|number| number == last);
            // The old value is back before its writer has released the row.
            std::thread::sleep(LET_GO);
            number
        })?;
        Ok(Some([first.unwrap(), last]))
    });
    read.unwrap_or(None)
}

#[test]
fn a_reader_that_lasts_longer_than_what_is_rolled_back_has_not_read_it() {
    for scheme in SchemeKind::ALL.iter().copied() {
        let (db, table) = filled(scheme);
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (db, table, stop) = (&db, &table, &stop);
            // Adds to all rows in one transaction, which has read the other row right before it
            // commits.
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let mut tx = db.begin().unwrap();
                    let mut done = (0..SAME).try_for_each(|id| add(&mut tx, table, id));
                    done = done.and_then(|()| tx.read(table, &key(OTHER)).map(|_| ()));
                    let _ = done.and_then(|()| tx.commit());
                }
            });
            let adder = scope.spawn(move || {
                let mut session = db.session().unwrap();
                while !stop.load(Ordering::Relaxed) {
                    std::thread::park();
                    session.transaction(|tx| add(tx, table, OTHER)).unwrap();
                }
            });
            let mut session = db.session().unwrap();
            let mut read = None;
            for _ in 0..ROUNDS {
                read = straddle(&mut session, table, adder.thread());
                if read.is_some_and(|[first, last]| first != last) {
                    break;
                }
            }
            stop.store(true, Ordering::Relaxed);
            adder.thread().unpark();
            assert!(read.is_none_or(|[first, last]| first == last), "{scheme}: {read:?}");
        });
    }
}
