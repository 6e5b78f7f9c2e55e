//! Many rows in one call.
#![allow(clippy::unwrap_used)]

use std::panic::{AssertUnwindSafe, catch_unwind};

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use atoll::{
    Column, DataType, Database, DatabaseOptions, Error, IndexSpec, Range, Schema, SchemeKind,
    Table, TableOptions, Transaction, TransactionOptions, TxnError, TxnResult, Value, Visit, Want,
};
use atoll_storage::key::{hash, hash_of_word};

const BALANCE: usize = 1;
/// More rows than are prefetched at a time, and not a multiple of that.
const ROWS: i64 = 101;

fn ids(ids: impl IntoIterator<Item = i64>) -> Vec<Value> {
    ids.into_iter().map(Value::Int64).collect()
}

fn create(scheme: SchemeKind) -> Database {
    let options = DatabaseOptions { scheme, partitions: Some(2), ..DatabaseOptions::default() };
    Database::create(options).unwrap()
}

/// A table of balances, all of them 100.
fn database(scheme: SchemeKind) -> (Database, Table) {
    let db = create(scheme);
    let columns = ["id", "balance"].map(|name| Column::new(name, DataType::Int64));
    let table = db.create_table("account", Schema::new(columns.into(), &["id"]).unwrap()).unwrap();
    let fill = |tx: &mut Transaction| {
        (0..ROWS).try_for_each(|id| tx.insert(&table, &[Value::Int64(id), Value::Int64(100)]))
    };
    db.transaction(fill).unwrap();
    (db, table)
}

/// Balances of rows, in the order of the keys.
fn balances(tx: &mut Transaction, table: &Table, keys: &[Value]) -> TxnResult<Vec<Option<i64>>> {
    let mut seen = vec![Some(-1); keys.len()];
    tx.visit(
        table,
        keys,
        |_| Want::read(&[BALANCE]),
        |at, row| {
            seen[at] = match row {
                Visit::Absent => None,
                Visit::Read(row) => Some(row.i64(BALANCE)),
                Visit::Update(_) => unreachable!("nothing is to be changed"),
            };
        },
    )?;
    Ok(seen)
}

/// Adds to rows, in the order of the keys.
fn add(tx: &mut Transaction, table: &Table, keys: &[Value], amounts: &[i64]) -> TxnResult<()> {
    let wants = |_| Want::update(&[BALANCE]);
    tx.visit(table, keys, wants, |at, row| {
        if let Visit::Update(row) = row {
            row.set_i64(BALANCE, row.i64(BALANCE) + amounts[at]);
        }
    })
}

#[test]
fn each_key_is_visited_in_its_order_under_every_scheme() {
    for scheme in SchemeKind::ALL.iter().copied() {
        let (db, table) = database(scheme);
        let all = ids(0..ROWS);
        let mut order = Vec::new();
        db.transaction(|tx| {
            order.clear();
            // Every third row is changed, the others are read; row 7 occurs three times.
            let keys = ids((0..ROWS).chain([7, ROWS + 5, 7]));
            let wants = |at| Want { columns: &[BALANCE], update: at % 3 == 1 };
            tx.visit(&table, &keys, wants, |at, row| match row {
                Visit::Absent => order.push((at, None)),
                Visit::Read(row) => order.push((at, Some(row.i64(BALANCE)))),
                Visit::Update(row) => {
                    order.push((at, Some(row.i64(BALANCE))));
                    row.set_i64(BALANCE, row.i64(BALANCE) + at as i64);
                }
            })
        })
        .unwrap();
        order.dedup(); // a reader without locks may be shown a row again
        let expected: Vec<(usize, Option<i64>)> = (0..104)
            .map(|at| {
                (at, [Some(100), Some(107), None][usize::from(at > 100) + usize::from(at == 102)])
            })
            .collect();
        assert_eq!(order, expected, "{scheme}");
        let left = db.transaction(|tx| balances(tx, &table, &all)).unwrap();
        // The third visit of row 7 is the 104th.
        let again = |id: i64| if id == 7 { 103 } else { 0 };
        let added = |id: i64| if id % 3 == 1 { id + again(id) } else { 0 };
        let expected: Vec<Option<i64>> = (0..ROWS).map(|id| Some(100 + added(id))).collect();
        assert_eq!(left, expected, "{scheme}");
    }
}

