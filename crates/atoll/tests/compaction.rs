//! Blocks of long values that few values keep are emptied while nobody calls the database.
#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};

use atoll::{
    Column, DataType, Database, DatabaseOptions, Schema, Transaction, TransactionOptions,
    TxnResult, Value,
};

/// More values stay than are stored again at one time.
const ROWS: i64 = 200_000;
/// One value of so many stays.
const STAYS: i64 = 4;
const BYTES: usize = 48;

fn text(id: i64) -> Value {
    Value::Text(format!("{id:0BYTES$}"))
}

#[test]
fn blocks_of_long_values_are_emptied_however_many_values_keep_them() {
    let db = Database::create(DatabaseOptions::default()).unwrap();
    blocks_are_emptied(&db, 1);
}

#[test]
fn who_has_another_partition_does_not_keep_them_from_being_emptied() {
    let options = DatabaseOptions {
        scheme: "HSTORE".parse().unwrap(),
        partitions: Some(2),
        ..DatabaseOptions::default()
    };
    let db = Database::create(options).unwrap();
    // All rows are of the other one, as even numbers are. Those who make them do not wait for it.
    let other = TransactionOptions { partitions: vec![1], ..TransactionOptions::default() };
    let kept = db.begin_with(&other).unwrap();
    blocks_are_emptied(&db, 2);
    kept.commit().unwrap();
}

/// Of rows with numbers so far apart.
fn blocks_are_emptied(db: &Database, apart: i64) {
    let columns = vec![Column::new("id", DataType::Int64), Column::new("text", DataType::Text)];
    let table = db.create_table("t", Schema::new(columns, &["id"]).unwrap()).unwrap();
    let allocated = || db.counters().memory_allocated_bytes;
    let mine = TransactionOptions { partitions: vec![0], ..TransactionOptions::default() };
    let change = |ids: &dyn Fn(&i64) -> bool,
                  body: &dyn Fn(&mut Transaction, i64) -> TxnResult<()>| {
        let mut tx = db.begin_with(&mine).unwrap();
        (0..ROWS).filter(ids).for_each(|id| body(&mut tx, id * apart).unwrap());
        tx.commit().unwrap();
    };
    let store = |tx: &mut Transaction, id: i64, text: Value| {
        tx.update(&table, &[id.into()], &[(1, text)]).map(|_| ())
    };
    change(&|_| true, &|tx, id| tx.insert(&table, &[id.into(), Value::Text(String::new())]));
    let empty = allocated();
    change(&|_| true, &|tx, id| store(tx, id, text(id)));
    let full = allocated() - empty;
    assert!(full >= ROWS as u64 * BYTES as u64, "{full}");
    // All at once: of what is sparse then only a part is stored again at first.
    change(&|id| id % STAYS != 0, &|tx, id| store(tx, id, Value::Text(String::new())));
    let begin = Instant::now();
    // A quarter is needed, and a block of each segment is being filled.
    while allocated() - empty > full * 5 / 8 {
        drop(db.snapshot().unwrap()); // so that what is gone is freed at once
        let left = allocated() - empty;
        assert!(begin.elapsed() < Duration::from_secs(60), "{left} of {full} bytes are kept");
        std::thread::sleep(Duration::from_millis(5));
    }
    let mut tx = db.begin_with(&mine).unwrap();
    for id in (0..ROWS).map(|id| id * apart) {
        let expected = if id / apart % STAYS == 0 { text(id) } else { Value::Text(String::new()) };
        let row: Option<Vec<Value>> = tx.read(&table, &[id.into()]).unwrap();
        assert_eq!(row.unwrap()[1], expected);
    }
}
