//! Bulk loads: what they leave in the table, and that other transactions and snapshots see all rows
//! or none.
#![allow(clippy::unwrap_used)]

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::builder::{BinaryViewBuilder, FixedSizeBinaryBuilder, StringViewBuilder};
use arrow_array::types::{
    Date32Type, Decimal128Type, Float32Type, Time64MicrosecondType, TimestampMicrosecondType,
};
use arrow_array::{
    ArrayRef, ArrowPrimitiveType, BooleanArray, Float64Array, Int16Array, Int32Array, Int64Array,
    PrimitiveArray,
};
use atoll::load::LoadOptions;
use atoll::{
    ArrowRows, Column, DataType, Database, DatabaseOptions, Error, IndexSpec, Interval, Range,
    Schema, SchemeKind, Table, TableOptions, Transaction, TxnError, TxnResult, Value, encode_list,
    value_array,
};

fn options(scheme: SchemeKind) -> DatabaseOptions {
    DatabaseOptions { scheme, ..DatabaseOptions::default() }
}

fn pairs(db: &Database) -> Table {
    pairs_with(db, "pairs", &[])
}

/// A table of pairs with ordered indexes over the second column, which say whether it is unique.
fn pairs_with(db: &Database, name: &str, indexes: &[bool]) -> Table {
    let columns = vec![Column::new("id", DataType::Int64), Column::new("value", DataType::Int64)];
    let indexes = indexes.iter().enumerate().map(|(at, unique)| IndexSpec {
        name: format!("i{at}"),
        columns: vec!["value".to_owned()],
        unique: *unique,
        nulls_not_distinct: false,
    });
    let options = TableOptions { indexes: indexes.collect(), ..TableOptions::default() };
    db.create_table_with(name, Schema::new(columns, &["id"]).unwrap(), &options).unwrap()
}

/// The rows that a scan of an index finds.
fn scan(tx: &mut Transaction, table: &Table, index: &str) -> TxnResult<Vec<(Value, Value)>> {
    let index = table.index(index)?;
    let mut rows = Vec::new();
    let look = |row: &atoll::Row<'_>| (row.value(0), row.value(1));
    tx.scan(&index, Range::prefix(&[]), look, |row| {
        rows.push(row);
        ControlFlow::Continue(())
    })?;
    Ok(rows)
}

/// Rows of two numbers: the keys, and twice the keys.
fn numbers(keys: impl Iterator<Item = i64>) -> ArrowRows {
    let keys: Vec<i64> = keys.collect();
    let values: Vec<i64> = keys.iter().map(|key| key * 2).collect();
    let array = |numbers: Vec<i64>| Some(Arc::new(Int64Array::from(numbers)) as ArrayRef);
    ArrowRows { rows: keys.len(), columns: vec![array(keys), array(values)] }
}

/// The value of a key in a table of [`pairs`].
fn find(tx: &mut Transaction, table: &Table, key: i64) -> TxnResult<Option<Value>> {
    tx.read_with(table, &[Value::Int64(key)], |row| row.value(1))
}

/// Keys in an order that is not theirs.
fn scattered(keys: i64) -> impl Iterator<Item = i64> {
    (0..keys).map(move |at| at * 7_919 % keys)
}

fn snapshot_rows(db: &Database, table: &str) -> u64 {
    db.snapshot().unwrap().table(table).unwrap().row_count().unwrap()
}

#[test]
fn rows_of_every_type_are_as_given_and_go_on_as_others_do() {
    for scheme in SchemeKind::ALL.iter().copied() {
        every_type(&Database::create(options(scheme)).unwrap());
    }
}

fn all_types() -> Schema {
    let types = [
        ("a", DataType::Int16),
        ("b", DataType::Int32),
        ("c", DataType::Float32),
        ("d", DataType::Float64),
        ("e", DataType::Bool),
        ("f", DataType::Date),
        ("g", DataType::Timestamp),
        ("h", DataType::Decimal { precision: 12, scale: 2 }),
        ("i", DataType::Text),
        ("j", DataType::Binary),
        ("k", DataType::FixedBinary(5)),
        ("l", DataType::Varchar(7)),
        ("m", DataType::Char(7)),
        ("n", DataType::TimestampTz),
        ("o", DataType::Time),
        ("p", DataType::Uuid),
        ("q", DataType::Enum(labels())),
        ("r", DataType::Interval),
        ("s", DataType::Jsonb),
        ("t", DataType::Text.array().unwrap()),
    ];
    let mut columns = vec![Column::new("text", DataType::Text), Column::new("id", DataType::Int64)];
    for (name, data_type) in types {
        columns.push(Column { name: name.into(), data_type, nullable: true });
    }
    columns.push(Column::new("flag", DataType::Bool));
    Schema::new(columns, &["id", "text"]).unwrap()
}

