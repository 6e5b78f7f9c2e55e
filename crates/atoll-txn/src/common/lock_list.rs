//! The locks that a transaction holds, for two-phase locking.
//!
//! When a lock is granted, the list appends the place without a lookup: a transaction that reads a
//! row twice holds its lock shared twice. The list looks up what the transaction holds only when a
//! lock is refused, which includes the case that the transaction itself holds it exclusively.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use atoll_machine::Machine;

use super::lock::{Busy, Lock};
use crate::place::PlaceHasher;
use crate::scheme::{Place, States};
use crate::work;

/// Up to this many locks, a lookup scans the lists; beyond, it uses a hash table.
const SCAN_MAX: usize = 64;
/// A longer list frees its memory at the end of the transaction, so that a transaction over a whole
/// table does not leave its state with the memory of a whole table.
const KEPT_MAX: usize = 4096;

/// See the module.
#[derive(Debug, Default)]
pub struct LockList {
    // Two lists: a CPU could not predict the kind of each lock, so unlocking must not branch on it.
    /// Contains a place as often as it is held shared; not at all if it is held exclusively, except
    /// for those of `replaced`.
    shared: Vec<Place>,
    exclusive: Vec<Place>,
    /// How many of the first elements of `shared` stay until everything is unlocked.
    kept: usize,
    /// How many elements of a long list `shared` were replaced by exclusive locks: they are removed
    /// together, since looking for each would take time by the square of the list.
    replaced: usize,
    /// How each place is held, once there are many locks.
    by_place: HashMap<Place, Share, BuildHasherDefault<PlaceHasher>>,
    /// How many elements of the two lists are in `by_place`.
    hashed: Count,
}

#[derive(Debug, Clone, Copy, Default)]
struct Count {
    shared: usize,
    exclusive: usize,
}

/// How a place is held: exclusively, or shared so many times.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Share {
    exclusive: bool,
    times: u64,
}

impl LockList {
    /// Whether the transaction holds no lock.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of locks held.
    pub fn len(&self) -> usize {
        self.shared.len() + self.exclusive.len()
    }

    /// The places held, some of them several times. Those held exclusively come first, since other
    /// transactions mostly wait for one of them.
    pub fn places(&self) -> impl Iterator<Item = Place> {
        self.exclusive.iter().chain(&self.shared).copied()
    }

    /// The places that are held shared, in the order in which they were granted.
    pub fn shared(&self) -> &[Place] {
        &self.shared
    }

    /// The places that are held exclusively, in the order in which they were granted.
    pub fn exclusive(&self) -> &[Place] {
        &self.exclusive
    }

    fn share_of<M: Machine>(&mut self, place: Place) -> Share {
        M::work(self.len().min(SCAN_MAX));
        if self.len() <= SCAN_MAX {
            let times = self.shared.iter().filter(|held| **held == place).count() as u64;
            return Share { exclusive: self.exclusive.contains(&place), times };
        }
        for place in &self.shared[self.hashed.shared..] {
            self.by_place.entry(*place).or_default().times += 1;
        }
        for place in &self.exclusive[self.hashed.exclusive..] {
            self.by_place.entry(*place).or_default().exclusive = true;
        }
        self.hashed = Count { shared: self.shared.len(), exclusive: self.exclusive.len() };
        self.by_place.get(&place).copied().unwrap_or_default()
    }

    /// Locks a place shared, unless the transaction holds it already.
    ///
    /// # Errors
    /// [`Busy`].
    #[inline]
    pub fn lock_shared<M: Machine>(
        &mut self,
        place: Place,
        lock: &Lock<M>,
        age: u64,
    ) -> Result<(), Busy> {
        match lock.lock_shared(age, false) {
            Ok(()) => self.shared.push(place),
            Err(busy) => self.lock_shared_slow(place, lock, age, busy)?,
        }
        Ok(())
    }

    #[cold]
    fn lock_shared_slow<M: Machine>(
        &mut self,
        place: Place,
        lock: &Lock<M>,
        age: u64,
        busy: Busy,
    ) -> Result<(), Busy> {
        let mine = self.share_of::<M>(place);
        if mine.exclusive || mine.times > 0 {
            return Ok(());
        }
        if busy == Busy::Crowded {
            lock.lock_shared(age, true)?;
            self.shared.push(place);
            return Ok(());
        }
        Err(busy)
    }

    /// Locks a place exclusively.
    ///
    /// # Errors
    /// [`Busy::Held`].
    #[inline]
    pub fn lock_exclusive<M: Machine>(
        &mut self,
        place: Place,
        lock: &Lock<M>,
        age: u64,
    ) -> Result<(), Busy> {
        match lock.lock_exclusive(0, age) {
            Ok(()) => self.exclusive.push(place),
            Err(busy) => self.lock_exclusive_slow(place, lock, age, busy)?,
        }
        Ok(())
    }

