//! Tables that are dropped, and others that get their names and their slots.
#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};

use atoll::{
    Column, DataType, Database, DatabaseOptions, IndexSpec, Range, Schema, SchemeKind, Table,
    TableOptions, Transaction, TxnError, Value,
};

fn options(scheme: SchemeKind) -> DatabaseOptions {
    DatabaseOptions { scheme, partitions: Some(2), ..DatabaseOptions::default() }
}

fn create(db: &Database, name: &str) -> Table {
    let columns = vec![
        Column::new("id", DataType::Int64),
        Column::new("n", DataType::Int64),
        Column::nullable("text", DataType::Text),
    ];
    let by_n = IndexSpec {
        name: "by_n".into(),
        columns: vec!["n".into()],
        unique: false,
        nulls_not_distinct: false,
    };
    let options = TableOptions { indexes: vec![by_n], ..TableOptions::default() };
    db.create_table_with(name, Schema::new(columns, &["id"]).unwrap(), &options).unwrap()
}

fn row(id: i64, n: i64) -> [Value; 3] {
    [id.into(), n.into(), Value::Text(format!("a text of more than twelve bytes {n}"))]
}

fn insert(db: &Database, table: &Table, ids: std::ops::Range<i64>, n: i64) {
    db.transaction(|tx| ids.clone().try_for_each(|id| tx.insert(table, &row(id, n)))).unwrap();
}

/// Inserts, updates, deletes, and a rollback, so that versions, undo and garbage are left.
fn use_it(db: &Database, table: &Table, rows: i64) {
    insert(db, table, 0..rows, 1);
    let change = |tx: &mut Transaction| {
        for id in (0..rows).step_by(2) {
            let [_, n, text] = row(id, 2);
            tx.update(table, &[id.into()], &[(1, n), (2, text)])?;
        }
        (0..rows).step_by(5).try_for_each(|id| tx.delete(table, &[id.into()]).map(drop))
    };
    db.transaction(change).unwrap();
    let mut tx = db.begin().unwrap();
    match change(&mut tx) {
        // The collection of garbage may have changed a row that it has read.
        Ok(()) | Err(TxnError::Abort(_)) => tx.rollback(),
        Err(error) => panic!("{error}"),
    }
}

fn count(db: &Database, table: &Table) -> usize {
    let index = table.index("by_n").unwrap();
    let mut found = 0;
    db.transaction(|tx| {
        found = 0;
        let all = Range::ALL;
        tx.scan(
            &index,
            all,
            |_| (),
            |()| {
                found += 1;
                std::ops::ControlFlow::Continue(())
            },
        )
    })
    .unwrap();
    found
}

#[test]
fn a_name_and_a_slot_are_used_again_and_nothing_of_the_old_table_is_there() {
    for scheme in SchemeKind::ALL.iter().copied() {
        let db = Database::create(options(scheme)).unwrap();
        let other = create(&db, "other");
        insert(&db, &other, 0..50, 9);
        for round in 0..20 {
            let old = create(&db, "t");
            assert_eq!((old.row_count(), count(&db, &old)), (0, 0), "{scheme}");
            // A transaction that does not use the table keeps its garbage for a while.
            let mut reader = (!scheme.is_partitioned()).then(|| db.begin().unwrap());
            if let Some(reader) = &mut reader {
                assert!(reader.read(&other, &[Value::Int64(1)]).unwrap().is_some());
            }
            use_it(&db, &old, 40 + round);
            db.drop_table("t").unwrap();
            assert_eq!(db.tables(), ["other"]);
            assert!(db.table("t").is_err() && db.drop_table("t").is_err());
            let new = create(&db, "t");
            insert(&db, &new, 0..100, 3);
            drop(reader);
            // The garbage of the old table is due, and its worker begins another transaction.
            let from = 100 * (round + 1);
            for at in 0..5 {
                insert(&db, &other, from + at..from + at + 1, 9);
            }
            db.transaction(|tx| {
                for id in 0..100 {
                    assert_eq!(tx.read(&new, &[id.into()])?.as_deref(), Some(&row(id, 3)[..]));
                }
                Ok(())
            })
            .unwrap();
            assert_eq!((new.row_count(), count(&db, &new)), (100, 100), "{scheme} {round}");
            // The handle of the old one knows its definition, shows no row, and is refused.
            assert_eq!((old.row_count(), old.indexes().len()), (0, 1));
            let by_n = old.index("by_n").unwrap();
            let all = Range::ALL;
            let refused = db.transaction(|tx| {
                tx.scan(&by_n, all, |_| (), |()| std::ops::ControlFlow::Continue(()))
            });
            assert!(refused.is_err(), "{scheme}");
            let refused = db.transaction(|tx| tx.read(&old, &[Value::Int64(10)]));
            assert!(refused.unwrap_err().to_string().contains("\"t\""), "{scheme}");
            let refused = db.transaction(|tx| tx.insert(&old, &row(1, 1)));
            assert!(refused.is_err());
            db.drop_table("t").unwrap();
        }
        assert_eq!((other.row_count(), count(&db, &other)), (150, 150), "{scheme}");
    }
}

