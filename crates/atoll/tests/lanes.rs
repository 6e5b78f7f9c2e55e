//! Transactions that take turns on one thread.
#![allow(clippy::unwrap_used)]

use std::panic::{AssertUnwindSafe, catch_unwind};

use atoll::{
    Column, DataType, Database, DatabaseOptions, Error, Request, Schema, SchemeKind, Session,
    Table, Transaction, TransactionOptions, TxnResult, Value, Visit, Want,
};

const ROWS: i64 = 64;
const THREADS: u64 = 2;
const LANES: usize = 5;

struct Transfer {
    from: Value,
    to: Value,
    options: TransactionOptions,
}

impl Request for Transfer {
    fn options(&self) -> &TransactionOptions {
        &self.options
    }
}

fn transfer(table: &Table, from: i64, to: i64) -> Transfer {
    let (from, to) = (Value::Int64(from), Value::Int64(to));
    let key = std::slice::from_ref::<Value>;
    let partitions = vec![table.partition(key(&from)), table.partition(key(&to))];
    Transfer {
        from,
        to,
        options: TransactionOptions { partitions, ..TransactionOptions::default() },
    }
}

fn database(scheme: SchemeKind) -> (Database, Table) {
    let options = DatabaseOptions { scheme, partitions: Some(2), ..DatabaseOptions::default() };
    let db = Database::create(options).unwrap();
    let columns = ["id", "balance"].map(|name| Column::new(name, DataType::Int64));
    let table = db.create_table("account", Schema::new(columns.into(), &["id"]).unwrap()).unwrap();
    let fill = |tx: &mut Transaction| {
        (0..ROWS).try_for_each(|id| tx.insert(&table, &[Value::Int64(id), Value::Int64(100)]))
    };
    db.transaction(fill).unwrap();
    (db, table)
}

fn add(tx: &mut Transaction, table: &Table, key: &Value, amount: i64) -> TxnResult<()> {
    let found = tx.update_with(table, std::slice::from_ref(key), |row| {
        let balance = row.i64(1);
        row.set_i64(1, balance + amount);
    })?;
    assert!(found.is_some(), "{key:?} was loaded");
    Ok(())
}

/// Both halves of a transfer in one call.
fn add_both(tx: &mut Transaction, table: &Table, keys: [&Value; 2]) -> TxnResult<()> {
    let wants = |_| Want::update(&[1]);
    tx.visit(table, &keys.map(Value::clone), wants, |at, row| match row {
        Visit::Update(row) => row.set_i64(1, row.i64(1) + [-1, 1][at]),
        _ => panic!("{:?} was loaded", keys[at]),
    })
}

fn sum(db: &Database, table: &Table) -> i64 {
    let all = |tx: &mut Transaction| {
        (0..ROWS).try_fold(0, |sum, id| {
            let balance = tx.read_with(table, &[Value::Int64(id)], |row| row.i64(1))?;
            Ok(sum + balance.unwrap_or_default())
        })
    };
    db.transaction(all).unwrap()
}

/// Every transfer is made once under every scheme, although lanes of one thread conflict with each
/// other and, between the two halves of a transfer, with those of the other thread.
#[test]
fn lanes_carry_out_every_request_once_under_every_scheme() {
    for scheme in SchemeKind::ALL.iter().copied() {
        let (db, table) = database(scheme);
        let (db_of, table_of) = (&db, &table);
        let made: Vec<usize> = std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..THREADS).map(|seed| scope.spawn(move || work(db_of, table_of, seed))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(made, [400, 400], "{scheme}");
        assert_eq!(sum(&db, &table), ROWS * 100, "{scheme}");
    }

    fn work(db: &Database, table: &Table, seed: u64) -> usize {
        let mut word = seed + 1;
        let mut next = move || {
            word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            // A few accounts are in nearly every transfer.
            (word >> 40) as i64 % if word >> 33 & 1 == 0 { 3 } else { ROWS }
        };
        let mut left = 400;
        let mut made = 0;
        db.lanes(LANES).unwrap().run(
            || {
                left -= 1;
                (left >= 0).then(|| {
                    let from = next();
                    transfer(table, from, (from + 1 + next() % (ROWS - 1)) % ROWS)
                })
            },
            async |tx, Transfer { from, to, .. }| {
                tx.fetch(table, std::slice::from_ref(from), |_| &[1]).await;
                if matches!(from, Value::Int64(number) if *number % 2 == 0) {
                    return add_both(tx, table, [&*from, &*to]);
                }
                add(tx, table, from, -1)?;
                tx.fetch(table, std::slice::from_ref(to), |_| &[1]).await;
                add(tx, table, to, 1)
            },
            |_, result| {
                result.unwrap();
                made += 1;
            },
        );
        made
    }
}

