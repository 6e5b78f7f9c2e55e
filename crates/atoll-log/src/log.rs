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

mod flush;
mod room;

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};

use self::flush::Flush;
pub(crate) use self::flush::{Alone, Around};
use self::room::Making;
use crate::block::{HEADER_BYTES, Header, IdleWatermark, Kind};
use crate::error::LogError;
use crate::files::Files;
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
