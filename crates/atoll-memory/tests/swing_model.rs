//! SwingMalloc against a model: any sequence of calls, and many threads at once.
#![allow(clippy::unwrap_used)]

use atoll_memory::{Extent, MemoryError, Store, StoreOptions, SwingConfig, SwingMalloc};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

const MIB: u64 = 1 << 20;

#[derive(Clone, Debug)]
enum Call {
    Allocate(u64),
    AllocateFromHeadroom(u64),
    Free(usize),
    FreeTwice(usize),
    FreeGarbage(u64),
    Trim,
    Reopen,
}

fn size() -> impl Strategy<Value = u64> {
    prop_oneof![
        6 => 0..70_000_u64,
        2 => (7..21_u32).prop_map(|order| 1_u64 << order),
        1 => 0..9 * MIB,
        1 => 0..40 * MIB,
    ]
}

fn call() -> impl Strategy<Value = Call> {
    prop_oneof![
        10 => size().prop_map(Call::Allocate),
        1 => size().prop_map(Call::AllocateFromHeadroom),
        9 => any::<usize>().prop_map(Call::Free),
        1 => any::<usize>().prop_map(Call::FreeTwice),
        1 => any::<u64>().prop_map(Call::FreeGarbage),
        1 => Just(Call::Trim),
        1 => Just(Call::Reopen),
    ]
}

fn config() -> SwingConfig {
    let large_blocks = vec![(16 * MIB, 2), (32 * MIB, 1)];
    SwingConfig { buddy_bytes: 8 * MIB, large_blocks, reserved_bytes: 2 * MIB }
}

fn new_store(config: &SwingConfig, limit_bytes: u64) -> Arc<Store> {
    let capacity_bytes = SwingMalloc::capacity_for(config);
    let options = StoreOptions { capacity_bytes, limit_bytes, huge_pages: false };
    Arc::new(Store::create_memfd("model", &options).unwrap())
}

/// The first and the last word of an extent.
fn ends(store: &Store, extent: Extent) -> [*mut u64; 2] {
    let base = store.base_mut().unwrap();
    let last = extent.offset + extent.size_bytes - 8;
    [extent.offset, last].map(|at| base.wrapping_add(at as usize).cast())
}

fn fill(store: &Store, extent: Extent, value: u64) {
    // SAFETY: both words are in a live extent that the caller owns.
    ends(store, extent).into_iter().for_each(|word| unsafe { word.write(value) });
}

fn holds(store: &Store, extent: Extent, value: u64) -> bool {
    // SAFETY: as in `fill`.
    ends(store, extent).into_iter().all(|word| unsafe { word.read() } == value)
}

/// The allocator, and a model of its live extents.
struct Model {
    swing: SwingMalloc,
    live: BTreeMap<u64, Extent>,
    baseline: u64,
}

impl Model {
    fn new() -> Model {
        let swing = SwingMalloc::create(new_store(&config(), 48 * MIB), &config()).unwrap();
        swing.set_headroom(4 * MIB);
        let baseline = swing.store().committed_bytes();
        Model { swing, live: BTreeMap::new(), baseline }
    }

    fn allocated(&mut self, asked: u64, result: Result<Extent, MemoryError>) {
        let extent = match result {
            Ok(extent) => extent,
            Err(MemoryError::OutOfMemory { asked_bytes, .. }) => {
                return assert_eq!(asked_bytes, asked);
            }
            Err(MemoryError::TooLarge { .. }) => return assert!(asked > 32 * MIB),
            Err(error) => panic!("{error}"),
        };
        assert!(extent.size_bytes >= asked.max(128));
        let alignment = extent.size_bytes.next_power_of_two().min(2 * MIB);
        assert_eq!(extent.offset % alignment, 0);
        let (reserved, len) = self.swing.reserved_region();
        assert!(extent.offset >= reserved + len);
        assert!(extent.offset + extent.size_bytes <= self.swing.store().capacity_bytes());
        let before = self.live.range(..extent.offset + extent.size_bytes).next_back();
        if let Some((_, other)) = before {
            assert!(other.offset + other.size_bytes <= extent.offset, "{other:?} {extent:?}");
        }
        fill(self.swing.store(), extent, extent.offset ^ 0xa5);
        self.live.insert(extent.offset, extent);
    }

