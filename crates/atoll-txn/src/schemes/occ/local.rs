//! The state of a transaction: its begin and commit timestamps, its read set and its write set.

use crate::common::read_set::ReadSet;
use crate::common::timestamp::TimestampLocal;

/// See the module.
#[derive(Debug)]
pub struct Local {
    pub(super) set: ReadSet,
    pub(super) source: TimestampLocal,
    /// The begin timestamp: the transaction reads the state after all transactions up to it. From
    /// one transaction to the next, it stays the newest timestamp that is known here.
    pub(super) begin: u64,
    pub(super) commit: u64,
    /// The transaction has prefetched the counter for its commit timestamp.
    pub(super) expects: bool,
    /// Rows and gaps that it has checked again in order to move its begin timestamp.
    pub(super) looks: usize,
}

impl AsMut<ReadSet> for Local {
    #[inline(always)]
    fn as_mut(&mut self) -> &mut ReadSet {
        &mut self.set
    }
}

impl Local {
    pub(super) fn new(number: u32) -> Self {
        Self {
            set: ReadSet::default(),
            source: TimestampLocal::new(number),
            begin: 0,
            commit: 0,
            expects: false,
            looks: 0,
        }
    }
}
