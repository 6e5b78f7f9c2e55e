//! A snapshot shows exactly what had committed at its cut, and does not change.
#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicBool, Ordering};

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, RecordBatch};
use atoll::{Column, DataType, Database, DatabaseOptions, Schema, Snapshot, Table, Value};

fn database() -> Database {
    let options = DatabaseOptions { memory_limit_bytes: Some(512 << 20), ..Default::default() };
    Database::create(options).unwrap()
}

fn accounts(db: &Database, rows: i64, balance: i64) -> Table {
    let columns = vec![
        Column::new("id", DataType::Int64),
        Column::new("balance", DataType::Int64),
        Column::nullable("note", DataType::Text),
    ];
    let table = db.create_table("accounts", Schema::new(columns, &["id"]).unwrap()).unwrap();
    db.transaction(|tx| {
        (0..rows)
            .try_for_each(|id| tx.insert(&table, &[id.into(), balance.into(), note(id, 0).into()]))
    })
    .unwrap();
    table
}

/// Some notes are NULL, some inline, some in the heap.
fn note(id: i64, version: i64) -> Option<String> {
    match id % 3 {
        0 => None,
        1 => Some(format!("{version}")),
        _ => Some(format!("note {version} of the account with number {id}")),
    }
}

fn batches(snapshot: &Snapshot) -> Vec<RecordBatch> {
    let table = snapshot.table("accounts").unwrap();
    let mut out = Vec::new();
    for at in 0..table.segment_count() {
        let segment = table.segment(at).unwrap();
        let batch = segment.batch(&[0, 1, 2]).unwrap();
        out.extend(segment.runs().into_iter().map(|(start, len)| batch.slice(start, len)));
    }
    out
}

fn total(snapshot: &Snapshot) -> (i64, i64) {
    batches(snapshot).iter().fold((0, 0), |(rows, sum), batch| {
        let balances = batch.column(1).as_primitive::<Int64Type>();
        (rows + batch.num_rows() as i64, sum + balances.values().iter().sum::<i64>())
    })
}

/// All its contents as text.
fn contents(snapshot: &Snapshot) -> Vec<String> {
    let mut out = Vec::new();
    for batch in batches(snapshot) {
        let (ids, balances) = (
            batch.column(0).as_primitive::<Int64Type>(),
            batch.column(1).as_primitive::<Int64Type>(),
        );
        let notes = batch.column(2).as_string_view();
        for row in 0..batch.num_rows() {
            let note = notes.is_valid(row).then(|| notes.value(row));
            out.push(format!("{} {} {note:?}", ids.value(row), balances.value(row)));
        }
    }
    out.sort();
    out
}

#[test]
fn a_snapshot_does_not_change_while_the_owner_overwrites_everything_several_times() {
    let db = database();
    let table = accounts(&db, 20_000, 100);
    let before = db.snapshot().unwrap();
    let shown = contents(&before);
    for version in 1..=3 {
        db.transaction(|tx| {
            for id in 0..20_000 {
                let changes = [(1, Value::Int64(version)), (2, note(id, version).into())];
                assert!(tx.update(&table, &[id.into()], &changes)?);
            }
            Ok(())
        })
        .unwrap();
        assert!(contents(&before) == shown, "changed by version {version}");
        assert_eq!(total(&db.snapshot().unwrap()), (20_000, 20_000 * version));
    }
    db.transaction(|tx| {
        (0..20_000).try_for_each(|id: i64| tx.delete(&table, &[id.into()]).map(|_| ()))
    })
    .unwrap();
    assert!(contents(&before) == shown);
    assert_eq!(total(&db.snapshot().unwrap()), (0, 0));
}

#[test]
fn what_was_open_at_the_cut_is_not_shown_whatever_becomes_of_it() {
    for commits in [true, false] {
        let db = database();
        let table = accounts(&db, 10, 100);
        let expected = contents(&db.snapshot().unwrap());
        let mut tx = db.begin().unwrap();
        tx.update(&table, &[1i64.into()], &[(1, 0i64.into()), (2, Value::Null)]).unwrap();
        tx.update(&table, &[2i64.into()], &[(2, "a note that does not fit in its view".into())])
            .unwrap();
        tx.update(&table, &[2i64.into()], &[(2, "short".into())]).unwrap();
        tx.insert(&table, &[77i64.into(), 7i64.into(), Value::Null]).unwrap();
        tx.delete(&table, &[3i64.into()]).unwrap();
        let at_cut = db.snapshot().unwrap();
        assert_eq!(contents(&at_cut), expected);
        tx.update(&table, &[5i64.into()], &[(1, 1i64.into())]).unwrap();
        tx.delete(&table, &[2i64.into()]).unwrap();
        if commits {
            tx.commit().unwrap();
        } else {
            tx.rollback();
        }
        assert_eq!(contents(&at_cut), expected, "commits: {commits}");
        assert!(at_cut.bytes_patched() > 0);
        let after = contents(&db.snapshot().unwrap());
        assert_eq!(after == expected, !commits);
    }
}

