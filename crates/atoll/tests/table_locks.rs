//! Transactions use a table together, or one has it alone.
#![allow(clippy::unwrap_used)]

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use atoll::{
    AbortReason, Column, DataType, Database, DatabaseOptions, Schema, Table, Transaction, TxnError,
    TxnResult, Value,
};

fn database(scheme: &str, tables: usize) -> (Database, Vec<Table>) {
    let options = DatabaseOptions {
        scheme: scheme.parse().unwrap(),
        lock_timeout: Duration::from_secs(60),
        ..DatabaseOptions::default()
    };
    let db = Database::create(options).unwrap();
    let columns = ["id", "n"].map(|name| Column::new(name, DataType::Int64)).to_vec();
    let schema = Schema::new(columns, &["id"]).unwrap();
    let table = |at| db.create_table(&format!("t{at}"), schema.clone()).unwrap();
    let tables: Vec<_> = (0..tables).map(table).collect();
    for table in &tables {
        let row = [Value::Int64(1), Value::Int64(0)];
        db.transaction(|tx| tx.insert(table, &row)).unwrap();
    }
    (db, tables)
}

fn read(tx: &mut Transaction, table: &Table) -> TxnResult<Option<Vec<Value>>> {
    tx.read(table, &[Value::Int64(1)])
}

fn change(tx: &mut Transaction, table: &Table) -> TxnResult<bool> {
    tx.update(table, &[Value::Int64(1)], &[(1, Value::Int64(2))])
}

fn reason(done: TxnResult<impl Sized>) -> Option<AbortReason> {
    match done {
        Err(TxnError::Abort(reason)) => Some(reason),
        _ => None,
    }
}

#[test]
fn a_transaction_that_locks_a_table_waits_for_its_users_and_they_wait_for_it() {
    let (db, tables) = database("dl_detect", 2);
    let (table, other) = (&tables[0], &tables[1]);
    let (reader_ended, writer_ended) = (AtomicBool::new(false), AtomicBool::new(false));
    let mut reader = db.begin().unwrap();
    read(&mut reader, table).unwrap();
    thread::scope(|scope| {
        let alone = scope.spawn(|| {
            let mut alone = db.begin().unwrap();
            read(&mut alone, table).unwrap();
            alone.lock_table(table).unwrap();
            assert!(reader_ended.load(Ordering::SeqCst));
            thread::sleep(Duration::from_millis(50));
            assert!(!writer_ended.load(Ordering::SeqCst));
            change(&mut alone, table).unwrap();
            alone.commit().unwrap();
        });
        thread::sleep(Duration::from_millis(50));
        // Those that do not use the table pass, and so does the one that is waited for.
        db.transaction(|tx| change(tx, other)).unwrap();
        read(&mut reader, table).unwrap();
        scope.spawn(|| {
            let seen = db.transaction(|tx| read(tx, table)).unwrap();
            writer_ended.store(true, Ordering::SeqCst);
            assert_eq!(seen.unwrap()[1], Value::Int64(2), "it waited");
        });
        thread::sleep(Duration::from_millis(50));
        reader_ended.store(true, Ordering::SeqCst);
        reader.commit().unwrap();
        alone.join().unwrap();
    });
}

#[test]
fn two_that_use_a_table_and_want_it_alone_are_in_a_deadlock() {
    let (db, tables) = database("silo", 1);
    let both = Barrier::new(2);
    let ends: Vec<_> = thread::scope(|scope| {
        let one = || {
            scope.spawn(|| {
                let mut tx = db.begin().unwrap();
                read(&mut tx, &tables[0]).unwrap();
                both.wait();
                reason(tx.lock_table(&tables[0]))
            })
        };
        [one(), one()].map(|thread| thread.join().unwrap()).to_vec()
    });
    let deadlocks = ends.iter().filter(|end| **end == Some(AbortReason::Deadlock)).count();
    assert_eq!(deadlocks, 1, "{ends:?}");
}

