//! Three races of TICTOC. A leaf is split beside a reader that commits: a transaction that inserts
//! into the new part is ordered after the reader, or the reader aborts. A reader extends the read
//! timestamp of a row without success: no transaction takes that for the timestamp of the version
//! that is being replaced. A transaction ends with an error: everything it has read was valid at
//! one time, as if it had committed.
#![allow(clippy::unwrap_used)]

use std::cell::Cell;
use std::rc::Rc;

use atoll_storage::TableId;
use atoll_torture::machine::Stepped;
use atoll_torture::stage::{Ended, Part, play};
use atoll_txn::scheme::{Guarded, Place, Section, Start, States, Target};
use atoll_txn::schemes::tictoc::{GapState, Local, State, TicToc};
use atoll_txn::{Scheme, SchemeOptions};

const SEEDS: u64 = 2000;
const CUTS: u64 = 1;

/// Two rows, and a gap with the gap that results from splitting it.
#[derive(Default)]
struct Few {
    rows: [State<Stepped>; 2],
    gaps: [GapState<Stepped>; 2],
}

impl States<State<Stepped>, GapState<Stepped>> for Few {
    fn row(&self, place: Place) -> &State<Stepped> {
        let Guarded::Row(row) = place.what() else { unreachable!("{place:?} is no row") };
        &self.rows[row as usize]
    }

    fn gap(&self, place: Place) -> &GapState<Stepped> {
        let Guarded::Gap(_, gap) = place.what() else { unreachable!("{place:?} is no gap") };
        &self.gaps[gap as usize]
    }
}

struct World {
    scheme: TicToc<Stepped>,
    few: Few,
}

impl World {
    fn gap(&self, number: u32) -> (Place, &GapState<Stepped>) {
        (Place::gap(TableId(0), 1, number), &self.few.gaps[number as usize])
    }

    fn row(&self, number: usize) -> Target<'_, State<Stepped>> {
        Target { place: Place::row(TableId(0), number as u64), state: &self.few.rows[number] }
    }

    fn write_row(&self, local: &mut Local, number: usize) {
        self.scheme.write(local, &self.few, self.row(number), true).unwrap();
    }

    /// The commit timestamp of a transaction, if it could commit.
    fn commit(&self, local: &mut Local) -> Option<u64> {
        self.commit_and(local, || ())
    }

    /// As [`World::commit`]; calls `store` at the time when a transaction stores.
    fn commit_and(&self, local: &mut Local, store: impl FnOnce()) -> Option<u64> {
        if self.scheme.prepare(local, &self.few).is_err() {
            self.scheme.end(local, &self.few, false);
            return None;
        }
        let section = Section { cuts: CUTS, is_part: false };
        let is_good = self.scheme.validate(local, &self.few, section).is_ok();
        if is_good {
            store();
        }
        let at = self.scheme.stamp(local);
        self.scheme.end(local, &self.few, is_good);
        is_good.then_some(at)
    }
}

/// The commit timestamps of the reader and of the transaction that split its gap.
fn run(seed: u64) -> (Option<u64>, u64) {
    let scheme = TicToc::new(&SchemeOptions::default());
    let world = Rc::new(World { scheme, few: Few::default() });
    let begin = |local: &mut Local| world.scheme.begin(local, &Start::default()).unwrap();
    let [mut other, mut reader, mut splitter] = [0, 1, 2].map(|at| world.scheme.local(at));
    // The splitter has seen only old timestamps, and the reader replaces something new.
    begin(&mut splitter);
    world.commit(&mut splitter).unwrap();
    for _ in 0..10 {
        begin(&mut other);
        world.write_row(&mut other, 0);
        world.commit(&mut other).unwrap();
    }
    begin(&mut reader);
    let (at, gap) = world.gap(0);
    world.scheme.read_gap(&mut reader, at, gap).unwrap();
    world.write_row(&mut reader, 0);
    let ends = Rc::new([Cell::new(None), Cell::new(None)]);
    let reads: Part = {
        let (world, ends) = (Rc::clone(&world), Rc::clone(&ends));
        Box::new(move || ends[0].set(world.commit(&mut reader)))
    };
    let splits: Part = {
        let (world, ends) = (Rc::clone(&world), Rc::clone(&ends));
        Box::new(move || {
            let World { scheme, .. } = &*world;
            scheme.begin(&mut splitter, &Start::default()).unwrap();
            assert!(scheme.split(&mut splitter, world.gap(0), world.gap(1)));
            let (at, gap) = world.gap(1);
            scheme.insert_into_gap(&mut splitter, at, gap).unwrap();
            ends[1].set(world.commit(&mut splitter));
        })
    };
    assert_eq!(play(seed, 10_000, false, vec![reads, splits]).ended, Ended::Well);
    (ends[0].get(), ends[1].get().unwrap())
}

