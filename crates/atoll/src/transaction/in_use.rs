//! The tables that a transaction uses.

use std::sync::Arc;

use atoll_machine::Native;
use atoll_txn::AbortReason;
use atoll_txn::any::AnyTxn;

use super::Transaction;
use crate::error::{Error, TxnError, TxnResult};
use crate::table::Table;
use crate::table_locks::{Refused, Uses};

/// Times that a transaction in a hurry is asked whether to give up a wait.
const HURRIED_ASKS: u32 = 1;

/// See the module.
pub(super) struct InUse {
    uses: Arc<Uses>,
    /// The addresses of the tables. As long as they are announced, they are not dropped (`USE-2`).
    tables: Vec<usize>,
    /// The one that was used last; 0 if there is none.
    last: usize,
}

impl InUse {
    pub(super) fn new(number: u64, txn: &dyn AnyTxn<Native>) -> Self {
        let uses = Uses::new(number, Arc::clone(txn.context()));
        Self { uses, tables: Vec::new(), last: 0 }
    }

    pub(super) fn uses(&self) -> &Arc<Uses> {
        &self.uses
    }

    /// Lets the transaction use a table in a version that it has made itself.
    pub(super) fn add(&mut self, table: &Table) {
        self.tables.push(table.address());
    }
}

impl Transaction {
    /// Begins to use a table, unless the transaction does so already. Every operation on a table
    /// uses it; a program that calls this first learns of a table that has changed before it has
    /// done anything.
    ///
    /// # Errors
    /// [`Error::TableChanged`](crate::Error) if the table was dropped or altered since the handle
    /// was made; [`TxnError::Abort`](crate::TxnError) if another transaction alters the table and
    /// this one must not wait for it.
    #[inline]
    pub fn use_table(&mut self, table: &Table) -> TxnResult<()> {
        if table.address() == self.in_use.last { Ok(()) } else { self.use_another(table) }
    }

    #[inline(never)]
    fn use_another(&mut self, table: &Table) -> TxnResult<()> {
        if !self.in_use.tables.contains(&table.address()) {
            self.begin_use(table)?;
        }
        self.in_use.last = table.address();
        Ok(())
    }

    #[cold]
    fn begin_use(&mut self, table: &Table) -> TxnResult<()> {
        self.check_owner()?;
        let uses = Arc::clone(self.in_use.uses());
        let core = Arc::clone(&self.core);
        let shared = core.table_locks.share(&uses, &table.lock, &mut self.asked());
        let is_new = shared.map_err(|refused| self.refuse(refused))?;
        if table.lock.version() != table.version {
            if is_new {
                core.table_locks.unshare(&uses, &table.lock);
            }
            return Err(Error::TableChanged(table.name().to_owned()).into());
        }
        self.in_use.tables.push(table.address());
        Ok(())
    }

    /// Tells whether to give up a wait for a table.
    pub(super) fn asked(&mut self) -> impl FnMut(bool) -> bool {
        let (hurried, mut asks) = (self.hurried, 0);
        let mut txn = self.txn.as_mut();
        move |is_first| {
            asks += 1;
            let is_late = hurried && asks >= HURRIED_ASKS;
            is_late || txn.as_mut().is_some_and(|txn| txn.gives_up(is_first).unwrap_or(true))
        }
    }

    /// Rolls back, since a table is not to be had.
    pub(super) fn refuse(&mut self, refused: Refused) -> TxnError {
        let reason = match refused {
            Refused::Deadlock => AbortReason::Deadlock,
            Refused::GaveUp if self.hurried => AbortReason::Denied,
            Refused::GaveUp => AbortReason::Timeout,
        };
        if let Some(txn) = &mut self.txn {
            txn.abort(reason);
        }
        self.end_locks();
        TxnError::Abort(reason)
    }

    /// The transaction has ended: it uses no table any more, and has none alone.
    #[inline]
    pub(super) fn end_locks(&mut self) {
        if !self.in_use.tables.is_empty() {
            self.in_use.last = 0;
            self.in_use.tables.clear();
            self.core.table_locks.end(&self.in_use.uses);
        }
        self.end_alone();
    }
}
