//! Single values of many rows, read and replaced in one call, in a call each, or one after the
//! other in one access.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use atoll::{
    AbortReason, Buffers, Column, DataType, Database, DatabaseOptions, Error, IndexSpec, RowOp,
    Schema, SchemeKind, Table, TableOptions, Transaction, TransactionOptions, TxnError, TxnResult,
    Value,
};
use atoll_storage::DENSE_ROWS;
use proptest::prelude::*;

/// Columns other than the key, which is column 0.
const NUMBER: usize = 1;
const INDEXED: usize = 2;
const BYTES: usize = 3;
const TEXT: usize = 4;
const SOME: usize = 5;
const WIDTH: u32 = 21;
/// More rows than are looked up at a time.
const ROWS: i64 = 70;
/// Rows before them, with keys below 0: all rows together fill a block of slots in key order, so
/// that the slot of a row follows from its key until one of the rows is deleted.
const BEFORE: i64 = DENSE_ROWS as i64 - ROWS;

fn create(scheme: SchemeKind) -> Database {
    let options = DatabaseOptions { scheme, partitions: Some(2), ..DatabaseOptions::default() };
    Database::create(options).unwrap()
}

fn table(db: &Database) -> Table {
    let columns = vec![
        Column::new("id", DataType::Int64),
        Column::new("number", DataType::Int64),
        Column::new("indexed", DataType::Int32),
        Column::new("bytes", DataType::FixedBinary(WIDTH)),
        Column::new("text", DataType::Text),
        Column::nullable("some", DataType::Int64),
    ];
    let schema = Schema::new(columns, &["id"]).unwrap();
    let index = IndexSpec {
        name: "by_number".into(),
        columns: vec!["indexed".into()],
        unique: false,
        nulls_not_distinct: false,
    };
    let options = TableOptions { indexes: vec![index], ..TableOptions::default() };
    db.create_table_with("t", schema, &options).unwrap()
}

fn row(id: i64) -> Vec<Value> {
    vec![
        Value::Int64(id),
        Value::Int64(100),
        Value::Int32(0),
        Value::Binary(vec![0; WIDTH as usize]),
        Value::Text("a text that is too long to fit into the row itself".into()),
        Value::Null,
    ]
}

fn ids(ids: impl IntoIterator<Item = i64>) -> Vec<Value> {
    ids.into_iter().map(Value::Int64).collect()
}

fn fill(db: &Database, table: &Table) {
    db.transaction(|tx| (-BEFORE..ROWS).try_for_each(|id| tx.insert(table, &row(id)))).unwrap();
}

/// Numbers of rows; `None` where there is no row.
fn numbers(tx: &mut Transaction, table: &Table, keys: &[Value]) -> TxnResult<Vec<Option<i64>>> {
    let ops: Vec<RowOp> =
        (0..keys.len()).map(|at| RowOp::Get { column: NUMBER, to: at * 8 }).collect();
    let (mut output, mut absent) = (vec![0; keys.len() * 8], Vec::new());
    let buffers = Buffers { input: &[], output: &mut output };
    tx.apply(table, keys, &ops, buffers, |at| absent.push(at))?;
    let seen = output.as_chunks::<8>().0.iter().map(|bytes| i64::from_le_bytes(*bytes));
    Ok(seen.enumerate().map(|(at, number)| (!absent.contains(&at)).then_some(number)).collect())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    /// In one call.
    Together,
    /// Each in a call of its own.
    Alone,
    /// One after the other, in one access.
    Cursor,
}

#[derive(Debug, Clone)]
enum Deed {
    /// Keys, columns, and the byte of which the new value consists, if the value is replaced.
    Apply(Vec<(i64, usize, Option<u8>)>, How),
    Insert(i64),
    Delete(i64),
    /// An update by another operation.
    Update(i64, i64),
}

