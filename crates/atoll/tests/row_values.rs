//! Values of a row that is read and changed in place.
#![allow(clippy::unwrap_used)]

use atoll::{
    Column, DataType, Database, DatabaseOptions, RowEdit, Schema, SchemeKind, Table, Value, Visit,
    Want,
};

const TYPES: [DataType; 6] = [
    DataType::Int16,
    DataType::Int32,
    DataType::Int64,
    DataType::Date,
    DataType::Timestamp,
    DataType::Float64,
];

fn number(data_type: DataType, number: i16) -> Value {
    match data_type {
        DataType::Int16 => Value::Int16(number),
        DataType::Int32 => Value::Int32(number.into()),
        DataType::Int64 => Value::Int64(number.into()),
        DataType::Date => Value::Date(number.into()),
        DataType::Timestamp => Value::Timestamp(number.into()),
        _ => Value::Float64(number.into()),
    }
}

/// A table of one row with the values 1, 2, … in its columns, once in columns that cannot be NULL
/// and once in nullable ones.
fn database(scheme: SchemeKind) -> (Database, Table) {
    let db = Database::create(DatabaseOptions { scheme, ..DatabaseOptions::default() }).unwrap();
    let columns = [false, true].into_iter().flat_map(|nullable| {
        let named = move |data_type: &DataType| Column {
            name: format!("{data_type} {nullable}"),
            data_type: *data_type,
            nullable,
        };
        TYPES.iter().map(named)
    });
    let id = Column::new("id", DataType::Int64);
    let schema = Schema::new([id].into_iter().chain(columns).collect(), &["id"]).unwrap();
    let table = db.create_table("numbers", schema).unwrap();
    let mut row = vec![Value::Int64(7)];
    row.extend((1..).zip(TYPES.iter().chain(&TYPES)).map(|(at, it)| number(*it, at)));
    db.transaction(|tx| tx.insert(&table, &row)).unwrap();
    (db, table)
}

/// The results of the typed getters; NaN as `None`.
fn read(row: &atoll::Row<'_>) -> Vec<Option<i64>> {
    let read = |(at, data_type): (usize, &DataType)| match data_type {
        DataType::Int16 => Some(row.i16(at).into()),
        DataType::Int32 | DataType::Date => Some(row.i32(at).into()),
        DataType::Int64 | DataType::Timestamp => Some(row.i64(at)),
        _ => Some(row.f64(at)).filter(|value| !value.is_nan()).map(|value| value as i64),
    };
    (1..).zip(TYPES.iter().chain(&TYPES)).map(read).collect()
}

#[test]
fn what_a_transaction_has_set_is_what_it_reads_and_null_is_zero_or_nan() {
    for scheme in SchemeKind::ALL.iter().copied() {
        let (db, table) = database(scheme);
        let before: Vec<_> = (1..=12).map(Some).collect();
        let mut after: Vec<_> = (1..=12).map(|at| Some(-at)).collect();
        after[6..].copy_from_slice(&[Some(0), Some(0), Some(0), Some(0), Some(0), None]);
        for commits in [false, true] {
            let mut seen = Vec::new();
            let done: Result<(), _> = db.transaction(|tx| {
                seen.clear();
                let key = [Value::Int64(7)];
                let every: Vec<usize> = (1..=12).collect();
                tx.visit(
                    &table,
                    &key,
                    |_| Want::update(&every),
                    |_, row| {
                        let Visit::Update(row) = row else { panic!("it is there") };
                        seen.push(read(row));
                        for (at, data_type) in (1..).zip(TYPES) {
                            match data_type {
                                DataType::Int32 | DataType::Date => row.set_i32(at, -(at as i32)),
                                DataType::Int64 | DataType::Timestamp => {
                                    row.set_i64(at, -(at as i64))
                                }
                                _ => row.set(at, &number(data_type, -(at as i16))),
                            }
                            row.set(at + 6, &Value::Null);
                        }
                        seen.push(read(row));
                    },
                )?;
                tx.read_with(&table, &key, |row| seen.push(read(row)))?.unwrap();
                if commits {
                    Ok(())
                } else {
                    Err(atoll::TxnError::Abort(atoll::AbortReason::Requested))
                }
            });
            assert_eq!(done.is_ok(), commits, "{done:?}");
            assert_eq!(seen, [before.clone(), after.clone(), after.clone()], "{scheme}");
            let mut left = Vec::new();
            db.transaction(|tx| tx.read_with(&table, &[Value::Int64(7)], |row| left = read(row)))
                .unwrap();
            assert_eq!(left, if commits { after.clone() } else { before.clone() }, "{scheme}");
        }
    }
}

