//! RocksDB with its log, flushed for each commit, with either of its two kinds of transactions.
//!
//! `WriteOptions::sync`: <https://github.com/facebook/rocksdb/wiki/WAL-Performance>. Concurrent
//! commits of several threads are written and flushed together. That page also advises to recycle
//! logs, so that a flush overwrites allocated blocks; version 7.8 resets `recycle_log_file_num` to
//! 0 in every recovery mode that keeps what was committed
//! (<https://github.com/facebook/rocksdb/pull/6351>), so it is not set. The other settings are
//! those of the module `rocks`.
//!
//! Rows are read by `GetForUpdate`. A locking transaction keeps its locks until its commit is
//! durable; an optimistic one validates at commit, and transactions that change the same row pass
//! through that one by one as well.

use std::path::Path;

use rocksdb::{Direction, IteratorMode, ReadOptions, WriteOptions};

use super::bank::{Key, Shape, Table, Transaction, added, balance};
use super::{Body, Client, Engine, Scan};
use crate::engine::PeerError;
use crate::rocks::{Store, is_conflict, settings};

const KEY_BYTES: usize = 9;
const LOAD_ROWS: usize = 1000;

/// The number of the table, then the key in big-endian bytes, so that the byte order is the key
/// order.
fn bytes_of(table: Table, key: Key) -> [u8; KEY_BYTES] {
    let mut bytes = [table as u8; KEY_BYTES];
    bytes[1..].copy_from_slice(&key.0.to_be_bytes());
    bytes
}

/// The database; one table holds the rows of all.
pub struct Rocks<D> {
    store: D,
}

impl<D: Store> Rocks<D> {
    /// Opens the database in `folder`, or creates it.
    ///
    /// # Errors
    /// [`PeerError`].
    pub fn open(folder: &Path, shape: Shape) -> Result<Self, PeerError> {
        Ok(Self { store: D::open_store(&settings(shape.rows()), folder)? })
    }

    /// Fills the tables.
    ///
    /// # Errors
    /// [`PeerError`].
    pub fn load(&self, shape: Shape) -> Result<(), PeerError> {
        for table in shape.tables() {
            let row = shape.loaded_row(*table);
            let mut keys = shape.keys(*table).peekable();
            while keys.peek().is_some() {
                let txn = self.store.begin(&WriteOptions::default());
                for key in keys.by_ref().take(LOAD_ROWS) {
                    txn.put(bytes_of(*table, key), &row)?;
                }
                txn.commit()?;
            }
        }
        Ok(())
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
        let mut writes = WriteOptions::default();
        writes.set_sync(true);
        body(&mut RocksClient { store: &self.store, writes, reads: ReadOptions::default() })
    }

    fn scan(&self, table: Table, each: Scan<'_>) -> Result<(), PeerError> {
        let txn = self.store.begin(&WriteOptions::default());
        let first = bytes_of(table, Key(0));
        for row in txn.iterator(IteratorMode::From(&first, Direction::Forward)) {
            let (bytes, row) = row?;
            let Some((number, key)) = bytes.split_first() else { continue };
            if *number != table as u8 {
                break;
            }
            let key = key.try_into().map_err(|_| PeerError::RowLength { found: bytes.len() })?;
            each(Key(u64::from_be_bytes(key)), balance(&row)?);
        }
        Ok(())
    }
}

struct RocksClient<'e, D> {
    store: &'e D,
    writes: WriteOptions,
    reads: ReadOptions,
}

impl<D: Store> RocksClient<'_, D> {
    /// Runs the transaction once; dropping it rolls it back.
    fn attempt(&self, transaction: &Transaction) -> Result<(), PeerError> {
        let Transaction { delta, adds, entry } = transaction;
        let txn = self.store.begin(&self.writes);
        for add in adds {
            let bytes = bytes_of(add.table, add.key);
            let row = txn.get_pinned_for_update_opt(bytes, true, &self.reads)?;
            let row = row.ok_or(PeerError::RowMissing { key: add.key.0 })?;
            txn.put(bytes, added(&row, *delta)?)?;
        }
        if let Some(entry) = entry {
            txn.put(bytes_of(Table::History, entry.key), entry.row(*delta))?;
        }
        Ok(txn.commit()?)
    }
}

impl<D: Store> Client for RocksClient<'_, D> {
    fn commit(&mut self, transaction: &Transaction) -> Result<u64, PeerError> {
        let mut aborts = 0;
        loop {
            match self.attempt(transaction) {
                Err(PeerError::RocksDb(error)) if is_conflict(&error) => {
                    aborts += 1;
                    std::thread::yield_now();
                }
                done => return done.map(|()| aborts),
            }
        }
    }
}
