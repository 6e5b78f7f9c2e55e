//! Transactions of statements: that of a load by itself, and one that a session holds open between
//! `BEGIN` and `COMMIT`.
//!
//! `TXN-1`: an abort of a load's own transaction is tried again from its start, never from the
//! middle; so is an abort of the first statement of an open transaction. `TXN-2`: after an error an
//! open transaction takes no further statement but a rollback to a savepoint, and its `COMMIT`
//! rolls back.

mod bound;
mod constraints;
mod savepoints;

pub(crate) use bound::Work;

use std::sync::Arc;
use std::time::Duration;

use atoll::{
    AbortReason, Catalog, Database, Table, Transaction, TransactionOptions, TxnError, TxnResult,
};

use crate::coordination::Mark;
use crate::error::{ApplyError, Cause, ChangeError, SqlError, SqlErrorKind};
use crate::foreign::deferred::{Deferred, Modes};
use crate::interrupt::Interrupt;
use crate::isolation::Isolation;
use crate::journal::Journal;
use crate::prepared::run::{self, Part};
use crate::sequence::context::{Context, Own};
use crate::settings::Choice;

/// Attempts before a statement fails because of conflicts.
const ATTEMPTS_MAX: u32 = 1000;
/// Shortest and longest pause between two attempts.
const PAUSE_MIN: Duration = Duration::from_micros(1);
const PAUSE_MAX: Duration = Duration::from_millis(2);

/// Runs a change as one transaction, and repeats it after an abort.
///
/// # Errors
/// Those of the change, and [`SqlErrorKind::Aborted`] when the attempts are used up.
pub(crate) fn run(
    db: &Database,
    durability: Choice,
    mut change: impl FnMut(&mut Transaction) -> Result<u64, ApplyError>,
) -> Result<u64, SqlError> {
    let options = TransactionOptions { durability, ..TransactionOptions::default() };
    let mut pause = PAUSE_MIN;
    let mut last = AbortReason::Denied;
    for attempt in 0..ATTEMPTS_MAX {
        if attempt > 0 {
            std::thread::sleep(pause);
            pause = (pause * 2).min(PAUSE_MAX);
        }
        let mut transaction = db.begin_with(&options)?;
        let failed = match change(&mut transaction) {
            Ok(rows) => match transaction.commit() {
                Ok(()) => return Ok(rows),
                Err(error) => ApplyError::from(error),
            },
            Err(error) => {
                transaction.rollback();
                error
            }
        };
        match failed {
            ApplyError::Abort(reason) => last = reason,
            ApplyError::Error(error) => return Err(error),
        }
    }
    Err(SqlError::new(
        SqlErrorKind::Aborted,
        format!("the statement was aborted {ATTEMPTS_MAX} times by others ({last}); run it again"),
    ))
}

/// A transaction that a session holds open. Between statements it is parked, so it takes no thread
/// and no worker.
pub(crate) struct OpenTransaction {
    transaction: Transaction,
    failed: bool,
    /// Microseconds since 1970-01-01 00:00.
    began: i64,
    isolation: Isolation,
    read_only: bool,
    /// A statement has been carried out.
    has_run: bool,
    /// A statement has changed something, or may have.
    has_written: bool,
    savepoints: Vec<Savepoint>,
    journal: Journal,
    deferred: Box<Deferred>,
    /// Of its session.
    _ending: Ending,
}

/// Releases the advisory locks of a transaction when it ends (`COORDINATION-3`).
struct Ending(Arc<Context>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.end_transaction();
    }
}

/// See [`OpenTransaction::savepoint`].
struct Savepoint {
    name: String,
    /// Changes in the journal when it was set.
    changes: usize,
    /// Checks that were deferred.
    checks: usize,
    modes: Modes,
    /// What the session has of its own.
    mark: Mark,
}

impl OpenTransaction {
    /// Begins a transaction.
    ///
    /// # Errors
    /// Too many transactions are open.
    pub(crate) fn begin(
        db: &Database,
        began: i64,
        isolation: Isolation,
        read_only: bool,
        context: &Arc<Context>,
    ) -> Result<Self, SqlError> {
        let mut transaction = begin(db, read_only)?;
        transaction.park();
        Ok(Self {
            transaction,
            failed: false,
            began,
            isolation,
            read_only,
            has_run: false,
            has_written: false,
            savepoints: Vec::new(),
            journal: Journal::default(),
            deferred: Box::default(),
            _ending: Ending(Arc::clone(context)),
        })
    }

    /// When it began, in microseconds since 1970-01-01 00:00.
    pub(crate) fn began(&self) -> i64 {
        self.began
    }

    /// Its isolation level.
    pub(crate) fn isolation(&self) -> Isolation {
        self.isolation
    }