fn deed() -> impl Strategy<Value = Deed> {
    let key = 0..ROWS + 4;
    let column = prop::sample::select(vec![NUMBER, INDEXED, BYTES]);
    let one = (key.clone(), column, prop::option::of(any::<u8>()));
    let how = prop::sample::select(vec![How::Together, How::Alone, How::Cursor]);
    prop_oneof![
        4 => (prop::collection::vec(one, 0..80), how)
            .prop_map(|(each, how)| Deed::Apply(each, how)),
        1 => key.clone().prop_map(Deed::Insert),
        1 => key.clone().prop_map(Deed::Delete),
        1 => (key, any::<i64>()).prop_map(|(key, number)| Deed::Update(key, number)),
    ]
}

/// The columns of the model: number, indexed, bytes.
type Model = BTreeMap<i64, [Vec<u8>; 3]>;

fn model_row() -> [Vec<u8>; 3] {
    [100i64.to_le_bytes().to_vec(), vec![0; 4], vec![0; WIDTH as usize]]
}

fn width(column: usize) -> usize {
    [0, 8, 4, WIDTH as usize][column]
}

/// Performs the operations in one access; returns the positions of keys without a row.
fn access_all(
    tx: &mut Transaction,
    table: &Table,
    keys: &[Value],
    ops: &[RowOp],
    input: &[u8],
    output: &mut [u8],
) -> TxnResult<Vec<usize>> {
    tx.cursor(table, |rows| {
        let mut absent = Vec::new();
        for (at, (key, op)) in keys.chunks(1).zip(ops).enumerate() {
            let is_there = match *op {
                RowOp::Get { column, to } => rows.get(key, column, &mut output[to..])?,
                RowOp::Put { column, from } => rows.put(key, column, &input[from..])?,
            };
            absent.extend((!is_there).then_some(at));
        }
        Ok(absent)
    })
}

