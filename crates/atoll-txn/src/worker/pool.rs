//! Workers and transactions of an engine, and those that are kept for their next use.

use std::sync::Arc;

use atoll_machine::{Latch, Machine};
use atoll_storage::Table;

use super::call::{Call, Committed};
use super::index_fill::Impatience;
use super::thread::Thread;
use super::txn::{Phase, TxnState};
use crate::engine::Engine;
use crate::error::OpError;
use crate::registry::TxnContext;
use crate::scheme::{AbortReason, Scheme, TXNS_MAX};

/// Most workers at a time. Two members of the gate are kept: one for upkeep, and one to roll back
/// transactions that are dropped while all workers are in use.
pub const WORKERS_MAX: usize = atoll_memory::gate::MEMBERS_MAX - 2;

/// Workers that only transactions that are open already may take: those that have workers may be
/// waiting for them. So 1,024 transactions that are not parked can be open.
const RESERVED: usize = 15;

/// What a thread needs to execute transactions, see [`super`]. Dropping it makes it available to
/// other threads.
pub struct Worker<S: Scheme<M>, M: Machine> {
    pool: Arc<Pool<S, M>>,
    /// `None` only while it is dropped.
    thread: Option<Box<Thread>>,
}

/// A transaction, or one after the other, see [`super`]. Dropping it rolls the open one back.
pub struct Txn<S: Scheme<M>, M: Machine> {
    pool: Arc<Pool<S, M>>,
    /// `None` only while it is dropped.
    state: Option<Box<TxnState<S, M>>>,
}

/// See the module. Of those that are kept, the one that was used last, which has most of its data
/// in caches, is used next.
pub struct Pool<S: Scheme<M>, M: Machine> {
    engine: Arc<Engine<S, M>>,
    threads: Latch<M, Threads>,
    txns: Latch<M, Vec<Box<TxnState<S, M>>>>,
    /// For transactions that are dropped while all workers are in use.
    spare: Latch<M, Box<Thread>>,
}

#[derive(Default)]
struct Threads {
    // Boxed, since they move between here and their workers.
    #[allow(clippy::vec_box)]
    idle: Vec<Box<Thread>>,
    /// Of all threads, those in use included.
    made: usize,
}

impl<S: Scheme<M>, M: Machine> Pool<S, M> {
    /// A pool of workers and transactions of an engine.
    ///
    /// # Panics
    /// When the engine has as many workers as it can have.
    pub fn new(engine: Arc<Engine<S, M>>) -> Arc<Self> {
        let spare = engine.memory().join().expect("the gate has room for a pool");
        let spare = Latch::new(Box::new(Thread::new(spare)));
        Arc::new(Self { engine, threads: Latch::default(), txns: Latch::default(), spare })
    }

    /// The engine.
    pub fn engine(&self) -> &Arc<Engine<S, M>> {
        &self.engine
    }

    /// A worker; one thread at a time may use it. Some workers are reserved for transactions that
    /// are open already.
    ///
    /// # Errors
    /// [`OpError::TooManyWorkers`].
    pub fn worker(self: &Arc<Self>, for_open: bool) -> Result<Worker<S, M>, OpError> {
        // With the gate of the tests of interleavings there are fewer than that.
        let most = if for_open { WORKERS_MAX } else { WORKERS_MAX.saturating_sub(RESERVED) };
        let thread = self.take_thread(most).ok_or(OpError::TooManyWorkers(most))?;
        Ok(Worker { pool: Arc::clone(self), thread: Some(thread) })
    }

    /// A transaction that has not begun.
    ///
    /// # Errors
    /// [`OpError::TooManyTxns`].
    pub fn txn(self: &Arc<Self>) -> Result<Txn<S, M>, OpError> {
        let state = self.take_txn().ok_or(OpError::TooManyTxns(TXNS_MAX))?;
        Ok(Txn { pool: Arc::clone(self), state: Some(state) })
    }

    /// A thread, if fewer than `most` are in use.
    fn take_thread(&self, most: usize) -> Option<Box<Thread>> {
        let mut threads = self.threads.take();
        if threads.made - threads.idle.len() >= most {
            return None;
        }
        if let Some(idle) = threads.idle.pop() {
            return Some(idle);
        }
        let member = self.engine.memory().join()?;
        threads.made += 1;
        Some(Box::new(Thread::new(member)))
    }

    fn put_back(&self, thread: Box<Thread>) {
        self.threads.take().idle.push(thread);
    }

    fn take_txn(&self) -> Option<Box<TxnState<S, M>>> {
        let kept = self.txns.take().pop();
        kept.or_else(|| {
            let number = self.engine.txn_number()?;
            Some(Box::new(TxnState::new(&self.engine, number)))
        })
    }

