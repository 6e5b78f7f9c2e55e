//! What a table is created with, beyond its columns.

use atoll_storage::types::COLUMNS_MAX;
use atoll_storage::{Schema, StorageError};

/// The definition of an ordered index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexSpec {
    /// Its name, unique in the table.
    pub name: String,
    /// Names of its columns, in the order by which it sorts rows.
    pub columns: Vec<String>,
    /// Whether no two rows may have the same values in these columns.
    pub unique: bool,
    /// Whether NULL equals NULL for that; otherwise it equals no value.
    pub nulls_not_distinct: bool,
}

impl IndexSpec {
    /// The positions of its columns in a schema.
    ///
    /// # Errors
    /// [`StorageError::Schema`] if this is no index of such a table.
    pub fn positions(&self, schema: &Schema) -> Result<Vec<usize>, StorageError> {
        atoll_storage::types::check_name("index", &self.name)?;
        let mut columns = Vec::new();
        for name in &self.columns {
            let unknown = || {
                let index = &self.name;
                StorageError::Schema(format!("index \"{index}\": there is no column \"{name}\""))
            };
            columns.push(schema.position(name).ok_or_else(unknown)?);
        }
        if columns.is_empty() {
            let message = format!("index \"{}\" has no columns; name at least one", self.name);
            return Err(StorageError::Schema(message));
        }
        if columns.len() > COLUMNS_MAX {
            let message = format!("index \"{}\" has {COLUMNS_MAX} columns at most", self.name);
            return Err(StorageError::Schema(message));
        }
        Ok(columns)
    }
}

/// Options of a new table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TableOptions {
    /// Ordered indexes.
    pub indexes: Vec<IndexSpec>,
    /// The table belongs to every partition: a transaction with any partition may read it, and one
    /// with all partitions may write it.
    pub replicated: bool,
    /// Number of its tablespace; the log of the tablespace records the table's changes. By default,
    /// the engine assigns tablespaces round-robin.
    pub tablespace: Option<u32>,
}
