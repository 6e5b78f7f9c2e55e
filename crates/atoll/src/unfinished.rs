//! Indexes that were given up before they were finished. Transactions keep them up to date, and
//! none may use them, until a thread has their table alone and drops them.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::engine::Engine;
use crate::table::Table;

/// See the module.
#[derive(Default)]
pub(crate) struct Unfinished(Mutex<Vec<(Table, usize)>>);

impl Unfinished {
    fn lock(&self) -> MutexGuard<'_, Vec<(Table, usize)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds one, by its number.
    pub(crate) fn add(&self, table: &Table, number: usize) {
        self.lock().push((table.clone(), number));
    }

    /// Drops those of a table, which the caller has alone.
    pub(crate) fn forget(&self, engine: &Engine, table: &Table) {
        let mut all = self.lock();
        let own: Vec<usize> =
            all.iter().filter(|(of, _)| of.is(table)).map(|(_, number)| *number).collect();
        all.retain(|(of, _)| !of.is(table) && !of.lock.is_gone());
        drop(all);
        if !own.is_empty() {
            engine.drop_indexes(&table.core, &own);
        }
    }
}