/// Performs it on the table and on the model; the results must be equal.
fn perform(tx: &mut Transaction, table: &Table, model: &mut Model, deed: &Deed) -> TxnResult<()> {
    match deed {
        Deed::Apply(each, how) => {
            let keys = ids(each.iter().map(|(key, ..)| *key));
            let (mut input, mut ops, mut room) = (Vec::new(), Vec::new(), 0);
            for (_, column, put) in each {
                if let Some(byte) = put {
                    ops.push(RowOp::Put { column: *column, from: input.len() });
                    input.resize(input.len() + width(*column), *byte);
                } else {
                    ops.push(RowOp::Get { column: *column, to: room });
                    room += width(*column);
                }
            }
            let (mut output, mut absent) = (vec![0; room], Vec::new());
            if *how == How::Cursor {
                absent = access_all(tx, table, &keys, &ops, &input, &mut output)?;
            }
            let of_a_call = if *how == How::Alone { 1 } else { keys.len().max(1) };
            let calls = keys.chunks(of_a_call).zip(ops.chunks(of_a_call)).enumerate();
            for (call, (keys, ops)) in calls.filter(|_| *how != How::Cursor) {
                let buffers = Buffers { input: &input, output: &mut output };
                tx.apply(table, keys, ops, buffers, |at| absent.push(call * of_a_call + at))?;
            }
            let mut expected_absent = Vec::new();
            for (at, (key, column, put)) in each.iter().enumerate() {
                let Some(row) = model.get_mut(key) else {
                    expected_absent.push(at);
                    continue;
                };
                let value = &mut row[*column - 1];
                match (put, ops[at]) {
                    (Some(byte), _) => value.fill(*byte),
                    (None, RowOp::Get { to, .. }) => {
                        assert_eq!(&output[to..to + value.len()], value, "operation {at}");
                    }
                    _ => unreachable!("it was made above"),
                }
            }
            assert_eq!(absent, expected_absent);
        }
        Deed::Insert(key) => match tx.insert(table, &row(*key)) {
            Err(TxnError::Error(Error::DuplicateKey { .. })) => {
                assert!(model.contains_key(key));
            }
            other => {
                other?;
                assert!(model.insert(*key, model_row()).is_none());
            }
        },
        Deed::Delete(key) => {
            assert_eq!(tx.delete(table, &ids([*key]))?, model.remove(key).is_some());
        }
        Deed::Update(key, number) => {
            let found = tx.update(table, &ids([*key]), &[(NUMBER, Value::Int64(*number))])?;
            assert_eq!(found, model.contains_key(key));
            if let Some(row) = model.get_mut(key) {
                row[0] = number.to_le_bytes().to_vec();
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn it_does_what_a_map_does_under_every_scheme(
        transactions in prop::collection::vec(
            (prop::collection::vec(deed(), 1..8), any::<bool>()), 1..6),
    ) {
        for scheme in SchemeKind::ALL.iter().copied() {
            let db = create(scheme);
            let table = table(&db);
            fill(&db, &table);
            let mut model: Model = (0..ROWS).map(|id| (id, model_row())).collect();
            for (deeds, commits) in &transactions {
                let mut after = Model::new();
                let ended = db.transaction(|tx| {
                    after.clone_from(&model);
                    for deed in deeds {
                        perform(tx, &table, &mut after, deed)?;
                    }
                    if *commits { Ok(()) } else { Err(TxnError::Abort(AbortReason::Requested)) }
                });
                prop_assert_eq!(ended.is_ok(), *commits);
                if *commits {
                    model = after;
                }
            }
            let by_index = table.index("by_number").unwrap();
            let mut indexed = BTreeMap::new();
            db.transaction(|tx| {
                indexed.clear();
                let all = atoll::Range::prefix(&[]);
                let look = |row: &atoll::Row<'_>| (row.i64(0), row.i32(INDEXED));
                tx.scan(&by_index, all, look, |(id, number)| {
                    indexed.insert(id, number);
                    std::ops::ControlFlow::Continue(())
                })
            })
            .unwrap();
            let number = |row: &[Vec<u8>; 3]| i32::from_le_bytes(row[1][..].try_into().unwrap());
            let expected: BTreeMap<i64, i32> =
                model.iter().map(|(id, row)| (*id, number(row))).collect();
            indexed.retain(|id, _| *id >= 0);
            prop_assert_eq!(indexed, expected, "{}", scheme);
        }
    }
}

#[test]
fn transfers_of_threads_keep_the_total_and_readers_see_it() {
    const KEYS: i64 = 8;
    const TURNS: i64 = 400;
    let transfer = |thread: i64, turn: i64| {
        let from = (turn * 7 + thread * 3) % KEYS;
        [from, (from + 1 + turn % (KEYS - 1)) % KEYS]
    };
    // The total alone would also be kept by transfers that move nothing.
    let mut expected = [100; KEYS as usize];
    for (thread, turn) in (0..2).flat_map(|thread| (0..TURNS).map(move |turn| (thread, turn))) {
        let [from, to] = transfer(thread, turn);
        expected[from as usize] -= 1;
        expected[to as usize] += 1;
    }
    for scheme in SchemeKind::ALL.iter().copied() {
        let db = create(scheme);
        let table = table(&db);
        fill(&db, &table);
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let writers: Vec<_> = (0..2)
                .map(|thread| {
                    let (db, table) = (&db, &table);
                    scope.spawn(move || {
                        for turn in 0..TURNS {
                            let keys = ids(transfer(thread, turn));
                            db.transaction(|tx| {
                                let seen = numbers(tx, table, &keys)?;
                                let mut input = Vec::new();
                                for (number, by) in seen.iter().zip([-1, 1]) {
                                    input.extend((number.unwrap() + by).to_le_bytes());
                                }
                                let ops = [0, 8].map(|from| RowOp::Put { column: NUMBER, from });
                                let buffers = Buffers { input: &input, output: &mut [] };
                                tx.apply(table, &keys, &ops, buffers, |at| panic!("{at}"))
                            })
                            .unwrap();
                        }
                    })
                })
                .collect();
            let reader = scope.spawn(|| {
                let options = TransactionOptions { read_only: true, ..Default::default() };
                let mut session = db.session().unwrap();
                while !is_over.load(Ordering::Relaxed) {
                    let keys = ids(0..KEYS);
                    let read = |tx: &mut Transaction| numbers(tx, &table, &keys);
                    let seen = session.transaction_with(&options, read).unwrap();
                    let total: i64 = seen.iter().flatten().sum();
                    assert_eq!(total, KEYS * 100, "{scheme}: {seen:?}");
                }
            });
            for writer in writers {
                writer.join().unwrap();
            }
            is_over.store(true, Ordering::Relaxed);
            reader.join().unwrap();
        });
        let seen = db.transaction(|tx| numbers(tx, &table, &ids(0..KEYS))).unwrap();
        assert_eq!(seen, expected.map(Some), "{scheme}");
    }
}

#[test]
fn columns_agree_while_rows_are_replaced_deleted_and_inserted_again() {
    const KEYS: i64 = 6;
    const TURNS: i64 = 500;
    /// Each key twice, for two columns.
    fn twice() -> Vec<Value> {
        ids((0..KEYS).flat_map(|id| [id, id]))
    }
    fn both(tx: &mut Transaction, table: &Table) -> TxnResult<Vec<Option<(i64, i32)>>> {
        let ops: Vec<RowOp> = (0..KEYS as usize)
            .flat_map(|at| [(NUMBER, at * 16), (INDEXED, at * 16 + 8)])
            .map(|(column, to)| RowOp::Get { column, to })
            .collect();
        let (mut output, mut absent) = ([0; KEYS as usize * 16], Vec::new());
        let buffers = Buffers { input: &[], output: &mut output };
        tx.apply(table, &twice(), &ops, buffers, |at| absent.push(at))?;
        let row = |(at, bytes): (usize, &[u8; 16])| {
            let is_absent = [at * 2, at * 2 + 1].map(|at| absent.contains(&at));
            let number = i64::from_le_bytes(bytes[..8].try_into().unwrap());
            let indexed = i32::from_le_bytes(bytes[8..12].try_into().unwrap());
            match is_absent {
                [false, false] => Some((number, indexed)),
                [true, true] => None,
                // Only a reader that will abort at its end may see this.
                _ => Some((-1, -2)),
            }
        };
        Ok(output.as_chunks::<16>().0.iter().enumerate().map(row).collect())
    }
    for scheme in SchemeKind::ALL.iter().copied() {
        let db = create(scheme);
        let table = table(&db);
        fill(&db, &table);
        db.transaction(|tx| {
            (KEYS..ROWS).try_for_each(|id| tx.delete(&table, &ids([id])).map(|_| ()))
        })
        .unwrap();
        let start = vec![RowOp::Put { column: NUMBER, from: 0 }; KEYS as usize];
        db.transaction(|tx| {
            let buffers = Buffers { input: &[0; 8], output: &mut [] };
            tx.apply(&table, &ids(0..KEYS), &start, buffers, |_| ())
        })
        .unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for turn in 0..TURNS {
                    let mut input = turn.to_le_bytes().to_vec();
                    input.extend((turn as i32).to_le_bytes());
                    let ops: Vec<RowOp> = (0..KEYS)
                        .flat_map(|_| [(NUMBER, 0), (INDEXED, 8)])
                        .map(|(column, from)| RowOp::Put { column, from })
                        .collect();
                    db.transaction(|tx| {
                        let buffers = Buffers { input: &input, output: &mut [] };
                        tx.apply(&table, &twice(), &ops, buffers, |_| ())
                    })
                    .unwrap();
                }
            });
            scope.spawn(|| {
                for turn in 0..TURNS {
                    let id = turn % KEYS;
                    db.transaction(|tx| tx.delete(&table, &ids([id]))).unwrap();
                    let mut row = row(id);
                    row[NUMBER] = Value::Int64(-turn);
                    row[INDEXED] = Value::Int32(-turn as i32);
                    db.transaction(|tx| tx.insert(&table, &row)).unwrap();
                }
            });
            for _ in 0..TURNS {
                let seen = db.transaction(|tx| both(tx, &table)).unwrap();
                let agree = |(number, indexed): &(i64, i32)| *number == i64::from(*indexed);
                assert!(seen.iter().flatten().all(agree), "{scheme}: {seen:?}");
                assert!(seen.iter().filter(|row| row.is_none()).count() <= 1, "{scheme}: {seen:?}");
            }
        });
        let after = db.transaction(|tx| both(tx, &table)).unwrap();
        assert!(after.iter().all(Option::is_some), "{scheme}: {after:?}");
    }
}

