//! The same engine on a second machine: its words are not atomics, and its clock is a counter.
//!
//! If transaction code reached past [`Machine`] for its row locks or its index, the counts below
//! would not add up, or the second machine would not have been enough to run on.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering as Native};
use std::sync::{Arc, Mutex};

use atoll_machine::{Machine, Ordering, Word};
use atoll_memory::{Memory, Store, StoreOptions, SwingConfig, SwingMalloc};
use atoll_storage::{Column, DataType, Directory, Schema, Table, Value};
use atoll_txn::accounting::SAMPLE_EVERY;
use atoll_txn::any::{AnyEngine, AnyTxn, Attached};
use atoll_txn::schemes::no_wait::NoWait;
use atoll_txn::{
    AbortReason, Begin, Component, Engine, EngineOptions, OpError, Pool, SchemeOptions,
    TableOptions,
};

thread_local! {
    static CLOCK: Cell<u64> = const { Cell::new(0) };
    static WORDS_USED: Cell<u64> = const { Cell::new(0) };
    static WAITS: Cell<u64> = const { Cell::new(0) };
    static SPENT: Cell<Spent> = const { Cell::new(Spent::NOTHING) };
}

/// What was reported to the machine besides words.
#[derive(Clone, Copy)]
struct Spent {
    /// Bytes.
    read: usize,
    /// Bytes.
    written: usize,
    /// Instructions.
    work: usize,
    latches: usize,
}

impl Spent {
    const NOTHING: Self = Self { read: 0, written: 0, work: 0, latches: 0 };
}

/// Changes what was spent by this thread.
fn spend(change: impl FnOnce(&mut Spent)) {
    let mut spent = SPENT.get();
    change(&mut spent);
    SPENT.set(spent);
}

/// A machine that counts what is reported to it.
struct Counting;

/// A word behind a lock.
#[derive(Default)]
struct Locked(Mutex<u64>);

impl Locked {
    fn with<R>(&self, body: impl FnOnce(&mut u64) -> R) -> R {
        WORDS_USED.with(|used| used.set(used.get() + 1));
        CLOCK.with(|clock| clock.set(clock.get() + 10));
        body(&mut self.0.lock().unwrap())
    }

    fn change(&self, body: impl FnOnce(u64) -> u64) -> u64 {
        self.with(|word| std::mem::replace(word, body(*word)))
    }
}

impl Word for Locked {
    fn new(value: u64) -> Self {
        Self(Mutex::new(value))
    }
    fn load(&self, _: Ordering) -> u64 {
        self.with(|word| *word)
    }
    fn store(&self, value: u64, _: Ordering) {
        self.with(|word| *word = value);
    }
    fn swap(&self, value: u64, _: Ordering) -> u64 {
        self.change(|_| value)
    }
    fn compare_exchange(
        &self,
        current: u64,
        new: u64,
        _: Ordering,
        _: Ordering,
    ) -> Result<u64, u64> {
        self.with(
            |word| {
                if *word == current { Ok(std::mem::replace(word, new)) } else { Err(*word) }
            },
        )
    }
    fn fetch_add(&self, value: u64, _: Ordering) -> u64 {
        self.change(|word| word.wrapping_add(value))
    }
    fn fetch_sub(&self, value: u64, _: Ordering) -> u64 {
        self.change(|word| word.wrapping_sub(value))
    }
    fn fetch_or(&self, value: u64, _: Ordering) -> u64 {
        self.change(|word| word | value)
    }
    fn fetch_and(&self, value: u64, _: Ordering) -> u64 {
        self.change(|word| word & value)
    }
}

impl Machine for Counting {
    type Word = Locked;

    fn now_ns() -> u64 {
        CLOCK.with(Cell::get)
    }
    fn wait(_round: u32) {
        WAITS.with(|waits| waits.set(waits.get() + 1));
        std::thread::yield_now();
    }
    fn read(_address: *const u8, bytes: usize) {
        spend(|spent| spent.read += bytes);
    }
    fn write(_address: *const u8, bytes: usize) {
        spend(|spent| spent.written += bytes);
    }
    fn exclusive(_address: *const u8) {
        spend(|spent| spent.latches += 1);
    }
    fn work(units: usize) {
        spend(|spent| spent.work += units);
    }
    fn prefetch(_address: *const u8, bytes: usize) {
        CLOCK.with(|clock| clock.set(clock.get() + bytes as u64));
    }
}

type Here = Pool<NoWait<Counting>, Counting>;

