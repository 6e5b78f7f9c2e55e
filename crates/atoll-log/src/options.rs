//! The settings of the logs, and their limits.
//!
//! - `OPTIONS-1`: opening logs and reading a control file accept sizes within these limits only.

use std::ops::RangeInclusive;

use crate::error::LogError;

/// The greatest number of tablespaces.
pub const TABLESPACES_MAX: usize = 64;

/// Valid sizes of a file. The smallest ring has room for a block of the largest size and for what
/// a flush appends.
pub(crate) const FILE_BYTES: RangeInclusive<u64> = 64 << 10..=1 << 40;
const RING_BYTES_MIN: u64 = 2 << 20;
pub(crate) const RING_BYTES_MAX: u64 = 1 << 30;

/// Settings of the logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogsOptions {
    /// Bytes of a log's file.
    pub file_bytes: u64,
    /// Bytes of a log's ring, a power of two: how much can wait for a flush.
    pub ring_bytes: u64,
    /// Logs are flushed one after the other, so that a test is reproducible.
    #[doc(hidden)]
    pub in_turns: bool,
    /// The fault that a test plants.
    #[doc(hidden)]
    pub planted: Planted,
}

/// Faults that tests plant, to see that a check can fail.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Planted {
    /// None.
    #[default]
    Nothing,
    /// Flushes do not sync.
    NoSync,
    /// A commit is acknowledged when one of the logs that it needs is durable.
    OneLogTooFew,
    /// Transactions do not learn the GSNs of the commits that they have seen.
    NothingSeen,
    /// A checkpoint claims to show one epoch more than it does, so recovery skips commits of
    /// transactions that were open at its cut.
    EpochTooMany,
    /// The leader of a flush writes watermarks for logs that have something to flush.
    NotAtRest,
    /// An idle log does not raise its clock to the GSN that a watermark promises for it.
    PromiseForgotten,
    /// Recovery takes changes of a dropped table for changes of its successor in the same slot.
    SuccessorInSlot,
}

impl LogsOptions {
    /// Checks that the sizes are valid.
    ///
    /// # Errors
    /// [`LogError::Options`].
    pub fn check(&self) -> Result<(), LogError> {
        let Self { file_bytes, ring_bytes, .. } = *self;
        let is_file = FILE_BYTES.contains(&file_bytes);
        if !is_file || !file_bytes.is_multiple_of(4096) {
            let need = "a multiple of 4096 from 65536 to 1099511627776";
            return Err(LogError::Options { what: "file", bytes: file_bytes, need });
        }
        let is_ring = (RING_BYTES_MIN..=RING_BYTES_MAX).contains(&ring_bytes);
        if !is_ring || !ring_bytes.is_power_of_two() {
            let need = "a power of two from 2097152 to 1073741824";
            return Err(LogError::Options { what: "ring", bytes: ring_bytes, need });
        }
        Ok(())
    }
}

impl Default for LogsOptions {
    fn default() -> Self {
        let planted = Planted::Nothing;
        Self { file_bytes: 16 << 20, ring_bytes: 16 << 20, in_turns: false, planted }
    }
}
