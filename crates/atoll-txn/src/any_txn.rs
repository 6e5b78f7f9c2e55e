//! A transaction behind a trait object.

use std::ops::ControlFlow;
use std::sync::Arc;

use atoll_machine::Machine;
use atoll_storage::{Table, Value};

use crate::error::OpError;
use crate::registry::TxnContext;
use crate::row::{Row, RowEdit};
use crate::scheme::AbortReason;
use crate::worker::{
    Begin, Buffers, Committed, Define, Patience, Range, RowCursor, RowOp, Visitor, Want,
};
#[cfg(doc)]
use crate::worker::{Call, Txn};

/// A transaction of any scheme; [`Call`] documents the calls and their errors. Each call takes a
/// worker if the transaction has none, and so may also return [`OpError::TooManyWorkers`].
#[allow(missing_docs, clippy::missing_errors_doc)]
pub trait AnyTxn<M: Machine>: Send {
    /// Takes a worker, as the next call would.
    fn attach(&mut self) -> Result<(), OpError>;
    /// Lets go of the worker until the next call.
    fn park(&mut self);
    fn begin(&mut self, how: Begin<'_>) -> Result<(), OpError>;
    /// [`Txn::context`].
    fn context(&self) -> &Arc<TxnContext<M>>;
    fn define(&mut self, what: Define<M>) -> Result<(), OpError>;
    fn own_index(&mut self, table: &Table<M>, number: usize) -> Result<(), OpError>;
    fn has_changes(&mut self) -> Result<bool, OpError>;
    fn gives_up(&mut self, is_first: bool) -> Result<bool, OpError>;
    fn is_open(&self) -> bool;
    fn read_with(
        &mut self,
        table: &Table<M>,
        key: &[Value],
        body: &mut dyn FnMut(&Row<'_, M>),
    ) -> Result<bool, OpError>;
    /// Reads these columns of the row with this key, by [`Call::read_with`].
    fn read(
        &mut self,
        table: &Table<M>,
        key: &[Value],
        columns: &[usize],
    ) -> Result<Option<Vec<Value>>, OpError> {
        let mut values = Vec::new();
        let found = self.read_with(table, key, &mut |row| {
            values.clear();
            values.extend(columns.iter().map(|column| row.value(*column)));
        })?;
        Ok(found.then_some(values))
    }
    fn update_with(
        &mut self,
        table: &Table<M>,
        key: &[Value],
        body: &mut dyn FnMut(&mut RowEdit<'_, M>),
    ) -> Result<bool, OpError>;
    fn try_update_with(
        &mut self,
        table: &Table<M>,
        key: &[Value],
        body: &mut dyn FnMut(&mut RowEdit<'_, M>),
    ) -> Result<Option<bool>, OpError>;
    fn update(
        &mut self,
        table: &Table<M>,
        key: &[Value],
        changes: &[(usize, Value)],
    ) -> Result<bool, OpError>;
    fn insert(&mut self, table: &Table<M>, row: &[Value]) -> Result<(), OpError>;
    fn delete(&mut self, table: &Table<M>, key: &[Value]) -> Result<bool, OpError>;
    fn scan(
        &mut self,
        table: &Table<M>,
        index: usize,
        range: &Range<'_>,
        look: &mut dyn FnMut(&Row<'_, M>),
        take: &mut dyn FnMut() -> ControlFlow<()>,
    ) -> Result<(), OpError>;
    fn scan_heap(
        &mut self,
        table: &Table<M>,
        look: &mut dyn FnMut(&Row<'_, M>),
        take: &mut dyn FnMut() -> ControlFlow<()>,
    ) -> Result<(), OpError>;
    fn prefetch_index(&mut self, table: &Table<M>, keys: &[Value]) -> bool;
    fn prefetch_index_for_insert(&mut self, table: &Table<M>, keys: &[Value]);
    fn prefetch_rows<'c>(&mut self, table: &Table<M>, columns: &dyn Fn(usize) -> &'c [usize]);
    fn apply(
        &mut self,
        table: &Table<M>,
        keys: &[Value],
        ops: &[RowOp],
        buffers: Buffers<'_>,
        absent: &mut dyn FnMut(usize),
    ) -> Result<(), OpError>;
    fn cursor(
        &mut self,
        table: &Table<M>,
        body: &mut dyn FnMut(&mut dyn RowCursor),
    ) -> Result<(), OpError>;
    fn visit<'c>(
        &mut self,
        table: &Table<M>,
        keys: &[Value],
        wants: &dyn Fn(usize) -> Want<'c>,
        body: Visitor<'_, M>,
    ) -> Result<(), OpError>;
    fn release_reads(&mut self) -> Result<bool, OpError>;
    fn keep_reads(&mut self) -> Result<(), OpError>;
    fn read_past(&mut self, is_on: bool) -> Result<Option<u64>, OpError>;
    fn await_passed(&mut self) -> Result<(), OpError>;
    fn set_patience(&mut self, patience: Option<Patience>) -> Result<(), OpError>;
    fn check_consistent(&mut self) -> Result<(), OpError>;
    fn committed(&self) -> Committed;
    fn commit(&mut self) -> Result<(), OpError>;
    /// Rolls the open transaction back, even if there is no worker.
    fn abort(&mut self, reason: AbortReason);
    fn pause(&mut self, pause: &mut dyn FnMut());
}
