//! A machine for transactions of one thread that wait for each other, and a table on it.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use atoll_machine::{Machine, NativeWord};
use atoll_memory::{Memory, Store, StoreOptions, SwingConfig, SwingMalloc};
use atoll_storage::{Column, DataType, Directory, Schema, Table};
use atoll_txn::any::AnyEngine;
use atoll_txn::{Engine, EngineOptions, Pool, Scheme, TableOptions};

/// An action, and the round in which it is due.
type Later = (u32, Box<dyn FnOnce()>);

thread_local! {
    static ROUNDS: Cell<u32> = const { Cell::new(0) };
    static LATER: RefCell<Option<Later>> = const { RefCell::new(None) };
}

/// A machine on which time passes only by waiting, and an action may run meanwhile.
pub struct Waiting;

impl Machine for Waiting {
    type Word = NativeWord;

    fn now_ns() -> u64 {
        ROUNDS.with(Cell::get).into()
    }

    fn wait(_round: u32) {
        ROUNDS.with(|rounds| rounds.set(rounds.get() + 1));
        let now = ROUNDS.with(Cell::get);
        let due = LATER.with(|later| later.borrow_mut().take_if(|(at, _)| *at <= now));
        if let Some((_, act)) = due {
            act();
        }
    }

    fn prefetch(_address: *const u8, _bytes: usize) {}
}

/// Runs an action after so many rounds of waiting.
pub fn after(rounds: u32, act: impl FnOnce() + 'static) {
    let at = ROUNDS.with(Cell::get) + rounds;
    LATER.with(|later| *later.borrow_mut() = Some((at, Box::new(act))));
}

/// An engine with a table of integers.
pub fn engine<S: Scheme<Waiting>>(
    scheme: S,
    options: &TableOptions,
) -> (Arc<Pool<S, Waiting>>, Arc<Table<Waiting>>) {
    let swing = SwingConfig { buddy_bytes: 1 << 30, ..SwingConfig::default() };
    let store = StoreOptions {
        capacity_bytes: SwingMalloc::capacity_for(&swing),
        limit_bytes: 128 << 20,
        huge_pages: false,
    };
    let store = Arc::new(Store::create_memfd("waiting", &store).unwrap());
    let swing = SwingMalloc::create(Arc::clone(&store), &swing).unwrap();
    let directory = Directory::create(Arc::new(Memory::new(store, swing))).unwrap();
    let engine =
        Pool::new(Arc::new(Engine::new(scheme, Arc::new(directory), EngineOptions::default())));
    let columns = ["id", "count"].map(|name| Column::new(name, DataType::Int64));
    let schema = Schema::new(columns.to_vec(), &["id"]).unwrap();
    let table = engine.create_table("t", schema, options).unwrap();
    (engine, table)
}
