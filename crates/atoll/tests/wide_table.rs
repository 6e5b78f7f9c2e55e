//! A table of as many columns as a table may have, with indexes over the first and the last of
//! them: inserts, updates, reads and scans under every scheme, and a restart.
#![allow(clippy::unwrap_used)]

use std::ops::ControlFlow;

use atoll::{
    COLUMNS_MAX, Column, DataType, Database, DatabaseOptions, IndexSpec, Range, Schema, SchemeKind,
    Table, TableOptions, Transaction, Value,
};

const ROWS: i64 = 100;

/// Texts, which may have values in a heap, share bits of column sets with numbers.
fn data_type(at: usize) -> DataType {
    match at % 5 {
        0 | 4 => DataType::Int64,
        1 => DataType::Bool,
        2 => DataType::Text,
        _ => DataType::Int32,
    }
}

fn table(db: &Database) -> Table {
    let columns = (0..COLUMNS_MAX).map(|at| match at {
        0 => Column::new("id", DataType::Int64),
        _ => Column::nullable(format!("c{at}"), data_type(at)),
    });
    let schema = Schema::new(columns.collect(), &["id"]).unwrap();
    let index = |at: usize| IndexSpec {
        name: format!("by_c{at}"),
        columns: vec![format!("c{at}")],
        unique: false,
        nulls_not_distinct: false,
    };
    let indexes = vec![index(4), index(COLUMNS_MAX - 1)];
    db.create_table_with("t", schema, &TableOptions { indexes, ..Default::default() }).unwrap()
}

fn value(id: i64, at: usize) -> Value {
    let number = id * 10_000 + at as i64;
    match data_type(at) {
        _ if at == 0 => id.into(),
        DataType::Int64 => number.into(),
        DataType::Bool => Value::Bool(number % 3 == 0),
        DataType::Text => Value::Text(format!("a text of more than twelve bytes: {number}")),
        _ => Value::Int32(number as i32),
    }
}

fn row(id: i64) -> Vec<Value> {
    (0..COLUMNS_MAX).map(|at| value(id, at)).collect()
}

/// The columns that are changed: one of each index, and each column that shares a bit with them.
fn changed() -> impl Iterator<Item = usize> {
    let shares = |at: &usize| [4, COLUMNS_MAX - 1].iter().any(|index| at % 256 == index % 256);
    (1..COLUMNS_MAX).filter(shares)
}

/// What a row holds after its change.
fn expected(id: i64) -> Vec<Value> {
    let mut row = row(id);
    if id % 2 == 0 {
        changed().for_each(|at| row[at] = value(id + 1000, at));
    }
    row
}

fn check(db: &Database, table: &Table) {
    for id in 0..ROWS {
        let read = db.transaction(|tx| tx.read(table, &[id.into()])).unwrap();
        assert!(read == Some(expected(id)), "{id}");
    }
    for at in [4, COLUMNS_MAX - 1] {
        let index = table.index(&format!("by_c{at}")).unwrap();
        let scan = |tx: &mut Transaction| {
            let mut found = Vec::new();
            let take = |row: (Value, Value)| {
                found.push(row);
                ControlFlow::Continue(())
            };
            tx.scan(&index, Range::ALL, |row| (row.value(at), row.value(0)), take)?;
            Ok(found)
        };
        let mut all: Vec<_> = (0..ROWS).map(|id| (expected(id)[at].clone(), id.into())).collect();
        all.sort_by_key(|(value, _)| match value {
            Value::Int64(number) => *number,
            other => panic!("{other:?}"),
        });
        assert_eq!(db.transaction(scan).unwrap(), all);
    }
}

fn fill(db: &Database) -> Table {
    let table = table(db);
    db.transaction(|tx| (0..ROWS).try_for_each(|id| tx.insert(&table, &row(id)))).unwrap();
    for id in (0..ROWS).step_by(2) {
        let changes: Vec<_> = changed().map(|at| (at, value(id + 1000, at))).collect();
        assert!(db.transaction(|tx| tx.update(&table, &[id.into()], &changes)).unwrap());
    }
    table
}

#[test]
fn a_table_may_have_sixteen_hundred_columns_under_every_scheme() {
    assert_eq!(COLUMNS_MAX, 1600);
    for scheme in SchemeKind::ALL.iter().copied() {
        let db = Database::create(DatabaseOptions { scheme, ..Default::default() }).unwrap();
        let table = fill(&db);
        check(&db, &table);
        // A change that is rolled back.
        let undone = db.transaction(|tx| {
            let changes: Vec<_> = changed().map(|at| (at, value(5, at))).collect();
            assert!(tx.update(&table, &[1i64.into()], &changes)?);
            assert!(tx.delete(&table, &[2i64.into()])?);
            tx.insert(&table, &row(3))
        });
        assert!(undone.is_err(), "row 3 exists");
        check(&db, &table);
    }
}

#[test]
fn a_wide_table_is_restored_from_logs_and_checkpoints() {
    let folder = tempfile::tempdir().unwrap();
    let open = || Database::open(folder.path(), DatabaseOptions::default()).unwrap();
    fill(&open());
    for _ in 0..2 {
        let db = open();
        check(&db, &db.table("t").unwrap());
        db.checkpoint().unwrap();
    }
    let db = open();
    check(&db, &db.table("t").unwrap());
}