/// Rows of two partitions alternate in one block of slots, which one of the threads makes not
/// dense: neither thread finds a row that it has deleted, nor misses one that it has.
#[test]
fn threads_in_two_partitions_of_a_block_find_what_is_theirs() {
    const ROUNDS: i64 = 60;
    for round in 0..ROUNDS {
        let db = create("hstore".parse().unwrap());
        let table = table(&db);
        fill(&db, &table);
        std::thread::scope(|scope| {
            for mine in 0..2 {
                let (db, table) = (&db, &table);
                scope.spawn(move || {
                    let keys: Vec<i64> = (mine..ROWS).step_by(2).collect();
                    let mut options = TransactionOptions::default();
                    options.partitions.push(table.partition(&[Value::Int64(mine)]));
                    let mut session = db.session().unwrap();
                    let mut gone = None;
                    for turn in 0..20 {
                        let victim = keys[((round * 7 + turn) % keys.len() as i64) as usize];
                        let deletes = turn == 3 + mine + round % 5;
                        session
                            .transaction_with(&options, |tx| {
                                let seen = numbers(tx, table, &ids(keys.iter().copied()))?;
                                for (key, number) in keys.iter().zip(seen) {
                                    assert_eq!(number.is_none(), gone == Some(*key), "{key}");
                                }
                                if deletes {
                                    assert!(tx.delete(table, &ids([victim]))?);
                                }
                                Ok(())
                            })
                            .unwrap();
                        if deletes {
                            gone = Some(victim);
                        }
                    }
                });
            }
        });
    }
}

