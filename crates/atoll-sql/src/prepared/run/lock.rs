//! `SELECT … FOR UPDATE`: rows are found first, and each is looked at again when the transaction
//! holds it.

use atoll::{RowEdit, Value};

use super::{Runner, given};
use crate::error::{Cause, SqlError, SqlErrorKind};
use crate::prepared::query::{Held, Lock};
use crate::sequence::context;
use crate::short::plan::Node;
use crate::short::run::{Rows, Stop};

/// Searches of a statement that skips rows which others hold.
const SKIPS_MAX: u32 = 16;

impl Runner<'_> {
    /// `SELECT … FOR UPDATE`: holds the rows that are found, and returns them as they are then.
    pub(super) fn lock(&mut self, find: &Node, lock: &Lock) -> Result<Rows, Stop> {
        for attempt in 1.. {
            let found = match lock.held {
                Held::Wait => self.found(find, true)?,
                _ => self.found_past_held(find, lock)?,
            };
            self.release_reads()?;
            let mut has_skipped = false;
            let mut rows = Rows::new(lock.again.width());
            for key in found.iter() {
                match self.hold(key, lock)? {
                    Some(made) => made.iter().for_each(|row| rows.push(row.iter().cloned())),
                    None if lock.held == Held::Fail => return Err(not_available(lock).into()),
                    None => has_skipped = true,
                }
            }
            // A row that was taken meanwhile may have kept another out of a LIMIT.
            if !has_skipped || attempt == SKIPS_MAX {
                return Ok(rows);
            }
        }
        unreachable!("the loop ends by its last attempt")
    }

    /// The keys of the rows that no other transaction holds.
    fn found_past_held(&mut self, find: &Node, lock: &Lock) -> Result<Rows, Stop> {
        self.transaction.read_past(true)?;
        // It does not wait for what it passes by, and does not start again.
        let passes = std::mem::replace(&mut self.passes, false);
        let found = self.found(find, true);
        self.passes = passes;
        let passed = self.transaction.read_past(false)?;
        let found = found?;
        if lock.held == Held::Fail && passed.is_some_and(|passed| passed > 0) {
            return Err(not_available(lock).into());
        }
        Ok(found)
    }

    /// Holds the row of a key: what the query returns of it, or `None` if it should not wait and
    /// another transaction holds the row.
    fn hold(&mut self, key: &[Value], lock: &Lock) -> Result<Option<Rows>, Stop> {
        let (around, interrupt) = (&self.around, self.how.interrupt);
        let nothing = || Rows::new(lock.again.width());
        let mut outcome: Result<Rows, Stop> = Ok(nothing());
        let body = |row: &mut RowEdit<'_>| {
            let whole = lock.wanted.read(row);
            outcome = context::held(|| given(&lock.again, &[&whole], around, interrupt));
        };
        let there = match lock.held {
            Held::Wait => Some(self.transaction.update_with(&lock.table, key, body)?),
            _ => self.transaction.try_update_with(&lock.table, key, body)?,
        };
        let made = outcome?;
        Ok(there.map(|there| if there.is_some() { made } else { nothing() }))
    }
}

/// The error of NOWAIT.
fn not_available(lock: &Lock) -> SqlError {
    let message = format!("another transaction holds a row of \"{}\"", lock.table.name());
    SqlError::new(SqlErrorKind::Aborted, message).with_cause(Cause::LockNotAvailable)
}