#[test]
fn what_is_added_is_added_to_what_the_transaction_sees() {
    for scheme in SchemeKind::ALL.iter().copied() {
        let (db, table) = database(scheme);
        let key = [Value::Int64(7)];
        let sums = db.transaction(|tx| {
            let first = tx.update_with(&table, &key, |row| {
                row.set_i32(2, 10);
                row.set(9, &Value::Null);
                let integers = [row.add_i32(2, 5), row.add_i32(4, -4), row.add_i32(8, i32::MIN)];
                (integers, [row.add_i64(3, 4), row.add_i64(5, 1), row.add_i64(9, 5)])
            })?;
            let second = tx.update_with(&table, &key, |row| row.add_i32(2, -16))?;
            Ok((first.unwrap(), second.unwrap()))
        });
        let expected = (([15, 0, 8 + i32::MIN], [7, 6, 5]), -1);
        assert_eq!(sums.unwrap(), expected, "{scheme}");
        let mut left = Vec::new();
        db.transaction(|tx| tx.read_with(&table, &key, |row| left = read(row))).unwrap();
        let expected = [1, -1, 7, 0, 6, 6, 7, 8 + i64::from(i32::MIN), 5, 10, 11, 12].map(Some);
        assert_eq!(left, expected, "{scheme}");
    }
}

type Add = fn(&mut RowEdit<'_>);

#[test]
fn a_sum_out_of_range_rolls_the_transaction_back_and_so_does_one_in_a_key() {
    for scheme in SchemeKind::ALL.iter().copied() {
        let (db, table) = database(scheme);
        let key = [Value::Int64(7)];
        // Columns that cannot be NULL, one that can, and the key.
        let wrong: [(Add, &str); 5] = [
            (|row| _ = row.add_i32(2, i32::MAX), "\"integer false\" holds integer, and the sum is"),
            (|row| _ = row.add_i64(3, i64::MAX), "\"bigint false\" holds bigint, and the sum is"),
            (|row| _ = row.add_i32(10, i32::MAX), "\"date true\" holds date, and the sum is"),
            (|row| _ = row.add_i64(11, i64::MAX), "\"timestamp true\" holds timestamp, and the"),
            (|row| _ = row.add_i64(0, 1), "\"id\""),
        ];
        for (add, said) in wrong {
            let done = db.transaction(|tx| {
                tx.update_with(&table, &key, |row| row.set_i64(5, 500))?;
                tx.update_with(&table, &key, |row| {
                    row.set_i32(4, 400);
                    add(row);
                    row.set_i64(3, 300);
                })?;
                Ok(())
            });
            let error = done.unwrap_err().to_string();
            assert!(error.contains(said), "{scheme}: {error}");
            let mut left = Vec::new();
            db.transaction(|tx| tx.read_with(&table, &key, |row| left = read(row))).unwrap();
            assert_eq!(left, (1..=12).map(Some).collect::<Vec<_>>(), "{scheme}");
        }
    }
}

#[test]
fn a_text_is_shown_whole_however_long_it_is_and_null_as_none() {
    for scheme in SchemeKind::ALL.iter().copied() {
        let options = DatabaseOptions { scheme, ..DatabaseOptions::default() };
        let db = Database::create(options).unwrap();
        let text =
            |nullable| Column { name: format!("t{nullable}"), data_type: DataType::Text, nullable };
        let columns = vec![Column::new("id", DataType::Int64), text(false), text(true)];
        let table = db.create_table("texts", Schema::new(columns, &["id"]).unwrap()).unwrap();
        let texts = [0, 1, 12, 13, 255, 256, 257, 5000].map(|bytes| "x".repeat(bytes));
        for (id, text) in (0..).zip(&texts) {
            let key = [Value::Int64(id)];
            let whole = || Value::Text(text.clone());
            let row = [Value::Int64(id), whole(), Value::Null];
            db.transaction(|tx| tx.insert(&table, &row)).unwrap();
            let shown = |row: &atoll::Row<'_>| {
                [1, 2].map(|at| row.show(at, |bytes| bytes.map(<[u8]>::to_vec)))
            };
            let (long, none) = (Some(text.clone().into_bytes()), None);
            let mut seen = Vec::new();
            db.transaction(|tx| {
                seen.clear();
                tx.update_with(&table, &key, |row| {
                    seen.push(shown(row));
                    row.set(1, &Value::Text(String::new()));
                    row.set(2, &whole());
                    seen.push(shown(row));
                })
            })
            .unwrap();
            db.transaction(|tx| tx.read_with(&table, &key, |row| seen.push(shown(row)))).unwrap();
            let after = [Some(Vec::new()), long.clone()];
            assert_eq!(
                seen,
                [[long, none], after.clone(), after],
                "{scheme}, {} bytes",
                text.len()
            );
        }
    }
}
