//! What a commit costs, counted in accesses to shared words and in reported compute: a commit of
//! four times as many rows costs about four times as much, under every scheme. And what a commit in
//! several sections must still find out in its last one.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use atoll_machine::{Machine, Native, NativeWord, Ordering, Word};
use atoll_memory::{Memory, Store, StoreOptions, SwingConfig, SwingMalloc};
use atoll_storage::{Column, DataType, Directory, Schema, Table};
use atoll_txn::any::{AnyEngine, AnyTxn, Attached};
use atoll_txn::schemes::{SchemeKind, SchemeOptions, SchemeVisitor};
use atoll_txn::{AbortReason, Begin, Engine, EngineOptions, OpError, Pool, Scheme, TableOptions};

/// Reported writes until something happens, and what.
type Soon = Option<(u32, Box<dyn FnOnce()>)>;

thread_local! {
    static SPENT: Cell<u64> = const { Cell::new(0) };
    static SOON: RefCell<Soon> = const { RefCell::new(None) };
}

fn spend(units: u64) {
    SPENT.set(SPENT.get() + units);
}

/// A machine that counts.
struct Counting;

#[derive(Default)]
struct Counted(NativeWord);

impl Counted {
    fn word(&self) -> &NativeWord {
        spend(1);
        &self.0
    }
}

impl Word for Counted {
    fn new(value: u64) -> Self {
        Self(NativeWord::new(value))
    }
    fn load(&self, order: Ordering) -> u64 {
        self.word().load(order)
    }
    fn store(&self, value: u64, order: Ordering) {
        self.word().store(value, order);
    }
    fn swap(&self, value: u64, order: Ordering) -> u64 {
        self.word().swap(value, order)
    }
    fn compare_exchange(
        &self,
        current: u64,
        new: u64,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u64, u64> {
        self.word().compare_exchange(current, new, success, failure)
    }
    fn fetch_add(&self, value: u64, order: Ordering) -> u64 {
        self.word().fetch_add(value, order)
    }
    fn fetch_sub(&self, value: u64, order: Ordering) -> u64 {
        self.word().fetch_sub(value, order)
    }
    fn fetch_or(&self, value: u64, order: Ordering) -> u64 {
        self.word().fetch_or(value, order)
    }
    fn fetch_and(&self, value: u64, order: Ordering) -> u64 {
        self.word().fetch_and(value, order)
    }
}

impl Machine for Counting {
    type Word = Counted;

    fn now_ns() -> u64 {
        Native::now_ns()
    }
    fn wait(round: u32) {
        Native::wait(round);
    }
    fn work(units: usize) {
        spend(units as u64);
    }
    fn prefetch(_address: *const u8, _bytes: usize) {}
    fn write(_address: *const u8, _bytes: usize) {
        let now = SOON.with_borrow_mut(|soon| match soon {
            Some((0, _)) => soon.take(),
            Some((left, _)) => {
                *left -= 1;
                None
            }
            None => None,
        });
        if let Some((_, happens)) = now {
            happens();
        }
    }
}

/// An engine that stores so many rows in a section, and a table of numbers.
fn engine<S: Scheme<Counting>>(
    scheme: S,
    rows_in_section: usize,
) -> (Arc<Pool<S, Counting>>, Arc<Table<Counting>>) {
    let swing = SwingConfig { buddy_bytes: 1 << 30, ..SwingConfig::default() };
    let options = StoreOptions {
        capacity_bytes: SwingMalloc::capacity_for(&swing),
        limit_bytes: 64 << 20,
        huge_pages: false,
    };
    let store = Arc::new(Store::create_memfd("commit-cost", &options).unwrap());
    let swing = SwingMalloc::create(Arc::clone(&store), &swing).unwrap();
    let directory = Directory::create(Arc::new(Memory::new(store, swing))).unwrap();
    let options = EngineOptions { rows_in_section, ..EngineOptions::default() };
    let engine = Pool::new(Arc::new(Engine::new(scheme, Arc::new(directory), options)));
    let columns = ["id", "n"].map(|name| Column::new(name, DataType::Int64)).to_vec();
    let schema = Schema::new(columns, &["id"]).unwrap();
    let table = engine.create_table("t", schema, &TableOptions::default()).unwrap();
    (engine, table)
}

/// The cost of committing so many inserted rows, a few of them in each section.
struct Commit(i64);

impl SchemeVisitor<Counting> for Commit {
    type Output = u64;

    fn visit<S: Scheme<Counting>>(self, scheme: S) -> u64 {
        let (engine, table) = engine(scheme, 16);
        let mut worker = Attached::new(&engine).unwrap();
        worker.begin(Begin::default()).unwrap();
        (0..self.0).for_each(|id| worker.insert(&table, &[id.into(), id.into()]).unwrap());
        let before = SPENT.get();
        worker.commit().unwrap();
        assert_eq!(table.row_count(), self.0 as u64);
        SPENT.get() - before
    }
}

#[test]
fn a_commit_of_four_times_as_many_rows_costs_about_four_times_as_much() {
    for kind in SchemeKind::ALL {
        let cost = |rows| kind.visit(&SchemeOptions::default(), Commit(rows));
        let (few, many) = (cost(1000), cost(4000));
        println!("{}: {few} and {many}", kind.name());
        assert!(many < 6 * few, "{}: {few} and {many}", kind.name());
    }
}

/// Commits many rows, one in each section; another transaction replaces the row that this one has
/// read, while it stores.
struct Overtaken;

impl SchemeVisitor<Counting> for Overtaken {
    type Output = Result<(), OpError>;

    fn visit<S: Scheme<Counting>>(self, scheme: S) -> Self::Output {
        const READ: i64 = 40;
        let (engine, table) = engine(scheme, 1);
        let [mut one, mut two] = [0; 2].map(|_| Attached::new(&engine).unwrap());
        one.begin(Begin::default()).unwrap();
        (0..=READ).for_each(|id| one.insert(&table, &[id.into(), id.into()]).unwrap());
        one.commit().unwrap();
        one.begin(Begin::default()).unwrap();
        assert!(one.read(&table, &[READ.into()], &[1]).unwrap().is_some());
        for id in 0..READ {
            assert!(one.update(&table, &[id.into()], &[(1, 7i64.into())]).unwrap());
        }
        let other = Arc::clone(&table);
        let replaces = move || {
            two.begin(Begin::default()).unwrap();
            assert!(two.update(&other, &[READ.into()], &[(1, 7i64.into())]).unwrap());
            two.commit().unwrap();
        };
        SOON.set(Some((READ as u32, Box::new(replaces))));
        let done = one.commit();
        assert!(SOON.take().is_none(), "it has happened");
        done
    }
}

#[test]
fn a_read_that_becomes_invalid_while_a_large_commit_stores_is_found_in_the_last_section() {
    for name in ["OCC", "SILO", "TICTOC", "ADAPTIVE"] {
        let kind: SchemeKind = name.parse().unwrap();
        let done = kind.visit(&SchemeOptions::default(), Overtaken);
        assert!(matches!(done, Err(OpError::Abort(AbortReason::Changed))), "{name}: {done:?}");
    }
}
