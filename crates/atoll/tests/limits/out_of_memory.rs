//! Out of memory: a clear error, nothing is lost, no transaction is there in part, and everything
//! works again when there is memory.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use atoll::{
    Column, DataType, Database, DatabaseOptions, Result, Schema, SchemeKind, Snapshot, Table, Value,
};

use crate::limits_common::{
    database, in_time, insert, is_out_of_memory, payload, small, total, update, wide,
};

#[test]
fn a_full_table_says_so_loses_nothing_and_goes_on_when_rows_are_deleted() {
    in_time(|| {
        let db = database(small(32));
        let table = wide(&db, 0);
        let mut rows = 0;
        let error = loop {
            match insert(&db, &table, rows..rows + 500) {
                Ok(()) => rows += 500,
                Err(error) => break error,
            }
        };
        assert!(is_out_of_memory(&error), "{error}");
        assert!(rows > 50_000, "full after {rows}");
        let whole = |rows: i64| {
            assert_eq!(table.row_count() as i64, rows);
            assert_eq!(total(&db.snapshot().unwrap()).unwrap(), (rows, rows));
        };
        whole(rows);
        // Full again and again without harm; reads and updates in place go on.
        (0..5).for_each(|_| drop(insert(&db, &table, rows..rows + 8_192).unwrap_err()));
        whole(rows);
        update(&db, &table, 0..rows, 1).unwrap();
        db.transaction(|tx| {
            (0..1_000i64).try_for_each(|id| tx.delete(&table, &[id.into()]).map(|_| ()))
        })
        .unwrap();
        insert(&db, &table, 0..1_000).unwrap();
        whole(rows);
    });
}

#[test]
fn puts_that_find_no_memory_when_they_are_stored_are_told_and_undone() {
    in_time(|| {
        for scheme in ["no_wait", "hstore", "silo"].map(|name| name.parse::<SchemeKind>().unwrap())
        {
            let options =
                DatabaseOptions { scheme, snapshot_bytes_max: Some(1 << 40), ..small(28) };
            let db = database(options);
            let table = wide(&db, 65_000);
            let mut snapshots = vec![(db.snapshot().unwrap(), 1)];
            let put_all = |value: i64| {
                db.transaction(|tx| {
                    tx.cursor(&table, |rows| {
                        // The last changes are in extents that were copied already.
                        (0..65_000i64).chain(0..8).try_for_each(|id| {
                            assert!(rows.put(&[id.into()], 1, &value.to_le_bytes())?);
                            Ok(())
                        })
                    })
                })
            };
            let mut refused = 0;
            // Values with the same payload as 1.
            for value in (1..45).map(|turn| turn * 256 + 1) {
                match put_all(value) {
                    Ok(()) => snapshots.extend(db.snapshot().ok().map(|one| (one, value))),
                    Err(error) => {
                        assert!(is_out_of_memory(&error), "{scheme}: {error}");
                        refused += 1;
                    }
                }
            }
            assert!(refused > 0, "{scheme}");
            for (snapshot, value) in &snapshots {
                assert_eq!(total(snapshot).unwrap(), (65_000, 65_000 * value), "{scheme}");
            }
        }
    });
}

