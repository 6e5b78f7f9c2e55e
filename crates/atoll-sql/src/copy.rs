//! `COPY … FROM`: a file into a table, as one transaction.
//!
//! `COPY-1`: a file is loaded completely or not at all. Malformed input names its line (or row),
//! column and value, and the table is left as it was.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use atoll::{Database, Error, Index, Range, Table, Transaction, TxnError, Value};
use sqlparser::ast::{CopyLegacyOption, CopyOption, CopySource, CopyTarget, Ident};
use sqlparser::tokenizer::Span;

use crate::error::{Cause, SqlError, SqlErrorKind};
use crate::input::Input;
use crate::interrupt::{Interrupt, Question};
use crate::parse::ExtraOption;
use crate::txn::{self, Stop};
use crate::{csv, dml, names, parquet};

/// Rows between two reports of progress.
pub(crate) const ROWS_PER_REPORT: u64 = 8192;

/// The format of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// Lines of fields; fields may be in double quotes.
    Csv {
        /// Whether the first line names the columns.
        header: bool,
        /// The ASCII character between two fields.
        delimiter: u8,
        /// The text of a field without a value; in quotes it is text.
        null: String,
    },
    /// Apache Parquet.
    Parquet,
}

impl Format {
    /// Comma-separated values with the names of the columns in the first line.
    pub fn csv() -> Self {
        Self::Csv { header: true, delimiter: b',', null: String::new() }
    }

    /// The format that the name of a file implies, `.csv`, `.tsv` (both with a header) or
    /// `.parquet`, perhaps with the ending of a compressed file behind it.
    pub fn of_path(path: &Path) -> Option<Self> {
        const PACKED: [&str; 8] = ["gz", "gzip", "zst", "zstd", "bz2", "xz", "lz4", "zip"];
        let ending = |path: &Path| Some(path.extension()?.to_str()?.to_ascii_lowercase());
        let outer = ending(path)?;
        let inner = match PACKED.contains(&outer.as_str()) {
            true => ending(Path::new(path.file_stem()?))?,
            false => outer,
        };
        match inner.as_str() {
            "csv" => Some(Self::csv()),
            "tsv" => Some(Self::Csv { header: true, delimiter: b'\t', null: String::new() }),
            "parquet" | "pq" => Some(Self::Parquet),
            _ => None,
        }
    }
}

/// The treatment of a row with a key that the table has already, perhaps from the same file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnConflict {
    /// The load fails, and nothing is loaded.
    #[default]
    Fail,
    /// The row is skipped. So is a row with values that another row has in a unique index.
    Skip,
    /// The row replaces the one with its primary key. A row with values that another row has in a
    /// unique index still makes the load fail.
    Replace,
}

/// The treatment of rows and values that are refused by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LoadOptions {
    /// For keys that exist.
    pub on_conflict: OnConflict,
    /// Truncates timestamps that are finer than a microsecond.
    pub truncate_timestamps: bool,
}

/// The outcome of a load, by rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Loaded {
    /// Rows that are new in the table.
    pub inserted: u64,
    /// Rows that were skipped.
    pub skipped: u64,
    /// Rows that replaced another.
    pub replaced: u64,
}

impl Loaded {
    /// Rows that were written.
    pub fn rows(&self) -> u64 {
        self.inserted + self.replaced
    }
}

/// How far a load has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// Bytes of the file read so far, compressed if it is; for Parquet in proportion to the rows.
    pub bytes_done: u64,
    /// Bytes of the file.
    pub bytes_total: u64,
    /// Rows read so far. Falls back to 0 when others aborted the transaction.
    pub rows: u64,
}

/// A file on its way into a table.
pub(crate) struct Source {
    /// The table.
    pub(crate) table: Table,
    /// The file.
    pub(crate) input: Input,
    /// The format of the file.
    pub(crate) format: Format,
    /// Positions of the columns that the statement names, in its order.
    pub(crate) columns: Option<Vec<usize>>,
    /// The treatment of rows and values that are refused by default.
    pub(crate) options: LoadOptions,
    /// The outcome of the last attempt to load the rows.
    pub(crate) tally: Tally,
}

/// The place where a load reports its outcome.
#[derive(Clone, Default)]
pub(crate) struct Tally(Arc<Mutex<Loaded>>);

impl Tally {
    fn set(&self, loaded: Loaded) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = loaded;
    }

    fn get(&self) -> Loaded {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The tag of a `COPY` that has written so many rows.
    pub(crate) fn tag(&self, rows: u64) -> String {
        match self.get() {
            Loaded { skipped: skipped @ 1.., .. } => format!("COPY {rows}, {skipped} skipped"),
            Loaded { replaced: replaced @ 1.., .. } => {
                format!("COPY {rows}, {replaced} of them replaced others")
            }
            _ => format!("COPY {rows}"),
        }
    }
}

