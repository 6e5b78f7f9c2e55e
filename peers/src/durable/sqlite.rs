//! SQLite with a write-ahead log that is flushed for each commit.
//!
//! <https://sqlite.org/wal.html> with `synchronous = FULL`
//! (<https://sqlite.org/pragma.html#pragma_synchronous>: in this mode a commit flushes the log) and
//! automatic checkpoints. Tables with a compound key are `WITHOUT ROWID`, as
//! <https://sqlite.org/withoutrowid.html> recommends. A transaction is a writer from the start
//! (`BEGIN IMMEDIATE`), its statements are prepared once, and `RETURNING` returns its balances.
//!
//! There is one writer at a time, and no commit shares its flush with another. Clients have
//! connections of their own and wait for each other in SQLite's busy handler, which sleeps
//! (<https://sqlite.org/c3ref/busy_timeout.html>); or they take turns with one connection, and its
//! cache is never invalidated by others.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, params, params_from_iter};

use super::bank::{Add, Entry, FILLER, HISTORY_FILLER_BYTES, Key, Shape, Table, Transaction};
use super::{Body, Client, Engine, Scan};
use crate::engine::PeerError;
use crate::sqlite::is_conflict;

const CACHE_KIB: u64 = 512 << 10;
const STATEMENTS: usize = 16;
/// Longest wait of a client for others; after that it is counted as a conflict.
const BUSY: Duration = Duration::from_secs(10);

/// The statements of one table.
struct Texts {
    create: &'static str,
    /// The statement of a transaction: it changes a balance (?1 change, ?2 number, ?3 branch), or
    /// inserts a row into the history.
    change: &'static str,
    /// ?1 number, ?2 branch, ?3 filler; not for the history, which is empty at first.
    load: &'static str,
    /// Branch, worker, number, balance.
    scan: &'static str,
}

const ENTER: &str = "INSERT INTO history VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";

fn texts(shape: Shape, table: Table) -> Texts {
    match (shape, table) {
        (Shape::Commit { .. }, _) => Texts {
            create: "CREATE TABLE accounts (id INTEGER PRIMARY KEY, balance INTEGER, filler BLOB)",
            change: "UPDATE accounts SET balance = balance + ?1 WHERE id = ?2 RETURNING balance",
            load: "INSERT INTO accounts VALUES (?1, 0, ?3)",
            scan: "SELECT 0, 0, id, balance FROM accounts",
        },
        (_, Table::Accounts) => Texts {
            create: "CREATE TABLE accounts (a_b_id INTEGER, a_id INTEGER, a_balance INTEGER,
                     a_filler BLOB, PRIMARY KEY (a_b_id, a_id)) WITHOUT ROWID",
            change: "UPDATE accounts SET a_balance = a_balance + ?1 WHERE a_b_id = ?3 AND a_id = ?2
                     RETURNING a_balance",
            load: "INSERT INTO accounts VALUES (?2, ?1, 0, ?3)",
            scan: "SELECT a_b_id, 0, a_id, a_balance FROM accounts",
        },
        (_, Table::Tellers) => Texts {
            create: "CREATE TABLE tellers (t_b_id INTEGER, t_id INTEGER, t_balance INTEGER,
                     t_filler BLOB, PRIMARY KEY (t_b_id, t_id)) WITHOUT ROWID",
            change: "UPDATE tellers SET t_balance = t_balance + ?1 WHERE t_b_id = ?3 AND t_id = ?2
                     RETURNING t_balance",
            load: "INSERT INTO tellers VALUES (?2, ?1, 0, ?3)",
            scan: "SELECT t_b_id, 0, t_id, t_balance FROM tellers",
        },
        (_, Table::Branches) => Texts {
            create: "CREATE TABLE branches (b_id INTEGER PRIMARY KEY, b_balance INTEGER,
                     b_filler BLOB)",
            change: "UPDATE branches SET b_balance = b_balance + ?1 WHERE b_id = ?2
                     RETURNING b_balance",
            load: "INSERT INTO branches VALUES (?1, 0, ?3)",
            scan: "SELECT b_id, 0, b_id, b_balance FROM branches",
        },
        (_, Table::History) => Texts {
            create: "CREATE TABLE history (h_b_id INTEGER, h_worker INTEGER, h_number INTEGER,
                     h_t_id INTEGER, h_a_b_id INTEGER, h_a_id INTEGER, h_delta INTEGER,
                     h_time INTEGER, h_filler BLOB, PRIMARY KEY (h_b_id, h_worker, h_number))
                     WITHOUT ROWID",
            change: ENTER,
            load: ENTER,
            scan: "SELECT h_b_id, h_worker, h_number, h_delta FROM history",
        },
    }
}

/// The way in which clients access the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// Each has a connection of its own.
    Connections,
    /// They take turns with one connection.
    Turns,
}

/// The database with its tables.
pub struct Sqlite {
    first: Mutex<Connection>,
    path: PathBuf,
    sharing: Sharing,
    shape: Shape,
    cache_kib: u64,
}

fn connect(path: &Path, cache_kib: u64) -> Result<Connection, PeerError> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(BUSY)?;
    connection.execute_batch(&format!(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA cache_size = -{cache_kib};"
    ))?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    Ok(connection)
}

