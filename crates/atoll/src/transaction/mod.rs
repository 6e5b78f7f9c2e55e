//! Transactions as a program that embeds the database uses them.

mod alone;
mod altered;
mod in_use;
mod many;
mod prefetch;
mod rows;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use atoll_machine::fork::Here;
use atoll_txn::{AbortReason, Begin, Committed, OpError, Patience};

use crate::core::Core;
use crate::durability::Durability;
use crate::engine::CoreTxn;
use crate::error::{Error, TxnError, TxnResult};

use alone::Alone;
pub use alone::DefinitionsMade;
pub use altered::{IndexBuild, TableChange};
use in_use::InUse;
pub use many::{Cursor, Visit};
pub use rows::{Row, RowEdit};

/// Options of a transaction, known before it begins.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TransactionOptions {
    /// The partitions that the transaction accesses, see
    /// [`Table::partition`](crate::Table::partition); empty for all of them. Only a scheme with
    /// partitions uses it. A transaction that scans an index, or puts a value into a unique index,
    /// accesses all partitions, unless the index begins with the first column of the table's key.
    pub partitions: Vec<u32>,
    /// The transaction does not write. Some schemes never abort such a transaction.
    pub read_only: bool,
    /// The durability of its commit; by default the database's. [`Transaction::set_durability`] can
    /// change it later.
    pub durability: Option<Durability>,
}

/// A serializable transaction. Dropping it rolls it back.
///
/// It may move between threads. Its first operation takes a worker, of which there are about a
/// thousand, and [`Transaction::park`] lets go of it.
pub struct Transaction {
    /// In a forked child, dropping this never frees the parent's core.
    core: Here<Arc<Core>>,
    /// Unique in the process.
    number: u64,
    /// `None` only while it is dropped.
    txn: Option<CoreTxn>,
    /// Whether an error ended it: a retry would fail with the same error.
    failed: bool,
    /// It has a worker.
    is_attached: bool,
    /// It shares its thread with others, so it does not wait for long.
    hurried: bool,
    durability: Option<Durability>,
    in_use: InUse,
    alone: Box<Alone>,
}

