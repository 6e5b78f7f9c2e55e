//! Foreign keys that are checked when the transaction commits.

use super::OpenTransaction;
use crate::error::SqlError;
use crate::interrupt::Interrupt;
use crate::prepared::run;
use crate::short::run::Stop;

impl OpenTransaction {
    /// `SET CONSTRAINTS`: foreign keys of these names, or all, are checked when the transaction
    /// commits, or from now on behind each statement.
    ///
    /// # Errors
    /// As [`OpenTransaction::apply`]; one is violated.
    pub(crate) fn set_constraints(
        &mut self,
        names: Option<&[String]>,
        deferred: bool,
        interrupt: &Interrupt,
    ) -> Result<(), SqlError> {
        self.check()?;
        self.deferred.modes.set(names, deferred);
        self.make_checks(interrupt, false)
    }

    /// Whether checks of a table are still to be made.
    pub(crate) fn has_checks_of(&self, table: &str) -> bool {
        self.deferred.concerns(table)
    }

    /// Makes the checks that are due, at the end of the transaction all.
    pub(super) fn make_checks(
        &mut self,
        interrupt: &Interrupt,
        is_end: bool,
    ) -> Result<(), SqlError> {
        if self.deferred.len() == 0 {
            return Ok(());
        }
        let hold = run::hold(self.isolation.reads_committed(), false);
        let how = (hold, !self.savepoints.is_empty() && !is_end, is_end);
        let mut deferred = std::mem::take(&mut self.deferred);
        let mut violated = None;
        let made = self.with_patience(interrupt, |transaction| {
            match deferred.make(transaction, interrupt, how) {
                Ok(()) => Ok(()),
                Err(Stop::Transaction(end)) => Err(end.into()),
                Err(Stop::Error(error)) => {
                    violated = Some(error);
                    Ok(())
                }
                Err(Stop::TooManyRows | Stop::Passed) => Ok(()),
            }
        });
        self.deferred = deferred;
        made.and(violated.map_or(Ok(()), Err))
    }
}
