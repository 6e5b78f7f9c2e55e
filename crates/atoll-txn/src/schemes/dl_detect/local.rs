//! A transaction has the locks that it holds, since when it waits, and room to look for deadlocks.

use super::board::Look;
use crate::common::held::Held;
use crate::common::wait::Wait;

/// See the module.
#[derive(Debug)]
pub struct Local {
    pub(super) held: Held,
    pub(super) worker: u32,
    pub(super) wait: Wait,
    /// Whether others are shown that it waits.
    pub(super) is_shown: bool,
    pub(super) look: Look,
}

impl Local {
    pub(super) fn new(worker: u32) -> Self {
        Self {
            held: Held::default(),
            worker,
            wait: Wait::default(),
            is_shown: false,
            look: Look::default(),
        }
    }
}
