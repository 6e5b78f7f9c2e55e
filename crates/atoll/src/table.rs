//! Handles of tables and of their indexes.

use std::sync::Arc;

use atoll_machine::Native;
use atoll_machine::fork::Here;
use atoll_storage::{Schema, Value};
use atoll_txn::{IndexSpec, OpError, TableOptions};

use crate::counters::TableBytes;
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
    definition: Arc<Definition>,
}

/// The definition of a table that a handle is for. Kept in the handle, since the engine knows
/// nothing of a table that was dropped, and another definition of one that was altered: a caller
/// must not see that before it learns of it.
pub(crate) struct Definition {
    pub(crate) name: String,
    pub(crate) schema: Schema,
    /// The indexes with their numbers.
    pub(crate) indexes: Vec<(usize, IndexSpec)>,
    tablespace: u32,
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
        let TableOptions { indexes, tablespace, .. } = engine.table_options(&core);
        let numbered = indexes.into_iter().filter_map(|spec| {
            let number = engine.index(&core, &spec.name).ok()?;
            Some((number, spec))
        });
        let definition = Definition {
            name: core.name().to_owned(),
            schema: core.schema().clone(),
            indexes: numbered.collect(),
            tablespace: tablespace.unwrap_or(0),
        };
        let (version, definition) = (lock.version(), Arc::new(definition));
        Self { core, engine: Here::new(Arc::clone(engine)), lock, version, definition }
    }

    /// The handle of the same table in its next version.
    pub(crate) fn altered(
        &self,
        (name, schema): (&str, Schema),
        indexes: Vec<(usize, IndexSpec)>,
    ) -> Self {
        let Definition { tablespace, .. } = *self.definition;
        let definition = Definition { name: name.to_owned(), schema, indexes, tablespace };
        let (version, definition) = (TableLock::next_version(), Arc::new(definition));
        Self { version, definition, ..self.clone() }
    }

    pub(crate) fn definition(&self) -> &Definition {
        &self.definition
    }

    /// Whether both are handles of one table.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.lock.number() == other.lock.number()
    }

    /// Whether the table was dropped.
    pub fn is_gone(&self) -> bool {
        self.lock.is_gone()
    }

    /// Identifies the table in this version, while the handle lives.
    #[inline]
    pub(crate) fn address(&self) -> usize {
        Arc::as_ptr(&self.definition).addr()
    }

    /// The number that tells it from every other table that the database has had.
    pub fn serial(&self) -> u64 {
        self.core.serial().0
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.definition.name
    }

    /// Its columns and primary key.
    pub fn schema(&self) -> &Schema {
        &self.definition.schema
    }

    /// Number of rows at some moment during the call, including uncommitted ones.
    pub fn row_count(&self) -> u64 {
        self.core.row_count()
    }

    /// Its memory; nothing if it was dropped. Looks at every page of its row headers and indexes.
    pub fn bytes(&self) -> TableBytes {
        let private = self.engine.resident_bytes_of(&self.core);
        let rows = self.core.bytes();
        TableBytes { rows, headers: private.headers, indexes: private.indexes }
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
        let mut indexes = self.definition.indexes.iter();
        match indexes.find(|(_, spec)| spec.name == name) {
            Some((number, _)) => Ok(Index { table: self.clone(), number: *number }),
            None => {
                let (table, index) = (self.name().to_owned(), name.to_owned());
                Err(Error::of_op(OpError::UnknownIndex { table, index }))
            }
        }
    }

    /// Its ordered indexes.
    pub fn indexes(&self) -> Vec<IndexSpec> {
        self.definition.indexes.iter().map(|(_, spec)| spec.clone()).collect()
    }

    /// Number of its tablespace.
    pub fn tablespace(&self) -> u32 {
        self.definition.tablespace
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
