//! SQLite in memory.
//!
//! One thread has a connection to `:memory:`. Several have a connection each to one database of the
//! VFS `memdb`; all their transactions begin with `BEGIN IMMEDIATE`, since one that writes only
//! later fails half way when another has written (<https://sqlite.org/lang_transaction.html>).
//!
//! A key of one number is `INTEGER PRIMARY KEY`, the position of the row. Tables with other keys
//! are `WITHOUT ROWID`, except those with long rows (<https://sqlite.org/withoutrowid.html>).

use std::cell::RefCell;
use std::sync::{Mutex, PoisonError};

use atoll::Value;
use atoll_bench::sql::{Connection, Failure, Fields, Param};
use atoll_bench::tpcc::Size;
use atoll_bench::tpcc::sql::{Kind, definitions, each_row};
use rusqlite::types::{Null, ToSqlOutput, ValueRef};
use rusqlite::{Row, Statement, ToSql};

use super::Server;
use crate::engine::PeerError;
use crate::sqlite::is_conflict;

const CACHE_KIB: u64 = 4 << 20;

/// The database.
pub struct Sqlite {
    /// A connection that keeps it; with one thread, that of the thread, which takes it.
    first: Mutex<Option<rusqlite::Connection>>,
    threads: u16,
}

/// A connection. It and its statements live as long as the process.
pub struct SqliteConnection {
    connection: &'static rusqlite::Connection,
    begin: Begin,
    commit: RefCell<Statement<'static>>,
    rollback: RefCell<Statement<'static>>,
}

/// The statement that begins a transaction.
type Begin = RefCell<Statement<'static>>;

impl Sqlite {
    /// An empty database for so many threads.
    ///
    /// # Errors
    /// [`PeerError`].
    pub fn open(threads: u16) -> Result<Self, PeerError> {
        Ok(Self { first: Mutex::new(Some(connection(threads)?)), threads })
    }

    fn taken(&self) -> Result<rusqlite::Connection, PeerError> {
        let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        match first.take() {
            Some(connection) if self.threads == 1 => Ok(connection),
            kept => {
                *first = kept;
                connection(self.threads)
            }
        }
    }
}

fn connection(threads: u16) -> Result<rusqlite::Connection, PeerError> {
    let address = if threads == 1 { ":memory:" } else { "file:/tpcc?vfs=memdb" };
    let mut connection = rusqlite::Connection::open(address)?;
    // To sleep while another connection is busy would take longer than the wait itself.
    connection.busy_handler(Some(|_| {
        std::thread::yield_now();
        true
    }))?;
    connection.execute_batch(&format!(
        "PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF; PRAGMA temp_store = MEMORY;
         PRAGMA cache_size = -{CACHE_KIB};"
    ))?;
    Ok(connection)
}

impl Server for Sqlite {
    type Connection = SqliteConnection;

    fn version(&self) -> String {
        format!("SQLite {}", rusqlite::version())
    }

    fn fill(&self, size: Size, seed: u64) -> Result<(), PeerError> {
        let first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(connection) = first.as_ref() else {
            return Err(Failure::Other("the connection is in use".to_owned()).into());
        };
        definitions().iter().try_for_each(|sql| connection.execute_batch(&in_sqlite(sql)))?;
        connection.execute_batch("BEGIN")?;
        let mut inserts = Vec::new();
        for kind in Kind::ALL {
            let (name, columns, _) = kind.definition();
            let marks = vec!["?"; columns.len()].join(", ");
            inserts.push(connection.prepare(&format!("INSERT INTO {name} VALUES ({marks})"))?);
        }
        each_row(size, seed, |kind, row| {
            let insert = &mut inserts[kind as usize];
            for (at, value) in row.iter().enumerate() {
                insert.raw_bind_parameter(at + 1, Bound(value))?;
            }
            insert.raw_execute().map(drop)
        })?;
        drop(inserts);
        Ok(connection.execute_batch("COMMIT; ANALYZE")?)
    }

