//! The index alone and beside other threads.
#![allow(clippy::unwrap_used)]
use std::collections::HashMap;

use atoll_machine::{Native, Ordering, Word};

use super::bucket::{EMPTY, TAG_BITS};
use super::*;
use crate::key::mix;

#[test]
fn the_index_finds_what_was_inserted_and_not_removed() {
    let index = HashIndex::<Native>::default();
    let mut model = HashMap::new();
    for i in 0..200_000u64 {
        index.insert(mix(i), RowId(i * 7), |_| false, || ());
        model.insert(i, RowId(i * 7));
        if i % 3 == 0 {
            let removed = index.remove(mix(i / 2), RowId(i / 2 * 7));
            assert_eq!(removed, model.remove(&(i / 2)).is_some());
        }
    }
    for i in 0..200_000u64 {
        let found = index.find(mix(i), |row| row == RowId(i * 7));
        assert_eq!(found, model.get(&i).copied(), "key {i}");
    }
}

#[test]
fn displaced_entries_are_found_after_growth_and_removed_ones_are_not() {
    // All keys are in one part, in clusters: more entries have one home bucket than it holds,
    // so the others are in the bucket behind it or behind the next.
    let key = |bucket: u64, number: u64| bucket << 60 | number << 40 | 7;
    let index = HashIndex::<Native>::default();
    let mut left = HashMap::new();
    let mut row = 0;
    for round in 0..40_u64 {
        for bucket in 0..16 {
            for number in round * 16..round * 16 + 9 + bucket % 5 {
                row += 1;
                index.insert(key(bucket, number), RowId(row), |_| false, || ());
                left.insert(row, key(bucket, number));
            }
        }
        let gone: Vec<u64> = left.keys().copied().filter(|row| row % 7 == round % 7).collect();
        for row in gone {
            assert!(left.remove(&row).is_some_and(|hash| index.remove(hash, RowId(row))));
        }
        for one in 1..=row {
            let hash = left.get(&one).copied();
            let found = (0..16).flat_map(|bucket| (0..656).map(move |at| (bucket, at)));
            match hash {
                Some(hash) => {
                    assert_eq!(index.find(hash, |row| row.0 == one), Some(RowId(one)));
                    assert!(!index.lacks(hash), "round {round}, row {one}");
                }
                None if one % 101 == 0 => {
                    let mut all = found.map(|(bucket, at)| key(bucket, at));
                    assert!(all.all(|hash| index.find(hash, |row| row.0 == one).is_none()));
                }
                None => {}
            }
        }
    }
    let tables = index.part(7).part.current.load(Ordering::Relaxed);
    assert!(tables > 4, "it has grown {tables} times");
}

#[test]
fn room_that_was_made_changes_nothing_else() {
    let index = HashIndex::<Native>::default();
    let add = |i| assert_eq!(index.insert(mix(i), RowId(i), |_| false, || ()), None);
    (0..100u64).for_each(add);
    for rows in [0, 1, 50_000, 10_000] {
        index.reserve(rows);
        assert!((0..100).all(|i| index.find(mix(i), |row| row == RowId(i)).is_some()));
    }
    let tables = |index: &HashIndex<Native>| -> u64 {
        (0..PARTS as u64).map(|part| index.part(part).part.current.load(Ordering::Relaxed)).sum()
    };
    let before = tables(&index);
    (100..50_000u64).for_each(add);
    assert_eq!(tables(&index), before, "no part has grown");
    assert!((0..50_000).all(|i| index.find(mix(i), |row| row == RowId(i)).is_some()));
}

#[test]
fn the_callback_of_an_insert_runs_before_the_row_can_be_found_and_only_if_it_is_added() {
    let index = HashIndex::<Native>::default();
    let mut calls = 0;
    let other = index.insert(
        7,
        RowId(1),
        |_| true,
        || {
            calls += 1;
            assert_eq!(index.find(7, |_| true), None);
        },
    );
    assert_eq!((other, calls), (None, 1));
    assert_eq!(index.insert(7, RowId(2), |_| true, || calls += 1), Some(RowId(1)));
    assert_eq!((index.find(7, |_| true), calls), (Some(RowId(1)), 1));
}

