//! Bound statements in an open transaction.

use atoll::{Database, Error, TxnError, Value};

use super::{ATTEMPTS_MAX, OpenTransaction, PAUSE_MAX, PAUSE_MIN, begin, failure};
use crate::error::{SqlError, SqlErrorKind};
use crate::interrupt::Interrupt;
use crate::prepared::Prepared;
use crate::prepared::run::{self, How, Ran};
use crate::sequence::context;
use crate::short::run::Stop;
use crate::short::scalar::Surroundings;

/// What a bound statement does in an open transaction.
#[derive(Clone, Copy)]
pub(crate) struct Work<'w> {
    /// It may change something, or lock rows.
    writes: bool,
    /// The rows of the query of an `INSERT` that ran elsewhere.
    delivered: Option<&'w [Vec<Value>]>,
}

impl<'w> Work<'w> {
    pub(crate) const READS: Self = Self { writes: false, delivered: None };
    pub(crate) const WRITES: Self = Self { writes: true, delivered: None };

    pub(crate) fn inserts(rows: &'w [Vec<Value>]) -> Self {
        Self { delivered: Some(rows), ..Self::WRITES }
    }
}

impl OpenTransaction {
    /// Runs a bound statement, and again after a conflict if it is the first of the transaction.
    ///
    /// # Errors
    /// As [`OpenTransaction::apply`].
    pub(crate) fn run_bound(
        &mut self,
        db: &Database,
        (prepared, around): (&Prepared, &Surroundings),
        interrupt: &Interrupt,
        Work { writes, delivered }: Work<'_>,
    ) -> Result<Ran, SqlError> {
        self.check()?;
        self.check_may_write(writes)?;
        let read_committed = self.isolation.reads_committed();
        let mut pause = PAUSE_MIN;
        for _ in 0..ATTEMPTS_MAX {
            context::begin_attempt();
            // Also if the statement panics.
            self.failed = true;
            self.has_written |= writes;
            let has_savepoint = !self.savepoints.is_empty();
            let journal = Some(&mut self.journal).filter(|_| has_savepoint);
            let deferred = Some(&mut *self.deferred);
            let how = How {
                read_committed,
                journal,
                deferred,
                delivered,
                ..How::serializable(interrupt)
            };
            let mut ran = run::run(prepared, around, &mut self.transaction, how);
            if ran.is_ok()
                && read_committed
                && let Err(end) = self.transaction.release_reads()
            {
                ran = Err(end.into());
            }
            self.transaction.park();
            match ran {
                Ok(ran) => {
                    (self.failed, self.has_run) = (false, true);
                    return Ok(ran);
                }
                Err(Stop::Transaction(TxnError::Abort(reason)))
                    if reason.is_conflict() && !self.has_run && !has_savepoint =>
                {
                    interrupt.check_now()?;
                    std::thread::sleep(pause);
                    pause = (pause * 2).min(PAUSE_MAX);
                    self.transaction = begin(db, self.read_only)?;
                }
                // The caller binds it again and runs it then; nothing has been done.
                Err(Stop::Transaction(TxnError::Error(error @ Error::TableChanged(_)))) => {
                    self.failed = false;
                    return Err(error.into());
                }
                Err(stop) => {
                    // It has told what it found, and what follows behind a savepoint must hold
                    // together with that.
                    self.has_run = true;
                    return Err(match stop {
                        Stop::Transaction(end) => failure(end.into()),
                        Stop::Error(error) => error,
                        Stop::TooManyRows | Stop::Passed => {
                            let message = "the statement ran into a limit";
                            SqlError::new(SqlErrorKind::Query, message)
                        }
                    });
                }
            }
        }
        let message = format!("the statement was aborted {ATTEMPTS_MAX} times by others");
        Err(SqlError::new(SqlErrorKind::Aborted, message))
    }
}
