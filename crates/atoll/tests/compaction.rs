//! Heap blocks that hold few long values are compacted while the database is idle.
#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};

use atoll::{
    Column, DataType, Database, DatabaseOptions, Schema, Table, Transaction, TransactionOptions,
    TxnResult, Value,
};

/// More values stay than one call stores again.
const ROWS: i64 = 200_000;
/// One value in this many stays.
const STAYS: i64 = 4;
const BYTES: usize = 48;

fn text(id: i64) -> Value {
    Value::Text(format!("{id:0BYTES$}"))
}

#[test]
fn blocks_of_long_values_are_emptied_however_many_values_keep_them() {
    let db = Database::create(DatabaseOptions::default()).unwrap();
    let place = Place { db: &db, table: "t", apart: 1, partition: 0 };
    place.is_emptied(place.make_sparse());
}

#[test]
fn who_has_another_partition_does_not_keep_them_from_being_emptied() {
    let db = of_two_partitions();
    // The transactions that fill and read the tables must not wait for it either.
    let kept = db.begin_with(&alone(1)).unwrap();
    let place = Place { db: &db, table: "t", apart: 2, partition: 0 };
    place.is_emptied(place.make_sparse());
    kept.commit().unwrap();
}

#[test]
fn who_keeps_their_partition_does_not_keep_others_from_being_emptied() {
    let db = of_two_partitions();
    let first = Place { db: &db, table: "first", apart: 2, partition: 0 };
    let second = Place { db: &db, table: "second", apart: 2, partition: 1 };
    first.make_sparse();
    // Some blocks of the first table may have been compacted by now, but not all.
    let kept = db.begin_with(&alone(0)).unwrap();
    second.is_emptied(second.make_sparse());
    kept.commit().unwrap();
}

fn of_two_partitions() -> Database {
    let scheme = "HSTORE".parse().unwrap();
    let options = DatabaseOptions { scheme, partitions: Some(2), ..DatabaseOptions::default() };
    Database::create(options).unwrap()
}

fn alone(partition: u32) -> TransactionOptions {
    TransactionOptions { partitions: vec![partition], ..TransactionOptions::default() }
}

fn store(tx: &mut Transaction, table: &Table, id: i64, text: Value) -> TxnResult<()> {
    tx.update(table, &[id.into()], &[(1, text)]).map(|_| ())
}

/// A table with row numbers so far apart that all rows are in one partition.
#[derive(Clone, Copy)]
struct Place<'d> {
    db: &'d Database,
    table: &'d str,
    apart: i64,
    partition: u32,
}

/// Allocated bytes without any long value, and with all of them.
#[derive(Clone, Copy)]
struct Bytes {
    empty: u64,
    full: u64,
}

impl Place<'_> {
    fn change(
        &self,
        ids: &dyn Fn(&i64) -> bool,
        body: &dyn Fn(&mut Transaction, &Table, i64) -> TxnResult<()>,
    ) {
        let table = self.db.table(self.table).unwrap();
        let mut tx = self.db.begin_with(&alone(self.partition)).unwrap();
        let ids = (0..ROWS).filter(ids).map(|id| self.id(id));
        ids.for_each(|id| body(&mut tx, &table, id).unwrap());
        tx.commit().unwrap();
    }

    fn id(&self, number: i64) -> i64 {
        number * self.apart + i64::from(self.partition)
    }

    fn allocated(&self) -> u64 {
        self.db.counters().memory_allocated_bytes
    }

    /// Fills the table and then shortens most of its long values.
    fn make_sparse(&self) -> Bytes {
        let columns = vec![Column::new("id", DataType::Int64), Column::new("text", DataType::Text)];
        let schema = Schema::new(columns, &["id"]).unwrap();
        self.db.create_table(self.table, schema).unwrap();
        let short = || Value::Text(String::new());
        self.change(&|_| true, &|tx, table, id| tx.insert(table, &[id.into(), short()]));
        let empty = self.allocated();
        self.change(&|_| true, &|tx, table, id| store(tx, table, id, text(id)));
        let full = self.allocated() - empty;
        assert!(full >= ROWS as u64 * BYTES as u64, "{full}");
        // In one transaction: the first call compacts only a part of what is sparse then.
        self.change(&|id| id % STAYS != 0, &|tx, table, id| store(tx, table, id, short()));
        Bytes { empty, full }
    }

    /// Waits until the blocks are compacted, and checks that the rows are unchanged.
    fn is_emptied(&self, Bytes { empty, full }: Bytes) {
        let begin = Instant::now();
        // A quarter is needed, and in each segment one block is being filled.
        while self.allocated().saturating_sub(empty) > full * 5 / 8 {
            drop(self.db.snapshot().unwrap()); // frees retired extents at once
            let left = self.allocated() - empty;
            assert!(begin.elapsed() < Duration::from_secs(60), "{left} of {full} bytes are kept");
            std::thread::sleep(Duration::from_millis(5));
        }
        let table = self.db.table(self.table).unwrap();
        let mut tx = self.db.begin_with(&alone(self.partition)).unwrap();
        for number in 0..ROWS {
            let id = self.id(number);
            let text = if number % STAYS == 0 { text(id) } else { Value::Text(String::new()) };
            let row: Option<Vec<Value>> = tx.read(&table, &[id.into()]).unwrap();
            assert_eq!(row.unwrap()[1], text);
        }
    }
}