fn labels() -> atoll::Labels {
    atoll::Labels::new("mood", &["sad", "ok", "happy"].map(str::to_owned)).unwrap()
}

fn text(row: i64) -> String {
    "abc€".repeat((row % 9) as usize)
}

/// The values of a row of [`all_types`], which are functions of its number.
fn row(number: i64) -> Vec<Value> {
    let or_null = |at: i64, value: Value| if (number + at) % 5 == 0 { Value::Null } else { value };
    vec![
        Value::Text(text(number)),
        Value::Int64(number),
        or_null(0, Value::Int16(number as i16)),
        or_null(1, Value::Int32(number as i32 * 3)),
        or_null(2, Value::Float32(number as f32 / 2.0)),
        or_null(3, Value::Float64(number as f64 / 3.0)),
        or_null(4, Value::Bool(number % 3 == 0)),
        or_null(0, Value::Date(number as i32 % 20_000)),
        or_null(1, Value::Timestamp(number * 1_000_003)),
        or_null(2, Value::Decimal(i128::from(number) * 17)),
        or_null(3, Value::Text(text(number + 1))),
        or_null(4, Value::Binary(text(number + 2).into_bytes())),
        or_null(0, Value::Binary(vec![number as u8; 5])),
        or_null(1, Value::Text(text(number % 2))),
        or_null(2, Value::Text(text(number % 2))),
        or_null(3, Value::Timestamp(number * 1_000_003)),
        or_null(4, Value::Int64(number * 1_000_003 % 86_400_000_001)),
        or_null(0, Value::Binary(vec![number as u8; 16])),
        or_null(1, Value::Int32((number % 3) as i32)),
        or_null(1, Value::Interval(Interval { months: number as i32, days: -1, nanos: number })),
        or_null(2, Value::Text(number.to_string())),
        or_null(3, Value::Binary(encode_list(DataType::Text, &[text(number).into(), Value::Null]))),
        Value::Bool(number % 2 == 0),
    ]
}

fn primitives<T: ArrowPrimitiveType>(
    rows: &[Vec<Value>],
    at: usize,
    get: impl Fn(&Value) -> Option<T::Native>,
) -> ArrayRef {
    Arc::new(rows.iter().map(|row| get(&row[at])).collect::<PrimitiveArray<T>>())
}

