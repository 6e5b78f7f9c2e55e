//! Transactions over tens of thousands of rows, under every scheme. If any step scanned all earlier
//! ones, these tests would take minutes.

use std::sync::Arc;

use atoll_machine::Native;
use atoll_memory::{Memory, Store, StoreOptions, SwingConfig, SwingMalloc};
use atoll_storage::layout::SEGMENT_ROWS;
use atoll_storage::{Column, DataType, Directory, Schema, Value};
use atoll_txn::any::{AnyEngine, AnyTxn, Attached};
use atoll_txn::schemes::{SchemeKind, SchemeOptions, SchemeVisitor};
use atoll_txn::{
    AbortReason, Begin, Engine, EngineOptions, IndexSpec, OpError, Pool, Scheme, TableOptions,
};

const ROWS: i64 = 20_000;

fn engine<S: Scheme<Native>>(scheme: S) -> Arc<Pool<S, Native>> {
    let swing = SwingConfig { buddy_bytes: 1 << 30, ..SwingConfig::default() };
    let options = StoreOptions {
        capacity_bytes: SwingMalloc::capacity_for(&swing),
        limit_bytes: 256 << 20,
        huge_pages: false,
    };
    let store = Arc::new(Store::create_memfd("large", &options).unwrap());
    let swing = SwingMalloc::create(Arc::clone(&store), &swing).unwrap();
    let directory = Directory::create(Arc::new(Memory::new(store, swing))).unwrap();
    Pool::new(Arc::new(Engine::new(scheme, Arc::new(directory), EngineOptions::default())))
}

struct Large;

impl SchemeVisitor<Native> for Large {
    type Output = ();

    fn visit<S: Scheme<Native>>(self, scheme: S) {
        let engine = engine(scheme);
        let columns = ["id", "value"].map(|name| Column::new(name, DataType::Int64));
        let schema = Schema::new(columns.to_vec(), &["id"]).unwrap();
        let by_value = IndexSpec {
            name: "v".to_owned(),
            columns: vec!["value".to_owned()],
            unique: false,
            nulls_not_distinct: false,
        };
        let options = TableOptions { indexes: vec![by_value], ..TableOptions::default() };
        let table = engine.create_table("t", schema, &options).unwrap();
        let mut worker = Attached::new(&engine).unwrap();
        let begin = |worker: &mut Attached<S, Native>| worker.begin(Begin::default()).unwrap();
        begin(&mut worker);
        (0..ROWS).for_each(|id| worker.insert(&table, &[id.into(), id.into()]).unwrap());
        worker.commit().unwrap();
        assert_eq!(table.row_count(), ROWS as u64);

        for commits in [false, true] {
            begin(&mut worker);
            for id in 0..ROWS {
                assert!(worker.delete(&table, &[id.into()]).unwrap());
                if id % 2 == 0 {
                    worker.insert(&table, &[id.into(), (-id).into()]).unwrap();
                }
            }
            if commits {
                worker.commit().unwrap();
            } else {
                worker.abort(AbortReason::Requested);
                assert_eq!(table.row_count(), ROWS as u64);
            }
        }
        assert_eq!(table.row_count(), ROWS as u64 / 2);
        begin(&mut worker);
        for id in 0..ROWS {
            let read = worker.read(&table, &[id.into()], &[1]).unwrap();
            assert_eq!(read, (id % 2 == 0).then(|| vec![Value::Int64(-id)]));
        }
        // What it has read it changes.
        for id in (0..ROWS).step_by(2) {
            assert!(worker.update(&table, &[id.into()], &[(1, id.into())]).unwrap());
        }
        worker.commit().unwrap();
    }
}

#[test]
fn a_transaction_deletes_and_inserts_twenty_thousand_rows_under_every_scheme() {
    for kind in SchemeKind::ALL {
        kind.visit(&SchemeOptions::default(), Large);
    }
}

struct Duplicates;

impl SchemeVisitor<Native> for Duplicates {
    type Output = ();

    fn visit<S: Scheme<Native>>(self, scheme: S) {
        const SEGMENTS: u64 = 2;
        let rows = SEGMENTS as i64 * SEGMENT_ROWS as i64;
        let engine = engine(scheme);
        let schema = Schema::new(vec![Column::new("id", DataType::Int64)], &["id"]).unwrap();
        let table = engine.create_table("t", schema, &TableOptions::default()).unwrap();
        let mut worker = Attached::new(&engine).unwrap();
        worker.begin(Begin::default()).unwrap();
        (0..rows).for_each(|id| worker.insert(&table, &[id.into()]).unwrap());
        worker.commit().unwrap();
        worker.begin(Begin::default()).unwrap();
        for id in 0..rows {
            let refused = worker.insert(&table, &[id.into()]);
            assert!(matches!(refused, Err(OpError::DuplicateKey { .. })), "{id}: {refused:?}");
        }
        worker.commit().unwrap();
        // All slots are used, so a further slot would have been in another segment.
        assert_eq!((table.segment_count(), table.row_count()), (SEGMENTS, rows as u64));
    }
}

#[test]
fn rows_that_are_there_already_take_no_slots() {
    for kind in SchemeKind::ALL {
        kind.visit(&SchemeOptions::default(), Duplicates);
    }
}
