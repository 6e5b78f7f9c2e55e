//! The ordered index under seeded schedules: entries that stay are always seen, order is kept, and
//! a thread that inserts into a range that was read meets the reader at the guard.
#![allow(clippy::unwrap_used)]

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::rc::Rc;

use atoll_bench::keys::Random;
use atoll_storage::RowId;
use atoll_storage::ordered::{Batch, GuardId, KeyRange, OrderedIndex};
use atoll_torture::machine::Stepped;
use atoll_torture::stage::{Ended, Part, play};

const KEYS: u64 = 160;

/// What is known of a key: whether it is present, and how often that has changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Known {
    is_there: bool,
    changes: u64,
}

/// An entry that was added, and the readers that its guard had then.
struct Added {
    key: u64,
    changes: u64,
    met: BTreeSet<usize>,
}

#[derive(Default)]
struct World {
    known: BTreeMap<u64, Known>,
    /// The readers that observed each guard.
    watchers: BTreeMap<u32, BTreeSet<usize>>,
    added: Vec<Added>,
    readers: usize,
    splits: u64,
    joins: u64,
}

type Shared = Rc<RefCell<World>>;

fn bytes(key: u64, is_long: bool) -> Vec<u8> {
    let mut bytes = if is_long { b"all keys begin so: ".to_vec() } else { Vec::new() };
    bytes.extend(key.to_be_bytes());
    bytes
}

fn change(index: &OrderedIndex<Stepped>, world: &Shared, key: u64, is_long: bool, agree: u64) {
    let insert = !world.borrow().known[&key].is_there;
    world.borrow_mut().known.get_mut(&key).unwrap().changes += 1;
    let hand_on = |old: u32, new: u32| {
        let mut world = world.borrow_mut();
        let watchers = world.watchers.get(&old).cloned().unwrap_or_default();
        world.watchers.entry(new).or_default().extend(watchers);
    };
    let (row, encoded) = (RowId(key), bytes(key, is_long));
    let mut guard = None;
    if insert {
        let mut split = |old: GuardId, new: GuardId| {
            world.borrow_mut().splits += 1;
            hand_on(old.0, new.0);
            !agree.is_multiple_of(4)
        };
        let spot = if agree.is_multiple_of(3) { None } else { index.prefetch_leaf(&encoded) };
        guard = Some(match spot {
            Some(spot) => index.insert_at(spot, &encoded, row, &mut split),
            None => index.insert(&encoded, row, &mut split),
        });
    } else {
        let found = index.remove(&encoded, row, &mut |from, into| {
            world.borrow_mut().joins += 1;
            hand_on(from.0, into.0);
            !agree.is_multiple_of(8)
        });
        assert!(found.is_some(), "key {key} was there");
    }
    let mut world = world.borrow_mut();
    let known = world.known.get_mut(&key).unwrap();
    (known.is_there, known.changes) = (insert, known.changes + 1);
    let changes = known.changes;
    if let Some(guard) = guard {
        let met = world.watchers.get(&guard.0).cloned().unwrap_or_default();
        world.added.push(Added { key, changes, met });
    }
}

fn read(
    index: &OrderedIndex<Stepped>,
    world: &Shared,
    (from, to): (u64, u64),
    is_long: bool,
    descending: bool,
) -> BTreeSet<u64> {
    let (reader, before) = {
        let mut world = world.borrow_mut();
        world.readers += 1;
        (world.readers, world.known.clone())
    };
    let (low, high) = (bytes(from, is_long), bytes(to, is_long));
    let range = KeyRange { from: Bound::Included(&low), to: Bound::Included(&high), descending };
    let mut batch = Batch::default();
    let mut seen: Vec<u64> = Vec::new();
    loop {
        let more = index.batch(
            &range,
            &mut |guard| {
                world.borrow_mut().watchers.entry(guard.0).or_default().insert(reader);
            },
            &mut batch,
        );
        seen.extend(batch.iter().map(|found| {
            assert_eq!(found.key, bytes(found.row.0, is_long));
            found.row.0
        }));
        if !more {
            break;
        }
    }
    if descending {
        seen.reverse();
    }
    assert!(seen.is_sorted_by(|one, two| one < two), "{seen:?}");
    let seen: BTreeSet<u64> = seen.into_iter().collect();
    let world = world.borrow();
    for key in from..=to.min(KEYS - 1) {
        let (then, now) = (before[&key], world.known[&key]);
        if then == now {
            let is_settled = then.changes % 2 == 0;
            assert!(!is_settled || seen.contains(&key) == then.is_there, "key {key}: {then:?}");
        }
    }
    // An entry that was added unseen, and is still present, has met this reader.
    for Added { key, changes, met } in &world.added {
        let stays = world.known[key].changes == *changes;
        if stays && (from..=to).contains(key) && !seen.contains(key) {
            assert!(met.contains(&reader), "key {key} came unseen and unmet");
        }
    }
    seen
}

fn run(seed: u64) -> (u64, u64) {
    let mut random = Random::new(seed);
    let index: Rc<OrderedIndex<Stepped>> = Rc::default();
    let world: Shared = Rc::default();
    let is_long = seed % 2 == 1;
    let first = 40 + random.below(60);
    for key in 0..KEYS {
        world.borrow_mut().known.insert(key, Known::default());
        if key % 2 == 0 && key / 2 < first {
            change(&index, &world, key, is_long, 1);
        }
    }
    let writers = 2 + random.below(2);
    let mut parts: Vec<Part> = Vec::new();
    for writer in 0..writers {
        let (index, world) = (Rc::clone(&index), Rc::clone(&world));
        let mut random = Random::new(random.word());
        parts.push(Box::new(move || {
            // Whole ranges are added or removed, so that leaves fill up and become empty.
            for _ in 0..4 {
                let comes = random.below(5) < 2;
                let (start, count) = (random.below(KEYS), 1 + random.below(120));
                let keys = (start..start + count).map(|key| key % KEYS);
                for key in keys.filter(|key| key % writers == writer) {
                    if world.borrow().known[&key].is_there == comes {
                        continue;
                    }
                    change(&index, &world, key, is_long, random.word());
                }
            }
        }));
    }
    for _ in 0..2 {
        let (index, world) = (Rc::clone(&index), Rc::clone(&world));
        let mut random = Random::new(random.word());
        parts.push(Box::new(move || {
            for _ in 0..4 {
                let from = random.below(KEYS);
                let range = (from, from + random.below(KEYS));
                read(&index, &world, range, is_long, random.below(2) == 0);
            }
        }));
    }
    let played = play(seed, 2_000_000, false, parts);
    assert_eq!(played.ended, Ended::Well, "seed {seed}");
    let seen = read(&index, &world, (0, KEYS), is_long, false);
    let world = world.borrow();
    let there = world.known.iter().filter(|(_, known)| known.is_there).map(|(key, _)| *key);
    assert_eq!(seen, there.collect::<BTreeSet<u64>>(), "seed {seed}");
    (world.splits, world.joins)
}

#[test]
fn ranges_keep_what_stays_and_guards_meet_who_comes() {
    let (mut splits, mut joins) = (0, 0);
    for seed in 0..3000 {
        let (more_splits, more_joins) = run(seed);
        splits += more_splits;
        joins += more_joins;
    }
    println!("{splits} splits, {joins} joins");
    assert!(splits > 3000 && joins > 300, "{splits} splits, {joins} joins");
}