#[test]
fn an_update_that_finds_no_memory_for_copies_is_rolled_back_whole() {
    in_time(|| {
        let db = database(DatabaseOptions { snapshot_bytes_max: Some(1 << 40), ..small(64) });
        let table = wide(&db, 65_000);
        let held = db.snapshot().unwrap();
        // Copies every extent once: from 17 to 34 MiB.
        update(&db, &table, 0..65_000, 2).unwrap();
        let newer = db.snapshot().unwrap();
        let mut refused = 0;
        let mut snapshots = vec![(newer, 2)];
        for value in 3..6 {
            match update(&db, &table, 0..65_000, value) {
                Ok(()) => snapshots.extend(db.snapshot().ok().map(|snapshot| (snapshot, value))),
                Err(error) => {
                    assert!(is_out_of_memory(&error), "{error}");
                    refused += 1;
                }
            }
        }
        assert!(refused > 0);
        assert_eq!(total(&held).unwrap(), (65_000, 65_000));
        for (snapshot, value) in &snapshots {
            assert_eq!(total(snapshot).unwrap(), (65_000, 65_000 * value));
        }
        let value = snapshots.last().unwrap().1;
        let mut tx = db.begin().unwrap();
        for id in (0..65_000i64).step_by(97) {
            let row = tx.read(&table, &[id.into()]).unwrap().unwrap();
            assert_eq!(row[1..], [value.into(), payload(value)], "row {id}");
        }
        tx.commit().unwrap();
        drop((held, snapshots));
        update(&db, &table, 0..65_000, 9).unwrap();
        assert_eq!(total(&db.snapshot().unwrap()).unwrap(), (65_000, 9 * 65_000));
    });
}

/// Some of the rows can be changed in place, and one, at any position among them, needs a copy of
/// its extent; or only the larger of its values does.
#[test]
fn a_commit_that_finds_no_memory_for_one_of_its_rows_changes_none() {
    in_time(|| {
        const SEGMENTS: i64 = 6;
        const ROWS: i64 = atoll::SEGMENT_ROWS as i64;
        let turns = |segments: i64| {
            (0..segments).map(move |first| {
                (0..segments).map(move |at| (first + at) % segments * ROWS + 5).collect::<Vec<_>>()
            })
        };
        for scheme in SchemeKind::ALL.iter().copied() {
            let db = database(DatabaseOptions { scheme, ..small(32) });
            let table = wide(&db, SEGMENTS * ROWS);
            let values = || {
                let mut tx = db.begin().unwrap();
                let all = (0..SEGMENTS).map(|segment| {
                    let id = segment * ROWS + 5;
                    let row = tx.read(&table, &[id.into()]).unwrap().unwrap();
                    let Value::Int64(value) = row[1] else { panic!("{row:?}") };
                    assert_eq!(row[2], payload(value), "{scheme:?} tore row {id}");
                    value
                });
                all.collect::<Vec<_>>()
            };
            let change = |ids: &[i64], value: i64, payload_first: bool| {
                db.transaction(|tx| {
                    ids.iter().try_for_each(|id| {
                        let mut changes = [(1, value.into()), (2, payload(value))];
                        changes[..].rotate_left(usize::from(payload_first));
                        tx.update(&table, &[(*id).into()], &changes).map(|_| ())
                    })
                })
            };
            let held = db.snapshot().unwrap();
            let mut refused = 0;
            for segments in 1..=SEGMENTS {
                for (ids, payload_first) in turns(segments).zip([true, false].into_iter().cycle()) {
                    let before = values();
                    match change(&ids, before[0] + 1, payload_first) {
                        Ok(()) => assert_ne!(values(), before),
                        Err(error) => {
                            assert!(is_out_of_memory(&error), "{error}");
                            assert_eq!(values(), before, "{scheme:?}, {ids:?}");
                            refused += 1;
                        }
                    }
                }
            }
            assert!(refused >= SEGMENTS, "{scheme:?}: {refused}");
            assert_eq!(total(&held).unwrap(), (SEGMENTS * ROWS, SEGMENTS * ROWS));
            drop(held);
            let ids: Vec<_> = (0..SEGMENTS).map(|segment| segment * ROWS + 5).collect();
            change(&ids, 99, true).unwrap();
            assert_eq!(values(), [99; SEGMENTS as usize]);
        }
    });
}

