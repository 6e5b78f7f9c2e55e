//! The hash index under concurrency, on the real machine and on one that yields at every word and
//! zeroes discarded memory.
#![allow(clippy::unwrap_used)]

mod yielding;

use std::sync::atomic::{AtomicU64, Ordering};

use atoll_machine::{Machine, Native};
use atoll_storage::RowId;
use atoll_storage::index::HashIndex;
use atoll_storage::key::mix;
use yielding::Yielding;

/// Hashes of one part of the index, so that the part grows often and all threads share few buckets.
fn hash(key: u64) -> u64 {
    mix(key) & !0x3f
}

/// All threads insert the same keys.
fn add_at_once<M: Machine>(keys: u64) {
    const THREADS: u64 = 4;
    let index = HashIndex::<M>::default();
    let key_of = |row: RowId| row.0 / THREADS;
    let added: Vec<Vec<u64>> = std::thread::scope(|scope| {
        let add = |thread: u64| {
            let index = &index;
            move || {
                let is_mine = |key: &u64| {
                    let row = RowId(key * THREADS + thread);
                    let other = index.insert(hash(*key), row, |row| key_of(row) == *key, || ());
                    assert!(other.is_none_or(|row| key_of(row) == *key));
                    assert!(!index.lacks(hash(*key)), "key {key} is there");
                    other.is_none()
                };
                (0..keys).filter(is_mine).collect()
            }
        };
        let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(add(thread))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let mut all = added.concat();
    all.sort_unstable();
    assert!(all.into_iter().eq(0..keys), "each once");
    for (thread, keys) in added.iter().enumerate() {
        for key in keys {
            let row = RowId(key * THREADS + thread as u64);
            assert_eq!(index.find(hash(*key), |row| key_of(row) == *key), Some(row));
            assert!(index.remove(hash(*key), row) && !index.remove(hash(*key), row));
            assert_eq!(index.find(hash(*key), |row| key_of(row) == *key), None);
        }
    }
}

/// Rows are inserted and removed in the same buckets while the index grows with rows that stay.
fn come_and_go<M: Machine>(rounds: u64) {
    let index = HashIndex::<M>::default();
    // Two hashes for all rows, so that the threads contend.
    let hash_of = |round: u64, thread: u64| hash(round / 64 * 2 + thread % 2);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let index = &index;
            scope.spawn(move || {
                for round in 0..rounds {
                    let row = RowId(round * 4 + thread);
                    let hash = hash_of(round, thread);
                    let told = index.insert(hash, row, |other| other == row, || ());
                    assert_eq!(told, None);
                    if round % 8 != 0 {
                        assert!(index.remove(hash, row), "{row:?}");
                    }
                }
            });
        }
    });
    for (round, thread) in (0..rounds).flat_map(|round| (0..4).map(move |thread| (round, thread))) {
        let row = RowId(round * 4 + thread);
        let stays = (round % 8 == 0).then_some(row);
        assert_eq!(index.find(hash_of(round, thread), |other| other == row), stays);
    }
}

/// Lookups that run while another thread makes the index grow miss no row that was inserted before.
fn look_beside_growth<M: Machine>(keys: u64) {
    let index = HashIndex::<M>::default();
    let added = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let adds = scope.spawn(|| {
            for key in 0..keys {
                assert_eq!(index.insert(hash(key), RowId(key), |_| false, || ()), None);
                added.store(key + 1, Ordering::Release);
            }
        });
        for round in 0.. {
            let (is_last, added) = (adds.is_finished(), added.load(Ordering::Acquire));
            if let Some(key) = mix(round).checked_rem(added) {
                let found = index.find(hash(key), |row| row == RowId(key));
                assert_eq!(found, Some(RowId(key)), "with {added} keys");
                assert!(!index.lacks(hash(key)), "key {key} is there");
            }
            if is_last {
                return;
            }
        }
    });
}

#[test]
fn a_key_that_several_add_at_once_is_added_by_one_of_them() {
    add_at_once::<Native>(20_000);
    add_at_once::<Yielding>(2000);
}

#[test]
fn rows_that_come_and_go_at_once_beside_growth_leave_what_stays() {
    come_and_go::<Native>(60_000);
    come_and_go::<Yielding>(2000);
}

#[test]
fn lookups_beside_growth_miss_nothing_that_was_there() {
    look_beside_growth::<Native>(400_000);
    look_beside_growth::<Yielding>(4000);
}
