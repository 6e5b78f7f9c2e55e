//! The interface of a peer: transactions of a few accesses to rows of ten columns.
//!
//! An access reads one column (its 100 bytes are copied) or updates one. Keys may repeat within a
//! transaction. Every transaction commits in the end: a conflict is counted and the transaction is
//! retried.

use atoll_bench::keys::Random;

/// Columns of a row other than its key.
pub const COLUMNS: usize = 10;
/// Bytes of each.
pub const COLUMN_BYTES: usize = 100;
/// Bytes of a row without its key.
pub const ROW_BYTES: usize = COLUMNS * COLUMN_BYTES;

/// The bytes of one column.
pub type Column = [u8; COLUMN_BYTES];

/// One access of a transaction.
#[derive(Debug, Clone, Copy)]
pub struct Access {
    /// The row.
    pub key: u64,
    /// The column, below [`COLUMNS`].
    pub column: usize,
    /// The byte that fills the column from now on; `None` for a read.
    pub update: Option<u8>,
}

/// The part of one thread.
pub trait Client {
    /// Runs the accesses as one transaction until it has committed. The column read last is left in
    /// `read`.
    ///
    /// Returns the number of attempts that a conflict rolled back.
    ///
    /// # Errors
    /// [`PeerError`] for any other failure of the peer, or when a row is missing.
    fn transaction(&mut self, accesses: &[Access], read: &mut Column) -> Result<u64, PeerError>;
}

/// The body of [`Engine::with_client`].
pub type Body<'b> = &'b mut dyn FnMut(&mut dyn Client) -> Result<(), PeerError>;

/// A peer with its table filled.
pub trait Engine: Sync {
    /// Name and version of the library.
    fn version(&self) -> String;

    /// The isolation of concurrent transactions, in one line.
    fn isolation(&self) -> &'static str;

    /// Runs `body` with a client for the calling thread.
    ///
    /// # Errors
    /// Those of `body`, and [`PeerError`] when no client can be made.
    fn with_client(&self, body: Body<'_>) -> Result<(), PeerError>;
}

/// The bytes of the row `key` after loading: the same in every peer and every run.
pub fn loaded_row(key: u64) -> [u8; ROW_BYTES] {
    let mut random = Random::new(key);
    let mut row = [0; ROW_BYTES];
    for word in row.chunks_mut(8) {
        word.copy_from_slice(&random.word().to_le_bytes()[..word.len()]);
    }
    row
}

/// Copies column `column` out of a row.
///
/// # Errors
/// [`PeerError::RowLength`] for a row of another length.
pub fn copy_column(row: &[u8], column: usize, into: &mut Column) -> Result<(), PeerError> {
    let from = column * COLUMN_BYTES;
    let bytes = row.get(from..from + COLUMN_BYTES);
    into.copy_from_slice(bytes.ok_or(PeerError::RowLength { found: row.len() })?);
    Ok(())
}

/// The row with column `column` filled by `byte`.
///
/// # Errors
/// [`PeerError::RowLength`] for a row of another length.
pub fn updated(row: &[u8], column: usize, byte: u8) -> Result<[u8; ROW_BYTES], PeerError> {
    let mut row: [u8; ROW_BYTES] =
        row.try_into().map_err(|_| PeerError::RowLength { found: row.len() })?;
    row[column * COLUMN_BYTES..][..COLUMN_BYTES].fill(byte);
    Ok(row)
}

/// The reason why a peer has no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PeerError {
    /// An error of SQLite.
    #[error("sqlite failed: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// An error of LMDB.
    #[error("lmdb failed: {0}")]
    Lmdb(#[from] heed::Error),
    /// An error of RocksDB.
    #[cfg(feature = "rocksdb")]
    #[error("rocksdb failed: {0}")]
    RocksDb(#[from] rocksdb::Error),
    /// An error of redb.
    #[error("redb failed: {0}")]
    Redb(#[from] redb::Error),
    /// A row that was loaded is missing.
    #[error("row {key} is missing, though it was loaded")]
    RowMissing {
        /// Its key.
        key: u64,
    },
    /// A row has another length than loaded.
    #[error("a row has {found} bytes in place of 1000")]
    RowLength {
        /// Its length.
        found: usize,
    },
    /// A row of the durable workloads has no balance.
    #[error("a row of {found} bytes is too short for a balance")]
    NoBalance {
        /// Its length.
        found: usize,
    },
    /// The final contents do not agree with the commits that were acknowledged.
    #[error("{0}")]
    Inconsistent(String),
    /// An error of PostgreSQL.
    #[error("postgresql failed: {0}")]
    Postgres(#[from] postgres::Error),
    /// A SQL statement failed.
    #[error(transparent)]
    Statement(#[from] atoll_bench::sql::Failure),
    /// An error of a part of the benchmark.
    #[error(transparent)]
    Bench(#[from] atoll_bench::BenchError),
    /// An argument is out of range.
    #[error("{what} is {value}, but {need}")]
    Argument {
        /// The argument.
        what: &'static str,
        /// The value given.
        value: String,
        /// The requirement.
        need: &'static str,
    },
    /// The folder for the peer's files could not be made.
    #[error("cannot make the folder {path}: {source}; choose another by --dir or --data")]
    Folder {
        /// Its path.
        path: String,
        /// The cause.
        source: std::io::Error,
    },
    /// A thread panicked.
    #[error("a client thread panicked; its message is above")]
    Panicked,
}
