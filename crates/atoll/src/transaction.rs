//! Transactions as a program that embeds the database uses them.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use atoll_machine::Native;
use atoll_machine::fork::Here;
use atoll_storage::Value;
use atoll_txn::{
    AbortReason, Begin, Buffers, Committed, OpError, Range, RowAccess, RowOp, RowPrefetch, Want,
};

use crate::core::{Core, CoreTxn};
use crate::durability::Durability;
use crate::error::{Error, TxnError, TxnResult};
use crate::table::{Index, Table};
use crate::turn::Turn;

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

/// A row during a visit, see [`Transaction::visit`].
pub type Visit<'v, 'a> = atoll_txn::Visit<'v, 'a, Native>;

/// Access to single values of a table, one after the other, see [`Transaction::access`].
pub struct Access<'a> {
    rows: &'a mut dyn RowAccess,
    failed: &'a mut bool,
}

impl Access<'_> {
    /// Copies a value of the row with this primary key into the first bytes of `into`. Returns
    /// false when there is no such row; the contents of `into` are undefined then.
    ///
    /// # Errors
    /// As [`Transaction::apply`].
    #[inline]
    pub fn get(&mut self, key: &[Value], column: usize, into: &mut [u8]) -> TxnResult<bool> {
        self.rows.get(key, column, into).map_err(|error| self.fail_with(error))
    }

    /// Replaces a value of the row with this primary key by the first bytes of `bytes`. Returns
    /// false when there is no such row.
    ///
    /// # Errors
    /// As [`Transaction::apply`].
    #[inline]
    pub fn put(&mut self, key: &[Value], column: usize, bytes: &[u8]) -> TxnResult<bool> {
        self.rows.put(key, column, bytes).map_err(|error| self.fail_with(error))
    }

    /// Records whether the error ended the transaction for good.
    #[cold]
    fn fail_with(&mut self, error: OpError) -> TxnError {
        *self.failed |= !matches!(error, OpError::Abort(_)) && !self.rows.is_open();
        error.into()
    }
}

/// Rows to prefetch, see [`Transaction::prefetch_all`].
#[derive(Clone, Copy)]
pub struct Prefetch<'p> {
    /// The table.
    pub table: &'p Table,
    /// The keys, concatenated, each with as many values as the primary key has columns.
    pub keys: &'p [Value],
    /// The columns that the transaction will read or change; a visit of these rows prefetches no
    /// others.
    pub columns: &'p [usize],
}

/// Options of a transaction, known before it begins.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TransactionOptions {
    /// The partitions that the transaction accesses, see [`Table::partition`]; empty for all of
    /// them. Only a scheme with partitions uses it. A transaction that scans an index, or puts a
    /// value into a unique index, accesses all partitions, unless the index begins with the first
    /// column of the table's key.
    pub partitions: Vec<u32>,
    /// The transaction does not write. Some schemes never abort such a transaction.
    pub read_only: bool,
    /// The durability of its commit; by default the database's. [`Transaction::set_durability`] can
    /// change it later.
    pub durability: Option<Durability>,
}

/// A serializable transaction. Dropping it rolls it back.
///
/// It may move between threads. Its first operation takes a worker, of which there are about a
/// thousand, and [`Transaction::park`] lets go of it.
pub struct Transaction {
    /// In a forked child, dropping this never frees the parent's core.
    core: Here<Arc<Core>>,
    /// Unique in the process.
    number: u64,
    /// `None` only while it is dropped.
    txn: Option<CoreTxn>,
    /// Whether an error ended it: a retry would fail with the same error.
    failed: bool,
    durability: Option<Durability>,
}

