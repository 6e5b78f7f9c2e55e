//! redb in a file with its default commits: durable when they return.
//!
//! <https://docs.rs/redb/4/redb/enum.Durability.html>, `Immediate`, with one-phase commits and
//! checksums, which `WriteTransaction::set_two_phase_commit` recommends unless an attacker may
//! choose the data. There is one writer at a time, and no commit shares its flush with another. The
//! cache (<https://docs.rs/redb/4/redb/struct.Builder.html>) holds all tables.

use std::path::Path;

use redb::{Database, Durability, ReadableDatabase, ReadableTable, TableDefinition};

use super::bank::{Key, Shape, Table, Transaction, added, balance};
use super::{Body, Client, Engine, Scan};
use crate::engine::PeerError;

const CACHE_BYTES_PER_ROW: usize = 512;
const CACHE_BYTES_LEAST: usize = 256 << 20;

fn definition(table: Table) -> TableDefinition<'static, u64, &'static [u8]> {
    TableDefinition::new(table.name())
}

/// The database with its tables.
pub struct Redb {
    database: Database,
}

impl Redb {
    /// Opens the file in `folder`, or creates it.
    ///
    /// # Errors
    /// [`PeerError`].
    pub fn open(folder: &Path, shape: Shape) -> Result<Self, PeerError> {
        let cache = CACHE_BYTES_LEAST + shape.rows() as usize * CACHE_BYTES_PER_ROW;
        let mut builder = Database::builder();
        let made = builder.set_cache_size(cache).create(folder.join("bank.redb"));
        Ok(Self { database: made.map_err(redb::Error::from)? })
    }

    /// Creates and fills the tables.
    ///
    /// # Errors
    /// [`PeerError`].
    pub fn load(&self, shape: Shape) -> Result<(), PeerError> {
        let txn = self.database.begin_write().map_err(redb::Error::from)?;
        for table in shape.tables() {
            let row = shape.loaded_row(*table);
            let mut rows = txn.open_table(definition(*table)).map_err(redb::Error::from)?;
            for key in shape.keys(*table) {
                rows.insert(key.0, row.as_slice()).map_err(redb::Error::from)?;
            }
        }
        Ok(txn.commit().map_err(redb::Error::from)?)
    }
}

impl Engine for Redb {
    fn version(&self) -> String {
        "redb 4".to_owned()
    }

    fn isolation(&self) -> &'static str {
        "serializable: one writer at a time"
    }

    fn with_client(&self, body: Body<'_>) -> Result<(), PeerError> {
        body(&mut RedbClient { database: &self.database })
    }

    fn scan(&self, table: Table, each: Scan<'_>) -> Result<(), PeerError> {
        let txn = self.database.begin_read().map_err(redb::Error::from)?;
        let rows = txn.open_table(definition(table)).map_err(redb::Error::from)?;
        for row in rows.iter().map_err(redb::Error::from)? {
            let (key, row) = row.map_err(redb::Error::from)?;
            each(Key(key.value()), balance(row.value())?);
        }
        Ok(())
    }
}

struct RedbClient<'e> {
    database: &'e Database,
}

impl Client for RedbClient<'_> {
    fn commit(&mut self, transaction: &Transaction) -> Result<u64, PeerError> {
        let Transaction { delta, adds, entry } = transaction;
        let mut txn = self.database.begin_write().map_err(redb::Error::from)?;
        txn.set_durability(Durability::Immediate).map_err(redb::Error::from)?;
        for add in adds {
            let key = add.key.0;
            let mut rows = txn.open_table(definition(add.table)).map_err(redb::Error::from)?;
            let row = rows.get_mut(key).map_err(redb::Error::from)?;
            let mut row = row.ok_or(PeerError::RowMissing { key })?;
            let changed = added(row.value(), *delta)?;
            row.insert(changed.as_slice()).map_err(redb::Error::from)?;
        }
        if let Some(entry) = entry {
            let history = definition(Table::History);
            let mut rows = txn.open_table(history).map_err(redb::Error::from)?;
            let row = entry.row(*delta);
            rows.insert(entry.key.0, row.as_slice()).map_err(redb::Error::from)?;
        }
        txn.commit().map_err(redb::Error::from)?;
        Ok(0)
    }
}
