//! Transactions of statements: that of a load by itself, and one that a session holds open between
//! `BEGIN` and `COMMIT`.
//!
//! `TXN-1`: an abort of a load's own transaction is tried again from its start, never from the
//! middle. `TXN-2`: after an error an open transaction takes no further change, and its `COMMIT`
//! rolls back.

use std::time::Duration;

use atoll::{Database, Transaction, TransactionOptions, TxnError, TxnResult};

use crate::error::{ApplyError, ChangeError, SqlError, SqlErrorKind};
use crate::settings::Choice;
use crate::short::run::Stop;

/// Attempts before a statement fails because of conflicts.
const ATTEMPTS_MAX: u32 = 1000;
/// Longest pause between two attempts.
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
    let mut pause = Duration::from_micros(1);
    let mut last = String::new();
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
}

impl OpenTransaction {
    /// Begins a transaction.
    ///
    /// # Errors
    /// Too many transactions are open.
    pub(crate) fn begin(db: &Database, began: i64) -> Result<Self, SqlError> {
        let mut transaction = db.begin()?;
        transaction.park();
        Ok(Self { transaction, failed: false, began })
    }

    /// When it began, in microseconds since 1970-01-01 00:00.
    pub(crate) fn began(&self) -> i64 {
        self.began
    }

    /// Runs a bound statement.
    ///
    /// # Errors
    /// As [`OpenTransaction::apply`].
    pub(crate) fn run_bound<R>(
        &mut self,
        statement: impl FnOnce(&mut Transaction) -> Result<R, Stop>,
    ) -> Result<R, SqlError> {
        self.apply(|transaction| match statement(transaction) {
            Ok(done) => Ok(done),
            Err(Stop::Transaction(end)) => Err(end.into()),
            Err(Stop::Error(error)) => Err(error.into()),
            Err(Stop::TooManyRows) => {
                Err(SqlError::new(SqlErrorKind::Query, "the statement looks at too many rows")
                    .into())
            }
        })
    }

    /// Applies a change and returns what it returns.
    ///
    /// # Errors
    /// Those of the change; from then on, and after an abort, that the transaction has failed.
    pub(crate) fn apply<R>(
        &mut self,
        change: impl FnOnce(&mut Transaction) -> Result<R, ApplyError>,
    ) -> Result<R, SqlError> {
        self.check()?;
        // Also if the change panics.
        self.failed = true;
        let changed = change(&mut self.transaction);
        self.transaction.park();
        self.failed = changed.is_err();
        changed.map_err(failure)
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
        self.failed = true;
        let changed = body(&mut self.transaction);
        self.transaction.park();
        self.failed = changed.is_err();
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
        .with_hint(Some("ROLLBACK, and begin again".to_owned())))
    }

    /// Notes that a statement of the transaction failed before it came this far.
    pub(crate) fn fail(&mut self) {
        self.failed = true;
    }

    /// Commits with the given durability; `false` if an earlier statement failed and the
    /// transaction was rolled back instead.
    ///
    /// # Errors
    /// The transaction was aborted at its end.
    pub(crate) fn commit(mut self, durability: Choice) -> Result<bool, SqlError> {
        if self.failed {
            return Ok(false);
        }
        self.transaction.set_durability(durability);
        self.transaction.commit().map_err(|error| failure(error.into()))?;
        Ok(true)
    }
}

fn failure(error: ApplyError) -> SqlError {
    match error {
        ApplyError::Error(error) => error,
        ApplyError::Abort(reason) => SqlError::new(
            SqlErrorKind::Aborted,
            format!("the transaction was aborted ({reason}); run it again from BEGIN"),
        ),
    }
}
