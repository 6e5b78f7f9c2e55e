//! All logs of a database: commits across them, the durable horizon, and waiting for it.
//!
//! A commit takes the latches of the logs that it writes to, in the order of their numbers, and one
//! GSN that is greater than the clocks of all these logs and than every GSN that the transaction
//! has seen. So the GSNs of a log ascend, and a commit has a greater GSN than every commit that it
//! depends on, in any log (`JOURNAL-1`).
//!
//! The *durable horizon* is the smallest GSN up to which a log is durable, over all logs. A commit
//! at or below it is durable, with everything it depends on; recovery keeps exactly these commits.
//! An idle log must not hold the horizon back, and a flush of the idle log for every commit in
//! another log would cost one more flush. So the leader of a flush finds the logs that have nothing
//! to flush and records that in its own log ([`IdleWatermark`]).
//!
//! - `LOGS-1`: no commit above the horizon is acknowledged.
//! - `LOGS-2`: the horizon that recovery computes from the media is at least every horizon by which
//!   a commit was acknowledged.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use atoll_machine::{Machine, Medium, Native};

use crate::beginning::{Announce, Beginning, State};
use crate::block::{IdleWatermark, Kind, block_bytes};
use crate::error::LogError;
use crate::files::Files;
use crate::helpers::Helpers;
use crate::log::{Around, Block, Log, Slot, Start};
pub use crate::options::{LogsOptions, Planted, TABLESPACES_MAX};
use crate::ring::Ring;

/// All logs of a database; see the module.
pub struct Logs {
    logs: Vec<Log>,
    /// In each log, the slot of the leader of a flush.
    leaders: Vec<Arc<Slot>>,
    transactions: AtomicU64,
    /// For each open transaction that has spilled, a position in each log before its first piece.
    pieces: Mutex<BTreeMap<u64, Vec<u64>>>,
    options: LogsOptions,
    beginning: Beginning,
    helpers: Helpers,
    /// GSN of the last time mark.
    pub(crate) marked: AtomicU64,
}

impl Logs {
    /// Opens the logs on `media`, to be continued at `starts`. The incarnation begins with the
    /// first change, or with [`Logs::begin`], after `announce` has returned.
    ///
    /// # Errors
    /// [`LogError`].
    pub fn open(
        media: &[Arc<dyn Medium>],
        starts: &[Start],
        incarnation: u32,
        options: LogsOptions,
        announce: Announce,
    ) -> Result<Arc<Self>, LogError> {
        options.check()?;
        // All logs begin with the same clock, so every new GSN is above all that were kept.
        let gsn = starts.iter().map(|start| start.gsn).max().unwrap_or(0);
        let mut logs = Vec::new();
        for (number, (medium, start)) in media.iter().zip(starts).enumerate() {
            let mut files = Files::open(Arc::clone(medium), options.file_bytes, start.lsn)?;
            if options.planted == Planted::NoSync {
                files.never_sync();
            }
            let ring = Ring::new(options.ring_bytes);
            logs.push(Log::new(number as u8, incarnation, Start { gsn, ..*start }, ring, files));
        }
        let leaders = logs.iter().map(Log::slot).collect();
        let transactions = AtomicU64::new(1);
        let pieces = Mutex::default();
        let beginning = Beginning::new(announce);
        Ok(Arc::new_cyclic(|own: &Weak<Self>| {
            let helpers = if options.in_turns { 0 } else { logs.len() };
            let own = Weak::clone(own);
            let helpers = Helpers::start(helpers, move |number, gsn| {
                let Some(logs) = own.upgrade() else { return false };
                // The caller of `settle` gets the error when it flushes that log itself.
                let _ = logs.logs[number].flush_to(gsn, &*logs);
                true
            });
            let marked = AtomicU64::new(0);
            Self { logs, leaders, transactions, pieces, options, beginning, helpers, marked }
        }))
    }

    /// The settings with which the logs were opened.
    pub fn options(&self) -> &LogsOptions {
        &self.options
    }

    /// The logs, by tablespace.
    pub fn logs(&self) -> &[Log] {
        &self.logs
    }

    /// The durable horizon.
    pub fn horizon(&self) -> u64 {
        self.logs.iter().map(Log::durable_gsn).min().unwrap_or(0)
    }

