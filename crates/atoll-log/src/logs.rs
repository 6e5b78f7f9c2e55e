//! All logs of a database: commits across them, the durable horizon, and waiting for it.
//!
//! A commit takes the latches of the logs that it writes to, in their order, and one GSN greater
//! than all of their clocks and than everything it has seen; so the GSNs of a log ascend, and a
//! commit has a greater one than whatever it depends on, in whichever log that lies
//! (`JOURNAL-1`).
//!
//! The *durable horizon* is the smallest GSN up to which a log is durable, over all logs. A commit
//! at or below it is durable, with everything it depends on; recovery keeps exactly those. A log
//! that nobody writes to must not hold the horizon back, and flushing it for every commit elsewhere
//! would cost a flush more: whoever flushes one log looks which others are at rest and says so in
//! its own ([`IdleWatermark`]).
//!
//! - `LOGS-1`: nothing is acknowledged above the horizon.
//! - `LOGS-2`: the horizon computed from what lies on the media is at least the one that was
//!   acknowledged by.

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

/// Most tablespaces.
pub const TABLESPACES_MAX: usize = 64;

/// Smallest file, and smallest ring: a block of the largest size fits, and what a flush adds.
pub(crate) const FILE_BYTES: RangeInclusive<u64> = 64 << 10..=1 << 40;
const RING_BYTES_MIN: u64 = 2 << 20;
pub(crate) const RING_BYTES_MAX: u64 = 1 << 30;

/// Settings of the logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogsOptions {
    /// Bytes of a log's file.
    pub file_bytes: u64,
    /// Bytes of a log's ring, a power of two: what can be waiting for a flush.
    pub ring_bytes: u64,
    /// Logs are flushed one after the other, so that a test can be repeated.
    #[doc(hidden)]
    pub in_turns: bool,
    /// What is to be wrong.
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
    /// A checkpoint says that it shows an epoch more than it does: what was open at its cut is
    /// forgotten.
    EpochTooMany,
    /// Who flushes a log speaks for others that have something to flush.
    NotAtRest,
    /// A log at rest does not learn what was promised for it.
    PromiseForgotten,
}

impl LogsOptions {
    /// That logs can be made with it.
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

/// See the module.
pub struct Logs {
    logs: Vec<Log>,
    /// For whoever leads a flush.
    leaders: Vec<Arc<Slot>>,
    transactions: AtomicU64,
    /// Where the pieces of transactions that are open begin, in each log.
    pieces: Mutex<BTreeMap<u64, Vec<u64>>>,
    options: LogsOptions,
    beginning: Beginning,
    helpers: Helpers,
    /// GSN of the last moment that was marked.
    pub(crate) marked: AtomicU64,
}

impl Logs {
    /// The logs on some media, going on where `starts` says. Life `incarnation` of the database
    /// begins with the first change, or with [`Logs::begin`], after `announce` has been called.
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
        // One clock for all: what is still to come is above everything that was kept.
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

    /// What was asked for.
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

    /// The greatest GSN given out so far.
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

    /// Waits until everything up to a GSN is durable.
    ///
    /// # Errors
    /// [`LogError::Poisoned`]: it is not known to be, and will not be.
    pub fn settle(&self, gsn: u64) -> Result<(), LogError> {
        if self.horizon() >= gsn {
            return Ok(());
        }
        if self.options.planted == Planted::OneLogTooFew {
            let any = self.logs.iter().find(|log| log.tail_lsn() != log.durable_lsn());
            return any.map_or(Ok(()), |log| log.flush_to(gsn.min(log.last()), self));
        }
        // The logs with something to flush first: they speak for those at rest.
        let has_some = |log: &&Log| log.tail_lsn() != log.durable_lsn() && log.durable_gsn() < gsn;
        for log in self.logs.iter().filter(has_some).skip(1) {
            self.helpers.ask(log.tablespace().into(), gsn);
        }
        for log in self.logs.iter().filter(has_some) {
            log.flush_to(gsn, self)?;
        }
        self.logs.iter().try_for_each(|log| log.flush_to(gsn, self))
    }

    /// Writes what has been recorded, without waiting for anything else.
    ///
    /// # Errors
    /// [`LogError::Poisoned`].
    pub fn flush(&self) -> Result<(), LogError> {
        self.settle(self.logs.iter().map(Log::last).max().unwrap_or(0))
    }

