//! The locks that a transaction holds, for the schemes with two phases.
//!
//! A lock that is granted is written down and nothing is looked up: reading a row twice makes its
//! reader twice. Only when a lock is refused, or the transaction owns a row already, is the list
//! asked what the transaction holds itself.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use atoll_machine::Machine;
use atoll_storage::key::mix;

use super::lock::{Busy, Lock};
use crate::scheme::{Place, States};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Shared,
    Owned,
    /// Became part of an owned one.
    Merged,
}

/// Up to this many locks are looked through; beyond, they are found by hash.
const SCAN_MAX: usize = 64;
/// A transaction over a whole table must not leave its worker with the table's size.
const KEPT_MAX: usize = 4096;

/// See the module.
#[derive(Debug, Default)]
pub struct Held {
    held: Vec<(Place, Mode)>,
    /// How a place is held, once there are many: owned, or so many times shared.
    by_place: HashMap<Place, Share, BuildHasherDefault<PlaceHasher>>,
    /// So many of `held` are in `by_place`.
    hashed: usize,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Share {
    owned: bool,
    times: u64,
}

/// Places are numbers that nobody chooses to harm us, so spreading their bits is enough.
#[derive(Debug, Default)]
pub struct PlaceHasher(u64);

impl Hasher for PlaceHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64((*byte).into()));
    }

    fn write_u16(&mut self, value: u16) {
        self.write_u64(value.into());
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(value.into());
    }

    fn write_isize(&mut self, value: isize) {
        self.write_u64(value as u64);
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = mix(self.0 ^ value);
    }
}

impl Held {
    /// Whether nothing is held.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Locks held.
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// The places held, some of them several times.
    pub fn places(&self) -> impl Iterator<Item = Place> {
        self.held.iter().map(|(place, _)| *place)
    }

    fn share_of(&mut self, place: Place) -> Share {
        if self.held.len() <= SCAN_MAX {
            let mine = self.held.iter().filter(|(held, _)| *held == place);
            return mine.fold(Share::default(), |share, (_, mode)| share.with(*mode));
        }
        for (place, mode) in &self.held[self.hashed..] {
            let share = self.by_place.entry(*place).or_default();
            *share = share.with(*mode);
        }
        self.hashed = self.held.len();
        self.by_place.get(&place).copied().unwrap_or_default()
    }

    /// Becomes a reader of a place, unless it may read there already.
    ///
    /// # Errors
    /// [`Busy`].
    #[inline]
    pub fn share<M: Machine>(
        &mut self,
        place: Place,
        lock: &Lock<M>,
        age: u64,
    ) -> Result<(), Busy> {
        match lock.share(age, false) {
            Ok(()) => self.held.push((place, Mode::Shared)),
            Err(busy) => self.share_slow(place, lock, age, busy)?,
        }
        Ok(())
    }

    #[cold]
    fn share_slow<M: Machine>(
        &mut self,
        place: Place,
        lock: &Lock<M>,
        age: u64,
        busy: Busy,
    ) -> Result<(), Busy> {
        let mine = self.share_of(place);
        if mine.owned || mine.times > 0 {
            return Ok(());
        }
        if busy == Busy::Crowded {
            lock.share(age, true)?;
            self.held.push((place, Mode::Shared));
            return Ok(());
        }
        Err(busy)
    }

    /// Becomes the only holder of a place.
    ///
    /// # Errors
    /// [`Busy::Held`].
    #[inline]
    pub fn own<M: Machine>(&mut self, place: Place, lock: &Lock<M>, age: u64) -> Result<(), Busy> {
        match lock.own(0, age) {
            Ok(()) => self.held.push((place, Mode::Owned)),
            Err(busy) => self.own_slow(place, lock, age, busy)?,
        }
        Ok(())
    }

    #[cold]
    fn own_slow<M: Machine>(
        &mut self,
        place: Place,
        lock: &Lock<M>,
        age: u64,
        busy: Busy,
    ) -> Result<(), Busy> {
        let mine = self.share_of(place);
        if mine.owned {
            return Ok(());
        }
        if mine.times == 0 {
            return Err(busy);
        }
        lock.own(mine.times, age)?;
        let shared = self.held.iter_mut().filter(|(held, _)| *held == place);
        shared.for_each(|(_, mode)| *mode = Mode::Merged);
        self.held.push((place, Mode::Owned));
        Ok(())
    }

    /// Whether nobody else watches a gap.
    ///
    /// # Errors
    /// [`Busy::Held`].
    #[inline]
    pub fn alone<M: Machine>(&mut self, place: Place, lock: &Lock<M>) -> Result<(), Busy> {
        lock.only(0).or_else(|_| lock.only(self.share_of(place).times))
    }

    /// Lets everything go.
    pub fn release<M: Machine>(&mut self, states: &impl States<Lock<M>, Lock<M>>) {
        let mut row = states.rows();
        for (place, mode) in self.held.drain(..) {
            let lock = if place.is_row() { row(place) } else { states.gap(place) };
            match mode {
                Mode::Shared => lock.release_shared(),
                Mode::Owned => lock.release_owned(),
                Mode::Merged => {}
            }
        }
        drop(row);
        if self.held.capacity() > KEPT_MAX {
            *self = Self::default();
        } else if self.hashed > 0 {
            self.by_place.clear();
            self.hashed = 0;
        }
    }
}

impl Share {
    fn with(mut self, mode: Mode) -> Self {
        match mode {
            Mode::Shared => self.times += 1,
            Mode::Owned => self.owned = true,
            Mode::Merged => {}
        }
        self
    }
}
