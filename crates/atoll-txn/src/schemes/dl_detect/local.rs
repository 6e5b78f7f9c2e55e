//! A transaction has the locks that it holds, since when it waits, and room to look for deadlocks.

use super::board::Look;
use crate::common::held::Held;
use crate::scheme::Place;

/// See the module.
#[derive(Debug)]
pub struct Local {
    pub(super) held: Held,
    pub(super) worker: u32,
    /// When the wait, or the last one, began.
    pub(super) waiting_since_ns: u64,
    /// Whether others are shown that it waits.
    pub(super) is_shown: bool,
    pub(super) rounds: u32,
    /// What it waits, or waited last, for.
    pub(super) target: Option<Place>,
    pub(super) look: Look,
}

impl Local {
    pub(super) fn new(worker: u32) -> Self {
        Self {
            held: Held::default(),
            worker,
            waiting_since_ns: 0,
            is_shown: false,
            rounds: 0,
            target: None,
            look: Look::default(),
        }
    }
}
