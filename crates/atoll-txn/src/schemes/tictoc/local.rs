//! A transaction has what it read, with the time until which each version was known to be valid,
//! and what it is going to write.

use crate::common::read_set::ReadSet;
use crate::scheme::Place;

/// See the module.
#[derive(Debug, Default)]
pub struct Local {
    pub(super) set: ReadSet,
    /// For each read of the set, until when its version was known to be valid.
    pub(super) valid_until: Vec<u64>,
    /// Gaps disturbed.
    pub(super) inserted_into: Vec<Place>,
    pub(super) commit: u64,
    /// It comes after those whose deletions left the gaps that it found empty.
    pub(super) after: u64,
    pub(super) worker: u32,
    /// The epoch of the worker's last commit, and what commits in it come after.
    pub(super) epoch: u64,
    pub(super) base: u64,
}

impl Local {
    pub(super) fn clear(&mut self) {
        self.set.clear();
        self.valid_until.clear();
        self.inserted_into.clear();
        self.after = 0;
    }
}