#[test]
fn what_does_not_fit_is_told_before_anything_is_done() {
    use RowOp::{Get, Put};
    for scheme in SchemeKind::ALL.iter().copied() {
        let db = create(scheme);
        let table = table(&db);
        fill(&db, &table);
        let put = Put { column: NUMBER, from: 0 };
        let cases: [(RowOp, &str); 9] = [
            (Get { column: 9, to: 0 }, "column 9 does not exist"),
            (Get { column: TEXT, to: 0 }, "column 4 holds text"),
            (Get { column: SOME, to: 0 }, "column 5 may be NULL"),
            (Put { column: TEXT, from: 0 }, "column 4 holds text"),
            (Put { column: 0, from: 0 }, "\"id\" is part of the primary key of \"t\""),
            (Get { column: NUMBER, to: 1 }, "operation 50 names 8 bytes from 1 on, of 8"),
            (Get { column: NUMBER, to: usize::MAX }, "names 8 bytes from 18446744073709551615 on"),
            (Put { column: BYTES, from: 0 }, "operation 50 names 21 bytes from 0 on, of 20"),
            (Put { column: NUMBER, from: 1 << 33 }, "of 20"),
        ];
        for (wrong, message) in cases {
            // In the second group of keys.
            let mut ops = vec![put; 60];
            ops[50] = wrong;
            let keys = ids(0..60);
            db.transaction(|tx| {
                let buffers = Buffers { input: &[7; 20], output: &mut [0; 8] };
                let refused = tx.apply(&table, &keys, &ops, buffers, |_| ()).unwrap_err();
                assert!(refused.to_string().contains(message), "{refused}, not {message}");
                let buffers = Buffers { input: &[7; 20], output: &mut [0; 8] };
                let alone = tx.apply(&table, &ids([50]), &[wrong], buffers, |_| ()).unwrap_err();
                let message = message.replace("operation 50", "operation 0");
                assert!(alone.to_string().contains(&message), "{alone}, not {message}");
                let seen = numbers(tx, &table, &keys)?;
                assert!(seen.iter().all(|number| *number == Some(100)), "{message}: {seen:?}");
                Ok(())
            })
            .unwrap();
        }
        let options = TransactionOptions { read_only: true, ..Default::default() };
        let refused = db.session().unwrap().transaction_with(&options, |tx| {
            let buffers = Buffers { input: &[7; 20], output: &mut [] };
            tx.apply(&table, &ids([1]), &[put], buffers, |_| ())
        });
        assert!(refused.unwrap_err().to_string().contains("read-only"));
        let refused = db.transaction(|tx| {
            let buffers = Buffers { input: &[7; 20], output: &mut [] };
            tx.apply(&table, &ids([1, 2]), &[put], buffers, |_| ())
        });
        let message = "1 operations are given for 2 keys";
        assert!(refused.unwrap_err().to_string().contains(message));
    }
}

