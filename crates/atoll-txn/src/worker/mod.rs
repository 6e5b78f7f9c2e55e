//! A worker runs transactions, one at a time, on one thread.
//!
//! Invariants
//! - `WORKER-1`: the worker finds a row, asks the scheme and reads the row in one section of the
//!   gate. If the scheme would have to wait, it refuses; the worker then waits outside the gate and
//!   starts over.
//! - `WORKER-2`: the worker unlocks places only after it has closed the context. So a cut never
//!   shows a transaction that has read from another one which the cut undoes.
//! - `WORKER-3`: an error while storing leaves a transaction half done, so the worker rolls it back
//!   at once. An error that is found before anything is stored leaves the transaction as it was.
//! - `WORKER-4`: a slot is used again only when no index entry leads to it and, for schemes that
//!   store at commit, no transaction can be reading its old row (`worker/garbage.rs`).
//! - `WORKER-5`: a transaction ends in a section of a sealed epoch, so no worker is inside the gate
//!   under an older epoch. Hence all commits of earlier epochs have happened before the transaction
//!   validates (`SCHEME-4`), and a transaction that reads its results does so after the cut of
//!   every snapshot that undoes it.

mod access;
mod add_entry;
mod apply;
mod commit;
mod delete;
mod entries;
mod garbage;
mod insert;
mod key_batch;
mod late;
mod point;
mod prefetch;
mod redo_writer;
mod rollback;
mod scan;
mod step;
mod upkeep;
mod visit;

use std::cell::RefCell;
use std::collections::HashSet;
use std::hash::BuildHasherDefault;
use std::sync::Arc;

use atoll_machine::Machine;
use atoll_memory::{Inside, Member};
use atoll_storage::undo::{Backwards, UndoList};
use atoll_storage::{Filling, KeyRun, RowId, StorageError, Table, TableId, Value, ValuePlace};

use crate::accounting::{Component, Stopwatch};
use crate::before_image::BeforeImage;
use crate::edits::Edits;
use crate::engine::Engine;
use crate::error::OpError;
use crate::garbage::Garbage;
use crate::place::PlaceHasher;
use crate::registry::TxnContext;
use crate::rows::Meta;
use crate::scheme::{AbortReason, Conflict, Place, Scheme, Start, Target, Writes};
use crate::tables::TableContext;
use crate::worker_number::{WORKERS_MAX, WorkerNumber};
pub use access::RowAccess;
pub use apply::{Buffers, RowOp};
use entries::Entries;
use late::Late;
use prefetch::Prefetched;
pub use prefetch::RowPrefetch;
use redo_writer::RedoWriter;
pub use scan::Range;
use scan::ScanBuffers;
pub use visit::{Visit, Visitor, Want};

/// Rounds that a hurried transaction waits. Natively, the last of them yield the CPU to a thread
/// that may be about to finish storing.
const SPIN_ROUNDS_MAX: u32 = 72;
/// Rounds that an upkeep transaction waits: natively most of a millisecond. This is enough to get
/// its turn among short transactions, but it does not wait for one that stays open.
const UPKEEP_ROUNDS: u32 = 4096;

/// See the module.
pub struct Worker<S: Scheme<M>, M: Machine> {
    engine: Arc<Engine<S, M>>,
    member: Member,
    context: Arc<TxnContext<M>>,
    txn: Txn<S, M>,
    garbage: Garbage,
    state: State,
    read_only: bool,
    hurried: bool,
    /// Partitions that the transaction has named; empty means all.
    partitions: Vec<u32>,
    /// The epoch of the last section in which the worker validated.
    sealed: u64,
    /// A buffer for keys.
    keys: Vec<Value>,
    late: Late,
    scan_buffers: ScanBuffers,
    backwards: Backwards,
    /// The transaction is upkeep of the database and is not counted.
    upkeep: bool,
    /// The last field, so that it is dropped last: the next worker with the number finds the state
    /// that this one has left.
    number: WorkerNumber,
}

