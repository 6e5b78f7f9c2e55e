//! Loading many rows at once.
//!
//! Rows for a table that no transaction has used yet are loaded in bulk, on several threads; see
//! [`atoll_txn::bulk`]. Rows for any other table are inserted by a transaction.

mod arrays;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_array::{ArrayRef, Int64Array};
use atoll_machine::Native;
use atoll_storage::{RowId, SEGMENT_ROWS, Schema, Value};
use atoll_txn::bulk::Loaded;

pub use arrays::{append, check, value};
pub use atoll_storage::SegmentBuffer;
pub use atoll_txn::bulk::{RowSource, Stopped};

use crate::database::Database;
use crate::durability::Durability;
use crate::error::{Error, Result, TxnResult};
use crate::table::Table;
use crate::transaction::{Transaction, TransactionOptions};

/// Rows that are inserted by one call, where they are not loaded in bulk.
const ROWS_TOGETHER: usize = 1024;
/// After a load of so many rows, the memory of its buffers is given back at once.
const ROWS_TRIMMED: u64 = 1 << 18;

/// Rows in Arrow arrays, one for each column of a table and of the column's type
/// ([`arrow_type`](crate::arrow_type)); `None` for a column that is NULL in all rows, and for the
/// numbers of new rows of a table without a primary key ([`ROW_NUMBER`](crate::ROW_NUMBER)).
#[derive(Debug, Clone)]
pub struct ArrowRows {
    /// Number of rows.
    pub rows: usize,
    /// The arrays.
    pub columns: Vec<Option<ArrayRef>>,
}

/// How rows are loaded.
#[derive(Debug, Clone, Copy, Default)]
pub struct LoadOptions {
    /// Threads that load in bulk; by default one for each CPU.
    pub threads: Option<usize>,
    /// What the rows survive once the call returns; by default as the database says.
    pub durability: Option<Durability>,
}

/// Batches of rows as the segments of a load.
struct Batches<'b> {
    batches: &'b [ArrowRows],
    /// The number of rows before each batch, and of all rows.
    ends: Vec<usize>,
    next: AtomicUsize,
}

impl<'b> Batches<'b> {
    fn new(batches: &'b [ArrowRows]) -> Self {
        let mut ends = vec![0];
        for batch in batches {
            ends.push(ends[ends.len() - 1] + batch.rows);
        }
        Self { batches, ends, next: AtomicUsize::new(0) }
    }
}

impl RowSource for Batches<'_> {
    fn next(&self, rows: &mut SegmentBuffer) -> std::result::Result<Option<u64>, Stopped> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let mut from = number * SEGMENT_ROWS;
        let total = self.ends[self.ends.len() - 1];
        let end = total.min(from + SEGMENT_ROWS);
        if from >= end {
            return Ok(None);
        }
        let mut at = self.ends.partition_point(|before| *before <= from) - 1;
        while from < end {
            let batch = &self.batches[at];
            let first = from - self.ends[at];
            let count = (batch.rows - first).min(end - from);
            batch.append(first..first + count, rows);
            (from, at) = (from + count, at + 1);
        }
        Ok(Some(number as u64))
    }
}

impl Database {
    /// Loads the rows of a source into a table, if no transaction has used the table yet; returns
    /// their number, or `None` if the table has been used: the caller inserts them in a transaction
    /// then, for which it has to begin again. Other transactions see all rows or none, as a
    /// snapshot does; with an error, none is in the table. Meanwhile, they cannot insert into the
    /// table and are retried.
    ///
    /// # Errors
    /// [`Error::DuplicateKey`], [`Error::Memory`], [`Error::Log`]; [`Error::Aborted`] if the source
    /// has stopped.
    pub fn load(
        &self,
        table: &Table,
        source: &dyn RowSource,
        options: LoadOptions,
    ) -> Result<Option<u64>> {
        let engine = self.engine()?;
        // So that the table is not dropped meanwhile.
        let mut user = self.new_transaction()?;
        user.use_table(table).map_err(Error::from)?;
        let threads = options.threads.unwrap_or_else(cpus);
        match engine.load(&table.core, source, threads).map_err(Error::of_op)? {
            Loaded::Used => Ok(None),
            Loaded::Rows { rows, committed } => {
                if let Some(acknowledger) = self.acknowledger()? {
                    acknowledger.acknowledge(committed, options.durability)?;
                }
                if rows >= ROWS_TRIMMED {
                    atoll_machine::process::trim_heap();
                }
                Ok(Some(rows))
            }
        }
    }

