//! The ordered index against a map, with random operations.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeSet, VecDeque};
use std::num::NonZeroUsize;
use std::ops::Bound;

use atoll_machine::Native;
use atoll_storage::RowId;
use atoll_storage::key::mix;
use atoll_storage::ordered::encode::{below, successor};
use atoll_storage::ordered::{Batch, GuardId, KeyRange, OrderedIndex};

type Entry = (Vec<u8>, u64);

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 += 1;
        mix(self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15)) % limit
    }

    fn bytes(&mut self, len: u64, alphabet: &[u8]) -> Vec<u8> {
        (0..len).map(|_| alphabet[self.below(alphabet.len() as u64) as usize]).collect()
    }
}

/// A distribution of keys.
#[derive(Clone, Copy, Debug)]
enum Keys {
    /// 0 to 100 bytes from a small alphabet, so that many keys are prefixes of others.
    Any,
    /// Up to 8 bytes.
    Short,
    /// Long keys with common prefixes.
    Alike,
    /// A few keys with many rows each.
    Few,
    /// Three numbers, like the keys of orders.
    Numbers,
}

impl Keys {
    fn make(self, random: &mut Random) -> Vec<u8> {
        match self {
            Self::Any => {
                let len = random.below(101);
                random.bytes(len, &[0, 0, 0, 1, b'a', 255])
            }
            Self::Short => {
                let len = random.below(9);
                random.bytes(len, &[0, 7, 255])
            }
            Self::Alike => {
                let len = 7 + random.below(5);
                let mut key = vec![b'p'; random.below(3) as usize * 9];
                key.extend(random.bytes(len, b"\0ab"));
                key
            }
            Self::Few => vec![random.below(4) as u8; random.below(3) as usize * 6],
            Self::Numbers => {
                let mut key = (random.below(3) as u32).to_be_bytes().to_vec();
                key.extend((random.below(4) as u32).to_be_bytes());
                key.extend((random.below(500) as u32).to_be_bytes());
                key
            }
        }
    }

    const ALL: [Self; 5] = [Self::Any, Self::Short, Self::Alike, Self::Few, Self::Numbers];
}

fn yes(_: GuardId, _: GuardId) -> bool {
    true
}

fn scan(index: &OrderedIndex<Native>, range: &KeyRange<'_>, batch: &mut Batch) -> Vec<Entry> {
    let mut found = Vec::new();
    batch.rewind();
    loop {
        let more = index.batch(range, &mut |_| {}, batch);
        found.extend(batch.iter().map(|entry| (entry.key.to_vec(), entry.row.0)));
        if !more {
            return found;
        }
    }
}

fn expected(model: &BTreeSet<Entry>, range: &KeyRange<'_>) -> Vec<Entry> {
    let is_in = |key: &[u8]| {
        (match range.from {
            Bound::Included(from) => key >= from,
            Bound::Excluded(from) => key > from,
            Bound::Unbounded => true,
        }) && match range.to {
            Bound::Included(to) => key <= to,
            Bound::Excluded(to) => key < to,
            Bound::Unbounded => true,
        }
    };
    let mut found: Vec<_> = model.iter().filter(|(key, _)| is_in(key)).cloned().collect();
    if range.descending {
        found.reverse();
    }
    found
}

fn bound<'k>(random: &mut Random, key: &'k [u8]) -> Bound<&'k [u8]> {
    match random.below(5) {
        0 => Bound::Unbounded,
        1 | 2 => Bound::Excluded(key),
        _ => Bound::Included(key),
    }
}

fn check_ranges(
    index: &OrderedIndex<Native>,
    model: &BTreeSet<Entry>,
    keys: Keys,
    random: &mut Random,
    batch: &mut Batch,
) {
    let (from, to) = (keys.make(random), keys.make(random));
    let (from, to) = (bound(random, &from), bound(random, &to));
    let mut prefix = keys.make(random);
    prefix.truncate(random.below(prefix.len() as u64 + 1) as usize);
    let mut end = prefix.clone();
    successor(&mut end);
    batch.limit(NonZeroUsize::new(random.below(70) as usize));
    for descending in [false, true] {
        let range = KeyRange { from, to, descending };
        assert_eq!(scan(index, &range, batch), expected(model, &range), "{keys:?} {range:?}");
        let range = KeyRange { from: Bound::Included(&prefix), to: below(&end), descending };
        let found = scan(index, &range, batch);
        assert!(found.iter().all(|(key, _)| key.starts_with(&prefix)), "{range:?}");
        assert_eq!(found, expected(model, &range), "{keys:?} {range:?}");
    }
}

