//! A call: it joins a transaction and a worker while operations run.
//!
//! This file begins transactions, checks what every operation checks, and waits after conflicts;
//! the operations are in the other files.

use atoll_machine::{Machine, Ordering, Word};
use atoll_memory::Inside;
use atoll_storage::{StorageError, Table, Value};

use super::thread::Thread;
use super::txn::{Patience, Phase, TxnState};
use crate::accounting::Component;
use crate::engine::Engine;
use crate::error::OpError;
use crate::scheme::{AbortReason, Conflict, Place, Scheme, Start};
use crate::work;

/// Rounds that a hurried transaction waits. Natively, the last of them yield the CPU to a thread
/// that may be about to finish storing.
const SPIN_ROUNDS_MAX: u32 = 72;
/// Rounds that an upkeep transaction waits: natively most of a millisecond. This is enough to get
/// its turn among short transactions, but it does not wait for one that stays open.
const UPKEEP_ROUNDS: u32 = 4096;

/// Rounds of waiting between two questions whether to give up.
const ROUNDS_PER_QUESTION: u32 = 16;
/// Later rounds take long, and each asks.
const ROUNDS_OF_SPINNING: u32 = 128;

/// See the module.
pub struct Call<'c, S: Scheme<M>, M: Machine> {
    pub(super) engine: &'c Engine<S, M>,
    pub(super) thread: &'c mut Thread,
    pub(super) txn: &'c mut TxnState<S, M>,
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

impl<S: Scheme<M>, M: Machine> TxnState<S, M> {
    pub(super) fn committed(&self) -> Committed {
        let (gsn, seen) = self.log.gsns();
        Committed { gsn, has_changes: gsn > seen }
    }
}

