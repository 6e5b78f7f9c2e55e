//! The state of a transaction: its read set, with the time until which each version was known to be
//! valid, and its write set.

use crate::common::read_set::ReadSet;
use crate::kept;
use crate::scheme::Place;

/// See the module.
#[derive(Debug, Default)]
pub struct Local {
    pub(super) set: ReadSet,
    /// For each read of the set, the time until which its version was known to be valid.
    pub(super) valid_until: Vec<u64>,
    /// Gaps into which it has inserted.
    pub(super) inserted_into: Vec<Place>,
    pub(super) commit: u64,
    /// A bound for its commit timestamp: the latest deletion from a gap that it has read.
    pub(super) after: u64,
    pub(super) number: u32,
    /// The cuts before the last commit, and the smallest timestamp of commits until the next cut.
    pub(super) cuts: Option<u64>,
    pub(super) base: u64,
}

impl Local {
    pub(super) fn clear(&mut self) {
        self.set.clear();
        kept::clear(&mut self.valid_until);
        kept::clear(&mut self.inserted_into);
        self.after = 0;
    }
}
