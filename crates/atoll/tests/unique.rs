//! Unique indexes in addition to the primary key.
#![allow(clippy::unwrap_used)]

use atoll::{
    Column, DataType, Database, DatabaseOptions, Error, IndexSpec, Schema, SchemeKind, Table,
    TableOptions, TransactionOptions, Value,
};

const NAME: usize = 1;

/// Accounts in two partitions, with a name that may be NULL, and a unique index.
fn database(scheme: SchemeKind, columns: &[&str]) -> (Database, Table) {
    let options = DatabaseOptions { scheme, partitions: Some(2), ..DatabaseOptions::default() };
    let db = Database::create(options).unwrap();
    let number = DataType::Int64;
    let all = vec![Column::new("id", number), Column::nullable("name", number)];
    let schema = Schema::new(all, &["id"]).unwrap();
    let columns = columns.iter().map(|column| (*column).to_owned()).collect();
    let index =
        IndexSpec { name: "by_name".to_owned(), columns, unique: true, nulls_not_distinct: false };
    let options = TableOptions { indexes: vec![index], ..TableOptions::default() };
    let table = db.create_table_with("account", schema, &options).unwrap();
    (db, table)
}

fn row(id: i64, name: impl Into<Value>) -> [Value; 2] {
    [id.into(), name.into()]
}

#[test]
fn who_gives_a_value_of_a_unique_index_touches_all_partitions() {
    let (db, table) = database("HSTORE".parse().unwrap(), &["name"]);
    let mut session = db.session().unwrap();
    let first = TransactionOptions { partitions: vec![0], ..TransactionOptions::default() };
    let refused = session.transaction_with(&first, |tx| tx.insert(&table, &row(0, 7i64)));
    assert!(matches!(refused, Err(Error::Transaction(_))), "{refused:?}");
    // NULL can occur in any number of rows.
    let nameless = row(0, Value::Null);
    session.transaction_with(&first, |tx| tx.insert(&table, &nameless)).unwrap();
    let named = [(NAME, Value::from(7i64))];
    let refused =
        session.transaction_with(&first, |tx| tx.update(&table, &row(0, 0i64)[..1], &named));
    assert!(matches!(refused, Err(Error::Transaction(_))), "{refused:?}");
    assert_eq!(table.row_count(), 1);

    let all = TransactionOptions { partitions: vec![0, 1], ..TransactionOptions::default() };
    session.transaction_with(&all, |tx| tx.update(&table, &row(0, 0i64)[..1], &named)).unwrap();
    let taken = session.transaction(|tx| tx.insert(&table, &row(1, 7i64)));
    let taken = taken.unwrap_err();
    assert!(
        matches!(&taken, Error::DuplicateIndexKey { index, .. } if index == "by_name"),
        "{taken}"
    );
    assert!(taken.to_string().contains("has a row with name = 7 already"), "{taken}");
    // A transaction that deletes a value, or does not change it, does not search the other
    // partition.
    session.transaction_with(&first, |tx| tx.delete(&table, &row(0, 0i64)[..1])).unwrap();
    assert_eq!(table.row_count(), 0);
}

#[test]
fn a_unique_index_that_begins_as_the_key_is_a_matter_of_one_partition() {
    let (db, table) = database("HSTORE".parse().unwrap(), &["id", "name"]);
    let mut session = db.session().unwrap();
    let first = TransactionOptions { partitions: vec![0], ..TransactionOptions::default() };
    session.transaction_with(&first, |tx| tx.insert(&table, &row(0, 7i64))).unwrap();
}
