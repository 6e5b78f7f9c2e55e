//! Loading many rows at once.
//!
//! Rows for a table that no transaction has used yet are loaded in bulk, on several threads; see
//! [`atoll_txn::bulk`]. Rows for any other table are inserted by a transaction.

mod arrays;

use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_array::ArrayRef;
use atoll_storage::{SEGMENT_ROWS, Value};
use atoll_txn::bulk::Loaded;

pub use arrays::{append, value};
pub use atoll_storage::SegmentBuffer;
pub use atoll_txn::bulk::{RowSource, Stopped};

use crate::database::Database;
use crate::error::{Error, Result};
use crate::table::Table;

/// Rows that are inserted by one call, where they are not loaded in bulk.
const ROWS_TOGETHER: usize = 1024;

/// Rows in Arrow arrays, one for each column of a table and of the column's type
/// ([`arrow_type`](crate::arrow_type)); `None` for a column that is NULL in all rows.
#[derive(Debug, Clone)]
pub struct ArrowRows {
    /// Number of rows.
    pub rows: usize,
    /// The arrays.
    pub columns: Vec<Option<ArrayRef>>,
}

/// Batches of rows as the segments of a load.
struct Batches<'b> {
    batches: &'b [ArrowRows],
    /// The number of rows before each batch, and of all rows.
    ends: Vec<usize>,
    next: AtomicUsize,
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
            for (column, array) in rows.columns_mut().iter_mut().zip(&batch.columns) {
                match array {
                    Some(array) => append(column, array.as_ref(), first..first + count),
                    None => (0..count).for_each(|_| column.push(None)),
                }
            }
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
    /// `threads` of this process work on it, by default one for each CPU.
    ///
    /// # Errors
    /// [`Error::DuplicateKey`], [`Error::Memory`], [`Error::Log`]; [`Error::Aborted`] if the source
    /// has stopped.
    pub fn load(
        &self,
        table: &Table,
        source: &dyn RowSource,
        threads: Option<usize>,
    ) -> Result<Option<u64>> {
        self.check_owner()?;
        let cpus = || std::thread::available_parallelism().map_or(1, usize::from);
        let threads = threads.unwrap_or_else(cpus);
        match table.engine.load(&table.core, source, threads).map_err(Error::of_op)? {
            Loaded::Used => Ok(None),
            Loaded::Rows { rows, committed } => {
                if let Some(acknowledger) = self.acknowledger()? {
                    acknowledger.acknowledge(committed, None)?;
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
    pub fn insert_arrow(&self, table: &Table, batches: &[ArrowRows]) -> Result<u64> {
        for batch in batches {
            arrays::check(table.schema(), batch)?;
        }
        let mut ends = vec![0];
        for batch in batches {
            ends.push(ends[ends.len() - 1] + batch.rows);
        }
        let source = Batches { batches, ends, next: AtomicUsize::new(0) };
        if let Some(rows) = self.load(table, &source, None)? {
            return Ok(rows);
        }
        self.transaction(|tx| {
            let (mut rows, mut count) = (Vec::new(), 0);
            for batch in batches {
                for first in (0..batch.rows).step_by(ROWS_TOGETHER) {
                    rows.clear();
                    let last = batch.rows.min(first + ROWS_TOGETHER);
                    for row in first..last {
                        let columns = batch.columns.iter().zip(table.schema().columns());
                        rows.extend(columns.map(|(array, column)| {
                            let of = |array: &ArrayRef| value(&**array, column.data_type, row);
                            array.as_ref().map_or(Value::Null, of)
                        }));
                    }
                    tx.insert(table, &rows)?;
                    count += (last - first) as u64;
                }
            }
            Ok(count)
        })
    }
}