fn arrays(schema: &Schema, rows: &[Vec<Value>]) -> ArrowRows {
    macro_rules! get {
        ($variant:path) => {
            |value: &Value| match value {
                $variant(value) => Some(*value),
                _ => None,
            }
        };
    }
    let column = |at: usize| -> ArrayRef {
        let bytes = |value: &Value| match value {
            Value::Binary(bytes) => Some(bytes.clone()),
            _ => None,
        };
        match schema.columns()[at].data_type {
            DataType::Int16 => Arc::new(
                rows.iter().map(|row| get!(Value::Int16)(&row[at])).collect::<Int16Array>(),
            ),
            DataType::Int32 => Arc::new(
                rows.iter().map(|row| get!(Value::Int32)(&row[at])).collect::<Int32Array>(),
            ),
            DataType::Int64 => Arc::new(
                rows.iter().map(|row| get!(Value::Int64)(&row[at])).collect::<Int64Array>(),
            ),
            DataType::Float32 => primitives::<Float32Type>(rows, at, get!(Value::Float32)),
            DataType::Float64 => Arc::new(
                rows.iter().map(|row| get!(Value::Float64)(&row[at])).collect::<Float64Array>(),
            ),
            DataType::Bool => Arc::new(
                rows.iter().map(|row| get!(Value::Bool)(&row[at])).collect::<BooleanArray>(),
            ),
            DataType::Date => primitives::<Date32Type>(rows, at, get!(Value::Date)),
            DataType::Timestamp => {
                primitives::<TimestampMicrosecondType>(rows, at, get!(Value::Timestamp))
            }
            DataType::TimestampTz => {
                let values = rows.iter().map(|row| get!(Value::Timestamp)(&row[at]));
                let array = values.collect::<PrimitiveArray<TimestampMicrosecondType>>();
                Arc::new(array.with_timezone("UTC"))
            }
            DataType::Time => primitives::<Time64MicrosecondType>(rows, at, get!(Value::Int64)),
            DataType::Enum(labels) => {
                let codes = rows.iter().map(|row| get!(Value::Int32)(&row[at]));
                atoll::dictionary(codes.collect(), labels).unwrap()
            }
            DataType::Decimal { precision, scale } => {
                let array = rows.iter().map(|row| get!(Value::Decimal)(&row[at]));
                let array = array.collect::<PrimitiveArray<Decimal128Type>>();
                Arc::new(array.with_precision_and_scale(precision, scale as i8).unwrap())
            }
            DataType::Text | DataType::Varchar(_) | DataType::Char(_) => {
                let mut builder = StringViewBuilder::new();
                for row in rows {
                    match &row[at] {
                        Value::Text(text) => builder.append_value(text),
                        _ => builder.append_null(),
                    }
                }
                Arc::new(builder.finish())
            }
            DataType::Binary => {
                let mut builder = BinaryViewBuilder::new();
                rows.iter().for_each(|row| builder.append_option(bytes(&row[at])));
                Arc::new(builder.finish())
            }
            data_type @ (DataType::Interval
            | DataType::Json
            | DataType::Jsonb
            | DataType::Array(_)) => {
                let values: Vec<Value> = rows.iter().map(|row| row[at].clone()).collect();
                value_array(data_type, &values).unwrap()
            }
            DataType::FixedBinary(_) | DataType::Uuid => {
                let mut builder =
                    FixedSizeBinaryBuilder::new(schema.columns()[at].data_type.width() as i32);
                for row in rows {
                    match bytes(&row[at]) {
                        Some(bytes) => builder.append_value(bytes).unwrap(),
                        None => builder.append_null(),
                    }
                }
                Arc::new(builder.finish())
            }
        }
    };
    let columns = (0..schema.columns().len()).map(|at| Some(column(at))).collect();
    ArrowRows { rows: rows.len(), columns }
}

fn key(number: i64) -> [Value; 2] {
    [Value::Int64(number), Value::Text(text(number))]
}

fn check_every_type(db: &Database, table: &Table, rows: i64) {
    assert_eq!(table.row_count(), rows as u64);
    let all: Vec<usize> = (0..table.schema().columns().len()).collect();
    db.transaction(|tx| {
        for number in (0..rows).step_by(37).chain(rows - 5..rows) {
            assert_eq!(tx.read(table, &key(number))?, Some(row(number)));
        }
        assert_eq!(tx.read(table, &key(rows))?, None);
        Ok(())
    })
    .unwrap();
    let snapshot = db.snapshot().unwrap();
    let table = snapshot.table(table.name()).unwrap();
    let mut seen = 0;
    for at in 0..table.segment_count() {
        let segment = table.segment(at).unwrap();
        let batch = segment.batch(&all).unwrap();
        for at in 0..batch.num_rows() {
            if !segment.presence().is_none_or(|bits| bits.value(at)) {
                continue;
            }
            seen += 1;
            let of = |column: usize| {
                let data_type = all_types().columns()[column].data_type;
                atoll::load::value(batch.column(column).as_ref(), data_type, at)
            };
            let values: Vec<Value> = all.iter().map(|column| of(*column)).collect();
            let Value::Int64(number) = values[1] else { panic!("an id") };
            assert_eq!(values, row(number));
        }
    }
    assert_eq!(seen, rows);
}

