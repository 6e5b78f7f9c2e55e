//! Durable transactions: clients that wait until each transaction would survive a crash.
//!
//! The workloads of `atoll bench commit` (changes a balance) and `atoll bench tpcb --data DIR` (a
//! transfer), with their rows, on files below one folder. A client is a thread. Afterwards the
//! tables must contain every commit that was acknowledged to a client, and no other.
//!
//! | module | room for |
//! |---|---|
//! | [`bank`] | tables, rows, transactions |
//! | [`choices`] | what a client does next |
//! | [`check`] | what must hold |
//! | [`report`] | arguments, the run, its figures |
//! | `sqlite`, `lmdb`, `rocks`, `redb` | the peers |

mod bank;
mod check;
mod choices;
mod lmdb;
mod redb;
mod report;
#[cfg(feature = "rocksdb")]
mod rocks;
mod sqlite;
#[cfg(test)]
mod tests;

use std::path::Path;

use clap::ValueEnum;

use self::bank::{Key, Shape, Table, Transaction};
pub use self::report::{CommitArgs, TpcbArgs, commit, tpcb};
use self::sqlite::Sharing;
use crate::engine::PeerError;

/// A database, and how it is used where that is a choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Peer {
    /// SQLite, a connection for each client
    Sqlite,
    /// SQLite, one connection that clients share
    SqliteTurns,
    /// LMDB
    Lmdb,
    /// RocksDB, optimistic transactions
    #[cfg(feature = "rocksdb")]
    Rocksdb,
    /// RocksDB, transactions that lock
    #[cfg(feature = "rocksdb")]
    RocksdbPessimistic,
    /// redb
    Redb,
}

/// The part of one client.
pub trait Client {
    /// Runs a transaction until it has committed and is durable. Returns the number of attempts
    /// that a conflict rolled back.
    ///
    /// # Errors
    /// [`PeerError`] for any other failure of the peer, or when a row is missing; the transaction
    /// has no effect then.
    fn commit(&mut self, transaction: &Transaction) -> Result<u64, PeerError>;
}

/// The body of [`Engine::with_client`].
pub type Body<'b> = &'b mut dyn FnMut(&mut dyn Client) -> Result<(), PeerError>;

/// Called by [`Engine::scan`] for each row: its key, and its balance or, in the history, its
/// change.
pub type Scan<'s> = &'s mut dyn FnMut(Key, i64);

/// A peer with its tables.
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

    /// Reads all rows of a table.
    ///
    /// # Errors
    /// [`PeerError`].
    fn scan(&self, table: Table, each: Scan<'_>) -> Result<(), PeerError>;
}

/// Whether [`open`] creates the tables or finds them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tables {
    /// The folder is empty: the tables are created and filled.
    New,
    /// The tables exist.
    #[cfg(test)]
    There,
}

/// Opens a peer with its files in `folder`, for `clients` clients.
fn open(
    peer: Peer,
    folder: &Path,
    shape: Shape,
    clients: usize,
    tables: Tables,
) -> Result<Box<dyn Engine>, PeerError> {
    let is_new = tables == Tables::New;
    /// Opens a peer, and fills it if it is new.
    macro_rules! filled {
        ($open:expr, |$engine:ident| $load:expr) => {{
            let $engine = $open?;
            if is_new {
                $load?;
            }
            Ok(Box::new($engine))
        }};
    }
    match peer {
        Peer::Sqlite | Peer::SqliteTurns => {
            let sharing = if peer == Peer::Sqlite { Sharing::Connections } else { Sharing::Turns };
            filled!(sqlite::Sqlite::open(sharing, folder, shape, clients), |engine| engine.load())
        }
        Peer::Lmdb => filled!(lmdb::Lmdb::open(folder, shape), |engine| engine.load(shape)),
        #[cfg(feature = "rocksdb")]
        Peer::Rocksdb => filled!(
            rocks::Rocks::<rocksdb::OptimisticTransactionDB>::open(folder, shape),
            |engine| engine.load(shape)
        ),
        #[cfg(feature = "rocksdb")]
        Peer::RocksdbPessimistic => {
            filled!(rocks::Rocks::<rocksdb::TransactionDB>::open(folder, shape), |engine| engine
                .load(shape))
        }
        Peer::Redb => filled!(redb::Redb::open(folder, shape), |engine| engine.load(shape)),
    }
}