    fn connect(&self) -> Result<SqliteConnection, PeerError> {
        let connection: &'static rusqlite::Connection = Box::leak(Box::new(self.taken()?));
        let begin = if self.threads == 1 { "BEGIN" } else { "BEGIN IMMEDIATE" };
        Ok(SqliteConnection {
            connection,
            begin: RefCell::new(connection.prepare(begin)?),
            commit: RefCell::new(connection.prepare("COMMIT")?),
            rollback: RefCell::new(connection.prepare("ROLLBACK")?),
        })
    }
}

/// A definition with SQLite's types, and with the key as the place of a row.
fn in_sqlite(sql: &str) -> String {
    let sql = sql.replace("smallint", "INTEGER").replace("bigint", "INTEGER");
    let sql = sql.replace(" integer", " INTEGER");
    let key = sql.split_once("PRIMARY KEY (").map_or("", |(_, key)| key);
    let is_long = ["TABLE customer", "TABLE stock"].iter().any(|table| sql.contains(table));
    if key.contains(',') && !is_long { format!("{sql} WITHOUT ROWID") } else { sql }
}

struct Bound<'v>(&'v Value);

impl ToSql for Bound<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self.0 {
            Value::Int16(number) => ToSqlOutput::from(*number),
            Value::Int32(number) => ToSqlOutput::from(*number),
            Value::Int64(number) | Value::Timestamp(number) => ToSqlOutput::from(*number),
            Value::Text(text) => ToSqlOutput::from(text.as_str()),
            _ => ToSqlOutput::from(Null),
        })
    }
}

fn failure(error: rusqlite::Error) -> Failure {
    match is_conflict(&error) {
        true => Failure::Conflict(error.to_string()),
        false => Failure::Other(error.to_string()),
    }
}

fn bind(statement: &mut Statement<'_>, params: &[Param<'_>]) -> Result<(), Failure> {
    for (at, param) in params.iter().enumerate() {
        let bound = match *param {
            Param::Int(number) | Param::Time(number) => {
                statement.raw_bind_parameter(at + 1, number)
            }
            Param::Text(text) => statement.raw_bind_parameter(at + 1, text),
            Param::Null => statement.raw_bind_parameter(at + 1, Null),
        };
        bound.map_err(failure)?;
    }
    Ok(())
}

struct Shown<'r, 's>(&'r Row<'s>);

impl Fields for Shown<'_, '_> {
    fn int(&self, at: usize) -> Result<i64, Failure> {
        match self.0.get_ref(at).map_err(failure)? {
            ValueRef::Integer(number) => Ok(number),
            other => Err(Failure::Other(format!("{other:?} is no number"))),
        }
    }

    fn text(&self, at: usize, read: &mut dyn FnMut(&str)) -> Result<(), Failure> {
        let value = self.0.get_ref(at).map_err(failure)?;
        let text = value.as_str().map_err(|error| Failure::Other(error.to_string()))?;
        read(text);
        Ok(())
    }
}

impl Connection for SqliteConnection {
    type Statement = RefCell<Statement<'static>>;

    fn run(&mut self, sql: &str) -> Result<(), Failure> {
        let statement = match sql {
            "BEGIN" => &self.begin,
            "COMMIT" => &self.commit,
            "ROLLBACK" => &self.rollback,
            other => return self.connection.execute_batch(&in_sqlite(other)).map_err(failure),
        };
        statement.borrow_mut().raw_execute().map(drop).map_err(failure)
    }

    fn prepare(&mut self, sql: &str) -> Result<Self::Statement, Failure> {
        self.connection.prepare(sql).map(RefCell::new).map_err(failure)
    }

    fn execute(
        &mut self,
        statement: &Self::Statement,
        params: &[Param<'_>],
    ) -> Result<u64, Failure> {
        let mut statement = statement.borrow_mut();
        bind(&mut statement, params)?;
        statement.raw_execute().map(|changed| changed as u64).map_err(failure)
    }

    fn query(
        &mut self,
        statement: &Self::Statement,
        params: &[Param<'_>],
        each: &mut dyn FnMut(&dyn Fields) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut statement = statement.borrow_mut();
        bind(&mut statement, params)?;
        let mut rows = statement.raw_query();
        while let Some(row) = rows.next().map_err(failure)? {
            each(&Shown(row))?;
        }
        Ok(())
    }
}
