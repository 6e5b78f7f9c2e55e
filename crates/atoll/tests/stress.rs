//! Several threads change, delete and insert rows while snapshots are taken and dropped.
//!
//! Every row has the same information in several columns, so a check of the row detects a snapshot
//! that mixes two versions of it or shows a part of it. Counters that only one thread increments
//! detect lost stores.
#![allow(clippy::unwrap_used)]

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use atoll::{
    Column, DataType, Database, DatabaseOptions, Error, Schema, Snapshot, Table, Transaction,
    TxnError, TxnResult, Value,
};

const KEYS: u64 = 96;
const THREADS: u64 = 4;
const COUNTERS: u64 = 8;

struct Random(u64);

impl Random {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (self.0 >> 33) % most
    }
}

fn database() -> Database {
    let options = DatabaseOptions { memory_limit_bytes: Some(512 << 20), ..Default::default() };
    Database::create(options).unwrap()
}

/// Inline for some versions, in the heap for others, larger than a first heap block for a few.
fn label(id: i64, version: i64) -> String {
    let text = format!("{id}:{version}");
    match version % 16 {
        0..5 => text,
        5 => format!("{text} {}", "-".repeat(6000)),
        _ => format!("{text} of a row with its text in the heap"),
    }
}

fn note(id: i64, version: i64) -> Option<Vec<u8>> {
    (version % 3 != 0).then(|| format!("note {id} {version} {}", id ^ version).into_bytes())
}

fn row(id: i64, version: i64) -> Vec<Value> {
    vec![
        id.into(),
        version.into(),
        (version as i32).into(),
        label(id, version).into(),
        note(id, version).into(),
        (version % 2 == 0).into(),
    ]
}

fn tables(db: &Database) -> (Table, Table) {
    let columns = vec![
        Column::new("id", DataType::Int64),
        Column::new("version", DataType::Int64),
        Column::new("twin", DataType::Int32),
        Column::new("label", DataType::Text),
        Column::nullable("note", DataType::Binary),
        Column::new("even", DataType::Bool),
    ];
    let rows = db.create_table("rows", Schema::new(columns, &["id"]).unwrap()).unwrap();
    let columns = vec![Column::new("id", DataType::Int64), Column::new("value", DataType::Int64)];
    let counters = db.create_table("counters", Schema::new(columns, &["id"]).unwrap()).unwrap();
    db.transaction(|tx| {
        (0..(THREADS * COUNTERS) as i64)
            .try_for_each(|id| tx.insert(&counters, &[id.into(), 0i64.into()]))
    })
    .unwrap();
    (rows, counters)
}

/// One random step on one key; every change writes a new version.
fn step(
    tx: &mut Transaction,
    table: &Table,
    random: &mut Random,
    versions: &AtomicU64,
) -> TxnResult<()> {
    let id = random.below(KEYS) as i64;
    let key = [Value::from(id)];
    let version = versions.fetch_add(1, Ordering::Relaxed) as i64;
    let Some(old) = tx.read(table, &key)? else {
        return tx.insert(table, &row(id, version));
    };
    let Value::Int64(was) = old[1] else { panic!("{old:?}") };
    assert_eq!(old, row(id, was), "a transaction reads a mixed row");
    if random.below(4) == 0 {
        assert!(tx.delete(table, &key)?);
        if random.below(2) == 0 {
            tx.insert(table, &row(id, version))?;
        }
        return Ok(());
    }
    let changes: Vec<_> = row(id, version).into_iter().enumerate().skip(1).collect();
    assert!(tx.update(table, &key, &changes)?);
    Ok(())
}

/// The error by which a body requests a rollback.
fn changed_my_mind() -> TxnError {
    TxnError::Error(Error::TooManyTransactions(0))
}

fn work(db: &Database, (rows, counters): &(Table, Table), thread: u64, versions: &AtomicU64) {
    let mut random = Random(thread + 1);
    let mut raised = [0i64; COUNTERS as usize];
    for _ in 0..60_000 {
        let at = random.below(COUNTERS);
        let counter = [Value::from((thread * COUNTERS + at) as i64)];
        let steps = random.below(4);
        let done = db.transaction(|tx| {
            let next = raised[at as usize] + 1;
            let read = tx.read(counters, &counter)?.unwrap();
            assert_eq!(read[1], Value::Int64(next - 1), "a committed store got lost");
            tx.update(counters, &counter, &[(1, next.into())])?;
            (0..steps).try_for_each(|_| step(tx, rows, &mut random, versions))?;
            if random.below(4) == 0 { Err(changed_my_mind()) } else { Ok(()) }
        });
        match done {
            Ok(()) => raised[at as usize] += 1,
            Err(Error::TooManyTransactions(0)) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

fn check(snapshot: &Snapshot) -> usize {
    let table = snapshot.table("rows").unwrap();
    let mut seen = HashSet::new();
    for at in 0..table.segment_count() {
        let segment = table.segment(at).unwrap();
        let batch = segment.batch(&[0, 1, 2, 3, 4, 5]).unwrap();
        let ids = batch.column(0).as_primitive::<Int64Type>();
        let versions = batch.column(1).as_primitive::<Int64Type>();
        let twins = batch.column(2).as_primitive::<Int32Type>();
        let (labels, notes) = (batch.column(3).as_string_view(), batch.column(4).as_binary_view());
        let evens = batch.column(5).as_boolean();
        let zones = [segment.zone(0), segment.zone(1)];
        for slot in segment.runs().into_iter().flat_map(|(first, len)| first..first + len) {
            let (id, version) = (ids.value(slot), versions.value(slot));
            assert!(seen.insert(id), "row {id} is there twice");
            assert_eq!(i64::from(twins.value(slot)), version, "row {id}");
            assert_eq!(labels.value(slot), label(id, version));
            let shown = notes.is_valid(slot).then(|| notes.value(slot).to_vec());
            assert_eq!(shown, note(id, version), "row {id}");
            assert_eq!(evens.value(slot), version % 2 == 0, "row {id}");
            for (zone, value) in zones.iter().zip([id, version]) {
                let Some((Value::Int64(min), Value::Int64(max))) = zone else { panic!("no zone") };
                assert!((min..=max).contains(&&value), "{value} is outside {min}..={max}");
            }
        }
    }
    seen.len()
}

/// A failed check ends the test instead of leaving a thread running for ever.
struct StopsOnDrop<'s>(&'s AtomicBool);

impl Drop for StopsOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn every_snapshot_beside_random_work_shows_whole_rows_and_no_store_gets_lost() {
    let db = database();
    let tables = tables(&db);
    let (versions, stop) = (AtomicU64::new(1), AtomicBool::new(false));
    let mut kept = Vec::new();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (db, tables, versions) = (&db, &tables, &versions);
                scope.spawn(move || work(db, tables, thread, versions))
            })
            .collect();
        let stops = StopsOnDrop(&stop);
        // Short leases: when one ends, extents can be written in place again.
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                drop(db.snapshot().unwrap());
                std::thread::yield_now();
            }
        });
        while workers.iter().any(|worker| !worker.is_finished()) {
            let snapshot = db.snapshot().unwrap();
            let rows = check(&snapshot);
            if kept.len() < 20 {
                kept.push((rows, snapshot));
            }
        }
        drop(stops);
        workers.into_iter().for_each(|worker| worker.join().unwrap());
    });
    for (rows, snapshot) in &kept {
        assert_eq!(check(snapshot), *rows, "epoch {}", snapshot.epoch());
    }
    drop(kept);
    let counters = db.counters();
    assert_eq!((counters.memory_kept_bytes, counters.snapshots), (0, 0));
}