/// The state of the open transaction. It is separate from the gate's [`Member`], so that a step can
/// borrow it while a section is open.
struct Txn<S: Scheme<M>, M: Machine> {
    number: u32,
    local: S::Local,
    undo: UndoList,
    edits: RefCell<Edits>,
    /// Places in the table into which cells of the write set will be stored, with the cells'
    /// numbers.
    placed: Vec<(ValuePlace, usize)>,
    /// Number of the transaction once it has shown its undo list to takers, 0 before.
    shown: u64,
    /// How many transactions of workers with this number have shown their undo lists.
    shown_ever: u64,
    chunks_shown: usize,
    /// Rows that the transaction has inserted: their entries are removed if it aborts.
    made: Vec<Named>,
    /// Rows that the transaction has deleted: their entries are removed if it commits.
    gone: Vec<Named>,
    /// The rows that it has deleted in place, as a hash set.
    gone_rows: HashSet<(u32, u64), BuildHasherDefault<PlaceHasher>>,
    entries: Entries,
    /// Slots that were claimed but will not be used.
    unused: Vec<(TableId, RowId)>,
    /// A callback has panicked in a step, so the step is half done and the transaction can only be
    /// rolled back.
    is_broken: bool,
    /// The commit has to free a replaced long value or a deleted row.
    forget: bool,
    fillings: Vec<Filling>,
    /// The current key run of each table.
    runs: Vec<KeyRun>,
    stopwatch: Stopwatch,
    record: Option<RedoWriter>,
    /// Some of its records are in the log already, ahead of its commit.
    has_spilled: bool,
    /// The greatest GSN of a commit that it has seen.
    seen_gsn: u64,
    /// The GSN of its own commit.
    commit_gsn: u64,
    prefetched: Prefetched,
    /// Buffers.
    before_image: BeforeImage,
    entry_key: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Idle,
    Open,
    /// Rolled back, but the owner of the transaction has not been told yet.
    Finished,
}

/// A row and the hash by which the index finds it.
#[derive(Debug, Clone, Copy)]
struct Named {
    table: TableId,
    row: RowId,
    hash: u64,
}

/// How a transaction begins.
#[derive(Debug, Clone, Copy, Default)]
pub struct Begin<'p> {
    /// The partitions that it will access, in any order; empty means all.
    pub partitions: &'p [u32],
    /// It will not write.
    pub read_only: bool,
    /// It waits only a short time for other transactions, because one of them may be waiting for
    /// this thread. A read-only transaction that never aborts still waits without a limit: it waits
    /// only for a transaction that is storing, and none of this thread's is.
    pub hurried: bool,
}

/// The end of a transaction that is to be durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Committed {
    /// The GSN of its commit or, if it changed nothing, the greatest GSN that it has seen.
    pub gsn: u64,
    /// Whether it changed something.
    pub has_changes: bool,
}

impl<S: Scheme<M>, M: Machine> Engine<S, M> {
    /// A new worker; one thread at a time may use it.
    ///
    /// # Errors
    /// [`OpError::TooManyWorkers`].
    pub fn worker(self: &Arc<Self>) -> Result<Worker<S, M>, OpError> {
        // A worker that ends leaves the gate before its number is free.
        let number = self.workers.take().ok_or(OpError::TooManyWorkers(WORKERS_MAX))?;
        let member = self.memory().join().ok_or(OpError::TooManyWorkers(WORKERS_MAX))?;
        Ok(Worker::new(Arc::clone(self), member, number))
    }
}

impl<S: Scheme<M>, M: Machine> Worker<S, M> {
    fn new(engine: Arc<Engine<S, M>>, member: Member, number: WorkerNumber) -> Self {
        let context = engine.registry.register();
        let garbage = engine.take_left();
        let txn = Txn {
            number: number.number,
            local: engine.scheme.local(number.number),
            undo: UndoList::default(),
            edits: RefCell::default(),
            placed: Vec::new(),
            shown: 0,
            shown_ever: number.shown,
            chunks_shown: 0,
            made: Vec::new(),
            gone: Vec::new(),
            gone_rows: HashSet::default(),
            entries: Entries::default(),
            unused: Vec::new(),
            is_broken: false,
            forget: false,
            fillings: Vec::new(),
            runs: Vec::new(),
            stopwatch: Stopwatch::new(engine.sample_every),
            record: engine.recorder().map(RedoWriter::new),
            has_spilled: false,
            seen_gsn: 0,
            commit_gsn: 0,
            prefetched: Prefetched::default(),
            before_image: BeforeImage::default(),
            entry_key: Vec::new(),
        };
        Self {
            engine,
            member,
            context,
            txn,
            garbage,
            state: State::Idle,
            read_only: false,
            hurried: false,
            partitions: Vec::new(),
            sealed: 0,
            keys: Vec::new(),
            late: Late::default(),
            scan_buffers: ScanBuffers::default(),
            backwards: Backwards::default(),
            upkeep: false,
            number,
        }
    }

