//! The tables of a database by name, as transactions and programs find them.
//!
//! A catalog never changes; a definition makes a new one. Handles of an older catalog stay usable
//! as long as their table has the same version (`USE-2`).

use std::collections::{BTreeMap, HashMap};

use crate::table::Table;

/// See the module.
#[derive(Default, Clone)]
pub(crate) struct Catalog {
    /// By number, which is the order of creation.
    tables: BTreeMap<u64, Table>,
    names: HashMap<String, u64>,
}

impl Catalog {
    /// A table by name.
    pub(crate) fn table(&self, name: &str) -> Option<&Table> {
        self.tables.get(self.names.get(name)?)
    }

    /// All tables, in the order of creation.
    pub(crate) fn tables(&self) -> impl Iterator<Item = &Table> {
        self.tables.values()
    }

    /// Adds a table with a name that no other has.
    pub(crate) fn add(&mut self, table: Table) {
        let number = table.lock.number();
        self.names.insert(table.name().to_owned(), number);
        self.tables.insert(number, table);
    }

    /// Removes a table.
    pub(crate) fn remove(&mut self, table: &Table) {
        self.tables.remove(&table.lock.number());
        self.names.remove(table.name());
    }
}