#[test]
fn what_the_transaction_has_done_itself_is_seen() {
    for scheme in SchemeKind::ALL.iter().copied() {
        let (db, table) = database(scheme);
        let rolled_back = db.transaction(|tx| {
            tx.insert(&table, &[Value::Int64(500), Value::Int64(5)])?;
            assert!(tx.delete(&table, &ids([3]))?);
            assert!(tx.update(&table, &ids([4]), &[(BALANCE, Value::Int64(4))])?);
            let keys = ids([500, 3, 4]);
            assert_eq!(balances(tx, &table, &keys)?, [Some(5), None, Some(4)], "{scheme}");
            add(tx, &table, &keys, &[1, 1, 1])?;
            assert_eq!(balances(tx, &table, &keys)?, [Some(6), None, Some(5)], "{scheme}");
            Err::<(), _>(TxnError::Abort(atoll::AbortReason::Requested))
        });
        assert!(rolled_back.is_err());
        let after = db.transaction(|tx| balances(tx, &table, &ids([500, 3, 4]))).unwrap();
        assert_eq!(after, [None, Some(100), Some(100)], "{scheme}");
    }
}

#[test]
fn a_key_that_does_not_fit_is_found_before_anything_is_done() {
    for scheme in SchemeKind::ALL.iter().copied() {
        let (db, table) = database(scheme);
        db.transaction(|tx| {
            let mut keys = ids(0..ROWS);
            keys[100] = Value::Text("a hundred".into());
            let added = add(tx, &table, &keys, &[1; 101]);
            assert!(matches!(added, Err(TxnError::Error(Error::Storage(_)))), "{added:?}");
            assert!(tx.is_open());
            assert_eq!(balances(tx, &table, &ids([0]))?, [Some(100)]);
            assert_eq!(balances(tx, &table, &[])?, []);
            Ok(())
        })
        .unwrap();
        let read_only = TransactionOptions { read_only: true, ..TransactionOptions::default() };
        let mut session = db.session().unwrap();
        let refused = session.transaction_with(&read_only, |tx| {
            assert_eq!(balances(tx, &table, &ids([0, 1]))?, [Some(100); 2]);
            add(tx, &table, &ids([0]), &[1])
        });
        assert!(matches!(refused, Err(Error::Transaction(_))), "{refused:?}");
        // A value that does not fit is detected too late for that: everything is rolled back.
        let wants = |_| Want::update(&[BALANCE]);
        let failed = session.transaction(|tx| {
            add(tx, &table, &ids([0]), &[1])?;
            tx.visit(&table, &ids([1, 2]), wants, |at, row| {
                if let Visit::Update(row) = row {
                    row.set(BALANCE, &[Value::Int64(0), Value::Bool(true)][at]);
                }
            })
        });
        assert!(matches!(failed, Err(Error::Storage(_))), "{failed:?}");
        let after = db.transaction(|tx| balances(tx, &table, &ids([0, 1, 2]))).unwrap();
        assert_eq!(after, [Some(100); 3], "{scheme}");
    }
}

#[test]
fn keys_of_several_columns_go_by_their_number() {
    for scheme in SchemeKind::ALL.iter().copied() {
        let db = create(scheme);
        let columns = vec![
            Column::new("region", DataType::Text),
            Column::new("note", DataType::Text),
            Column::new("number", DataType::Int32),
        ];
        let schema = Schema::new(columns, &["region", "number"]).unwrap();
        let table = db.create_table("sale", schema).unwrap();
        let key =
            |at: i32| [Value::Text(format!("a region far away {}", at % 3)), Value::Int32(at)];
        let note = |at: i32| Value::Text(format!("sale {at} had something worth a long note"));
        let keys: Vec<Value> = (0..70).flat_map(key).collect();
        let notes = db.transaction(|tx| {
            for at in (0..70).filter(|at| at % 5 != 0) {
                let [region, number] = key(at);
                tx.insert(&table, &[region, note(at), number])?;
            }
            let mut notes = vec![Value::Null; 70];
            let wants = |_| Want::update(&[1]);
            tx.visit(&table, &keys, wants, |at, row| {
                if let Visit::Update(row) = row {
                    row.set(1, &note(at as i32 + 1000));
                    notes[at] = row.value(1);
                }
            })?;
            Ok(notes)
        });
        let expected: Vec<Value> =
            (0..70).map(|at| if at % 5 == 0 { Value::Null } else { note(at + 1000) }).collect();
        assert_eq!(notes.unwrap(), expected, "{scheme}");
    }
}

