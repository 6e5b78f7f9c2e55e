//! Values that are read and replaced one after the other. (`apply.rs` compares the values with
//! those of other operations.)
#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use atoll::{
    Column, Cursor, DataType, Database, DatabaseOptions, Schema, SchemeKind, Snapshot, Table,
    TableOptions, TransactionOptions, TxnResult, Value,
};

const NUMBER: usize = 1;
const BYTES: usize = 2;
/// Longer than the values that are kept until their cache lines have arrived.
const WIDTH: u32 = 300;
const ROWS: i64 = 3000;

fn create(scheme: SchemeKind) -> Database {
    let options = DatabaseOptions { scheme, partitions: Some(2), ..DatabaseOptions::default() };
    Database::create(options).unwrap()
}

/// A table with rows that are found without the index.
fn filled(db: &Database) -> Table {
    filled_with(db, &TableOptions::default())
}

fn filled_with(db: &Database, options: &TableOptions) -> Table {
    let columns = vec![
        Column::new("id", DataType::Int64),
        Column::new("number", DataType::Int64),
        Column::new("bytes", DataType::FixedBinary(WIDTH)),
        Column::new("text", DataType::Text),
    ];
    let schema = Schema::new(columns, &["id"]).unwrap();
    let table = db.create_table_with("t", schema, options).unwrap();
    let text = || Value::Text(String::new());
    let row = |id: i64| [id.into(), 100i64.into(), Value::Binary(vec![0; WIDTH as usize]), text()];
    let rows: Vec<Value> = (0..ROWS).flat_map(row).collect();
    db.transaction(|tx| tx.insert(&table, &rows)).unwrap();
    table
}

fn number(rows: &mut Cursor<'_>, id: i64) -> TxnResult<i64> {
    let mut bytes = [0; 8];
    assert!(rows.get(&[id.into()], NUMBER, &mut bytes)?);
    Ok(i64::from_le_bytes(bytes))
}

fn put(rows: &mut Cursor<'_>, id: i64, number: i64) -> TxnResult<()> {
    assert!(rows.put(&[id.into()], NUMBER, &number.to_le_bytes())?);
    Ok(())
}

/// The number of a row, read by another operation.
fn stored(db: &Database, table: &Table, id: i64) -> i64 {
    let read = |row: &atoll::Row<'_>| row.i64(NUMBER);
    db.transaction(|tx| tx.read_with(table, &[id.into()], read)).unwrap().unwrap()
}

fn total(snapshot: &Snapshot) -> i64 {
    let table = snapshot.table("t").unwrap();
    let of = |at| {
        let batch = table.segment(at).unwrap().batch(&[NUMBER]).unwrap();
        batch.column(0).as_primitive::<Int64Type>().values().iter().sum::<i64>()
    };
    (0..table.segment_count()).map(of).sum()
}

#[test]
fn a_transaction_sees_what_it_has_put_however_it_looks() {
    for scheme in SchemeKind::ALL.iter().copied() {
        let db = create(scheme);
        let table = filled(&db);
        db.transaction(|tx| {
            tx.cursor(&table, |rows| {
                // More changes than are kept, several of them to one row.
                for id in [1, 2, 3, 1, 4, 5, 1, 6] {
                    let before = number(rows, id)?;
                    put(rows, id, before + 1)?;
                }
                put(rows, 7, 7)?;
                put(rows, 7, 8)?;
                assert_eq!((number(rows, 1)?, number(rows, 7)?, number(rows, 8)?), (103, 8, 100));
                let wide = vec![5; WIDTH as usize];
                assert!(rows.put(&[9i64.into()], BYTES, &wide)?);
                let mut seen = vec![0; WIDTH as usize];
                assert!(rows.get(&[9i64.into()], BYTES, &mut seen)?);
                assert_eq!(seen, wide, "{scheme}");
                put(rows, 10, 11)
            })?;
            let read = |row: &atoll::Row<'_>| row.i64(NUMBER);
            let seen = [1i64, 7, 10].map(|id| tx.read_with(&table, &[id.into()], read));
            assert_eq!(seen.map(|seen| seen.ok().flatten()), [103, 8, 11].map(Some), "{scheme}");
            Ok(())
        })
        .unwrap();
        assert_eq!([1, 6, 7, 10].map(|id| stored(&db, &table, id)), [103, 101, 8, 11], "{scheme}");
    }
}

