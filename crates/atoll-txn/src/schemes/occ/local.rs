//! A transaction has its two timestamps, what it read and what it is going to write.

use crate::common::read_set::ReadSet;
use crate::common::timestamp::TimestampLocal;

/// See the module.
#[derive(Debug)]
pub struct Local {
    pub(super) set: ReadSet,
    pub(super) source: TimestampLocal,
    pub(super) begin: u64,
    pub(super) commit: u64,
    /// The second has been said to be taken soon.
    pub(super) expects: bool,
}

impl Local {
    pub(super) fn new(worker: u32) -> Self {
        let source = TimestampLocal::new(worker);
        Self { set: ReadSet::default(), source, begin: 0, commit: 0, expects: false }
    }
}