impl Source {
    /// Loads every row of the file and says how many were written.
    pub(crate) fn load(
        &self,
        transaction: &mut Transaction,
        interrupt: &Interrupt,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<u64, Stop> {
        let loaded = match &self.format {
            Format::Csv { header, delimiter, null } => {
                let shape = csv::Shape { header: *header, delimiter: *delimiter, null };
                csv::load(self, shape, transaction, interrupt, progress)
            }
            Format::Parquet => parquet::load(self, transaction, interrupt, progress),
        };
        let loaded = loaded.map_err(|stop| match stop {
            Stop::Fail(error) => Stop::Fail(with_way_out(error)),
            abort => abort,
        })?;
        self.tally.set(loaded);
        Ok(loaded.rows())
    }

    /// What puts the rows into the table.
    pub(crate) fn inserter<'s>(
        &'s self,
        interrupt: &'s Interrupt,
    ) -> Result<Inserter<'s>, SqlError> {
        let mut unique = Vec::new();
        if self.options.on_conflict == OnConflict::Skip {
            let schema = self.table.schema();
            for spec in self.table.indexes().into_iter().filter(|spec| spec.unique) {
                let columns = spec.columns.iter().filter_map(|name| schema.position(name));
                unique.push((self.table.index(&spec.name)?, columns.collect()));
            }
        }
        Ok(Inserter { source: self, interrupt, unique, loaded: Loaded::default() })
    }
}

/// An error with the option that lets the load go on, if there is one.
fn with_way_out(error: SqlError) -> SqlError {
    let hint = match error.cause() {
        Some(Cause::DuplicateKey) => {
            "COPY … WITH (ON_CONFLICT skip) leaves such rows out, (ON_CONFLICT replace) replaces \
             the row that is there"
        }
        Some(Cause::FineTimestamp) => "COPY … WITH (TRUNCATE_TIMESTAMPS) cuts what is finer",
        _ => return error,
    };
    error.with_hint(Some(hint.to_owned()))
}

/// Puts the rows of a file into its table.
pub(crate) struct Inserter<'s> {
    source: &'s Source,
    interrupt: &'s Interrupt,
    /// Unique indexes. Conflicting rows are searched for before each insert: the transaction cannot
    /// continue after a conflict that the insert itself finds.
    unique: Vec<(Index, Vec<usize>)>,
    /// The outcome so far.
    pub(crate) loaded: Loaded,
}

impl Inserter<'_> {
    /// Inserts one row, or applies the chosen treatment if its key exists; `place` is its position
    /// in the file.
    pub(crate) fn insert(
        &mut self,
        transaction: &mut Transaction,
        row: &[Value],
        place: impl Fn() -> String,
    ) -> Result<(), Stop> {
        self.interrupt.check_row()?;
        let conflict = self.source.options.on_conflict;
        let table = &self.source.table;
        let mut taken = false;
        for (index, columns) in &self.unique {
            taken = taken || has_row(transaction, index, columns, row)?;
        }
        if !taken {
            match transaction.insert(table, row) {
                Ok(()) => {
                    self.loaded.inserted += 1;
                    return Ok(());
                }
                Err(TxnError::Error(Error::DuplicateKey { .. }))
                    if conflict != OnConflict::Fail => {}
                Err(error) => return Err(within(error, place)),
            }
        }
        if conflict == OnConflict::Skip {
            self.loaded.skipped += 1;
            return Ok(());
        }
        let schema = table.schema();
        let key: Vec<Value> = schema.primary_key().iter().map(|at| row[*at].clone()).collect();
        let others = (0..row.len()).filter(|at| !schema.is_in_key(*at));
        let changes: Vec<(usize, Value)> = others.map(|at| (at, row[at].clone())).collect();
        if !changes.is_empty() {
            transaction.update(table, &key, &changes).map_err(|error| within(error, place))?;
        }
        self.loaded.replaced += 1;
        Ok(())
    }
}

/// Whether a table has a row with the values that a new row has in a unique index.
fn has_row(
    transaction: &mut Transaction,
    index: &Index,
    columns: &[usize],
    row: &[Value],
) -> Result<bool, Stop> {
    let values: Vec<Value> = columns.iter().map(|at| row[*at].clone()).collect();
    if values.contains(&Value::Null) {
        return Ok(false);
    }
    let mut found = false;
    transaction.scan(
        index,
        Range::prefix(&values),
        |_| (),
        |()| {
            found = true;
            std::ops::ControlFlow::Break(())
        },
    )?;
    Ok(found)
}

