//! The state of a transaction.

use std::cell::RefCell;
use std::collections::HashSet;
use std::hash::BuildHasherDefault;
use std::sync::Arc;

use atoll_machine::Machine;
use atoll_storage::undo::UndoList;
use atoll_storage::{RowId, TableId, ValuePlace};

use super::entries::Entries;
use super::prefetched::Prefetched;
use super::redo::RedoWriter;
use crate::accounting::Stopwatch;
use crate::before_image::BeforeImage;
use crate::edits::Edits;
use crate::engine::Engine;
use crate::place::PlaceHasher;
use crate::registry::TxnContext;
use crate::scheme::{Scheme, Writes};

/// See [`super`]. It is used again for later transactions, one at a time.
pub(super) struct TxnState<S: Scheme<M>, M: Machine> {
    number: u32,
    pub(super) phase: Phase,
    pub(super) read_only: bool,
    pub(super) hurried: bool,
    /// It is upkeep of the database and is not counted.
    pub(super) upkeep: bool,
    /// A callback has panicked in a step, so the step is half done and the transaction can only be
    /// rolled back.
    pub(super) is_broken: bool,
    /// Partitions that it has named, ascending; empty means all.
    pub(super) partitions: Vec<u32>,
    pub(super) local: S::Local,
    pub(super) context: Arc<TxnContext<M>>,
    pub(super) undo: UndoList,
    pub(super) edits: RefCell<Edits>,
    /// Places in the table into which cells of the write set will be stored, with the cells'
    /// numbers.
    pub(super) placed: Vec<(ValuePlace, usize)>,
    /// Number of the transaction once it has shown its undo list to takers, 0 before.
    pub(super) shown: u64,
    /// How many transactions with this state have shown their undo lists.
    shown_ever: u64,
    chunks_shown: usize,
    /// Rows that it has inserted: their entries are removed if it aborts.
    pub(super) made: Vec<Named>,
    /// Rows that it has deleted: their entries are removed if it commits.
    pub(super) gone: Vec<Named>,
    /// The rows that it has deleted in place, as a hash set.
    pub(super) gone_rows: HashSet<(u32, u64), BuildHasherDefault<PlaceHasher>>,
    pub(super) entries: Entries,
    /// Slots that were claimed but will not be used.
    pub(super) unused: Vec<(TableId, RowId)>,
    /// The commit has to free a replaced long value or a deleted row.
    pub(super) forget: bool,
    pub(super) stopwatch: Stopwatch,
    pub(super) record: Option<RedoWriter>,
    /// Some of its records are in the log already, ahead of its commit.
    pub(super) has_spilled: bool,
    /// The greatest GSN of a commit that it has seen.
    pub(super) seen_gsn: u64,
    /// The GSN of its own commit.
    pub(super) commit_gsn: u64,
    pub(super) prefetched: Prefetched,
    /// Buffers.
    pub(super) before_image: BeforeImage,
    pub(super) entry_key: Vec<u8>,
}

/// Where a transaction is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Idle,
    Open,
    /// Rolled back, but the owner of the transaction has not been told yet.
    Finished,
}

/// A row and the hash by which the index finds it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Named {
    pub(super) table: TableId,
    pub(super) row: RowId,
    pub(super) hash: u64,
}

impl<S: Scheme<M>, M: Machine> TxnState<S, M> {
    /// Whether transactions store in place.
    pub(super) const IN_PLACE: bool = matches!(S::WRITES, Writes::InPlace);

    pub(super) fn new(engine: &Engine<S, M>, number: u32) -> Self {
        Self {
            number,
            phase: Phase::Idle,
            read_only: false,
            hurried: false,
            upkeep: false,
            is_broken: false,
            partitions: Vec::new(),
            local: engine.scheme.local(number),
            context: engine.registry.register(),
            undo: UndoList::default(),
            edits: RefCell::default(),
            placed: Vec::new(),
            shown: 0,
            shown_ever: 0,
            chunks_shown: 0,
            made: Vec::new(),
            gone: Vec::new(),
            gone_rows: HashSet::default(),
            entries: Entries::default(),
            unused: Vec::new(),
            forget: false,
            stopwatch: Stopwatch::new(engine.sample_every),
            record: engine.recorder().map(RedoWriter::new),
            has_spilled: false,
            seen_gsn: 0,
            commit_gsn: 0,
            prefetched: Prefetched::default(),
            before_image: BeforeImage::default(),
            entry_key: Vec::new(),
        }
    }

    /// Whether it is open and can go on.
    pub(super) fn is_open(&self) -> bool {
        self.phase == Phase::Open && !self.is_broken
    }

    /// Shows the undo list to takers if it is new or has grown. The caller is in the same section
    /// as the stores that the new entries undo.
    #[inline]
    pub(super) fn show(&mut self) {
        let chunks = self.undo.chunks().len();
        if self.undo.is_empty() || (self.shown != 0 && chunks <= self.chunks_shown) {
            return;
        }
        if self.shown == 0 {
            self.shown_ever += 1;
            // Unique without a shared counter.
            self.shown = u64::from(self.number) << 44 | self.shown_ever;
        }
        self.context.open(self.shown, &self.undo);
        self.chunks_shown = chunks;
    }

    /// Hides the undo list from takers: the transaction ends in `epoch`. Inside the gate.
    #[inline]
    pub(super) fn close(&mut self, engine: &Engine<S, M>, epoch: u64) {
        if self.shown != 0 {
            self.context.close(&engine.registry, epoch, self.undo.first_epoch());
            (self.shown, self.chunks_shown) = (0, 0);
        }
    }
}