    #[cold]
    fn lock_exclusive_slow<M: Machine>(
        &mut self,
        place: Place,
        lock: &Lock<M>,
        age: u64,
        busy: Busy,
    ) -> Result<(), Busy> {
        let mine = self.share_of::<M>(place);
        if mine.exclusive {
            return Ok(());
        }
        if mine.times == 0 {
            return Err(busy);
        }
        lock.lock_exclusive(mine.times, age)?;
        // The exclusive lock has replaced the transaction's shared ones.
        self.exclusive.push(place);
        if self.shared.len() > SCAN_MAX {
            self.replaced += mine.times as usize;
            self.by_place.insert(place, Share { exclusive: true, times: 0 });
            if self.replaced > self.shared.len() / 2 {
                self.remove_replaced();
                // All of it was hashed to find how the place is held.
                self.hashed.shared = self.shared.len();
            }
            return Ok(());
        }
        let times = |held: &[Place]| held.iter().filter(|held| **held == place).count();
        self.hashed.shared -= times(&self.shared[..self.hashed.shared]);
        self.kept -= times(&self.shared[..self.kept]);
        self.shared.retain(|held| *held != place);
        if let Some(share) = self.by_place.get_mut(&place) {
            share.times = 0;
        }
        Ok(())
    }

    /// Removes what exclusive locks have replaced: before what is held shared is unlocked, and when
    /// it is more than half.
    #[inline]
    fn remove_replaced(&mut self) {
        if self.replaced > 0 {
            let by_place = &self.by_place;
            let stays = |place: &Place| !by_place.get(place).is_some_and(|share| share.exclusive);
            let kept = &self.shared[..self.kept];
            self.kept = kept.iter().filter(|place| stays(place)).count();
            self.shared.retain(stays);
            self.replaced = 0;
        }
    }

    /// Checks that no other transaction has read a gap.
    ///
    /// # Errors
    /// [`Busy::Held`].
    #[inline]
    pub fn check_sole_reader<M: Machine>(
        &mut self,
        place: Place,
        lock: &Lock<M>,
    ) -> Result<(), Busy> {
        lock.check_sole_reader(0)
            .or_else(|_| lock.check_sole_reader(self.share_of::<M>(place).times))
    }

    /// Keeps what is held shared now beyond [`LockList::unlock_shared`].
    pub fn keep_shared(&mut self) {
        self.kept = self.shared.len();
    }

    /// Unlocks what is held shared and not kept.
    pub fn unlock_shared<M: Machine>(&mut self, states: &impl States<Lock<M>, Lock<M>>) {
        self.unlock_shared_and(states, |_| ());
    }

    /// Unlocks what is held shared and not kept, then hands its places to `tell`.
    pub fn unlock_shared_and<M: Machine>(
        &mut self,
        states: &impl States<Lock<M>, Lock<M>>,
        tell: impl FnOnce(&[Place]),
    ) {
        self.remove_replaced();
        let released = &self.shared[self.kept..];
        M::work(released.len() * work::ENTRY);
        let mut row = states.rows();
        released.iter().for_each(|place| {
            let lock = if place.is_row() { row(*place) } else { states.gap(*place) };
            lock.unlock_shared();
        });
        tell(released);
        self.shared.truncate(self.kept);
        // The table of a large list is built again when it is needed.
        self.by_place.clear();
        self.hashed = Count::default();
        if self.shared.capacity() > KEPT_MAX && self.kept == 0 {
            self.shared = Vec::new();
        }
    }

    /// Unlocks everything.
    pub fn unlock_all<M: Machine>(&mut self, states: &impl States<Lock<M>, Lock<M>>) {
        self.unlock_all_and(states, |_| ());
    }