#[test]
fn rows_of_several_tables_that_were_prefetched_are_visited_in_any_order() {
    for scheme in SchemeKind::ALL.iter().copied() {
        let (db, table) = database(scheme);
        let columns = vec![
            Column::new("first", DataType::Int64),
            Column::new("second", DataType::Int64),
            Column::new("text", DataType::Text),
        ];
        let schema = Schema::new(columns, &["first", "second"]).unwrap();
        let texts = db.create_table("texts", schema).unwrap();
        let text = |id: i64| format!("the text of number {id} is longer than a view");
        let fill = |tx: &mut Transaction| {
            (0..ROWS).try_for_each(|id| {
                tx.insert(&texts, &[Value::Int64(id), Value::Int64(-id), Value::Text(text(id))])
            })
        };
        db.transaction(fill).unwrap();
        let pair = |id: i64| [Value::Int64(id), Value::Int64(-id)];
        let pairs = |ids: &[i64]| ids.iter().copied().flat_map(pair).collect::<Vec<_>>();
        // In the order of the prefetch, in another order, fewer keys, more keys, and twice.
        let orders: [&[i64]; 5] =
            [&[5, 80, 500, 7], &[7, 5, 80], &[5, 80], &[5, 80, 500, 7, 9], &[5, 5]];
        for asked in orders {
            let announced = [5, 80, 500, 7];
            let (keys, others) = (ids(announced), pairs(&announced));
            let seen = db.transaction(|tx| {
                // A row that was deleted since its prefetch, and one that was inserted again.
                tx.prefetch(&texts, &others, |_| &[2]);
                tx.prefetch(&table, &keys, |_| &[BALANCE, 77]);
                tx.delete(&texts, &pair(80))?;
                tx.delete(&texts, &pair(7))?;
                tx.insert(&texts, &[&pair(7)[..], &[Value::Text(text(70))]].concat())?;
                add(tx, &table, &ids([80]), &[11])?;
                let mut found = vec![None; asked.len()];
                let wants = |_| Want::read(&[2]);
                tx.visit(&texts, &pairs(asked), wants, |at, row| {
                    found[at] = match row {
                        Visit::Read(row) => Some(row.text(2)),
                        _ => None,
                    };
                })?;
                let balances = balances(tx, &table, &ids(asked.iter().copied()))?;
                add(tx, &table, &ids([80]), &[-11])?;
                tx.delete(&texts, &pair(7))?;
                for id in [7, 80] {
                    let row = [&pair(id)[..], &[Value::Text(text(id))]].concat();
                    tx.insert(&texts, &row)?;
                }
                Ok((found, balances))
            });
            let expected = |id: &i64| match *id {
                80 | 500 => None,
                7 => Some(text(70)),
                id => Some(text(id)),
            };
            let balance = |id: &i64| match *id {
                500 => None,
                80 => Some(111),
                _ => Some(100),
            };
            let expected = (
                asked.iter().map(expected).collect::<Vec<_>>(),
                asked.iter().map(balance).collect::<Vec<_>>(),
            );
            assert_eq!(seen.unwrap(), expected, "{scheme}, {asked:?}");
        }
    }
}

