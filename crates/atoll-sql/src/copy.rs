//! `COPY … FROM`: a file into a table, as one transaction.
//!
//! `COPY-1`: a file is loaded whole or not at all. Malformed input names its line (or row), column
//! and value, and the table is left as it was.

use std::path::{Path, PathBuf};

use atoll::{Database, Table, Transaction, Value};
use sqlparser::ast::{CopyLegacyOption, CopyOption, CopySource, CopyTarget, Ident};
use sqlparser::tokenizer::Span;

use crate::error::{SqlError, SqlErrorKind};
use crate::txn::{self, Stop};
use crate::{csv, dml, names, parquet};

/// Rows between two reports of progress.
pub(crate) const ROWS_PER_REPORT: u64 = 8192;

/// What a file holds.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// Lines of fields; fields may stand in double quotes.
    Csv {
        /// Whether the first line names the columns.
        header: bool,
        /// The ASCII character between two fields.
        delimiter: u8,
        /// What a field without a value holds; only columns that may be NULL look for it.
        null: String,
    },
    /// Apache Parquet.
    Parquet,
}

impl Format {
    /// Comma-separated values whose first line names the columns.
    pub fn csv() -> Self {
        Self::Csv { header: true, delimiter: b',', null: String::new() }
    }

    /// The format that a file's name tells, `.csv`, `.tsv` (both with a header) or `.parquet`.
    pub fn of_path(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "csv" => Some(Self::csv()),
            "tsv" => Some(Self::Csv { header: true, delimiter: b'\t', null: String::new() }),
            "parquet" | "pq" => Some(Self::Parquet),
            _ => None,
        }
    }
}

/// How far a load has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// Bytes of the file read so far; for Parquet in proportion to the rows.
    pub bytes_done: u64,
    /// Bytes of the file.
    pub bytes_total: u64,
    /// Rows inserted so far. Falls back to 0 when others aborted the transaction.
    pub rows: u64,
}

/// A file on its way into a table.
pub(crate) struct Source {
    /// The table.
    pub(crate) table: Table,
    /// The file.
    pub(crate) path: PathBuf,
    /// What the file holds.
    pub(crate) format: Format,
    /// Positions of the columns that the statement names, in its order.
    pub(crate) columns: Option<Vec<usize>>,
}