#[test]
fn a_rollback_succeeds_although_snapshots_taken_since_have_used_up_the_memory() {
    in_time(|| {
        let db = database(DatabaseOptions { snapshot_bytes_max: Some(1 << 40), ..small(64) });
        let table = wide(&db, 65_000);
        let one_in_each_segment = (0..8i64).map(|segment| segment * 8_192);
        let mut tx = db.begin().unwrap();
        for id in one_in_each_segment.clone() {
            tx.update(&table, &[id.into()], &[(1, 7i64.into()), (2, payload(7))]).unwrap();
        }
        // Other transactions write, and snapshots are taken, until there is no memory for copies.
        let mut held = Vec::new();
        for value in 3.. {
            held.push(db.snapshot().unwrap());
            let others = one_in_each_segment.clone().map(|id| id + 1);
            if update(&db, &table, others, value).is_err() {
                break;
            }
        }
        assert!(insert(&db, &table, 100_000..110_000).is_err(), "memory is used up");
        held.push(db.snapshot().unwrap());
        tx.rollback();
        let mut tx = db.begin().unwrap();
        for id in one_in_each_segment {
            let row = tx.read(&table, &[id.into()]).unwrap().unwrap();
            assert_eq!(row[1..], [1i64.into(), payload(1)], "row {id}");
        }
        for snapshot in held {
            assert_eq!(total(&snapshot).unwrap().0, 65_000);
        }
    });
}

const ACCOUNTS: u64 = 400;

fn numbers(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed * 2 + 1;
    move |most| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (state >> 33) % most
    }
}

/// A text that contains its own length, for a balance.
fn statement(balance: i64, bytes: usize) -> Value {
    let start = format!("{balance} {bytes} ");
    let rest = "x".repeat(bytes.saturating_sub(start.len()));
    (start + &rest).into()
}

fn accounts(db: &Database) -> Table {
    let columns = vec![
        Column::new("id", DataType::Int64),
        Column::new("balance", DataType::Int64),
        Column::nullable("statement", DataType::Text),
    ];
    let table = db.create_table("accounts", Schema::new(columns, &["id"]).unwrap()).unwrap();
    db.transaction(|tx| {
        (0..ACCOUNTS as i64)
            .try_for_each(|id| tx.insert(&table, &[id.into(), 100i64.into(), statement(100, 100)]))
    })
    .unwrap();
    table
}

/// Every account has its own, complete statement, and the sum of the money is constant.
fn audit(snapshot: &Snapshot) {
    let table = snapshot.table("accounts").unwrap();
    let (mut rows, mut sum) = (0, 0);
    for at in 0..table.segment_count() {
        let segment = table.segment(at).unwrap();
        let batch = segment.batch(&[0, 1, 2]).unwrap();
        for (start, len) in segment.runs() {
            let part = batch.slice(start, len);
            let balances = part.column(1).as_primitive::<Int64Type>();
            let statements = part.column(2).as_string_view();
            for row in 0..len {
                let (balance, text) = (balances.value(row), statements.value(row));
                assert!(statements.is_valid(row));
                assert_eq!(Value::from(text), statement(balance, text.len()));
                sum += balance;
            }
            rows += len as u64;
        }
    }
    assert_eq!((rows, sum), (ACCOUNTS, 100 * ACCOUNTS as i64));
}

/// Moves money with long statements, or moves an account to another row.
fn work(db: &Database, table: &Table, next: &mut impl FnMut(u64) -> u64) -> Result<()> {
    let (from, to) = (next(ACCOUNTS), next(ACCOUNTS));
    let bytes = 30 + next(8_000) as usize;
    let moves = next(4) == 0;
    db.transaction(|tx| {
        for (id, change) in [(from, -7), (to, 7)] {
            let id: Value = (id as i64).into();
            let row = tx.read(table, std::slice::from_ref(&id))?.expect("accounts stay");
            let Value::Int64(balance) = row[1] else { unreachable!() };
            let (balance, text) = (balance + change, statement(balance + change, bytes));
            if moves {
                tx.delete(table, std::slice::from_ref(&id))?;
                tx.insert(table, &[id, balance.into(), text])?;
            } else {
                tx.update(table, &[id], &[(1, balance.into()), (2, text)])?;
            }
        }
        Ok(())
    })
}

