//! SQLite in memory, with the three ways in which threads can share a table.
//!
//! A table `(key INTEGER PRIMARY KEY, f0 BLOB, .., f9 BLOB)`: an integer key is the row's position
//! in the tree (<https://sqlite.org/lang_createtable.html#rowids_and_the_integer_primary_key>).
//! Statements are prepared once (<https://sqlite.org/c3ref/prepare.html>). A transaction that will
//! write begins with `BEGIN IMMEDIATE`, so that it does not fail half way
//! (<https://sqlite.org/lang_transaction.html>).
//!
//! - One connection (<https://sqlite.org/inmemorydb.html>, `:memory:`): pages are changed in place;
//!   threads take turns with the connection.
//! - `memdb`: a connection for each thread to one table in memory (`file:/name?vfs=memdb`,
//!   <https://sqlite.org/releaselog/3_36_0.html>), each with a page cache that it discards when
//!   another connection has committed.
//! - WAL: the same over a file in `/dev/shm` with a write-ahead log
//!   (<https://sqlite.org/wal.html>), where readers and the writer do not wait for each other;
//!   `synchronous` is off (<https://sqlite.org/pragma.html#pragma_synchronous>).

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::{Connection, ErrorCode, OptionalExtension, Statement, params};

use crate::engine::{
    Access, Body, COLUMN_BYTES, COLUMNS, Client, Column, Engine, PeerError, copy_column, loaded_row,
};
use crate::folder::Folder;

const CACHE_BYTES_PER_ROW: u64 = 1280;
const CACHE_KIB_LEAST: u64 = 64 << 10;
/// Two statements for each column, and those that begin and end transactions.
const STATEMENTS: usize = 2 * COLUMNS + 4;

/// The way in which threads access the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// They take turns with one connection.
    OneConnection,
    /// Each has a connection to a table in memory.
    Memdb,
    /// Each has a connection to a file with a write-ahead log.
    Wal,
}

/// The database with its one table.
pub struct Sqlite {
    first: Mutex<Connection>,
    sharing: Sharing,
    threads: usize,
    address: String,
    cache_kib: u64,
    _folder: Option<Folder>,
}

impl Sqlite {
    /// Creates and fills the table, for `threads` threads; below `dir` if it needs a file.
    ///
    /// # Errors
    /// [`PeerError`].
    pub fn open(
        sharing: Sharing,
        dir: &Path,
        rows: u64,
        threads: usize,
    ) -> Result<Self, PeerError> {
        let folder = match sharing {
            Sharing::Wal => Some(Folder::new(dir)?),
            Sharing::OneConnection | Sharing::Memdb => None,
        };
        let address = match (&folder, sharing) {
            (Some(folder), _) => folder.path().join("rows.sqlite").display().to_string(),
            (None, Sharing::Memdb) => "file:/rows?vfs=memdb".to_owned(),
            (None, _) => ":memory:".to_owned(),
        };
        let cache_kib = ((rows * CACHE_BYTES_PER_ROW) >> 10) / threads as u64;
        let cache_kib = CACHE_KIB_LEAST + cache_kib;
        let first = connect(&address, sharing, cache_kib)?;
        load(&first, rows)?;
        let first = Mutex::new(first);
        Ok(Self { first, sharing, threads, address, cache_kib, _folder: folder })
    }
}

fn connect(address: &str, sharing: Sharing, cache_kib: u64) -> Result<Connection, PeerError> {
    let mut connection = Connection::open(address)?;
    // To sleep while another connection is busy would take longer than the wait itself.
    connection.busy_handler(Some(|_| {
        std::thread::yield_now();
        true
    }))?;
    let journal = if sharing == Sharing::Wal { "WAL" } else { "MEMORY" };
    connection.execute_batch(&format!(
        "PRAGMA journal_mode = {journal}; PRAGMA synchronous = OFF; PRAGMA temp_store = MEMORY;
         PRAGMA cache_size = -{cache_kib};"
    ))?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    Ok(connection)
}

fn load(connection: &Connection, rows: u64) -> Result<(), PeerError> {
    let columns: Vec<String> = (0..COLUMNS).map(|column| format!("f{column} BLOB")).collect();
    let marks = ["?"; COLUMNS].join(", ");
    connection.execute_batch(&format!(
        "CREATE TABLE rows (key INTEGER PRIMARY KEY, {}); BEGIN;",
        columns.join(", ")
    ))?;
    let mut insert = connection.prepare(&format!("INSERT INTO rows VALUES (?, {marks})"))?;
    for key in 0..rows {
        insert.raw_bind_parameter(1, key as i64)?;
        for (column, bytes) in loaded_row(key).chunks(COLUMN_BYTES).enumerate() {
            insert.raw_bind_parameter(column + 2, bytes)?;
        }
        insert.raw_execute()?;
    }
    drop(insert);
    connection.execute_batch("COMMIT")?;
    Ok(())
}

/// The statements of a client.
#[derive(Clone, Copy)]
enum Which {
    Begin,
    BeginWrite,
    Commit,
    Rollback,
    Select(usize),
    Update(usize),
}

impl Which {
    fn index(self) -> usize {
        match self {
            Self::Begin => 0,
            Self::BeginWrite => 1,
            Self::Commit => 2,
            Self::Rollback => 3,
            Self::Select(column) => 4 + column,
            Self::Update(column) => 4 + COLUMNS + column,
        }
    }

    fn all() -> impl Iterator<Item = Self> {
        [Self::Begin, Self::BeginWrite, Self::Commit, Self::Rollback]
            .into_iter()
            .chain((0..COLUMNS).map(Self::Select))
            .chain((0..COLUMNS).map(Self::Update))
    }