fn every_type(db: &Database) {
    const ROWS: i64 = 20_000;
    let table = db.create_table("t", all_types()).unwrap();
    let rows: Vec<Vec<Value>> = (0..ROWS).map(row).collect();
    let batches: Vec<ArrowRows> =
        rows.chunks(7_001).map(|rows| arrays(&all_types(), rows)).collect();
    assert_eq!(db.insert_arrow(&table, &batches, LoadOptions::default()).unwrap(), ROWS as u64);
    check_every_type(db, &table, ROWS);
    // Then transactions change it as any other table.
    db.transaction(|tx| {
        for number in (0..ROWS).step_by(3) {
            assert!(tx.delete(&table, &key(number))?);
        }
        for number in (0..ROWS).filter(|number| number % 3 == 1) {
            assert!(tx.update(&table, &key(number), &[(10, Value::Text("x".repeat(99)))])?);
        }
        Ok(())
    })
    .unwrap();
    db.transaction(|tx| {
        (0..ROWS).step_by(3).try_for_each(|number| tx.insert(&table, &row(number)))?;
        let changed = (0..ROWS).filter(|number| number % 3 == 1);
        for number in changed {
            assert!(tx.update(&table, &key(number), &[(10, row(number)[10].clone())])?);
        }
        (ROWS..ROWS + 100).try_for_each(|number| tx.insert(&table, &row(number)))
    })
    .unwrap();
    let again = db.transaction(|tx| tx.insert(&table, &row(5)));
    assert!(matches!(again, Err(Error::DuplicateKey { .. })), "{again:?}");
    check_every_type(db, &table, ROWS + 100);
}

#[test]
fn a_table_that_was_used_gets_the_rows_too() {
    for scheme in SchemeKind::ALL.iter().copied() {
        let db = Database::create(options(scheme)).unwrap();
        let table = pairs(&db);
        let absent = db.transaction(|tx| find(tx, &table, 4)).unwrap();
        assert_eq!(absent, None);
        assert_eq!(
            db.insert_arrow(&table, &[numbers(scattered(20_000))], LoadOptions::default()).unwrap(),
            20_000
        );
        assert_eq!(
            db.insert_arrow(&table, &[numbers(20_000..30_000)], LoadOptions::default()).unwrap(),
            10_000
        );
        assert_eq!(snapshot_rows(&db, "pairs"), 30_000);
        let again = db.insert_arrow(&table, &[numbers(29_999..30_001)], LoadOptions::default());
        assert!(matches!(again, Err(Error::DuplicateKey { .. })), "{again:?}");
        assert_eq!(snapshot_rows(&db, "pairs"), 30_000);
    }
}

#[test]
fn a_key_that_two_rows_have_is_named_and_leaves_the_table_and_the_memory_as_they_were() {
    let db = Database::create(DatabaseOptions::default()).unwrap();
    let table = pairs(&db);
    let before = db.counters().memory_allocated_bytes;
    for twice in [0, 9_000, 49_999] {
        let rows = [numbers(scattered(50_000)), numbers(twice..=twice)];
        match db.insert_arrow(&table, &rows, LoadOptions::default()) {
            Err(Error::DuplicateKey { table, key }) => {
                assert_eq!((&table[..], key), ("pairs", format!("id = {twice}")));
            }
            other => panic!("{other:?}"),
        }
        assert_eq!((table.row_count(), snapshot_rows(&db, "pairs")), (0, 0));
    }
    let after = db.counters().memory_allocated_bytes;
    assert!(after <= before + (64 << 10), "{after} bytes after {before}");
    let mut rows = numbers(0..10);
    rows.columns[1] = None;
    let missing = db.insert_arrow(&table, &[rows], LoadOptions::default());
    assert!(matches!(missing, Err(Error::Storage(_))), "{missing:?}");
    assert_eq!(
        db.insert_arrow(&table, &[numbers(scattered(50_000))], LoadOptions::default()).unwrap(),
        50_000
    );
    assert_eq!(snapshot_rows(&db, "pairs"), 50_000);
    assert_eq!(db.insert_arrow(&table, &[], LoadOptions::default()).unwrap(), 0);
}