#[test]
fn transactions_that_keep_running_out_of_memory_neither_lose_nor_invent_anything() {
    in_time(|| {
        let db = database(DatabaseOptions { snapshot_bytes_max: Some(1 << 40), ..small(32) });
        let table = accounts(&db);
        let stop = AtomicBool::new(false);
        let (done, refused) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for seed in 0..3 {
                let (db, table, stop, done, refused) = (&db, &table, &stop, &done, &refused);
                scope.spawn(move || {
                    let mut next = numbers(seed);
                    while !stop.load(Ordering::Relaxed) {
                        match work(db, table, &mut next) {
                            Ok(()) => done.fetch_add(1, Ordering::Relaxed),
                            Err(error) if is_out_of_memory(&error) => {
                                std::thread::yield_now();
                                refused.fetch_add(1, Ordering::Relaxed)
                            }
                            Err(error) => panic!("{error}"),
                        };
                    }
                });
            }
            let audits = scope.spawn(|| {
                let mut next = numbers(9);
                let mut held: Vec<Snapshot> = Vec::new();
                // Ten times, memory is exhausted for a while and then freed.
                for _ in 0..10 {
                    let before = refused.load(Ordering::Relaxed);
                    while refused.load(Ordering::Relaxed) < before + 20 {
                        if held.len() < 60 {
                            held.extend(db.snapshot().ok());
                        }
                        held.iter().for_each(audit);
                    }
                    held.retain(|_| next(8) == 0);
                }
                held.iter().for_each(audit);
            });
            let ended = audits.join();
            stop.store(true, Ordering::Relaxed);
            ended.unwrap();
        });
        assert!(done.load(Ordering::Relaxed) > 0);
        audit(&db.snapshot().unwrap());
        assert_eq!(table.row_count(), ACCOUNTS);
        (0..200).try_for_each(|_| work(&db, &table, &mut numbers(77))).unwrap();
        audit(&db.snapshot().unwrap());
    });
}

#[test]
fn rows_of_a_small_table_are_changed_in_place_although_it_cannot_grow() {
    in_time(|| {
        for scheme in ["no_wait", "hstore", "silo", "mvcc"] {
            let scheme = scheme.parse::<SchemeKind>().unwrap();
            let db = database(DatabaseOptions {
                scheme,
                snapshot_bytes_max: Some(1 << 40),
                ..small(32)
            });
            let table = wide(&db, 128);
            let columns = table.schema().columns().to_vec();
            let more = |name: &str| {
                db.create_table(name, Schema::new(columns.clone(), &["id"]).unwrap()).unwrap()
            };
            let large = more("large");
            insert(&db, &large, 0..30_000).unwrap();
            let held = db.snapshot().unwrap();
            update(&db, &table, 0..128, 2).unwrap();
            update(&db, &large, 0..8_000, 2).unwrap();
            let mut others = 0;
            while insert(&db, &more(&format!("other_{others}")), 0..129).is_ok() {
                others += 1;
            }
            for round in 0..2 {
                let error = insert(&db, &table, 128..129).unwrap_err();
                assert!(is_out_of_memory(&error), "{error}");
                update(&db, &table, 0..128, 3 + round).unwrap();
            }
            let delete = |ids: std::ops::Range<i64>| {
                db.transaction(|tx| {
                    ids.clone().try_for_each(|id| tx.delete(&table, &[id.into()]).map(drop))
                })
            };
            delete(0..20).unwrap();
            drop(held);
            // Some in the slots of deleted rows, and the others need a larger segment.
            insert(&db, &table, 200..400).unwrap();
            update(&db, &table, 200..400, 4).unwrap();
            assert_eq!(total(&db.snapshot().unwrap()).unwrap(), (308, 308 * 4), "{scheme}");
        }
    });
}