impl Source {
    /// Inserts every row of the file and says how many there were.
    pub(crate) fn load(
        &self,
        transaction: &mut Transaction,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<u64, Stop> {
        match &self.format {
            Format::Csv { header, delimiter, null } => {
                let shape = csv::Shape { header: *header, delimiter: *delimiter, null };
                csv::load(self, shape, transaction, progress)
            }
            Format::Parquet => parquet::load(self, transaction, progress),
        }
    }

    /// Opens the file and says how many bytes it has.
    pub(crate) fn open(&self) -> Result<(std::fs::File, u64), SqlError> {
        open(&self.path)
    }

    /// Inserts one row; `place` says where it stands in the file.
    pub(crate) fn insert(
        &self,
        transaction: &mut Transaction,
        row: &[Value],
        place: impl Fn() -> String,
    ) -> Result<(), Stop> {
        transaction.insert(&self.table, row).map_err(|error| match Stop::from(error) {
            Stop::Fail(error) => Stop::Fail(error.within(&place())),
            abort => abort,
        })
    }
}

/// Opens a file for reading and says how many bytes it has.
pub(crate) fn open(path: &Path) -> Result<(std::fs::File, u64), SqlError> {
    let fault = |error: std::io::Error| {
        SqlError::new(SqlErrorKind::Input, format!("cannot read {}: {error}", path.display()))
    };
    let file = std::fs::File::open(path).map_err(fault)?;
    let meta = file.metadata().map_err(fault)?;
    if meta.is_dir() {
        let message = format!("cannot read {}: it is a directory", path.display());
        return Err(SqlError::new(SqlErrorKind::Input, message));
    }
    Ok((file, meta.len()))
}

/// Loads a file into a table as one transaction and says how many rows it had.
///
/// With a CSV header, and in Parquet, columns are found by name; a column that may be NULL may be
/// missing.
///
/// # Errors
/// An unknown table, a file that cannot be read or holds what the table cannot, and a key that
/// exists already. The table is then as it was before.
pub fn copy_from(
    db: &Database,
    table: &str,
    path: &Path,
    format: Format,
    progress: &mut dyn FnMut(Progress),
) -> Result<u64, SqlError> {
    let table = find_table(db, table, Span::empty())?;
    let source = Source { table, path: path.to_owned(), format, columns: None };
    txn::run(db, None, |transaction| source.load(transaction, progress))
}

/// The table of a name.
pub(crate) fn find_table(db: &Database, name: &str, span: Span) -> Result<Table, SqlError> {
    let known = db.tables();
    if !known.iter().any(|table| table == name) {
        return Err(names::unknown_table(name, &known).at(span));
    }
    db.table(name).map_err(|error| SqlError::from(error).at(span))
}

/// The source that a `COPY` statement describes.
pub(crate) fn source(
    db: &Database,
    from: &CopySource,
    to: bool,
    target: &CopyTarget,
    options: (&[CopyOption], &[CopyLegacyOption]),
) -> Result<Source, SqlError> {
    if to {
        return Err(SqlError::unsupported("COPY … TO is not supported")
            .with_hint(Some("export a snapshot as Arrow or Parquet from Python".to_owned())));
    }
    let CopySource::Table { table_name, columns } = from else {
        return Err(SqlError::unsupported("COPY needs the name of a table"));
    };
    let CopyTarget::File { filename } = target else {
        return Err(SqlError::unsupported("COPY reads files: COPY t FROM 'file.csv'"));
    };
    let (name, span) = names::table_name(table_name)?;
    let table = find_table(db, &name, span)?;
    let columns = (!columns.is_empty())
        .then(|| dml::target_columns(&table, columns.iter().map(Ok::<&Ident, SqlError>)))
        .transpose()?;
    let path = PathBuf::from(filename);
    let format = format(&path, options)?;
    Ok(Source { table, path, format, columns })
}

fn format(
    path: &Path,
    (options, legacy): (&[CopyOption], &[CopyLegacyOption]),
) -> Result<Format, SqlError> {
    let (mut named, mut header, mut delimiter, mut null) = (None, None, None, None);
    for option in options {
        match option {
            CopyOption::Format(name) => named = Some(names::fold(name)),
            CopyOption::Header(value) => header = Some(*value),
            CopyOption::Delimiter(value) => delimiter = Some(ascii(*value)?),
            CopyOption::Null(value) => null = Some(value.clone()),
            other => {
                return Err(SqlError::unsupported(format!(
                    "COPY … WITH ({other}) is not supported"
                ))
                .with_hint(Some("the options are FORMAT, HEADER, DELIMITER and NULL".into())));
            }
        }
    }
    for option in legacy {
        match option {
            CopyLegacyOption::Csv(inner) if inner.is_empty() => named = Some("csv".to_owned()),
            CopyLegacyOption::Header => header = Some(true),
            CopyLegacyOption::Parquet => named = Some("parquet".to_owned()),
            CopyLegacyOption::Delimiter(value) => delimiter = Some(ascii(*value)?),
            CopyLegacyOption::Null(value) => null = Some(value.clone()),
            other => {
                return Err(SqlError::unsupported(format!("COPY … {other} is not supported"))
                    .with_hint(Some("write WITH (FORMAT csv, HEADER)".to_owned())));
            }
        }
    }
    let guessed = match named.as_deref() {
        Some("csv") => Format::csv(),
        Some("parquet") => Format::Parquet,
        Some(other) => {
            return Err(SqlError::unsupported(format!("COPY knows no format \"{other}\""))
                .with_hint(Some("the formats are csv and parquet".to_owned())));
        }
        None => Format::of_path(path).ok_or_else(|| {
            SqlError::new(
                SqlErrorKind::Input,
                format!("the name of {} does not tell its format", path.display()),
            )
            .with_hint(Some("add WITH (FORMAT csv) or WITH (FORMAT parquet)".to_owned()))
        })?,
    };
    match guessed {
        // As in PostgreSQL, a statement has a header only if it says so.
        Format::Csv { delimiter: usual, .. } => Ok(Format::Csv {
            header: header.unwrap_or(false),
            delimiter: delimiter.unwrap_or(usual),
            null: null.unwrap_or_default(),
        }),
        Format::Parquet if header.or(delimiter.map(|_| true)).is_some() || null.is_some() => {
            Err(SqlError::unsupported("HEADER, DELIMITER and NULL are options of csv only"))
        }
        Format::Parquet => Ok(Format::Parquet),
    }
}

fn ascii(delimiter: char) -> Result<u8, SqlError> {
    u8::try_from(delimiter)
        .ok()
        .filter(|byte| byte.is_ascii() && !matches!(byte, b'"' | b'\n' | b'\r'))
        .ok_or_else(|| {
            SqlError::new(
                SqlErrorKind::Input,
                format!("'{delimiter}' cannot separate fields; use one ASCII character"),
            )
        })
}
