//! The database `board`: its five tables, and the reference tables loaded into them.

use std::path::{Path, PathBuf};

use atoll::{Database, Table, Value};
use atoll_sql::{Format, Input, LoadOptions, SqlSession};

use super::files::Rows;
use super::screen::Screen;
use crate::error::{CliError, FailedStatement, Origin, Result};

/// Name under which the database is published.
pub const BOARD: &str = "board";

const TABLES: &str = include_str!("board.sql");

/// Destinations of flights that the file of airports lacks (demo/data/README.md), with the
/// positions of these airports. Without a row they would have no running totals.
const MISSING_AIRPORTS: [(&str, f64, f64); 4] = [
    ("SJU", 18.4394, -66.0018),
    ("BQN", 18.4949, -67.1294),
    ("STT", 18.3373, -64.9734),
    ("PSE", 18.0083, -66.5630),
];
/// Hours from UTC of Puerto Rico and the Virgin Islands, all year.
const ATLANTIC_TZ: i16 = -4;

/// The live database and its tables with running totals.
#[derive(Clone)]
pub struct Board {
    /// The database.
    pub db: Database,
    /// Flights.
    pub flights: Table,
    /// Airports.
    pub airports: Table,
    /// Airlines.
    pub airlines: Table,
}

/// The files that the demo reads.
pub struct Files(PathBuf);

impl Files {
    /// The files in a folder.
    ///
    /// # Errors
    /// One of them is not there.
    pub fn find(folder: &Path) -> Result<Self> {
        let files = Self(folder.to_owned());
        for name in ["airports", "airlines", "planes", "weather", "flights"] {
            let path = files.path(name);
            if !path.is_file() {
                return Err(CliError::with_hint(
                    format!("the demo's data is not there: {} is missing", path.display()),
                    "run the demo in the root of the repository, or give the folder: --flights DIR",
                ));
            }
        }
        Ok(files)
    }

    /// The file of a table.
    pub fn path(&self, table: &str) -> PathBuf {
        self.0.join(format!("{table}.parquet"))
    }
}

impl Board {
    /// Creates the tables in an empty database.
    ///
    /// # Errors
    /// Those of the statements.
    pub fn create(db: Database) -> Result<Self> {
        let outcomes = SqlSession::on_database(db.clone()).execute_script(TABLES);
        if let Some(error) = outcomes.into_iter().find_map(std::result::Result::err) {
            let origin = Some(Origin { script: "board.sql".to_owned(), line: 1, column: 0 });
            let sql = TABLES.to_owned();
            return Err(CliError::Statement(Box::new(FailedStatement { error, sql, origin })));
        }
        let (flights, airports) = (db.table("flights")?, db.table("airports")?);
        let airlines = db.table("airlines")?;
        Ok(Self { db, flights, airports, airlines })
    }

    /// Loads airports, airlines, planes and weather; returns how many rows they have.
    ///
    /// # Errors
    /// A file that cannot be read or does not fit its table.
    pub fn load(&self, files: &Files, screen: &Screen) -> Result<u64> {
        let mut rows = 0;
        for table in ["planes", "weather"] {
            rows += screen.loading(table, |progress| {
                let input = Input::open(&files.path(table))?;
                let (format, options) = (Format::Parquet, LoadOptions::default());
                let loaded = atoll_sql::copy_from(
                    &self.db, table, &input, &format, &options, None, progress,
                )?;
                Ok(loaded.rows())
            })?;
        }
        for (table, key) in [(&self.airports, "faa"), (&self.airlines, "carrier")] {
            rows += screen.loading(table.name(), |progress| {
                self.load_with_totals(table, &Rows::read(&files.path(table.name()), key, progress)?)
            })?;
        }
        rows += self.add_missing_airports()?;
        Ok(rows)
    }

    /// Inserts rows of a file that lacks the running totals: they start at 0.
    fn load_with_totals(&self, table: &Table, rows: &Rows) -> Result<u64> {
        let columns = table.schema().columns();
        let sources: Vec<Option<usize>> =
            columns.iter().map(|column| rows.find(&column.name)).collect();
        self.db.transaction(|tx| {
            (0..rows.len()).try_for_each(|row| {
                let value = |source: &Option<usize>| {
                    source.map_or(Value::Int64(0), |column| rows.value(row, column))
                };
                tx.insert(table, &sources.iter().map(value).collect::<Vec<_>>())
            })
        })?;
        Ok(rows.len() as u64)
    }

    fn add_missing_airports(&self) -> Result<u64> {
        self.db.transaction(|tx| {
            MISSING_AIRPORTS.iter().try_for_each(|(code, lat, lon)| {
                let place: [Value; 8] = [
                    (*code).into(),
                    (*code).into(),
                    (*lat).into(),
                    (*lon).into(),
                    0i32.into(),
                    ATLANTIC_TZ.into(),
                    "N".into(),
                    "America/Puerto_Rico".into(),
                ];
                let totals = std::iter::repeat_n(Value::Int64(0), 4);
                tx.insert(&self.airports, &place.into_iter().chain(totals).collect::<Vec<_>>())
            })
        })?;
        Ok(MISSING_AIRPORTS.len() as u64)
    }
}
