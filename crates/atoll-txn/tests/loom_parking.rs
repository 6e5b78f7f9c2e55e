//! Every interleaving of a few transactions that sleep for locks and release them (`PARK-1`).
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p atoll-txn --test loom_parking --release`; in every other
//! build this test is empty.
//!
//! [`Parking`] and [`Lock`] are the real ones, on a machine of loom's atomics; only the number of
//! buckets is smaller. loom has no SeqCst accesses: it takes them as AcqRel and knows SeqCst fences
//! only, which is less than the processor gives.
//!
//! Each model also runs with a fault planted, which it must find: in the machine (fences that do
//! nothing, a sleep that ignores the version, a waking of one sleeper of a bucket), and in the
//! order of a sleeper's steps (no second attempt, an attempt before the registration). In
//! `parking.rs` itself these were planted by hand, and each was found: no fence in `unlocked`, none
//! in `register`, no change of the version, a change of it behind the waking, no registration in
//! the bucket, a waking for the first place only. Without the fence in `sleep` alone nothing fails.

#![cfg(loom)]
#![allow(clippy::unwrap_used)]

mod loom_machine;

use std::sync::Arc;
use std::time::Duration;

use atoll_machine::Machine;
use atoll_storage::TableId;
use atoll_txn::common::lock::Lock;
use atoll_txn::common::parking::Parking;
use atoll_txn::scheme::Place;
use loom::thread;

use loom_machine::{Blind, Loom, NoFence, Sound, WakesOne};

/// The order of a sleeper's steps.
#[derive(Clone, Copy, PartialEq)]
enum Steps {
    /// Register, try again, sleep.
    InOrder,
    /// Register, sleep.
    NoSecondAttempt,
    /// Try again, register, sleep.
    RegistersLate,
}

/// Two locks, and where transactions sleep for them.
struct World<M: Machine> {
    parking: Parking<M>,
    locks: [Lock<M>; 2],
    /// The row of the second lock; the other is row 0.
    second: u64,
    steps: Steps,
}

/// Second rows: some have the bucket of row 0, some the other.
const SECONDS: std::ops::Range<u64> = 1..5;

impl<M: Machine> World<M> {
    fn new(steps: Steps, second: u64) -> Arc<Self> {
        let locks = [Lock::default(), Lock::default()];
        Arc::new(Self { parking: Parking::default(), locks, second, steps })
    }

    fn place(&self, lock: usize) -> Place {
        Place::row(TableId(0), [0, self.second][lock])
    }

    fn try_lock(&self, lock: usize) -> bool {
        self.locks[lock].lock_exclusive(0, 0).is_ok()
    }

    /// As a scheme waits for a lock, without the attempts before it sleeps.
    fn lock(&self, lock: usize) {
        if self.try_lock(lock) {
            return;
        }
        if self.steps == Steps::RegistersLate && self.try_lock(lock) {
            return;
        }
        let mut ticket = self.parking.register(self.place(lock));
        if self.steps != Steps::InOrder {
            self.parking.sleep(&mut ticket, Duration::MAX);
        }
        while !self.try_lock(lock) {
            self.parking.sleep(&mut ticket, Duration::MAX);
        }
        self.parking.leave(&ticket);
    }

    /// As a transaction ends that holds these locks.
    fn unlock(&self, locks: &[usize]) {
        locks.iter().for_each(|lock| self.locks[*lock].unlock_exclusive());
        self.parking.unlocked(locks.iter().map(|lock| self.place(*lock)));
    }

    /// Threads that lock one lock each and release it.
    fn lockers(self: &Arc<Self>, locks: &[usize]) -> Vec<thread::JoinHandle<()>> {
        let start = |lock: usize| {
            let world = Arc::clone(self);
            thread::spawn(move || {
                world.lock(lock);
                world.unlock(&[lock]);
            })
        };
        locks.iter().map(|lock| start(*lock)).collect()
    }
}

fn explore(preemptions: Option<usize>, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(preemptions);
    builder.check(model);
}

/// Two transactions and one lock, each interleaving.
fn a_release_beside_a_sleeper<M: Machine>(steps: Steps) {
    explore(None, move || {
        let world = World::<M>::new(steps, 1);
        assert!(world.try_lock(0));
        let lockers = world.lockers(&[0]);
        world.unlock(&[0]);
        lockers.into_iter().for_each(|locker| locker.join().unwrap());
        assert!(world.try_lock(0), "all have released it");
    });
}

/// Two sleepers for one lock: the second may sleep again, until the first releases.
fn a_release_beside_two_sleepers<M: Machine>() {
    explore(Some(3), || {
        let world = World::<M>::new(Steps::InOrder, 1);
        assert!(world.try_lock(0));
        let lockers = world.lockers(&[0, 0]);
        world.unlock(&[0]);
        lockers.into_iter().for_each(|locker| locker.join().unwrap());
        assert!(world.try_lock(0), "all have released it");
    });
}

/// A transaction that releases two locks at once or one after the other, each with a sleeper. The
/// second lock is released later only when the first sleeper has ended.
fn a_release_of_two_locks<M: Machine>(at_once: bool) {
    for second in SECONDS {
        explore(Some(3), move || {
            let world = World::<M>::new(Steps::InOrder, second);
            assert!(world.try_lock(0) && world.try_lock(1));
            let mut lockers = world.lockers(&[0, 1]);
            if at_once {
                world.unlock(&[0, 1]);
            } else {
                world.unlock(&[0]);
                lockers.remove(0).join().unwrap();
                world.unlock(&[1]);
            }
            lockers.into_iter().for_each(|locker| locker.join().unwrap());
            assert!(world.try_lock(0) && world.try_lock(1), "all have released them");
        });
    }
}

#[test]
fn a_sleeper_is_woken_by_the_release() {
    a_release_beside_a_sleeper::<Loom<Sound>>(Steps::InOrder);
}

#[test]
fn a_sleeper_that_meets_another_holder_is_woken_by_its_release() {
    a_release_beside_two_sleepers::<Loom<Sound>>();
}

#[test]
fn a_release_of_several_locks_wakes_the_sleepers_of_each() {
    a_release_of_two_locks::<Loom<Sound>>(true);
    a_release_of_two_locks::<Loom<Sound>>(false);
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_sleeper_that_does_not_try_again_is_found_out() {
    a_release_beside_a_sleeper::<Loom<Sound>>(Steps::NoSecondAttempt);
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_sleeper_that_tries_again_before_it_registers_is_found_out() {
    a_release_beside_a_sleeper::<Loom<Sound>>(Steps::RegistersLate);
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_missing_fence_is_found_out() {
    a_release_beside_a_sleeper::<Loom<NoFence>>(Steps::InOrder);
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_sleep_that_ignores_the_version_is_found_out() {
    a_release_beside_a_sleeper::<Loom<Blind>>(Steps::InOrder);
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_waking_of_one_sleeper_is_found_out() {
    a_release_of_two_locks::<Loom<WakesOne>>(false);
}
