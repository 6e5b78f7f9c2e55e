//! RocksDB without a log, with either of its two kinds of transactions.
//!
//! Settings: <https://github.com/facebook/rocksdb/wiki/RocksDB-Tuning-Guide> (larger memtables,
//! background jobs) and `OptimizeForPointLookup`, which `rocksdb/options.h` recommends for
//! databases that are accessed by `Get` and `Put` only: Bloom filters and a hash index within
//! blocks, here with a block cache that holds the whole table. No compression, files in memory, and
//! the table in its last level after loading.
//!
//! Transactions: <https://github.com/facebook/rocksdb/wiki/Transactions>. Reads of a transaction
//! that also writes use `GetForUpdate`: optimistic transactions validate those keys at commit,
//! pessimistic ones lock them, shared or exclusive, and detect deadlocks. A read-only transaction
//! reads a snapshot. Together this makes such transactions by key serializable.

use std::path::Path;

use rocksdb::{
    DB, DBAccess, ErrorKind, OptimisticTransactionDB, OptimisticTransactionOptions, Options,
    ReadOptions, Transaction, TransactionDB, TransactionDBOptions, TransactionOptions, WriteBatch,
    WriteOptions,
};

use crate::engine::{
    Access, Body, Client, Column, Engine, PeerError, ROW_BYTES, copy_column, loaded_row, updated,
};
use crate::folder::Folder;

const MEMTABLE_BYTES: usize = 256 << 20;
const MEMTABLES: i32 = 4;
const BACKGROUND_JOBS: i32 = 2;
const CACHE_MIB_LEAST: u64 = 256;
const CACHE_BYTES_PER_ROW: u64 = 1280;
const LOAD_ROWS: u64 = 1000;

/// A kind of transactions that RocksDB has.
pub trait Store: DBAccess + Sync + Sized {
    /// Opens the database in `path`.
    ///
    /// # Errors
    /// RocksDB's.
    fn open_store(options: &Options, path: &Path) -> Result<Self, rocksdb::Error>;

    /// Begins a transaction.
    fn begin(&self, writes: &WriteOptions) -> Transaction<'_, Self>;

    /// Copies columns at one point in time.
    ///
    /// # Errors
    /// RocksDB's, and those of a row that is missing or has another length.
    fn read_snapshot(&self, accesses: &[Access], read: &mut Column) -> Result<(), PeerError>;

    /// The isolation of concurrent transactions.
    const ISOLATION: &'static str;
}

/// `read_snapshot` needs `snapshot` of the concrete type: the two kinds share no trait for it.
macro_rules! read_snapshot {
    () => {
        fn read_snapshot(&self, accesses: &[Access], read: &mut Column) -> Result<(), PeerError> {
            let snapshot = self.snapshot();
            for Access { key, column, .. } in accesses {
                let row = snapshot.get_pinned(key.to_be_bytes())?;
                copy_column(&row.ok_or(PeerError::RowMissing { key: *key })?, *column, read)?;
            }
            Ok(())
        }
    };
}

impl Store for OptimisticTransactionDB {
    fn open_store(options: &Options, path: &Path) -> Result<Self, rocksdb::Error> {
        Self::open(options, path)
    }

    fn begin(&self, writes: &WriteOptions) -> Transaction<'_, Self> {
        self.transaction_opt(writes, &OptimisticTransactionOptions::default())
    }

    read_snapshot!();

    const ISOLATION: &'static str =
        "serializable by key: keys read and written are validated at the commit";
}

impl Store for TransactionDB {
    fn open_store(options: &Options, path: &Path) -> Result<Self, rocksdb::Error> {
        Self::open(options, &TransactionDBOptions::default(), path)
    }

    fn begin(&self, writes: &WriteOptions) -> Transaction<'_, Self> {
        let mut options = TransactionOptions::default();
        options.set_deadlock_detect(true);
        self.transaction_opt(writes, &options)
    }

    read_snapshot!();

    const ISOLATION: &'static str =
        "serializable by key: keys read and written are locked until the commit";
}

/// The database with its one table.
pub struct Rocks<D> {
    // Dropped before the folder: the database is closed before its files are removed.
    store: D,
    _folder: Folder,
}