    /// The greatest GSN assigned so far.
    pub fn clock(&self) -> u64 {
        self.logs.iter().map(Log::clock).max().unwrap_or(0)
    }

    /// Bytes appended so far, to all logs.
    pub fn bytes(&self) -> u64 {
        self.logs.iter().map(|log| log.tail_lsn() - log.begun_lsn()).sum()
    }

    /// Flushes so far, of all logs.
    pub fn flushes(&self) -> u64 {
        self.logs.iter().map(Log::flushes).sum()
    }

    /// Waits until the durable horizon has reached a GSN; flushes as the leader where needed.
    ///
    /// # Errors
    /// [`LogError::Poisoned`]: a flush has failed, so the horizon may never reach the GSN.
    pub fn settle(&self, gsn: u64) -> Result<(), LogError> {
        if self.horizon() >= gsn {
            return Ok(());
        }
        if self.options.planted == Planted::OneLogTooFew {
            let any = self.logs.iter().find(|log| log.tail_lsn() != log.durable_lsn());
            return any.map_or(Ok(()), |log| log.flush_to(gsn.min(log.last()), self));
        }
        // First the logs with something to flush: their flushes write watermarks for idle logs.
        let has_some = |log: &&Log| log.tail_lsn() != log.durable_lsn() && log.durable_gsn() < gsn;
        for log in self.logs.iter().filter(has_some).skip(1) {
            self.helpers.ask(log.tablespace().into(), gsn);
        }
        for log in self.logs.iter().filter(has_some) {
            log.flush_to(gsn, self)?;
        }
        self.logs.iter().try_for_each(|log| log.flush_to(gsn, self))
    }

    /// Makes everything durable that has been recorded so far.
    ///
    /// # Errors
    /// [`LogError::Poisoned`].
    pub fn flush(&self) -> Result<(), LogError> {
        self.settle(self.logs.iter().map(Log::last).max().unwrap_or(0))
    }

    /// Accepts no more changes, waits for those in progress, and makes all durable. Afterwards the
    /// logs do not touch their files. Returns whether the incarnation had begun.
    ///
    /// # Errors
    /// [`LogError`].
    pub fn close(&self) -> Result<bool, LogError> {
        let has_begun = self.beginning.end();
        let mut round = 0;
        while !self.logs.iter().all(Log::is_idle) {
            Native::wait(round);
            round += 1;
        }
        // Sealed even if the flush fails: a helper may be running a flush of another log.
        let done = self.flush();
        self.logs.iter().for_each(Log::seal);
        done.map(|()| has_begun)
    }

    /// Whether a flush has failed, so nothing more becomes durable.
    pub fn is_poisoned(&self) -> bool {
        self.logs.iter().any(|log| log.check().is_err())
    }

    /// For each log of which a flush has failed, a [`LogError::Poisoned`] with the cause.
    pub fn failures(&self) -> Vec<LogError> {
        self.logs.iter().filter_map(|log| log.check().err()).collect()
    }

    /// Begins the incarnation if it has not begun. Changes do so by themselves.
    ///
    /// # Errors
    /// [`LogError::Medium`] when the medium has no space; the caller can try again. Other errors
    /// are those of the announcement and of a flush.
    pub fn begin(&self) -> Result<(), LogError> {
        let append = || {
            (0..self.logs.len()).for_each(|number| self.append_admitted(number, Kind::Open, &[]));
        };
        if self.beginning.begin(|| self.admit_beginning(), append)? {
            self.settle(self.clock())?;
        }
        Ok(())
    }

    /// Reserves room for the first block in every log, or in none (`BEGIN-2`).
    fn admit_beginning(&self) -> Result<(), LogError> {
        let bytes = block_bytes(0);
        for (number, log) in self.logs.iter().enumerate() {
            if let Err(error) = log.admit(bytes) {
                self.logs[..number].iter().for_each(|before| before.withdraw(bytes));
                return Err(error);
            }
        }
        Ok(())
    }

    /// Why the incarnation could not begin, so that the logs accept no changes, if that is so.
    pub fn waits_for(&self) -> Option<LogError> {
        self.beginning.failure()
    }

