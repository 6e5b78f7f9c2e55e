//! LMDB through heed: one B+ tree in a memory map, one writer at a time, readers on snapshots.
//!
//! Configured as <http://www.lmdb.tech/doc/group__mdb.html#ga32a193c6bf4d7d5c5d579e71f22e9340>
//! (`mdb_env_open`) describes for speed without durability: a writable map without `fsync`, on a
//! file system in memory. Keys are native integers, for which
//! <https://docs.rs/heed/0.23/heed/enum.IntegerComparator.html> is intended; rows are loaded in key
//! order with `APPEND`, as `mdb_put` recommends. `mdb_txn_begin` advises to declare read-only
//! transactions: they never wait.

use std::convert::Infallible;
use std::path::Path;

use heed::byteorder::NativeEndian;
use heed::types::{Bytes, U64};
use heed::{CommitOrAbort, Database, Env, EnvFlags, EnvOpenOptions, IntegerComparator, PutFlags};

use crate::engine::{
    Access, Body, Client, Column, Engine, PeerError, copy_column, loaded_row, updated,
};
use crate::folder::Folder;

type Table = Database<'static, U64<NativeEndian>, Bytes, IntegerComparator>;

/// Address space for a row: its share of a page (four rows in 4 KiB), as much again for the copies
/// that writers make, and a reserve; in whole pages, which the map requires.
const MAP_BYTES_PER_ROW: u64 = 4096;
const MAP_BYTES_LEAST: u64 = 1 << 30;

/// The environment with its one table.
pub struct Lmdb {
    // Dropped before the folder: the map is closed before its files are removed.
    env: Env,
    table: Table,
    _folder: Folder,
}

impl Lmdb {
    /// Creates and fills the table in a folder below `dir`.
    ///
    /// # Errors
    /// [`PeerError`].
    pub fn open(dir: &Path, rows: u64) -> Result<Self, PeerError> {
        let folder = Folder::new(dir)?;
        let map_size = MAP_BYTES_LEAST + rows * MAP_BYTES_PER_ROW;
        let mut options = EnvOpenOptions::new();
        options.map_size(map_size as usize);
        let fast = EnvFlags::WRITE_MAP | EnvFlags::NO_SYNC | EnvFlags::NO_META_SYNC;
        // SAFETY: the folder is new and private to this value, so no other process changes or maps
        // the file, and the data need not survive a crash.
        let env = unsafe {
            options.flags(fast);
            options.open(folder.path())?
        };
        let table: Table = env
            .create_databases_and_commit(env.write_txn()?, |opener, txn| {
                let options = opener.database_options().types::<U64<NativeEndian>, Bytes>();
                let table = options.key_comparator::<IntegerComparator>().create(txn);
                table.map(CommitOrAbort::<_, Infallible>::Commit)
            })?
            .unwrap_commit();
        let mut txn = env.write_txn()?;
        for key in 0..rows {
            table.put_with_flags(&mut txn, PutFlags::APPEND, &key, &loaded_row(key))?;
        }
        txn.commit()?;
        Ok(Self { env, table, _folder: folder })
    }
}

impl Engine for Lmdb {
    fn version(&self) -> String {
        let version = heed::lmdb_version();
        format!("LMDB {}.{}.{}", version.major, version.minor, version.patch)
    }

    fn isolation(&self) -> &'static str {
        "serializable: one writer at a time, transactions that only read see a snapshot"
    }

    fn with_client(&self, body: Body<'_>) -> Result<(), PeerError> {
        body(&mut LmdbClient { lmdb: self })
    }
}

struct LmdbClient<'e> {
    lmdb: &'e Lmdb,
}

impl Client for LmdbClient<'_> {
    fn transaction(&mut self, accesses: &[Access], read: &mut Column) -> Result<u64, PeerError> {
        let Lmdb { env, table, .. } = self.lmdb;
        if accesses.iter().all(|access| access.update.is_none()) {
            let txn = env.read_txn()?;
            for Access { key, column, .. } in accesses {
                let row = table.get(&txn, key)?.ok_or(PeerError::RowMissing { key: *key })?;
                copy_column(row, *column, read)?;
            }
            return Ok(0);
        }
        let mut txn = env.write_txn()?;
        for Access { key, column, update } in accesses {
            let row = table.get(&txn, key)?.ok_or(PeerError::RowMissing { key: *key })?;
            match update {
                None => copy_column(row, *column, read)?,
                Some(byte) => {
                    let row = updated(row, *column, *byte)?;
                    table.put(&mut txn, key, &row)?;
                }
            }
        }
        txn.commit()?;
        Ok(0)
    }
}
