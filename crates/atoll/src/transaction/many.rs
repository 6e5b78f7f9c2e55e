//! Operations on many rows in one call: with closures ([`Transaction::visit`]), as data
//! ([`Transaction::apply`]), and one after the other ([`Transaction::cursor`]).

use atoll_machine::Native;
use atoll_storage::Value;
use atoll_txn::{Buffers, OpError, RowCursor, RowOp, Want};

use super::Transaction;
use crate::error::{TxnError, TxnResult};
use crate::table::Table;

/// A row during a visit, see [`Transaction::visit`].
pub type Visit<'v, 'a> = atoll_txn::Visit<'v, 'a, Native>;

/// Reads and replaces single values of a table, see [`Transaction::cursor`].
pub struct Cursor<'a> {
    rows: &'a mut dyn RowCursor,
    failed: &'a mut bool,
}

impl Cursor<'_> {
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

impl Transaction {
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
        self.use_table(table)?;
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
        self.use_table(table)?;
        self.change(|txn| txn.apply(&table.core, keys, ops, buffers, &mut absent))
    }

    /// Lets `body` read and replace single values of a table, one after the other. This is the
    /// fastest way where a key depends on what was read before, as when a list is followed. Where
    /// the keys are known together, [`Transaction::apply`] is faster. The types of columns and the
    /// layout of values are those of [`Transaction::apply`].
    ///
    /// `body` must not wait for anything or use the database otherwise: a snapshot that is being
    /// taken, and with it other transactions, wait until the next operation of `body`, or until it
    /// has returned.
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
    ///     tx.cursor(&stations, |rows| {
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
    pub fn cursor<R>(
        &mut self,
        table: &Table,
        body: impl FnOnce(&mut Cursor<'_>) -> TxnResult<R>,
    ) -> TxnResult<R> {
        let (mut body, mut result, mut failed) = (Some(body), None, false);
        let cursor = &mut |rows: &mut dyn RowCursor| {
            let body = body.take().expect("a worker calls it once");
            result = Some(body(&mut Cursor { rows, failed: &mut failed }));
        };
        self.use_table(table)?;
        self.change(|txn| txn.cursor(&table.core, cursor))?;
        self.failed |= failed;
        result.expect("a worker calls it")
    }
}
