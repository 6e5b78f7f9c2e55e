//! The guard protocol: an insert into a range gets the guard that an earlier scan of the range has
//! observed.
#![allow(clippy::unwrap_used)]

use std::collections::HashMap;
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};

use atoll_machine::Native;
use atoll_storage::RowId;
use atoll_storage::key::mix;
use atoll_storage::ordered::{Batch, GuardId, KeyRange, OrderedIndex};

fn yes(_: GuardId, _: GuardId) -> bool {
    true
}

fn key(i: u64) -> Vec<u8> {
    [b"common ".as_slice(), &i.to_be_bytes()].concat()
}

/// The scans that have observed each guard, as a set of bits.
#[derive(Default)]
struct Observed(HashMap<GuardId, u64>);

impl Observed {
    /// A split copies the state of the old guard to the new one, or refuses.
    fn split(&mut self, refuse: bool) -> impl FnMut(GuardId, GuardId) -> bool {
        move |old, new| {
            if refuse {
                return false;
            }
            // The number may have state of an earlier use; no leaf has it now.
            let known = *self.0.entry(old).or_default();
            self.0.insert(new, known);
            true
        }
    }

    /// A join adds the state of the removed leaf's guard; leaves that share that guard still need
    /// it.
    fn join(&mut self, from: GuardId, into: GuardId, refuse: bool) -> bool {
        assert_ne!(from, into);
        let known = self.0.get(&from).copied().unwrap_or(0);
        if !refuse {
            *self.0.entry(into).or_default() |= known;
        }
        !refuse
    }
}

#[test]
fn an_insert_into_a_scanned_range_returns_a_guard_that_the_scan_observed() {
    for refusals in [1, 3, u64::MAX] {
        let index = OrderedIndex::<Native>::default();
        let mut observed = Observed::default();
        let mut batch = Batch::default();
        let mut scans: Vec<(u64, u64)> = Vec::new();
        let mut joins = 0;
        let mut random = (1..).map(|i| mix(mix(i) ^ refusals));
        let mut draw = |limit: u64| random.next().unwrap() % limit;
        for step in 0..40_000u64 {
            let refuse = step % refusals == 1;
            let i = draw(3000);
            match draw(10) {
                0 if step > 5000 && scans.len() < 60 => {
                    let (from, to) = (i, i + draw(60));
                    let (low, high) = (key(from), key(to));
                    let range = KeyRange {
                        from: Bound::Included(&low),
                        to: Bound::Included(&high),
                        descending: step % 2 == 0,
                    };
                    let bit = 1u64 << scans.len();
                    batch.rewind();
                    let mut observe = |guard| *observed.0.entry(guard).or_default() |= bit;
                    while index.batch(&range, &mut observe, &mut batch) {}
                    scans.push((from, to));
                }
                1..=5 => {
                    let guard = index.insert(&key(i), RowId(i), &mut observed.split(refuse));
                    let known = observed.0.get(&guard).copied().unwrap_or(0);
                    for (scan, (from, to)) in scans.iter().enumerate() {
                        let is_told = known >> scan & 1 == 1;
                        assert!(is_told || !(*from..=*to).contains(&i), "{i} {from}..={to}");
                    }
                }
                // Removes stretches of keys, so that leaves become empty and join their neighbours.
                kind => {
                    for i in i..i + if kind == 9 && step % 64 == 0 { 200 } else { 1 } {
                        let removed = index.remove(&key(i), RowId(i), &mut |from, into| {
                            joins += 1;
                            observed.join(from, into, refuse)
                        });
                        let Some(guard) = removed else { continue };
                        let known = observed.0.get(&guard).copied().unwrap_or(0);
                        for (scan, (from, to)) in scans.iter().enumerate() {
                            let is_told = known >> scan & 1 == 1;
                            assert!(is_told || !(*from..=*to).contains(&i), "{i} {from}..={to}");
                        }
                    }
                }
            }
        }
        assert!(scans.len() == 60 && joins > 20, "{joins} joins, {:?}", index.size());
    }
}

fn fill(
    index: &OrderedIndex<Native>,
    keys: std::ops::Range<u64>,
    split: &mut dyn FnMut(GuardId, GuardId) -> bool,
) {
    for i in keys {
        index.insert(&key(i), RowId(i), split);
    }
}

fn empty(index: &OrderedIndex<Native>, keys: std::ops::Range<u64>) {
    for i in keys {
        assert!(index.remove(&key(i), RowId(i), &mut yes).is_some());
    }
}

