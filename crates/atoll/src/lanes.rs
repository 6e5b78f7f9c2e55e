//! Transactions that take turns on one thread.
//!
//! A read of memory that depends on another takes as long as hundreds of instructions, and a
//! transaction that looks for one key after the other waits for three of them each time. So a
//! thread works on several transactions: one that has asked for cache lines lets the others work
//! until they have come ([`Transaction::fetch`]). This is what coroutines are used for in
//! "CoroBase: coroutine-oriented main-memory database engine" (He, Lu and Wang, VLDB 2021); here a
//! procedure is an `async` closure, and lanes need no runtime.
//!
//! - `LANES-1`: a transaction of a lane may hold what another lane of the same thread waits for,
//!   and only taking turns lets it go on. So lanes wait for a moment at most, then give up and try
//!   again after the others have had their turns. Only readers that wait for nobody but who is
//!   storing need not: no lane gives its turn away while it stores.
//! - `LANES-2`: a lane that has been given up many times is *starving*: the others begin nothing
//!   until its request has ended, so what they hold is let go, and it meets other threads alone.
//! - `LANES-3`: a lane whose commit is not durable yet lets the others work. When all of a thread
//!   wait for that, the thread does, so that a flush finds the commits of all of them.
//! - `LANES-4`: where transactions lock partitions before they begin, a lane does not try while
//!   another of its thread has, or waits for, one of them: it could only wait for itself.

use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::task::{Context, Waker};

use atoll_txn::Committed;

use crate::error::{Error, Result, TxnError, TxnResult};
use crate::transaction::{Attempts, Transaction, TransactionOptions};
use crate::turn::Turn;

/// Turns that others have before an aborted transaction is tried again, at most.
const TURNS_MAX: u32 = 64;

/// What a transaction is to do.
pub trait Request {
    /// What is known of the transaction before it begins.
    fn options(&self) -> &TransactionOptions {
        const NOTHING: &TransactionOptions =
            &TransactionOptions { partitions: Vec::new(), read_only: false, durability: None };
        NOTHING
    }
}

/// A thread's lanes: each has a transaction open at a time. See the module.
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
///             tx.fetch(&accounts, key, &[1]).await; // the other lanes work meanwhile
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
    /// Transactions lock partitions before they begin.
    partitioned: bool,
}

impl Lanes {
    pub(crate) fn new(transactions: Vec<Transaction>, partitioned: bool) -> Self {
        Self { transactions, aborts: 0, partitioned }
    }

    /// Runs `procedure` in a transaction for each request that `next` gives, as many at a time as
    /// there are lanes, until it gives none. A transaction that is aborted by a conflict is tried
    /// again, with the request as the attempt has left it; `done` is told what became of each, in
    /// any order.
    ///
    /// While one lane works, the transactions of the others are open and hold what they hold. So
    /// neither `next` nor `done` nor the procedure may wait for anything that needs them to end:
    /// they run no other transaction of this database and do not block.
    pub fn run<Q: Request, R>(
        &mut self,
        next: impl FnMut() -> Option<Q>,
        procedure: impl AsyncFn(&mut Transaction, &mut Q) -> TxnResult<R>,
        done: impl FnMut(Q, Result<R>),
    ) {
        let (next, done) = (RefCell::new(next), RefCell::new(done));
        let partitions = self.partitioned.then(Partitions::default);
        let (shared, ended) = (Shared { partitions, ..Shared::default() }, Cell::new(false));
        // All of them, before the first begins.
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

/// What the lanes of a run have in common.
#[derive(Default)]
struct Shared {
    aborts: Cell<u64>,
    /// Lanes that are starving (`LANES-2`).
    starving: Cell<usize>,
    /// Lanes that have not ended, and those of them that wait for a commit to be durable.
    working: Cell<usize>,
    waiting: Cell<usize>,
    /// `LANES-4`.
    partitions: Option<Partitions>,
}

/// Partitions that lanes have locked or wait for, each with the number of its attempt, which
/// counts up; [`ALL`] for all of them.
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
    /// Waits until no attempt that came before has one of these, which are all if there are none.
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

/// A lane that is counted in something.
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
    /// Waits until a commit may be told of (`LANES-3`).
    async fn acknowledge(&self, transaction: &Transaction, committed: Committed) -> TxnResult<()> {
        let _waiting = Counted::begin(&self.waiting);
        while !transaction.is_acknowledged(committed) {
            // First, so that lanes whose wait is over have begun something else.
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

/// Tries until it commits, or fails for another reason than a conflict.
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
                // It holds nothing any more, so the others may begin.
                drop(starving.take());
                // Committed for all that can be seen, so a failure here is none to try again.
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
                    // What is in the way may be a thread that is not running.
                    std::thread::yield_now();
                } else {
                    // One after the other, so that those who are starving do not starve each other.
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

/// Lets each work until it waits, one after the other, until all have ended.
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
