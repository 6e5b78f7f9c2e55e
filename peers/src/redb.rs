//! redb with its table in memory: one writer at a time, readers on snapshots, written in Rust.
//!
//! Configured as <https://docs.rs/redb/4/redb/backends/struct.InMemoryBackend.html> and
//! <https://docs.rs/redb/4/redb/enum.Durability.html> describe: an in-memory backend, and commits
//! that need not survive the process. Values have a fixed size (`&[u8; 1000]`), so that redb stores
//! no lengths, and an update uses `Table::get_mut`, one lookup for both halves. The cache
//! (<https://docs.rs/redb/4/redb/struct.Builder.html>) holds the whole table, so pages are not
//! copied from the backend again.

use redb::backends::InMemoryBackend;
use redb::{Database, Durability, ReadableDatabase, ReadableTable, TableDefinition};

use crate::engine::{
    Access, Body, Client, Column, Engine, PeerError, ROW_BYTES, copy_column, loaded_row, updated,
};

const TABLE: TableDefinition<'_, u64, &[u8; ROW_BYTES]> = TableDefinition::new("rows");
const CACHE_BYTES_PER_ROW: usize = 1536;
const CACHE_BYTES_LEAST: usize = 256 << 20;
/// Rows of one loading transaction: the pages that it has changed are in memory twice.
const LOAD_ROWS: u64 = 100_000;

/// The database with its one table.
pub struct Redb {
    database: Database,
}

impl Redb {
    /// Creates and fills the table.
    ///
    /// # Errors
    /// [`PeerError`].
    pub fn open(rows: u64) -> Result<Self, PeerError> {
        Ok(Self { database: load(rows)? })
    }
}

fn load(rows: u64) -> Result<Database, redb::Error> {
    let database = Database::builder()
        .set_cache_size(CACHE_BYTES_LEAST + rows as usize * CACHE_BYTES_PER_ROW)
        .create_with_backend(InMemoryBackend::new())?;
    for from in (0..rows).step_by(LOAD_ROWS as usize) {
        let txn = database.begin_write()?;
        {
            let mut table = txn.open_table(TABLE)?;
            for key in from..rows.min(from + LOAD_ROWS) {
                table.insert(key, &loaded_row(key))?;
            }
        }
        txn.commit()?;
    }
    Ok(database)
}

impl Engine for Redb {
    fn version(&self) -> String {
        "redb 4".to_owned()
    }

    fn isolation(&self) -> &'static str {
        "serializable: one writer at a time, transactions that only read see a snapshot"
    }

    fn with_client(&self, body: Body<'_>) -> Result<(), PeerError> {
        body(&mut RedbClient { database: &self.database })
    }
}

struct RedbClient<'e> {
    database: &'e Database,
}

impl RedbClient<'_> {
    fn read_only(&self, accesses: &[Access], read: &mut Column) -> Result<(), PeerError> {
        let txn = self.database.begin_read().map_err(redb::Error::from)?;
        let table = txn.open_table(TABLE).map_err(redb::Error::from)?;
        for Access { key, column, .. } in accesses {
            let row = table.get(key).map_err(redb::Error::from)?;
            let row = row.ok_or(PeerError::RowMissing { key: *key })?;
            copy_column(row.value(), *column, read)?;
        }
        Ok(())
    }

    fn read_and_write(&self, accesses: &[Access], read: &mut Column) -> Result<(), PeerError> {
        let mut txn = self.database.begin_write().map_err(redb::Error::from)?;
        txn.set_durability(Durability::None).map_err(redb::Error::from)?;
        {
            let mut table = txn.open_table(TABLE).map_err(redb::Error::from)?;
            for Access { key, column, update } in accesses {
                let missing = || PeerError::RowMissing { key: *key };
                let Some(byte) = update else {
                    let row = table.get(key).map_err(redb::Error::from)?;
                    copy_column(row.ok_or_else(missing)?.value(), *column, read)?;
                    continue;
                };
                let row = table.get_mut(key).map_err(redb::Error::from)?;
                let mut row = row.ok_or_else(missing)?;
                let changed = updated(row.value(), *column, *byte)?;
                row.insert(&changed).map_err(redb::Error::from)?;
            }
        }
        txn.commit().map_err(redb::Error::from)?;
        Ok(())
    }
}

impl Client for RedbClient<'_> {
    fn transaction(&mut self, accesses: &[Access], read: &mut Column) -> Result<u64, PeerError> {
        if accesses.iter().all(|access| access.update.is_none()) {
            self.read_only(accesses, read)?;
        } else {
            self.read_and_write(accesses, read)?;
        }
        Ok(0)
    }
}
