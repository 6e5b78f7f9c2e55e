//! The state of a transaction.

use std::cell::RefCell;

use atoll_machine::Machine;
use atoll_storage::undo::UndoList;
use atoll_storage::{TableId, ValuePlace};

use super::defined::Defined;
use super::entries::Entries;
use super::prefetched::Prefetched;
use super::publication::Publication;
use super::redo::LogState;
use super::row_changes::RowChanges;
use crate::accounting::Stopwatch;
use crate::before_image::BeforeImage;
use crate::edits::Edits;
use crate::engine::Engine;
use crate::scheme::{Scheme, Writes};

/// See [`super`]. It is used again for later transactions, one at a time.
pub(super) struct TxnState<S: Scheme<M>, M: Machine> {
    pub(super) phase: Phase,
    pub(super) read_only: bool,
    pub(super) hurried: bool,
    /// Its operation gives up if another transaction holds the row, and the transaction goes on.
    pub(super) tries: bool,
    /// Asked while it waits for others: whether it is to give up.
    pub(super) patience: Option<Patience>,
    /// It is upkeep of the database and is not counted.
    pub(super) upkeep: bool,
    /// A callback has panicked in a step, so the step is half done and the transaction can only be
    /// rolled back.
    pub(super) is_broken: bool,
    /// Partitions that it has named, ascending; empty means all.
    pub(super) partitions: Vec<u32>,
    pub(super) local: S::Local,
    pub(super) undo: UndoList<M>,
    pub(super) edits: RefCell<Edits>,
    /// Places in the table into which cells of the write set will be stored, with the cells'
    /// numbers.
    pub(super) placed: Vec<(ValuePlace, usize)>,
    pub(super) publication: Publication<M>,
    pub(super) rows: RowChanges,
    pub(super) entries: Entries,
    pub(super) log: LogState,
    pub(super) definitions: Vec<Defined<M>>,
    /// Definitions that had shown indexes when it began (`INDEXES-3`).
    pub(super) shown: u64,
    /// The indexes that it has made itself.
    pub(super) own_indexes: Vec<(TableId, usize)>,
    pub(super) stopwatch: Stopwatch,
    pub(super) prefetched: Prefetched,
    /// Buffers.
    pub(super) before_image: BeforeImage,
    pub(super) entry_key: Vec<u8>,
}

/// Tells whether a transaction that waits for others is to give up. It is told whether a wait has
/// just begun.
pub type Patience = Box<dyn FnMut(bool) -> bool + Send>;

/// Where a transaction is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Idle,
    Open,
    /// Rolled back, but the owner of the transaction has not been told yet.
    Finished,
}

impl<S: Scheme<M>, M: Machine> TxnState<S, M> {
    /// Whether transactions store in place.
    pub(super) const IN_PLACE: bool = matches!(S::WRITES, Writes::InPlace);

    pub(super) fn new(engine: &Engine<S, M>, number: u32) -> Self {
        Self {
            phase: Phase::Idle,
            read_only: false,
            hurried: false,
            tries: false,
            patience: None,
            upkeep: false,
            is_broken: false,
            partitions: Vec::new(),
            local: engine.scheme.local(number),
            undo: UndoList::default(),
            edits: RefCell::default(),
            placed: Vec::new(),
            publication: Publication::new(number, &engine.registry),
            rows: RowChanges::default(),
            entries: Entries::default(),
            log: LogState::new(engine.recorder()),
            definitions: Vec::new(),
            shown: 0,
            own_indexes: Vec::new(),
            stopwatch: Stopwatch::new(engine.sample_every),
            prefetched: Prefetched::default(),
            before_image: BeforeImage::default(),
            entry_key: Vec::new(),
        }
    }

    /// Whether it is open and can go on.
    pub(super) fn is_open(&self) -> bool {
        self.phase == Phase::Open && !self.is_broken
    }

    /// Shows the undo list to takers, see [`Publication::show`].
    #[inline]
    pub(super) fn show(&mut self) {
        self.publication.show(&self.undo);
    }

    /// Notes the GSN of what the transaction has read, if there is a log.
    #[inline]
    pub(super) fn note_gsn(&mut self, gsn: impl FnOnce() -> u64) {
        self.log.note(gsn);
    }
}
