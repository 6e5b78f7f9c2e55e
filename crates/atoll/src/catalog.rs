//! The tables of a database by name, and the objects that are no tables, such as views.
//!
//! An object is kept as a table of a kind of its own ([`Schema::object`](crate::Schema::object)),
//! so all that is said of definitions of tables holds for it. Both share their names.
//!
//! A catalog never changes; a definition makes a new one. Handles of an older catalog stay usable
//! as long as their table has the same version (`USE-2`).

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::table::Table;

/// The tables of a database at some moment, or as a transaction sees them.
#[derive(Clone)]
pub struct Catalog {
    /// By number, which is the order of creation.
    tables: BTreeMap<u64, Table>,
    names: HashMap<String, u64>,
    version: u64,
}

impl std::fmt::Debug for Catalog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.tables()).finish()
    }
}

impl Default for Catalog {
    fn default() -> Self {
        Self { tables: BTreeMap::new(), names: HashMap::new(), version: new_version() }
    }
}

fn new_version() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl Catalog {
    /// A number that no other catalog of this process has had: names mean the same as long as it
    /// stays the same.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// A table by name.
    pub fn table(&self, name: &str) -> Option<&Table> {
        self.get(name).filter(|table| !is_object(table))
    }

    /// All tables, in the order of creation.
    pub fn tables(&self) -> impl Iterator<Item = &Table> {
        self.tables.values().filter(|table| !is_object(table))
    }

    /// An object that is no table, by name.
    pub fn object(&self, name: &str) -> Option<&Table> {
        self.get(name).filter(|table| is_object(table))
    }

    /// All objects that are no tables, in the order of creation.
    pub fn objects(&self) -> impl Iterator<Item = &Table> {
        self.tables.values().filter(|table| is_object(table))
    }

    /// A table, or an object of another kind.
    pub fn get(&self, name: &str) -> Option<&Table> {
        self.tables.get(self.names.get(name)?)
    }

    /// Adds a table with a name that no other has.
    pub(crate) fn add(&mut self, table: Table) {
        let number = table.lock.number();
        self.names.insert(table.name().to_owned(), number);
        self.tables.insert(number, table);
        self.version = new_version();
    }

    /// Removes a table.
    pub(crate) fn remove(&mut self, table: &Table) {
        let number = table.lock.number();
        self.tables.remove(&number);
        // Another one may have the name by now.
        if self.names.get(table.name()) == Some(&number) {
            self.names.remove(table.name());
        }
        self.version = new_version();
    }
}

fn is_object(table: &Table) -> bool {
    table.schema().object().is_some()
}