    /// Gives it the level that its scheme has for the one that was asked for.
    ///
    /// # Errors
    /// It has carried out a statement, under another level.
    pub(crate) fn set_isolation(
        &mut self,
        asked: Isolation,
        has: Isolation,
    ) -> Result<(), SqlError> {
        if self.has_run && asked != self.isolation {
            let message = "SET TRANSACTION ISOLATION LEVEL must be called before any query";
            return Err(SqlError::new(SqlErrorKind::Syntax, message).with_state("25001"));
        }
        self.isolation = has;
        Ok(())
    }

    /// Makes it one that only reads, or no such one.
    ///
    /// # Errors
    /// It has carried out a statement, and is to change something now.
    pub(crate) fn set_read_only(&mut self, db: &Database, read_only: bool) -> Result<(), SqlError> {
        if self.has_run && self.read_only && !read_only {
            let message = "transaction read-write mode must be set before any query";
            return Err(SqlError::new(SqlErrorKind::Syntax, message).with_state("25001"));
        }
        // What has changed something goes on, and changes nothing more.
        if read_only != self.read_only && !self.has_run {
            self.transaction = begin(db, read_only)?;
            self.transaction.park();
        }
        self.read_only = read_only;
        Ok(())
    }

    /// Whether it takes no further statement but a rollback.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed
    }

    /// Whether it has changed nothing and each of its statements sees what others have committed:
    /// then a query need not run inside it.
    pub(crate) fn lets_queries_out(&self) -> bool {
        self.isolation.reads_committed() && !self.has_written
    }

    /// Whether it has changed or locked something.
    pub(crate) fn has_written(&self) -> bool {
        self.has_written
    }

    /// Whether its end would be noticed, see [`crate::SqlSession::has_work`].
    pub(crate) fn has_work(&self) -> bool {
        let is_plain = self.lets_queries_out() && !self.read_only && self.savepoints.is_empty();
        self.failed || !is_plain
    }

    /// Applies a change and returns what it returns.
    ///
    /// # Errors
    /// Those of the change; from then on, and after an abort, that the transaction has failed. A
    /// savepoint is set, which could not undo the change.
    pub(crate) fn apply<R>(
        &mut self,
        change: impl FnOnce(&mut Transaction, Part<'_>) -> Result<R, ApplyError>,
    ) -> Result<R, SqlError> {
        self.check()?;
        self.check_may_write(true)?;
        self.check_no_savepoint()?;
        (self.failed, self.has_written) = (true, true);
        let hold = run::hold(self.isolation.reads_committed(), false);
        let part = Part { hold, deferred: Some(&mut *self.deferred) };
        let changed = change(&mut self.transaction, part);
        self.transaction.park();
        (self.failed, self.has_run) = (false, true);
        if changed.is_err() {
            self.fail();
        }
        changed.map_err(failure)
    }

    /// Whether names of tables may mean something else in it.
    pub(crate) fn has_definitions(&self) -> bool {
        self.transaction.has_definitions()
    }

    /// What it has to itself.
    pub(crate) fn own(&self) -> Own {
        Own::of(&self.transaction)
    }

    /// The tables as it sees them.
    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        self.transaction.catalog()
    }

    /// Makes a definition part of the transaction.
    ///
    /// # Errors
    /// As [`OpenTransaction::lock_tables`], and those of the definition.
    pub(crate) fn define(
        &mut self,
        interrupt: &Interrupt,
        define: impl FnOnce(&mut Transaction) -> Result<(), ApplyError>,
    ) -> Result<(), SqlError> {
        self.check()?;
        self.check_may_write(true)?;
        if !self.savepoints.is_empty() {
            self.journal.defining(self.transaction.definitions_made());
        }
        self.has_written = true;
        self.with_patience(interrupt, define)
    }

    /// Writes the rows of sequences that are pending.
    ///
    /// # Errors
    /// As [`OpenTransaction::apply`].
    pub(crate) fn write_sequences(&mut self, context: &Context) -> Result<(), SqlError> {
        self.check()?;
        (self.failed, self.has_written) = (true, true);
        let written = context.write_pending(&mut self.transaction);
        self.transaction.park();
        written.map_err(|end| failure(end.into()))?;
        self.failed = false;
        Ok(())
    }

    /// Whether it is READ ONLY.
    pub(crate) fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Has tables alone, or uses them, until the transaction ends.
    ///
    /// # Errors
    /// As [`OpenTransaction::apply`]; others use a table, and the statement does not wait for them,
    /// or not any longer.
    pub(crate) fn lock_tables(
        &mut self,
        tables: &[Table],
        alone: bool,
        interrupt: &Interrupt,
    ) -> Result<(), SqlError> {
        self.check()?;
        self.with_patience(interrupt, |transaction| {
            let mut each = tables.iter();
            Ok(each.try_for_each(|table| match alone {
                true => transaction.lock_table(table),
                false => transaction.use_table(table),
            })?)
        })
    }

    fn with_patience(
        &mut self,
        interrupt: &Interrupt,
        work: impl FnOnce(&mut Transaction) -> Result<(), ApplyError>,
    ) -> Result<(), SqlError> {
        self.failed = true;
        let patience = self.transaction.set_patience(interrupt.patience());
        let locked = patience.map_err(Into::into).and_then(|()| work(&mut self.transaction));
        // One that was rolled back asks no more.
        let _ = self.transaction.set_patience(None);
        self.transaction.park();
        match locked {
            Ok(()) => {
                (self.failed, self.has_run) = (false, true);
                Ok(())
            }
            Err(end) => {
                interrupt.check_now()?;
                Err(failure(end))
            }
        }
    }

    /// Checks that it is not READ ONLY, for a statement that writes.
    ///
    /// # Errors
    /// It is.
    pub(crate) fn check_may_write(&self, writes: bool) -> Result<(), SqlError> {
        if writes && self.read_only { Err(read_only()) } else { Ok(()) }
    }

    fn check_no_savepoint(&self) -> Result<(), SqlError> {
        if self.savepoints.is_empty() {
            return Ok(());
        }
        let message = "COPY and bulk inserts are not supported behind a SAVEPOINT";
        Err(SqlError::unsupported(message)
            .with_hint(Some("RELEASE the savepoint first, or load before it".to_owned())))
    }

    /// Makes a change that is not a statement, and returns the number of rows that it touched.
    ///
    /// # Errors
    /// As [`OpenTransaction::apply`].
    pub(crate) fn run(
        &mut self,
        body: impl FnOnce(&mut Transaction) -> TxnResult<u64>,
    ) -> Result<u64, ChangeError> {
        self.check()?;
        self.check_may_write(true)?;
        self.check_no_savepoint()?;
        (self.failed, self.has_written) = (true, true);
        let changed = body(&mut self.transaction);
        self.transaction.park();
        (self.failed, self.has_run) = (false, true);
        if changed.is_err() {
            self.fail();
        }
        changed.map_err(|error| match error {
            TxnError::Error(error) => error.into(),
            abort => failure(abort.into()).into(),
        })
    }

    /// Checks that the transaction still takes statements.
    ///
    /// # Errors
    /// An earlier statement of it failed.
    pub(crate) fn check(&self) -> Result<(), SqlError> {
        if !self.failed {
            return Ok(());
        }
        Err(SqlError::new(
            SqlErrorKind::Aborted,
            "an earlier statement of this transaction failed, so it takes no further one",
        )
        .with_cause(Cause::FailedTransaction)
        .with_hint(Some("ROLLBACK, and begin again".to_owned())))
    }

    /// A statement of the transaction failed. Without a savepoint nothing of it can count any more,
    /// so others need not wait for its end.
    pub(crate) fn fail(&mut self) {
        self.failed = true;
        if self.savepoints.is_empty() {
            self.transaction.abort();
        }
    }

    /// Commits with the given durability; `false` if an earlier statement failed and the
    /// transaction was rolled back instead.
    ///
    /// # Errors
    /// A foreign key is violated; the transaction was aborted at its end.
    /// Makes the checks that were left for the end, unless it has failed.
    ///
    /// # Errors
    /// One of them.
    pub(crate) fn make_all_checks(&mut self, interrupt: &Interrupt) -> Result<(), SqlError> {
        if self.failed { Ok(()) } else { self.make_checks(interrupt, true) }
    }

    pub(crate) fn commit(
        mut self,
        durability: Choice,
        interrupt: &Interrupt,
    ) -> Result<bool, SqlError> {
        if self.failed {
            return Ok(false);
        }
        self.make_checks(interrupt, true)?;
        self.transaction.set_durability(durability);
        self.transaction.commit().map_err(|error| failure(error.into()))?;
        Ok(true)
    }
}

fn begin(db: &Database, read_only: bool) -> Result<Transaction, SqlError> {
    Ok(db.begin_with(&TransactionOptions { read_only, ..TransactionOptions::default() })?)
}

/// The error of a change in a transaction that is READ ONLY.
pub(crate) fn read_only() -> SqlError {
    let message = "the transaction is READ ONLY: it can neither change nor lock rows";
    SqlError::new(SqlErrorKind::ReadOnly, message)
}

fn failure(error: ApplyError) -> SqlError {
    match error {
        ApplyError::Error(error) => error,
        ApplyError::Abort(reason) => {
            let message =
                format!("the transaction was aborted ({reason}); run it again from BEGIN");
            let error = SqlError::new(SqlErrorKind::Aborted, message);
            match reason {
                AbortReason::Deadlock => error.with_cause(Cause::Deadlock),
                _ => error,
            }
        }
    }
}