#[test]
fn a_deadlock_that_leads_through_rows_ends() {
    for scheme in ["dl_detect", "wait_die"] {
        let (db, tables) = database(scheme, 2);
        let (rows, table) = (&tables[0], &tables[1]);
        let mut first = db.begin().unwrap();
        let mut second = db.begin().unwrap();
        change(&mut second, rows).unwrap();
        first.lock_table(table).unwrap();
        let end = thread::scope(|scope| {
            // Waits for the row; under WAIT_DIE, because it is older.
            let first = scope.spawn(move || {
                let done = change(&mut first, rows);
                (format!("{done:?}"), first)
            });
            thread::sleep(Duration::from_millis(20));
            let end = reason(read(&mut second, table));
            drop(second);
            assert_eq!(first.join().unwrap().0, "Ok(true)", "{scheme}");
            end
        });
        assert_eq!(end, Some(AbortReason::Deadlock), "{scheme}");
    }
}

#[test]
fn a_transaction_gives_up_when_it_is_told_to_and_leaves_nothing_behind() {
    let (db, tables) = database("no_wait", 1);
    let mut user = db.begin().unwrap();
    read(&mut user, &tables[0]).unwrap();
    let mut alone = db.begin().unwrap();
    let mut asked = 0;
    let patience = move |is_first| {
        asked += 1;
        assert_eq!(is_first, asked == 1);
        asked == 3
    };
    alone.set_patience(Some(Box::new(patience))).unwrap();
    assert_eq!(reason(alone.lock_table(&tables[0])), Some(AbortReason::Timeout));
    // It no longer keeps others away.
    db.transaction(|tx| read(tx, &tables[0])).unwrap();
    drop(user);
    let mut alone = db.begin().unwrap();
    alone.lock_table(&tables[0]).unwrap();
    let began = Instant::now();
    let mut session = db.session().unwrap();
    let done = session.transaction_at_once(&Default::default(), |tx| read(tx, &tables[0]));
    assert!(matches!(done, Ok(None)), "in a hurry, it does not wait");
    assert!(began.elapsed() < Duration::from_secs(5));
    alone.rollback();
    db.transaction(|tx| read(tx, &tables[0])).unwrap();
}

/// More tables than a list has places for, of which each is either used by several, or by one.
#[test]
fn no_table_is_used_while_another_transaction_has_it_alone() {
    const TABLES: usize = 12;
    const ROUNDS: u64 = 800;
    let (db, tables) = database("silo", TABLES);
    let inside: Vec<_> = (0..TABLES).map(|_| AtomicI64::new(0)).collect();
    let (alone, deadlocks) = (AtomicU64::new(0), AtomicU64::new(0));
    let (db, tables, inside) = (&db, &tables, &inside);
    let (alone, deadlocks) = (&alone, &deadlocks);
    thread::scope(|scope| {
        for thread in 0..4u64 {
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let number = (thread << 32 | round).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 8;
                    let mut tx = db.begin().unwrap();
                    let used: Vec<_> = (0..number % 11)
                        .map(|at| (number as usize + at as usize) % TABLES)
                        .collect();
                    for at in &used {
                        if tx.use_table(&tables[*at]).is_err() {
                            deadlocks.fetch_add(1, Ordering::Relaxed);
                            break;
                        }
                    }
                    if !tx.is_open() {
                        continue;
                    }
                    used.iter().for_each(|at| {
                        let there = inside[*at].fetch_add(1, Ordering::SeqCst);
                        assert!(there >= 0, "another transaction has it alone");
                    });
                    // Else a thread runs most of its rounds before another one begins.
                    thread::yield_now();
                    let leave = || {
                        for at in &used {
                            inside[*at].fetch_sub(1, Ordering::SeqCst);
                        }
                    };
                    if round % 4 != 0 {
                        leave();
                        continue;
                    }
                    let wanted = (number >> 20) as usize % TABLES;
                    leave();
                    if tx.lock_table(&tables[wanted]).is_err() {
                        deadlocks.fetch_add(1, Ordering::Relaxed);
                        continue;
                    }
                    let there = inside[wanted].fetch_sub(1000, Ordering::SeqCst);
                    assert_eq!(there, 0, "others use it");
                    alone.fetch_add(1, Ordering::Relaxed);
                    thread::yield_now();
                    inside[wanted].fetch_add(1000, Ordering::SeqCst);
                }
            });
        }
    });
    assert!(alone.load(Ordering::Relaxed) > ROUNDS / 4);
    assert!(deadlocks.load(Ordering::Relaxed) > 0);
}
