//! What a peer has to do: run transactions of a few accesses to rows of ten columns.
//!
//! An access reads one column (its 100 bytes are copied out) or updates one. Keys may repeat within
//! a transaction. Whatever a peer does to make a transaction atomic, it commits in the end: a
//! conflict is counted and the transaction is run again.

use atoll_bench::keys::Random;

/// Columns of a row beside its key.
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

/// What one thread does with a peer.
pub trait Client {
    /// Runs the accesses as one transaction until it has committed. The column read last is left in
    /// `read`.
    ///
    /// Gives the number of attempts that a conflict rolled back.
    ///
    /// # Errors
    /// [`PeerError`], when the peer fails otherwise or a row is missing.
    fn transaction(&mut self, accesses: &[Access], read: &mut Column) -> Result<u64, PeerError>;
}

/// What the body of [`Engine::with_client`] is.
pub type Body<'b> = &'b mut dyn FnMut(&mut dyn Client) -> Result<(), PeerError>;

/// A peer with its table filled.
pub trait Engine: Sync {
    /// Name and version of the library.
    fn version(&self) -> String;

    /// What concurrent transactions can see of each other, in one line.
    fn isolation(&self) -> &'static str;

    /// Runs `body` with a client for the calling thread.
    ///
    /// # Errors
    /// Those of `body`, and [`PeerError`] when there can be no client.
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

/// Why a peer gave no figure.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PeerError {
    /// SQLite.
    #[error("sqlite failed: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// LMDB.
    #[error("lmdb failed: {0}")]
    Lmdb(#[from] heed::Error),
    /// RocksDB.
    #[cfg(feature = "rocksdb")]
    #[error("rocksdb failed: {0}")]
    RocksDb(#[from] rocksdb::Error),
    /// redb.
    #[error("redb failed: {0}")]
    Redb(#[from] redb::Error),
    /// A row that was loaded is not there.
    #[error("row {key} is missing, though it was loaded")]
    RowMissing {
        /// Its key.
        key: u64,
    },
    /// A row is not what was loaded.
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
    /// What the peer holds afterwards is not what its clients were told.
    #[error("{0}")]
    Inconsistent(String),
    /// The probe of the medium.
    #[error(transparent)]
    Probe(#[from] atoll_bench::BenchError),
    /// An argument that makes no sense.
    #[error("{what} is {value}, but {need}")]
    Argument {
        /// The argument.
        what: &'static str,
        /// What was given.
        value: String,
        /// What it must be.
        need: &'static str,
    },
    /// A folder for the peer's files.
    #[error("cannot make the folder {path}: {source}; choose another by --dir or --data")]
    Folder {
        /// Where.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// A thread ended by a panic.
    #[error("a client thread panicked; its message is above")]
    Panicked,
}
