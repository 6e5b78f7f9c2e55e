//! Prefetching: hints about what a transaction is going to access.

use atoll_storage::Value;

use super::Transaction;
use crate::engine::CoreTxn;
use crate::table::Table;
use crate::turn::Turn;

impl Transaction {
    /// Prefetches, all at the same time, the cache lines that reading or changing rows of the table
    /// will need. The keys are concatenated, each with as many values as the primary key has
    /// columns; `columns` returns the columns for the position of a key, and must not wait for
    /// anything or use the database. A hint; it helps most when the rows are then used in this
    /// order. It replaces the prefetch before it for the same table.
    pub fn prefetch<'c>(
        &mut self,
        table: &Table,
        keys: &[Value],
        columns: impl Fn(usize) -> &'c [usize],
    ) {
        if let Some(txn) = self.attached(table) {
            txn.prefetch_index(&table.core, keys);
            txn.prefetch_rows(&table.core, &columns);
        }
    }

    /// Prefetches the cache lines of the primary key's index that inserting rows with these keys
    /// will need. A hint; it helps a row that is inserted by itself, somewhat later.
    pub fn prefetch_new(&mut self, table: &Table, keys: &[Value]) {
        if let Some(txn) = self.attached(table) {
            txn.prefetch_index_for_insert(&table.core, keys);
        }
    }

    /// As [`Transaction::prefetch`], and lets the other transactions of the thread's
    /// [`Lanes`](crate::Lanes) run until the cache lines have arrived.
    ///
    /// The future completes in any runtime. But only lanes know that transactions share a thread:
    /// in another runtime, a transaction that waits for another of the same thread waits for ever.
    pub async fn fetch<'c>(
        &mut self,
        table: &Table,
        keys: &[Value],
        columns: impl Fn(usize) -> &'c [usize],
    ) {
        if let Some(txn) = self.attached(table) {
            if txn.prefetch_index(&table.core, keys) {
                Turn::default().await;
            }
            txn.prefetch_rows(&table.core, &columns);
            Turn::default().await;
        }
    }

    /// The transaction with a worker, if it is open and can have one, and may use the table.
    fn attached(&mut self, table: &Table) -> Option<&mut CoreTxn> {
        if !self.is_open() {
            return None;
        }
        self.use_table(table).ok()?;
        if !self.is_attached {
            self.attach().ok()?;
        }
        self.txn.as_mut()
    }
}
