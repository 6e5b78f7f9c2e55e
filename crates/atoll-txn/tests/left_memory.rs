//! The heap memory that a large transaction leaves behind, beyond what small ones have left.
#![allow(clippy::unwrap_used, unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use atoll_machine::Native;
use atoll_memory::{Memory, Store, StoreOptions, SwingConfig, SwingMalloc};
use atoll_storage::{Column, DataType, Directory, Schema, Table};
use atoll_txn::any::{AnyEngine, AnyTxn, Attached};
use atoll_txn::schemes::{SchemeKind, SchemeOptions, SchemeVisitor};
use atoll_txn::{AbortReason, Begin, Engine, EngineOptions, IndexSpec, Pool, Scheme, TableOptions};

static IN_USE: AtomicUsize = AtomicUsize::new(0);

/// Counts the bytes that are allocated.
struct Counting;

// SAFETY: all calls are forwarded to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        IN_USE.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: guaranteed by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: guaranteed by the caller.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const ROWS: i64 = 40_000;
const SMALL: i64 = 100;
/// Most bytes that may be left. Some buffers keep up to 4,096 elements; and in place, the rows that
/// are inserted need other slots than those that are deleted, so the list of free slots grows.
const LEFT_MAX: usize = 2 << 20;

struct Left;

impl SchemeVisitor<Native> for Left {
    type Output = usize;

    fn visit<S: Scheme<Native>>(self, scheme: S) -> usize {
        let swing = SwingConfig { buddy_bytes: 1 << 30, ..SwingConfig::default() };
        let options = StoreOptions {
            capacity_bytes: SwingMalloc::capacity_for(&swing),
            limit_bytes: 256 << 20,
            huge_pages: false,
        };
        let store = Arc::new(Store::create_memfd("left", &options).unwrap());
        let swing = SwingMalloc::create(Arc::clone(&store), &swing).unwrap();
        let directory = Directory::create(Arc::new(Memory::new(store, swing))).unwrap();
        let engine = Engine::new(scheme, Arc::new(directory), EngineOptions::default());
        let engine = Pool::new(Arc::new(engine));
        let columns = ["id", "n"].map(|name| Column::new(name, DataType::Int64)).to_vec();
        let schema = Schema::new(columns, &["id"]).unwrap();
        let by_n = IndexSpec {
            name: "n".into(),
            columns: vec!["n".into()],
            unique: false,
            nulls_not_distinct: false,
        };
        let options = TableOptions { indexes: vec![by_n], ..TableOptions::default() };
        let table = engine.create_table("t", schema, &options).unwrap();
        let mut worker = Attached::new(&engine).unwrap();
        // What all transactions share (indexes, row states) grows now.
        for _ in 0..3 {
            for from in (0..ROWS).step_by(SMALL as usize) {
                change(&mut worker, &table, from..from + SMALL, true);
            }
        }
        let before = IN_USE.load(Ordering::Relaxed);
        for commits in [true, false, true] {
            change(&mut worker, &table, 0..ROWS, commits);
        }
        // A few more, for what is freed when the next transaction begins.
        for from in (0..ROWS).step_by(SMALL as usize) {
            change(&mut worker, &table, from..from + SMALL, true);
        }
        IN_USE.load(Ordering::Relaxed).saturating_sub(before)
    }
}

/// Inserts rows, or changes them if they are there, or deletes those that have been changed; two
/// lookups of each.
fn change<S: Scheme<Native>>(
    worker: &mut Attached<S, Native>,
    table: &Table<Native>,
    ids: std::ops::Range<i64>,
    commits: bool,
) {
    worker.begin(Begin::default()).unwrap();
    for id in ids {
        let key = [id.into()];
        if worker.read(table, &key, &[1]).unwrap().is_some() {
            assert!(worker.update(table, &key, &[(1, (id + ROWS).into())]).unwrap());
            assert!(worker.delete(table, &key).unwrap());
        }
        worker.insert(table, &[id.into(), id.into()]).unwrap();
    }
    if commits {
        worker.commit().unwrap();
    } else {
        worker.abort(AbortReason::Requested);
    }
}

#[test]
fn a_large_transaction_leaves_little_memory_under_every_scheme() {
    let left: Vec<_> = SchemeKind::ALL
        .iter()
        .map(|kind| (kind.name(), kind.visit(&SchemeOptions::default(), Left)))
        .collect();
    println!("{left:?}");
    assert!(left.iter().all(|(_, bytes)| *bytes < LEFT_MAX), "{left:?}");
}