impl<S: Scheme<M>, M: Machine> Call<'_, S, M> {
    /// The same call, for a shorter time.
    #[inline]
    pub(super) fn reborrow(&mut self) -> Call<'_, S, M> {
        Call { engine: self.engine, thread: self.thread, txn: self.txn }
    }

    /// Begins a transaction, after it has rolled back one that is still open.
    ///
    /// # Errors
    /// [`OpError::NoSuchPartition`]; [`OpError::Abort`] if the scheme does not let it begin.
    pub fn begin(&mut self, how: Begin<'_>) -> Result<(), OpError> {
        if self.txn.phase == Phase::Open {
            self.abort(AbortReason::Requested);
        }
        self.txn.phase = Phase::Idle;
        M::work(work::BEGIN);
        self.name_partitions(how.partitions)?;
        self.collect_at_begin();
        self.txn.prefetched.forget();
        self.txn.log.begin();
        self.txn.definitions.clear();
        self.txn.own_indexes.clear();
        self.txn.shown = self.engine.shown.load(Ordering::Acquire);
        self.txn.stopwatch.start::<M>();
        self.txn.stopwatch.switch::<M>(Component::Timestamp);
        self.txn.read_only = how.read_only;
        self.txn.tries = false;
        self.txn.hurried = how.hurried && !(S::READERS_NEVER_ABORT && how.read_only);
        let cuts = self.engine.memory().cuts();
        self.txn.phase = Phase::Open;
        let mut round = 0;
        loop {
            let start =
                Start { partitions: &self.txn.partitions, read_only: self.txn.read_only, cuts };
            match self.engine.scheme.begin(&mut self.txn.local, &start) {
                Ok(()) => break,
                Err(conflict) => self.on_conflict(conflict, &mut round)?,
            }
        }
        self.txn.stopwatch.switch::<M>(Component::Useful);
        Ok(())
    }

    fn name_partitions(&mut self, wanted: &[u32]) -> Result<(), OpError> {
        self.txn.partitions.clear();
        if !S::PARTITIONED {
            return Ok(());
        }
        let partitions = self.engine.partitions();
        if let Some(partition) = wanted.iter().copied().find(|wanted| *wanted >= partitions) {
            return Err(OpError::NoSuchPartition { partition, partitions });
        }
        self.txn.partitions.extend_from_slice(wanted);
        self.txn.partitions.sort_unstable();
        self.txn.partitions.dedup();
        if self.txn.partitions.len() == partitions as usize {
            // Empty means all; then keys need no check.
            self.txn.partitions.clear();
        }
        Ok(())
    }

    /// See [`Txn::committed`](super::Txn::committed).
    pub fn committed(&self) -> Committed {
        self.txn.committed()
    }

    /// See [`Txn::is_open`](super::Txn::is_open).
    pub fn is_open(&self) -> bool {
        self.txn.is_open()
    }

    pub(super) fn check_open(&mut self) -> Result<(), OpError> {
        if self.txn.is_broken {
            self.abort(AbortReason::Finished);
        }
        if self.txn.phase == Phase::Open { Ok(()) } else { Err(AbortReason::Finished.into()) }
    }

    pub(super) fn check_table(&self, table: &Table<M>) -> Result<(), OpError> {
        self.engine.check_table(table)
    }

    pub(super) fn check_writable(&self, table: &Table<M>) -> Result<(), OpError> {
        if self.txn.read_only { Err(OpError::ReadOnly(table.name().to_owned())) } else { Ok(()) }
    }

    /// Checks that the transaction may access a key, see [`Call::has_named`].
    #[inline(always)]
    pub(super) fn check_partition(
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
    pub(super) fn has_named(&self, table: &Table<M>, first: Option<&Value>, write: bool) -> bool {
        if !S::PARTITIONED || self.txn.partitions.is_empty() {
            return true; // All of them.
        }
        if self.engine.tables.context(table.id()).replicated {
            return !write;
        }
        let partition = crate::engine::partition_of(first, self.engine.partitions());
        match self.txn.partitions[..] {
            // Most transactions have named one partition.
            [named] => partition == named,
            _ => self.txn.partitions.binary_search(&partition).is_ok(),
        }
    }

    /// Rolls back, since the transaction has not named a partition.
    #[cold]
    fn misses_partition(&mut self, table: &Table<M>, first: Option<&Value>) -> OpError {
        let partition = if self.engine.tables.context(table.id()).replicated {
            let named = &self.txn.partitions;
            let mut all = 0..self.engine.partitions();
            all.find(|one| named.binary_search(one).is_err()).unwrap_or_default()
        } else {
            crate::engine::partition_of(first, self.engine.partitions())
        };
        self.abort(AbortReason::Finished);
        OpError::OtherPartition { table: table.name().to_owned(), partition }
    }

    /// Whether the transaction has changed rows.
    pub fn has_changes(&self) -> bool {
        let Self { txn, .. } = self;
        !txn.undo.is_empty() || !txn.edits.borrow().is_clear() || txn.rows.any()
    }

    /// Lets go of what the transaction has read so far, see [`Scheme::release_reads`]; returns
    /// whether the scheme can do so.
    pub fn release_reads(&mut self) -> bool {
        let Self { engine, txn, .. } = self;
        if S::RELEASES_READS && txn.phase == Phase::Open {
            engine.scheme.release_reads(&mut txn.local, engine.tables());
        }
        S::RELEASES_READS
    }

    /// Keeps what the transaction has read so far, see [`Scheme::keep_reads`].
    pub fn keep_reads(&mut self) {
        let Self { engine, txn, .. } = self;
        if S::RELEASES_READS && txn.phase == Phase::Open {
            engine.scheme.keep_reads(&mut txn.local);
        }
    }

    /// Checks that the reads of the transaction so far are consistent, see
    /// [`Scheme::is_consistent`].
    ///
    /// # Errors
    /// [`OpError::Abort`]; the transaction has been rolled back.
    pub fn check_consistent(&mut self) -> Result<(), OpError> {
        if self.txn.phase != Phase::Open {
            return Ok(());
        }
        let Self { engine, txn, .. } = self;
        if engine.scheme.is_consistent(&mut txn.local, engine.tables()) {
            return Ok(());
        }
        Err(self.abort_with(AbortReason::Changed))
    }

    /// Rolls back for `reason` and returns it.
    pub(super) fn abort_with(&mut self, reason: AbortReason) -> OpError {
        self.abort(reason);
        OpError::Abort(reason)
    }

    /// Waits or rolls back after a conflict. Outside the gate.
    #[cold]
    pub(super) fn on_conflict(
        &mut self,
        conflict: Conflict,
        round: &mut u32,
    ) -> Result<(), OpError> {
        let waited = match conflict {
            Conflict::Abort(reason) => Err(reason),
            Conflict::WouldBlock(_) if self.txn.tries && *round >= SPIN_ROUNDS_MAX => {
                return Err(OpError::Held);
            }
            Conflict::WouldBlock(_) if self.txn.hurried && *round >= self.rounds_max() => {
                Err(AbortReason::Denied)
            }
            Conflict::WouldBlock(_)
                if (round.is_multiple_of(ROUNDS_PER_QUESTION) || *round > ROUNDS_OF_SPINNING)
                    && self.gives_up(*round == 0) =>
            {
                Err(AbortReason::Timeout)
            }
            // It gives up soon, so it is no part of a deadlock, and the scheme need not know.
            Conflict::WouldBlock(_) if self.txn.tries || self.txn.hurried => {
                M::wait(*round);
                Ok(())
            }
            Conflict::WouldBlock(place) => self.wait_for(place, *round),
        };
        *round = round.saturating_add(1);
        waited.map_err(|reason| self.abort_with(reason))
    }

    /// Makes reads pass by the rows that other transactions hold, or ends that, see
    /// [`Scheme::read_past`]. Returns how many rows were passed by; `None` if the scheme cannot.
    pub fn read_past(&mut self, is_on: bool) -> Option<u64> {
        let Self { engine, txn, .. } = self;
        S::RELEASES_READS.then(|| engine.scheme.read_past(&mut txn.local, is_on))
    }

    /// Waits until the row that reads have passed by last can be had.
    ///
    /// # Errors
    /// [`OpError::Abort`].
    pub fn await_passed(&mut self) -> Result<(), OpError> {
        self.check_open()?;
        let mut round = 0;
        loop {
            let Self { engine, thread: Thread { member, .. }, txn } = self;
            let section = member.enter();
            let read = engine.scheme.read_passed(&mut txn.local, engine.tables());
            drop(section);
            match read {
                Ok(()) => return Ok(()),
                Err(conflict) => self.on_conflict(conflict, &mut round)?,
            }
        }
    }

    /// Sets what is asked while the transaction waits for others: if the answer is yes, it is
    /// rolled back.
    pub fn set_patience(&mut self, patience: Option<Patience>) {
        self.txn.patience = patience;
    }

    /// Asks whether the transaction, which waits for others, is to give up; `is_first` says that
    /// the wait begins.
    pub fn gives_up(&mut self, is_first: bool) -> bool {
        self.txn.patience.as_mut().is_some_and(|patience| patience(is_first))
    }

    /// Rounds that a hurried transaction waits.
    fn rounds_max(&self) -> u32 {
        if self.txn.upkeep { UPKEEP_ROUNDS } else { SPIN_ROUNDS_MAX }
    }

    fn wait_for(&mut self, place: Place, round: u32) -> Result<(), AbortReason> {
        let before = self.txn.stopwatch.switch::<M>(Component::Wait);
        let engine = &self.engine;
        self.txn.publication.context().set_waits(true);
        let waited = engine.scheme.wait(&mut self.txn.local, engine.tables(), place, round);
        self.txn.publication.context().set_waits(false);
        self.txn.stopwatch.switch::<M>(before);
        waited
    }

    /// Rolls back after an error while storing.
    pub(super) fn fail(&mut self, error: StorageError) -> OpError {
        self.abort(AbortReason::Finished); // WORKER-3
        if matches!(error, StorageError::Memory(_)) {
            // Memory that waits only for workers may be enough for the next attempt.
            self.engine.free_dropped();
            self.engine.memory().reclaim();
        }
        error.into()
    }

    /// Runs `body` inside the gate, to access tables without a transaction.
    pub fn inside<R>(&mut self, body: impl FnOnce(Inside) -> R) -> R {
        let section = self.thread.member.enter();
        body(section.inside())
    }
}