#[test]
fn guards_of_removed_leaves_are_reused() {
    let index = OrderedIndex::<Native>::default();
    // The next key needs a leaf of its own.
    let mut rows = 0;
    while index.size().leaves < 2 {
        fill(&index, rows..rows + 1, &mut yes);
        rows += 1;
    }
    empty(&index, rows - 1..rows);
    // Every third split is refused.
    for round in 0..3000u64 {
        let last = 1_000_000 + round;
        fill(&index, last..last + 1, &mut |_, _| round % 3 > 0);
        empty(&index, last..last + 1);
    }
    let before = index.size().guards;
    assert!(before <= 3, "{:?}", index.size());
    for round in 0..100u64 {
        let first = 2_000_000 + round * 64;
        let insert = std::panic::AssertUnwindSafe(|| {
            fill(&index, first..first + 64, &mut |_, _| panic!("on purpose"));
        });
        assert!(std::panic::catch_unwind(insert).is_err() || round == 0);
    }
    assert!(index.size().guards <= before + 1, "{:?}", index.size());
}

#[test]
fn a_shared_guard_is_not_offered_before_its_last_leaf_is_removed() {
    let index = OrderedIndex::<Native>::default();
    // Three leaves, all with guard 0.
    fill(&index, 0..180, &mut |_, _| false);
    for gone in [170..180, 120..170] {
        empty(&index, gone);
        let mut offered = Vec::new();
        fill(&index, 1000..1300, &mut |_, new| {
            offered.push(new);
            true
        });
        assert!(!offered.is_empty() && !offered.contains(&GuardId(0)), "{offered:?}");
        empty(&index, 1000..1300);
    }
}

#[test]
fn an_empty_range_is_observed_and_an_inverted_one_is_not() {
    let index = OrderedIndex::<Native>::default();
    let mut batch = Batch::default();
    let mut seen = Vec::new();
    for descending in [false, true] {
        batch.rewind();
        let range = KeyRange { from: Bound::Included(b"b"), to: Bound::Excluded(b"c"), descending };
        assert!(!index.batch(&range, &mut |guard| seen.push(guard), &mut batch));
    }
    assert_eq!(seen, [GuardId(0), GuardId(0)]);
    batch.rewind();
    let range =
        KeyRange { from: Bound::Included(b"c"), to: Bound::Excluded(b"b"), descending: false };
    assert!(!index.batch(&range, &mut |_| panic!("nothing to keep free"), &mut batch));
}

/// A scan stores "seen" before it validates, and an insert loads it after its entry is visible: if
/// the scan has not read the entry, the insert has found "seen".
#[test]
fn a_scan_and_an_insert_at_once_do_not_both_miss_each_other() {
    let rounds = 20_000u64;
    let index = OrderedIndex::<Native>::default();
    let states: Vec<AtomicU64> = (0..5000).map(|_| AtomicU64::new(0)).collect();
    let state = |guard: GuardId| &states[guard.0 as usize];
    let split = |old: GuardId, new: GuardId| {
        state(new).store(state(old).load(Ordering::SeqCst), Ordering::SeqCst);
        true
    };
    for i in 0..1000 {
        index.insert(&key(i * 1000), RowId(i), &mut yes);
    }
    let barrier = std::sync::Barrier::new(2);
    let told = AtomicU64::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..=rounds {
                barrier.wait();
                let i = mix(round) % 1_000_000;
                let guard =
                    index.insert(&key(i), RowId(round + 5000), &mut |old, new| split(old, new));
                told.store(state(guard).load(Ordering::SeqCst), Ordering::SeqCst);
                barrier.wait();
            }
        });
        let mut batch = Batch::default();
        for round in 1..=rounds {
            let target = key(mix(round) % 1_000_000);
            let range = KeyRange {
                from: Bound::Included(&target),
                to: Bound::Included(&target),
                descending: round % 2 == 0,
            };
            barrier.wait();
            batch.rewind();
            let mut observe = |guard| {
                state(guard).fetch_max(round, Ordering::SeqCst);
            };
            let mut read = false;
            loop {
                let more = index.batch(&range, &mut observe, &mut batch);
                read |= batch.iter().any(|entry| entry.row == RowId(round + 5000));
                if !more {
                    break;
                }
            }
            barrier.wait();
            assert!(read || told.load(Ordering::SeqCst) == round, "round {round}");
        }
    });
}

#[test]
fn a_callback_that_panics_loses_no_entry_and_leaves_no_latch() {
    let index = OrderedIndex::<Native>::default();
    let mut inserted = 0;
    let panicked = (0..1000).any(|i| {
        let insert = std::panic::AssertUnwindSafe(|| {
            index.insert(&key(i * 37 % 1000), RowId(i), &mut |_, _| panic!("on purpose"));
        });
        let is_panic = std::panic::catch_unwind(insert).is_err();
        inserted += u64::from(!is_panic);
        is_panic
    });
    assert!(panicked);
    index.insert(&key(5000), RowId(1), &mut yes);
    let range = KeyRange { from: Bound::Unbounded, to: Bound::Unbounded, descending: false };
    let (mut batch, mut found) = (Batch::default(), 0);
    while {
        let more = index.batch(&range, &mut |_| {}, &mut batch);
        found += batch.len() as u64;
        more
    } {}
    assert_eq!(found, inserted + 1);
}