#[test]
fn what_is_put_is_durable_and_no_snapshot_of_before_shows_it() {
    for scheme in SchemeKind::ALL.iter().copied() {
        let folder = tempfile::tempdir().unwrap();
        let options = DatabaseOptions { scheme, partitions: Some(2), ..DatabaseOptions::default() };
        let keys = ids(0..ROWS);
        {
            let db = Database::open(folder.path(), options.clone()).unwrap();
            let table = table(&db);
            fill(&db, &table);
            let snapshot = db.snapshot().unwrap();
            let ops = vec![RowOp::Put { column: NUMBER, from: 0 }; ROWS as usize];
            db.transaction(|tx| {
                let input = 5i64.to_le_bytes();
                tx.apply(&table, &keys, &ops, Buffers { input: &input, output: &mut [] }, |_| ())
            })
            .unwrap();
            let seen = snapshot.table("t").unwrap().segment(0).unwrap().batch(&[NUMBER]).unwrap();
            use arrow_array::cast::AsArray;
            let seen = seen.column(0).as_primitive::<arrow_array::types::Int64Type>();
            assert!(seen.values().iter().all(|number| *number == 100), "{scheme}: {seen:?}");
        }
        let db = Database::open(folder.path(), options).unwrap();
        let table = db.table("t").unwrap();
        let after = db.transaction(|tx| numbers(tx, &table, &keys)).unwrap();
        assert!(after.iter().all(|number| *number == Some(5)), "{scheme}: {after:?}");
    }
}

/// An extent that a snapshot shows is copied before a store, and another one is not; a transaction
/// may store into both kinds, in either order.
#[test]
fn some_columns_are_held_by_a_snapshot_and_some_are_not() {
    for scheme in SchemeKind::ALL.iter().copied() {
        for held_first in [true, false] {
            let db = create(scheme);
            let table = table(&db);
            fill(&db, &table);
            let put = |keys: &[Value], columns: &[usize], byte: u8| {
                let ops: Vec<_> =
                    columns.iter().map(|column| RowOp::Put { column: *column, from: 0 }).collect();
                db.transaction(|tx| {
                    let buffers = Buffers { input: &[byte; WIDTH as usize], output: &mut [] };
                    tx.apply(&table, keys, &ops, buffers, |_| ())
                })
                .unwrap();
            };
            let snapshot = db.snapshot().unwrap();
            put(&ids([9]), &[NUMBER], 1);
            let columns = if held_first { [BYTES, NUMBER, BYTES] } else { [NUMBER, BYTES, NUMBER] };
            put(&ids([3, 4, 5]), &columns, 2);
            let read = |id: i64| db.transaction(|tx| tx.read(&table, &ids([id]))).unwrap().unwrap();
            for (id, column) in [3, 4, 5].into_iter().zip(columns) {
                let mut expected = row(id);
                expected[column] = match column {
                    NUMBER => Value::Int64(i64::from_le_bytes([2; 8])),
                    _ => Value::Binary(vec![2; WIDTH as usize]),
                };
                assert_eq!(read(id), expected, "{scheme}");
            }
            let mut expected = row(9);
            expected[NUMBER] = Value::Int64(i64::from_le_bytes([1; 8]));
            assert_eq!(read(9), expected, "{scheme}");
            assert_eq!(read(6), row(6), "{scheme}");
            let seen = snapshot.table("t").unwrap().segment(0).unwrap();
            let seen = seen.batch(&[NUMBER, BYTES]).unwrap();
            use arrow_array::cast::AsArray;
            let numbers = seen.column(0).as_primitive::<arrow_array::types::Int64Type>();
            assert!(numbers.values().iter().all(|number| *number == 100), "{scheme}");
            let bytes = seen.column(1).as_fixed_size_binary();
            assert!(bytes.iter().flatten().all(|bytes| bytes == [0; WIDTH as usize]), "{scheme}");
        }
    }
}

