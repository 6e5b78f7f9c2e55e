//! The state of a transaction: its timestamp and the rows that it is going to write.

use crate::common::timestamp::TimestampLocal;
use crate::scheme::Place;

/// See the module.
#[derive(Debug)]
pub struct Local {
    pub(super) number: u32,
    pub(super) source: TimestampLocal,
    pub(super) timestamp: u64,
    /// The cuts before it took the timestamp.
    pub(super) cuts: u64,
    /// The rows that it owns, and whether they are present afterwards.
    pub(super) writes: Vec<(Place, bool)>,
}

impl Local {
    pub(super) fn new(number: u32) -> Self {
        let source = TimestampLocal::new(number);
        Self { number, source, timestamp: 0, cuts: 0, writes: Vec::new() }
    }
}
