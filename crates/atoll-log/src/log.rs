//! One log: admit, reserve, fill, flush.
//!
//! A writer first gets a promise of room (`Log::admit`, which may wait). Then it reserves an LSN
//! and a GSN within a few instructions under the latch, and fills its block in the ring without any
//! latch. A flush takes the end of the log, waits for the writers that still fill blocks before
//! that end, writes the bytes and syncs. No thread is dedicated to flushing: one of the threads
//! that wait for a flush leads it, and blocks that are appended meanwhile belong to the next flush.
//!
//! Before the leader takes the end, it waits a short time for further commits
//! (`group_commit.rs`).
//!
//! - `LOG-1`: `promised` is at least `lsn`. Admission keeps it at least [`SLACK_BYTES`] below the
//!   ring's capacity past `durable_lsn`, and below the end of the files. So a promised block can be
//!   filled and written.
//! - `LOG-2`: a writer's slot holds the LSN of its block from before the writer releases the latch
//!   until it has filled the block. So all bytes below the smallest LSN in a slot are filled.
//! - `LOG-3`: `durable_gsn` is raised only for blocks that are durable in this log, or up to the
//!   GSN of an idle watermark of this log that is durable in another log.
//! - `LOG-4`: after a flush has failed, the log writes nothing more. What was known to be durable
//!   stays durable.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};

use atoll_machine::{Machine, MediumError, Native};

use crate::block::{HEADER_BYTES, Header, IdleWatermark, Kind};
use crate::error::LogError;
use crate::files::{Files, Pace};
use crate::group_commit::GroupCommitWindow;
use crate::ring::Ring;

/// Room that admission leaves for the blocks that a flush itself appends.
pub const SLACK_BYTES: u64 = 64 << 10;
const IDLE: u64 = u64::MAX;

/// One log; see the module.
pub struct Log {
    tablespace: u8,
    incarnation: u32,
    /// Its end when it was opened.
    begun: u64,
    ring: Ring,
    latch: Mutex<Tail>,
    slots: Mutex<Vec<Weak<Slot>>>,
    durable_lsn: AtomicU64,
    durable_gsn: AtomicU64,
    flush: Mutex<Flush>,
    flushed: Condvar,
    files: Mutex<Files>,
    /// Held while a file is created: one at a time, and none after the log has been sealed.
    making: Mutex<Making>,
    /// How many threads wait for `making`.
    hurried: AtomicU32,
    poisoned: AtomicBool,
    flushes: AtomicU64,
    /// Blocks that were appended so far.
    blocks: AtomicU64,
    group_commit: Mutex<GroupCommitWindow>,
}

/// Whether files may still be created.
#[derive(Default)]
struct Making {
    is_over: bool,
}

/// The state that the latch protects.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tail {
    /// LSN of the next block.
    lsn: u64,
    /// `lsn` and the bytes that writers have been promised and have not reserved yet.
    promised: u64,
    /// The end of the files; they may extend further.
    ready: u64,
    /// The log's clock: every later block has a greater GSN (an idle watermark may repeat it).
    clock: u64,
    /// GSN of the last block.
    last: u64,
}

#[derive(Default)]
struct Flush {
    is_running: bool,
    /// Threads that wait for the end of the running flush.
    waiting: u32,
    /// The log has been closed, and another process may use its files.
    sealed: bool,
    failed: Option<MediumError>,
}

/// The LSN of the block that a writer is filling, or [`IDLE`] (`LOG-2`).
#[repr(align(64))]
pub(crate) struct Slot(AtomicU64);

/// The end of a log at which it is continued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Start {
    /// LSN of the next block.
    pub lsn: u64,
    /// The greatest GSN in the log, or in any log.
    pub gsn: u64,
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

/// What a writer puts into a block.
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

    /// Its end when it was opened.
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

    /// The greatest GSN that it has assigned, or has promised not to assign any more.
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

    /// Promises room for `bytes`. When the ring is full, it flushes or waits for flushes; when the
    /// files are full, it creates the next one.
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
                // Promised blocks may take a while to arrive; those in the ring can be flushed.
                self.flush_to(last, &Alone)?;
            }
        }
    }

    /// Creates files up to a position, without pauses, since the caller waits for them.
    fn prepare(&self, end: u64) -> Result<(), LogError> {
        let making = self.hurried_making();
        self.make(&making, end, || Pace::Hurried)
    }

    /// Locks `making`; a thread that is creating a file gently hurries meanwhile.
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

    /// Creates the next file while writers fill the current one, until `is_stopped`.
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

    /// Returns promised room that the caller does not need.
    pub(crate) fn withdraw(&self, bytes: u64) {
        lock(&self.latch).promised -= bytes;
    }

    pub(crate) fn latch(&self) -> MutexGuard<'_, Tail> {
        lock(&self.latch)
    }

    /// Reserves the LSN of a block with promised `bytes`. The caller holds the latch.
    pub(crate) fn reserve(&self, tail: &mut Tail, slot: &Slot, bytes: u64, gsn: u64) -> u64 {
        // No other thread adds: the latch is held.
        self.blocks.store(self.blocks.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        let lsn = tail.lsn;
        slot.0.store(lsn, Ordering::Release); // The next holder of the latch sees it: LOG-2.
        tail.lsn += bytes;
        (tail.clock, tail.last) = (gsn, gsn);
        lsn
    }

    /// Writes a block to the ring at its reserved LSN.
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

    /// Appends a block which says that this log gets no other block up to a GSN, and which logs
    /// are idle. The leader of a flush calls this; usually there is room for the block (`LOG-1`).
    ///
    /// # Errors
    /// [`LogError::Medium`] when the block needs a new file and that cannot be created.
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

    /// Whether every promise has been used or withdrawn.
    pub(crate) fn is_idle(&self) -> bool {
        let tail = lock(&self.latch);
        tail.promised == tail.lsn
    }

    /// GSN of its last block.
    pub(crate) fn last(&self) -> u64 {
        lock(&self.latch).last
    }

    /// If the log has nothing to flush, promises that each later block has a GSN above `gsn`, and
    /// returns the end of the log with `gsn`. The clock may be higher because of an earlier
    /// promise, but the block with that promise may be lost in a crash: `BLOCK-6`.
    pub(crate) fn watermark(&self, gsn: u64) -> Option<IdleWatermark> {
        let mut tail = lock(&self.latch);
        if tail.lsn != self.durable_lsn() {
            return None;
        }
        tail.clock = tail.clock.max(gsn);
        Some(IdleWatermark { tablespace: self.tablespace, lsn: tail.lsn, gsn })
    }

    /// A watermark of this log is durable in another log.
    pub(crate) fn idled(&self, watermark: IdleWatermark) {
        self.durable_gsn.fetch_max(watermark.gsn, Ordering::AcqRel);
    }

    /// Recovery needs no bytes before `start`. Recycles files before it until there are `spares`
    /// files from the one of `start` on, and removes the others.
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

    /// LSN of the next block.
    pub(crate) fn lsn(&self) -> u64 {
        self.lsn
    }

    /// From now on, every block gets a GSN above `clock`.
    pub(crate) fn raise(&mut self, clock: u64) {
        self.clock = self.clock.max(clock);
    }
}
