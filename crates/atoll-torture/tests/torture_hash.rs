//! The hash index under seeded schedules: of several threads that add the same key, one succeeds,
//! while other keys come and go in the same buckets and while the index grows.
#![allow(clippy::unwrap_used)]

use std::cell::RefCell;
use std::rc::Rc;

use atoll_bench::keys::Random;
use atoll_storage::RowId;
use atoll_storage::index::HashIndex;
use atoll_storage::key::mix;
use atoll_torture::machine::Stepped;
use atoll_torture::stage::{Ended, Part, play};

const THREADS: u64 = 3;
const KEYS: u64 = 40;
const SEEDS: u64 = 300;

/// All hashes are in one part.
fn hash(key: u64) -> u64 {
    mix(key) & !0x3f
}

fn key_of(row: RowId) -> u64 {
    row.0 / THREADS
}

/// The rows that were added, after each thread has tried all keys and removed some of its own.
fn run(seed: u64) -> Vec<RowId> {
    let index: Rc<HashIndex<Stepped>> = Rc::default();
    let there: Rc<RefCell<Vec<RowId>>> = Rc::default();
    let part = |thread: u64| -> Part {
        let (index, there) = (Rc::clone(&index), Rc::clone(&there));
        let mut random = Random::new(seed ^ thread << 32);
        Box::new(move || {
            for key in 0..KEYS {
                let (row, hash) = (RowId(key * THREADS + thread), hash(key));
                if index.insert(hash, row, |other| key_of(other) == key, || ()).is_none() {
                    there.borrow_mut().push(row);
                    assert_eq!(index.find(hash, |other| key_of(other) == key), Some(row));
                }
                assert!(!index.lacks(hash), "key {key} is there");
                // Keys of this thread only.
                let passing = KEYS * (1 + thread) + random.below(KEYS);
                let (row, hash) = (RowId(passing * THREADS), mix(passing) & !0x3f);
                assert_eq!(index.insert(hash, row, |other| other == row, || ()), None);
                assert!(index.remove(hash, row));
            }
        })
    };
    let played = play(seed, 2_000_000, false, (0..THREADS).map(part).collect());
    assert_eq!(played.ended, Ended::Well, "seed {seed}");
    for row in there.borrow().iter() {
        let found = index.find(hash(key_of(*row)), |other| key_of(other) == key_of(*row));
        assert_eq!(found, Some(*row), "seed {seed}");
    }
    there.take()
}

#[test]
fn a_key_that_several_add_is_added_by_one() {
    let mut by_thread = [0; THREADS as usize];
    for seed in 0..SEEDS {
        let rows = run(seed);
        rows.iter().for_each(|row| by_thread[(row.0 % THREADS) as usize] += 1);
        let mut keys: Vec<u64> = rows.into_iter().map(key_of).collect();
        keys.sort_unstable();
        assert!(keys.into_iter().eq(0..KEYS), "seed {seed}: each once");
    }
    assert!(by_thread.into_iter().all(|count| count > 0), "{by_thread:?}");
}
