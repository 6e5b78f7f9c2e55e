//! Runs the files of statements in `sql/`, in the format of the crate sqllogictest.
//!
//! The letters behind `query` are the types of its columns: `I` for whole numbers, `R` for other
//! numbers, `T` for text, `B` for booleans, `D` for dates, `P` for timestamps, `X` for bytes, `?`
//! for the rest. NULL is written so, and a text without characters as `(empty)`. `connection NAME`
//! is another session on the same database.

use std::future::ready;
use std::path::Path;

use arrow_schema::DataType;
use atoll_sql::{Outcome, SqlError, SqlSession};
use sqllogictest::{ColumnType, DB, DBOutput, Runner, parse_file, strict_column_validator};

#[derive(Debug, Clone, PartialEq, Eq)]
struct Letter(char);

impl ColumnType for Letter {
    fn from_char(letter: char) -> Option<Self> {
        "IRTBDPX?".contains(letter).then_some(Self(letter))
    }

    fn to_char(&self) -> char {
        self.0
    }
}

impl Letter {
    fn of(data_type: &DataType) -> Self {
        Self(match data_type {
            whole if whole.is_integer() => 'I',
            number if number.is_numeric() => 'R',
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => 'T',
            DataType::Boolean => 'B',
            DataType::Date32 => 'D',
            DataType::Timestamp(..) => 'P',
            DataType::Binary | DataType::BinaryView | DataType::FixedSizeBinary(_) => 'X',
            _ => '?',
        })
    }
}

/// An error as a user sees it.
#[derive(Debug)]
struct Shown {
    text: String,
    sqlstate: &'static str,
}

impl Shown {
    fn new(error: &SqlError, sql: &str) -> Self {
        Self { text: error.render(sql), sqlstate: error.sqlstate() }
    }
}

impl std::fmt::Display for Shown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Shown {}

struct Connection(SqlSession);

impl DB for Connection {
    type Error = Shown;
    type ColumnType = Letter;

    fn run(&mut self, sql: &str) -> Result<DBOutput<Letter>, Shown> {
        Ok(match self.0.execute(sql).map_err(|error| Shown::new(&error, sql))? {
            Outcome::Rows(result) => {
                let schema = result.schema();
                let types = schema.fields().iter().map(|field| Letter::of(field.data_type()));
                DBOutput::Rows { types: types.collect(), rows: super::fields(&result) }
            }
            Outcome::Done { rows, .. } => DBOutput::StatementComplete(rows),
            other => panic!("{sql} returned {other:?}"),
        })
    }

    fn error_sql_state(error: &Shown) -> Option<String> {
        Some(error.sqlstate.to_owned())
    }
}

/// Whether the rows are those of the file, to the character.
fn are_as_written(_: fn(&String) -> String, rows: &[Vec<String>], wanted: &[String]) -> bool {
    let shown = |field: &String| if field.is_empty() { "(empty)".into() } else { field.clone() };
    let line = |row: &Vec<String>| row.iter().map(shown).collect::<Vec<_>>().join(" ");
    rows.iter().map(line).eq(wanted.iter().cloned())
}

/// Runs the records of a file and says what each that failed did instead.
fn run(path: &Path) -> Vec<String> {
    let db = super::database();
    let connect = || ready(Ok(Connection(SqlSession::on_database(db.clone()))));
    let mut runner = Runner::new(connect);
    runner.with_validator(are_as_written);
    runner.with_column_validator(strict_column_validator);
    let records = parse_file(path).unwrap();
    records.into_iter().filter_map(|record| runner.run(record).err()?.to_string().into()).collect()
}

#[test]
fn every_file_of_statements_does_what_it_says() {
    // Asked now: this may have been compiled for another clone with the same target.
    let here = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it");
    let folder = Path::new(&here).join("tests/session/sql");
    let mut files: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 4, "the files of statements are missing");
    let failed: Vec<String> = files.iter().flat_map(|path| run(path)).collect();
    assert!(failed.is_empty(), "{} records failed:\n{}", failed.len(), failed.join("\n\n"));
}
