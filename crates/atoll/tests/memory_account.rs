//! The account of a database's memory adds up to what the system reports. Alone in its process.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array};
use atoll::load::LoadOptions;
use atoll::{
    ArrowRows, Column, DataType, Database, DatabaseOptions, IndexSpec, MemoryAccount, Schema,
    TableOptions, Value,
};

const ROWS: i64 = 1_500_000;

/// The bytes of the parts, and what the system says.
fn sum(memory: &MemoryAccount) -> (u64, u64) {
    let store = memory.tables_bytes + memory.kept_bytes + memory.free_bytes;
    let heap = memory.heap_bytes + memory.heap_free_bytes;
    (store + memory.headers_bytes + memory.indexes_bytes + heap, memory.process_bytes)
}

/// `apart` is what the process takes without a database: its stacks and its program's data.
fn check(db: &Database, apart: u64, when: &str) {
    let memory = db.memory();
    let (parts, system) = sum(&memory);
    let off = (parts + apart).abs_diff(system);
    assert!(off * 20 < system, "{when}: {off} off in {system}, {apart} apart, {memory:?}");
}

#[test]
fn the_parts_add_up_to_what_the_system_says() {
    let scheme = "silo".parse().unwrap();
    let db = Database::create(DatabaseOptions { scheme, ..DatabaseOptions::default() }).unwrap();
    let (parts, system) = sum(&db.memory());
    let apart = system.saturating_sub(parts);
    assert!(apart < 16 << 20, "{apart} bytes apart");
    let columns = vec![Column::new("id", DataType::Int64), Column::new("value", DataType::Int64)];
    let index = IndexSpec {
        name: "i".into(),
        columns: vec!["value".into()],
        unique: false,
        nulls_not_distinct: false,
    };
    let options = TableOptions { indexes: vec![index], ..TableOptions::default() };
    let schema = || Schema::new(columns.clone(), &["id"]).unwrap();
    let loaded = db.create_table("loaded", schema()).unwrap();
    let keys = (0..ROWS).map(|at| at * 7919 % ROWS);
    let array = Arc::new(keys.collect::<Int64Array>()) as ArrayRef;
    let columns = vec![Some(Arc::clone(&array)), Some(array)];
    let rows = [ArrowRows { rows: ROWS as usize, columns }];
    db.insert_arrow(&loaded, &rows, LoadOptions::default()).unwrap();
    check(&db, apart, "after a load");
    let inserted = db.create_table_with("inserted", schema(), &options).unwrap();
    db.transaction(|tx| tx.read(&inserted, &[Value::Int64(1)])).unwrap();
    db.insert_arrow(&inserted, &rows, LoadOptions::default()).unwrap();
    check(&db, apart, "after a transaction");
    let snapshot = db.snapshot().unwrap();
    db.transaction(|tx| {
        (0..ROWS / 4).try_for_each(|key| {
            tx.update(&loaded, &[Value::Int64(key)], &[(1, Value::Int64(0))]).map(drop)
        })
    })
    .unwrap();
    check(&db, apart, "with a snapshot of replaced values");
    drop(snapshot);
}