    fn free(&mut self, n: usize) -> Option<u64> {
        let offset = *self.live.keys().nth(n % self.live.len().max(1))?;
        let extent = self.live.remove(&offset)?;
        assert!(holds(self.swing.store(), extent, offset ^ 0xa5), "{extent:?} was overwritten");
        assert_eq!(self.swing.free(offset).unwrap(), extent.size_bytes);
        Some(offset)
    }

    fn apply(&mut self, call: &Call) {
        match call {
            Call::Allocate(size) => self.allocated(*size, self.swing.allocate(*size)),
            Call::AllocateFromHeadroom(size) => {
                self.allocated(*size, self.swing.allocate_from_headroom(*size));
            }
            Call::Free(n) => drop(self.free(*n)),
            Call::FreeTwice(n) => {
                if let Some(offset) = self.free(*n) {
                    let again = self.swing.free(offset);
                    assert!(matches!(again, Err(MemoryError::NotAllocated { .. })));
                }
            }
            Call::FreeGarbage(word) => {
                let capacity = self.swing.store().capacity_bytes();
                for offset in [*word, word % capacity, word % capacity / 128 * 128] {
                    if !self.live.contains_key(&offset) {
                        assert!(self.swing.free(offset).is_err());
                    }
                }
            }
            Call::Trim => self.swing.trim(),
            Call::Reopen => self.reopen(),
        }
        let bytes = self.live.values().map(|extent| extent.size_bytes).sum::<u64>();
        assert_eq!(self.swing.allocated_bytes(), bytes);
        assert_eq!(self.swing.extents_live(), self.live.len() as u64);
        assert!(self.swing.store().committed_bytes() <= self.swing.store().limit_bytes());
    }

    /// Continues in a new mapping of the same file; the old mapping is gone.
    fn reopen(&mut self) {
        let old = Arc::clone(self.swing.store());
        let fd = old.fd().try_clone_to_owned().unwrap();
        let empty = SwingMalloc::create(new_store(&config(), 4 * MIB), &config()).unwrap();
        drop(std::mem::replace(&mut self.swing, empty));
        let limit = old.limit_bytes();
        drop(old);
        let store = Arc::new(Store::attach_writable(fd, limit).unwrap());
        self.swing = SwingMalloc::open(store).unwrap();
        self.swing.set_headroom(4 * MIB);
        for extent in self.live.values() {
            assert_eq!(self.swing.extent_at(extent.offset), Some(*extent));
        }
    }

    fn finish(mut self) {
        while self.free(0).is_some() {}
        assert_eq!(self.swing.allocated_bytes(), 0);
        self.swing.trim();
        assert_eq!(self.swing.largest_free_bytes(), 8 * MIB, "one whole free block again");
        assert_eq!(self.swing.store().committed_bytes(), self.baseline);
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 96,
        failure_persistence: None,
        ..Default::default()
    })]

    #[test]
    fn any_sequence_of_calls_agrees_with_the_model(calls in prop::collection::vec(call(), 1..160)) {
        let mut model = Model::new();
        for call in &calls {
            model.apply(call);
        }
        model.finish();
    }
}

/// A small seeded generator, so that a failing run can be repeated.
struct Random(u64);

impl Random {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % below
    }
}