/// Transactions that read two keys see both or neither, whatever the scheme, and inserters of
/// further rows are tried again until the load has ended.
#[test]
fn transactions_and_snapshots_beside_a_load_see_all_of_it_or_nothing() {
    const ROWS: i64 = 30_000;
    for scheme in SchemeKind::ALL.iter().copied() {
        let db = Database::create(options(scheme)).unwrap();
        for round in 0..4 {
            let table = pairs_with(&db, &format!("t{round}"), &[true][..round / 2]);
            let name = table.name().to_owned();
            let look = |turn: i64| {
                let keys = [turn * 13 % ROWS, turn * 7_001 % ROWS];
                db.transaction(|tx| {
                    let found = [find(tx, &table, keys[0])?, find(tx, &table, keys[1])?];
                    if table.indexes().is_empty() {
                        return Ok(found.map(|found| found.is_some()));
                    }
                    // A short scan, too.
                    let (index, mut has_some) = (table.index("i0")?, false);
                    let from = [Value::Int64(keys[0] * 2)];
                    tx.scan(
                        &index,
                        Range::prefix(&from),
                        |_| (),
                        |()| {
                            has_some = true;
                            ControlFlow::Break(())
                        },
                    )?;
                    assert_eq!(found[1].is_some(), found[0].is_some(), "under {scheme}");
                    Ok([found[0].is_some(), has_some])
                })
            };
            std::thread::scope(|scope| {
                let readers: Vec<_> = (0..2)
                    .map(|reader| {
                        let look = &look;
                        scope.spawn(move || {
                            if round % 2 == 1 {
                                // It does not find the table empty before the load begins.
                                std::thread::sleep(Duration::from_millis(1));
                            }
                            for turn in reader * 1000..reader * 1000 + 2000 {
                                let found = look(turn).unwrap();
                                assert_eq!(found[0], found[1], "{found:?} under {scheme}");
                            }
                        })
                    })
                    .collect();
                scope.spawn(|| {
                    let row = [Value::Int64(ROWS + 7), Value::Int64(1)];
                    db.transaction(|tx| tx.insert(&table, &row)).unwrap();
                });
                scope.spawn(|| {
                    // Under some schemes a snapshot restarts open transactions, such as that of a
                    // table which was used, so there are not too many.
                    for _ in 0..200 {
                        let rows = snapshot_rows(&db, &name) as i64;
                        assert!(matches!(rows, 0 | 1 | ROWS) || rows == ROWS + 1, "{rows} rows");
                    }
                });
                let loaded =
                    db.insert_arrow(&table, &[numbers(scattered(ROWS))], LoadOptions::default());
                assert_eq!(loaded.unwrap(), ROWS as u64, "under {scheme}");
                readers.into_iter().for_each(|reader| reader.join().unwrap());
            });
            assert_eq!(snapshot_rows(&db, &name), ROWS as u64 + 1);
            assert_eq!(look(3).unwrap(), [true, true]);
        }
    }
}