fn engine() -> (Arc<Here>, Arc<Table<Counting>>) {
    let swing = SwingConfig { buddy_bytes: 1 << 30, ..SwingConfig::default() };
    let options = StoreOptions {
        capacity_bytes: SwingMalloc::capacity_for(&swing),
        limit_bytes: 128 << 20,
        huge_pages: false,
    };
    let store = Arc::new(Store::create_memfd("another-machine", &options).unwrap());
    let swing = SwingMalloc::create(Arc::clone(&store), &swing).unwrap();
    let directory = Directory::create(Arc::new(Memory::new(store, swing))).unwrap();
    let engine = Pool::new(Arc::new(Engine::new(
        NoWait::new(&SchemeOptions::default()),
        Arc::new(directory),
        EngineOptions::default(),
    )));
    let columns = vec![
        Column::new("id", DataType::Int64),
        Column::new("balance", DataType::Int64),
        Column::nullable("note", DataType::Text),
    ];
    let schema = Schema::new(columns, &["id"]).unwrap();
    let table = engine.create_table("accounts", schema, &TableOptions::default()).unwrap();
    (engine, table)
}

fn read(
    worker: &mut Attached<NoWait<Counting>, Counting>,
    table: &Table<Counting>,
    id: i64,
) -> Option<i64> {
    let row = worker.read(table, &[id.into()], &[1]).unwrap()?;
    let Value::Int64(balance) = row[0] else { panic!("{row:?}") };
    Some(balance)
}

fn row(id: i64, balance: i64) -> [Value; 3] {
    [id.into(), balance.into(), "a note that is stored in the heap of its segment".into()]
}

#[test]
fn rows_are_inserted_read_changed_deleted_and_rolled_back() {
    let (engine, table) = engine();
    let mut worker = Attached::new(&engine).unwrap();
    worker.begin(Begin::default()).unwrap();
    for id in 0..100 {
        worker.insert(&table, &row(id, id * 10)).unwrap();
    }
    worker.commit().unwrap();

    worker.begin(Begin::default()).unwrap();
    assert!(worker.update(&table, &[7i64.into()], &[(1, 1i64.into())]).unwrap());
    assert!(worker.delete(&table, &[8i64.into()]).unwrap());
    worker.insert(&table, &row(8, 8)).unwrap();
    assert!(worker.delete(&table, &[9i64.into()]).unwrap());
    let again = worker.insert(&table, &row(10, 0));
    assert!(matches!(again, Err(OpError::DuplicateKey { .. })), "{again:?}");
    worker.abort(AbortReason::Requested);

    worker.begin(Begin::default()).unwrap();
    assert_eq!([7, 8, 9].map(|id| read(&mut worker, &table, id)), [Some(70), Some(80), Some(90)]);
    assert!(worker.update(&table, &[7i64.into()], &[(1, 1i64.into())]).unwrap());
    assert!(worker.delete(&table, &[8i64.into()]).unwrap());
    worker.insert(&table, &row(8, 8)).unwrap();
    worker.commit().unwrap();

    worker.begin(Begin::default()).unwrap();
    assert_eq!([7, 8, 9].map(|id| read(&mut worker, &table, id)), [Some(1), Some(8), Some(90)]);
    assert_eq!(read(&mut worker, &table, 1000), None);
    worker.commit().unwrap();
    assert_eq!(engine.counts().commits, 3);
    assert_eq!(engine.counts().aborts_all(), 1);
    assert!(WORDS_USED.with(Cell::get) > 500, "locks and index use words of this machine");
    assert!(Counting::now_ns() > 0);
}

#[test]
fn values_undo_entries_latches_and_compute_are_reported() {
    let (engine, table) = engine();
    let mut worker = Attached::new(&engine).unwrap();
    let mut spent_by = |update: bool| {
        worker.begin(Begin::default()).unwrap();
        let before = SPENT.get();
        if update {
            assert!(worker.update(&table, &[7i64.into()], &[(1, 1i64.into())]).unwrap());
        } else {
            assert_eq!(read(&mut worker, &table, 7), Some(1));
        }
        worker.commit().unwrap();
        let after = SPENT.get();
        let (read, written) = (after.read - before.read, after.written - before.written);
        (read, written, after.work - before.work, after.latches - before.latches)
    };
    let mut other = Attached::new(&engine).unwrap();
    other.begin(Begin::default()).unwrap();
    // The update is inside the zone of these values, so it does not widen the zone.
    other.insert(&table, &row(6, 0)).unwrap();
    other.insert(&table, &row(7, 70)).unwrap();
    other.commit().unwrap();

    let (_, written, work, latches) = spent_by(true);
    let undo_entry = 3 * 8 + 8;
    assert_eq!(written, 8 + undo_entry, "the value and its undo entry");
    assert!(work > 0);
    assert_eq!(latches, 2 * 2, "its context is opened and closed");
    let (bytes, written, work, latches) = spent_by(false);
    assert!(bytes >= 8, "the value, and the pointers that lead to it: {bytes}");
    assert!(work > 0);
    assert_eq!((written, latches), (0, 0));
}