/// Allocates and frees for `steps` steps, and checks that no other thread writes to its extents.
fn churn(swing: &SwingMalloc, thread: u64, steps: u64) -> Vec<(Extent, u64)> {
    let mut random = Random(thread + 1);
    let mut mine: Vec<(Extent, u64)> = Vec::new();
    for step in 0..steps {
        if random.next(2) == 0 || mine.is_empty() {
            let order = 7 + random.next(16);
            match swing.allocate(1 + random.next(1 << order)) {
                Ok(extent) => {
                    let value = thread << 32 | step;
                    fill(swing.store(), extent, value);
                    mine.push((extent, value));
                }
                Err(error) => assert!(error.is_out_of_memory(), "{error}"),
            }
        } else {
            let (extent, value) = mine.swap_remove(random.next(mine.len() as u64) as usize);
            assert!(holds(swing.store(), extent, value), "{extent:?} was overwritten");
            assert_eq!(swing.free(extent.offset).unwrap(), extent.size_bytes);
        }
        if random.next(500) == 0 {
            swing.trim();
        }
    }
    mine
}

#[test]
fn threads_that_allocate_and_free_at_once_never_share_an_extent() {
    let config = SwingConfig { buddy_bytes: 128 * MIB, ..config() };
    let swing = SwingMalloc::create(new_store(&config, 48 * MIB), &config).unwrap();
    // A small warm budget, so that space is committed and decommitted all the time.
    swing.set_warm_bytes(2 * MIB);
    let baseline = swing.store().committed_bytes();
    let left: Vec<(Extent, u64)> = std::thread::scope(|scope| {
        let swing = &swing;
        let threads: Vec<_> =
            (0..6).map(|thread| scope.spawn(move || churn(swing, thread, 4_000))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(swing.extents_live(), left.len() as u64);
    // One thread frees what all threads have allocated.
    for (extent, value) in left {
        assert!(holds(swing.store(), extent, value), "{extent:?} was overwritten");
        swing.free(extent.offset).unwrap();
    }
    assert_eq!(swing.allocated_bytes(), 0);
    swing.trim();
    assert_eq!(swing.largest_free_bytes(), 128 * MIB);
    assert_eq!(swing.store().committed_bytes(), baseline);
}

#[test]
fn of_threads_that_free_the_same_extent_exactly_one_succeeds() {
    const ROUNDS: usize = 8_000;
    let swing = SwingMalloc::create(new_store(&config(), 48 * MIB), &config()).unwrap();
    let kept = [128, 65_536, 4 * MIB, 20 * MIB].map(|size| swing.allocate(size).unwrap().offset);
    // In each round two threads free one extent; they synchronize by a spinning counter.
    let (offset, arrived, freed) = (AtomicU64::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    let stop = AtomicBool::new(false);
    let meet = |target: usize| {
        arrived.fetch_add(1, Ordering::AcqRel);
        while arrived.load(Ordering::Acquire) < target && !stop.load(Ordering::Acquire) {
            std::hint::spin_loop();
        }
    };
    let thread = |allocates: bool| {
        for round in 0..ROUNDS {
            if allocates {
                // Large blocks are rare: each one is committed and decommitted every time.
                let n = if round % 200 == 0 { 3 } else { round % 3 };
                offset.store(kept[n], Ordering::Release);
            }
            meet(4 * round + 2);
            let mine = offset.load(Ordering::Acquire);
            if swing.free(mine).is_ok() {
                freed.fetch_add(1, Ordering::AcqRel);
            }
            meet(4 * round + 4);
            if stop.load(Ordering::Acquire) {
                return;
            }
            if allocates {
                let freed = freed.swap(0, Ordering::AcqRel);
                stop.store(freed != 1, Ordering::Release);
                assert_eq!(freed, 1, "round {round}");
                let size = [128, 65_536, 4 * MIB, 20 * MIB];
                let n = kept.iter().position(|kept| *kept == mine).unwrap();
                assert_eq!(swing.allocate(size[n]).unwrap().offset, mine);
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| thread(false));
        thread(true);
    });
    assert_eq!(swing.extents_live(), 4);
}