impl Transaction {
    pub(crate) fn new(core: Arc<Core>, txn: CoreTxn) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let core = Here::new(core);
        Self { core, number, txn: Some(txn), failed: false, durability: None }
    }

    /// Identifies the transaction for [`Transaction::check_is`].
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Checks that a procedure has not swapped the transaction for another.
    ///
    /// # Errors
    /// [`Error::Exchanged`].
    pub(crate) fn check_is(&self, number: u64) -> TxnResult<()> {
        if self.number == number { Ok(()) } else { Err(Error::Exchanged.into()) }
    }

    /// Runs an operation and records whether its error ended the transaction for good.
    #[inline]
    fn with<R>(&mut self, body: impl FnOnce(&mut CoreTxn) -> Result<R, OpError>) -> TxnResult<R> {
        let txn = self.txn.as_mut().expect("a transaction that is not dropped");
        let done = body(txn);
        if let Err(error) = &done {
            self.failed |= !matches!(error, OpError::Abort(_)) && !txn.is_open();
        }
        Ok(done?)
    }

    /// As [`Transaction::with`], for every operation except reads of single rows: it refuses a
    /// transaction that was open when this process was forked, because it is the parent's. A read
    /// of a single row does not change the parent's transaction, and is too short for the check.
    #[inline]
    fn change<R>(&mut self, body: impl FnOnce(&mut CoreTxn) -> Result<R, OpError>) -> TxnResult<R> {
        self.check_owner()?;
        self.with(body)
    }

    /// As [`Core::check_owner`], by a mark that is not on a cache line which other threads write.
    #[inline]
    fn check_owner(&self) -> TxnResult<()> {
        if self.is_owner() { Ok(()) } else { Ok(self.core.check_owner()?) }
    }

    #[inline]
    fn is_owner(&self) -> bool {
        self.core.mark().is_here()
    }

    /// Inserts a row; its values are in the order of the columns.
    ///
    /// # Errors
    /// [`TxnError::Abort`](crate::TxnError); [`Error::DuplicateKey`](crate::Error), or
    /// [`Error::Storage`](crate::Error) for values that do not fit the schema: nothing has changed
    /// then; [`Error::Memory`](crate::Error), or [`Error::DuplicateIndexKey`](crate::Error): the
    /// transaction has been rolled back.
    pub fn insert(&mut self, table: &Table, row: &[Value]) -> TxnResult<()> {
        let schema = table.core.schema();
        if row.len() != schema.columns().len() {
            schema.check_row(row).map_err(OpError::from)?;
        }
        self.change(|txn| txn.insert(&table.core, row))
    }

    /// Inserts rows as if one after the other, but faster. `rows` is the concatenation of the rows,
    /// each with one value for every column in the order of the columns.
    ///
    /// # Errors
    /// As [`Transaction::insert`]; at [`Error::DuplicateKey`](crate::Error) the rows before the
    /// duplicate have been inserted.
    pub fn insert_rows(&mut self, table: &Table, rows: &[Value]) -> TxnResult<()> {
        if rows.is_empty() {
            return Ok(());
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

    /// Reads some columns of the row with this primary key.
    ///
    /// # Errors
    /// As [`Transaction::insert`].
    ///
    /// # Panics
    /// When the table has no such column.
    pub fn read_columns(
        &mut self,
        table: &Table,
        key: &[Value],
        columns: &[usize],
    ) -> TxnResult<Option<Vec<Value>>> {
        self.read_with(table, key, |row| columns.iter().map(|at| row.value(*at)).collect())
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
        let found = self.change(|txn| txn.update_with(&table.core, key, edit))?;
        Ok(result.filter(|_| found))
    }

    /// Calls `body` for each of these keys, in their order, with the position of the key and its
    /// row. `wants` returns, for a position, what `body` will do with the row, and with which
    /// columns. The keys are concatenated, each with as many values as the primary key has columns.
    ///
    /// This is the fastest way to access many rows: the cache misses of all of them overlap, and
    /// the cost of a call is paid once. `body` may be called several times for a row with different
    /// versions of it, so its effect must depend on the row alone, and the effect of the last call
    /// counts. Neither closure may wait for anything or use the database: a snapshot that is being
    /// taken waits until they have returned.
    ///
    /// ```
    /// # use atoll::{Column, Database, DatabaseOptions, DataType, Schema, Value, Visit, Want};
    /// # fn main() -> Result<(), atoll::Error> {
    /// # let db = Database::create(DatabaseOptions::default())?;
    /// # let columns = ["id", "balance"].map(|name| Column::new(name, DataType::Int64));
    /// # let accounts = db.create_table("accounts", Schema::new(columns.to_vec(), &["id"])?)?;
    /// # let mut session = db.session()?;
    /// session.transaction(|tx| {
    ///     for id in 0..2 {
    ///         tx.insert(&accounts, &[Value::Int64(id), Value::Int64(100)])?;
    ///     }
    ///     let from_and_to = [Value::Int64(0), Value::Int64(1)];
    ///     tx.visit(&accounts, &from_and_to, |_| Want::update(&[1]), |at, row| {
    ///         if let Visit::Update(row) = row {
    ///             row.set_i64(1, row.i64(1) + [-30, 30][at]);
    ///         }
    ///     })?;
    ///     let to = tx.read_with(&accounts, &from_and_to[1..], |row| row.i64(1))?;
    ///     assert_eq!(to, Some(130));
    ///     Ok(())
    /// })
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Transaction::insert`]. When a key does not fit the schema, nothing has been done. A
    /// value that does not fit rolls the transaction back, and so do
    /// [`Error::KeyUpdate`](crate::Error) and a partition that was not named; a change in a
    /// read-only transaction has no effect (both are [`Error::Transaction`](crate::Error)).
    ///
    /// # Panics
    /// When `body` asks for a column that the table does not have, or reads a column as another
    /// type.
    pub fn visit<'c>(
        &mut self,
        table: &Table,
        keys: &[Value],
        wants: impl Fn(usize) -> Want<'c>,
        mut body: impl FnMut(usize, Visit<'_, '_>),
    ) -> TxnResult<()> {
        self.change(|txn| txn.visit(&table.core, keys, &wants, &mut body))
    }

    /// Performs one operation for each of these keys, in their order: reads a column into the
    /// output, or replaces it by bytes of the input. `absent` is called with the position of a key
    /// that has no row. The keys are concatenated, each with as many values as the primary key has
    /// columns.
    ///
    /// This is [`Transaction::visit`] for operations that are known beforehand, and faster, because
    /// no closure is called for a row. With one key it is also the fastest way to access a single
    /// value. The columns are integers, floats, dates, timestamps or `binary(n)`, are not NULL, and
    /// key columns are not replaced. Where a row is absent, the contents of the output are
    /// undefined; two operations may write to the same place. `absent` must not wait for anything
    /// or use the database: a snapshot that is being taken waits until it has returned.
    ///
    /// ```
    /// # use atoll::{Buffers, Column, Database, DatabaseOptions, DataType, RowOp, Schema, Value};
    /// # fn main() -> Result<(), atoll::Error> {
    /// # let db = Database::create(DatabaseOptions::default())?;
    /// # let columns = ["id", "price", "size"].map(|name| Column::new(name, DataType::Int64));
    /// # let quotes = db.create_table("quotes", Schema::new(columns.to_vec(), &["id"])?)?;
    /// # let mut session = db.session()?;
    /// # session.transaction(|tx| {
    /// #     (0..2).try_for_each(|id| tx.insert(&quotes, &[id, 100, 7].map(Value::Int64)))
    /// # })?;
    /// let mut size = [0; 8];
    /// session.transaction(|tx| {
    ///     let keys = [0, 1, 9].map(Value::Int64);
    ///     let ops = [
    ///         RowOp::Put { column: 1, from: 0 },
    ///         RowOp::Get { column: 2, to: 0 },
    ///         RowOp::Put { column: 1, from: 0 },
    ///     ];
    ///     let buffers = Buffers { input: &101i64.to_le_bytes(), output: &mut size };
    ///     tx.apply(&quotes, &keys, &ops, buffers, |position| assert_eq!(position, 2))
    /// })?;
    /// assert_eq!(i64::from_le_bytes(size), 7);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Transaction::insert`]. Nothing has been done when a key or an operation does not fit
    /// the schema ([`Error::KeyUpdate`](crate::Error) for a column of the key), or when a read-only
    /// transaction has an operation that puts. A partition that was not named rolls the transaction
    /// back.
    pub fn apply(
        &mut self,
        table: &Table,
        keys: &[Value],
        ops: &[RowOp],
        buffers: Buffers<'_>,
        mut absent: impl FnMut(usize),
    ) -> TxnResult<()> {
        self.change(|txn| txn.apply(&table.core, keys, ops, buffers, &mut absent))
    }

    /// Lets `body` read and replace single values of a table, one after the other. This is the
    /// fastest way where a key depends on what was read before, as when a list is followed. Where
    /// the keys are known together, [`Transaction::apply`] is faster. The types of columns and the
    /// layout of values are those of [`Transaction::apply`].
    ///
    /// `body` must not wait for anything or use the database otherwise: a snapshot that is being
    /// taken, and with it other transactions, wait until the next access of `body`, or until it has
    /// returned.
    ///
    /// ```
    /// # use atoll::{Column, Database, DatabaseOptions, DataType, Schema, Value};
    /// # fn main() -> Result<(), atoll::Error> {
    /// # let db = Database::create(DatabaseOptions::default())?;
    /// # let columns = ["id", "next", "visits"].map(|name| Column::new(name, DataType::Int64));
    /// # let stations = db.create_table("stations", Schema::new(columns.to_vec(), &["id"])?)?;
    /// # let mut session = db.session()?;
    /// # session.transaction(|tx| {
    /// #     [[1, 3, 0], [2, 0, 0], [3, 2, 0]]
    /// #         .into_iter()
    /// #         .try_for_each(|row| tx.insert(&stations, &row.map(Value::Int64)))
    /// # })?;
    /// let visited = session.transaction(|tx| {
    ///     tx.access(&stations, |rows| {
    ///         let (mut visited, mut next) = (Vec::new(), 1i64.to_le_bytes());
    ///         loop {
    ///             let id = i64::from_le_bytes(next);
    ///             let key = [Value::Int64(id)];
    ///             if !rows.get(&key, 1, &mut next)? {
    ///                 return Ok(visited);
    ///             }
    ///             rows.put(&key, 2, &1i64.to_le_bytes())?;
    ///             visited.push(id);
    ///         }
    ///     })
    /// })?;
    /// assert_eq!(visited, [1, 3, 2]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of `body`.
    #[inline]
    pub fn access<R>(
        &mut self,
        table: &Table,
        body: impl FnOnce(&mut Access<'_>) -> TxnResult<R>,
    ) -> TxnResult<R> {
        let (mut body, mut result, mut failed) = (Some(body), None, false);
        let access = &mut |rows: &mut dyn RowAccess| {
            let body = body.take().expect("a worker calls it once");
            result = Some(body(&mut Access { rows, failed: &mut failed }));
        };
        self.change(|txn| txn.access(&table.core, access))?;
        self.failed |= failed;
        result.expect("a worker calls it")
    }

    /// Deletes the row with this primary key. Returns false when there is no such row.
    ///
    /// # Errors
    /// As [`Transaction::insert`].
    pub fn delete(&mut self, table: &Table, key: &[Value]) -> TxnResult<bool> {
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
        let table = &index.table.core;
        self.change(|txn| txn.scan(table, index.number, &range, look, take))
    }

    /// Prefetches, all at the same time, the cache lines that reading or changing these columns of
    /// the rows with these keys will need. The keys are concatenated, each with as many values as
    /// the primary key has columns. A hint; it helps most when the rows are then used in this
    /// order.
    pub fn prefetch(&mut self, table: &Table, keys: &[Value], columns: &[usize]) {
        self.prefetch_each(table, keys, |_| columns);
    }

    /// As [`Transaction::prefetch`], with columns for each key, by its position. `columns` must not
    /// wait for anything or use the database.
    pub fn prefetch_each<'c>(
        &mut self,
        table: &Table,
        keys: &[Value],
        columns: impl Fn(usize) -> &'c [usize],
    ) {
        if let Some(txn) = &mut self.txn {
            txn.prefetch_index(&table.core, keys);
            txn.prefetch_rows(&[(&table.core, &columns)]);
        }
    }

    /// As [`Transaction::prefetch`], of several tables at the same time. A prefetch for a table
    /// replaces the one before it for the same table.
    pub fn prefetch_all<const N: usize>(&mut self, wanted: [Prefetch<'_>; N]) {
        let Some(txn) = &mut self.txn else { return };
        for one in &wanted {
            txn.prefetch_index(&one.table.core, one.keys);
        }
        let columns = wanted.map(|one| move |_: usize| one.columns);
        let wanted: [RowPrefetch<'_, '_, Native>; N] =
            std::array::from_fn(|at| (&*wanted[at].table.core, &columns[at] as _));
        txn.prefetch_rows(&wanted);
    }

    /// Prefetches the cache lines of the primary key's index that inserting rows with these keys
    /// will need. A hint; it helps a row that is inserted by itself, somewhat later.
    pub fn prefetch_new(&mut self, table: &Table, keys: &[Value]) {
        if let Some(txn) = &mut self.txn {
            txn.prefetch_index_for_insert(&table.core, keys);
        }
    }

    /// As [`Transaction::prefetch`], and lets the other transactions of the thread's
    /// [`Lanes`](crate::Lanes) run until the cache lines have arrived.
    ///
    /// The future completes in any runtime. But only lanes know that transactions share a thread:
    /// in another runtime, a transaction that waits for another of the same thread waits for ever.
    pub async fn fetch(&mut self, table: &Table, keys: &[Value], columns: &[usize]) {
        self.fetch_each(table, keys, |_| columns).await;
    }

    /// As [`Transaction::fetch`], with columns for each key, by its position.
    pub async fn fetch_each<'c>(
        &mut self,
        table: &Table,
        keys: &[Value],
        columns: impl Fn(usize) -> &'c [usize],
    ) {
        if let Some(txn) = &mut self.txn {
            if txn.prefetch_index(&table.core, keys) {
                Turn::default().await;
            }
            txn.prefetch_rows(&[(&table.core, &columns)]);
            Turn::default().await;
        }
    }

    /// Changes the durability of the commit; `None` is the database's durability.
    pub fn set_durability(&mut self, durability: Option<Durability>) {
        self.durability = durability;
    }

    /// Commits. This consumes the transaction:
    ///
    /// ```compile_fail,E0382
    /// # fn f(db: &atoll::Database, table: &atoll::Table) -> atoll::TxnResult<()> {
    /// let mut transaction = db.begin()?;
    /// transaction.delete(table, &[1i64.into()])?;
    /// transaction.commit()?;
    /// transaction.delete(table, &[2i64.into()])?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`TxnError::Abort`](crate::TxnError): the transaction has been rolled back.
    pub fn commit(mut self) -> TxnResult<()> {
        self.commit_in_place()
    }

    pub(crate) fn commit_in_place(&mut self) -> TxnResult<()> {
        let committed = self.commit_unacknowledged()?;
        self.acknowledge(committed)
    }

    /// Commits: other transactions see the changes, but the commit may not be acknowledged yet.
    pub(crate) fn commit_unacknowledged(&mut self) -> TxnResult<Committed> {
        self.change(|txn| txn.commit().map(|()| txn.committed()))
    }

    /// Whether a commit can be acknowledged without waiting.
    pub(crate) fn is_acknowledged(&self, committed: Committed) -> bool {
        let acknowledger = self.core.acknowledger.get();
        acknowledger.is_none_or(|one| one.is_acknowledged(committed, self.durability))
    }

    /// Waits until a commit may be acknowledged.
    pub(crate) fn acknowledge(&self, committed: Committed) -> TxnResult<()> {
        match self.core.acknowledger.get() {
            Some(acknowledger) => Ok(acknowledger.acknowledge(committed, self.durability)?),
            None => Ok(()),
        }
    }

    /// Begins, or begins again after the transaction has ended.
    pub(crate) fn restart(&mut self, options: &TransactionOptions) -> TxnResult<()> {
        self.begin(options, false)
    }

    /// As `restart`, for a transaction that shares its thread with others (`LANES-1`).
    pub(crate) fn restart_hurried(&mut self, options: &TransactionOptions) -> TxnResult<()> {
        self.begin(options, true)
    }

    fn begin(&mut self, options: &TransactionOptions, hurried: bool) -> TxnResult<()> {
        self.check_owner()?;
        self.failed = false;
        let TransactionOptions { partitions, read_only, durability } = options;
        self.durability = *durability;
        self.with(|txn| txn.begin(Begin { partitions, read_only: *read_only, hurried }))
    }

    /// The reason why an attempt ended: a conflict if the body gave up by itself but has read
    /// values that no committed transaction can have read together; else `end`.
    pub(crate) fn conflict_or(&mut self, end: TxnError) -> TxnError {
        if !self.is_owner() {
            return end;
        }
        match self.txn.as_mut().map(|txn| txn.check_consistent()) {
            Some(Err(OpError::Abort(reason))) => TxnError::Abort(reason),
            _ => end,
        }
    }

    /// Rolls back an attempt that did not commit; returns whether an error ended it for good.
    pub(crate) fn end_attempt(&mut self) -> bool {
        if self.is_owner()
            && let Some(txn) = &mut self.txn
        {
            txn.abort(AbortReason::Requested);
        }
        self.failed
    }

    /// Calls `pause` before another attempt.
    pub(crate) fn pause(&mut self, mut pause: impl FnMut()) {
        if let Some(txn) = &mut self.txn {
            txn.pause(&mut pause);
        }
    }

    /// Rolls back, as dropping does.
    ///
    /// ```compile_fail,E0382
    /// # fn f(db: &atoll::Database, table: &atoll::Table) -> atoll::TxnResult<()> {
    /// let mut transaction = db.begin()?;
    /// transaction.delete(table, &[1i64.into()])?;
    /// transaction.rollback();
    /// transaction.commit()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn rollback(self) {}

    /// Lets go of the worker until the next operation. An open transaction that is parked keeps its
    /// locks and its changes, but no slot at the gate and no segment that it fills; so a server can
    /// keep more transactions open than there are workers. If all workers are in use then, the next
    /// operation fails with [`Error::TooManyTransactions`](crate::Error) and can be tried again.
    pub fn park(&mut self) {
        if self.is_owner()
            && let Some(txn) = &mut self.txn
        {
            txn.park();
        }
    }

    /// Whether it can go on: no abort or error has rolled it back.
    pub fn is_open(&self) -> bool {
        self.txn.as_ref().is_some_and(|txn| txn.is_open())
    }
}

/// A transaction that is used for one attempt after the other. If it is still open when the
/// attempts end, because one failed or a procedure panicked, it is rolled back.
pub(crate) struct Attempts<'t>(pub(crate) &'t mut Transaction);

impl Drop for Attempts<'_> {
    fn drop(&mut self) {
        self.0.end_attempt();
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        let Some(mut txn) = self.txn.take() else { return };
        if self.is_owner() {
            txn.abort(AbortReason::Requested);
        } else {
            // The rows, locks and undo belong to the parent, which rolls back or commits them
            // itself.
            std::mem::forget(txn);
        }
    }
}
