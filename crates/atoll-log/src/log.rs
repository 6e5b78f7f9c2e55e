//! One log: reserve, fill, flush.
//!
//! Who appends first gets a promise of room ([`Log::admit`], which may wait), then, within a few
//! instructions under the latch, a place and a GSN, then fills the place in the ring without any
//! latch. A flush takes the end of the log, waits for those who are still filling before it, writes
//! and syncs. There is no thread for it: one of those who wait for the flush does it, and what
//! others append meanwhile is the next one's.
//!
//! Before it takes the end, the leader waits for a moment for those who are about to come: the
//! clients that the last flush has let go, and those who came while it ran
//! ([`crate::group_commit`]).
//!
//! - `LOG-1`: `promised` is at least `tail` and at most the ring's capacity behind `durable`, and
//!   [`SLACK_BYTES`] before the end of the files: a place that was promised can be filled and
//!   written.
//! - `LOG-2`: an appender's slot says, from before the latch goes until it has filled its place,
//!   where that place begins. So all below the smallest of them is filled.
//! - `LOG-3`: `durable_gsn` is raised only for blocks that are durable here, or for which another
//!   log's durable block says that this one was at rest.
//! - `LOG-4`: after a flush has failed nothing is written any more. What is known to be durable
//!   stays so.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};

use atoll_machine::{Machine, MediumError, Native};

use crate::block::{HEADER_BYTES, Header, IdleWatermark, Kind};
use crate::error::LogError;
use crate::files::{Files, Pace};
use crate::group_commit::GroupCommitWindow;
use crate::ring::Ring;

/// Room that is kept for blocks which a flush itself adds.
pub const SLACK_BYTES: u64 = 64 << 10;
const IDLE: u64 = u64::MAX;

/// See the module.
pub struct Log {
    tablespace: u8,
    incarnation: u32,
    /// Where it went on.
    begun: u64,
    ring: Ring,
    latch: Mutex<Tail>,
    slots: Mutex<Vec<Weak<Slot>>>,
    durable_lsn: AtomicU64,
    durable_gsn: AtomicU64,
    flush: Mutex<Flush>,
    flushed: Condvar,
    files: Mutex<Files>,
    /// One file is made at a time, and none after the log has been sealed.
    making: Mutex<Making>,
    /// So many wait until one is.
    hurried: AtomicU32,
    poisoned: AtomicBool,
    flushes: AtomicU64,
    /// Blocks so far.
    blocks: AtomicU64,
    group_commit: Mutex<GroupCommitWindow>,
}

/// What is known of the making of files.
#[derive(Default)]
struct Making {
    is_over: bool,
}

/// What the latch guards.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tail {
    /// Where the next block goes.
    lsn: u64,
    promised: u64,
    /// The end of the files, as far as known here.
    ready: u64,
    /// The node's clock: no block that is still to come has this GSN or a smaller one.
    clock: u64,
    /// GSN of the last block.
    last: u64,
}

#[derive(Default)]
struct Flush {
    is_running: bool,
    /// Those who wait for the end of the one that is running.
    waiting: u32,
    /// The log has been closed and its files may be somebody else's.
    sealed: bool,
    failed: Option<MediumError>,
}

/// Where an appender is filling (`LOG-2`).
#[repr(align(64))]
pub(crate) struct Slot(AtomicU64);

/// Where a log goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Start {
    /// Its end, where the next block goes.
    pub lsn: u64,
    /// The greatest GSN in it, or that any log has.
    pub gsn: u64,
}

/// What whoever leads a flush does besides.
pub(crate) trait Around {
    /// Before the end is taken: adds a block if need be; the logs that it says are at rest.
    ///
    /// # Errors
    /// [`LogError::Medium`] when there is no room for the block.
    fn before(&self, log: &Log, gsn: u64) -> Result<Vec<IdleWatermark>, LogError>;
    /// That block is durable.
    fn after(&self, idle: &[IdleWatermark]);
}

/// Nothing.
pub(crate) struct Alone;

impl Around for Alone {
    fn before(&self, _log: &Log, _gsn: u64) -> Result<Vec<IdleWatermark>, LogError> {
        Ok(Vec::new())
    }

    fn after(&self, _rests: &[IdleWatermark]) {}
}

