//! Where transactions sleep that have waited for a lock for long.
//!
//! A place belongs to a bucket by its number. `PARK-1`: a transaction registers in the bucket of
//! its place, tries to lock once more, and sleeps only if that fails and the version of the bucket
//! is still the one from before the attempt. A transaction that has unlocked places asks, behind a
//! full fence, whether any other is registered; if so, it changes the versions of the places'
//! buckets and wakes those that sleep there. So an attempt meets the lock that is free, or the
//! release meets the registration.

use std::time::Duration;

use atoll_machine::{Machine, Ordering, Word, WordLine};
use atoll_storage::key::mix;

use crate::scheme::Place;

/// Two in the tests of interleavings, where each word costs time.
const BUCKETS: usize = if cfg!(loom) { 2 } else { 256 };

/// See the module.
pub struct Parking<M: Machine> {
    /// Transactions that are registered anywhere.
    registered: WordLine<M::Word>,
    buckets: Box<[WordLine<M::Word>]>,
}

/// The words of a bucket: transactions that are registered, and its version.
const REGISTERED: usize = 0;
const VERSION: usize = 1;

/// A registration.
#[derive(Debug)]
pub struct Ticket {
    bucket: usize,
    version: u64,
}

impl<M: Machine> Default for Parking<M> {
    fn default() -> Self {
        let line = || WordLine(std::array::from_fn(|_| M::Word::new(0)));
        Self { registered: line(), buckets: (0..BUCKETS).map(|_| line()).collect() }
    }
}

fn bucket(place: Place) -> usize {
    mix(place.number()) as usize % BUCKETS
}

impl<M: Machine> Parking<M> {
    /// Registers for a place.
    pub fn register(&self, place: Place) -> Ticket {
        let at = bucket(place);
        self.registered.0[0].fetch_add(1, Ordering::SeqCst);
        self.buckets[at].0[REGISTERED].fetch_add(1, Ordering::SeqCst);
        let version = self.buckets[at].0[VERSION].load(Ordering::SeqCst);
        M::fence(Ordering::SeqCst);
        Ticket { bucket: at, version }
    }

    /// Sleeps until the place is unlocked, or no longer than `most`, unless it was unlocked since
    /// the registration or the sleep before.
    pub fn sleep(&self, ticket: &mut Ticket, most: Duration) {
        let version = &self.buckets[ticket.bucket].0[VERSION];
        M::park(version, ticket.version, most);
        ticket.version = version.load(Ordering::SeqCst);
        M::fence(Ordering::SeqCst);
    }

    /// Ends a registration.
    pub fn leave(&self, ticket: &Ticket) {
        self.buckets[ticket.bucket].0[REGISTERED].fetch_sub(1, Ordering::SeqCst);
        self.registered.0[0].fetch_sub(1, Ordering::SeqCst);
    }

    /// Wakes the transactions that wait for places that have been unlocked.
    #[inline]
    pub fn unlocked(&self, places: impl Iterator<Item = Place>) {
        M::fence(Ordering::SeqCst);
        if self.registered.0[0].load(Ordering::SeqCst) > 0 {
            self.wake(places);
        }
    }

    #[cold]
    fn wake(&self, places: impl Iterator<Item = Place>) {
        for place in places {
            let bucket = &self.buckets[bucket(place)];
            if bucket.0[REGISTERED].load(Ordering::SeqCst) > 0 {
                bucket.0[VERSION].fetch_add(1, Ordering::SeqCst);
                M::unpark(&bucket.0[VERSION]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering as Order};
    use std::time::Instant;

    use atoll_machine::Native;

    use super::*;
    use crate::common::few::Few;
    use crate::common::lock::Lock;

    /// Longer than any sleep for a lock that threads hold for an instant.
    const LOST: Duration = Duration::from_secs(10);

    /// Threads pass a lock around and sleep for it; with a lost wake-up, one sleeps to the end.
    #[test]
    fn who_sleeps_for_a_lock_is_woken_when_it_is_free() {
        const ROUNDS: u64 = 2000;
        let place = Few::<Lock<Native>, Lock<Native>>::place(3);
        let (parking, lock) = (Parking::<Native>::default(), Lock::<Native>::default());
        let slept = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..ROUNDS {
                        if lock.lock_exclusive(0, 0).is_err() {
                            let mut ticket = parking.register(place);
                            while lock.lock_exclusive(0, 0).is_err() {
                                let asleep = Instant::now();
                                parking.sleep(&mut ticket, 2 * LOST);
                                assert!(asleep.elapsed() < LOST, "a wake-up was lost");
                                slept.fetch_add(1, Order::Relaxed);
                            }
                            parking.leave(&ticket);
                        }
                        std::thread::yield_now();
                        lock.unlock_exclusive();
                        parking.unlocked(std::iter::once(place));
                    }
                });
            }
        });
        assert!(slept.into_inner() > 0);
        assert_eq!(parking.registered.0[0].load(Ordering::SeqCst), 0);
    }
}
