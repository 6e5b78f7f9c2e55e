//! Every interleaving of a few workers and a taker at the gate.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p atoll-memory --test loom_gate --release`; in every other
//! build this test is empty.
//!
//! The gate is the real one, with loom's atomics. loom has no `membarrier`: both halves of the
//! barrier are SeqCst fences instead, as on a machine without `membarrier`. With `membarrier` a
//! member has no fence, and its announcement can stay in the store buffer of its processor until a
//! barrier of another thread empties it; the tests also explore a copy of the gate with such a
//! buffer ([`Buffered`]).
//!
//! What [`atoll_memory::Memory`] builds on the gate (seal, recorded root, copies, the end of
//! a lease) is modelled here, with extents as cells that loom watches for races: a store into an
//! extent that another thread reads as frozen is a failure by itself.
//!
//! Each model also runs with a fault planted, which it must find.

#![cfg(loom)]
#![allow(clippy::unwrap_used)]

mod loom_doors;

use std::sync::Arc;

use atoll_memory::{Gate, Inside, Memory};
use loom::cell::UnsafeCell;
use loom::sync::Mutex;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

use loom_doors::{Buffered, Door, Fault, Faulty};

/// Runs a model with at most this many preemptions, unless LOOM_MAX_PREEMPTIONS sets the number.
fn explore(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(preemptions));
    builder.check(model);
}

/// One extent of two words, one for each writer, and the places that it and its copy can have.
struct World<D> {
    gate: Arc<D>,
    extents: [[UnsafeCell<u64>; 2]; 2],
    place: AtomicU64,
    birth: AtomicU64,
    latch: Mutex<()>,
    sealed: AtomicU64,
    sealed_place: AtomicU64,
    sealing: Mutex<()>,
    thawing: AtomicU64,
    /// Writers ask whether an extent is thawing (`MEMORY-4`).
    asks: bool,
}

impl<D: Door> World<D> {
    fn new(gate: D) -> Arc<Self> {
        let extent = || [UnsafeCell::new(0), UnsafeCell::new(0)];
        Arc::new(Self {
            gate: Arc::new(gate),
            extents: [extent(), extent()],
            place: AtomicU64::new(0),
            birth: AtomicU64::new(1),
            latch: Mutex::new(()),
            sealed: AtomicU64::new(1),
            sealed_place: AtomicU64::new(0),
            sealing: Mutex::new(()),
            thawing: AtomicU64::new(0),
            asks: true,
        })
    }

    fn get(&self, place: u64, word: usize) -> u64 {
        // SAFETY: loom reports the model as failed if this races with a store.
        self.extents[place as usize][word].with(|value| unsafe { *value })
    }

    fn set(&self, place: u64, word: usize, new: u64) {
        // SAFETY: loom reports the model as failed if this races with any other access.
        self.extents[place as usize][word].with_mut(|value| unsafe { *value = new });
    }

    /// As `Memory::seal`.
    fn seal(&self, epoch: u64) {
        if self.sealed.load(Ordering::Acquire) >= epoch {
            return;
        }
        self.gate.drain(epoch);
        let _sealing = self.sealing.lock().unwrap();
        if self.sealed.load(Ordering::Relaxed) < epoch {
            self.sealed_place.store(self.place.load(Ordering::Acquire), Ordering::Relaxed);
            self.sealed.store(epoch, Ordering::Release);
        }
    }

    /// A store through the barrier.
    fn store(&self, pass: &mut D::Pass, word: usize, value: u64) {
        D::inside(pass, |inside| {
            let thawing = self.thawing.load(Ordering::Acquire);
            let birth = self.birth.load(Ordering::Acquire);
            let may_store = Memory::may_store(inside, thawing, birth);
            if inside.is_frozen(birth) || self.asks && !may_store {
                self.copy(inside);
            }
            self.set(self.place.load(Ordering::Relaxed), word, value);
        });
    }