    /// Takes no more changes, waits for those that are on their way, and makes all durable. What
    /// others do with the files afterwards is not disturbed. Returns whether the life had begun.
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
        // Also when it fails: a flush of another log may be running that somebody has asked for.
        let done = self.flush();
        self.logs.iter().for_each(Log::seal);
        done.map(|()| has_begun)
    }

    /// Whether a flush has failed, so that nothing more will be durable.
    pub fn is_poisoned(&self) -> bool {
        self.logs.iter().any(|log| log.check().is_err())
    }

    /// Why flushes have failed, of each log of which one has: a [`LogError::Poisoned`].
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

    /// Whether changes are taken: a log that fails takes the others with it, since nothing could
    /// be acknowledged any more. Begins the life with the first of them.
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

    /// Makes the files that will be needed next, without hurry, until it is to stop.
    ///
    /// # Errors
    /// [`LogError`].
    pub fn prepare_ahead(&self, is_stopped: impl Fn() -> bool) -> Result<(), LogError> {
        self.begin()?;
        let ahead = self.options.file_bytes;
        self.logs.iter().try_for_each(|log| log.prepare_ahead(ahead, &is_stopped))
    }

    /// Appends a block to a log, of which it has been promised the room.
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

    /// A number for a transaction that is too large for one block.
    pub(crate) fn next_transaction(&self) -> u64 {
        self.transactions.fetch_add(1, Ordering::Relaxed)
    }

    /// Where a recovery has to begin to read, in each log, that finds everything up to now in a
    /// checkpoint: at the ends, but for pieces of transactions that may still commit. To be asked
    /// before the checkpoint's cut.
    pub fn starts(&self) -> Vec<u64> {
        let pieces = self.pieces();
        let tail = |(number, log): (usize, &Log)| {
            let open = pieces.values().map(|starts| starts[number]);
            open.min().unwrap_or(u64::MAX).min(log.tail_lsn())
        };
        self.logs.iter().enumerate().map(tail).collect()
    }

    /// [`Log::watermark`], or what is wrong of it.
    fn watermark(&self, log: &Log, gsn: u64) -> Option<IdleWatermark> {
        let is_spoken_for = match self.options.planted {
            Planted::NotAtRest => true,
            Planted::PromiseForgotten => log.tail_lsn() == log.durable_lsn(),
            _ => return log.watermark(gsn),
        };
        let (tablespace, lsn) = (log.tablespace(), log.durable_lsn());
        is_spoken_for.then_some(IdleWatermark { tablespace, lsn, gsn })
    }

    pub(crate) fn pieces(&self) -> MutexGuard<'_, BTreeMap<u64, Vec<u64>>> {
        self.pieces.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where the logs end.
    pub fn ends(&self) -> Vec<u64> {
        self.logs.iter().map(Log::tail_lsn).collect()
    }

    /// Nobody needs what lies before these positions, one for each log.
    ///
    /// # Errors
    /// [`LogError::Medium`]; the logs go on all the same.
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

    /// A transaction reads in one log what another has committed and not made durable, and writes
    /// in a log whose clock is far behind. Whether it survives, and whether what it read does.
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
        // The second log has something to flush, so the first cannot speak for it, and its clock
        // stays behind.
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
    fn nobody_survives_without_what_he_has_seen() {
        let (reader, written) = reader_and_writer(Planted::Nothing);
        assert!(!reader || written);
        // Who has not learnt the GSN of the commit does.
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

    /// After a crash in which nothing survives that was not synced: the horizon, and where each
    /// log ends and its last GSN.
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
    fn what_was_promised_in_one_life_does_not_speak_for_the_next() {
        let medium = CrashMedium::default();
        let logs = open(&medium, &[Start { lsn: 0, gsn: 0 }; 3], 1);
        let mut recorder = Arc::clone(&logs).recorder();
        let small = commit(&mut *recorder, 0, 0);
        let large = (0..20).map(|_| commit(&mut *recorder, 2, 0)).last().unwrap();
        logs.logs[2].flush_to(large, &Alone).unwrap();
        // Somebody is about to flush more of the third log, and the second one promises for it.
        let larger = (0..20).map(|_| commit(&mut *recorder, 2, 0)).last().unwrap();
        logs.before(&logs.logs[2], larger).unwrap();
        // Somebody else flushes the first one, whose clock is behind, and speaks for the second.
        logs.logs[0].flush_to(small, &*logs).unwrap();
        let (crashed, horizon, ends) = after_crash(&medium, 3);
        assert_eq!(horizon, small);
        // The next life: what is in two logs is durable in one of them.
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