/// Two lanes of one thread that need each other's rows would wait for ever if lanes waited.
#[test]
fn lanes_that_want_each_others_rows_go_on() {
    for scheme in SchemeKind::ALL.iter().copied() {
        let (db, table) = database(scheme);
        let mut requests = (0..20).map(|n| transfer(&table, n % 2 * 2, 2 - n % 2 * 2));
        let mut made = 0;
        db.lanes(2).unwrap().run(
            || requests.next(),
            async |tx, Transfer { from, to, .. }| {
                add(tx, &table, from, -1)?;
                tx.fetch(&table, std::slice::from_ref(to), |_| &[1]).await;
                add(tx, &table, to, 1)
            },
            |_, result| {
                result.unwrap();
                made += 1;
            },
        );
        assert_eq!((made, sum(&db, &table)), (20, ROWS * 100), "{scheme}");
    }
}

/// They could only wait for each other: on a single thread no other transaction has a partition.
#[test]
fn lanes_of_a_thread_are_not_in_each_others_way_at_the_partitions() {
    let (db, table) = database("hstore".parse().unwrap());
    // In one partition, in both, or without naming any: in all.
    let mut requests = (0..300).map(|i| {
        let mut request = transfer(&table, i % ROWS, (i * 7 + 1) % ROWS);
        if i % 5 == 0 {
            request.options.partitions.clear();
        } else if i % 3 == 0 {
            request.to = request.from.clone();
            request.options.partitions.truncate(1);
        }
        request
    });
    let mut lanes = db.lanes(LANES).unwrap();
    let mut done = 0;
    lanes.run(
        || requests.next(),
        async |tx, request| {
            for (key, amount) in [(&request.from, -1), (&request.to, 1)] {
                tx.fetch(&table, std::slice::from_ref(key), |_| &[1]).await;
                add(tx, &table, key, amount)?;
            }
            Ok(())
        },
        |_, result| {
            result.unwrap();
            done += 1;
        },
    );
    assert_eq!((done, lanes.aborts(), sum(&db, &table)), (300, 0, ROWS * 100));
}

#[test]
fn a_request_that_fails_is_told_and_undone_and_the_others_go_on() {
    let (db, table) = database(SchemeKind::default());
    let mut requests = (0..6).map(|n| transfer(&table, n, n + 10));
    let mut failed = Vec::new();
    db.lanes(3).unwrap().run(
        || requests.next(),
        async |tx, request| {
            add(tx, &table, &request.from, -1)?;
            tx.fetch(&table, std::slice::from_ref(&request.to), |_| &[1]).await;
            if request.from == Value::Int64(2) {
                tx.insert(&table, &[request.to.clone(), Value::Int64(0)])?;
            }
            add(tx, &table, &request.to, 1)
        },
        |request, result| {
            if let Err(error) = result {
                assert!(matches!(error, Error::DuplicateKey { .. }), "{error}");
                failed.push(request.from);
            }
        },
    );
    assert_eq!((failed, sum(&db, &table)), (vec![Value::Int64(2)], ROWS * 100));
}