#[test]
fn the_caller_distinguishes_rows_with_the_same_hash() {
    let index = HashIndex::<Native>::default();
    for i in 0..2000 {
        index.insert(42, RowId(i), |_| false, || ());
    }
    assert_eq!(index.find(42, |row| row == RowId(13)), Some(RowId(13)));
    assert_eq!(index.find(42, |_| false), None);
}

#[test]
fn lookups_beside_rows_that_come_and_go_in_the_same_buckets_miss_nothing_that_was_there() {
    let index = HashIndex::<Native>::default();
    // All keys are in one part, and their tags differ in the last bit only, so they share a few
    // buckets.
    let hash = |key: u64| 0xabcd_0000_0000_0000 | (key % 2) << (64 - TAG_BITS);
    let add = |i: u64| {
        assert_eq!(index.insert(hash(i), RowId(i), |row| row == RowId(i), || ()), None);
    };
    (0..6).for_each(add);
    std::thread::scope(|scope| {
        let stays = scope.spawn(|| {
            for round in 0..400_000u64 {
                let i = round % 6;
                let found = index.find(hash(i), |row| {
                    assert_eq!(hash(row.0), hash(i), "an entry of another hash");
                    row == RowId(i)
                });
                assert_eq!(found, Some(RowId(i)));
            }
        });
        let mut i = 6;
        while !stays.is_finished() {
            (i..i + 4).for_each(add);
            (i..i + 4).for_each(|i| assert!(index.remove(hash(i), RowId(i))));
            i += 1;
        }
    });
}

#[test]
fn a_latched_bucket_cannot_be_latched_again_and_can_be_read() {
    let line = WordLine(std::array::from_fn(|_| Word::new(EMPTY)));
    let bucket = Bucket::<Native>(&line);
    let mut latched = bucket.try_latch().unwrap();
    assert!((0..3).all(|_| bucket.try_latch().is_none()));
    for (at, row) in [(1, 7), (0, 5)] {
        assert_eq!(latched.position(|word| word == entry(1 << 60, RowId(row))), None);
        latched.put(at, entry(1 << 60, RowId(row)));
    }
    let found = |row| bucket.find(1 << 60, &mut |other| other == RowId(row));
    assert_eq!((found(7), found(5)), (Ok(RowId(7)), Err(false)), "the first word comes last");
    assert!((0..3).all(|_| bucket.try_latch().is_none()));
    drop(latched);
    assert_eq!((found(7), found(5)), (Ok(RowId(7)), Ok(RowId(5))));
    assert!(bucket.try_latch().is_some());
}

#[test]
fn a_table_that_only_inserts_have_filled_is_nearly_full() {
    let index = HashIndex::<Native>::default();
    for i in 0..600_000_u64 {
        index.insert(mix(i), RowId(i), |_| false, || ());
        if i % 50_000 == 49_999 {
            let tables = (0..PARTS as u64).map(|part| index.part(part).table(part));
            let words: usize = tables.map(|table| table.buckets.len() * BUCKET).sum();
            assert!(words < 7 * (i as usize + 1) / 4, "{words} words for {} rows", i + 1);
        }
    }
}

#[test]
fn rows_that_come_and_go_leave_lookups_of_absent_keys_short() {
    let index = HashIndex::<Native>::default();
    for i in 0..400_000_u64 {
        index.insert(mix(i), RowId(i), |_| false, || ());
        if i >= 5000 {
            assert!(index.remove(mix(i - 5000), RowId(i - 5000)));
        }
    }
    for part in 0..PARTS as u64 {
        let table = index.part(part).table(part);
        assert!(table.probes() <= 8, "an absent key takes {} buckets", table.probes());
        assert!(table.buckets.len() * BUCKET < 5000, "the table of a part has grown for ever");
    }
}
