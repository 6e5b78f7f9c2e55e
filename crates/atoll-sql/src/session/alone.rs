//! Statements that are transactions by themselves.

use atoll::{AbortReason, Database, Transaction, TransactionOptions, TxnError, Value};

use crate::error::{SqlError, SqlErrorKind};
use crate::interrupt::Interrupt;
use crate::prepared::cache::{Kept, Shared};
use crate::prepared::run::{self, How, Ran};
use crate::prepared::{Prepared, partitions};
use crate::sequence::context;
use crate::settings::Choice;
use crate::short::run::Stop;
use crate::short::scalar::Surroundings;

/// Attempts of a query before it runs on a snapshot.
const ATTEMPTS_AT_ONCE: u32 = 2;

/// A statement that is a transaction by itself.
pub(super) struct Alone<'a> {
    pub(super) db: &'a Database,
    pub(super) durability: Choice,
    /// Where the session of SQL keeps one of the engine.
    pub(super) kept: &'a mut Option<Kept>,
    /// It is a query, which need not wait for other transactions: it can run on a snapshot.
    pub(super) read_only: bool,
}

impl<'a> Alone<'a> {
    /// A statement that may change something.
    pub(super) fn writer(db: &'a Database, kept: &'a mut Option<Kept>, durability: Choice) -> Self {
        Self { db, kept, durability, read_only: false }
    }

    /// Runs it until it commits.
    ///
    /// # Errors
    /// Those of the statement.
    pub(super) fn run(
        &mut self,
        prepared: &Prepared,
        around: &Surroundings,
        interrupt: &Interrupt,
        delivered: Option<&[Vec<Value>]>,
    ) -> Result<Ran, SqlError> {
        let how = || How { delivered, ..How::serializable(interrupt) };
        let ran = self.attempt(prepared, around, &how)?;
        ran.ok_or_else(|| SqlError::new(SqlErrorKind::Query, "the statement ran into a limit"))
    }

    /// Runs it until it commits; `None` if it should run on a snapshot, because it has looked at
    /// more than so many rows, or because other transactions hold what it reads.
    ///
    /// # Errors
    /// Those of the statement.
    pub(super) fn run_up_to(
        &mut self,
        rows_left: u64,
        prepared: &Prepared,
        around: &Surroundings,
        interrupt: &Interrupt,
    ) -> Result<Option<Ran>, SqlError> {
        let how = || How { rows_left, ..How::serializable(interrupt) };
        self.attempt(prepared, around, &how)
    }

    fn attempt<'h>(
        &mut self,
        prepared: &Prepared,
        around: &Surroundings,
        how: &dyn Fn() -> How<'h>,
    ) -> Result<Option<Ran>, SqlError> {
        let interrupt = how().interrupt;
        let names_some = self.db.scheme().is_partitioned() && !prepared.goes_everywhere();
        let first_number = names_some.then(|| partitions::number_rows(prepared)).flatten();
        // No sequence is asked for a guess.
        let guess = || context::held(|| partitions::of(prepared, around, first_number));
        let partitions = names_some.then(guess).flatten();
        let mut options = TransactionOptions {
            durability: self.durability,
            read_only: self.read_only,
            partitions: partitions.unwrap_or_default(),
        };
        let mut is_too_long = false;
        let mut failed: Option<SqlError> = None;
        let read_only = self.read_only;
        let done = Shared::lend(self.db, self.kept, |session| {
            let mut body = |transaction: &mut Transaction| {
                context::begin_attempt();
                (is_too_long, failed) = (false, interrupt.check_now().err());
                if failed.is_some() {
                    return Err(TxnError::Abort(AbortReason::Requested));
                }
                match run::run(prepared, around, transaction, How { first_number, ..how() }) {
                    Ok(ran) => Ok(ran),
                    Err(Stop::Transaction(end)) => Err(end),
                    Err(Stop::Error(error)) => {
                        failed = Some(error);
                        Err(TxnError::Abort(AbortReason::Requested))
                    }
                    Err(Stop::TooManyRows | Stop::Passed) => {
                        is_too_long = true;
                        Err(TxnError::Abort(AbortReason::Requested))
                    }
                }
            };
            let mut run = |options: &TransactionOptions| {
                if !read_only {
                    return session.transaction_with(options, &mut body).map(Some);
                }
                for _ in 0..ATTEMPTS_AT_ONCE {
                    let done = session.transaction_at_once(options, &mut body);
                    if !matches!(done, Ok(None)) {
                        return done;
                    }
                }
                Ok(None)
            };
            let done = run(&options);
            // `PARTITIONS-1`.
            let is_elsewhere = matches!(&done, Err(error) if error.misses_partition());
            if options.partitions.is_empty() || !is_elsewhere {
                return Ok(done);
            }
            prepared.note_elsewhere();
            options.partitions.clear();
            Ok(run(&options))
        })?;
        match (done, failed) {
            (Ok(ran), _) => Ok(ran),
            (Err(_), Some(error)) => Err(error),
            (Err(_), None) if is_too_long => {
                prepared.note_long();
                Ok(None)
            }
            (Err(error), None) => Err(error.into()),
        }
    }
}