#[test]
fn a_transaction_that_is_given_up_leaves_nothing_behind() {
    for scheme in SchemeKind::ALL.iter().copied() {
        let db = create(scheme);
        let table = filled(&db);
        let mut transaction = db.begin().unwrap();
        transaction.cursor(&table, |rows| (0..6).try_for_each(|id| put(rows, id, 7))).unwrap();
        transaction.rollback();
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            db.transaction(|tx| {
                tx.cursor(&table, |rows| {
                    put(rows, 1, 7)?;
                    put(rows, 2, 7)?;
                    if number(rows, 3)? == 100 { panic!("in the middle") } else { Ok(()) }
                })
            })
        }));
        assert!(panicked.is_err(), "{scheme}");
        // A body that ignores the error is left with a transaction that can only be rolled back.
        let mut transaction = db.begin().unwrap();
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            transaction.cursor(&table, |rows| -> TxnResult<()> {
                put(rows, 4, 7)?;
                panic!("after a put")
            })
        }));
        assert!(caught.is_err() && transaction.commit().is_err(), "{scheme}");
        assert!((0..6).all(|id| stored(&db, &table, id) == 100), "{scheme}");
    }
}

type Wrong = fn(&mut Cursor<'_>, &mut [u8; 8]) -> TxnResult<bool>;

const FIVE: [Value; 1] = [Value::Int64(5)];

/// Accesses that do not fit the schema, with the expected messages.
const WRONG: [(Wrong, &str); 7] = [
    (|rows, room| rows.get(&FIVE, 9, room), "column 9 does not exist"),
    (|rows, room| rows.get(&FIVE, 3, room), "column 3 holds text"),
    (|rows, room| rows.get(&FIVE, NUMBER, &mut room[1..]), "names 8 bytes from 0 on, of 7"),
    (|rows, _| rows.put(&FIVE, NUMBER, &[7; 7]), "names 8 bytes from 0 on, of 7"),
    (|rows, _| rows.put(&FIVE, 0, &[7; 8]), "\"id\" is part of the primary key"),
    (|rows, room| rows.get(&["5".into()], NUMBER, room), "id"),
    (|rows, room| rows.get(&[], NUMBER, room), "primary key has 1 column"),
];

#[test]
fn what_does_not_fit_is_told_and_changes_nothing() {
    for scheme in SchemeKind::ALL.iter().copied() {
        let db = create(scheme);
        let table = filled(&db);
        let elsewhere = filled(&create(scheme));
        db.transaction(|tx| {
            assert!(tx.cursor(&elsewhere, |rows| put(rows, 1, 7)).is_err(), "{scheme}");
            tx.cursor(&table, |rows| {
                let mut room = [0; 8];
                for (wrong, message) in WRONG {
                    // Each after a valid access, so that it happens inside the gate.
                    assert_eq!(number(rows, 5)?, 100);
                    let told = wrong(rows, &mut room).unwrap_err().to_string();
                    assert!(told.contains(message), "{scheme}: {told}, not {message}");
                }
                assert!(!rows.get(&[ROWS.into()], NUMBER, &mut room)?);
                assert!(!rows.put(&[(-1i64).into()], NUMBER, &[7; 8])?);
                assert_eq!(number(rows, 5)?, 100);
                put(rows, 6, 9)
            })
        })
        .unwrap();
        assert_eq!((stored(&db, &table, 5), stored(&db, &table, 6)), (100, 9), "{scheme}");
        let options = TransactionOptions { read_only: true, ..Default::default() };
        let refused = db.session().unwrap().transaction_with(&options, |tx| {
            tx.cursor(&table, |rows| {
                number(rows, 5)?;
                put(rows, 5, 7)
            })
        });
        assert!(refused.unwrap_err().to_string().contains("read-only"), "{scheme}");
        assert_eq!(stored(&db, &table, 5), 100, "{scheme}");
    }
}

#[test]
fn a_partition_that_was_not_named_is_not_touched() {
    let db = create("hstore".parse().unwrap());
    let table = filled(&db);
    let (mine, other) = (table.partition(&[2i64.into()]), table.partition(&[3i64.into()]));
    assert_ne!(mine, other);
    let options = TransactionOptions { partitions: vec![mine], ..Default::default() };
    let mut session = db.session().unwrap();
    let mut put_both = |first: i64, second: i64| {
        session.transaction_with(&options, |tx| {
            tx.cursor(&table, |rows| {
                put(rows, first, 7)?;
                let done = put(rows, second, 7);
                // After the failure every operation in it fails.
                assert_eq!(done.is_ok(), number(rows, first).is_ok());
                done
            })
        })
    };
    put_both(2, 4).unwrap();
    let refused = put_both(6, 3).unwrap_err().to_string();
    assert!(refused.contains("did not name"), "{refused}");
    assert_eq!([2, 4, 6, 3].map(|id| stored(&db, &table, id)), [7, 7, 100, 100]);
}

#[test]
fn a_table_in_all_partitions_is_written_by_who_has_all_of_them() {
    type Body = fn(&mut Cursor<'_>) -> TxnResult<()>;
    // Each begins with an access that is made outside the gate.
    let read: Body =
        |rows| (0..4).try_for_each(|id| number(rows, id).map(|number| assert_eq!(number, 100)));
    let puts: [Body; 2] = [
        |rows| number(rows, 1).and_then(|_| put(rows, 2, 7)),
        |rows| number(rows, 1).and_then(|_| put(rows, 3, 7)),
    ];
    let db = create("hstore".parse().unwrap());
    let options = TableOptions { replicated: true, ..TableOptions::default() };
    let table = filled_with(&db, &options);
    let mut session = db.session().unwrap();
    let mut run = |partitions: &[u32], body: Body| {
        let partitions = partitions.to_vec();
        let options = TransactionOptions { partitions, ..Default::default() };
        session.transaction_with(&options, |tx| tx.cursor(&table, body))
    };
    for partition in [0, 1] {
        run(&[partition], read).unwrap();
        for put in puts {
            let refused = run(&[partition], put).unwrap_err().to_string();
            assert!(refused.contains("did not name"), "{refused}");
        }
    }
    run(&[0, 1], puts[0]).unwrap();
    assert_eq!([2, 3].map(|id| stored(&db, &table, id)), [7, 100]);
}

#[test]
fn transfers_of_threads_keep_the_total_and_snapshots_show_it() {
    const KEYS: i64 = 40;
    // Rows that count transfers: transfers that move nothing would keep the total too.
    const UP: i64 = KEYS;
    const DOWN: i64 = KEYS + 1;
    for scheme in SchemeKind::ALL.iter().copied() {
        let db = create(scheme);
        let table = filled(&db);
        let totals = std::thread::scope(|scope| {
            let writers = [0, 1].map(|thread| {
                let (db, table) = (&db, &table);
                scope.spawn(move || {
                    for turn in 0..400 {
                        // A row contains the key of the next one, so the key cannot be known
                        // beforehand.
                        let transfer = |rows: &mut Cursor<'_>| {
                            let from = (turn * 7 + thread * 3) % KEYS;
                            let has = number(rows, from)?;
                            put(rows, from, has - 3)?;
                            for step in 1..=3 {
                                let to = (from + has.rem_euclid(7) + step * 5) % KEYS;
                                let has = number(rows, to)?;
                                put(rows, to, has + 1)?;
                            }
                            let (up, down) = (number(rows, UP)?, number(rows, DOWN)?);
                            put(rows, UP, up + 1)?;
                            put(rows, DOWN, down - 1)?;
                            Ok(())
                        };
                        db.transaction(|tx| tx.cursor(table, transfer)).unwrap();
                    }
                })
            });
            let mut totals = Vec::new();
            while !writers.iter().all(std::thread::ScopedJoinHandle::is_finished) {
                totals.push(total(&db.snapshot().unwrap()));
            }
            totals
        });
        assert!(totals.iter().all(|total| *total == ROWS * 100), "{scheme}: {totals:?}");
        assert_eq!([UP, DOWN].map(|id| stored(&db, &table, id)), [100 + 800, 100 - 800]);
    }
}

#[test]
fn a_snapshot_waits_for_an_access_not_for_all_of_them() {
    for scheme in SchemeKind::ALL.iter().copied() {
        let db = create(scheme);
        let table = filled(&db);
        let (taken, accesses) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            let taker = scope.spawn(|| {
                while accesses.load(Ordering::Relaxed) < 10 {
                    std::thread::yield_now();
                }
                let snapshot = db.snapshot().unwrap();
                taken.store(true, Ordering::Relaxed);
                total(&snapshot)
            });
            db.transaction(|tx| {
                tx.cursor(&table, |rows| {
                    // Runs until the snapshot has been taken.
                    for id in (0..1000).cycle().take(30_000_000) {
                        if taken.load(Ordering::Relaxed) {
                            return Ok(());
                        }
                        put(rows, id, 101)?;
                        accesses.fetch_add(1, Ordering::Relaxed);
                    }
                    panic!("{scheme}: it is not there");
                })
            })
            .unwrap();
            assert_eq!(taker.join().unwrap(), ROWS * 100, "{scheme}");
        });
    }
}

