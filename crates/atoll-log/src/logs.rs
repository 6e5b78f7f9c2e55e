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
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use atoll_machine::{Machine, Medium, Native};

use crate::beginning::{Announce, Beginning, State};
use crate::block::{IdleWatermark, Kind, block_bytes};
use crate::error::LogError;
use crate::files::Files;
use crate::helpers::Helpers;
use crate::log::{Around, Block, Log, Slot, Start};
use crate::ring::Ring;

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
mod tests {
    #![allow(clippy::unwrap_used)]
    use atoll_machine::CrashMedium;
    use atoll_storage::redo::Redo;
    use atoll_txn::journal::{Commit, Journal, Recorder};

    use super::*;
    use crate::log::Alone;
    use crate::scan::Scan;

    fn commit(recorder: &mut dyn Recorder, log: u32, seen: u64) -> u64 {
        let mut redo = Redo::default();
        redo.part(log).push(1);
        recorder.admit(&redo).unwrap();
        recorder.record(&redo, Commit { epoch: 1, seen })
    }

    /// The last GSN that is durable in a log.
    fn last_durable(medium: &CrashMedium, log: u8, file_bytes: u64) -> u64 {
        let crashed = medium.crash(medium.events(), || false);
        let folder = crashed.folder(&format!("node-{log}")).unwrap();
        let mut scan = Scan::open(folder, log, file_bytes, 0).unwrap();
        while scan.read_next().unwrap().is_some() {}
        scan.gsn()
    }

    /// A transaction reads a commit in one log that is not durable yet, and writes to a second log
    /// with a clock that is far behind. Returns whether the transaction survives a crash, and
    /// whether the commit that it read does.
    fn reader_and_writer(planted: Planted) -> (bool, bool) {
        let medium = CrashMedium::default();
        let media: Vec<_> =
            (0..2).map(|at| medium.folder(&format!("node-{at}")).unwrap()).collect();
        let (file_bytes, ring_bytes) = (256 << 10, 2 << 20);
        let options = LogsOptions { file_bytes, ring_bytes, planted, ..LogsOptions::default() };
        let starts = [Start { lsn: 0, gsn: 0 }; 2];
        let logs = Logs::open(&media, &starts, 1, options, Box::new(|| Ok(()))).unwrap();
        logs.begin().unwrap();
        let mut recorder = Arc::clone(&logs).recorder();
        // The second log has something to flush, so a flush of the first one writes no watermark
        // for it, and the clock of the second log stays behind.
        commit(&mut *recorder, 1, 0);
        let many = (0..20).map(|_| commit(&mut *recorder, 0, 0)).last().unwrap();
        logs.logs[0].flush_to(many, &Alone).unwrap();
        let written = commit(&mut *recorder, 0, 0);
        let reader = commit(&mut *recorder, 1, written);
        logs.logs[1].flush_to(reader, &Alone).unwrap();
        let lasts = [0, 1].map(|log| last_durable(&medium, log, options.file_bytes));
        let horizon = lasts.into_iter().min().unwrap();
        (reader <= horizon, written <= horizon)
    }

    #[test]
    fn no_transaction_survives_without_the_commits_that_it_has_seen() {
        let (reader, written) = reader_and_writer(Planted::Nothing);
        assert!(!reader || written);
        // It does if it has not learnt the GSN of that commit.
        assert_eq!(reader_and_writer(Planted::NothingSeen), (true, false));
    }

    fn open(medium: &CrashMedium, starts: &[Start], incarnation: u32) -> Arc<Logs> {
        let media: Vec<_> =
            (0..starts.len()).map(|at| medium.folder(&format!("node-{at}")).unwrap()).collect();
        let options = LogsOptions { ring_bytes: 2 << 20, ..LogsOptions::default() };
        let logs = Logs::open(&media, starts, incarnation, options, Box::new(|| Ok(()))).unwrap();
        logs.begin().unwrap();
        logs
    }

    /// Crashes so that nothing survives that was not synced; returns the horizon, and the end and
    /// the last GSN of each log.
    fn after_crash(medium: &CrashMedium, logs: usize) -> (CrashMedium, u64, Vec<Start>) {
        let crashed = medium.crash(medium.events(), || false);
        let (mut idle, mut ends) = (Vec::new(), Vec::new());
        for log in 0..logs {
            let folder = crashed.folder(&format!("node-{log}")).unwrap();
            let bytes = LogsOptions::default().file_bytes;
            let mut scan = Scan::open(folder, log as u8, bytes, 0).unwrap();
            while let Some((header, payload)) = scan.read_next().unwrap() {
                if header.kind == Kind::IdleWatermark {
                    idle.extend(IdleWatermark::decode_all(payload).unwrap());
                }
            }
            ends.push(Start { lsn: scan.at(), gsn: scan.gsn() });
        }
        let known = |(log, end): (usize, &Start)| {
            let idle = idle.iter().filter(|watermark| usize::from(watermark.tablespace) == log);
            idle.map(|watermark| watermark.gsn).max().unwrap_or(0).max(end.gsn)
        };
        let horizon = ends.iter().enumerate().map(known).min().unwrap();
        (crashed, horizon, ends)
    }

    #[test]
    fn a_watermark_of_one_incarnation_does_not_cover_blocks_of_the_next() {
        let medium = CrashMedium::default();
        let logs = open(&medium, &[Start { lsn: 0, gsn: 0 }; 3], 1);
        let mut recorder = Arc::clone(&logs).recorder();
        let small = commit(&mut *recorder, 0, 0);
        let large = (0..20).map(|_| commit(&mut *recorder, 2, 0)).last().unwrap();
        logs.logs[2].flush_to(large, &Alone).unwrap();
        // A leader is about to flush more of the third log, and the second log gives it a promise.
        let larger = (0..20).map(|_| commit(&mut *recorder, 2, 0)).last().unwrap();
        logs.before(&logs.logs[2], larger).unwrap();
        // Another leader flushes the first log, with a clock that is behind, and writes a watermark
        // for the second log.
        logs.logs[0].flush_to(small, &*logs).unwrap();
        let (crashed, horizon, ends) = after_crash(&medium, 3);
        assert_eq!(horizon, small);
        // The next incarnation: a commit in two logs is durable in one of them.
        let gsn = ends.iter().map(|end| end.gsn).max().unwrap();
        let starts: Vec<Start> = ends.iter().map(|end| Start { gsn, ..*end }).collect();
        let logs = open(&crashed, &starts, 2);
        let mut recorder = Arc::clone(&logs).recorder();
        let mut redo = Redo::default();
        [0, 1].into_iter().for_each(|log| redo.part(log).push(1));
        recorder.admit(&redo).unwrap();
        let both = recorder.record(&redo, Commit { epoch: 1, seen: 0 });
        assert!(both < larger);
        logs.logs[0].flush_to(both, &*logs).unwrap();
        let (_, horizon, _) = after_crash(&crashed, 3);
        assert!(horizon < both, "{horizon}: half of {both} is durable");
    }
}
