//! Savepoints.

use super::{OpenTransaction, Savepoint, failure};
use crate::coordination::Mark;
use crate::error::{Cause, SqlError, SqlErrorKind};
use crate::journal::Journal;

impl OpenTransaction {
    /// Sets a savepoint; one of the same name that is set already is hidden until this one is
    /// released.
    ///
    /// # Errors
    /// An earlier statement failed.
    pub(crate) fn savepoint(&mut self, name: String, mark: Mark) -> Result<(), SqlError> {
        self.check()?;
        let (checks, modes) = (self.deferred.len(), self.deferred.modes.clone());
        let changes = self.journal.len();
        self.savepoints.push(Savepoint { name, changes, checks, modes, mark });
        Ok(())
    }

    /// Forgets a savepoint and those behind it; their changes stay.
    ///
    /// # Errors
    /// It is not set; an earlier statement failed.
    pub(crate) fn release(&mut self, name: &str) -> Result<(), SqlError> {
        self.check()?;
        let at = self.find(name)?;
        self.savepoints.truncate(at);
        if self.savepoints.is_empty() {
            self.journal = Journal::default();
        }
        Ok(())
    }

    /// Undoes all changes behind a savepoint, which stays set, and returns what the session had
    /// then. A transaction in which a statement failed goes on.
    ///
    /// # Errors
    /// It is not set; the transaction was rolled back as a whole.
    pub(crate) fn roll_back_to(&mut self, name: &str) -> Result<Mark, SqlError> {
        let at = self.find(name)?;
        if !self.transaction.is_open() {
            let message = "the transaction was rolled back as a whole, and its savepoints with it";
            return Err(SqlError::new(SqlErrorKind::Aborted, message)
                .with_hint(Some("ROLLBACK, and begin again".to_owned())));
        }
        self.savepoints.truncate(at + 1);
        self.failed = true;
        let Savepoint { changes, checks, modes, mark, .. } = &self.savepoints[at];
        let mark = *mark;
        self.deferred.truncate(*checks);
        self.deferred.modes.clone_from(modes);
        let undone = self.journal.undo(&mut self.transaction, *changes);
        self.transaction.park();
        undone.map_err(|end| failure(end.into()))?;
        self.failed = false;
        Ok(mark)
    }

    fn find(&self, name: &str) -> Result<usize, SqlError> {
        let found = self.savepoints.iter().rposition(|one| one.name == name);
        found.ok_or_else(|| {
            let message = format!("savepoint \"{name}\" does not exist");
            SqlError::new(SqlErrorKind::Syntax, message).with_cause(Cause::UnknownSavepoint)
        })
    }
}