/// A panic of a procedure rolls back the open transactions of its thread, and leaves nothing
/// locked, in lanes and in a session that lives on.
#[test]
fn a_panic_rolls_everything_back() {
    for scheme in SchemeKind::ALL.iter().copied() {
        let (db, table) = database(scheme);
        let mut session = db.session().unwrap();
        let mut lanes = db.lanes(3).unwrap();
        let in_session = |session: &mut Session| {
            let panics = |tx: &mut Transaction| -> TxnResult<()> {
                tx.update_with(&table, &[Value::Int64(0)], |row| {
                    row.set_i64(1, 7);
                    panic!("on purpose")
                })?;
                Ok(())
            };
            session.transaction(panics)
        };
        assert!(catch_unwind(AssertUnwindSafe(|| in_session(&mut session))).is_err());
        assert_eq!(sum(&db, &table), ROWS * 100, "{scheme}");
        let mut requests = (0..6).map(|n| transfer(&table, n, n + 10));
        let in_lanes = || {
            lanes.run(
                || requests.next(),
                async |tx, request| {
                    add(tx, &table, &request.from, -1)?;
                    tx.fetch(&table, std::slice::from_ref(&request.to), |_| &[1]).await;
                    assert_ne!(request.from, Value::Int64(0), "on purpose");
                    add(tx, &table, &request.to, 1)
                },
                |_, result| result.unwrap(),
            );
        };
        assert!(catch_unwind(AssertUnwindSafe(in_lanes)).is_err());
        assert_eq!(sum(&db, &table), ROWS * 100, "{scheme}");
        session.transaction(|tx| add(tx, &table, &Value::Int64(0), 0)).unwrap();
    }
}

/// Every lane begins with the same row and then gives up its turn, so a lane that was too late
/// finds the row locked again at each of its turns.
#[test]
fn no_lane_starves_while_requests_go_on_for_ever() {
    for scheme in SchemeKind::ALL.iter().copied() {
        let (db, table) = database(scheme);
        let (mut begun, mut ended) = (0u32, std::collections::BTreeSet::new());
        let mut lanes = db.lanes(3).unwrap();
        let first_ended = std::cell::Cell::new(0);
        lanes.run(
            || {
                // Runs until the first three requests, one of each lane, have ended.
                begun += 1;
                (first_ended.get() < 3).then(|| Numbered(begun, transfer(&table, 0, 1)))
            },
            async |tx, Numbered(_, request)| {
                add(tx, &table, &request.from, -1)?;
                tx.fetch(&table, std::slice::from_ref(&request.to), |_| &[1]).await;
                add(tx, &table, &request.to, 1)
            },
            |Numbered(number, _), result| {
                result.unwrap();
                if number <= 3 && ended.insert(number) {
                    first_ended.set(first_ended.get() + 1);
                }
            },
        );
        assert_eq!((ended.len(), sum(&db, &table)), (3, ROWS * 100), "{scheme}");
    }
}

struct Numbered(u32, Transfer);

impl Request for Numbered {
    fn options(&self) -> &TransactionOptions {
        self.1.options()
    }
}

/// A transaction that a panic has interrupted does not commit, even if the procedure catches the
/// panic.
#[test]
fn a_panic_that_is_caught_ends_its_transaction() {
    for scheme in SchemeKind::ALL.iter().copied() {
        let (db, table) = database(scheme);
        let committed = db.transaction(|tx| {
            let caught = catch_unwind(AssertUnwindSafe(|| {
                tx.update_with(&table, &[Value::Int64(0)], |row| {
                    row.set_i64(1, 7);
                    panic!("on purpose")
                })
            }));
            assert!(caught.is_err());
            Ok(())
        });
        assert!(matches!(committed, Err(Error::Aborted(_))), "{scheme}: {committed:?}");
        assert_eq!(sum(&db, &table), ROWS * 100, "{scheme}");
    }
}