#[test]
fn random_operations_leave_what_a_map_would_hold() {
    for keys in Keys::ALL {
        for seed in 0..4 {
            let mut random = Random(seed << 40);
            let index = OrderedIndex::<Native>::default();
            let (mut model, mut batch) = (BTreeSet::new(), Batch::default());
            let mut approached = VecDeque::new();
            // Phases of mostly inserts and of mostly removals make the tree grow and shrink.
            for phase in 0..6 {
                for step in 0..2000 {
                    let key = keys.make(&mut random);
                    let row = random.below(if matches!(keys, Keys::Few) { 1000 } else { 3 });
                    let is_insert = random.below(10) < if phase % 2 == 0 { 8 } else { 1 };
                    if is_insert && random.below(2) == 0 {
                        // Finds the leaf long before, or just before, the insert of the entry.
                        approached.push_back((index.prefetch_leaf(&key), key, row));
                        while approached.len() as u64 > random.below(200) {
                            let Some((Some(spot), key, row)) = approached.pop_front() else {
                                panic!("no other thread changes the index");
                            };
                            index.insert_at(spot, &key, RowId(row), &mut yes);
                            model.insert((key, row));
                        }
                    } else if is_insert {
                        index.insert(&key, RowId(row), &mut yes);
                        model.insert((key, row));
                    } else {
                        let victim = model.range((key, row)..).next().cloned();
                        let Some((key, row)) = victim else { continue };
                        assert!(index.remove(&key, RowId(row), &mut yes).is_some());
                        assert_eq!(index.remove(&key, RowId(row), &mut yes), None);
                        model.remove(&(key, row));
                    }
                    if step % 100 == 0 {
                        check_ranges(&index, &model, keys, &mut random, &mut batch);
                    }
                }
            }
        }
    }
}

#[test]
fn an_index_emptied_in_any_order_is_empty_and_can_be_filled_again() {
    for order in 0..3 {
        let index = OrderedIndex::<Native>::default();
        let mut sizes = Vec::new();
        for _ in 0..3 {
            let key = |i: u64| format!("a common beginning {i:06}").into_bytes();
            for i in 0..20_000u64 {
                index.insert(&key(i), RowId(i), &mut yes);
            }
            for i in 0..20_000u64 {
                let i = match order {
                    0 => i,
                    1 => 19_999 - i,
                    _ => i * 7919 % 20_000,
                };
                assert!(index.remove(&key(i), RowId(i), &mut yes).is_some(), "{i}");
            }
            let (mut batch, mut observed) = (Batch::default(), 0);
            let all = KeyRange { from: Bound::Unbounded, to: Bound::Unbounded, descending: false };
            while index.batch(&all, &mut |_| observed += 1, &mut batch) {
                assert!(batch.is_empty());
            }
            assert!(observed <= 1, "{observed} leaves are left of an empty index");
            sizes.push((index.size().leaves, index.size().inner_nodes, index.size().key_words));
        }
        assert_eq!(sizes[0], sizes[2], "nodes and words are used again");
    }
}

#[test]
fn a_queue_that_moves_on_for_ever_stays_small_and_quick_at_its_front() {
    let index = OrderedIndex::<Native>::default();
    let key = |i: u64| [b"queue of district 7".as_slice(), &i.to_be_bytes()].concat();
    let mut batch = Batch::default();
    let mut size = None;
    for i in 0..200_000u64 {
        index.insert(&key(i), RowId(i), &mut yes);
        if i >= 500 {
            assert!(index.remove(&key(i - 500), RowId(i - 500), &mut yes).is_some());
        }
        if i % 1000 == 999 {
            let all = KeyRange { from: Bound::Unbounded, to: Bound::Unbounded, descending: false };
            batch.rewind();
            let mut leaves = 0;
            while index.batch(&all, &mut |_| leaves += 1, &mut batch) && batch.is_empty() {}
            assert!(leaves <= 3, "{leaves} leaves before the first entry after {i}");
            assert!(!batch.is_empty());
        }
        if i == 20_000 {
            size = Some((index.size().leaves, index.size().inner_nodes, index.size().key_words));
        }
    }
    let end = index.size();
    assert_eq!(size, Some((end.leaves, end.inner_nodes, end.key_words)));
}

#[test]
fn a_key_of_a_megabyte_is_kept_whole() {
    let index = OrderedIndex::<Native>::default();
    let keys: Vec<Vec<u8>> =
        (0..5usize).map(|i| [vec![9; 1 << 20], vec![i as u8; i * 3]].concat()).collect();
    for (i, key) in keys.iter().enumerate().rev() {
        index.insert(key, RowId(i as u64), &mut yes);
    }
    let all = KeyRange { from: Bound::Unbounded, to: Bound::Unbounded, descending: true };
    let found = scan(&index, &all, &mut Batch::default());
    let wanted: Vec<_> = (0..5u64).zip(keys).map(|(row, key)| (key, row)).collect();
    assert!(found.into_iter().rev().eq(wanted));
}

#[test]
fn a_refused_join_is_made_up_for_when_the_neighbour_goes() {
    let index = OrderedIndex::<Native>::default();
    let key = |i: u64| i.to_be_bytes();
    for i in 0..10_000 {
        index.insert(&key(i), RowId(i), &mut yes);
    }
    for i in 0..10_000 {
        let mut refuse_some = |_, _| i % 3 == 0 || i == 9_999;
        index.remove(&key(i), RowId(i), &mut refuse_some);
    }
    let mut leaves = BTreeSet::new();
    let all = KeyRange { from: Bound::Unbounded, to: Bound::Unbounded, descending: false };
    let mut batch = Batch::default();
    let mut observe = |guard| {
        leaves.insert(guard);
    };
    while index.batch(&all, &mut observe, &mut batch) {}
    assert_eq!(leaves.len(), 1, "{leaves:?}");
}
