//! Lanes: several transactions that take turns on one thread.
//!
//! A dependent memory access takes as long as hundreds of instructions, and a transaction that
//! looks up one key after the other waits for three of them each time. So a thread interleaves
//! several transactions: after a transaction has issued prefetches, the other lanes run until the
//! cache lines have arrived ([`Transaction::fetch`]). "CoroBase: coroutine-oriented main-memory
//! database engine" (He, Lu and Wang, VLDB 2021) uses coroutines for this; here a procedure is an
//! `async` closure, and lanes need no runtime.
//!
//! - `LANES-1`: a transaction of one lane may hold what another lane of the same thread waits for,
//!   and can release it only when its turn comes. So a lane waits only briefly, then aborts and
//!   retries after the other lanes have had their turns. A reader that waits only for a transaction
//!   that is storing is exempt, because no lane ends its turn while it stores.
//! - `LANES-2`: a lane that has been aborted many times is *starving*: the other lanes begin no
//!   request until its request has ended. So they release what they hold, and the starving lane
//!   competes only with other threads.
//! - `LANES-3`: a lane that waits for its commit to become durable lets the other lanes run. When
//!   all lanes of the thread wait for durability, the thread waits, so that one flush covers the
//!   commits of all of them.
//! - `LANES-4`: where transactions lock partitions before they begin, a lane does not begin while
//!   another lane of its thread holds or waits for one of its partitions: it could only wait for
//!   its own thread.

use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::task::{Context, Waker};

use atoll_txn::Committed;

use crate::error::{Error, Result, TxnError, TxnResult};
use crate::transaction::{Attempts, Transaction, TransactionOptions};
use crate::turn::Turn;

/// Most turns that the other lanes get before an aborted transaction is retried.
const TURNS_MAX: u32 = 64;

/// The input of one transaction.
pub trait Request {
    /// The options of the transaction, known before it begins.
    fn options(&self) -> &TransactionOptions {
        const NOTHING: &TransactionOptions =
            &TransactionOptions { partitions: Vec::new(), read_only: false, durability: None };
        NOTHING
    }
}

/// The lanes of one thread: each has at most one open transaction. See the module.
///
/// ```
/// # use atoll::{Column, DataType, Database, Request, Schema, Value};
/// # fn main() -> atoll::Result<()> {
/// # let db = Database::create(Default::default())?;
/// # let schema = Schema::new(vec![Column::new("id", DataType::Int64),
/// #     Column::new("balance", DataType::Int64)], &["id"])?;
/// # let accounts = db.create_table("account", schema)?;
/// # db.transaction(|tx| (0..9).try_for_each(|id| {
/// #     tx.insert(&accounts, &[Value::Int64(id), Value::Int64(100)])
/// # }))?;
/// struct Transfer { from: Value, to: Value, amount: i64 }
/// impl Request for Transfer {}
///
/// let mut orders = (0..8).map(|id| {
///     Transfer { from: Value::Int64(id), to: Value::Int64(id + 1), amount: 1 }
/// });
/// let mut lanes = db.lanes(4)?;
/// let mut failed = 0;
/// lanes.run(
///     || orders.next(),
///     async |tx, order| {
///         for (key, amount) in [(&order.from, -order.amount), (&order.to, order.amount)] {
///             let key = std::slice::from_ref(key);
///             tx.fetch(&accounts, key, |_| &[1]).await; // the other lanes work meanwhile
///             tx.update_with(&accounts, key, |row| {
///                 let balance = row.i64(1);
///                 row.set_i64(1, balance + amount);
///             })?;
///         }
///         Ok(())
///     },
///     |_, result| failed += usize::from(result.is_err()),
/// );
/// assert_eq!(failed, 0);
/// # Ok(())
/// # }
/// ```
pub struct Lanes {
    transactions: Vec<Transaction>,
    aborts: u64,
    /// Whether transactions lock partitions before they begin.
    partitioned: bool,
}

