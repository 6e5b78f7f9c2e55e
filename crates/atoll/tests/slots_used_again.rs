//! A scan that has read the entries of an index comes to a slot that was reused for another row
//! meanwhile.
#![allow(clippy::unwrap_used)]

use std::ops::ControlFlow;

use atoll::{
    Column, DataType, Database, DatabaseOptions, IndexSpec, Range, Schema, SchemeKind, Table,
    TableOptions, TxnResult, Value,
};

const ROWS: i64 = 400;
/// The last key of the range.
const LAST: i64 = 40;
/// The row that is deleted, among entries that have been read when [`SEEN`] rows have been shown.
const GOES: i64 = 30;
const SEEN: usize = 6;
/// Far behind the range, so in another leaf.
const FAR: i64 = 10_000;

fn row(id: i64, key: i64) -> [Value; 2] {
    [id.into(), key.into()]
}

/// A table with an index over the numbers of the rows.
fn filled(scheme: SchemeKind) -> (Database, Table) {
    let options = DatabaseOptions { scheme, ..DatabaseOptions::default() };
    let db = Database::create(options).unwrap();
    let columns = ["id", "key"].map(|name| Column::new(name, DataType::Int64)).to_vec();
    let by_key = IndexSpec {
        name: "by_key".to_owned(),
        columns: vec!["key".to_owned()],
        unique: false,
        nulls_not_distinct: false,
    };
    let options = TableOptions { indexes: vec![by_key], ..TableOptions::default() };
    let schema = Schema::new(columns, &["id"]).unwrap();
    let table = db.create_table_with("t", schema, &options).unwrap();
    db.transaction(|tx| (0..ROWS).try_for_each(|id| tx.insert(&table, &row(id, id)))).unwrap();
    (db, table)
}

/// Scans the range in a transaction and calls `meanwhile` after some rows; returns the rows shown
/// to the transaction if it committed.
fn scan(db: &Database, table: &Table, meanwhile: &mut dyn FnMut()) -> TxnResult<Vec<Vec<Value>>> {
    let index = table.index("by_key").unwrap();
    let (from, to) = ([Value::Int64(0)], [Value::Int64(LAST)]);
    let mut tx = db.begin().unwrap();
    let mut shown = Vec::new();
    tx.scan(
        &index,
        Range::between(&from, &to),
        |row| vec![row.value(0), row.value(1)],
        |row| {
            shown.push(row);
            if shown.len() == SEEN {
                meanwhile();
            }
            ControlFlow::Continue(())
        },
    )?;
    tx.commit()?;
    Ok(shown)
}

/// Schemes under which other transactions of the same thread go on during a scan: not HSTORE, where
/// they wait for its partition.
fn schemes() -> impl Iterator<Item = SchemeKind> {
    SchemeKind::ALL.iter().copied().filter(|scheme| scheme.name() != "HSTORE")
}

#[test]
fn a_row_in_the_slot_of_one_that_has_gone_is_not_taken_for_it() {
    let mut committed = 0;
    for scheme in schemes() {
        let (db, table) = filled(scheme);
        let mut have_come = false;
        let shown = scan(&db, &table, &mut || {
            let mut gone = db.begin().unwrap();
            let gone = gone.delete(&table, &[GOES.into()]).and_then(|_| gone.commit());
            // Many rows, so that one of them gets the slot.
            have_come = gone.is_ok()
                && (0..64).all(|at| {
                    let mut come = db.begin().unwrap();
                    let come = come.insert(&table, &row(FAR + at, FAR + at)).map(|()| come);
                    come.and_then(|come| come.commit()).is_ok()
                });
        });
        let Ok(shown) = shown else { continue };
        committed += usize::from(have_come);
        let expected = (0..=LAST).filter(|id| *id != GOES || shown.len() > LAST as usize);
        let expected: Vec<_> = expected.map(|id| row(id, id).to_vec()).collect();
        assert_eq!(shown, expected, "{scheme}");
    }
    assert!(committed > 0, "under no scheme did both commit");
}
