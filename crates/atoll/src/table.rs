//! Handles of tables and of their indexes.

use std::sync::Arc;

use atoll_machine::Native;
use atoll_machine::fork::Here;
use atoll_storage::{Schema, Value};
use atoll_txn::TableOptions;

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::table_locks::TableLock;

/// An ordered index of a table; cheap to clone.
#[derive(Clone)]
pub struct Index {
    pub(crate) table: Table,
    pub(crate) number: usize,
}

impl Index {
    /// Its table.
    pub fn table(&self) -> &Table {
        &self.table
    }
}

/// A table of a database; cheap to clone.
#[derive(Clone)]
pub struct Table {
    pub(crate) core: Arc<atoll_storage::Table<Native>>,
    /// In a forked child, dropping this never frees the parent's engine.
    pub(crate) engine: Here<Engine>,
    pub(crate) lock: Arc<TableLock>,
    /// The version of the table that this handle is for.
    pub(crate) version: u64,
    /// Kept here, since the engine knows nothing of a table that was dropped: a caller must not
    /// take it for one without indexes before it learns that.
    options: Arc<TableOptions>,
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Table {}", self.name())
    }
}

impl Table {
    /// A handle of a table as it is now.
    pub(crate) fn new(core: Arc<atoll_storage::Table<Native>>, engine: &Engine) -> Self {
        let lock = TableLock::new();
        let version = lock.version();
        let options = Arc::new(engine.table_options(&core));
        Self { core, engine: Here::new(Arc::clone(engine)), lock, version, options }
    }

    /// Whether both are handles of one table.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.lock.number() == other.lock.number()
    }

    /// Identifies the table in this version, while it lives.
    #[inline]
    pub(crate) fn address(&self) -> usize {
        Arc::as_ptr(&self.core).addr()
    }

    /// The number that tells it from every other table that the database has had.
    pub fn serial(&self) -> u64 {
        self.core.serial().0
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.core.name()
    }

    /// Its columns and primary key.
    pub fn schema(&self) -> &Schema {
        self.core.schema()
    }

    /// Number of rows at some moment during the call, including uncommitted ones.
    pub fn row_count(&self) -> u64 {
        self.core.row_count()
    }

    /// Whether it has more rows than this; cheaper than their number where it has many.
    pub fn has_more_rows_than(&self, rows: u64) -> bool {
        self.core.row_count_up_to(rows.saturating_add(1)) > rows
    }

    /// An ordered index by name.
    ///
    /// # Errors
    /// [`Error::Transaction`] when there is none.
    pub fn index(&self, name: &str) -> Result<Index> {
        let number = self.engine.index(&self.core, name).map_err(Error::of_op)?;
        Ok(Index { table: self.clone(), number })
    }

    /// Its ordered indexes.
    pub fn indexes(&self) -> Vec<atoll_txn::IndexSpec> {
        self.options.indexes.clone()
    }

    /// Number of its tablespace.
    pub fn tablespace(&self) -> u32 {
        self.options.tablespace.unwrap_or(0)
    }

    /// Gives so many new rows of a table without a primary key their numbers
    /// ([`ROW_NUMBER`](crate::ROW_NUMBER)), and returns the first.
    pub fn number_rows(&self, count: usize) -> i64 {
        self.core.number_rows(count as u64)
    }

    /// Completes rows that are given as consecutive values: those of a table without a primary key
    /// get numbers, where they have none.
    pub fn number_in(&self, rows: &mut [Value]) {
        let width = self.schema().columns().len();
        if !self.schema().is_keyless() || rows.is_empty() || !rows.len().is_multiple_of(width) {
            return;
        }
        let first = self.number_rows(rows.len() / width);
        self.number_from(rows, first);
    }

    /// As [`Table::number_in`], with numbers that were given before, the first of which is this.
    pub fn number_from(&self, rows: &mut [Value], first: i64) {
        let width = self.schema().columns().len();
        let numbers = first..;
        for (row, number) in rows.chunks_mut(width).zip(numbers) {
            if let [.., last @ Value::Null] = row {
                *last = Value::Int64(number);
            }
        }
    }

    /// The partition of a key, by the key's first column. Only a scheme with partitions uses it.
    pub fn partition(&self, key: &[Value]) -> u32 {
        self.engine.partition(key)
    }
}