#[test]
fn a_panic_after_an_abort_does_not_reach_the_next_transaction() {
    let db = create("no_wait".parse().unwrap());
    let table = filled(&db);
    let mut owner = db.begin().unwrap();
    owner.cursor(&table, |rows| put(rows, 1, 7)).unwrap();
    let mut session = db.session().unwrap();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        session.transaction(|tx| {
            tx.cursor(&table, |rows| {
                put(rows, 1, 8).unwrap();
                Ok(())
            })
        })
    }));
    assert!(panicked.is_err());
    owner.rollback();
    session.transaction(|tx| tx.cursor(&table, |rows| put(rows, 1, 9))).unwrap();
    assert_eq!(stored(&db, &table, 1), 9);
}

#[test]
fn an_access_while_something_else_unwinds_is_as_good_as_any() {
    struct Puts<'p>(&'p Database, &'p Table);
    impl Drop for Puts<'_> {
        fn drop(&mut self) {
            let Self(db, table) = self;
            drop(db.transaction(|tx| tx.cursor(table, |rows| put(rows, 1, 7))));
        }
    }
    let db = create("no_wait".parse().unwrap());
    let table = filled(&db);
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _puts = Puts(&db, &table);
        panic!("something else");
    }));
    assert!(panicked.is_err());
    assert_eq!(stored(&db, &table, 1), 7);
}