#[test]
fn an_older_transaction_gets_older_versions() {
    let db = create("mvcc".parse().unwrap());
    let table = table(&db);
    fill(&db, &table);
    let keys = ids(0..ROWS);
    let put = |number: i64| {
        let ops = vec![RowOp::Put { column: NUMBER, from: 0 }; 40];
        db.transaction(|tx| {
            let input = number.to_le_bytes();
            let buffers = Buffers { input: &input, output: &mut [] };
            tx.apply(&table, &keys[..40], &ops, buffers, |_| ())
        })
        .unwrap();
    };
    let mut older = db.begin().unwrap();
    put(5);
    let mut middle = db.begin().unwrap();
    put(6);
    for (transaction, number) in [(&mut older, 100), (&mut middle, 5)] {
        let seen = numbers(transaction, &table, &keys).unwrap();
        let expected = (0..ROWS).map(|id| Some(if id < 40 { number } else { 100 }));
        assert_eq!(seen, expected.collect::<Vec<_>>());
    }
}

#[test]
fn a_panic_that_is_told_of_absence_leaves_nothing_behind() {
    for scheme in SchemeKind::ALL.iter().copied() {
        let db = create(scheme);
        let table = table(&db);
        fill(&db, &table);
        let ops = [RowOp::Put { column: NUMBER, from: 0 }; 2];
        for of_a_call in [2, 1] {
            let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                db.transaction(|tx| {
                    let keys = ids([1, ROWS + 1]);
                    keys.chunks(of_a_call).zip(ops.chunks(of_a_call)).try_for_each(|(keys, ops)| {
                        let buffers = Buffers { input: &[7; 8], output: &mut [] };
                        tx.apply(&table, keys, ops, buffers, |at| panic!("no row {at}"))
                    })
                })
            }));
            assert!(panicked.is_err(), "{scheme}");
        }
        let after = db.transaction(|tx| numbers(tx, &table, &ids([1]))).unwrap();
        assert_eq!(after, [Some(100)], "{scheme}");
    }
}

