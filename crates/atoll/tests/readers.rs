//! Read-only transactions of ADAPTIVE read versions and never abort, however many writes are
//! concurrent: in sessions, and in lanes that they share with writers. They reach old versions, and
//! a long read of a row completes under every scheme.
#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use atoll::{
    Column, DataType, Database, DatabaseOptions, Request, Schema, SchemeKind, Session, Table,
    Transaction, TransactionOptions, TxnError, TxnResult, Value,
};

const ROWS: i64 = 8;
const WRITERS: i64 = 2;
const READS: i64 = 1000;

fn database(scheme: &str) -> (Database, Table) {
    let scheme: SchemeKind = scheme.parse().unwrap();
    let db = Database::create(DatabaseOptions { scheme, ..DatabaseOptions::default() }).unwrap();
    let columns = ["id", "balance"].map(|name| Column::new(name, DataType::Int64));
    let table = db.create_table("account", Schema::new(columns.into(), &["id"]).unwrap()).unwrap();
    let fill = |tx: &mut Transaction| {
        (0..ROWS).try_for_each(|id| tx.insert(&table, &[id.into(), 0i64.into()]))
    };
    db.transaction(fill).unwrap();
    (db, table)
}

fn add(tx: &mut Transaction, table: &Table, id: i64, amount: i64) -> TxnResult<()> {
    let found = tx.update_with(table, &[id.into()], |row| {
        let balance = row.i64(1);
        row.set_i64(1, balance + amount);
    })?;
    assert!(found.is_some(), "row {id} was loaded");
    Ok(())
}

fn sum(tx: &mut Transaction, table: &Table) -> TxnResult<i64> {
    (0..ROWS).try_fold(0, |sum, id| {
        let balance = tx.read_with(table, &[id.into()], |row| row.i64(1))?;
        Ok(sum + balance.unwrap())
    })
}

/// Asks all threads to stop when it is dropped.
struct Stopping<'s>(&'s AtomicBool);

impl Drop for Stopping<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Calls `body` while other threads change every row as fast as they can. `body` must go on until
/// it is told that they have conflicted.
fn beside_writers(db: &Database, table: &Table, body: impl FnOnce(&dyn Fn() -> bool)) {
    let (stop, met) = (AtomicBool::new(false), AtomicU64::new(0));
    let write = |mut session: Session, number: i64| {
        let mut round = number;
        while !stop.load(Ordering::Relaxed) {
            round += 1;
            let transfer = |tx: &mut Transaction| {
                (0..ROWS / 2).try_for_each(|at| {
                    add(tx, table, (round + at) % ROWS, 1)?;
                    std::thread::yield_now();
                    add(tx, table, (round + at + ROWS / 2) % ROWS, -1)
                })
            };
            session.transaction(transfer).unwrap();
            met.fetch_max(session.aborts(), Ordering::Relaxed);
        }
    };
    std::thread::scope(|scope| {
        let write = &write;
        (0..WRITERS).for_each(|n| drop(scope.spawn(move || write(db.session().unwrap(), n))));
        let _stopping = Stopping(&stop);
        body(&|| met.load(Ordering::Relaxed) > 0);
    });
}

#[test]
fn sessions_that_only_read_are_never_rolled_back() {
    let (db, table) = database("adaptive");
    beside_writers(&db, &table, |have_met| {
        let mut session = db.session().unwrap();
        let options = TransactionOptions { read_only: true, ..TransactionOptions::default() };
        for _ in (0..).take_while(|done| *done < READS || !have_met()) {
            let found = session.transaction_with(&options, |tx| sum(tx, &table)).unwrap();
            assert_eq!(found, 0, "it saw half of a transfer");
        }
        assert_eq!(session.aborts(), 0);
    });
}

struct Order {
    options: TransactionOptions,
    number: i64,
    attempts: u64,
}

impl Request for Order {
    fn options(&self) -> &TransactionOptions {
        &self.options
    }
}

