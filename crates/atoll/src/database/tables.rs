//! The tables of a database.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use atoll_storage::{Schema, StorageError};
use atoll_txn::TableOptions;

use super::Database;
use crate::catalog::Catalog;
use crate::error::{Error, Result};
use crate::table::Table;

impl Database {
    /// Creates a table at once, outside any transaction.
    ///
    /// # Errors
    /// [`Error::Storage`] for a name that exists or is invalid; [`Error::Memory`].
    pub fn create_table(&self, name: &str, schema: Schema) -> Result<Table> {
        self.create_table_with(name, schema, &TableOptions::default())
    }

    /// Creates a table with ordered indexes, or in a tablespace, at once, outside any transaction.
    ///
    /// # Errors
    /// As [`Database::create_table`]; [`Error::Log`] for a tablespace that does not exist.
    pub fn create_table_with(
        &self,
        name: &str,
        schema: Schema,
        options: &TableOptions,
    ) -> Result<Table> {
        let table = self.new_transaction()?.create_at_once(name, schema, options)?;
        self.acknowledge_definition()?;
        Ok(table)
    }

    /// Drops one of the database's own tables, when the transactions that use it have ended. Its
    /// name is free then. Snapshots that show the table keep what they show; the rest of its memory
    /// is free after some milliseconds. Handles of the table are useless.
    ///
    /// # Errors
    /// As [`Database::table`]; [`Error::Memory`], [`Error::Log`].
    pub fn drop_table(&self, name: &str) -> Result<()> {
        let table = self.table(name)?;
        self.new_transaction()?.drop_at_once(&table)?;
        self.acknowledge_definition()
    }

    fn acknowledge_definition(&self) -> Result<()> {
        match self.0.core.acknowledger.get() {
            Some(acknowledger) => acknowledger.acknowledge_all(),
            None => Ok(()),
        }
    }

    /// One of the database's own tables by name, which can be changed.
    ///
    /// # Errors
    /// [`Error::Storage`] when there is none; [`Error::InheritedTable`] for a table of a snapshot
    /// that the database is built on.
    pub fn table(&self, name: &str) -> Result<Table> {
        if let Some(table) = self.owned()?.catalog().table(name) {
            return Ok(table.clone());
        }
        let is_inherited = self.bases().iter().any(|base| base.table(name).is_ok());
        Err(match is_inherited {
            true => Error::InheritedTable(name.to_owned()),
            false => StorageError::UnknownTable(name.to_owned()).into(),
        })
    }

    /// The tables as they are now.
    ///
    /// # Errors
    /// [`Error::ForkedChild`].
    pub fn catalog(&self) -> Result<Arc<Catalog>> {
        self.owned().map(|core| core.catalog())
    }

    /// The names of the database's own tables in the order of creation.
    pub fn tables(&self) -> Vec<String> {
        let Ok(core) = self.owned() else { return Vec::new() };
        core.catalog().tables().map(|table| table.name().to_owned()).collect()
    }

    /// The version of its catalog: as long as it stays the same, every name means the same. No
    /// other database of this process has the same.
    pub fn catalog_version(&self) -> u64 {
        self.0.core.catalog_version.load(Ordering::Acquire)
    }
}