impl Transaction {
    pub(crate) fn new(core: Arc<Core>, txn: CoreTxn) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let in_use = InUse::new(number, &*txn);
        core.table_locks.register(in_use.uses());
        let core = Here::new(core);
        let (failed, is_attached, hurried) = (false, false, false);
        let (txn, durability) = (Some(txn), None);
        let alone = Box::default();
        Self { core, number, txn, failed, is_attached, hurried, durability, in_use, alone }
    }

    /// Identifies the transaction for [`Transaction::check_is`].
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Checks that a procedure has not swapped the transaction for another.
    ///
    /// # Errors
    /// [`Error::Exchanged`].
    pub(crate) fn check_is(&self, number: u64) -> TxnResult<()> {
        if self.number == number { Ok(()) } else { Err(Error::Exchanged.into()) }
    }

    /// Runs an operation and records whether its error ended the transaction for good.
    #[inline]
    fn with<R>(&mut self, body: impl FnOnce(&mut CoreTxn) -> Result<R, OpError>) -> TxnResult<R> {
        if !self.is_attached {
            self.attach()?;
        }
        let txn = self.txn.as_mut().expect("a transaction that is not dropped");
        let done = body(txn);
        if let Err(error) = &done
            && !txn.is_open()
        {
            self.failed |= !matches!(error, OpError::Abort(_));
            self.end_locks();
        }
        Ok(done?)
    }

    /// Takes a worker, unless it has one.
    ///
    /// # Errors
    /// [`Error::TooManyTransactions`]; [`Error::ForkedChild`], since the pool of workers belongs to
    /// the parent.
    #[cold]
    pub(crate) fn attach(&mut self) -> TxnResult<()> {
        self.check_owner()?;
        if let Some(txn) = &mut self.txn {
            txn.attach()?;
            self.is_attached = true;
        }
        Ok(())
    }

    /// As [`Transaction::with`], for every operation except reads of single rows: it refuses a
    /// transaction that was open when this process was forked, because it is the parent's. A read
    /// of a single row does not change the parent's transaction, and is too short for the check.
    #[inline]
    fn change<R>(&mut self, body: impl FnOnce(&mut CoreTxn) -> Result<R, OpError>) -> TxnResult<R> {
        self.check_owner()?;
        self.with(body)
    }

    /// As [`Core::check_owner`], by a mark that is not on a cache line which other threads write.
    #[inline]
    fn check_owner(&self) -> TxnResult<()> {
        if self.is_owner() { Ok(()) } else { Ok(self.core.check_owner()?) }
    }

    #[inline]
    fn is_owner(&self) -> bool {
        self.core.mark().is_here()
    }

    /// Changes the durability of the commit; `None` is the database's durability.
    pub fn set_durability(&mut self, durability: Option<Durability>) {
        self.durability = durability;
    }

    /// Commits. This consumes the transaction:
    ///
    /// ```compile_fail,E0382
    /// # fn f(db: &atoll::Database, table: &atoll::Table) -> atoll::TxnResult<()> {
    /// let mut transaction = db.begin()?;
    /// transaction.delete(table, &[1i64.into()])?;
    /// transaction.commit()?;
    /// transaction.delete(table, &[2i64.into()])?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`TxnError::Abort`](crate::TxnError): the transaction has been rolled back.
    pub fn commit(mut self) -> TxnResult<()> {
        self.commit_attempt()
    }

    pub(crate) fn commit_attempt(&mut self) -> TxnResult<()> {
        let committed = self.commit_unacknowledged()?;
        self.acknowledge(committed)
    }

    /// Commits: other transactions see the changes, but the commit may not be acknowledged yet.
    pub(crate) fn commit_unacknowledged(&mut self) -> TxnResult<Committed> {
        self.define_all()?;
        let committed = self.change(|txn| txn.commit().map(|()| txn.committed()))?;
        self.name_all();
        self.end_locks();
        Ok(committed)
    }

    /// Whether a commit can be acknowledged without waiting.
    pub(crate) fn is_acknowledged(&self, committed: Committed) -> bool {
        let acknowledger = self.core.acknowledger.get();
        acknowledger.is_none_or(|one| one.is_acknowledged(committed, self.durability))
    }

    /// Waits until a commit may be acknowledged.
    pub(crate) fn acknowledge(&self, committed: Committed) -> TxnResult<()> {
        match self.core.acknowledger.get() {
            Some(acknowledger) => Ok(acknowledger.acknowledge(committed, self.durability)?),
            None => Ok(()),
        }
    }

    /// Begins, or begins again after the transaction has ended.
    pub(crate) fn restart(&mut self, options: &TransactionOptions) -> TxnResult<()> {
        self.begin(options, false)
    }

    /// As `restart`, for a transaction that shares its thread with others (`LANES-1`).
    pub(crate) fn restart_hurried(&mut self, options: &TransactionOptions) -> TxnResult<()> {
        self.begin(options, true)
    }

    fn begin(&mut self, options: &TransactionOptions, hurried: bool) -> TxnResult<()> {
        self.check_owner()?;
        (self.failed, self.hurried) = (false, hurried);
        self.end_locks();
        let TransactionOptions { partitions, read_only, durability } = options;
        self.durability = *durability;
        self.with(|txn| txn.begin(Begin { partitions, read_only: *read_only, hurried }))
    }

    /// The reason why an attempt ended: a conflict if the body gave up by itself but has read
    /// values that no committed transaction can have read together; else `end`.
    pub(crate) fn conflict_or(&mut self, end: TxnError) -> TxnError {
        if !self.is_owner() {
            return end;
        }
        match self.txn.as_mut().map(|txn| txn.check_consistent()) {
            Some(Err(OpError::Abort(reason))) => TxnError::Abort(reason),
            _ => end,
        }
    }

    /// Rolls back an attempt that did not commit; returns whether an error ended it for good.
    pub(crate) fn end_attempt(&mut self) -> bool {
        if self.is_owner()
            && let Some(txn) = &mut self.txn
        {
            txn.abort(AbortReason::Requested);
            self.end_locks();
        }
        self.failed
    }

    /// Calls `pause` before another attempt.
    pub(crate) fn pause(&mut self, mut pause: impl FnMut()) {
        if let Some(txn) = &mut self.txn {
            txn.pause(&mut pause);
        }
    }

    /// Rolls back, as dropping does.
    ///
    /// ```compile_fail,E0382
    /// # fn f(db: &atoll::Database, table: &atoll::Table) -> atoll::TxnResult<()> {
    /// let mut transaction = db.begin()?;
    /// transaction.delete(table, &[1i64.into()])?;
    /// transaction.rollback();
    /// transaction.commit()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn rollback(self) {}

    /// Rolls back now, and keeps the transaction, which takes no further operation.
    pub fn abort(&mut self) {
        if self.is_owner()
            && let Some(txn) = &mut self.txn
        {
            txn.abort(AbortReason::Requested);
            self.end_locks();
        }
    }

    /// Sets what is asked now and then while the transaction waits for others, on its thread: if
    /// the answer is yes, it gives up and is rolled back. `None` lets it wait as long as its scheme
    /// does.
    ///
    /// # Errors
    /// As [`Transaction::insert`].
    pub fn set_patience(&mut self, patience: Option<Patience>) -> TxnResult<()> {
        self.change(|txn| txn.set_patience(patience))
    }

    /// Lets go of everything that it has read so far and not changed: other transactions may change
    /// it. So the transaction is no longer serializable; it is read committed if this is called
    /// after each of its statements. Returns false, and has no effect, under a scheme that needs
    /// the reads until the end; [`SchemeKind::releases_reads`](crate::SchemeKind) tells which do
    /// not.
    ///
    /// # Errors
    /// As [`Transaction::insert`].
    pub fn release_reads(&mut self) -> TxnResult<bool> {
        self.change(|txn| txn.release_reads())
    }

    /// Keeps what it has read and still holds: [`Transaction::release_reads`] does not let go of
    /// it, so no other transaction changes those rows before this one ends.
    ///
    /// # Errors
    /// As [`Transaction::insert`].
    pub fn keep_reads(&mut self) -> TxnResult<()> {
        self.change(|txn| txn.keep_reads())
    }

    /// Makes reads pass by the rows that other transactions hold, as if there were none, or ends
    /// that. Returns how many rows were passed by before. Such reads find rows that can be had at
    /// once; the transaction is not serializable if it relies on them. `None`, without any effect,
    /// under a scheme that cannot [release reads](Transaction::release_reads).
    ///
    /// # Errors
    /// As [`Transaction::insert`].
    pub fn read_past(&mut self, is_on: bool) -> TxnResult<Option<u64>> {
        self.change(|txn| txn.read_past(is_on))
    }

    /// Waits until the row that reads have [passed by](Transaction::read_past) last can be had.
    ///
    /// # Errors
    /// As [`Transaction::insert`].
    pub fn await_passed(&mut self) -> TxnResult<()> {
        self.change(|txn| txn.await_passed())
    }

    /// Lets go of the worker until the next operation. An open transaction that is parked keeps its
    /// locks and its changes, but no slot at the gate and no segment that it fills; so a server can
    /// keep more transactions open than there are workers. If all workers are in use then, the next
    /// operation fails with [`Error::TooManyTransactions`](crate::Error) and can be tried again.
    pub fn park(&mut self) {
        if self.is_owner()
            && let Some(txn) = &mut self.txn
        {
            txn.park();
            self.is_attached = false;
        }
    }

    /// Whether it can go on: no abort or error has rolled it back.
    pub fn is_open(&self) -> bool {
        self.txn.as_ref().is_some_and(|txn| txn.is_open())
    }
}

/// A transaction that is used for one attempt after the other. If it is still open when the
/// attempts end, because one failed or a procedure panicked, it is rolled back.
pub(crate) struct Attempts<'t>(pub(crate) &'t mut Transaction);

impl Drop for Attempts<'_> {
    fn drop(&mut self) {
        self.0.end_attempt();
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        let Some(mut txn) = self.txn.take() else { return };
        if self.is_owner() {
            txn.abort(AbortReason::Requested);
            self.end_locks();
            self.core.table_locks.unregister(self.in_use.uses());
        } else {
            // The rows, locks and undo belong to the parent, which rolls back or commits them
            // itself.
            std::mem::forget(txn);
        }
    }
}
