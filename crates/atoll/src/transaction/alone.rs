//! Tables that a transaction has alone, to define them.
//!
//! `ALONE-1`: a definition takes effect when the transaction has committed, before others may use
//! the table again.

use std::sync::Arc;

use super::Transaction;
use crate::error::{Error, TxnResult};
use crate::table::Table;
use crate::table_locks::TableLock;

/// See the module.
#[derive(Default)]
pub(super) struct Alone {
    tables: Vec<Arc<TableLock>>,
    /// Those that are dropped when the transaction commits.
    dropped: Vec<Table>,
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

    /// Drops a table when the transaction commits.
    ///
    /// # Errors
    /// As [`Transaction::lock_table`].
    pub fn drop_table(&mut self, table: &Table) -> TxnResult<()> {
        self.lock_table(table)?;
        self.alone.dropped.push(table.clone());
        Ok(())
    }

    /// Carries out the definitions: the transaction has committed.
    pub(super) fn carry_out(&mut self) -> TxnResult<()> {
        let core = Arc::clone(&self.core);
        for table in std::mem::take(&mut self.alone.dropped) {
            core.engine.drop_table(&table.core)?;
            table.lock.set_gone();
            core.change_catalog(|catalog| catalog.remove(&table));
            core.errands.reclaim();
            if let Some(acknowledger) = core.acknowledger.get() {
                acknowledger.acknowledge_all()?;
            }
        }
        Ok(())
    }

    /// Others may use the tables: the transaction has ended.
    #[inline]
    pub(super) fn release_tables(&mut self) {
        if !self.alone.tables.is_empty() {
            self.alone.dropped.clear();
            let tables = std::mem::take(&mut self.alone.tables);
            let locks = tables.iter().map(|lock| &**lock);
            self.core.table_locks.release(self.in_use.uses(), locks);
        }
    }
}