#[test]
fn a_prefetch_that_makes_no_sense_is_no_more_than_a_hint() {
    for scheme in SchemeKind::ALL.iter().copied() {
        let ((db, table), (_, foreign)) = (database(scheme), database(scheme));
        let keys = ids([1, 2, 3]);
        let odd = [Value::Text("one".into()), Value::Null, Value::Int64(3)];
        let seen = db.transaction(|tx| {
            let prefetch = |tx: &mut Transaction, table: &Table, keys: &[Value]| {
                tx.prefetch(table, keys, |_| &[BALANCE]);
            };
            prefetch(tx, &foreign, &keys);
            prefetch(tx, &table, &keys);
            prefetch(tx, &table, &keys[1..]);
            let twice = balances(tx, &table, &keys[1..])?;
            prefetch(tx, &table, &[]);
            prefetch(tx, &foreign, &odd);
            let none = balances(tx, &table, &keys)?;
            prefetch(tx, &table, &odd);
            let odd = balances(tx, &table, &keys)?;
            tx.prefetch(&table, &keys, |_| &[]);
            Ok([twice, none, odd, balances(tx, &table, &keys)?].concat())
        });
        assert_eq!(seen.unwrap(), [Some(100); 11], "{scheme}");
    }
}

/// A visit that begins with the next expected key regards all of its keys as prefetched.
#[test]
fn keys_behind_a_prefetched_one_may_be_any() {
    for scheme in SchemeKind::ALL.iter().copied() {
        let (db, table) = database(scheme);
        db.transaction(|tx| add(tx, &table, &ids(0..ROWS), &(0..ROWS).collect::<Vec<_>>()))
            .unwrap();
        let expected = |id: &i64| (*id < ROWS).then_some(100 + id);
        for asked in [&[1, 9, 3, 500, 5][..], &[1, 3, 2, 5, 4], &[1, 1, 1, 1, 1], &[1, 2, 3]] {
            let seen = db.transaction(|tx| {
                let keys = ids(1..6);
                tx.prefetch(&table, &keys, |_| &[BALANCE]);
                let mut odd = ids(asked.iter().copied());
                odd[2] = Value::Text("three".into());
                let added = add(tx, &table, &odd, &[1; 5]);
                assert!(matches!(added, Err(TxnError::Error(Error::Storage(_)))), "{added:?}");
                balances(tx, &table, &ids(asked.iter().copied()))
            });
            let expected = asked.iter().map(expected).collect::<Vec<_>>();
            assert_eq!(seen.unwrap(), expected, "{scheme}, {asked:?}");
        }
    }
}

/// Two keys of two columns can have the same hash, and the row state has only the hash of its key.
#[test]
fn keys_of_the_same_hash_are_told_apart() {
    let key = |first: i64, second: i64| [first, second].map(Value::Int64);
    let second = (hash_of_word(1) ^ 10 ^ hash_of_word(2)).cast_signed();
    let [one, other] = [key(1, 10), key(2, second)];
    assert_eq!(hash(&one), hash(&other));
    for scheme in SchemeKind::ALL.iter().copied() {
        let db = create(scheme);
        let columns = ["first", "second", "value"].map(|name| Column::new(name, DataType::Int64));
        let schema = Schema::new(columns.into(), &["first", "second"]).unwrap();
        let table = db.create_table("pair", schema).unwrap();
        let keys = [&other[..], &one, &other, &key(1, 11)].concat();
        let seen = db.transaction(|tx| {
            for (key, value) in [(&one, 1), (&other, 2)] {
                tx.insert(&table, &[&key[..], &[Value::Int64(value)]].concat())?;
            }
            let mut seen = [None; 4];
            let wants = |_| Want::update(&[2]);
            tx.visit(&table, &keys, wants, |at, row| {
                if let Visit::Update(row) = row {
                    seen[at] = Some(row.i64(2));
                    row.set_i64(2, row.i64(2) + 10);
                }
            })?;
            tx.prefetch(&table, &keys[..4], |_| &[2]);
            let others = tx.read_with(&table, &other, |row| row.i64(2))?;
            Ok((seen, others, tx.read_with(&table, &one, |row| row.i64(2))?))
        });
        let expected = ([Some(2), Some(1), Some(12), None], Some(22), Some(11));
        assert_eq!(seen.unwrap(), expected, "{scheme}");
    }
}