#[test]
fn ordered_indexes_are_built_and_a_value_that_must_be_unique_is_named() {
    for scheme in SchemeKind::ALL.iter().copied() {
        let db = Database::create(options(scheme)).unwrap();
        let table = pairs_with(&db, "pairs", &[true, false]);
        let mut rows = numbers(scattered(20_000));
        let twice: Int64Array = (0..20_000).map(|at| if at == 777 { 6 } else { at * 2 }).collect();
        let good = rows.columns[1].replace(Arc::new(twice));
        match db.insert_arrow(&table, &[rows.clone()], LoadOptions::default()) {
            Err(Error::DuplicateIndexKey { index, key, .. }) => {
                assert_eq!((&index[..], &key[..]), ("i0", "value = 6"));
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(snapshot_rows(&db, "pairs"), 0);
        rows.columns[1] = good;
        assert_eq!(db.insert_arrow(&table, &[rows], LoadOptions::default()).unwrap(), 20_000);
        let expected = |keys: &mut dyn Iterator<Item = i64>| -> Vec<_> {
            keys.map(|key| (Value::Int64(key), Value::Int64(2 * key))).collect()
        };
        db.transaction(|tx| {
            for index in ["i0", "i1"] {
                assert_eq!(scan(tx, &table, index)?, expected(&mut (0..20_000)));
            }
            Ok(())
        })
        .unwrap();
        db.transaction(|tx| {
            (0..20_000).step_by(2).try_for_each(|key| {
                assert!(tx.delete(&table, &[Value::Int64(key)])?);
                Ok::<_, TxnError>(())
            })?;
            tx.insert(&table, &[Value::Int64(30_000), Value::Int64(60_000)])
        })
        .unwrap();
        db.transaction(|tx| {
            for index in ["i0", "i1"] {
                let mut left = (1..20_000).step_by(2).chain([30_000]);
                assert_eq!(scan(tx, &table, index)?, expected(&mut left));
            }
            Ok(())
        })
        .unwrap();
    }
}

#[test]
fn a_load_into_a_folder_is_there_again() {
    for tablespaces in [None, Some(2)] {
        let folder = tempfile::tempdir().unwrap();
        let options = || DatabaseOptions { nodes: tablespaces, ..DatabaseOptions::default() };
        let rows: Vec<Vec<Value>> = (0..20_000).map(row).collect();
        {
            let db = Database::open(folder.path(), options()).unwrap();
            let table = db.create_table("t", all_types()).unwrap();
            let pairs = pairs_with(&db, "pairs", &[true]);
            db.insert_arrow(&table, &[arrays(&all_types(), &rows)], LoadOptions::default())
                .unwrap();
            db.insert_arrow(&pairs, &[numbers(scattered(30_000))], LoadOptions::default()).unwrap();
            let failed = db.insert_arrow(&pairs, &[numbers(5..6)], LoadOptions::default());
            assert!(failed.is_err());
        }
        for checkpoint in [true, false] {
            let db = Database::open(folder.path(), options()).unwrap();
            check_every_type(&db, &db.table("t").unwrap(), 20_000);
            let pairs = db.table("pairs").unwrap();
            assert_eq!(pairs.row_count(), 30_000);
            db.transaction(|tx| {
                for key in 0..30_000 {
                    assert_eq!(find(tx, &pairs, key)?, Some(Value::Int64(2 * key)));
                }
                Ok::<_, TxnError>(())
            })
            .unwrap();
            let found = db.transaction(|tx| scan(tx, &pairs, "i0")).unwrap();
            let row = |key: i64| (Value::Int64(key), Value::Int64(2 * key));
            assert!(found.into_iter().eq((0..30_000).map(row)));
            if checkpoint {
                db.checkpoint().unwrap();
            }
        }
    }
}

/// Deletes through exact predictions, which use no row header, and their rollback.
#[test]
fn a_row_whose_deletion_is_undone_is_there_again() {
    for scheme in SchemeKind::ALL.iter().copied() {
        let folder = tempfile::tempdir().unwrap();
        {
            let db = Database::open(folder.path(), options(scheme)).unwrap();
            let table = pairs_with(&db, "pairs", &[false]);
            db.insert_arrow(&table, &[numbers(0..10_000)], LoadOptions::default()).unwrap();
        }
        for round in 0..2 {
            let db = Database::open(folder.path(), options(scheme)).unwrap();
            let table = db.table("pairs").unwrap();
            let key = |key: i64| [Value::Int64(key)];
            let mut tx = db.begin().unwrap();
            assert!(tx.delete(&table, &key(5)).unwrap() && tx.delete(&table, &key(6)).unwrap());
            assert!(tx.read(&table, &key(7)).unwrap().is_some());
            tx.rollback();
            let gone = db.transaction(|tx| tx.delete(&table, &key(8 + round)));
            assert!(gone.unwrap());
            db.transaction(|tx| {
                assert!(find(tx, &table, 5)?.is_some() && find(tx, &table, 6)?.is_some());
                assert_eq!(scan(tx, &table, "i0")?.len() as i64, 9_999 - round);
                Ok(())
            })
            .unwrap();
            let again = db.transaction(|tx| tx.insert(&table, &[Value::Int64(5), Value::Int64(1)]));
            assert!(matches!(again, Err(Error::DuplicateKey { .. })), "{again:?} under {scheme}");
        }
    }
}

#[test]
fn a_table_of_another_database_is_refused() {
    let (one, other) = (
        Database::create(DatabaseOptions::default()).unwrap(),
        Database::create(DatabaseOptions::default()).unwrap(),
    );
    let table = pairs(&other);
    let refused = one.insert_arrow(&table, &[numbers(0..10)], LoadOptions::default());
    assert!(matches!(refused, Err(Error::ForeignTable(_))), "{refused:?}");
    assert_eq!(table.row_count(), 0);
}

#[test]
fn rows_in_key_order_are_predicted_and_the_last_segment_is_filled_on() {
    let db = Database::create(DatabaseOptions::default()).unwrap();
    let table = pairs(&db);
    db.insert_arrow(&table, &[numbers(0..20_000)], LoadOptions::default()).unwrap();
    let insert = |key: i64| {
        db.transaction(|tx| tx.insert(&table, &[Value::Int64(key), Value::Int64(2 * key)]))
            .unwrap();
    };
    (20_000..24_576).for_each(insert);
    let snapshot = db.snapshot().unwrap();
    assert_eq!(snapshot.table("pairs").unwrap().segment_count(), 3, "no segment of its own");
    db.transaction(|tx| {
        for key in 0..24_576 {
            assert_eq!(find(tx, &table, key)?, Some(Value::Int64(2 * key)));
        }
        Ok(())
    })
    .unwrap();
}
