//! Operations on single rows, and scans of indexes.

use std::ops::ControlFlow;

use atoll_machine::Native;
use atoll_storage::Value;
use atoll_txn::Range;

use super::Transaction;
use crate::error::TxnResult;
use crate::table::{Index, Table};

/// A row while it is being read.
pub type Row<'a> = atoll_txn::Row<'a, Native>;
/// A row while it is being changed.
///
/// A reference into the row cannot be kept while the row is changed:
///
/// ```compile_fail,E0507
/// # fn f(tx: &mut atoll::Transaction, table: &atoll::Table) -> atoll::TxnResult<()> {
/// tx.update_with(table, &[1i64.into()], |row| {
///     let as_it_was = **row;
///     as_it_was.show(1, |_| row.set_i64(2, 7));
/// })?;
/// # Ok(())
/// # }
/// ```
pub type RowEdit<'a> = atoll_txn::RowEdit<'a, Native>;

impl Transaction {
    /// Inserts rows, as if one after the other. `rows` is the concatenation of the rows, each with
    /// one value for every column in the order of the columns; a single row is just its values.
    /// Many rows in one call cost less than as many calls. In a table without a primary key a row
    /// ends with its number, or with NULL for a new one ([`ROW_NUMBER`](crate::ROW_NUMBER)).
    ///
    /// # Errors
    /// [`TxnError::Abort`](crate::TxnError); [`Error::DuplicateKey`](crate::Error): the rows before
    /// the duplicate have been inserted; [`Error::Storage`](crate::Error) for values that do not
    /// fit the schema: nothing has changed; [`Error::Memory`](crate::Error), or
    /// [`Error::DuplicateIndexKey`](crate::Error): the transaction has been rolled back.
    pub fn insert(&mut self, table: &Table, rows: &[Value]) -> TxnResult<()> {
        if rows.is_empty() {
            return Ok(());
        }
        self.use_table(table)?;
        if table.schema().is_keyless() && rows.last() == Some(&Value::Null) {
            let mut rows = rows.to_vec();
            table.number_in(&mut rows);
            return self.change(|txn| txn.insert(&table.core, &rows));
        }
        self.change(|txn| txn.insert(&table.core, rows))
    }

    /// Reads the row with this primary key; `None` when there is none.
    ///
    /// # Errors
    /// As [`Transaction::insert`].
    pub fn read(&mut self, table: &Table, key: &[Value]) -> TxnResult<Option<Vec<Value>>> {
        self.read_with(table, key, |row| (0..row.columns()).map(|at| row.value(at)).collect())
    }

    /// Calls `body` with the row with this primary key; returns `None` when there is no such row. A
    /// scheme that reads without locks may call `body` several times; the result of the last call
    /// counts. `body` must not wait for anything or use the database.
    ///
    /// # Errors
    /// As [`Transaction::insert`].
    #[inline]
    pub fn read_with<R>(
        &mut self,
        table: &Table,
        key: &[Value],
        mut body: impl FnMut(&Row<'_>) -> R,
    ) -> TxnResult<Option<R>> {
        let mut result = None;
        let read = &mut |row: &Row<'_>| result = Some(body(row));
        self.use_table(table)?;
        let found = self.with(|txn| txn.read_with(&table.core, key, read))?;
        Ok(result.filter(|_| found))
    }

    /// Changes columns of the row with this primary key. Returns false when there is no such row.
    ///
    /// # Errors
    /// As [`Transaction::insert`]; [`Error::KeyUpdate`](crate::Error).
    ///
    /// # Panics
    /// When the table has no such column.
    pub fn update(
        &mut self,
        table: &Table,
        key: &[Value],
        changes: &[(usize, Value)],
    ) -> TxnResult<bool> {
        self.use_table(table)?;
        self.change(|txn| txn.update(&table.core, key, changes))
    }

    /// Calls `body` with the row with this primary key to read and change it; returns `None` when
    /// there is no such row. `body` may be called several times with different versions of the row,
    /// so its effect must depend on the row alone. It must not wait for anything or use the
    /// database.
    ///
    /// # Errors
    /// As [`Transaction::insert`], but a value that does not fit the schema rolls the transaction
    /// back.
    #[inline]
    pub fn update_with<R>(
        &mut self,
        table: &Table,
        key: &[Value],
        mut body: impl FnMut(&mut RowEdit<'_>) -> R,
    ) -> TxnResult<Option<R>> {
        let mut result = None;
        let edit = &mut |row: &mut RowEdit<'_>| result = Some(body(row));
        self.use_table(table)?;
        let found = self.change(|txn| txn.update_with(&table.core, key, edit))?;
        Ok(result.filter(|_| found))
    }

    /// As [`Transaction::update_with`], but only if no other transaction holds the row: `None` if
    /// one does.
    ///
    /// # Errors
    /// As [`Transaction::update_with`].
    pub fn try_update_with<R>(
        &mut self,
        table: &Table,
        key: &[Value],
        mut body: impl FnMut(&mut RowEdit<'_>) -> R,
    ) -> TxnResult<Option<Option<R>>> {
        let mut result = None;
        let edit = &mut |row: &mut RowEdit<'_>| result = Some(body(row));
        self.use_table(table)?;
        let found = self.change(|txn| txn.try_update_with(&table.core, key, edit))?;
        Ok(found.map(|found| result.filter(|_| found)))
    }

    /// Deletes the row with this primary key. Returns false when there is no such row.
    ///
    /// # Errors
    /// As [`Transaction::insert`].
    pub fn delete(&mut self, table: &Table, key: &[Value]) -> TxnResult<bool> {
        self.use_table(table)?;
        self.change(|txn| txn.delete(&table.core, key))
    }

    /// Scans the rows of a range of an ordered index, in its order. `look` extracts a result from a
    /// row; a scheme that reads without locks may call it several times for a row, and the result
    /// of the last call counts. `take` then receives that result, once for each row, until it
    /// breaks. `look` must not wait for anything or use the database.
    ///
    /// # Errors
    /// As [`Transaction::insert`].
    pub fn scan<R>(
        &mut self,
        index: &Index,
        range: Range<'_>,
        mut look: impl FnMut(&Row<'_>) -> R,
        mut take: impl FnMut(R) -> ControlFlow<()>,
    ) -> TxnResult<()> {
        let seen = std::cell::Cell::new(None);
        let look = &mut |row: &Row<'_>| seen.set(Some(look(row)));
        let take = &mut || seen.take().map_or(ControlFlow::Continue(()), &mut take);
        self.use_table(&index.table)?;
        let table = &index.table.core;
        self.change(|txn| txn.scan(table, index.number, &range, look, take))
    }

    /// Scans all rows of a table, in no order and without an index. `look` and `take` are those of
    /// [`Transaction::scan`]. Other transactions cannot insert into the table until this one ends,
    /// or abort it if they do.
    ///
    /// # Errors
    /// As [`Transaction::insert`].
    pub fn scan_table<R>(
        &mut self,
        table: &Table,
        mut look: impl FnMut(&Row<'_>) -> R,
        mut take: impl FnMut(R) -> ControlFlow<()>,
    ) -> TxnResult<()> {
        let seen = std::cell::Cell::new(None);
        let look = &mut |row: &Row<'_>| seen.set(Some(look(row)));
        let take = &mut || seen.take().map_or(ControlFlow::Continue(()), &mut take);
        self.use_table(table)?;
        self.change(|txn| txn.scan_heap(&table.core, look, take))
    }
}