impl Sqlite {
    /// Opens the file in `folder`, or creates it, for `clients` clients.
    ///
    /// # Errors
    /// [`PeerError`].
    pub fn open(
        sharing: Sharing,
        folder: &Path,
        shape: Shape,
        clients: usize,
    ) -> Result<Self, PeerError> {
        let path = folder.join("bank.sqlite");
        let cache_kib = match sharing {
            Sharing::Turns => CACHE_KIB,
            Sharing::Connections => CACHE_KIB / clients as u64,
        };
        let first = Mutex::new(connect(&path, cache_kib)?);
        Ok(Self { first, path, sharing, shape, cache_kib })
    }

    /// Creates and fills the tables.
    ///
    /// # Errors
    /// [`PeerError`].
    pub fn load(&self) -> Result<(), PeerError> {
        let connection = lock(&self.first);
        connection.execute_batch("BEGIN")?;
        for table in self.shape.tables() {
            let Texts { create, load, .. } = texts(self.shape, *table);
            connection.execute_batch(create)?;
            let mut load = connection.prepare(load)?;
            let filler = vec![FILLER; self.shape.filler_bytes(*table)];
            for key in self.shape.keys(*table) {
                load.execute(params![key.number(), key.branch(), filler])?;
            }
        }
        connection.execute_batch("COMMIT")?;
        // Everything is in the file now, and the log restarts in blocks that are allocated already.
        connection.query_row("PRAGMA wal_checkpoint(RESTART)", [], |_| Ok(()))?;
        Ok(())
    }
}

fn lock(connection: &Mutex<Connection>) -> MutexGuard<'_, Connection> {
    connection.lock().unwrap_or_else(PoisonError::into_inner)
}

fn execute(connection: &Connection, text: &str) -> rusqlite::Result<()> {
    connection.prepare_cached(text)?.execute([]).map(|_| ())
}

/// Runs a transaction until it is durable; returns the number of attempts that were rolled back.
fn commit(
    connection: &Connection,
    shape: Shape,
    transaction: &Transaction,
) -> Result<u64, PeerError> {
    let mut aborts = 0;
    loop {
        let Err(error) = attempt(connection, shape, transaction) else { return Ok(aborts) };
        // Not every error leaves a transaction open, and the first error is returned.
        let _ = execute(connection, "ROLLBACK");
        match error {
            PeerError::Sqlite(error) if is_conflict(&error) => aborts += 1,
            error => return Err(error),
        }
    }
}

fn attempt(
    connection: &Connection,
    shape: Shape,
    transaction: &Transaction,
) -> Result<(), PeerError> {
    let Transaction { delta, adds, entry } = transaction;
    execute(connection, "BEGIN IMMEDIATE")?;
    for Add { table, key } in adds {
        let mut statement = connection.prepare_cached(texts(shape, *table).change)?;
        let values = [*delta, key.number().into(), key.branch().into()];
        let values = values.into_iter().take(statement.parameter_count());
        let balance = statement.query_row(params_from_iter(values), |row| row.get::<_, i64>(0));
        match balance {
            Ok(balance) => std::hint::black_box(balance),
            Err(rusqlite::Error::QueryReturnedNoRows) => {
                return Err(PeerError::RowMissing { key: key.0 });
            }
            Err(error) => return Err(error.into()),
        };
    }
    if let Some(Entry { key, teller, account_branch, account, time_us }) = entry {
        connection.prepare_cached(ENTER)?.execute(params![
            key.branch(),
            key.worker(),
            key.number(),
            teller,
            account_branch,
            account,
            delta,
            time_us,
            &[FILLER; HISTORY_FILLER_BYTES][..],
        ])?;
    }
    Ok(execute(connection, "COMMIT")?)
}

struct Own {
    connection: Connection,
    shape: Shape,
}

impl Client for Own {
    fn commit(&mut self, transaction: &Transaction) -> Result<u64, PeerError> {
        commit(&self.connection, self.shape, transaction)
    }
}

struct Turns<'e> {
    connection: &'e Mutex<Connection>,
    shape: Shape,
}

impl Client for Turns<'_> {
    fn commit(&mut self, transaction: &Transaction) -> Result<u64, PeerError> {
        commit(&lock(self.connection), self.shape, transaction)
    }
}

impl Engine for Sqlite {
    fn version(&self) -> String {
        format!("SQLite {}", rusqlite::version())
    }

    fn isolation(&self) -> &'static str {
        "serializable: one writer at a time"
    }

    fn with_client(&self, body: Body<'_>) -> Result<(), PeerError> {
        let shape = self.shape;
        match self.sharing {
            Sharing::Turns => body(&mut Turns { connection: &self.first, shape }),
            Sharing::Connections => {
                body(&mut Own { connection: connect(&self.path, self.cache_kib)?, shape })
            }
        }
    }

    fn scan(&self, table: Table, each: Scan<'_>) -> Result<(), PeerError> {
        let connection = lock(&self.first);
        let mut statement = connection.prepare(texts(self.shape, table).scan)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            each(Key::new(row.get(0)?, row.get(1)?, row.get(2)?), row.get(3)?);
        }
        Ok(())
    }
}
