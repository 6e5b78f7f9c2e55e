//! Tables without a primary key: their rows have numbers, which no reader sees and which are never
//! given twice.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use arrow_array::{ArrayRef, Int32Array};
use atoll::load::LoadOptions;
use atoll::machine::CrashMedium;
use atoll::{
    ArrowRows, Column, DataType, Database, DatabaseOptions, ROW_NUMBER, Schema, Table, Value,
};

fn options() -> DatabaseOptions {
    DatabaseOptions {
        memory_limit_bytes: Some(64 << 20),
        tablespaces: Some(1),
        ..DatabaseOptions::default()
    }
}

fn schema() -> Schema {
    Schema::keyless(vec![Column::nullable("v", DataType::Int32)]).unwrap()
}

fn insert(db: &Database, table: &Table, values: &[i32]) {
    let rows: Vec<Value> =
        values.iter().flat_map(|value| [Value::Int32(*value), Value::Null]).collect();
    db.transaction(|tx| tx.insert(table, &rows)).unwrap();
}

/// The values and the numbers of all rows.
fn rows(db: &Database, table: &Table) -> Vec<(Value, Value)> {
    let mut all = Vec::new();
    db.transaction(|tx| {
        all.clear();
        let look = |row: &atoll::Row<'_>| (row.value(0), row.value(1));
        tx.scan_table(table, look, |row| {
            all.push(row);
            std::ops::ControlFlow::Continue(())
        })
    })
    .unwrap();
    all
}

/// How many different numbers there are.
fn numbers(rows: &[(Value, Value)]) -> usize {
    let mut numbers: Vec<i64> = rows
        .iter()
        .map(|(_, number)| match number {
            Value::Int64(number) => *number,
            other => panic!("{other:?} is no number of a row"),
        })
        .collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers.len()
}

#[test]
fn only_numbers_of_rows_have_their_name() {
    let schema = schema();
    assert!(schema.is_keyless());
    assert_eq!((schema.columns().len(), schema.visible().len()), (2, 1));
    assert!(schema.visible_key().is_empty());
    let number = || Column::new(ROW_NUMBER, DataType::Int64);
    let value = || Column::new("v", DataType::Int64);
    assert!(Schema::new(vec![number(), value()], &["v"]).is_err());
    assert!(Schema::new(vec![number(), value()], &[ROW_NUMBER]).is_err());
    assert!(Schema::new(vec![value(), number()], &["v"]).is_err());
    assert!(
        Schema::new(vec![value(), number()], &[ROW_NUMBER]).unwrap() == {
            Schema::keyless(vec![value()]).unwrap()
        }
    );
    assert!(Schema::keyless(Vec::new()).is_err());
    assert!(!Schema::new(vec![value()], &["v"]).unwrap().is_keyless());
}

#[test]
fn readers_do_not_see_numbers() {
    let db = Database::create(options()).unwrap();
    let table = db.create_table("t", schema()).unwrap();
    insert(&db, &table, &[7, 7]);
    let snapshot = db.snapshot().unwrap().table("t").unwrap();
    let names: Vec<_> =
        snapshot.arrow_schema().fields().iter().map(|field| field.name().clone()).collect();
    assert_eq!(names, ["v"]);
    // By its place the column is there.
    assert_eq!(snapshot.segment(0).unwrap().batch(&[0, 1]).unwrap().num_columns(), 2);
}

#[test]
fn arrow_data_is_numbered_in_bulk_and_behind_it() {
    let db = Database::create(options()).unwrap();
    let table = db.create_table("t", schema()).unwrap();
    let values: ArrayRef = Arc::new(Int32Array::from(vec![3; 20_000]));
    let batch = ArrowRows { rows: 20_000, columns: vec![Some(values), None] };
    for round in 1..=2 {
        let load = [batch.clone(), batch.clone()];
        db.insert_arrow(&table, &load, LoadOptions::default()).unwrap();
        insert(&db, &table, &[4]);
        let all = rows(&db, &table);
        assert_eq!((all.len(), numbers(&all)), (40_001 * round, 40_001 * round));
    }
}

#[test]
fn sessions_get_different_numbers() {
    let db = Database::create(options()).unwrap();
    let table = db.create_table("t", schema()).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..500).for_each(|value| insert(&db, &table, &[value, value])));
        }
    });
    let all = rows(&db, &table);
    assert_eq!((all.len(), numbers(&all)), (4000, 4000));
}

/// After a crash at any moment, and with checkpoints or without, new rows go beside the old ones.
#[test]
fn numbers_go_on_after_a_crash() {
    let medium = CrashMedium::default();
    let db = Database::open_on(&medium, options()).unwrap();
    let table = db.create_table("t", schema()).unwrap();
    let begun = medium.events();
    for round in 0..4 {
        insert(&db, &table, &[round, round]);
        db.transaction(|tx| {
            let first = rows_of(tx, &table).remove(0);
            tx.delete(&table, &[first.1])
        })
        .unwrap();
        if round == 1 {
            db.checkpoint().unwrap();
        }
    }
    for at in begun..=medium.events() {
        let crashed = medium.crash(at, || false);
        for _ in 0..2 {
            let db = Database::open_on(&crashed, options()).unwrap();
            let table = db.table("t").unwrap();
            let before = rows(&db, &table).len();
            insert(&db, &table, &[9, 9, 9]);
            let all = rows(&db, &table);
            assert_eq!((all.len(), numbers(&all)), (before + 3, before + 3), "after {at} events");
        }
    }
}

fn rows_of(tx: &mut atoll::Transaction, table: &Table) -> Vec<(Value, Value)> {
    let mut all = Vec::new();
    let look = |row: &atoll::Row<'_>| (row.value(0), row.value(1));
    let take = |row| {
        all.push(row);
        std::ops::ControlFlow::Continue(())
    };
    tx.scan_table(table, look, take).unwrap();
    all
}
