//! Bounds of scans: the greatest keys, empty prefixes, NULL.
#![allow(clippy::unwrap_used)]

use std::ops::{Bound, ControlFlow};
use std::slice::from_ref;

use atoll::{
    Column, DataType, Database, DatabaseOptions, Error, Index, IndexSpec, Range, Schema,
    StorageError, TableOptions, Value,
};

/// A table with an index over the columns behind the key, and rows with these values in them.
fn filled(columns: &[Column], rows: &[&[Value]]) -> (Database, Index) {
    let options = DatabaseOptions { memory_limit_bytes: Some(64 << 20), ..Default::default() };
    let db = Database::create(options).unwrap();
    let names: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
    let all = [&[Column::new("id", DataType::Int64)], columns].concat();
    let index = IndexSpec {
        name: "i".to_owned(),
        columns: names,
        unique: false,
        nulls_not_distinct: false,
    };
    let options = TableOptions { indexes: vec![index], ..TableOptions::default() };
    let table = db.create_table_with("t", Schema::new(all, &["id"]).unwrap(), &options).unwrap();
    db.transaction(|tx| {
        let mut numbered = (0i64..).zip(rows);
        numbered.try_for_each(|(id, row)| tx.insert(&table, &[&[id.into()], *row].concat()))
    })
    .unwrap();
    let index = table.index("i").unwrap();
    (db, index)
}

/// The numbers of the rows in a range, in order.
fn found(db: &Database, index: &Index, range: Range<'_>) -> Result<Vec<i64>, Error> {
    db.transaction(|tx| {
        let mut rows = Vec::new();
        tx.scan(
            index,
            range,
            |row| row.i64(0),
            |id| {
                rows.push(id);
                ControlFlow::Continue(())
            },
        )?;
        Ok(rows)
    })
}

/// Scans in both directions, which must agree.
fn rows(db: &Database, index: &Index, from: Bound<&[Value]>, to: Bound<&[Value]>) -> Vec<i64> {
    let range = Range { from, to, descending: false };
    let rows = found(db, index, range).unwrap();
    let mut backwards = found(db, index, range.descending()).unwrap();
    backwards.reverse();
    assert_eq!(rows, backwards, "{range:?}");
    rows
}

#[test]
fn nothing_comes_behind_the_greatest_key() {
    let types = [
        (DataType::Int16, Value::Int16(i16::MAX), Value::Int16(i16::MIN)),
        (DataType::Int32, Value::Int32(i32::MAX), Value::Int32(i32::MIN)),
        (DataType::Int64, Value::Int64(i64::MAX), Value::Int64(i64::MIN)),
        (DataType::Date, Value::Date(i32::MAX), Value::Date(i32::MIN)),
        (DataType::Timestamp, Value::Timestamp(i64::MAX), Value::Timestamp(i64::MIN)),
        (DataType::FixedBinary(2), Value::Binary(vec![255; 2]), Value::Binary(vec![0; 2])),
    ];
    for (data_type, greatest, least) in types {
        for column in [Column::new("a", data_type), Column::nullable("a", data_type)] {
            let (least, greatest) = (from_ref(&least), from_ref(&greatest));
            let (db, index) = filled(&[column], &[least, greatest]);
            use Bound::{Excluded, Included, Unbounded};
            assert_eq!(rows(&db, &index, Excluded(greatest), Unbounded), [0; 0], "{greatest:?}");
            assert_eq!(rows(&db, &index, Included(greatest), Unbounded), [1]);
            assert_eq!(rows(&db, &index, Excluded(least), Unbounded), [1]);
            assert_eq!(rows(&db, &index, Unbounded, Included(greatest)), [0, 1]);
            assert_eq!(rows(&db, &index, Unbounded, Excluded(greatest)), [0]);
            assert_eq!(rows(&db, &index, Unbounded, Excluded(least)), [0; 0]);
        }
    }
}

#[test]
fn an_empty_prefix_is_that_of_all_keys() {
    let (db, index) =
        filled(&[Column::new("a", DataType::Int32)], &[&[Value::Int32(1)], &[Value::Int32(2)]]);
    use Bound::{Excluded, Included, Unbounded};
    assert_eq!(rows(&db, &index, Included(&[]), Unbounded), [0, 1]);
    assert_eq!(rows(&db, &index, Unbounded, Included(&[])), [0, 1]);
    assert_eq!(rows(&db, &index, Excluded(&[]), Unbounded), [0; 0]);
    assert_eq!(rows(&db, &index, Unbounded, Excluded(&[])), [0; 0]);
}

#[test]
fn null_is_behind_all_values_of_a_column_that_has_it_and_an_error_elsewhere() {
    let both = [Column::new("a", DataType::Int64), Column::nullable("b", DataType::Int64)];
    let of = |a: i64, b: Value| [a.into(), b];
    let all = [of(5, 1i64.into()), of(5, Value::Null), of(6, 1i64.into())];
    let (db, index) = filled(&both, &[&all[0], &all[1], &all[2]]);
    let null = of(5, Value::Null);
    use Bound::{Excluded, Included, Unbounded};
    assert_eq!(rows(&db, &index, Included(&null), Included(&null)), [1]);
    assert_eq!(rows(&db, &index, Included(&null[..1]), Excluded(&null)), [0]);
    assert_eq!(rows(&db, &index, Excluded(&null), Unbounded), [2]);
    for range in [
        Range { from: Unbounded, to: Excluded(&[Value::Null]), descending: false },
        Range::prefix(&[Value::Null]),
    ] {
        let wrong = found(&db, &index, range).unwrap_err();
        let is_named = matches!(
            &wrong,
            Error::Storage(StorageError::NullInColumn { column }) if column == "a"
        );
        assert!(is_named, "{wrong}");
    }
}

#[test]
fn too_many_values_are_too_many_for_the_index_that_is_named() {
    let (db, index) = filled(&[Column::new("a", DataType::Int32)], &[]);
    let two = [Value::Int32(1), Value::Int32(2)];
    let wrong = found(&db, &index, Range::prefix(&two)).unwrap_err();
    assert_eq!(wrong.to_string(), "index \"i\" has 1 columns, the bound given has 2");
}

#[test]
fn paging_through_an_index_ends_with_its_greatest_key() {
    let greatest: Vec<[Value; 1]> = (0..5).map(|n| [Value::Int64(i64::MAX - n)]).collect();
    let given: Vec<&[Value]> = greatest.iter().map(|row| &row[..]).collect();
    let (db, index) = filled(&[Column::new("a", DataType::Int64)], &given);
    let mut last: Option<[Value; 1]> = None;
    let mut seen = 0;
    loop {
        let from = last.as_ref().map_or(Bound::Unbounded, |last| Bound::Excluded(&last[..]));
        let range = Range { from, to: Bound::Unbounded, descending: false };
        let page = db.transaction(|tx| {
            let mut first = None;
            tx.scan(
                &index,
                range,
                |row| row.i64(1),
                |value| {
                    first = Some(value);
                    ControlFlow::Break(())
                },
            )?;
            Ok(first)
        });
        let Some(value) = page.unwrap() else { break };
        seen += 1;
        assert!(seen <= 5, "it goes on for ever");
        last = Some([Value::Int64(value)]);
    }
    assert_eq!(seen, 5);
}
