//! The locks that a transaction holds.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use atoll_storage::key::mix;

use crate::scheme::Place;

/// How a lock is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Shared,
    Exclusive,
}

/// Up to this many locks are looked through; beyond, they are found by hash.
const SCAN_MAX: usize = 24;

/// See the module.
#[derive(Debug, Default)]
pub struct Local {
    held: Vec<(Place, Mode)>,
    by_place: HashMap<Place, usize, BuildHasherDefault<PlaceHasher>>,
}

/// Places are numbers that nobody chooses to harm us, so spreading their bits is enough.
#[derive(Debug, Default)]
struct PlaceHasher(u64);

impl Hasher for PlaceHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64((*byte).into()));
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

impl Local {
    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    fn position(&self, place: Place) -> Option<usize> {
        if self.held.len() <= SCAN_MAX {
            return self.held.iter().position(|(held, _)| *held == place);
        }
        self.by_place.get(&place).copied()
    }

    #[inline]
    pub(super) fn mode(&self, place: Place) -> Option<Mode> {
        self.position(place).map(|at| self.held[at].1)
    }

    /// A lock was granted, or its mode was raised.
    pub(super) fn add(&mut self, place: Place, mode: Mode) {
        if let Some(at) = self.position(place) {
            self.held[at].1 = mode;
            return;
        }
        self.held.push((place, mode));
        if self.held.len() == SCAN_MAX + 1 {
            let places = self.held.iter().enumerate().map(|(at, (place, _))| (*place, at));
            self.by_place = places.collect();
        } else if self.held.len() > SCAN_MAX {
            self.by_place.insert(place, self.held.len() - 1);
        }
    }

    pub(super) fn drain(&mut self, mut release: impl FnMut(Place, Mode)) {
        self.held.drain(..).for_each(|(place, mode)| release(place, mode));
        // A transaction over a whole table must not leave its worker with the table's size.
        if self.held.capacity() > 1024 {
            *self = Self::default();
        } else {
            self.by_place.clear();
        }
    }
}