#[test]
fn rows_move_in_indexes_and_a_value_that_is_taken_rolls_back() {
    for scheme in SchemeKind::ALL.iter().copied() {
        let db = create(scheme);
        let columns = ["id", "rank"].map(|name| Column::new(name, DataType::Int64));
        let schema = Schema::new(columns.into(), &["id"]).unwrap();
        let by_rank = IndexSpec {
            name: "by_rank".into(),
            columns: vec!["rank".into()],
            unique: true,
            nulls_not_distinct: false,
        };
        let options = TableOptions { indexes: vec![by_rank], ..TableOptions::default() };
        let table = db.create_table_with("runner", schema, &options).unwrap();
        let index = table.index("by_rank").unwrap();
        let keys = ids(0..50);
        let ranks = || {
            let mut ranks = Vec::new();
            db.transaction(|tx| {
                ranks.clear();
                let all = Range {
                    from: std::ops::Bound::Unbounded,
                    to: std::ops::Bound::Unbounded,
                    descending: false,
                };
                tx.scan(
                    &index,
                    all,
                    |row| (row.i64(1), row.i64(0)),
                    |found| {
                        ranks.push(found);
                        std::ops::ControlFlow::Continue(())
                    },
                )
            })
            .unwrap();
            ranks.clone()
        };
        let mut session = db.session().unwrap();
        session
            .transaction(|tx| {
                (0..50).try_for_each(|id| tx.insert(&table, &[id, id].map(Value::Int64)))?;
                // In reverse order, above all ranks that are taken.
                let wants = |_| Want::update(&[1]);
                tx.visit(&table, &keys, wants, |at, row| {
                    if let Visit::Update(row) = row {
                        row.set_i64(1, 1000 - at as i64);
                    }
                })
            })
            .unwrap();
        let turned: Vec<(i64, i64)> = (0..50).rev().map(|id| (1000 - id, id)).collect();
        assert_eq!(ranks(), turned, "{scheme}");
        let taken = session.transaction(|tx| {
            let wants = |_| Want::update(&[1]);
            tx.visit(&table, &keys, wants, |at, row| {
                if let Visit::Update(row) = row {
                    // Row 49 asks for the rank that row 0 has just got.
                    row.set_i64(1, if at == 49 { 2000 } else { 2000 + at as i64 });
                }
            })
        });
        assert!(matches!(taken, Err(Error::DuplicateIndexKey { .. })), "{scheme}: {taken:?}");
        assert_eq!(ranks(), turned, "{scheme}");
    }
}

#[test]
fn a_row_moves_in_the_indexes_of_the_columns_that_an_edit_has_changed_in_the_end() {
    for scheme in SchemeKind::ALL.iter().copied() {
        let db = create(scheme);
        let columns = ["id", "note", "rank", "name"].map(|name| Column::new(name, DataType::Int64));
        let index = |name: &str, columns: &[&str]| IndexSpec {
            name: name.into(),
            columns: columns.iter().map(|column| (*column).to_owned()).collect(),
            unique: false,
            nulls_not_distinct: false,
        };
        let indexes = vec![index("by_rank", &["rank", "id"]), index("by_name", &["name", "rank"])];
        let options = TableOptions { indexes, ..TableOptions::default() };
        let schema = Schema::new(columns.into(), &["id"]).unwrap();
        let table = db.create_table_with("runner", schema, &options).unwrap();
        // The rows in the order of each index.
        let listed = |name: &str| {
            let index = table.index(name).unwrap();
            let mut rows = Vec::new();
            db.transaction(|tx| {
                rows.clear();
                let look = |row: &atoll::Row<'_>| [0, 1, 2, 3].map(|column| row.i64(column));
                tx.scan(&index, Range::ALL, look, |row| {
                    rows.push(row);
                    std::ops::ControlFlow::Continue(())
                })
            })
            .unwrap();
            rows
        };
        let mut session = db.session().unwrap();
        let rows = |ids: std::ops::Range<i64>| -> Vec<Value> {
            ids.flat_map(|id| [id, 0, id, -id]).map(Value::Int64).collect()
        };
        session.transaction(|tx| tx.insert(&table, &rows(0..4))).unwrap();
        let edits: [&[(usize, i64)]; 4] = [
            &[(1, 7)],                            // in no index
            &[(1, 8), (2, 50), (3, 60), (2, 40)], // in both, one of them twice
            &[(2, 70), (1, 9), (2, 2)],           // there and back again
            &[(3, 9), (3, 8)],                    // in one
        ];
        let change = |tx: &mut Transaction| {
            tx.visit(
                &table,
                &ids(0..4),
                |_| Want::update(&[1]),
                |at, row| {
                    if let Visit::Update(row) = row {
                        edits[at].iter().for_each(|(column, value)| row.set_i64(*column, *value));
                    }
                },
            )
        };
        let before = [listed("by_rank"), listed("by_name")];
        let given_up = session.transaction(|tx| {
            change(tx)?;
            Err::<(), _>(TxnError::Abort(atoll::AbortReason::Requested))
        });
        assert!(given_up.is_err());
        assert_eq!([listed("by_rank"), listed("by_name")], before, "{scheme}");
        session.transaction(change).unwrap();
        let [zero, one, two, three] = [[0, 7, 0, 0], [1, 8, 40, 60], [2, 9, 2, -2], [3, 0, 3, 8]];
        assert_eq!(listed("by_rank"), [zero, two, three, one], "{scheme}");
        assert_eq!(listed("by_name"), [two, zero, three, one], "{scheme}");
    }
}