fn within(error: TxnError, place: impl Fn() -> String) -> Stop {
    match Stop::from(error) {
        Stop::Fail(error) => Stop::Fail(error.within(&place())),
        abort => abort,
    }
}

/// Loads a file into a table as one transaction and returns the outcome.
///
/// With a CSV header, and in Parquet, columns are found by name; a column that may be NULL may be
/// missing. `question` is called between rows and tells whether to end, as that of a session.
///
/// # Errors
/// An unknown table, a file that cannot be read or holds values that the table cannot, and a key
/// that exists already. The table is then unchanged.
pub fn copy_from(
    db: &Database,
    table: &str,
    input: &Input,
    format: &Format,
    options: &LoadOptions,
    question: Option<Arc<Question>>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Loaded, SqlError> {
    let table = find_table(db, table, Span::empty())?;
    let (input, format, options) = (input.clone(), format.clone(), *options);
    let source = Source { table, input, format, columns: None, options, tally: Tally::default() };
    let interrupt = Interrupt::new(question);
    txn::run(db, None, |transaction| source.load(transaction, &interrupt, progress))?;
    Ok(source.tally.get())
}

/// The table of a name.
pub(crate) fn find_table(db: &Database, name: &str, span: Span) -> Result<Table, SqlError> {
    let known = db.tables();
    let error = match db.table(name) {
        Ok(table) => return Ok(table),
        Err(inherited @ atoll::Error::InheritedTable(_)) => SqlError::from(inherited),
        Err(_) if !known.iter().any(|table| table == name) => names::unknown_table(name, &known),
        Err(other) => SqlError::from(other),
    };
    Err(error.at(span))
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
    let (format, options) = format(&path, options)?;
    let input = Input::open(&path)?;
    Ok(Source { table, input, format, columns, options, tally: Tally::default() })
}

fn format(
    path: &Path,
    (options, legacy): (&[CopyOption], &[CopyLegacyOption]),
) -> Result<(Format, LoadOptions), SqlError> {
    let (mut named, mut header, mut delimiter, mut null) = (None, None, None, None);
    let mut load = LoadOptions::default();
    for option in options {
        if let Some(extra) = ExtraOption::of(option) {
            extra_option(&extra, &mut load)?;
            continue;
        }
        match option {
            CopyOption::Format(name) => named = Some(names::fold(name)),
            CopyOption::Header(value) => header = Some(*value),
            CopyOption::Delimiter(value) => delimiter = Some(ascii(*value)?),
            CopyOption::Null(value) => null = Some(value.clone()),
            other => {
                return Err(SqlError::unsupported(format!(
                    "COPY … WITH ({other}) is not supported"
                ))
                .with_hint(Some(OPTIONS.into())));
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
    let format = match guessed {
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
    };
    Ok((format?, load))
}

const OPTIONS: &str =
    "the options are FORMAT, HEADER, DELIMITER, NULL, ON_CONFLICT and TRUNCATE_TIMESTAMPS";

/// Takes an option that the parser does not know.
fn extra_option(option: &ExtraOption<'_>, load: &mut LoadOptions) -> Result<(), SqlError> {
    let value = option.value.map(|value| value.to_lowercase());
    let fault = |wanted: &str| {
        let (name, given) = (option.name, option.value.unwrap_or("nothing"));
        SqlError::new(SqlErrorKind::Syntax, format!("{name} is {wanted}, not {given}"))
            .at(option.span)
    };
    match (option.name.to_uppercase().as_str(), value.as_deref()) {
        ("ON_CONFLICT", value) => {
            load.on_conflict = match value {
                Some("fail" | "error" | "stop") => OnConflict::Fail,
                Some("skip" | "ignore" | "nothing") => OnConflict::Skip,
                Some("replace" | "update") => OnConflict::Replace,
                _ => return Err(fault("fail, skip or replace")),
            };
        }
        ("TRUNCATE_TIMESTAMPS", value) => {
            load.truncate_timestamps = match value {
                None | Some("true" | "on" | "1") => true,
                Some("false" | "off" | "0") => false,
                _ => return Err(fault("true or false")),
            };
        }
        (name, _) => {
            let message = format!("COPY … WITH ({name}) is not supported");
            return Err(SqlError::unsupported(message).at(option.span).with_hint(Some(
                match name {
                    // PostgreSQL's way to leave out rows that cannot be read.
                    "ON_ERROR" => "a file is loaded whole or not at all; ON_CONFLICT is about keys",
                    _ => OPTIONS,
                }
                .to_owned(),
            )));
        }
    }
    Ok(())
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
