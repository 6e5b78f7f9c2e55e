//! Bulk insertion of Arrow data into a table, which may be created for it.
//!
//! `INGEST-1`: all rows are read and converted before anything is changed, so that data which do
//! not fit leave no table behind. All of them are inserted, or none.

use adbc_core::error::Status;
use adbc_core::options::IngestMode;
use arrow_array::RecordBatchReader;
use arrow_schema::{ArrowError, SchemaRef};
use atoll::{ArrowRows, Schema, Table};

use crate::catalog::{CATALOG, SCHEMA};
use crate::errors::{Result, error, of_change, of_database, of_rows, of_sql, unsupported};
use crate::link::{Core, Source};
use crate::options::KEY;
use crate::registry::Shared;
use crate::rows::IncomingRows;

/// Where bound data are inserted.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) table: Option<String>,
    pub(crate) mode: IngestMode,
    pub(crate) catalog: Option<String>,
    pub(crate) db_schema: Option<String>,
}

impl Default for Target {
    fn default() -> Self {
        Self { table: None, mode: IngestMode::Create, catalog: None, db_schema: None }
    }
}

/// The database and its table, if it exists, when rows may be inserted there.
///
/// # Errors
/// The target does not permit it.
pub(crate) fn check(
    core: &mut Core,
    target: &Target,
    table: &str,
) -> Result<(Shared, Option<Table>)> {
    check_place("catalog", target.catalog.as_deref(), CATALOG)?;
    check_place("schema", target.db_schema.as_deref(), SCHEMA)?;
    core.check_may_change()?;
    let Source::Owned(db) = core.source().clone() else {
        return Err(unsupported("a database of another process can only be read"));
    };
    let found = match db.table(table) {
        Ok(found) => Some(found),
        Err(atoll::Error::Storage(atoll::StorageError::UnknownTable(_))) => None,
        Err(error) => return Err(of_database(&error)),
    };
    match (&found, target.mode) {
        (Some(_), IngestMode::Create) => {
            let message = format!("table \"{table}\" exists already");
            return Err(error(Status::AlreadyExists, "42P07", message));
        }
        (Some(_), IngestMode::Replace) => {
            return Err(unsupported(format!(
                "table \"{table}\" exists, and tables cannot be dropped yet; delete its rows and \
                 append"
            )));
        }
        (None, IngestMode::Append) => {
            let message = format!("table \"{table}\" does not exist");
            return Err(error(Status::NotFound, "42P01", message));
        }
        _ => {}
    }
    Ok((db, found))
}

/// Inserts all rows into a table. `key` names the primary key of a table that is created, by
/// default its first column.
pub(crate) fn ingest(
    core: &mut Core,
    target: &Target,
    table: &str,
    key: Option<&str>,
    rows: IncomingRows,
) -> Result<u64> {
    let (db, found) = check(core, target, table)?;
    let rows = match &found {
        Some(found) => rows.fit(found.schema()).map_err(of_rows)?,
        None => {
            let key = key_columns(key, &rows.names())?;
            let schema = rows.schema(&key).map_err(of_rows)?;
            let rows = rows.fit(&schema).map_err(of_rows)?;
            create(core, table, &schema, &rows, &key)?;
            rows
        }
    };
    let table = db.table(table).map_err(|error| of_database(&error))?;
    core.begin_change()?.insert_arrow(&table, &rows).map_err(of_change)
}

fn check_place(what: &str, given: Option<&str>, only: &str) -> Result<()> {
    match given {
        None | Some("") => Ok(()),
        Some(given) if given == only => Ok(()),
        Some(given) => {
            let message = format!("{what} \"{given}\" does not exist; the only one is {only}");
            Err(error(Status::NotFound, "3F000", message))
        }
    }
}

/// The columns of a primary key: all of `key` if a column has this name, or the names in it between
/// commas.
fn key_columns(key: Option<&str>, columns: &[String]) -> Result<Vec<String>> {
    let Some(key) = key else {
        return columns.first().map(|first| vec![first.clone()]).ok_or_else(|| {
            error(Status::InvalidArguments, "42P16", "the data have no column, and a table has one")
        });
    };
    if columns.iter().any(|column| column == key) {
        return Ok(vec![key.to_owned()]);
    }
    Ok(key.split(',').map(|name| name.trim().to_owned()).collect())
}

fn create(
    core: &mut Core,
    table: &str,
    schema: &Schema,
    rows: &[ArrowRows],
    key: &[String],
) -> Result<()> {
    // A table cannot be dropped, so this comes before it is created.
    let twice = atoll::load::duplicate_key(schema, rows).map_err(|error| of_database(&error))?;
    if let Some(twice) = twice {
        let columns = key.join(", ");
        let message = format!(
            "two rows have the key {twice}, and \"{columns}\" is the primary key of the new table; \
             name another with the option {KEY}, or create the table and append"
        );
        return Err(error(Status::Integrity, "23505", message));
    }
    let column = |column: &atoll::Column| {
        let null = if column.nullable { "" } else { " NOT NULL" };
        format!("{} {}{null}", quoted(&column.name), column.data_type)
    };
    let columns: Vec<String> = schema.columns().iter().map(column).collect();
    let key: Vec<String> = key.iter().map(|name| quoted(name)).collect();
    let text = format!(
        "CREATE TABLE {} ({}, PRIMARY KEY ({}))",
        quoted(table),
        columns.join(", "),
        key.join(", ")
    );
    let created = core.begin_definition()?.execute(&text);
    created.map(drop).map_err(|error| of_sql(&error, &text))
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Data of a client that end with an error when the statement is cancelled.
pub(crate) struct Watched<R, C> {
    pub(crate) data: R,
    pub(crate) is_cancelled: C,
}

impl<R: RecordBatchReader, C: Fn() -> bool> Iterator for Watched<R, C> {
    type Item = R::Item;

    fn next(&mut self) -> Option<R::Item> {
        if (self.is_cancelled)() {
            return Some(Err(ArrowError::ExternalError("the statement was cancelled".into())));
        }
        self.data.next()
    }
}

impl<R: RecordBatchReader, C: Fn() -> bool> RecordBatchReader for Watched<R, C> {
    fn schema(&self) -> SchemaRef {
        self.data.schema()
    }
}
