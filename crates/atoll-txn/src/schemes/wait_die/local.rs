//! The state of a transaction: its timestamp and its locks.

use crate::common::lock_list::LockList;
use crate::common::timestamp::TimestampLocal;

/// See the module.
#[derive(Debug)]
pub struct Local {
    pub(super) locks: LockList,
    pub(super) source: TimestampLocal,
    /// The age of the transaction.
    pub(super) age: u64,
    /// The transaction has died: its next attempt keeps the age, so that it becomes the oldest one
    /// in the end.
    pub(super) died: bool,
}

impl Local {
    pub(super) fn new(number: u32) -> Self {
        Self {
            locks: LockList::default(),
            source: TimestampLocal::new(number),
            age: 0,
            died: false,
        }
    }
}