#[test]
fn partitions_must_have_been_named_and_keys_be_whole() {
    let db = create("hstore".parse().unwrap());
    let table = table(&db);
    fill(&db, &table);
    let mine = table.partition(&ids([1]));
    let other = (2..).find(|id| table.partition(&ids([*id])) != mine).unwrap();
    let options = TransactionOptions { partitions: vec![mine], ..Default::default() };
    let mut session = db.session().unwrap();
    let mut put = |keys: Vec<Value>| {
        let ops = vec![RowOp::Put { column: NUMBER, from: 0 }; keys.len()];
        session.transaction_with(&options, |tx| {
            tx.apply(&table, &keys, &ops, Buffers { input: &[7; 8], output: &mut [] }, |_| ())
        })
    };
    put(ids([1])).unwrap();
    for keys in [ids([1, other]), ids([other])] {
        let refused = put(keys).unwrap_err().to_string();
        assert!(refused.contains("did not name"), "{refused}");
    }

    let columns = ["a", "b", "n"].map(|name| Column::new(name, DataType::Int64));
    let pairs =
        db.create_table("pairs", Schema::new(columns.into(), &["a", "b"]).unwrap()).unwrap();
    db.transaction(|tx| {
        tx.insert(&pairs, &[1, 2, 3].map(Value::Int64))?;
        let get = RowOp::Get { column: 2, to: 0 };
        let mut output = [0; 8];
        let buffers = Buffers { input: &[], output: &mut output };
        tx.apply(&pairs, &ids([1, 2]), &[get], buffers, |at| panic!("{at}"))?;
        assert_eq!(i64::from_le_bytes(output), 3);
        // Such a key does not fit into a hash.
        let put = RowOp::Put { column: 2, from: 0 };
        for (key, op, is_there) in [([1, 2], put, true), ([1, 3], put, false), ([2, 1], get, false)]
        {
            let (mut absent, input) = (false, 7i64.to_le_bytes());
            let buffers = Buffers { input: &input, output: &mut output };
            tx.apply(&pairs, &ids(key), &[op], buffers, |_| absent = true)?;
            assert_eq!(absent, !is_there, "{key:?}");
        }
        let buffers = Buffers { input: &[], output: &mut output };
        tx.apply(&pairs, &ids([1, 2]), &[get], buffers, |at| panic!("{at}"))?;
        assert_eq!(i64::from_le_bytes(output), 7);
        assert!(tx.delete(&pairs, &ids([1, 2]))?);
        let buffers = Buffers { input: &[], output: &mut output };
        let mut absent = false;
        tx.apply(&pairs, &ids([1, 2]), &[get], buffers, |_| absent = true)?;
        assert!(absent, "it was deleted by the transaction itself");
        let buffers = Buffers { input: &[], output: &mut output };
        let refused = tx.apply(&pairs, &ids([1, 2, 1]), &[get], buffers, |_| ()).unwrap_err();
        assert!(refused.to_string().contains("primary key has 2 columns"), "{refused}");
        Ok(())
    })
    .unwrap();
}

#[test]
fn tables_of_all_partitions_are_read_in_any_and_changed_in_all() {
    let db = create("hstore".parse().unwrap());
    let columns = ["id", "n"].map(|name| Column::new(name, DataType::Int64));
    let schema = Schema::new(columns.into(), &["id"]).unwrap();
    let options = TableOptions { replicated: true, ..TableOptions::default() };
    let table = db.create_table_with("everywhere", schema, &options).unwrap();
    db.transaction(|tx| (0..4).try_for_each(|id| tx.insert(&table, &[id, 5].map(Value::Int64))))
        .unwrap();
    let mut session = db.session().unwrap();
    let mut apply = |partitions: &[u32], keys: Vec<Value>, op: RowOp| {
        let options = TransactionOptions { partitions: partitions.to_vec(), ..Default::default() };
        session.transaction_with(&options, |tx| {
            let mut output = [0; 8];
            let buffers = Buffers { input: &[9; 8], output: &mut output };
            tx.apply(&table, &keys, &vec![op; keys.len()], buffers, |at| panic!("{at}"))?;
            Ok(i64::from_le_bytes(output))
        })
    };
    let (get, put) = (RowOp::Get { column: 1, to: 0 }, RowOp::Put { column: 1, from: 0 });
    for keys in [ids([0]), ids([1]), ids([0, 1, 2, 3])] {
        for partition in [0, 1] {
            assert_eq!(apply(&[partition], keys.clone(), get).unwrap(), 5);
            let refused = apply(&[partition], keys.clone(), put).unwrap_err().to_string();
            assert!(refused.contains("did not name"), "{refused}");
        }
    }
    for keys in [ids([2]), ids([0, 1])] {
        apply(&[0, 1], keys.clone(), put).unwrap();
        assert_eq!(apply(&[0], keys, get).unwrap(), i64::from_le_bytes([9; 8]));
    }
}