    /// The engine.
    pub fn engine(&self) -> &Arc<Engine<S, M>> {
        &self.engine
    }

    /// Begins a transaction, after it has rolled back one that is still open.
    ///
    /// # Errors
    /// [`OpError::NoSuchPartition`]; [`OpError::Abort`] if the scheme does not let it begin.
    pub fn begin(&mut self, how: Begin<'_>) -> Result<(), OpError> {
        if self.state == State::Open {
            self.abort(AbortReason::Requested);
        }
        self.state = State::Idle;
        self.name_partitions(how.partitions)?;
        self.collect_at_begin();
        self.txn.prefetched.forget();
        (self.txn.seen_gsn, self.txn.commit_gsn) = (0, 0);
        self.txn.stopwatch.start::<M>();
        self.txn.stopwatch.switch::<M>(Component::Timestamp);
        self.read_only = how.read_only;
        self.hurried = how.hurried && !(S::READERS_NEVER_ABORT && how.read_only);
        let epoch = self.engine.memory().epoch();
        self.state = State::Open;
        let mut round = 0;
        loop {
            let start = Start { partitions: &self.partitions, read_only: self.read_only, epoch };
            match self.engine.scheme.begin(&mut self.txn.local, &start) {
                Ok(()) => break,
                Err(conflict) => self.on_conflict(conflict, &mut round)?,
            }
        }
        self.txn.stopwatch.switch::<M>(Component::Useful);
        Ok(())
    }

    fn name_partitions(&mut self, wanted: &[u32]) -> Result<(), OpError> {
        self.partitions.clear();
        if !S::PARTITIONED {
            return Ok(());
        }
        let partitions = self.engine.partitions();
        if let Some(partition) = wanted.iter().copied().find(|wanted| *wanted >= partitions) {
            return Err(OpError::NoSuchPartition { partition, partitions });
        }
        self.partitions.extend_from_slice(wanted);
        self.partitions.sort_unstable();
        self.partitions.dedup();
        if self.partitions.len() == partitions as usize {
            // Empty means all; then keys need no check.
            self.partitions.clear();
        }
        Ok(())
    }

    /// What must be durable before the last transaction may be acknowledged as committed.
    pub fn committed(&self) -> Committed {
        let (gsn, seen) = (self.txn.commit_gsn, self.txn.seen_gsn);
        Committed { gsn, has_changes: gsn > seen }
    }

    /// Whether a transaction is open and can go on.
    pub fn is_open(&self) -> bool {
        self.state == State::Open && !self.txn.is_broken
    }

    fn check_open(&mut self) -> Result<(), OpError> {
        if self.txn.is_broken {
            self.abort(AbortReason::Finished);
        }
        if self.state == State::Open { Ok(()) } else { Err(AbortReason::Finished.into()) }
    }

    fn check_table(&self, table: &Table<M>) -> Result<(), OpError> {
        if Arc::ptr_eq(table.memory(), self.engine.memory()) {
            return Ok(());
        }
        Err(OpError::ForeignTable(table.name().to_owned()))
    }

    fn check_writable(&self, table: &Table<M>) -> Result<(), OpError> {
        if self.read_only { Err(OpError::ReadOnly(table.name().to_owned())) } else { Ok(()) }
    }

    /// Checks that the transaction may access a key, see [`Worker::has_named`].
    #[inline(always)]
    fn check_partition(
        &mut self,
        table: &Table<M>,
        first: Option<&Value>,
        write: bool,
    ) -> Result<(), OpError> {
        if self.has_named(table, first, write) {
            return Ok(());
        }
        Err(self.misses_partition(table, first))
    }

    /// Whether the transaction may access a key: under a partitioned scheme, it must have named the
    /// key's partition. To write a replicated table it must have named all partitions; to read one,
    /// any partition will do.
    #[inline(always)]
    fn has_named(&self, table: &Table<M>, first: Option<&Value>, write: bool) -> bool {
        if !S::PARTITIONED || self.partitions.is_empty() {
            return true; // All of them.
        }
        if self.engine.tables.context(table.id()).replicated {
            return !write;
        }
        let partition = crate::engine::partition_of(first, self.engine.partitions());
        match self.partitions[..] {
            // Most transactions have named one partition.
            [named] => partition == named,
            _ => self.partitions.binary_search(&partition).is_ok(),
        }
    }

