//! Workers that store and copy, and takers that cut and release, concurrently in one memory.
//!
//! The tables are minimal: a root extent that names eight others. Each store takes the same steps
//! as in `atoll-storage`. The test reads what a cut shows again and again until the cut is
//! released. If a byte of it changes, or an extent is freed too early and allocated again, the test
//! finds other values, or an extent with words that contradict each other.

#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use atoll_memory::{
    Cut, Inside, Member, Memory, Purpose, Retired, Store, StoreOptions, SwingConfig, SwingMalloc,
};

const EXTENTS: u64 = 8;
const WORDS: u64 = 64;
const EXTENT_BYTES: u64 = WORDS * 8;
/// The birth of the root, then the offset and the birth of each extent.
const ROOT_BYTES: u64 = (1 + 2 * EXTENTS) * 8;

fn memory() -> Arc<Memory> {
    let config = SwingConfig { buddy_bytes: 64 << 20, ..SwingConfig::default() };
    let options = StoreOptions {
        capacity_bytes: SwingMalloc::capacity_for(&config),
        limit_bytes: 64 << 20,
        huge_pages: false,
    };
    let store = Arc::new(Store::create_memfd("atoll-test", &options).unwrap());
    let swing = SwingMalloc::create(Arc::clone(&store), &config).unwrap();
    Arc::new(Memory::new(store, swing))
}

fn place_word(root: u64, extent: u64) -> u64 {
    root + (1 + extent) * 8
}

fn birth_word(root: u64, extent: u64) -> u64 {
    root + (1 + EXTENTS + extent) * 8
}

/// A directory of one node.
struct Table {
    memory: Arc<Memory>,
    latch: Mutex<()>,
    /// One worker stores into an extent at a time, as under a row's lock.
    locks: Vec<Mutex<()>>,
}

impl Table {
    fn new(memory: Arc<Memory>) -> Self {
        let access = memory.access();
        let epoch = memory.epoch();
        let root = memory.allocate(ROOT_BYTES, Purpose::Ordinary).unwrap().offset;
        access.store_u64(root, epoch);
        for at in 0..EXTENTS {
            let extent = memory.allocate(EXTENT_BYTES, Purpose::Ordinary).unwrap().offset;
            (0..WORDS).for_each(|word| access.store_u64(extent + word * 8, at << 56));
            access.store_u64(place_word(root, at), extent);
            access.store_u64(birth_word(root, at), epoch);
        }
        memory.set_root(root);
        let locks = (0..EXTENTS).map(|_| Mutex::default()).collect();
        Self { memory, latch: Mutex::default(), locks }
    }

    /// Writes `value` into every word of an extent, while other workers write to others.
    fn store(&self, member: &mut Member, at: u64, value: u64) {
        let _lock = self.locks[at as usize].lock().unwrap();
        let section = member.enter();
        let place = self.own(section.inside(), at);
        let access = self.memory.access();
        for word in 0..WORDS {
            access.store_u64(place + word * 8, at << 56 | value);
        }
    }

    fn own(&self, inside: Inside, at: u64) -> u64 {
        let (memory, access) = (&self.memory, self.memory.access());
        let root = memory.root();
        let birth = access.word(birth_word(root, at)).load(Ordering::Acquire);
        if !memory.must_copy(inside, birth) {
            return access.load_u64(place_word(root, at));
        }
        let _latch = self.latch.lock().unwrap();
        let root = self.own_root(inside);
        let birth = access.load_u64(birth_word(root, at));
        let place = access.load_u64(place_word(root, at));
        if !inside.is_frozen(birth) {
            return place;
        }
        let copy = memory.copy_extent(place, EXTENT_BYTES, Purpose::Ordinary).unwrap();
        access.store_u64(place_word(root, at), copy.offset);
        access.word(birth_word(root, at)).store(inside.epoch, Ordering::Release);
        memory.retire(Retired { offset: place, size_bytes: EXTENT_BYTES, birth }, inside.epoch);
        copy.offset
    }

    fn own_root(&self, inside: Inside) -> u64 {
        let (memory, access) = (&self.memory, self.memory.access());
        let root = memory.root();
        let birth = access.load_u64(root);
        if !inside.is_frozen(birth) {
            return root;
        }
        let copy = memory.copy_extent(root, ROOT_BYTES, Purpose::Ordinary).unwrap().offset;
        access.store_u64(copy, inside.epoch);
        memory.set_root(copy);
        memory.retire(Retired { offset: root, size_bytes: ROOT_BYTES, birth }, inside.epoch);
        copy
    }

    /// Reads all that a cut shows; all words of an extent must be equal.
    fn shown(&self, root: u64) -> Vec<u64> {
        let access = self.memory.access();
        let mut out = vec![access.load_u64(root)];
        for at in 0..EXTENTS {
            let place = access.load_u64(place_word(root, at));
            let first = access.load_u64(place);
            assert_eq!(first >> 56, at, "an extent was given to another");
            for word in 1..WORDS {
                assert_eq!(access.load_u64(place + word * 8), first, "half a store is shown");
            }
            out.extend([place, first]);
        }
        out
    }
}

fn numbers(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed * 2 + 1;
    move |most| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (state >> 33) % most
    }
}