    /// Whether the logs accept changes. A failed log stops all logs, since no commit could be
    /// acknowledged any more. The first change begins the incarnation.
    pub(crate) fn check(&self) -> Result<(), LogError> {
        let mut state = self.beginning.state();
        if state == State::Waiting {
            self.begin()?;
            state = self.beginning.state();
        }
        if state == State::Closed {
            return Err(LogError::Closed);
        }
        self.logs.iter().try_for_each(Log::check)
    }

    /// Creates the next file of each log at a gentle pace, until `is_stopped`.
    ///
    /// # Errors
    /// [`LogError`].
    pub fn prepare_ahead(&self, is_stopped: impl Fn() -> bool) -> Result<(), LogError> {
        self.begin()?;
        let ahead = self.options.file_bytes;
        self.logs.iter().try_for_each(|log| log.prepare_ahead(ahead, &is_stopped))
    }

    /// Appends a block to a log; the caller has been promised the room for it.
    pub(crate) fn append_admitted(&self, number: usize, kind: Kind, payload: &[u8]) {
        let (log, bytes) = (&self.logs[number], block_bytes(payload.len()));
        let slot = log.slot();
        let mut tail = log.latch();
        let gsn = tail.clock() + 1;
        let lsn = log.reserve(&mut tail, &slot, bytes, gsn);
        drop(tail);
        let horizon = self.horizon();
        log.fill(&slot, lsn, gsn, &Block { kind, epoch: 0, transaction: 0, horizon, payload });
    }

    /// Assigns a number to a transaction that is too large for one block.
    pub(crate) fn next_transaction(&self) -> u64 {
        self.transactions.fetch_add(1, Ordering::Relaxed)
    }

    /// In each log, the position from which a recovery has to read if a checkpoint holds all
    /// commits up to now: the end of the log, or the first piece of a transaction that may still
    /// commit. The caller asks before the cut of the checkpoint.
    pub fn starts(&self) -> Vec<u64> {
        let pieces = self.pieces();
        let tail = |(number, log): (usize, &Log)| {
            let open = pieces.values().map(|starts| starts[number]);
            open.min().unwrap_or(u64::MAX).min(log.tail_lsn())
        };
        self.logs.iter().enumerate().map(tail).collect()
    }

    /// [`Log::watermark`], or a wrong one if a test has planted a fault.
    fn watermark(&self, log: &Log, gsn: u64) -> Option<IdleWatermark> {
        let is_idle = match self.options.planted {
            Planted::NotAtRest => true,
            Planted::PromiseForgotten => log.tail_lsn() == log.durable_lsn(),
            _ => return log.watermark(gsn),
        };
        let (tablespace, lsn) = (log.tablespace(), log.durable_lsn());
        is_idle.then_some(IdleWatermark { tablespace, lsn, gsn })
    }

    pub(crate) fn pieces(&self) -> MutexGuard<'_, BTreeMap<u64, Vec<u64>>> {
        self.pieces.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The end of each log.
    pub fn ends(&self) -> Vec<u64> {
        self.logs.iter().map(Log::tail_lsn).collect()
    }

    /// Recovery needs no bytes of the logs before `starts`, one position for each log: recycles the
    /// files before them until each log has `spares` files from its start on, and removes the
    /// others.
    ///
    /// # Errors
    /// [`LogError::Medium`]; the logs keep working.
    pub fn release(&self, starts: &[u64], spares: u64) -> Result<(), LogError> {
        let released = self.logs.iter().zip(starts).map(|(log, start)| log.release(*start, spares));
        released.fold(Ok(()), Result::and)
    }
}

impl Around for Logs {
    fn before(&self, log: &Log, gsn: u64) -> Result<Vec<IdleWatermark>, LogError> {
        let number = usize::from(log.tablespace());
        let gsn = gsn.max(log.last());
        let others = self.logs.iter().enumerate();
        let late = others.filter(|(other, one)| *other != number && one.durable_gsn() < gsn);
        let idle: Vec<_> = late.filter_map(|(_, one)| self.watermark(one, gsn)).collect();
        if !idle.is_empty() || log.last() < gsn {
            log.append_watermarks(&self.leaders[number], gsn, self.horizon(), &idle)?;
        }
        Ok(idle)
    }

    fn after(&self, idle: &[IdleWatermark]) {
        for watermark in idle {
            self.logs[usize::from(watermark.tablespace)].idled(*watermark);
        }
    }
}

#[cfg(test)]
mod tests;
