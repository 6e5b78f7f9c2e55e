//! Races between snapshots that are taken and dropped and concurrent transactions.
#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicBool, Ordering};

use arrow_array::Array;
use arrow_array::cast::AsArray;
use atoll::{Column, DataType, Database, DatabaseOptions, Schema, Value};

fn database() -> Database {
    let options = DatabaseOptions { memory_limit_bytes: Some(512 << 20), ..Default::default() };
    Database::create(options).unwrap()
}

/// Sets a flag when it is dropped, also when a check failed.
struct SetsOnDrop<'s>(&'s AtomicBool);

impl Drop for SetsOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn counting_rows_beside_writers_and_snapshots_is_safe() {
    let db = database();
    let columns = vec![Column::new("id", DataType::Int64), Column::new("text", DataType::Text)];
    let table = db.create_table("rows", Schema::new(columns, &["id"]).unwrap()).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for round in 0..3_000i64 {
                let snapshot = db.snapshot().unwrap();
                let text = "-".repeat(300 + (round % 1700) as usize);
                db.transaction(|tx| {
                    let key = [Value::from(round % 50)];
                    tx.delete(&table, &key)?;
                    tx.insert(&table, &[key[0].clone(), text.as_str().into()])
                })
                .unwrap();
                drop(snapshot);
            }
        });
        let stops = SetsOnDrop(&stop);
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                drop(db.snapshot().unwrap());
            }
        });
        while !writer.is_finished() {
            let rows = table.row_count();
            assert!(rows <= 52, "{rows} rows");
        }
        drop(stops);
    });
    assert_eq!(table.row_count(), 50);
}

#[test]
fn a_snapshot_taken_while_an_insert_with_an_update_is_rolled_back_can_be_read() {
    let db = database();
    let columns = vec![Column::new("id", DataType::Int64), Column::new("text", DataType::Text)];
    let table = db.create_table("rows", Schema::new(columns, &["id"]).unwrap()).unwrap();
    // The slot of the second row is free, and there is a row behind it.
    db.transaction(|tx| {
        (-3..0i64).try_for_each(|id| tx.insert(&table, &[id.into(), "here".into()]))
    })
    .unwrap();
    db.transaction(|tx| tx.delete(&table, &[(-2i64).into()])).unwrap();
    let stop = AtomicBool::new(false);
    let long = |sign: &str| Value::from(sign.repeat(1_500));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let mut tx = db.begin().unwrap();
                let key = [Value::from(1i64)];
                tx.insert(&table, &[key[0].clone(), long("é")]).unwrap();
                tx.update(&table, &key, &[(1, long("ü"))]).unwrap();
                tx.rollback();
            }
        });
        let stops = SetsOnDrop(&stop);
        for _ in 0..3000 {
            let snapshot = db.snapshot().unwrap();
            let rows = snapshot.table("rows").unwrap();
            for at in 0..rows.segment_count() {
                let segment = rows.segment(at).unwrap();
                let texts = segment.array(1).unwrap();
                assert_eq!(segment.runs(), [(0, 1), (2, 1)]);
                for first in [0, 2] {
                    assert_eq!(texts.slice(first, 1).as_string_view().value(0), "here");
                }
            }
        }
        drop(stops);
    });
}