/// The settings for a table of at most `rows` rows.
pub fn settings(rows: u64) -> Options {
    let mut options = Options::default();
    options.create_if_missing(true);
    options.optimize_for_point_lookup(CACHE_MIB_LEAST + ((rows * CACHE_BYTES_PER_ROW) >> 20));
    options.set_write_buffer_size(MEMTABLE_BYTES);
    options.set_max_write_buffer_number(MEMTABLES);
    options.set_max_background_jobs(BACKGROUND_JOBS);
    options.set_compression_type(rocksdb::DBCompressionType::None);
    options
}

fn without_log() -> WriteOptions {
    let mut writes = WriteOptions::default();
    writes.disable_wal(true);
    writes
}

impl<D: Store> Rocks<D> {
    /// Creates and fills the table in a folder below `dir`.
    ///
    /// # Errors
    /// [`PeerError`].
    pub fn open(dir: &Path, rows: u64) -> Result<Self, PeerError> {
        let folder = Folder::new(dir)?;
        let (options, writes) = (settings(rows), without_log());
        let plain = DB::open(&options, folder.path())?;
        for from in (0..rows).step_by(LOAD_ROWS as usize) {
            let mut batch = WriteBatch::default();
            for key in from..rows.min(from + LOAD_ROWS) {
                batch.put(key.to_be_bytes(), loaded_row(key));
            }
            plain.write_opt(batch, &writes)?;
        }
        plain.flush()?;
        plain.compact_range(None::<&[u8]>, None::<&[u8]>);
        drop(plain);
        Ok(Self { store: D::open_store(&options, folder.path())?, _folder: folder })
    }
}

impl<D: Store> Engine for Rocks<D> {
    fn version(&self) -> String {
        "RocksDB, the library that this program is linked with".to_owned()
    }

    fn isolation(&self) -> &'static str {
        D::ISOLATION
    }

    fn with_client(&self, body: Body<'_>) -> Result<(), PeerError> {
        let (writes, reads) = (without_log(), ReadOptions::default());
        body(&mut RocksClient { store: &self.store, writes, reads })
    }
}

struct RocksClient<'e, D> {
    store: &'e D,
    writes: WriteOptions,
    reads: ReadOptions,
}

impl<D: Store> RocksClient<'_, D> {
    /// Runs the accesses once; dropping the transaction rolls it back.
    fn attempt(&self, accesses: &[Access], read: &mut Column) -> Result<(), PeerError> {
        let txn = self.store.begin(&self.writes);
        for Access { key, column, update } in accesses {
            let bytes = key.to_be_bytes();
            // Two transactions that upgrade shared locks on the same key would deadlock.
            let exclusive = accesses.iter().any(|a| a.key == *key && a.update.is_some());
            let row = txn.get_pinned_for_update_opt(bytes, exclusive, &self.reads)?;
            let row = row.ok_or(PeerError::RowMissing { key: *key })?;
            match update {
                None => copy_column(&row, *column, read)?,
                Some(byte) => {
                    let row: [u8; ROW_BYTES] = updated(&row, *column, *byte)?;
                    txn.put(bytes, row)?;
                }
            }
        }
        Ok(txn.commit()?)
    }
}

impl<D: Store> Client for RocksClient<'_, D> {
    fn transaction(&mut self, accesses: &[Access], read: &mut Column) -> Result<u64, PeerError> {
        if accesses.iter().all(|access| access.update.is_none()) {
            self.store.read_snapshot(accesses, read)?;
            return Ok(0);
        }
        let mut aborts = 0;
        loop {
            match self.attempt(accesses, read) {
                Err(PeerError::RocksDb(error)) if is_conflict(&error) => {
                    aborts += 1;
                    // Lets the other transaction finish: a deadlock is often reported to both at
                    // once.
                    std::thread::yield_now();
                }
                done => return done.map(|()| aborts),
            }
        }
    }
}

/// Whether the error is a conflict with another transaction, so that this one is to be retried.
pub fn is_conflict(error: &rocksdb::Error) -> bool {
    matches!(error.kind(), ErrorKind::Busy | ErrorKind::TimedOut | ErrorKind::TryAgain)
}