    /// Unlocks everything, then hands the list to `tell`.
    pub fn unlock_all_and<M: Machine>(
        &mut self,
        states: &impl States<Lock<M>, Lock<M>>,
        tell: impl FnOnce(&Self),
    ) {
        self.remove_replaced();
        M::work(self.len() * work::ENTRY);
        let mut row = states.rows();
        let mut lock = |place: Place| {
            if place.is_row() { row(place) } else { states.gap(place) }
        };
        self.shared.iter().for_each(|place| lock(*place).unlock_shared());
        self.exclusive.iter().for_each(|place| lock(*place).unlock_exclusive());
        tell(self);
        self.shared.clear();
        self.exclusive.clear();
        self.kept = 0;
        if self.shared.capacity().max(self.exclusive.capacity()) > KEPT_MAX {
            *self = Self::default();
        } else if !self.by_place.is_empty() {
            self.by_place.clear();
            self.hashed = Count::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use atoll_machine::Native;
    use atoll_storage::key::mix;

    use super::*;
    use crate::common::few::Few;

    const ROWS: u64 = 200;

    type Locks = Few<Lock<Native>, Lock<Native>>;

    fn place(row: u64) -> Place {
        Locks::place(row)
    }

    /// With few and many locks, and with upgrades from shared to exclusive at any time.
    #[test]
    fn what_is_held_is_known_and_all_of_it_is_let_go() {
        let locks = Locks::new(ROWS as usize, |_| ());
        let mut list = LockList::default();
        let mut random = 7;
        for round in 0..200 {
            let mut expected: HashMap<u64, Share> = HashMap::new();
            for _ in 0..round {
                random = mix(random + 1);
                // Now few rows and now many, so that the same ones come up again.
                let row = (random >> 8) % if round % 3 == 0 { 20 } else { ROWS };
                let (place, lock) = (place(row), &locks.0[row as usize]);
                let one = expected.entry(row).or_default();
                if random.is_multiple_of(3) {
                    assert_eq!(list.lock_exclusive(place, lock, 0), Ok(()));
                    *one = Share { exclusive: true, times: 0 };
                } else {
                    assert_eq!(list.lock_shared(place, lock, 0), Ok(()));
                    one.times += u64::from(!one.exclusive);
                }
                let told = list.share_of::<Native>(place);
                assert_eq!(told, *one);
            }
            for (row, share) in &expected {
                // Another transaction cannot lock it exclusively.
                assert_eq!(
                    locks.0[*row as usize].lock_exclusive(0, 0).is_err(),
                    share.exclusive || share.times > 0
                );
                assert_eq!(list.share_of::<Native>(place(*row)), *share);
            }
            let places: std::collections::HashSet<_> = list.places().collect();
            assert_eq!(places.len(), expected.len());
            if round % 2 == 1 {
                list.unlock_shared(&locks);
                for (row, share) in &expected {
                    let kept = Share { exclusive: share.exclusive, times: 0 };
                    assert_eq!(list.share_of::<Native>(place(*row)), kept);
                    assert_eq!(locks.0[*row as usize].is_held(), share.exclusive);
                }
            }
            list.unlock_all(&locks);
            assert!(list.is_empty() && list.by_place.is_empty());
            assert!(locks.0.iter().all(|lock| !lock.is_held()));
        }
    }

    #[test]
    fn what_is_kept_stays_until_the_end_and_may_become_exclusive() {
        for others in [0, 2 * SCAN_MAX as u64] {
            let locks = Locks::new(ROWS as usize, |_| ());
            let mut list = LockList::default();
            let share = |list: &mut LockList, row: u64| {
                assert_eq!(list.lock_shared(place(row), &locks.0[row as usize], 0), Ok(()));
            };
            (0..3).chain(3..3 + others).for_each(|row| share(&mut list, row));
            list.keep_shared();
            (1..5).chain(150..160).for_each(|row| share(&mut list, row));
            // One that is kept, one that is kept and was asked for again, and one that is not.
            for row in [0, 1, 155] {
                let lock = &locks.0[row as usize];
                assert_eq!(list.lock_exclusive(place(row), lock, 0), Ok(()));
            }
            for _ in 0..2 {
                list.unlock_shared(&locks);
                let mut holds =
                    |row: &u64| list.share_of::<Native>(place(*row)) != Share::default();
                let held: Vec<u64> = (0..ROWS).filter(|row| holds(row)).collect();
                let expected: Vec<u64> = (0..3 + others).chain([155]).collect();
                assert_eq!(held, expected);
            }
            list.unlock_all(&locks);
            assert!(locks.0.iter().all(|lock| !lock.is_held()));
            share(&mut list, 7);
            list.unlock_shared(&locks);
            assert!(list.is_empty());
        }
    }

    #[test]
    fn a_place_shared_with_another_is_not_locked_exclusively_and_locks_stay() {
        let locks = Locks::new(1, |_| ());
        let mut list = LockList::default();
        assert_eq!(list.lock_shared(place(0), &locks.0[0], 0), Ok(()));
        assert_eq!(locks.0[0].lock_shared(0, false), Ok(()));
        assert!(list.lock_exclusive(place(0), &locks.0[0], 0).is_err());
        assert_eq!(list.share_of::<Native>(place(0)), Share { exclusive: false, times: 1 });
        locks.0[0].unlock_shared();
        assert_eq!(list.lock_exclusive(place(0), &locks.0[0], 0), Ok(()));
        list.unlock_all(&locks);
        assert!(!locks.0[0].is_held());
    }
}
