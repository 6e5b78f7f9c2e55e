//! TICTOC where a leaf is split beside a reader that commits: who adds to the new part comes after
//! the reader, or the reader finds out.
#![allow(clippy::unwrap_used)]

use std::cell::Cell;
use std::rc::Rc;

use atoll_bench::torture::machine::Stepped;
use atoll_bench::torture::stage::{Ended, Part, play};
use atoll_storage::TableId;
use atoll_txn::scheme::{Guarded, Place, Start, States, Target};
use atoll_txn::schemes::tictoc::{GapState, Local, State, TicToc};
use atoll_txn::{Scheme, SchemeOptions};

const SEEDS: u64 = 2000;
const EPOCH: u64 = 1;

/// A row, and the gap that is split with the one that becomes of it.
#[derive(Default)]
struct Few {
    row: State<Stepped>,
    gaps: [GapState<Stepped>; 2],
}

impl States<State<Stepped>, GapState<Stepped>> for Few {
    fn row(&self, _place: Place) -> &State<Stepped> {
        &self.row
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

    fn write_row(&self, local: &mut Local) {
        let target = Target { place: Place::row(TableId(0), 0), state: &self.few.row };
        self.scheme.write(local, &self.few, target, true).unwrap();
    }

    /// The timestamp at which a transaction has committed, if it could.
    fn commit(&self, local: &mut Local) -> Option<u64> {
        self.scheme.prepare(local, &self.few).unwrap();
        let is_good = self.scheme.validate(local, &self.few, EPOCH).is_ok();
        let at = self.scheme.stamp(local);
        self.scheme.end(local, &self.few, is_good);
        is_good.then_some(at)
    }
}

/// When the reader and who split its gap have committed.
fn run(seed: u64) -> (Option<u64>, u64) {
    let scheme = TicToc::new(&SchemeOptions::default());
    let world = Rc::new(World { scheme, few: Few::default() });
    let begin = |local: &mut Local| world.scheme.begin(local, &Start::default()).unwrap();
    let [mut other, mut reader, mut splitter] = [0, 1, 2].map(|at| world.scheme.local(at));
    // Nothing that the splitter knows is new, and the reader replaces what is.
    begin(&mut splitter);
    world.commit(&mut splitter).unwrap();
    for _ in 0..10 {
        begin(&mut other);
        world.write_row(&mut other);
        world.commit(&mut other).unwrap();
    }
    begin(&mut reader);
    let (at, gap) = world.gap(0);
    world.scheme.watch(&mut reader, at, gap).unwrap();
    world.write_row(&mut reader);
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
            scheme.disturb(&mut splitter, at, gap).unwrap();
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