#[test]
fn a_writer_is_refused_while_another_worker_reads_and_the_other_way_round() {
    let (engine, table) = engine();
    let (mut one, mut two) = (Attached::new(&engine).unwrap(), Attached::new(&engine).unwrap());
    one.begin(Begin::default()).unwrap();
    one.insert(&table, &row(1, 10)).unwrap();
    one.commit().unwrap();
    let refused = |stop: OpError| assert!(matches!(stop, OpError::Abort(AbortReason::Denied)));

    one.begin(Begin::default()).unwrap();
    two.begin(Begin::default()).unwrap();
    assert_eq!(read(&mut one, &table, 1), Some(10));
    assert_eq!(read(&mut two, &table, 1), Some(10));
    refused(two.update(&table, &[1i64.into()], &[(1, 0i64.into())]).unwrap_err());
    assert!(one.update(&table, &[1i64.into()], &[(1, 11i64.into())]).unwrap());
    two.begin(Begin::default()).unwrap();
    refused(two.read(&table, &[1i64.into()], &[1]).unwrap_err());
    one.commit().unwrap();

    one.begin(Begin::default()).unwrap();
    two.begin(Begin::default()).unwrap();
    assert_eq!(read(&mut one, &table, 2), None);
    refused(two.insert(&table, &row(2, 20)).unwrap_err());
    assert_eq!(read(&mut one, &table, 2), None, "what was absent stays absent");
    one.commit().unwrap();
}

#[test]
fn an_attempt_that_is_rolled_back_and_the_pause_after_it_are_accounted_to_the_abort() {
    let (engine, table) = engine();
    let mut worker = Attached::new(&engine).unwrap();
    let mut run = |commits: bool| {
        // The last one is measured.
        for id in 0..i64::from(SAMPLE_EVERY) {
            worker.begin(Begin::default()).unwrap();
            worker.insert(&table, &row(id, 1)).unwrap();
            assert!(worker.update(&table, &[id.into()], &[(1, 2i64.into())]).unwrap());
            if commits {
                worker.delete(&table, &[id.into()]).unwrap();
                worker.commit().unwrap();
            } else {
                worker.abort(AbortReason::Requested);
            }
        }
        let spent = engine.counts().components;
        worker.pause(&mut || CLOCK.with(|clock| clock.set(clock.get() + 7777)));
        let paused = engine.counts().components;
        let pause: Vec<_> =
            paused.iter().zip(spent).map(|(after, before)| after - before).collect();
        (Component::ALL.map(|component| spent[component as usize]), pause)
    };
    let (committed, pause) = run(true);
    assert!(
        committed[Component::Useful as usize] > 0 && committed[Component::Manager as usize] > 0
    );
    assert_eq!(committed[Component::Abort as usize], 0);
    assert_eq!(pause, [0; 6], "there was no abort to pause for");
    let (both, pause) = run(false);
    for component in Component::ALL {
        let grew = both[component as usize] > committed[component as usize];
        assert_eq!(grew, component == Component::Abort, "{component:?}: {committed:?}, {both:?}");
    }
    assert_eq!(pause, [0, 7777, 0, 0, 0, 0]);
}

#[test]
fn two_threads_that_collide_lose_nothing() {
    /// The fewest rounds; the threads go on until they have collided.
    const ROUNDS: i64 = 600;
    /// The most rounds.
    const ENOUGH: i64 = 1_000_000;
    const ACCOUNTS: i64 = 4;
    let (engine, table) = engine();
    let mut worker = Attached::new(&engine).unwrap();
    worker.begin(Begin::default()).unwrap();
    (0..ACCOUNTS).for_each(|id| worker.insert(&table, &row(id, 0)).unwrap());
    worker.commit().unwrap();
    let (collided, rounds) = (AtomicBool::new(false), AtomicI64::new(0));
    std::thread::scope(|scope| {
        for thread in 0..2i64 {
            let (engine, table, collided, rounds) = (&engine, &table, &collided, &rounds);
            scope.spawn(move || {
                let mut worker = Attached::new(engine).unwrap();
                let goes_on = |round| round < ROUNDS || !collided.load(Native::Relaxed);
                for round in (0..ENOUGH).take_while(|round| goes_on(*round)) {
                    rounds.fetch_add(1, Native::Relaxed);
                    let keys = [(round + thread) % ACCOUNTS, (round * 3 + 1) % ACCOUNTS];
                    loop {
                        worker.begin(Begin::default()).unwrap();
                        let done = keys.iter().try_for_each(|id| {
                            let key = [Value::from(*id)];
                            let row = worker.read(table, &key, &[1])?.unwrap();
                            let Value::Int64(balance) = row[0] else { panic!("{row:?}") };
                            std::thread::yield_now();
                            worker.update(table, &key, &[(1, (balance + 1).into())]).map(|_| ())
                        });
                        match done.and_then(|()| worker.commit()) {
                            Ok(()) => break,
                            Err(OpError::Abort(_)) => collided.store(true, Native::Relaxed),
                            Err(stop) => panic!("{stop}"),
                        }
                    }
                }
            });
        }
    });
    worker.begin(Begin::default()).unwrap();
    let sum: i64 = (0..ACCOUNTS).map(|id| read(&mut worker, &table, id).unwrap()).sum();
    assert_eq!(sum, 2 * rounds.load(Native::Relaxed));
    assert!(collided.load(Native::Relaxed), "the threads never met");
}
