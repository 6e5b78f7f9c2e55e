//! Tables that a transaction has alone, to define them.

use std::sync::Arc;

use super::Transaction;
use crate::error::{Error, TxnResult};
use crate::table::Table;
use crate::table_locks::TableLock;

/// See the module.
#[derive(Default)]
pub(super) struct Alone {
    tables: Vec<Arc<TableLock>>,
}

impl Transaction {
    /// Waits until no other transaction uses the table, and keeps others from using it until this
    /// one ends.
    ///
    /// # Errors
    /// As [`Transaction::use_table`].
    pub fn lock_table(&mut self, table: &Table) -> TxnResult<()> {
        self.check_owner()?;
        if !self.is_open() {
            return Err(Error::Aborted(atoll_txn::AbortReason::Finished).into());
        }
        let uses = Arc::clone(self.in_use.uses());
        let core = Arc::clone(&self.core);
        let alone = core.table_locks.define(&uses, &table.lock, &mut self.asked());
        alone.map_err(|refused| self.refuse(refused))?;
        let is_new = !self.alone.tables.iter().any(|lock| Arc::ptr_eq(lock, &table.lock));
        if is_new {
            self.alone.tables.push(Arc::clone(&table.lock));
        }
        self.use_table(table)
    }

    /// Others may use the tables: the transaction has ended.
    #[inline]
    pub(super) fn release_tables(&mut self) {
        if !self.alone.tables.is_empty() {
            let tables = std::mem::take(&mut self.alone.tables);
            let locks = tables.iter().map(|lock| &**lock);
            self.core.table_locks.release(self.in_use.uses(), locks, &[]);
        }
    }
}