#[test]
fn keys_that_are_going_to_be_inserted_can_be_brought_in_before() {
    for scheme in SchemeKind::ALL.iter().copied() {
        let (db, table) = database(scheme);
        let after = db.transaction(|tx| {
            let keys = ids([ROWS, 5, ROWS + 1]);
            tx.prefetch_new(&table, &keys);
            for key in &keys {
                let row = [key.clone(), Value::Int64(1)];
                let inserted = tx.insert(&table, &row);
                let is_new = *key != Value::Int64(5);
                assert_eq!(inserted.is_ok(), is_new, "{scheme}: {key:?}");
            }
            balances(tx, &table, &keys)
        });
        assert_eq!(after.unwrap(), [Some(1), Some(100), Some(1)], "{scheme}");
    }
}

#[test]
fn a_panic_in_a_visit_leaves_nothing_behind() {
    for scheme in SchemeKind::ALL.iter().copied() {
        let (db, table) = database(scheme);
        let mut session = db.session().unwrap();
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let wants = |_| Want::update(&[BALANCE]);
            session.transaction(|tx| {
                tx.visit(&table, &ids(0..ROWS), wants, |at, row| {
                    assert!(at < 60, "on purpose");
                    if let Visit::Update(row) = row {
                        row.set_i64(BALANCE, 0);
                    }
                })
            })
        }));
        assert!(panicked.is_err());
        // No lock is held either.
        session.transaction(|tx| add(tx, &table, &ids(0..ROWS), &[1; 101])).unwrap();
        let after = db.transaction(|tx| balances(tx, &table, &ids(0..ROWS))).unwrap();
        assert_eq!(after, [Some(101); 101], "{scheme}");
    }
}

#[test]
fn a_panic_while_saying_what_is_wanted_ends_the_transaction_even_if_it_is_caught() {
    for scheme in SchemeKind::ALL.iter().copied() {
        let (db, table) = database(scheme);
        let ended = db.transaction(|tx| {
            add(tx, &table, &ids([0]), &[1])?;
            let wants = |at| {
                // `wants` is called for all keys first, and again shortly before the turn of a key.
                assert!(at < 60 || ASKED.with(|asked| asked.replace(asked.get() + 1)) < 41);
                Want::update(&[BALANCE])
            };
            ASKED.set(0);
            let caught = catch_unwind(AssertUnwindSafe(|| {
                tx.visit(&table, &ids(0..ROWS), wants, |_, row| {
                    if let Visit::Update(row) = row {
                        row.set_i64(BALANCE, 0);
                    }
                })
            }));
            assert!(caught.is_err());
            Ok(())
        });
        assert!(ended.is_err(), "{scheme}");
        let after = db.transaction(|tx| balances(tx, &table, &ids(0..ROWS))).unwrap();
        assert_eq!(after, [Some(100); 101], "{scheme}");
    }
}

