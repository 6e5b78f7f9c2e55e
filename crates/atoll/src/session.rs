//! Sessions: a thread runs many transactions one after the other.

use std::time::Duration;

use atoll_machine::{Machine, Native};

use crate::error::{Error, Result, TxnError, TxnResult};
use crate::transaction::{Attempts, Transaction, TransactionOptions};

/// Attempts after which a session only yields the CPU; later ones sleep.
const ATTEMPTS_AT_ONCE: u32 = 8;
/// Longest sleep before an aborted transaction is retried.
const PAUSE_MAX: Duration = Duration::from_micros(200);

/// Runs transactions one after the other and keeps a worker for them. One thread at a time uses it.
pub struct Session {
    transaction: Transaction,
    options: TransactionOptions,
    aborts: u64,
}

impl Session {
    pub(crate) fn new(transaction: Transaction) -> Self {
        Self { transaction, options: TransactionOptions::default(), aborts: 0 }
    }

    /// Runs `body` in a transaction and commits; retries it when a conflict aborts it.
    ///
    /// While the transaction is open, `body` must not wait for another transaction of the database,
    /// not even of this thread: the other one may wait for this one, or be retried, for ever.
    ///
    /// A session has one transaction at a time, so `body` cannot begin another:
    ///
    /// ```compile_fail,E0501
    /// # fn f(session: &mut atoll::Session, table: &atoll::Table) -> atoll::Result<()> {
    /// session.transaction(|one| {
    ///     session.transaction(|two| two.delete(table, &[2i64.into()]))?;
    ///     one.delete(table, &[1i64.into()])
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Nor can `body` end its transaction, or keep it for later:
    ///
    /// ```compile_fail,E0507
    /// # fn f(session: &mut atoll::Session) -> atoll::Result<()> {
    /// session.transaction(|transaction| transaction.commit())
    /// # }
    /// ```
    ///
    /// ```compile_fail,E0521
    /// # fn f(session: &mut atoll::Session) -> atoll::Result<()> {
    /// let mut kept = None;
    /// session.transaction(|transaction| {
    ///     kept = Some(transaction);
    ///     Ok(())
    /// })
    /// # }
    /// ```
    ///
    /// # Errors
    /// What `body` returns; the transaction is rolled back then. [`Error::Aborted`] when `body`
    /// rolled it back, or when an error ended the transaction and `body` ignored it;
    /// [`Error::Exchanged`] when `body` swapped the transaction for another.
    pub fn transaction<R>(
        &mut self,
        body: impl FnMut(&mut Transaction) -> TxnResult<R>,
    ) -> Result<R> {
        let options = std::mem::take(&mut self.options);
        let done = self.transaction_with(&options, body);
        self.options = options;
        done
    }

    /// As [`Session::transaction`], with options.
    ///
    /// # Errors
    /// As [`Session::transaction`]; [`Error::Transaction`] for a partition that does not exist.
    pub fn transaction_with<R>(
        &mut self,
        options: &TransactionOptions,
        mut body: impl FnMut(&mut Transaction) -> TxnResult<R>,
    ) -> Result<R> {
        let mut attempt = 0;
        loop {
            if let Some(result) = self.attempt(options, false, &mut body)? {
                return Ok(result);
            }
            self.transaction.pause(|| pause(attempt));
            attempt = attempt.saturating_add(1);
        }
    }

    /// Runs `body` in a transaction and commits, if no other transaction stands in the way for more
    /// than a moment; `None` if one does.
    ///
    /// # Errors
    /// As [`Session::transaction_with`].
    pub fn transaction_at_once<R>(
        &mut self,
        options: &TransactionOptions,
        mut body: impl FnMut(&mut Transaction) -> TxnResult<R>,
    ) -> Result<Option<R>> {
        self.attempt(options, true, &mut body)
    }

    /// Runs and commits one attempt; `None` if a conflict aborted it.
    fn attempt<R>(
        &mut self,
        options: &TransactionOptions,
        hurried: bool,
        body: &mut impl FnMut(&mut Transaction) -> TxnResult<R>,
    ) -> Result<Option<R>> {
        let attempt = Attempts(&mut self.transaction);
        let transaction = &mut *attempt.0;
        let number = transaction.number();
        let begun = match hurried {
            true => transaction.restart_hurried(options),
            false => transaction.restart(options),
        };
        let done = begun
            .and_then(|()| body(transaction))
            .and_then(|result| transaction.check_is(number).map(|()| result))
            .and_then(|result| transaction.commit_attempt().map(|()| result));
        match done {
            Ok(result) => Ok(Some(result)),
            Err(end) => {
                let end = transaction.conflict_or(end);
                let failed = transaction.end_attempt();
                match end {
                    TxnError::Abort(reason) if reason.is_conflict() && !failed => {
                        self.aborts += 1;
                        Ok(None)
                    }
                    end => Err(Error::from(end)),
                }
            }
        }
    }

    /// Attempts that conflicts with other transactions aborted.
    pub fn aborts(&self) -> u64 {
        self.aborts
    }
}

/// Waits before the next attempt: longer with each attempt, and for a random time, so that two
/// threads do not retry in step.
fn pause(attempt: u32) {
    if attempt < ATTEMPTS_AT_ONCE {
        return std::thread::yield_now();
    }
    let most = (1u64 << (attempt - ATTEMPTS_AT_ONCE).min(8)).min(PAUSE_MAX.as_micros() as u64);
    let micros = atoll_storage::key::mix(Native::now_ns()) % most + 1;
    std::thread::sleep(Duration::from_micros(micros));
}
