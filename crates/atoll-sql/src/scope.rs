//! What the names of tables mean to a statement: those of the database, or those that its open
//! transaction has created and not dropped.

use std::sync::Arc;

use atoll::{Catalog, Database, Error, Snapshot, StorageError, Table};

use crate::schemas;

/// See the module.
#[derive(Clone)]
pub(crate) struct Scope {
    /// The database.
    pub(crate) db: Database,
    /// The version of the database's catalog, or an earlier one.
    pub(crate) version: u64,
    pub(crate) catalog: Arc<Catalog>,
}

impl Scope {
    /// A database by itself.
    ///
    /// # Errors
    /// [`Error::ForkedChild`].
    pub(crate) fn of(db: &Database) -> Result<Self, Error> {
        let version = db.catalog_version();
        Ok(Self { db: db.clone(), version, catalog: db.catalog()? })
    }

    /// A database as a transaction sees it.
    pub(crate) fn within(db: &Database, version: u64, catalog: Arc<Catalog>) -> Self {
        Self { db: db.clone(), version, catalog }
    }

    /// One of the database's own tables.
    ///
    /// # Errors
    /// As [`Database::table`].
    pub(crate) fn table(&self, name: &str) -> Result<Table, Error> {
        if let Some(table) = self.catalog.table(name) {
            return Ok(table.clone());
        }
        Err(match self.inherited(name) {
            Some(_) => Error::InheritedTable(name.to_owned()),
            None => StorageError::UnknownTable(name.to_owned()).into(),
        })
    }

    /// Whether a table of the database's own, or an object of another kind, has this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.catalog.get(name).is_some() || schemas::is_inherited(self.db.bases(), name)
    }

    /// The name that a relation has in its schema.
    pub(crate) fn bare<'n>(&self, flat: &'n str) -> &'n str {
        schemas::bare(flat, &|name| self.has(name))
    }

    /// The flat name of something beside a relation, in its schema.
    pub(crate) fn beside(&self, relation: &str, name: &str) -> String {
        schemas::beside(relation, name, &|name| self.has(name))
    }

    /// The table that has an index of this flat name.
    pub(crate) fn table_of_index(&self, flat: &str) -> Option<Table> {
        let bare = self.bare(flat);
        let has_index = |table: &&Table| {
            table.indexes().iter().any(|index| index.name == bare)
                && self.beside(table.name(), bare) == flat
        };
        self.catalog.tables().find(has_index).cloned()
    }

    /// The names of the database's own tables, in the order of creation.
    pub(crate) fn tables(&self) -> Vec<String> {
        self.catalog.tables().map(|table| table.name().to_owned()).collect()
    }

    /// A table of a snapshot that the database is built on.
    pub(crate) fn inherited(&self, name: &str) -> Option<atoll::SnapshotTable> {
        if self.catalog.object(name).is_some() {
            return None;
        }
        self.db.bases().iter().find_map(|base: &Snapshot| base.table(name).ok())
    }
}
