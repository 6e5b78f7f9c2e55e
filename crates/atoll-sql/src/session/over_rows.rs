//! Statements that `ALTER TABLE` runs on its transaction.

use atoll::Transaction;

use crate::error::{ApplyError, SqlError, SqlErrorKind};
use crate::prepared::Prepared;
use crate::prepared::query::Binder;
use crate::prepared::run::{self, How, Ran};
use crate::sequence::context::{self, Own};
use crate::short::run::Stop;
use crate::short::scalar::{Began, Surroundings};

/// Copies all rows of a table, or checks them, or computes the value of a new column.
pub(super) fn run_over_rows(
    copy: &Prepared,
    binder: &Binder<'_>,
    transaction: &mut Transaction,
    began: &Began,
) -> Result<Ran, ApplyError> {
    let around = copy.surroundings(&[], began.clone())?;
    let around = around.unwrap_or_else(|_| Surroundings::of_nothing(began.clone()));
    let how = How::serializable(binder.interrupt);
    let own = Own::of(transaction);
    match context::within(own, || run::run(copy, &around, transaction, how)) {
        Ok(ran) => Ok(ran),
        Err(Stop::Transaction(end)) => Err(end.into()),
        Err(Stop::Error(error)) => Err(error.into()),
        Err(Stop::TooManyRows | Stop::Passed) => {
            let message = "the copy of the table ran into a limit";
            Err(ApplyError::Error(SqlError::new(SqlErrorKind::Query, message)))
        }
    }
}
