//! A transaction of many rows stores in several steps, and may be refused before the last one. Who
//! reads a row for as long as that takes must not take what was rolled back for what is there.
#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use atoll::{
    Column, DataType, Database, DatabaseOptions, Schema, SchemeKind, Session, Table, Transaction,
    Value,
};

/// Rows that always hold the same number.
const SAME: i64 = 2_000;
/// The row that is in the way of who has read it.
const OTHER: i64 = SAME;
/// What a reader waits for comes soon or not at all.
const SOON: Duration = Duration::from_millis(5);
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

/// Reads the last of the rows, and then the first one for as long as its number is another in
/// between; both numbers as they were read, if the transaction commits.
fn straddle(session: &mut Session, table: &Table) -> Option<[i64; 2]> {
    let mut reads = 0;
    let read = session.transaction(|tx| {
        reads += 1;
        if reads > 1 {
            return Ok(None);
        }
        let last = tx.read_with(table, &key(SAME - 1), |row| row.i64(1))?.unwrap();
        let first = tx.read_with(table, &key(0), |row| {
            let wait_for = |is_it: &dyn Fn(i64) -> bool| {
                let begin = Instant::now();
                while begin.elapsed() < SOON {
                    let number = row.i64(1);
                    if is_it(number) {
                        return number;
                    }
                }
                row.i64(1)
            };
            let number = wait_for(&|number| number != last);
            wait_for(&|number| number == last);
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
            // Adds to all rows at once; it has read the other one right before it commits.
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let mut tx = db.begin().unwrap();
                    let mut done = (0..SAME).try_for_each(|id| add(&mut tx, table, id));
                    done = done.and_then(|()| tx.read(table, &key(OTHER)).map(|_| ()));
                    let _ = done.and_then(|()| tx.commit());
                }
            });
            scope.spawn(move || {
                let mut session = db.session().unwrap();
                while !stop.load(Ordering::Relaxed) {
                    session.transaction(|tx| add(tx, table, OTHER)).unwrap();
                    std::thread::sleep(Duration::from_micros(200));
                }
            });
            let mut session = db.session().unwrap();
            for _ in 0..ROUNDS {
                let read = straddle(&mut session, table);
                let are_same = read.is_none_or(|[first, last]| first == last);
                stop.fetch_or(!are_same, Ordering::Relaxed);
                assert!(are_same, "{scheme}: {read:?}");
            }
            stop.store(true, Ordering::Relaxed);
        });
    }
}