#[test]
fn lanes_that_only_read_are_never_rolled_back() {
    let (db, table) = database("adaptive");
    beside_writers(&db, &table, |have_met| {
        let mut lanes = db.lanes(4).unwrap();
        let numbers = (0..).take_while(|number| *number < 2 * READS || !have_met());
        let mut orders = numbers.map(|number| {
            let read_only = number % 2 == 0;
            let options = TransactionOptions { read_only, ..TransactionOptions::default() };
            Order { options, number, attempts: 0 }
        });
        lanes.run(
            || orders.next(),
            async |tx, order| {
                order.attempts += 1;
                let keys = [order.number % ROWS, (order.number + 3) % ROWS];
                if order.options.read_only {
                    tx.fetch(&table, &[keys[0].into()], |_| &[1]).await;
                    assert_eq!(sum(tx, &table)?, 0, "it saw half of a transfer");
                    return Ok(());
                }
                // It holds the first row while the other lanes have their turns.
                for (key, amount) in keys.into_iter().zip([1, -1]) {
                    add(tx, &table, key, amount)?;
                    tx.fetch(&table, &[Value::from(key)], |_| &[1]).await;
                }
                Ok(())
            },
            |order, result| {
                result.unwrap();
                assert!(!order.options.read_only || order.attempts == 1, "{}", order.attempts);
            },
        );
    });
}

/// Number of versions between the one that is read and the newest.
const VERSIONS: u64 = 1_000_000;
/// More versions than are made while a reader walks over those.
const MORE: u64 = 4_000_000;

#[test]
fn an_old_version_is_reached_beside_somebody_who_makes_new_ones() {
    for scheme in ["adaptive", "mvcc"] {
        let (db, table) = database(scheme);
        let made = AtomicU64::new(0);
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let _stopping = Stopping(&stop);
            let options = TransactionOptions { read_only: true, ..TransactionOptions::default() };
            let mut tx = db.begin_with(&options).unwrap();
            assert_eq!(tx.read_with(&table, &[1i64.into()], |row| row.i64(1)).unwrap(), Some(0));
            let (db, table, made, stop) = (&db, &table, &made, &stop);
            let writer = scope.spawn(move || {
                let mut session = db.session().unwrap();
                while !stop.load(Ordering::Relaxed) && made.load(Ordering::Relaxed) < MORE {
                    session.transaction(|tx| add(tx, table, 0, 1)).unwrap();
                    made.fetch_add(1, Ordering::Relaxed);
                }
            });
            while made.load(Ordering::Relaxed) < VERSIONS && !writer.is_finished() {
                std::thread::yield_now();
            }
            assert_eq!(tx.read_with(table, &[0i64.into()], |row| row.i64(1)).unwrap(), Some(0));
            let made = made.load(Ordering::Relaxed);
            assert!(made < MORE, "{scheme}: reached when no more were made");
            tx.commit().unwrap();
        });
    }
}

/// Duration of a read of a row: until the row has changed, or at most this.
const LOOK: Duration = Duration::from_millis(20);
/// Far more reads than are needed.
const LOOKS: u32 = 100_000;

/// The transaction may be aborted, but must not retry the read for ever.
#[test]
fn a_look_that_takes_longer_than_the_row_stays_as_it_is_comes_to_an_end() {
    for scheme in SchemeKind::ALL {
        let (db, table) = database(scheme.name());
        let (made, stop) = (AtomicU64::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let _stopping = Stopping(&stop);
            let (db, table, made, stop) = (&db, &table, &made, &stop);
            let write = move || {
                let mut session = db.session().unwrap();
                while !stop.load(Ordering::Relaxed) {
                    session.transaction(|tx| add(tx, table, 0, 1)).unwrap();
                    made.fetch_add(1, Ordering::Relaxed);
                }
            };
            (0..WRITERS).for_each(|_| drop(scope.spawn(write)));
            for read_only in [false, true] {
                let options = TransactionOptions { read_only, ..TransactionOptions::default() };
                let mut tx = db.begin_with(&options).unwrap();
                let mut looks = 0;
                let read = tx.read_with(table, &[0i64.into()], |row| {
                    looks += 1;
                    assert!(looks < LOOKS, "{scheme}: it would look for ever");
                    let (before, began) = (made.load(Ordering::Relaxed), Instant::now());
                    while made.load(Ordering::Relaxed) == before && began.elapsed() < LOOK {
                        std::thread::yield_now();
                    }
                    row.i64(1)
                });
                let is_refused =
                    matches!(&read, Err(TxnError::Abort(reason)) if reason.is_conflict());
                assert!(is_refused || matches!(read, Ok(Some(_))), "{scheme}: {read:?}");
            }
        });
    }
}
