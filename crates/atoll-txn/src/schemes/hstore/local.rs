//! The state of a transaction: its partitions and, once it waits, a timestamp.

use crate::common::timestamp::TimestampLocal;

/// See the module.
#[derive(Debug)]
pub struct Local {
    pub(super) number: u32,
    pub(super) source: TimestampLocal,
    /// 0 unless the transaction has had to wait.
    pub(super) timestamp: u64,
    /// The partitions that it needs, ascending, of which it holds the first `granted`. Empty before
    /// it has begun.
    pub(super) wanted: Vec<u32>,
    pub(super) granted: usize,
}

impl Local {
    pub(super) fn new(number: u32) -> Self {
        let source = TimestampLocal::new(number);
        Self { number, source, timestamp: 0, wanted: Vec::new(), granted: 0 }
    }
}