    fn copy(&self, inside: Inside) {
        self.seal(inside.epoch);
        let _latch = self.latch.lock().unwrap();
        if !inside.is_frozen(self.birth.load(Ordering::Relaxed)) {
            return;
        }
        (0..2).for_each(|word| self.set(1, word, self.get(0, word)));
        self.place.store(1, Ordering::Relaxed);
        self.birth.store(inside.epoch, Ordering::Release);
    }

    /// As `Memory::cut`: the place of the extent that the snapshot shows.
    fn cut(&self) -> u64 {
        let next = self.gate.advance(self.gate.epoch());
        self.seal(next);
        self.sealed_place.load(Ordering::Relaxed)
    }
}

impl<D: Door> World<D> {
    /// As `Memory::release` of the lease that `cut` began in epoch 1.
    fn thaw(&self) {
        self.thawing.store(1, Ordering::Relaxed);
        let next = self.gate.advance(0);
        self.seal(next);
        self.thawing.store(0, Ordering::Release);
    }
}

/// One writer, one taker.
fn a_cut_beside_a_writer<D: Door>(gate: D) {
    let world = World::new(gate);
    let finished = Arc::new(AtomicU64::new(0));
    let mut pass = world.gate.pass();
    let (theirs, says) = (Arc::clone(&world), Arc::clone(&finished));
    let writer = thread::spawn(move || {
        theirs.store(&mut pass, 0, 7);
        says.store(1, Ordering::Release);
        theirs.store(&mut pass, 0, 8);
    });
    let had_finished = finished.load(Ordering::Acquire) == 1;
    let shown = world.cut();
    let first = world.get(shown, 0);
    let second = world.get(shown, 0);
    assert_eq!(first, second, "frozen bytes changed");
    assert!(!had_finished || first >= 7, "a store that had finished is not shown");
    writer.join().unwrap();
    assert_eq!(world.get(shown, 0), first, "frozen bytes changed");
    assert_eq!(world.get(world.place.load(Ordering::Relaxed), 0), 8, "a store was lost");
}

/// Two writers, one taker: the first thread in the new epoch makes the seal.
fn a_cut_beside_two_writers<D: Door>(gate: D) {
    let world = World::new(gate);
    let passes = [world.gate.pass(), world.gate.pass()];
    let writers: Vec<_> = passes
        .into_iter()
        .enumerate()
        .map(|(word, mut pass)| {
            let world = Arc::clone(&world);
            thread::spawn(move || world.store(&mut pass, word, 7))
        })
        .collect();
    let shown = world.cut();
    let first = [world.get(shown, 0), world.get(shown, 1)];
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    assert_eq!(shown, 0, "the root that a snapshot shows was changed by a later epoch");
    assert_eq!([world.get(0, 0), world.get(0, 1)], first, "frozen bytes changed");
    let now = world.place.load(Ordering::Relaxed);
    assert_eq!([world.get(now, 0), world.get(now, 1)], [7, 7], "a store was lost");
}

/// Two writers, while a lease ends that made one of them copy.
fn a_lease_that_ends_beside_two_writers<D: Door>(gate: D, asks: bool) {
    let mut world = World::new(gate);
    Arc::get_mut(&mut world).unwrap().asks = asks;
    let passes = [world.gate.pass(), world.gate.pass()];
    world.cut();
    let writers: Vec<_> = passes
        .into_iter()
        .enumerate()
        .map(|(word, mut pass)| {
            let world = Arc::clone(&world);
            thread::spawn(move || world.store(&mut pass, word, 7))
        })
        .collect();
    world.thaw();
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    let now = world.place.load(Ordering::Relaxed);
    assert_eq!([world.get(now, 0), world.get(now, 1)], [7, 7], "a store was lost");
}

