//! `LOCK TABLE`.

use sqlparser::ast::{Lock, LockTableMode};

use super::{Outcome, SqlSession};
use crate::error::SqlError;
use crate::interrupt::Interrupt;
use crate::names;

impl SqlSession {
    /// Carries out `LOCK TABLE`. There are two ways to hold a table, with others and alone: a mode
    /// in which PostgreSQL would let others write is the first, and any other the second.
    ///
    /// # Errors
    /// No transaction is open; a table that does not exist; others use a table, and the statement
    /// does not wait for them, or not any longer.
    pub(super) fn lock_tables(&mut self, lock: &Lock) -> Result<Outcome, SqlError> {
        self.open("LOCK TABLE")?;
        let interrupt = match lock.nowait {
            true => Interrupt::without_waiting(),
            false => self.interrupt(),
        };
        let scope = self.scope()?;
        let table = |target: &sqlparser::ast::LockTableTarget| {
            let (name, span) = names::table_name(&target.name)?;
            names::find_table(&scope, &name, span)
        };
        let tables = lock.tables.iter().map(table).collect::<Result<Vec<_>, _>>()?;
        let alone = !matches!(
            lock.lock_mode,
            Some(
                LockTableMode::AccessShare
                    | LockTableMode::RowShare
                    | LockTableMode::RowExclusive
                    | LockTableMode::ShareUpdateExclusive
            )
        );
        self.open("LOCK TABLE")?.lock_tables(&tables, alone, &interrupt)?;
        Ok(Outcome::done("LOCK TABLE", 0))
    }
}
