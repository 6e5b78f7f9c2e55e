//! A transaction has the timestamps that it begins and commits with, what it read and what it is
//! going to write.

use crate::common::read_set::ReadSet;
use crate::common::timestamp::TimestampLocal;

/// See the module.
#[derive(Debug)]
pub struct Local {
    pub(super) set: ReadSet,
    pub(super) source: TimestampLocal,
    /// What it reads is as it was when everything up to this timestamp had happened. From one
    /// transaction to the next it stays the newest that the worker knows.
    pub(super) begin: u64,
    pub(super) commit: u64,
    /// The latter has been said to be taken soon.
    pub(super) expects: bool,
    /// Rows and gaps that it has looked at again to begin later.
    pub(super) looks: usize,
}

impl Local {
    pub(super) fn new(worker: u32) -> Self {
        Self {
            set: ReadSet::default(),
            source: TimestampLocal::new(worker),
            begin: 0,
            commit: 0,
            expects: false,
            looks: 0,
        }
    }
}