/// Two members, while two epochs begin.
fn epochs_beside_two_members<D: Door>(gate: D) {
    let gate = Arc::new(gate);
    let passes = [gate.pass(), gate.pass()];
    let members: Vec<_> = passes
        .into_iter()
        .map(|mut pass| {
            thread::spawn(move || {
                D::inside(&mut pass, |inside| {
                    assert_eq!(inside.frontier, inside.epoch - 1, "in epoch {}", inside.epoch);
                });
            })
        })
        .collect();
    for frontier in [1, 2] {
        let epoch = gate.advance(frontier);
        gate.drain(epoch);
    }
    members.into_iter().for_each(|member| member.join().unwrap());
}

/// A member and a thread outside count cuts, while epochs begin with and without a cut.
fn cuts_are_counted_by_epoch() {
    const CUTS_BEFORE: [u64; 4] = [0, 0, 1, 1];
    let gate = Arc::new(Gate::new());
    let mut member = gate.join().unwrap();
    let counter = {
        let gate = Arc::clone(&gate);
        thread::spawn(move || {
            let epoch = gate.epoch();
            let cuts = gate.cuts();
            assert!(cuts >= CUTS_BEFORE[epoch as usize]);
            let section = member.enter();
            let inside = section.inside().epoch;
            assert_eq!(gate.cuts_before(inside), CUTS_BEFORE[inside as usize]);
            assert!(gate.cuts_before(inside) >= cuts);
        })
    };
    for is_cut in [true, false] {
        let epoch = gate.advance(0, is_cut);
        gate.drain(epoch);
    }
    counter.join().unwrap();
    assert_eq!(gate.cuts(), 1);
}

#[test]
fn cuts_are_counted_by_the_epochs_that_begin_with_them() {
    explore(2, cuts_are_counted_by_epoch);
}

#[test]
fn a_snapshot_shows_what_had_finished_and_never_changes() {
    explore(3, || a_cut_beside_a_writer(Gate::new()));
}

#[test]
fn whoever_seals_first_no_store_is_lost_and_none_reaches_the_snapshot() {
    explore(2, || a_cut_beside_two_writers(Gate::new()));
}

#[test]
fn no_store_is_lost_when_a_lease_ends_while_an_extent_is_copied_for_it() {
    explore(2, || a_lease_that_ends_beside_two_writers(Gate::new(), true));
}

#[test]
#[should_panic]
fn a_writer_that_does_not_ask_for_thawing_is_found_out() {
    explore(2, || a_lease_that_ends_beside_two_writers(Gate::new(), false));
}

#[test]
fn all_who_are_inside_under_one_epoch_agree_on_what_is_frozen() {
    explore(2, || epochs_beside_two_members(Gate::new()));
}

#[test]
#[should_panic]
fn a_member_that_does_not_look_again_is_found_out() {
    explore(3, || a_cut_beside_a_writer(Faulty::new(Fault::NoSecondLook)));
}

#[test]
#[should_panic]
fn a_member_without_a_fence_is_found_out() {
    explore(3, || a_cut_beside_a_writer(Faulty::new(Fault::NoFence)));
}

#[test]
#[should_panic]
fn a_taker_that_does_not_drain_is_found_out() {
    explore(3, || a_cut_beside_a_writer(Faulty::new(Fault::NoDrain)));
}

#[test]
#[should_panic]
fn a_member_that_forgets_its_last_visit_when_it_enters_is_found_out() {
    explore(3, || a_cut_beside_a_writer(Faulty::new(Fault::RelaxedEntry)));
}

#[test]
fn with_store_buffers_too_no_store_is_lost() {
    explore(2, || a_cut_beside_two_writers(Buffered::new(true)));
}

#[test]
#[should_panic]
fn a_writer_that_seals_before_the_barrier_of_the_taker_is_found_out() {
    explore(2, || a_cut_beside_two_writers(Buffered::new(false)));
}

#[test]
#[should_panic]
fn an_epoch_that_begins_before_the_last_is_drained_is_found_out() {
    explore(3, || epochs_beside_two_members(Faulty::new(Fault::NoDrain)));
}
