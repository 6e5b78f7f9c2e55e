//! The ordered index under threads, on the real machine and on one that yields at every word.
#![allow(clippy::unwrap_used)]

mod yielding;

use std::ops::Bound;
use std::sync::atomic::{AtomicBool, Ordering as Native};

use atoll_machine::Machine;
use atoll_storage::RowId;
use atoll_storage::key::mix;
use atoll_storage::ordered::{Batch, GuardId, KeyRange, OrderedIndex};
use yielding::Yielding;

/// Keys of 8 bytes and of more, mixed; every third key stays for the whole test.
fn key(i: u64) -> Vec<u8> {
    let number = i.to_be_bytes();
    if i.is_multiple_of(2) { number.to_vec() } else { [&number[..], b"and more of it"].concat() }
}

fn stays(i: u64) -> bool {
    i.is_multiple_of(3)
}

fn yes(_: GuardId, _: GuardId) -> bool {
    true
}

fn keys_of<M: Machine>(index: &OrderedIndex<M>, descending: bool, batch: &mut Batch) -> Vec<u64> {
    let range = KeyRange { from: Bound::Unbounded, to: Bound::Unbounded, descending };
    let mut found = Vec::new();
    batch.rewind();
    loop {
        let more = index.batch(&range, &mut |_| {}, batch);
        found.extend(batch.iter().map(|entry| {
            let i = u64::from_be_bytes(*entry.key.first_chunk().unwrap());
            assert_eq!(entry.key, key(i), "a key that no thread wrote");
            assert_eq!(entry.row, RowId(i), "a row of another key");
            i
        }));
        if !more {
            return found;
        }
    }
}

/// Two writers insert and remove keys of their own, in turns of a random length, while scans run.
fn churn<M: Machine>(keys: u64, rounds: u64, writers: u64) {
    let index = OrderedIndex::<M>::default();
    for i in (0..keys).filter(|i| stays(*i)) {
        index.insert(&key(i), RowId(i), &mut yes);
    }
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..writers)
            .map(|writer| {
                let index = &index;
                scope.spawn(move || {
                    let own = |i: &u64| !stays(*i) && i / 3 % writers == writer;
                    for round in 0..rounds {
                        let start = mix(round) % keys;
                        let len = mix(round + 7) % keys;
                        let chosen = (start..keys.min(start + len)).filter(own);
                        let prefetch_leaf = |i| (i, index.prefetch_leaf(&key(i)));
                        // Some spots are found just before the insert, some while other inserts
                        // still follow.
                        let ahead: Vec<_> = chosen.clone().filter(|i| i % 2 == 0).collect();
                        let ahead: Vec<_> = ahead.into_iter().map(prefetch_leaf).collect();
                        let now = chosen.clone().filter(|i| i % 2 == 1).map(prefetch_leaf);
                        for (i, spot) in now.chain(ahead) {
                            match spot {
                                Some(spot) => index.insert_at(spot, &key(i), RowId(i), &mut yes),
                                None => index.insert(&key(i), RowId(i), &mut yes),
                            };
                        }
                        for i in chosen {
                            assert!(index.remove(&key(i), RowId(i), &mut yes).is_some());
                        }
                    }
                    for i in (0..keys).filter(own) {
                        index.insert(&key(i), RowId(i), &mut yes);
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            let mut batch = Batch::default();
            let mut descending = false;
            while !done.load(Native::Relaxed) {
                let mut found = keys_of(&index, descending, &mut batch);
                if descending {
                    found.reverse();
                }
                assert!(found.is_sorted_by(|left, right| left < right), "order or twice");
                let stayed = found.into_iter().filter(|i| stays(*i));
                assert!(stayed.eq((0..keys).filter(|i| stays(*i))), "an entry was not seen");
                descending = !descending;
            }
        });
        let results: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        done.store(true, Native::Relaxed);
        results.into_iter().for_each(|result| result.unwrap());
    });
    assert!(keys_of(&index, false, &mut Batch::default()).into_iter().eq(0..keys));
}

#[test]
fn entries_that_stay_are_seen_by_every_scan_and_none_is_lost() {
    churn::<atoll_machine::Native>(6000, 300, 2);
}

#[test]
fn the_same_holds_when_threads_lose_the_cpu_at_any_word() {
    churn::<Yielding>(400, 12, 3);
}

#[test]
fn threads_that_insert_the_same_keys_leave_each_once() {
    let index = OrderedIndex::<atoll_machine::Native>::default();
    std::thread::scope(|scope| {
        for thread in 0..3u64 {
            let index = &index;
            scope.spawn(move || {
                for round in 0..30_000 {
                    let i = if thread == 2 { 29_999 - round } else { round };
                    index.insert(&key(i), RowId(i), &mut yes);
                }
            });
        }
    });
    assert!(keys_of(&index, false, &mut Batch::default()).into_iter().eq(0..30_000));
}

#[test]
fn queues_with_a_writer_at_each_end_are_emptied_in_order() {
    const QUEUES: u64 = 2;
    let index = OrderedIndex::<atoll_machine::Native>::default();
    let name = |queue: u64, i: u64| [queue.to_be_bytes(), i.to_be_bytes()].concat();
    std::thread::scope(|scope| {
        for queue in 0..QUEUES {
            let index = &index;
            scope.spawn(move || {
                for i in 0..20_000 {
                    index.insert(&name(queue, i), RowId(i), &mut yes);
                }
            });
            scope.spawn(move || {
                let (from, to) = (name(queue, 0), name(queue + 1, 0));
                let range = KeyRange {
                    from: Bound::Included(&from),
                    to: Bound::Excluded(&to),
                    descending: false,
                };
                let (mut batch, mut next) = (Batch::default(), 0);
                while next < 20_000 {
                    batch.rewind();
                    let more = index.batch(&range, &mut |_| {}, &mut batch);
                    if !more && batch.is_empty() {
                        std::thread::yield_now();
                    }
                    for entry in batch.iter() {
                        assert_eq!(entry.row, RowId(next));
                        assert!(index.remove(entry.key, entry.row, &mut yes).is_some());
                        next += 1;
                    }
                    while batch.is_empty() && index.batch(&range, &mut |_| {}, &mut batch) {}
                }
            });
        }
    });
    assert!(index.size().leaves < 2000, "{:?}", index.size());
}