impl Lanes {
    pub(crate) fn new(transactions: Vec<Transaction>, partitioned: bool) -> Self {
        Self { transactions, aborts: 0, partitioned }
    }

    /// Runs `procedure` in a transaction for each request that `next` returns, as many at a time as
    /// there are lanes, until `next` returns `None`. A transaction that a conflict aborts is
    /// retried with the request as the attempt left it; `done` receives each request with its
    /// result, in any order.
    ///
    /// While one lane runs, the transactions of the other lanes stay open and keep their locks. So
    /// `next`, `done` and the procedure must not wait for anything that needs those transactions to
    /// end: they run no other transaction of this database and do not block.
    pub fn run<Q: Request, R>(
        &mut self,
        next: impl FnMut() -> Option<Q>,
        procedure: impl AsyncFn(&mut Transaction, &mut Q) -> TxnResult<R>,
        done: impl FnMut(Q, Result<R>),
    ) {
        let (next, done) = (RefCell::new(next), RefCell::new(done));
        let partitions = self.partitioned.then(Partitions::default);
        let (shared, ended) = (Shared { partitions, ..Shared::default() }, Cell::new(false));
        // Counts all lanes before the first begins.
        shared.working.set(self.transactions.len());
        let lane = async |transaction: &mut Transaction| {
            let _working = Counted(&shared.working);
            while !ended.get() {
                shared.let_the_starving_end().await;
                let request = (next.borrow_mut())();
                let Some(mut request) = request else { return ended.set(true) };
                let result = complete(transaction, &mut request, &procedure, &shared).await;
                (done.borrow_mut())(request, result);
            }
        };
        let open = self.transactions.iter_mut();
        take_turns(open.map(|transaction| Some(Box::pin(lane(transaction)))).collect());
        self.aborts += shared.aborts.get();
    }

    /// Attempts that were rolled back because of other transactions.
    pub fn aborts(&self) -> u64 {
        self.aborts
    }
}

/// State that the lanes of one run share.
#[derive(Default)]
struct Shared {
    aborts: Cell<u64>,
    /// Lanes that are starving (`LANES-2`).
    starving: Cell<usize>,
    /// Lanes that have not ended.
    working: Cell<usize>,
    /// Lanes that wait until a commit is durable.
    waiting: Cell<usize>,
    /// Set where transactions lock partitions (`LANES-4`).
    partitions: Option<Partitions>,
}

/// The partitions that lanes have locked or wait for, each with the number of the attempt that
/// queued it; attempt numbers ascend. [`ALL`] stands for all partitions.
#[derive(Default)]
struct Partitions {
    attempts: Cell<u64>,
    queue: RefCell<Vec<(u64, u32)>>,
}

const ALL: u32 = u32::MAX;

/// An attempt that is in the queue.
struct Queued<'s> {
    partitions: &'s Partitions,
    attempt: u64,
}

impl Partitions {
    /// Waits until no earlier attempt has one of `wanted` queued; an empty `wanted` means all
    /// partitions.
    async fn lock(&self, wanted: &[u32]) -> Queued<'_> {
        let attempt = self.attempts.get();
        self.attempts.set(attempt + 1);
        let wanted = if wanted.is_empty() { &[ALL] } else { wanted };
        self.queue.borrow_mut().extend(wanted.iter().map(|partition| (attempt, *partition)));
        let queued = Queued { partitions: self, attempt };
        while self.must_wait(attempt) {
            Turn::default().await;
        }
        queued
    }

    fn must_wait(&self, attempt: u64) -> bool {
        let queue = self.queue.borrow();
        let of = |which: fn(&u64, &u64) -> bool| {
            queue.iter().filter(move |(queued, _)| which(queued, &attempt)).map(|(_, one)| *one)
        };
        let meet = |one: u32, other: u32| one == other || one == ALL || other == ALL;
        of(u64::lt).any(|before| of(u64::eq).any(|mine| meet(before, mine)))
    }
}

