//! A transaction has the locks that it holds, since when it waits, and room to look for deadlocks.

use super::board::Look;
use crate::common::lock_list::LockList;
use crate::common::wait::Wait;

/// See the module.
#[derive(Debug)]
pub struct Local {
    pub(super) locks: LockList,
    pub(super) worker: u32,
    pub(super) wait: Wait,
    /// Whether others are shown that it waits.
    pub(super) is_shown: bool,
    pub(super) look: Look,
}

impl Local {
    pub(super) fn new(worker: u32) -> Self {
        Self {
            locks: LockList::default(),
            worker,
            wait: Wait::default(),
            is_shown: false,
            look: Look::default(),
        }
    }
}
