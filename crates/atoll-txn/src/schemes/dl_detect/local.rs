//! A transaction has the locks that it holds, and since when it waits.

use crate::common::held::Held;
use crate::scheme::Place;

/// See the module.
#[derive(Debug)]
pub struct Local {
    pub(super) held: Held,
    pub(super) worker: u32,
    /// When the wait began; 0 when it does not wait.
    pub(super) waiting_since_ns: u64,
    pub(super) rounds: u32,
    /// What it waits, or waited last, for.
    pub(super) target: Option<Place>,
}

impl Local {
    pub(super) fn new(worker: u32) -> Self {
        Self { held: Held::default(), worker, waiting_since_ns: 0, rounds: 0, target: None }
    }
}