#[test]
fn who_adds_to_a_part_of_a_gap_comes_after_those_who_watched_the_whole() {
    let mut seen = [0; 2];
    for seed in 0..SEEDS {
        let (reader, splitter) = run(seed);
        assert!(reader.is_none_or(|reader| reader < splitter), "seed {seed}");
        seen[usize::from(reader.is_some())] += 1;
    }
    assert!(seen.into_iter().all(|count| count > 0), "both ways: {seen:?}");
}

/// The value of the first row after two transactions that add one to it, and how many of them
/// committed. A third transaction reads the row and commits late.
fn count(seed: u64) -> (u64, u64) {
    let scheme = TicToc::new(&SchemeOptions::default());
    let world = Rc::new(World { scheme, few: Few::default() });
    world.few.rows.iter().for_each(TicToc::<Stepped>::adopt);
    // The first commit of an epoch is ordered after all commits before it, so it is made before
    // there are any.
    let [mut other, mut reader, one, two] = [0, 1, 2, 3].map(|at| {
        let mut local = world.scheme.local(at);
        world.scheme.begin(&mut local, &Start::default()).unwrap();
        world.commit(&mut local).unwrap();
        local
    });
    for _ in 0..10 {
        world.scheme.begin(&mut other, &Start::default()).unwrap();
        world.write_row(&mut other, 1);
        world.commit(&mut other).unwrap();
    }
    let (held, commits) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    let mut parts: Vec<Part> = Vec::new();
    for mut local in [one, two] {
        let (world, held, commits) = (Rc::clone(&world), Rc::clone(&held), Rc::clone(&commits));
        parts.push(Box::new(move || {
            world.scheme.begin(&mut local, &Start::default()).unwrap();
            let mut seen = 0;
            let mut look = |_: Option<&_>| {
                seen = held.get();
                true
            };
            if world.scheme.read(&mut local, &world.few, world.row(0), &mut look).is_err() {
                return world.scheme.end(&mut local, &world.few, false);
            }
            world.write_row(&mut local, 0);
            if world.commit_and(&mut local, || held.set(seen + 1)).is_some() {
                commits.set(commits.get() + 1);
            }
        }));
    }
    let reads = Rc::clone(&world);
    parts.push(Box::new(move || {
        let world = reads;
        world.scheme.begin(&mut reader, &Start::default()).unwrap();
        if world.scheme.read(&mut reader, &world.few, world.row(0), &mut |_| true).is_ok() {
            world.write_row(&mut reader, 1);
            world.commit(&mut reader);
        }
    }));
    assert_eq!(play(seed, 10_000, false, parts).ended, Ended::Well);
    (held.get(), commits.get())
}

#[test]
fn no_addition_is_lost_beside_a_reader_that_extends_a_row_in_vain() {
    let mut both = 0;
    for seed in 0..SEEDS * 10 {
        let (held, commits) = count(seed);
        assert_eq!(held, commits, "seed {seed}");
        both += u64::from(commits == 2);
    }
    assert!(both > 0, "they were never one after the other");
}

#[test]
fn who_changes_what_was_read_by_one_that_fails_comes_after_all_that_it_read() {
    for is_gap in [false, true] {
        let world = World { scheme: TicToc::new(&SchemeOptions::default()), few: Few::default() };
        world.few.rows.iter().for_each(TicToc::<Stepped>::adopt);
        let begin = |local: &mut Local| world.scheme.begin(local, &Start::default()).unwrap();
        let [mut other, mut reader, mut writer] = [0, 1, 2].map(|at| world.scheme.local(at));
        // The first commit of an epoch is ordered after all commits before it, so it is made before
        // there are any.
        begin(&mut writer);
        world.commit(&mut writer).unwrap();
        // One old timestamp, and one new.
        begin(&mut reader);
        if is_gap {
            let (at, gap) = world.gap(0);
            world.scheme.read_gap(&mut reader, at, gap).unwrap();
        } else {
            world.scheme.read(&mut reader, &world.few, world.row(0), &mut |_| true).unwrap();
        }
        let mut newest = 0;
        for _ in 0..10 {
            begin(&mut other);
            world.write_row(&mut other, 1);
            newest = world.commit(&mut other).unwrap();
        }
        world.scheme.read(&mut reader, &world.few, world.row(1), &mut |_| true).unwrap();
        assert!(world.scheme.is_consistent(&mut reader, &world.few));
        begin(&mut writer);
        if is_gap {
            let (at, gap) = world.gap(0);
            world.scheme.insert_into_gap(&mut writer, at, gap).unwrap();
        } else {
            world.write_row(&mut writer, 0);
        }
        let at = world.commit(&mut writer).unwrap();
        assert!(at > newest, "{at} is not after {newest}");
        assert!(!world.scheme.is_consistent(&mut reader, &world.few), "it has changed");
        world.scheme.end(&mut reader, &world.few, false);
    }
}