thread_local! {
    static ASKED: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

#[test]
fn a_partition_that_was_not_named_is_refused_before_anything_is_done() {
    let (db, table) = database("HSTORE".parse().unwrap());
    let mut session = db.session().unwrap();
    let named = TransactionOptions { partitions: vec![0], ..TransactionOptions::default() };
    let refused = session.transaction_with(&named, |tx| {
        add(tx, &table, &ids([2, 4, 6]), &[1; 3])?;
        add(tx, &table, &ids([2, 4, 7]), &[1; 3])
    });
    assert!(matches!(refused, Err(Error::Transaction(_))), "{refused:?}");
    let after = db.transaction(|tx| balances(tx, &table, &ids(0..8))).unwrap();
    assert_eq!(after, [Some(100); 8]);
}

#[test]
fn rows_for_another_partition_are_refused_wherever_among_others_they_are() {
    let (db, table) = database("HSTORE".parse().unwrap());
    let mut session = db.session().unwrap();
    let named = TransactionOptions { partitions: vec![0], ..TransactionOptions::default() };
    let mut insert = |ids: [i64; 5]| {
        let rows: Vec<Value> = ids.iter().flat_map(|id| [*id, 100].map(Value::Int64)).collect();
        session.transaction_with(&named, |tx| tx.insert(&table, &rows))
    };
    let own = [300, 302, 304, 306, 308];
    for at in 0..own.len() {
        let mut rows = own;
        rows[at] += 1;
        let refused = insert(rows).unwrap_err();
        assert!(matches!(refused, Error::Transaction(_)), "{refused:?}");
        let after = db.transaction(|tx| balances(tx, &table, &ids(300..310))).unwrap();
        assert_eq!(after, [None; 10], "{rows:?}");
    }
    insert(own).unwrap();
}

#[test]
fn a_change_beside_a_read_of_the_same_key_needs_all_partitions_of_a_table_that_is_in_all() {
    let db = database("HSTORE".parse().unwrap()).0;
    let columns = ["id", "n"].map(|name| Column::new(name, DataType::Int64));
    let schema = Schema::new(columns.into(), &["id"]).unwrap();
    let options = TableOptions { replicated: true, ..TableOptions::default() };
    let table = db.create_table_with("everywhere", schema, &options).unwrap();
    db.transaction(|tx| tx.insert(&table, &[2, 5].map(Value::Int64))).unwrap();
    let mut session = db.session().unwrap();
    let mut visit = |partitions: &[u32], updates: [bool; 2]| {
        let options = TransactionOptions { partitions: partitions.to_vec(), ..Default::default() };
        session.transaction_with(&options, |tx| {
            let wants = |at: usize| Want { columns: &[1], update: updates[at] };
            tx.visit(&table, &ids([2, 2]), wants, |_, _| ())
        })
    };
    visit(&[0], [false, false]).unwrap();
    visit(&[0, 1], [false, true]).unwrap();
    for updates in [[false, true], [true, false]] {
        let refused = visit(&[0], updates).unwrap_err().to_string();
        assert!(refused.contains("did not name"), "{refused}");
    }
}

#[test]
fn columns_that_do_not_exist_are_no_reason_to_fail_as_a_hint() {
    let (db, table) = database(SchemeKind::default());
    let seen = db.transaction(|tx| {
        let mut seen = None;
        let wants = |_| Want::read(&[99, BALANCE]);
        tx.visit(&table, &ids([5]), wants, |_, row| {
            if let Visit::Read(row) = row {
                seen = Some(row.i64(BALANCE));
            }
        })?;
        Ok(seen)
    });
    assert_eq!(seen.unwrap(), Some(100));
}

/// Sum of the balances that a snapshot shows.
fn shown(db: &Database) -> i64 {
    let snapshot = db.snapshot().unwrap();
    let table = snapshot.table("account").unwrap();
    let mut sum = 0;
    for number in 0..table.segment_count() {
        let segment = table.segment(number).unwrap();
        let batch = segment.batch(&[BALANCE]).unwrap();
        sum += batch.column(0).as_primitive::<Int64Type>().values().iter().sum::<i64>();
    }
    sum
}

/// Two threads move amounts between the same rows, in different orders; concurrent transactions and
/// snapshots that read all rows find the same sum, and at the end every balance is right.
#[test]
fn visits_of_threads_that_meet_are_transactions() {
    const AMOUNTS: [i64; 8] = [1, -1, 2, -2, 3, -3, 4, -4];
    let keys_of = |thread: usize, round: i64| {
        let mut keys: Vec<i64> = (0..8).map(|at| (round + at * 5) % ROWS).collect();
        if thread == 1 {
            keys.reverse();
        }
        keys
    };
    let mut expected = vec![100; ROWS as usize];
    for (thread, round) in (0..2).flat_map(|thread| (0..200).map(move |round| (thread, round))) {
        for (key, amount) in keys_of(thread, round).into_iter().zip(AMOUNTS) {
            expected[key as usize] += amount;
        }
    }
    let expected: Vec<Option<i64>> = expected.into_iter().map(Some).collect();
    for scheme in SchemeKind::ALL.iter().copied() {
        let (db, table) = database(scheme);
        let (db_of, table_of) = (&db, &table);
        std::thread::scope(|scope| {
            for thread in 0..2 {
                scope.spawn(move || {
                    let mut session = db_of.session().unwrap();
                    for round in 0..200 {
                        let keys = ids(keys_of(thread, round));
                        session.transaction(|tx| add(tx, table_of, &keys, &AMOUNTS)).unwrap();
                    }
                });
            }
            scope.spawn(move || {
                let mut session = db_of.session().unwrap();
                for _ in 0..50 {
                    let all = ids(0..ROWS);
                    let seen = session.transaction(|tx| balances(tx, table_of, &all)).unwrap();
                    let sum: i64 = seen.into_iter().flatten().sum();
                    assert_eq!(sum, ROWS * 100, "{scheme}");
                    assert_eq!(shown(db_of), ROWS * 100, "{scheme}");
                }
            });
        });
        let left = db.transaction(|tx| balances(tx, &table, &ids(0..ROWS))).unwrap();
        assert_eq!(left, expected, "{scheme}");
    }
}

#[test]
fn rows_inserted_together_hold_what_they_were_given_whatever_their_columns_are() {
    let types = [
        (DataType::Int16, false),
        (DataType::Date, true),
        (DataType::FixedBinary(24), false),
        (DataType::FixedBinary(3), true),
        (DataType::Decimal { precision: 30, scale: 2 }, false),
        (DataType::Timestamp, false),
    ];
    let mut columns = vec![Column::new("id", DataType::Int32)];
    columns.extend(types.iter().enumerate().map(|(at, (data_type, nullable))| Column {
        nullable: *nullable,
        ..Column::new(format!("c{at}"), *data_type)
    }));
    let schema = Schema::new(columns, &["id"]).unwrap();
    let row = |id: i32| {
        let bytes =
            |len: usize| Value::Binary((0..len).map(|at| (id as usize + at) as u8).collect());
        let (date, short) =
            if id % 3 == 0 { (Value::Null, Value::Null) } else { (Value::Date(-id), bytes(3)) };
        let digits = Value::Decimal(i128::from(id) << 70);
        let rest = [date, bytes(24), short, digits, Value::Timestamp(-i64::from(id))];
        [Value::Int32(id), Value::Int16(id as i16)].into_iter().chain(rest).collect::<Vec<_>>()
    };
    for scheme in SchemeKind::ALL.iter().copied() {
        let db = create(scheme);
        let table = db.create_table("all", schema.clone()).unwrap();
        let rows: Vec<Value> = (1..=40).flat_map(row).collect();
        db.transaction(|tx| tx.insert(&table, &rows)).unwrap();
        for id in 1..=40 {
            let seen = db.transaction(|tx| tx.read(&table, &[Value::Int32(id)])).unwrap();
            assert_eq!(seen, Some(row(id)), "{scheme}");
        }
    }
}