    /// Rolls back, since the transaction has not named a partition.
    #[cold]
    fn misses_partition(&mut self, table: &Table<M>, first: Option<&Value>) -> OpError {
        let partition = if self.engine.tables.context(table.id()).replicated {
            let named = &self.partitions;
            let mut all = 0..self.engine.partitions();
            all.find(|one| named.binary_search(one).is_err()).unwrap_or_default()
        } else {
            crate::engine::partition_of(first, self.engine.partitions())
        };
        self.abort(AbortReason::Finished);
        OpError::OtherPartition { table: table.name().to_owned(), partition }
    }

    /// Checks that the reads of the transaction so far are consistent, see
    /// [`Scheme::is_consistent`].
    ///
    /// # Errors
    /// [`OpError::Abort`]; the transaction has been rolled back.
    pub fn check_consistent(&mut self) -> Result<(), OpError> {
        if self.state != State::Open {
            return Ok(());
        }
        let Self { engine, txn, .. } = self;
        if engine.scheme.is_consistent(&mut txn.local, engine.tables()) {
            return Ok(());
        }
        Err(self.abort_with(AbortReason::Changed))
    }

    /// Rolls back for `reason` and returns it.
    fn abort_with(&mut self, reason: AbortReason) -> OpError {
        self.abort(reason);
        OpError::Abort(reason)
    }

    /// Waits or rolls back after a conflict. Outside the gate.
    #[cold]
    fn on_conflict(&mut self, conflict: Conflict, round: &mut u32) -> Result<(), OpError> {
        let waited = match conflict {
            Conflict::Abort(reason) => Err(reason),
            Conflict::WouldBlock(_) if self.hurried && *round >= self.rounds_max() => {
                Err(AbortReason::Denied)
            }
            Conflict::WouldBlock(place) => self.wait_for(place, *round),
        };
        *round = round.saturating_add(1);
        waited.map_err(|reason| self.abort_with(reason))
    }

    /// Rounds that a hurried transaction waits.
    fn rounds_max(&self) -> u32 {
        if self.upkeep { UPKEEP_ROUNDS } else { SPIN_ROUNDS_MAX }
    }

    fn wait_for(&mut self, place: Place, round: u32) -> Result<(), AbortReason> {
        let before = self.txn.stopwatch.switch::<M>(Component::Wait);
        let engine = &self.engine;
        let waited = engine.scheme.wait(&mut self.txn.local, engine.tables(), place, round);
        self.txn.stopwatch.switch::<M>(before);
        waited
    }

    /// Rolls back after an error while storing.
    fn fail(&mut self, error: StorageError) -> OpError {
        self.abort(AbortReason::Finished); // WORKER-3
        if matches!(error, StorageError::Memory(_)) {
            // Memory that waits only for workers may be enough for the next attempt.
            self.engine.memory().reclaim();
        }
        error.into()
    }

    /// Runs `body` inside the gate, to access tables without a transaction.
    pub fn inside<R>(&mut self, body: impl FnOnce(Inside) -> R) -> R {
        let section = self.member.enter();
        body(section.inside())
    }
}

impl<S: Scheme<M>, M: Machine> Txn<S, M> {
    /// Shows the undo list to takers if it is new or has grown. The caller is in the same section
    /// as the stores that the new entries undo.
    #[inline]
    fn show(&mut self, context: &TxnContext<M>) {
        let chunks = self.undo.chunks().len();
        if self.undo.is_empty() || (self.shown != 0 && chunks <= self.chunks_shown) {
            return;
        }
        if self.shown == 0 {
            self.shown_ever += 1;
            // Unique without a shared counter.
            self.shown = u64::from(self.number) << 44 | self.shown_ever;
        }
        context.open(self.shown, &self.undo);
        self.chunks_shown = chunks;
    }

    /// Whether transactions store in place.
    const IN_PLACE: bool = matches!(S::WRITES, Writes::InPlace);
}

/// The target of a request to the scheme.
#[inline]
fn target<'s, S: Scheme<M>, M: Machine>(
    context: &TableContext<S, M>,
    row: RowId,
    meta: &'s Meta<S, M>,
) -> Target<'s, S::State> {
    Target { place: context.place(row), state: &meta.state }
}

impl<S: Scheme<M>, M: Machine> Drop for Worker<S, M> {
    fn drop(&mut self) {
        self.abort(AbortReason::Requested);
        self.collect_all();
        for (at, filling) in self.txn.fillings.drain(..).enumerate() {
            if filling.is_active() {
                self.engine.tables().table(TableId(at as u32)).leave(filling);
            }
        }
        self.engine.registry.retire(&self.context);
        self.number.shown = self.txn.shown_ever;
    }
}