/// Stops the workers also when a check fails, so that the test fails instead of hanging.
struct StopOnDrop<'s>(&'s AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn totals_hold_in_every_snapshot_beside_transfers() {
    let db = database();
    let table = accounts(&db, 500, 100);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let stop_workers = StopOnDrop(&stop);
        for seed in 0..3u64 {
            let (db, table, stop) = (&db, &table, &stop);
            scope.spawn(move || {
                let mut random = seed;
                let mut next = |most: u64| {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    (random >> 33) % most
                };
                while !stop.load(Ordering::Relaxed) {
                    let (from, to) = (next(500) as i64, next(500) as i64);
                    if from == to {
                        continue;
                    }
                    db.transaction(|tx| {
                        for (id, change) in [(from, -7), (to, 7)] {
                            let balance = tx.read_with(table, &[id.into()], |row| row.i64(1))?;
                            let balance = balance.unwrap();
                            let changes = [(1, (balance + change).into())];
                            tx.update(table, &[id.into()], &changes)?;
                            std::thread::yield_now();
                        }
                        Ok(())
                    })
                    .unwrap();
                }
            });
        }
        let mut kept = Vec::new();
        for round in 0..300 {
            let snapshot = db.snapshot().unwrap();
            assert_eq!(total(&snapshot), (500, 50_000), "round {round}");
            if round % 50 == 0 {
                kept.push((contents(&snapshot), snapshot));
            }
        }
        drop(stop_workers);
        for (shown, snapshot) in kept {
            assert!(contents(&snapshot) == shown);
        }
    });
    assert!(db.counters().extents_copied > 0);
}

#[test]
fn memory_comes_back_when_snapshots_and_rows_go() {
    let db = database();
    let table = accounts(&db, 30_000, 1);
    let update_all = |value: i64| {
        db.transaction(|tx| {
            (0..30_000i64).try_for_each(|id| {
                let changes = [(1, value.into()), (2, note(id, value).into())];
                tx.update(&table, &[id.into()], &changes).map(|_| ())
            })
        })
        .unwrap();
    };
    update_all(0);
    drop(db.snapshot().unwrap());
    let settled = db.counters().memory_allocated_bytes;
    for round in 0..5 {
        let snapshots: Vec<_> = (0..3).map(|_| db.snapshot().unwrap()).collect();
        update_all(round);
        assert!(db.counters().memory_kept_bytes > 0);
        drop(snapshots);
        let counters = db.counters();
        assert_eq!((counters.memory_kept_bytes, counters.snapshots), (0, 0));
        drop(db.snapshot().unwrap());
        let now = db.counters().memory_allocated_bytes;
        assert!(now <= settled + (4 << 20), "{now} bytes after round {round}, {settled} before");
    }
}

#[test]
fn a_table_of_another_database_is_refused_and_the_transaction_goes_on() {
    let (here, there) = (database(), database());
    let (ours, theirs) = (accounts(&here, 3, 1), accounts(&there, 3, 1));
    let mut tx = here.begin().unwrap();
    tx.update(&ours, &[1i64.into()], &[(1, 5i64.into())]).unwrap();
    for refused in [
        tx.insert(&theirs, &[9i64.into(), 1i64.into(), Value::Null]).unwrap_err(),
        tx.delete(&theirs, &[1i64.into()]).unwrap_err(),
        tx.read(&theirs, &[1i64.into()]).unwrap_err(),
    ] {
        assert!(refused.to_string().contains("another database"), "{refused}");
    }
    tx.commit().unwrap();
    assert_eq!(total(&here.snapshot().unwrap()), (3, 7));
    assert_eq!(total(&there.snapshot().unwrap()), (3, 3));
}

#[test]
fn long_texts_that_come_and_go_do_not_fill_the_memory() {
    let db = database();
    let table = accounts(&db, 12_000, 0);
    let text = |version: u64| format!("{version:>100}");
    let mut random = 7u64;
    for round in 0..60u64 {
        db.transaction(|tx| {
            (0..4000).try_for_each(|_| {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let id = ((random >> 33) % 12_000) as i64;
                tx.update(&table, &[id.into()], &[(2, text(round).into())]).map(|_| ())
            })
        })
        .unwrap();
        // The keeper compacts now and then.
        std::thread::sleep(std::time::Duration::from_millis(25));
    }
    // 12,000 texts of 100 bytes are 1.2 MB; without compaction this grows to ten times that.
    let allocated = db.counters().memory_allocated_bytes;
    assert!(allocated < 8 << 20, "{allocated} bytes");
    assert_eq!(total(&db.snapshot().unwrap()), (12_000, 0));
    assert!(contents(&db.snapshot().unwrap()).iter().all(|row| row.contains("    ")));
}