    /// Adds rows to a table as one transaction. If no transaction has used the table yet, they are
    /// loaded in bulk.
    ///
    /// # Errors
    /// [`Error::Storage`] for a value that does not fit its column; otherwise as
    /// [`Database::load`].
    pub fn insert_arrow(
        &self,
        table: &Table,
        batches: &[ArrowRows],
        options: LoadOptions,
    ) -> Result<u64> {
        batches.iter().try_for_each(|batch| arrays::check(table.schema(), batch))?;
        let numbered: Vec<ArrowRows>;
        let batches = match table.schema().is_keyless() {
            true => {
                numbered = batches.iter().map(|batch| batch.clone().numbered(table)).collect();
                &numbered
            }
            false => batches,
        };
        if let Some(rows) = self.load(table, &Batches::new(batches), options)? {
            return Ok(rows);
        }
        let begin =
            TransactionOptions { durability: options.durability, ..TransactionOptions::default() };
        self.session()?.transaction_with(&begin, |tx| tx.insert_arrow(table, batches))
    }
}

impl Transaction {
    /// Inserts rows.
    ///
    /// # Errors
    /// As [`Transaction::insert`].
    pub fn insert_arrow(&mut self, table: &Table, batches: &[ArrowRows]) -> TxnResult<u64> {
        let (mut rows, mut count) = (Vec::new(), 0);
        for batch in batches {
            arrays::check(table.schema(), batch)?;
            for first in (0..batch.rows).step_by(ROWS_TOGETHER) {
                rows.clear();
                let last = batch.rows.min(first + ROWS_TOGETHER);
                for row in first..last {
                    rows.extend(
                        (0..batch.columns.len()).map(|at| batch.value(table.schema(), at, row)),
                    );
                }
                self.insert(table, &rows)?;
                count += (last - first) as u64;
            }
        }
        Ok(count)
    }
}

impl ArrowRows {
    /// The rows, with numbers if the table has no primary key and they have none.
    #[must_use]
    pub fn numbered(mut self, table: &Table) -> Self {
        if table.schema().is_keyless()
            && let Some(numbers @ None) = self.columns.last_mut()
        {
            let first = table.number_rows(self.rows);
            let all = Int64Array::from_iter_values((first..).take(self.rows));
            *numbers = Some(Arc::new(all));
        }
        self
    }

    /// Appends some of the rows, which fit the table ([`check`]), to a buffer.
    pub fn append(&self, rows: Range<usize>, buffer: &mut SegmentBuffer) {
        for (column, array) in buffer.columns_mut().iter_mut().zip(&self.columns) {
            match array {
                Some(array) => append(column, array.as_ref(), rows.clone()),
                None => rows.clone().for_each(|_| column.push(None)),
            }
        }
    }

    fn value(&self, schema: &Schema, column: usize, row: usize) -> Value {
        let data_type = schema.columns()[column].data_type;
        let of = |array: &ArrayRef| value(&**array, data_type, row);
        self.columns[column].as_ref().map_or(Value::Null, of)
    }
}

/// A key that two of the rows have, as a user writes it, if they are rows of a table with this
/// schema.
///
/// # Errors
/// [`Error::Storage`] for a value that does not fit its column.
pub fn duplicate_key(schema: &Schema, batches: &[ArrowRows]) -> Result<Option<String>> {
    batches.iter().try_for_each(|batch| arrays::check(schema, batch))?;
    let source = Batches::new(batches);
    let key = |RowId(row): RowId| -> Vec<Value> {
        let at = source.ends.partition_point(|before| *before as u64 <= row) - 1;
        let (batch, row) = (&source.batches[at], row as usize - source.ends[at]);
        schema.primary_key().iter().map(|at| batch.value(schema, *at, row)).collect()
    };
    let twice = atoll_txn::bulk::duplicate_key::<Native>(schema, &source, &key, cpus());
    Ok(twice.map(|row| atoll_storage::key::display(schema, schema.primary_key(), &key(row))))
}

fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