impl Drop for Queued<'_> {
    fn drop(&mut self) {
        self.partitions.queue.borrow_mut().retain(|(attempt, _)| *attempt != self.attempt);
    }
}

/// Counts a lane in a counter until it is dropped.
struct Counted<'s>(&'s Cell<usize>);

impl<'s> Counted<'s> {
    fn begin(lanes: &'s Cell<usize>) -> Self {
        lanes.set(lanes.get() + 1);
        Self(lanes)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

impl Shared {
    /// Waits until a commit may be acknowledged (`LANES-3`).
    async fn acknowledge(&self, transaction: &Transaction, committed: Committed) -> TxnResult<()> {
        let _waiting = Counted::begin(&self.waiting);
        while !transaction.is_acknowledged(committed) {
            // Give up the turn first, so that lanes that need not wait any more begin their next
            // request.
            Turn::default().await;
            if self.waiting.get() == self.working.get() {
                break;
            }
        }
        transaction.acknowledge(committed)
    }

    async fn let_the_starving_end(&self) {
        while self.starving.get() > 0 {
            Turn::default().await;
        }
    }
}

/// Retries the transaction until it commits, or fails for a reason other than a conflict.
async fn complete<Q: Request, R>(
    transaction: &mut Transaction,
    request: &mut Q,
    procedure: &impl AsyncFn(&mut Transaction, &mut Q) -> TxnResult<R>,
    shared: &Shared,
) -> Result<R> {
    let (mut turns, mut starving) = (1, None);
    let attempts = Attempts(transaction);
    let transaction = &mut *attempts.0;
    loop {
        let queued = match &shared.partitions {
            Some(partitions) => Some(partitions.lock(&request.options().partitions).await),
            None => None,
        };
        let attempted = attempt(transaction, request, procedure).await;
        drop(queued);
        let end = match attempted {
            Ok((result, committed)) => {
                // The transaction holds nothing any more, so the other lanes may begin.
                drop(starving.take());
                // Other transactions can see the commit already, so a failure here must not cause a
                // retry.
                shared.acknowledge(transaction, committed).await.map_err(Error::from)?;
                return Ok(result);
            }
            Err(end) => transaction.conflict_or(end),
        };
        let failed = transaction.end_attempt();
        match end {
            TxnError::Abort(reason) if reason.is_conflict() && !failed => {
                shared.aborts.set(shared.aborts.get() + 1);
                for _ in 0..turns {
                    Turn::default().await;
                }
                if turns < TURNS_MAX {
                    turns *= 2;
                    continue;
                }
                if starving.is_some() {
                    // The conflicting transaction may be of a thread that is not running.
                    std::thread::yield_now();
                } else {
                    // One starving lane at a time, so that starving lanes do not abort each other.
                    shared.let_the_starving_end().await;
                    starving = Some(Counted::begin(&shared.starving));
                }
            }
            end => return Err(Error::from(end)),
        }
    }
}

async fn attempt<Q: Request, R>(
    transaction: &mut Transaction,
    request: &mut Q,
    procedure: &impl AsyncFn(&mut Transaction, &mut Q) -> TxnResult<R>,
) -> TxnResult<(R, Committed)> {
    let number = transaction.number();
    transaction.restart_hurried(request.options())?;
    let result = procedure(transaction, request).await?;
    transaction.check_is(number)?;
    let committed = transaction.commit_unacknowledged()?;
    Ok((result, committed))
}

/// Polls each lane in turn until all have completed.
fn take_turns<F: Future<Output = ()>>(mut lanes: Vec<Option<Pin<Box<F>>>>) {
    let mut context = Context::from_waker(Waker::noop());
    let mut left = lanes.len();
    while left > 0 {
        for lane in &mut lanes {
            let Some(working) = lane else { continue };
            if working.as_mut().poll(&mut context).is_ready() {
                *lane = None;
                left -= 1;
            }
        }
    }
}
