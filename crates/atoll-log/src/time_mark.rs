//! Time marks in the logs, to which a database can be restored.
//!
//! A time mark is a block of the first log that contains the wall-clock time. Its GSN is above the
//! GSNs of all blocks in all logs at that time, and every later block of any log has a greater GSN.
//! So the commits up to its GSN are exactly those that had been recorded when the mark was made.
//!
//! - `MARK-1`: the clock is read, and the GSN assigned, while the latches of all logs are held.

use std::sync::atomic::Ordering;

use crate::block::{Kind, block_bytes};
use crate::error::LogError;
use crate::log::{Block, Log};
use crate::logs::Logs;

const PAYLOAD_BYTES: usize = 8;

/// A time mark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimeMark {
    /// Its GSN.
    pub gsn: u64,
    /// Microseconds since 1970, UTC.
    pub time_us: u64,
    /// The end of each log: the blocks up to the GSN are before it.
    pub ends: Vec<u64>,
}

/// The time in the payload of a [`Kind::Time`] block.
pub fn time_us(payload: &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(payload.try_into().ok()?))
}

impl Logs {
    /// Appends a time mark; the next flush makes it durable.
    ///
    /// # Errors
    /// [`LogError::Closed`], [`LogError::Poisoned`]; [`LogError::Medium`] when there is no room.
    pub fn mark(&self, now_us: impl FnOnce() -> u64) -> Result<TimeMark, LogError> {
        self.check()?;
        let (log, bytes) = (&self.logs()[0], block_bytes(PAYLOAD_BYTES));
        log.admit(bytes)?;
        // Either a thread that closes the logs sees the promise, or this check sees that thread.
        if let Err(error) = self.check() {
            log.withdraw(bytes);
            return Err(error);
        }
        let (slot, horizon) = (log.slot(), self.horizon());
        let mut tails: Vec<_> = self.logs().iter().map(Log::latch).collect();
        let gsn = tails.iter().map(|tail| tail.clock()).max().unwrap_or(0) + 1;
        let time_us = now_us(); // MARK-1
        let lsn = log.reserve(&mut tails[0], &slot, bytes, gsn);
        tails.iter_mut().for_each(|tail| tail.raise(gsn));
        let ends = tails.iter().map(|tail| tail.lsn()).collect();
        drop(tails);
        let (kind, payload) = (Kind::Time, &time_us.to_le_bytes());
        log.fill(&slot, lsn, gsn, &Block { kind, epoch: 0, transaction: 0, horizon, payload });
        self.marked.fetch_max(gsn, Ordering::Relaxed);
        Ok(TimeMark { gsn, time_us, ends })
    }

    /// Whether anything has been logged since the last time mark.
    pub fn has_unmarked(&self) -> bool {
        self.clock() > self.marked.load(Ordering::Relaxed)
    }
}
