//! `SET CONSTRAINTS`.

use super::{Outcome, SqlSession};
use crate::error::SqlError;
use crate::foreign::deferred::check_names;
use crate::foreign::references;
use crate::foreign_syntax::SetConstraints;
use crate::names;

impl SqlSession {
    /// Carries out `SET CONSTRAINTS`, for the open transaction.
    ///
    /// # Errors
    /// No transaction is open; a foreign key that does not exist or cannot be deferred; one that is
    /// violated.
    pub(super) fn set_constraints(&mut self, said: &SetConstraints) -> Result<Outcome, SqlError> {
        let interrupt = self.interrupt();
        self.open("SET CONSTRAINTS")?.check()?;
        let named: Option<Vec<String>> =
            said.names.as_ref().map(|names| names.iter().map(names::fold).collect());
        if let Some(names) = &named {
            let all = references::of_catalog(&self.scope()?.catalog)?;
            check_names(names, all.values().flatten().map(|(_, key)| key))?;
        }
        let open = self.open("SET CONSTRAINTS")?;
        open.set_constraints(named.as_deref(), said.deferred, &interrupt)?;
        Ok(Outcome::done("SET CONSTRAINTS", 0))
    }
}