/// Takes cuts, reads what they show, and releases them, in 600 steps.
fn take(table: &Table, seed: u64, last: &[AtomicU64]) {
    let mut next = numbers(seed);
    let mut held: Vec<(Cut, Vec<u64>)> = Vec::new();
    for _ in 0..600 {
        if held.len() < 4 && next(2) == 0 {
            let before: Vec<u64> = last.iter().map(|value| value.load(Ordering::Acquire)).collect();
            let cut = table.memory.cut();
            let shown = table.shown(cut.root);
            for (at, before) in before.iter().enumerate() {
                let value = shown[2 + 2 * at] & !(0xff << 56);
                assert!(value >= *before, "a store that had finished before the cut is missing");
            }
            held.push((cut, shown));
            // On a busy machine the writers may not have run yet.
            while table.memory.copied().extents == 0 {
                std::thread::yield_now();
            }
        }
        for (cut, shown) in &held {
            assert!(table.shown(cut.root) == *shown, "epoch {} changed", cut.epoch);
        }
        if !held.is_empty() && next(3) == 0 {
            let (cut, _) = held.swap_remove(next(held.len() as u64) as usize);
            if table.memory.release(cut.epoch) {
                table.memory.reclaim();
            }
        }
    }
    held.into_iter().for_each(|(cut, _)| {
        if table.memory.release(cut.epoch) {
            table.memory.reclaim();
        }
    });
    table.memory.reclaim();
}

#[test]
fn frozen_bytes_never_change_and_all_memory_comes_back() {
    let memory = memory();
    let empty = memory.swing().allocated_bytes();
    let table = Table::new(Arc::clone(&memory));
    let settled = memory.swing().allocated_bytes();
    let stop = AtomicBool::new(false);
    // For each extent, a value that has certainly been stored.
    let last: Vec<AtomicU64> = (0..EXTENTS).map(|_| AtomicU64::new(0)).collect();
    let value = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for seed in 0..3u64 {
            let (table, stop, last, value) = (&table, &stop, &last, &value);
            scope.spawn(move || {
                let mut next = numbers(seed);
                let mut member = table.memory.join().unwrap();
                while !stop.load(Ordering::Relaxed) {
                    // Each worker has its own extents, so their values only grow.
                    let at = [0, 3, 6][seed as usize] + next(if seed == 2 { 2 } else { 3 });
                    let new = value.fetch_add(1, Ordering::Relaxed) + 1;
                    table.store(&mut member, at, new);
                    last[at as usize].store(new, Ordering::Release);
                    if next(64) == 0 {
                        table.memory.tidy();
                    }
                }
            });
        }
        let takers: Vec<_> = (0..2u64)
            .map(|seed| {
                let (table, last) = (&table, &last);
                scope.spawn(move || take(table, 100 + seed, last))
            })
            .collect();
        let ends: Vec<_> = takers.into_iter().map(|taker| taker.join()).collect();
        stop.store(true, Ordering::Relaxed);
        ends.into_iter().for_each(|end| end.unwrap());
    });
    assert!(memory.copied().extents > 0);
    assert_eq!((memory.leases(), memory.kept_bytes_all()), (0, 0));
    memory.reclaim();
    assert_eq!(memory.swing().allocated_bytes(), settled);
    let access = memory.access();
    let root = memory.root();
    (0..EXTENTS).for_each(|at| memory.discard(access.load_u64(place_word(root, at))));
    memory.discard(root);
    assert_eq!(memory.swing().allocated_bytes(), empty);
}

#[test]
fn an_extent_that_no_lease_shows_is_written_in_place() {
    let memory = memory();
    let table = Table::new(Arc::clone(&memory));
    let mut member = memory.join().unwrap();
    let copies = |member: &mut Member, value| {
        let before = memory.copied().extents;
        table.store(member, 1, value);
        memory.copied().extents - before
    };
    assert_eq!(copies(&mut member, 1), 0);
    let cut = memory.cut();
    assert_eq!(copies(&mut member, 2), 2, "the root and the extent");
    assert_eq!(copies(&mut member, 3), 0);
    if memory.release(cut.epoch) {
        memory.reclaim();
    }
    assert_eq!(copies(&mut member, 4), 0, "nothing holds the epoch of the copy");
    let cut = memory.cut();
    if memory.release(cut.epoch) {
        memory.reclaim();
    }
    assert_eq!(copies(&mut member, 5), 0, "the lease ended before the store");
}

#[test]
fn what_an_older_lease_shows_outlives_the_end_of_a_younger_one() {
    let memory = memory();
    let table = Table::new(Arc::clone(&memory));
    let mut member = memory.join().unwrap();
    let older = memory.cut();
    let shown = table.shown(older.root);
    let younger = memory.cut();
    table.store(&mut member, 2, 9);
    let kept = memory.kept_bytes_all();
    assert!(kept >= EXTENT_BYTES + ROOT_BYTES);
    if memory.release(younger.epoch) {
        memory.reclaim();
    }
    assert_eq!(memory.kept_bytes_all(), kept, "the older lease shows the same extents");
    assert_eq!(memory.kept_bytes(older.epoch), kept);
    assert_eq!(table.shown(older.root), shown);
    if memory.release(older.epoch) {
        memory.reclaim();
    }
    assert_eq!(memory.kept_bytes_all(), 0);
}