    /// Frees at most `most` items of garbage of each worker that is not in use.
    pub fn collect_garbage(&self, most: usize) {
        let spare = self.spare.try_take().filter(|spare| !spare.garbage.is_empty());
        let (idle, garbage) = self.idle_workers();
        if garbage == 0 && spare.is_none() {
            return;
        }
        let Some(mut txn) = self.take_txn() else { return };
        if let Some(mut thread) = spare {
            let mut call = Call { engine: &self.engine, thread: &mut thread, txn: &mut txn };
            call.collect_some(most);
        }
        let mut from = 0;
        while from < idle {
            let mut threads = self.threads.take();
            let has_garbage = |at: &usize| !threads.idle[*at].garbage.is_empty();
            let Some(at) = (from..threads.idle.len()).find(has_garbage) else { break };
            let mut thread = threads.idle.remove(at);
            drop(threads);
            let mut call = Call { engine: &self.engine, thread: &mut thread, txn: &mut txn };
            call.collect_some(most);
            // At its position, since the next user takes the last one.
            let idle = &mut self.threads.take().idle;
            let at = at.min(idle.len());
            idle.insert(at, thread);
            from = at + 1;
        }
        self.txns.take().push(txn);
    }

    /// Stores at most `most` long values of a table's sparse blocks again, see [`Call::compact`].
    /// Does nothing while too many workers or transactions are in use.
    pub fn compact(self: &Arc<Self>, table: &Table<M>, most: usize) {
        if let (Ok(mut worker), Ok(mut txn)) = (self.worker(false), self.txn()) {
            txn.on(&mut worker).compact(table, most);
        }
    }

    /// See [`Call::fill_index`].
    ///
    /// # Errors
    /// As there; [`OpError::TooManyWorkers`], [`OpError::TooManyTxns`].
    pub fn fill_index(
        self: &Arc<Self>,
        table: &Table<M>,
        number: usize,
        gives_up: Impatience<'_>,
    ) -> Result<(), OpError> {
        let (mut worker, mut txn) = (self.worker(false)?, self.txn()?);
        txn.on(&mut worker).fill_index(table, number, gives_up)
    }

    /// See [`Call::check_unique`].
    ///
    /// # Errors
    /// As [`Pool::fill_index`].
    pub fn check_unique(
        self: &Arc<Self>,
        table: &Table<M>,
        number: usize,
        gives_up: Impatience<'_>,
    ) -> Result<(), OpError> {
        let (mut worker, mut txn) = (self.worker(false)?, self.txn()?);
        txn.on(&mut worker).check_unique(table, number, gives_up)
    }

    /// Rolls an open transaction back with whatever worker there is.
    fn roll_back(&self, txn: &mut TxnState<S, M>) {
        let engine = &self.engine;
        if txn.phase == Phase::Open {
            match self.take_thread(WORKERS_MAX) {
                Some(mut thread) => {
                    Call { engine, thread: &mut thread, txn }.abort(AbortReason::Requested);
                    self.put_back(thread);
                }
                None => {
                    // A rollback may take long, and may wait for memory.
                    let thread = &mut self.spare.take_patiently();
                    Call { engine, thread, txn }.abort(AbortReason::Requested);
                }
            }
        }
        txn.phase = Phase::Idle;
    }

    /// The number of workers that are not in use, and how many of them have garbage.
    pub fn idle_workers(&self) -> (usize, usize) {
        let idle = &self.threads.take().idle;
        (idle.len(), idle.iter().filter(|thread| !thread.garbage.is_empty()).count())
    }
}

impl<S: Scheme<M>, M: Machine> Txn<S, M> {
    /// Joins the transaction and a worker, to execute operations.
    ///
    /// # Panics
    /// When they are of two pools.
    #[inline]
    pub fn on<'c>(&'c mut self, worker: &'c mut Worker<S, M>) -> Call<'c, S, M> {
        assert!(Arc::ptr_eq(&self.pool, &worker.pool), "a call joins parts of one pool");
        let thread = worker.thread.as_deref_mut().expect("a worker that is not dropped");
        let txn = self.state.as_deref_mut().expect("a transaction that is not dropped");
        Call { engine: &self.pool.engine, thread, txn }
    }

    fn state(&self) -> &TxnState<S, M> {
        self.state.as_deref().expect("a transaction that is not dropped")
    }

    fn state_mut(&mut self) -> &mut TxnState<S, M> {
        self.state.as_deref_mut().expect("a transaction that is not dropped")
    }

    /// The pool.
    pub fn pool(&self) -> &Arc<Pool<S, M>> {
        &self.pool
    }

    /// Whether a transaction is open and can go on.
    pub fn is_open(&self) -> bool {
        self.state().is_open()
    }

    /// What others see of the transaction.
    pub fn context(&self) -> &Arc<TxnContext<M>> {
        self.state().publication.context()
    }

    /// What must be durable before the last transaction may be acknowledged as committed.
    pub fn committed(&self) -> Committed {
        self.state().committed()
    }

    /// Calls `pause`, after an attempt that was rolled back and before the next one. The time of
    /// the pause counts as a cost of the abort.
    pub fn pause(&mut self, pause: &mut dyn FnMut()) {
        self.state_mut().pause(pause);
    }

    /// Rolls the open transaction back; does nothing if none is open. [`Call::abort`] does the same
    /// where a worker is at hand.
    pub fn roll_back(&mut self) {
        let txn = self.state.as_deref_mut().expect("a transaction that is not dropped");
        self.pool.roll_back(txn);
    }
}

impl<S: Scheme<M>, M: Machine> Drop for Txn<S, M> {
    fn drop(&mut self) {
        let Some(mut txn) = self.state.take() else { return };
        self.pool.roll_back(&mut txn);
        self.pool.txns.take().push(txn);
    }
}

impl<S: Scheme<M>, M: Machine> Drop for Worker<S, M> {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        self.pool.put_back(thread);
    }
}
