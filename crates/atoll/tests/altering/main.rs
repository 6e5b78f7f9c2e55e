//! Tables that get other names and other indexes, with their rows as they are.
#![allow(clippy::unwrap_used)]

mod beside;
mod columns;
mod indexes;
mod names;
mod recovery;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use atoll::machine::CrashMedium;
use atoll::{
    Column, DataType, Database, DatabaseOptions, Error, IndexSpec, Range, Schema, SchemeKind,
    Table, TableChange, TableOptions, Transaction, TxnError, TxnResult, Value,
};

fn options(scheme: SchemeKind) -> DatabaseOptions {
    DatabaseOptions {
        scheme,
        partitions: Some(2),
        memory_limit_bytes: Some(128 << 20),
        lock_timeout: Duration::from_secs(60),
        checkpoint_log_bytes: u64::MAX,
        ..DatabaseOptions::default()
    }
}

fn all_schemes() -> impl Iterator<Item = SchemeKind> {
    SchemeKind::ALL.iter().copied()
}

fn schema(names: [&str; 3]) -> Schema {
    let columns = vec![
        Column::new(names[0], DataType::Int64),
        Column::nullable(names[1], DataType::Int64),
        Column::nullable(names[2], DataType::Text),
    ];
    Schema::new(columns, &[names[0]]).unwrap()
}

fn index(name: &str, columns: &[&str], unique: bool) -> IndexSpec {
    let columns = columns.iter().map(|name| (*name).to_owned()).collect();
    IndexSpec { name: name.to_owned(), columns, unique, nulls_not_distinct: false }
}

fn create(db: &Database, name: &str, indexes: Vec<IndexSpec>) -> Table {
    let options = TableOptions { indexes, ..TableOptions::default() };
    db.create_table_with(name, schema(["id", "n", "text"]), &options).unwrap()
}

fn row(id: i64, n: i64) -> [Value; 3] {
    let n = if n % 10 == 9 { Value::Null } else { n.into() };
    [id.into(), n, Value::Text(format!("a text of some length {}", id % 13))]
}

fn insert(db: &Database, table: &Table, ids: std::ops::Range<i64>, n: impl Fn(i64) -> i64) {
    db.transaction(|tx| ids.clone().try_for_each(|id| tx.insert(table, &row(id, n(id))))).unwrap();
}

/// What a table becomes, beyond what it is.
fn change(table: &Table) -> TableChange {
    TableChange {
        name: table.name().to_owned(),
        schema: table.schema().clone(),
        added: Vec::new(),
        indexes: table.indexes(),
    }
}

fn with_index(table: &Table, added: IndexSpec) -> TableChange {
    let mut to = change(table);
    to.indexes.push(added);
    to
}

/// Gives a table a further index, beside other transactions where the scheme can.
fn add_index(db: &Database, table: &Table, spec: &IndexSpec) -> Result<Table, Error> {
    let begun = db.transaction(|tx| tx.begin_index(table, spec))?;
    let Some(mut build) = begun else {
        let to = with_index(table, spec.clone());
        return db.transaction(|tx| Ok(tx.alter_table(table, &to)?.expect("it is not full")));
    };
    build.fill(&mut || false)?;
    build.check(&mut || false)?;
    db.transaction(|tx| tx.end_index(&mut build))
}

/// The schemes under which a transaction can make an index of its own.
fn schemes_of_the_present() -> impl Iterator<Item = SchemeKind> {
    all_schemes().filter(|scheme| !scheme.orders_by_timestamp())
}

fn alter(db: &Database, table: &Table, to: &TableChange) -> Table {
    db.transaction(|tx| Ok(tx.alter_table(table, to)?.expect("the rows stay as they are"))).unwrap()
}

/// The ids of all rows by an index, with the values of its first column.
fn by_index(tx: &mut Transaction, table: &Table, name: &str) -> TxnResult<Vec<(Value, i64)>> {
    let column = table.indexes().into_iter().find(|spec| spec.name == name).unwrap().columns;
    let column = table.schema().position(&column[0]).unwrap();
    let mut found = Vec::new();
    tx.scan(
        &table.index(name).unwrap(),
        Range::prefix(&[]),
        |row| (row.value(column), row.value(0)),
        |(value, id)| {
            let Value::Int64(id) = id else { panic!("{id:?}") };
            found.push((value, id));
            ControlFlow::Continue(())
        },
    )?;
    Ok(found)
}

/// Checks that an index leads to the rows that there are, and to no others.
fn check_index(db: &Database, table: &Table, name: &str) {
    let (found, expected) = db
        .transaction(|tx| {
            let found: BTreeMap<i64, Value> =
                by_index(tx, table, name)?.into_iter().map(|(value, id)| (id, value)).collect();
            let columns = table.indexes().into_iter().find(|spec| spec.name == name).unwrap();
            let column = table.schema().position(&columns.columns[0]).unwrap();
            let mut expected = BTreeMap::new();
            tx.scan_table(
                table,
                |row| (row.value(0), row.value(column)),
                |(id, value)| {
                    let Value::Int64(id) = id else { panic!("{id:?}") };
                    expected.insert(id, value);
                    ControlFlow::Continue(())
                },
            )?;
            Ok((found, expected))
        })
        .unwrap();
    assert_eq!(found, expected, "{name}");
}