/// A block on its way into a log.
pub(crate) struct Block<'b> {
    pub kind: Kind,
    pub epoch: u64,
    pub transaction: u64,
    pub horizon: u64,
    pub payload: &'b [u8],
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Log {
    pub(crate) fn new(
        tablespace: u8,
        incarnation: u32,
        start: Start,
        ring: Ring,
        files: Files,
    ) -> Self {
        let Start { lsn, gsn } = start;
        let tail = Tail { lsn, promised: lsn, ready: files.end(), clock: gsn, last: gsn };
        Self {
            tablespace,
            incarnation,
            begun: lsn,
            ring,
            latch: Mutex::new(tail),
            slots: Mutex::default(),
            durable_lsn: AtomicU64::new(lsn),
            durable_gsn: AtomicU64::new(gsn),
            flush: Mutex::default(),
            flushed: Condvar::new(),
            files: Mutex::new(files),
            making: Mutex::default(),
            hurried: AtomicU32::new(0),
            poisoned: AtomicBool::new(false),
            flushes: AtomicU64::new(0),
            blocks: AtomicU64::new(0),
            group_commit: Mutex::default(),
        }
    }

    /// Number of its tablespace.
    pub fn tablespace(&self) -> u8 {
        self.tablespace
    }

    /// The position where it went on when it was opened.
    pub fn begun_lsn(&self) -> u64 {
        self.begun
    }

    /// The position up to which it is durable.
    pub fn durable_lsn(&self) -> u64 {
        self.durable_lsn.load(Ordering::Acquire)
    }

    /// The GSN up to which it is durable, see `LOG-3`.
    pub fn durable_gsn(&self) -> u64 {
        self.durable_gsn.load(Ordering::Acquire)
    }

    /// Flushes so far.
    pub fn flushes(&self) -> u64 {
        self.flushes.load(Ordering::Relaxed)
    }

    /// Its end.
    pub fn tail_lsn(&self) -> u64 {
        lock(&self.latch).lsn
    }

    /// The greatest GSN that it has given out or heard of.
    pub fn clock(&self) -> u64 {
        lock(&self.latch).clock
    }

    pub(crate) fn slot(&self) -> Arc<Slot> {
        let slot = Arc::new(Slot(AtomicU64::new(IDLE)));
        let mut slots = lock(&self.slots);
        slots.retain(|known| known.strong_count() > 0);
        slots.push(Arc::downgrade(&slot));
        slot
    }

    /// Promises room for so many bytes; waits for flushes when there is none, and makes files.
    pub(crate) fn admit(&self, bytes: u64) -> Result<(), LogError> {
        loop {
            self.check()?;
            let durable = self.durable_lsn();
            let mut tail = lock(&self.latch);
            let promised = tail.promised + bytes;
            let fits = promised + SLACK_BYTES <= durable + self.ring.capacity_bytes();
            if fits && promised + SLACK_BYTES <= tail.ready {
                tail.promised = promised;
                return Ok(());
            }
            let last = tail.last;
            drop(tail);
            if fits {
                self.prepare(promised + SLACK_BYTES)?;
            } else if self.durable_lsn() == durable {
                // Others may fill for a while yet, but what is there can go.
                self.flush_to(last, &Alone)?;
            }
        }
    }

    /// Makes files up to a position, for somebody who waits.
    fn prepare(&self, end: u64) -> Result<(), LogError> {
        let making = self.hurried_making();
        self.make(&making, end, || Pace::Hurried)
    }

    /// To make files, or do something else with them, with nobody taking their time over it.
    fn hurried_making(&self) -> MutexGuard<'_, Making> {
        self.hurried.fetch_add(1, Ordering::Relaxed);
        let making = lock(&self.making);
        self.hurried.fetch_sub(1, Ordering::Relaxed);
        making
    }

    fn make(&self, making: &Making, end: u64, pace: impl Fn() -> Pace) -> Result<(), LogError> {
        loop {
            if making.is_over {
                return Err(LogError::Closed);
            }
            let next = {
                let files = lock(&self.files);
                self.note_ready(files.end());
                if files.end() >= end {
                    return Ok(());
                }
                files.next()
            };
            let Some(file) = next.make(&pace)? else { return Ok(()) };
            lock(&self.files).add(next.number, file);
        }
    }

    fn note_ready(&self, ready: u64) {
        let mut tail = lock(&self.latch);
        tail.ready = tail.ready.max(ready);
    }

    /// Makes the next file while the current one is being filled, unless it is to stop.
    pub(crate) fn prepare_ahead(
        &self,
        ahead_bytes: u64,
        is_stopped: impl Fn() -> bool,
    ) -> Result<(), LogError> {
        let (promised, ready) = {
            let tail = lock(&self.latch);
            (tail.promised, tail.ready)
        };
        if ready < promised + ahead_bytes {
            let pace = || match self.hurried.load(Ordering::Relaxed) {
                _ if is_stopped() => Pace::Stop,
                0 => Pace::Gentle,
                _ => Pace::Hurried,
            };
            self.make(&lock(&self.making), promised + ahead_bytes, pace)?;
        }
        Ok(())
    }

    /// A promise is not needed.
    pub(crate) fn withdraw(&self, bytes: u64) {
        lock(&self.latch).promised -= bytes;
    }

    pub(crate) fn latch(&self) -> MutexGuard<'_, Tail> {
        lock(&self.latch)
    }

    /// Takes a place for a block of so many promised bytes.
    pub(crate) fn reserve(&self, tail: &mut Tail, slot: &Slot, bytes: u64, gsn: u64) -> u64 {
        // Under the latch, so nobody else adds.
        self.blocks.store(self.blocks.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        let lsn = tail.lsn;
        slot.0.store(lsn, Ordering::Release); // seen by whoever takes the latch next: LOG-2
        tail.lsn += bytes;
        (tail.clock, tail.last) = (gsn, gsn);
        lsn
    }

    /// Fills a place.
    pub(crate) fn fill(&self, slot: &Slot, lsn: u64, gsn: u64, block: &Block<'_>) {
        let header = Header {
            kind: block.kind,
            tablespace: self.tablespace,
            incarnation: self.incarnation,
            lsn,
            gsn,
            epoch: block.epoch,
            durable: self.durable_lsn(),
            horizon: block.horizon,
            transaction: block.transaction,
            payload_bytes: block.payload.len() as u32,
        };
        let bytes = header.encode(block.payload);
        self.ring.write(lsn, &bytes);
        self.ring.write(lsn + bytes.len() as u64, block.payload);
        slot.0.store(IDLE, Ordering::Release);
    }

    /// Whether it takes changes.
    pub(crate) fn check(&self) -> Result<(), LogError> {
        if !self.poisoned.load(Ordering::Acquire) {
            return Ok(());
        }
        let flush = lock(&self.flush);
        let cause = flush.failed.clone().expect("a poisoned log says why");
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

    /// Adds a block that says that there is nothing else up to a GSN here, and what logs are at
    /// rest. For whoever leads the flush: mostly there is room for it (`LOG-1`).
    ///
    /// # Errors
    /// [`LogError::Medium`] when a file has to be made for it and cannot.
    pub(crate) fn append_watermarks(
        &self,
        slot: &Slot,
        gsn: u64,
        horizon: u64,
        idle: &[IdleWatermark],
    ) -> Result<(), LogError> {
        let mut payload = Vec::new();
        idle.iter().for_each(|watermark| watermark.encode(&mut payload));
        let bytes = crate::block::block_bytes(payload.len());
        let mut tail = lock(&self.latch);
        while tail.promised + bytes + HEADER_BYTES as u64 > tail.ready {
            let end = tail.promised + SLACK_BYTES;
            drop(tail);
            self.prepare(end)?;
            tail = lock(&self.latch);
        }
        tail.promised += bytes;
        let gsn = gsn.max(tail.clock);
        let lsn = self.reserve(&mut tail, slot, bytes, gsn);
        drop(tail);
        let block = Block {
            kind: Kind::IdleWatermark,
            epoch: 0,
            transaction: 0,
            horizon,
            payload: &payload,
        };
        self.fill(slot, lsn, gsn, &block);
        Ok(())
    }

    /// Writes nothing and makes no files any more, once what is on its way has ended.
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

    /// Whether every promise has been used or withdrawn.
    pub(crate) fn is_idle(&self) -> bool {
        let tail = lock(&self.latch);
        tail.promised == tail.lsn
    }

    /// GSN of its last block.
    pub(crate) fn last(&self) -> u64 {
        lock(&self.latch).last
    }

    /// If there is nothing to flush, promises that whatever comes has a GSN above the given one;
    /// returns where the log ends and the GSN that was promised. More may have been promised to
    /// others, but what they flush with it may be lost: `BLOCK-6`.
    pub(crate) fn watermark(&self, gsn: u64) -> Option<IdleWatermark> {
        let mut tail = lock(&self.latch);
        if tail.lsn != self.durable_lsn() {
            return None;
        }
        tail.clock = tail.clock.max(gsn);
        Some(IdleWatermark { tablespace: self.tablespace, lsn: tail.lsn, gsn })
    }

    /// Another log's durable block says that this one was at rest.
    pub(crate) fn idled(&self, watermark: IdleWatermark) {
        self.durable_gsn.fetch_max(watermark.gsn, Ordering::AcqRel);
    }

    /// Nobody needs what lies before `start`. Of the files there, as many become the next ones as
    /// make up so many from `start` on.
    pub(crate) fn release(&self, start: u64, spares: u64) -> Result<(), LogError> {
        let making = self.hurried_making();
        if making.is_over {
            return Err(LogError::Closed);
        }
        let (unneeded, last) = {
            let mut files = lock(&self.files);
            (files.unneeded(start)?, files.number_of(start) + spares)
        };
        let (count, done) = unneeded.recycle(|next| next < last);
        let mut files = lock(&self.files);
        files.reuse(count);
        self.note_ready(files.end());
        Ok(done?)
    }
}

impl Tail {
    pub(crate) fn clock(&self) -> u64 {
        self.clock
    }

    /// Where the next block goes.
    pub(crate) fn lsn(&self) -> u64 {
        self.lsn
    }

    /// No block that is still to come has this GSN or a smaller one.
    pub(crate) fn raise(&mut self, clock: u64) {
        self.clock = self.clock.max(clock);
    }
}