#[test]
fn a_snapshot_shows_a_table_that_was_dropped_since() {
    for scheme in ["NO_WAIT", "MVCC"].map(|name| name.parse().unwrap()) {
        let db = Database::create(options(scheme)).unwrap();
        let old = create(&db, "t");
        use_it(&db, &old, 20_000);
        let before = db.snapshot().unwrap();
        let texts = |snapshot: &atoll::Snapshot| {
            let table = snapshot.table("t").unwrap();
            let segments = (0..table.segment_count()).map(|at| table.segment(at).unwrap());
            segments.map(|one| format!("{:?}", one.batch(&[0, 1, 2]).unwrap())).collect::<Vec<_>>()
        };
        let expected = texts(&before);
        db.drop_table("t").unwrap();
        let between = db.snapshot().unwrap();
        assert_eq!(between.tables(), [""; 0]);
        let new = create(&db, "t");
        // As many rows as take the memory of the old ones, if that was free.
        insert(&db, &new, 0..60_000, 7);
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(texts(&before), expected, "{scheme}");
        assert_eq!(before.table("t").unwrap().row_count().unwrap(), 16_000);
        assert_eq!(db.snapshot().unwrap().table("t").unwrap().row_count().unwrap(), 60_000);
        let kept = db.counters().memory_kept_bytes;
        assert!(kept > 16_000 * 50, "{kept}");
        drop((before, between));
        let began = Instant::now();
        while db.counters().memory_kept_bytes > 0 {
            assert!(began.elapsed() < Duration::from_secs(10));
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Waits until the memory of tables is below a limit.
fn falls_to(db: &Database, bytes: u64) {
    let began = Instant::now();
    loop {
        let memory = db.memory();
        let used = memory.tables_bytes + memory.headers_bytes + memory.indexes_bytes;
        if used <= bytes {
            return;
        }
        assert!(began.elapsed() < Duration::from_secs(1), "{memory:?} instead of {bytes}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn the_memory_of_a_large_table_is_free_within_a_second_although_a_handle_is_left() {
    let db = Database::create(options("SILO".parse().unwrap())).unwrap();
    let memory = db.memory();
    let before = memory.tables_bytes + memory.headers_bytes + memory.indexes_bytes;
    let table = create(&db, "t");
    for from in (0..400_000).step_by(20_000) {
        insert(&db, &table, from..from + 20_000, from);
    }
    let began = Instant::now();
    db.drop_table("t").unwrap();
    let took = began.elapsed();
    assert!(took < Duration::from_millis(100), "{took:?}");
    // Less than the limbo may keep, and what a database always has.
    falls_to(&db, before + (5 << 20));
    assert_eq!(table.row_count(), 0);
}

#[test]
fn tables_that_come_and_go_leave_no_memory_behind() {
    for scheme in SchemeKind::ALL.iter().copied() {
        let db = Database::create(options(scheme)).unwrap();
        let round = |rounds: u64| {
            for _ in 0..rounds {
                let table = create(&db, "t");
                use_it(&db, &table, 20);
                db.drop_table("t").unwrap();
            }
        };
        let bytes = || {
            let memory = db.memory();
            memory.tables_bytes + memory.headers_bytes + memory.indexes_bytes + memory.heap_bytes
        };
        round(300);
        std::thread::sleep(Duration::from_millis(100));
        let first = bytes();
        round(900);
        let began = Instant::now();
        while bytes() >= first + (6 << 20) {
            let later = bytes();
            assert!(began.elapsed() < Duration::from_secs(10), "{scheme}: {first}, {later}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

#[test]
fn a_table_can_be_dropped_when_the_memory_is_full_and_another_takes_its_place_at_once() {
    for scheme in ["NO_WAIT", "SILO"].map(|name| name.parse().unwrap()) {
        let limit = Some(24 << 20);
        let db = Database::create(DatabaseOptions { memory_limit_bytes: limit, ..options(scheme) });
        let db = db.unwrap();
        let other = create(&db, "other");
        insert(&db, &other, 0..10, 1);
        let fill = |table: &Table| {
            let add = |from: i64| {
                db.transaction(|tx| {
                    (from..from + 500).try_for_each(|id| tx.insert(table, &row(id, 1)))
                })
            };
            // The first failure frees what waits for workers only, for the second attempt.
            let mut rows = (0..).step_by(500);
            rows.find(|from| add(*from).is_err() && add(*from).is_err()).unwrap()
        };
        let mut full = Vec::new();
        for _ in 0..4 {
            let table = create(&db, "t");
            full.push(fill(&table));
            // A snapshot holds the directory, so the drop needs a copy of the root.
            let snapshot = db.snapshot().ok();
            db.drop_table("t").unwrap();
            drop(snapshot);
        }
        assert!(full[0] > 20_000, "{full:?}");
        assert!(full.iter().all(|rows| rows * 10 > full[0] * 9), "{scheme}: {full:?}");
        assert_eq!((other.row_count(), count(&db, &other)), (10, 10));
    }
}

/// Threads that read handles, measure memory, take snapshots and use other tables meanwhile.
#[test]
fn other_threads_go_on_while_tables_come_and_go() {
    use std::sync::atomic::{AtomicBool, Ordering};
    for scheme in ["NO_WAIT", "MVCC", "HSTORE", "OCC"].map(|name| name.parse().unwrap()) {
        let db = Database::create(options(scheme)).unwrap();
        let (other, ended) = (create(&db, "other"), AtomicBool::new(false));
        let handle = std::sync::Mutex::new(None);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 0..150 {
                    let table = create(&db, "t");
                    *handle.lock().unwrap() = Some(table.clone());
                    use_it(&db, &table, 30 + round);
                    assert_eq!(table.row_count(), count(&db, &table) as u64);
                    db.drop_table("t").unwrap();
                    assert_eq!(table.row_count(), 0);
                }
                ended.store(true, Ordering::Relaxed);
            });
            scope.spawn(|| {
                while !ended.load(Ordering::Relaxed) {
                    let Some(table) = Option::<Table>::clone(&handle.lock().unwrap()) else {
                        continue;
                    };
                    assert!(table.row_count() <= 200);
                    let _ = (db.memory(), table.index("by_n"), table.indexes(), table.tablespace());
                }
            });
            scope.spawn(|| {
                while !ended.load(Ordering::Relaxed) {
                    let snapshot = db.snapshot().unwrap();
                    for name in snapshot.tables() {
                        let table = snapshot.table(&name).unwrap();
                        let batches = (0..table.segment_count()).map(|at| {
                            table.segment(at).unwrap().batch(&[0, 2]).unwrap().num_rows()
                        });
                        assert!(batches.sum::<usize>() >= table.row_count().unwrap() as usize);
                    }
                }
            });
            let mut id = 0;
            while !ended.load(Ordering::Relaxed) {
                insert(&db, &other, id..id + 3, id);
                db.transaction(|tx| tx.delete(&other, &[id.into()]).map(drop)).unwrap();
                id += 3;
            }
            assert_eq!(other.row_count(), (id / 3 * 2) as u64, "{scheme}");
        });
    }
}