    fn text(self) -> String {
        match self {
            Self::Begin => "BEGIN".to_owned(),
            Self::BeginWrite => "BEGIN IMMEDIATE".to_owned(),
            Self::Commit => "COMMIT".to_owned(),
            Self::Rollback => "ROLLBACK".to_owned(),
            Self::Select(column) => format!("SELECT f{column} FROM rows WHERE key = ?"),
            Self::Update(column) => format!("UPDATE rows SET f{column} = ?2 WHERE key = ?1"),
        }
    }
}

/// The prepared statements of a client.
trait Statements {
    fn with<R>(
        &mut self,
        which: Which,
        body: impl FnOnce(&mut Statement<'_>) -> rusqlite::Result<R>,
    ) -> rusqlite::Result<R>;
}

/// The statements of a client with its own connection.
struct Kept<'c> {
    statements: Vec<Statement<'c>>,
}

impl<'c> Kept<'c> {
    fn new(connection: &'c Connection) -> Result<Self, PeerError> {
        let statements = Which::all().map(|which| connection.prepare(&which.text()));
        Ok(Self { statements: statements.collect::<rusqlite::Result<_>>()? })
    }
}

impl Statements for Kept<'_> {
    fn with<R>(
        &mut self,
        which: Which,
        body: impl FnOnce(&mut Statement<'_>) -> rusqlite::Result<R>,
    ) -> rusqlite::Result<R> {
        body(&mut self.statements[which.index()])
    }
}

/// The statements of clients that share a connection: in the connection's cache, by their text.
struct Cached<'t> {
    connection: MutexGuard<'t, Connection>,
    texts: &'t [String],
}

impl Statements for Cached<'_> {
    fn with<R>(
        &mut self,
        which: Which,
        body: impl FnOnce(&mut Statement<'_>) -> rusqlite::Result<R>,
    ) -> rusqlite::Result<R> {
        body(&mut *self.connection.prepare_cached(&self.texts[which.index()])?)
    }
}

/// Runs a transaction until it has committed; returns the number of attempts that were rolled back.
fn transaction(
    statements: &mut impl Statements,
    accesses: &[Access],
    read: &mut Column,
) -> Result<u64, PeerError> {
    let mut aborts = 0;
    loop {
        let done = attempt(statements, accesses, read);
        let Err(error) = done else { return Ok(aborts) };
        // Not every error leaves a transaction open, and the first error is returned.
        let _ = statements.with(Which::Rollback, |statement| statement.execute([]));
        match error {
            PeerError::Sqlite(error) if is_conflict(&error) => aborts += 1,
            error => return Err(error),
        }
    }
}

/// Whether the error is a conflict with another transaction, so that this one is to be retried.
pub fn is_conflict(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

fn attempt(
    statements: &mut impl Statements,
    accesses: &[Access],
    read: &mut Column,
) -> Result<(), PeerError> {
    let writes = accesses.iter().any(|access| access.update.is_some());
    let begin = if writes { Which::BeginWrite } else { Which::Begin };
    statements.with(begin, |statement| statement.execute([]))?;
    for Access { key, column, update } in accesses {
        let found = match update {
            None => statements
                .with(Which::Select(*column), |statement| {
                    let read = &mut *read;
                    statement
                        .query_row([*key as i64], |row| {
                            // The column is the whole blob.
                            Ok(copy_column(row.get_ref(0)?.as_blob()?, 0, read))
                        })
                        .optional()
                })?
                .transpose()?
                .is_some(),
            Some(byte) => {
                let bytes = [*byte; COLUMN_BYTES];
                statements.with(Which::Update(*column), |statement| {
                    statement.execute(params![*key as i64, &bytes[..]])
                })? == 1
            }
        };
        if !found {
            return Err(PeerError::RowMissing { key: *key });
        }
    }
    statements.with(Which::Commit, |statement| statement.execute([]))?;
    Ok(())
}

impl Client for Kept<'_> {
    fn transaction(&mut self, accesses: &[Access], read: &mut Column) -> Result<u64, PeerError> {
        transaction(self, accesses, read)
    }
}

/// A client that shares the only connection.
struct Turns<'e> {
    connection: &'e Mutex<Connection>,
    texts: Vec<String>,
}

impl Client for Turns<'_> {
    fn transaction(&mut self, accesses: &[Access], read: &mut Column) -> Result<u64, PeerError> {
        let connection = lock(self.connection);
        transaction(&mut Cached { connection, texts: &self.texts }, accesses, read)
    }
}

fn lock(connection: &Mutex<Connection>) -> MutexGuard<'_, Connection> {
    connection.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Engine for Sqlite {
    fn version(&self) -> String {
        format!("SQLite {}", rusqlite::version())
    }

    fn isolation(&self) -> &'static str {
        match self.sharing {
            Sharing::OneConnection => "serializable: one transaction at a time",
            Sharing::Memdb => "serializable: one writer, and no reader while it commits",
            Sharing::Wal => "serializable: one writer, readers see a snapshot",
        }
    }

    fn with_client(&self, body: Body<'_>) -> Result<(), PeerError> {
        match self.sharing {
            // A single thread can keep the connection between transactions.
            Sharing::OneConnection if self.threads == 1 => {
                let connection = lock(&self.first);
                body(&mut Kept::new(&connection)?)
            }
            Sharing::OneConnection => {
                let texts = Which::all().map(Which::text).collect();
                body(&mut Turns { connection: &self.first, texts })
            }
            Sharing::Memdb | Sharing::Wal => {
                let connection = connect(&self.address, self.sharing, self.cache_kib)?;
                body(&mut Kept::new(&connection)?)
            }
        }
    }
}
