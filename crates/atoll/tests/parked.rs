//! Open transactions that are not in a call hold no worker and move between threads.

#![allow(clippy::unwrap_used)]

use atoll::{
    Column, DataType, Database, DatabaseOptions, Error, Schema, SchemeKind, Table, Transaction,
    TransactionOptions, TxnError, Value,
};

/// More than there are workers.
const MANY: i64 = 1500;

fn database(scheme: SchemeKind) -> (Database, Table) {
    let options = DatabaseOptions { scheme, partitions: Some(2048), ..DatabaseOptions::default() };
    let db = Database::create(options).unwrap();
    let columns = ["id", "n"].map(|name| Column::new(name, DataType::Int64)).to_vec();
    let table = db.create_table("t", Schema::new(columns, &["id"]).unwrap()).unwrap();
    let rows: Vec<Value> = (0..MANY).flat_map(|id| [Value::Int64(id), Value::Int64(0)]).collect();
    db.transaction(|tx| tx.insert(&table, &rows)).unwrap();
    (db, table)
}

fn begin(db: &Database, table: &Table, id: i64) -> Transaction {
    let partitions = vec![table.partition(&[id.into()])];
    db.begin_with(&TransactionOptions { partitions, ..TransactionOptions::default() }).unwrap()
}

/// Counts the row, then parks.
fn count(transaction: &mut Transaction, table: &Table, id: i64) {
    let counted = transaction.update_with(table, &[id.into()], |row| {
        let n = row.i64(1) + 1;
        row.set_i64(1, n);
    });
    assert!(counted.unwrap().is_some());
    transaction.park();
}

fn sum(db: &Database, table: &Table) -> i64 {
    let read = |tx: &mut Transaction, id: i64| tx.read_with(table, &[id.into()], |row| row.i64(1));
    db.transaction(|tx| (0..MANY).map(|id| Ok(read(tx, id)?.unwrap())).sum()).unwrap()
}

#[test]
fn more_transactions_than_workers_are_open_and_end_on_other_threads() {
    for scheme in SchemeKind::ALL {
        let (db, table) = database(*scheme);
        let counted = |id| {
            let mut transaction = begin(&db, &table, id);
            count(&mut transaction, &table, id);
            transaction
        };
        let mut open: Vec<Transaction> = (0..MANY).map(counted).collect();
        let (threads, chunk) = (3, open.len() / 3);
        std::thread::scope(|scope| {
            for at in 0..threads {
                let (mine, table) = (open.split_off(open.len() - chunk), &table);
                let first = (threads - 1 - at) as i64 * chunk as i64;
                scope.spawn(move || {
                    for (mut transaction, id) in mine.into_iter().zip(first..) {
                        count(&mut transaction, table, id);
                        match id % 3 {
                            0 => transaction.rollback(),
                            _ => transaction.commit().unwrap(),
                        }
                    }
                });
            }
        });
        assert_eq!(sum(&db, &table), 2 * MANY * 2 / 3, "{scheme}");
    }
}

/// Begins transactions that are not parked, until there are too many; then other ways to begin
/// fail, too.
fn take_all(db: &Database) -> Vec<Transaction> {
    let mut busy = Vec::new();
    let refused = loop {
        match db.begin() {
            Ok(one) => busy.push(one),
            Err(refused) => break refused,
        }
    };
    assert!(matches!(refused, Error::TooManyTransactions(_)), "{refused}");
    let refused = [db.session().err().unwrap(), db.lanes(1).err().unwrap()];
    assert!(refused.iter().all(|one| matches!(one, Error::TooManyTransactions(_))), "{refused:?}");
    busy
}

#[test]
fn too_many_parked_transactions_are_refused() {
    let (db, table) = database("silo".parse().unwrap());
    let mut parked = Vec::new();
    let refused = loop {
        match db.begin() {
            Ok(mut one) => {
                one.park();
                parked.push(one);
            }
            Err(refused) => break refused,
        }
    };
    assert!(matches!(refused, Error::TooManyTransactions(2048)), "{refused}");
    count(&mut parked[7], &table, 7);
    parked.drain(..).for_each(|one| one.commit().unwrap());
    assert_eq!(sum(&db, &table), 1);
}

#[test]
fn a_parked_transaction_goes_on_while_others_have_all_workers() {
    let (db, table) = database("no-wait".parse().unwrap());
    let mut parked = begin(&db, &table, 0);
    count(&mut parked, &table, 0);
    let busy = take_all(&db);
    // Some workers are reserved for open transactions.
    count(&mut parked, &table, 0);
    assert_eq!(busy.len(), 1024);
    parked.commit().unwrap();
    drop(busy);
    assert_eq!(sum(&db, &table), 2);
}

#[test]
fn a_parked_transaction_goes_on_when_a_worker_is_free() {
    let (db, table) = database("no-wait".parse().unwrap());
    let mut parked: Vec<_> = (0..20).map(|_| begin(&db, &table, 0)).collect();
    parked.iter_mut().for_each(Transaction::park);
    let mut busy = take_all(&db);
    // Also the reserved ones.
    let refused = loop {
        let mut one = parked.pop().unwrap();
        match one.read(&table, &[5i64.into()]) {
            Ok(_) => busy.push(one),
            Err(refused) => {
                parked.push(one);
                break refused;
            }
        }
    };
    assert!(matches!(refused, TxnError::Error(Error::TooManyTransactions(_))), "{refused}");
    let mut parked = parked.pop().unwrap();
    assert!(parked.is_open());
    let mut dropped = busy.pop().unwrap();
    count(&mut dropped, &table, 1);
    let taken = parked.read(&table, &[5i64.into()]);
    assert!(taken.is_ok());
    // Without a worker: the row is free afterwards.
    drop(dropped);
    busy.pop();
    count(&mut parked, &table, 1);
    parked.commit().unwrap();
    drop(busy);
    assert_eq!(sum(&db, &table), 1);
}
