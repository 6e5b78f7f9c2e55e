//! Flushes: one of the threads that wait for durability leads a flush for all of them.
//!
//! 1. The leader lets the caller append watermarks of idle logs ([`Around`]).
//! 2. It waits for further commits, takes the end of the log, and waits for the writers that still
//!    fill blocks before that end (`LOG-2`).
//! 3. It writes the bytes, syncs, and raises the durable positions (`LOG-3`).
//! 4. It wakes the waiting threads. Blocks that were appended meanwhile belong to the next flush.
//!
//! - `FLUSH-1`: one flush of a log runs at a time, and none after a failure (`LOG-4`) or after the
//!   log has been sealed.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, Weak};

use atoll_machine::{Machine, MediumError, Native};

use super::{Log, Slot, Tail, lock};
use crate::block::IdleWatermark;
use crate::error::LogError;

/// The state of the flushes of a log.
#[derive(Default)]
pub(super) struct Flush {
    is_running: bool,
    /// Threads that wait for the end of the running flush.
    waiting: u32,
    /// The log has been closed, and another process may use its files.
    sealed: bool,
    failed: Option<MediumError>,
}

/// What the leader of a flush does before and after it.
pub(crate) trait Around {
    /// Called before the leader takes the end. Appends a block with the watermarks of idle logs if
    /// one is needed, and returns these watermarks.
    ///
    /// # Errors
    /// [`LogError::Medium`] when there is no room for the block.
    fn before(&self, log: &Log, gsn: u64) -> Result<Vec<IdleWatermark>, LogError>;
    /// Called when that block is durable.
    fn after(&self, idle: &[IdleWatermark]);
}

/// A flush that looks at no other log.
pub(crate) struct Alone;

impl Around for Alone {
    fn before(&self, _log: &Log, _gsn: u64) -> Result<Vec<IdleWatermark>, LogError> {
        Ok(Vec::new())
    }

    fn after(&self, _idle: &[IdleWatermark]) {}
}

impl Log {
    /// Fails after a flush has failed.
    pub(crate) fn check(&self) -> Result<(), LogError> {
        if !self.poisoned.load(Ordering::Acquire) {
            return Ok(());
        }
        let flush = lock(&self.flush);
        let cause = flush.failed.clone().expect("a poisoned log has a cause");
        Err(LogError::Poisoned { tablespace: self.tablespace.into(), cause })
    }

    /// Makes everything up to a GSN durable.
    pub(crate) fn flush_to(&self, gsn: u64, around: &impl Around) -> Result<(), LogError> {
        while self.durable_gsn() < gsn {
            let mut flush = lock(&self.flush);
            if flush.is_running {
                flush.waiting += 1;
                let waited = self.flushed.wait(flush);
                waited.unwrap_or_else(PoisonError::into_inner).waiting -= 1;
                continue;
            }
            if let Some(cause) = flush.failed.clone() {
                return Err(LogError::Poisoned { tablespace: self.tablespace.into(), cause });
            }
            if self.durable_gsn() >= gsn {
                return Ok(());
            }
            if flush.sealed {
                return Err(LogError::Closed);
            }
            flush.is_running = true;
            drop(flush);
            let idle = around.before(self, gsn);
            let done = idle.as_ref().map(|_| self.lead());
            if let (Ok(idle), Ok(Ok(()))) = (&idle, &done) {
                around.after(idle);
            }
            let mut flush = lock(&self.flush);
            flush.is_running = false;
            if let Ok(Err(error)) = done {
                flush.failed = Some(error); // LOG-4
                self.poisoned.store(true, Ordering::Release);
            }
            let is_awaited = flush.waiting > 0;
            drop(flush);
            if is_awaited {
                self.flushed.notify_all();
            }
            idle?;
        }
        Ok(())
    }

    /// Flushes as the leader.
    fn lead(&self) -> Result<(), MediumError> {
        let mut group_commit = lock(&self.group_commit);
        group_commit.wait_for(|| self.blocks.load(Ordering::Relaxed));
        let tail = lock(&self.latch);
        let (Tail { lsn: end, last, .. }, taken) = (*tail, self.blocks.load(Ordering::Relaxed));
        drop(tail);
        self.wait_until_filled(end);
        let from = self.durable_lsn();
        if end > from {
            let begun = Native::now_ns();
            lock(&self.files).write(&self.ring, from, end)?;
            group_commit.note(taken, self.blocks.load(Ordering::Relaxed), Native::now_ns() - begun);
            self.flushes.fetch_add(1, Ordering::Relaxed);
            self.durable_lsn.store(end, Ordering::Release);
        }
        self.durable_gsn.fetch_max(last, Ordering::AcqRel);
        Ok(())
    }

    fn wait_until_filled(&self, end: u64) {
        let slots: Vec<Arc<Slot>> = lock(&self.slots).iter().filter_map(Weak::upgrade).collect();
        for slot in slots {
            let mut round = 0;
            while slot.0.load(Ordering::Acquire) < end {
                Native::wait(round);
                round += 1;
            }
        }
    }

    /// Waits for the running flush and the file that is being created; afterwards the log writes
    /// nothing and creates no files.
    pub(crate) fn seal(&self) {
        self.hurried_making().is_over = true;
        let mut flush = lock(&self.flush);
        while flush.is_running {
            flush.waiting += 1;
            flush = self.flushed.wait(flush).unwrap_or_else(PoisonError::into_inner);
            flush.waiting -= 1;
        }
        flush.sealed = true;
    }
}