#[test]
fn keys_whose_hashes_look_the_same_are_told_apart() {
    /// Their hashes are 0, 1 and 2, which look equal beside a row.
    const ALIKE: [i64; 3] =
        [-7_046_029_254_386_353_131, 602_011_719_280_736_711, -5_554_057_369_892_292_704];
    for scheme in SchemeKind::ALL.iter().copied() {
        // The last key is like no other, and its predicted slot holds one of them.
        let absent = ALIKE.iter().chain(&[5000]);
        let pairs = absent.flat_map(|one| ALIKE.map(|other| [*one, other]));
        for [absent, present] in pairs.filter(|[one, other]| one != other) {
            let db = create(scheme);
            let columns = ["id", "number"].map(|name| Column::new(name, DataType::Int64));
            let table =
                db.create_table("t", Schema::new(columns.into(), &["id"]).unwrap()).unwrap();
            // In order, up to the absent key; the other key takes its slot.
            let ids = (absent - 200..absent).chain([present]);
            let rows: Vec<Value> = ids.flat_map(|id| [id, 100].map(Value::Int64)).collect();
            db.transaction(|tx| tx.insert(&table, &rows)).unwrap();
            db.transaction(|tx| {
                tx.cursor(&table, |rows| {
                    let mut bytes = [0; 8];
                    assert!(!rows.get(&[absent.into()], NUMBER, &mut bytes)?, "{scheme}");
                    assert!(!rows.put(&[absent.into()], NUMBER, &[7; 8])?, "{scheme}");
                    Ok(())
                })
            })
            .unwrap();
            assert_eq!(stored(&db, &table, present), 100, "{scheme}");
        }
    }
}
