//! A file on its way into a table: what is loaded, with which options, and the rows one by one.
//!
//! `csv`, `copy_text` and `parquet` read a file and pass its rows to a [`Sink`]; `copy` chooses
//! between them. A row with a key that exists is treated as [`OnConflict`] says, before the
//! transaction would fail because of it.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use atoll::{Error, Index, Range, Table, Transaction, TxnError, Value};

use crate::error::{ApplyError, SqlError};
use crate::input::Input;
use crate::interrupt::Interrupt;
use crate::prepared::run::{Loading, Part};
use crate::ruled::{Rules, stopped};
use crate::sink::Sink;

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
    /// Lines of fields with backslashes, as PostgreSQL's `COPY` writes them.
    Text {
        /// Whether the first line names the columns; it is passed over.
        header: bool,
        /// The ASCII character between two fields.
        delimiter: u8,
        /// A field without a value.
        null: String,
    },
    /// Rows in the forms in which PostgreSQL sends values, as its `COPY` writes them.
    Binary,
    /// Apache Parquet.
    Parquet,
}

impl Format {
    /// Comma-separated values with the names of the columns in the first line.
    pub fn csv() -> Self {
        Self::Csv { header: true, delimiter: b',', null: String::new() }
    }

    /// Lines of fields between tabs, as a dump has them.
    pub fn text() -> Self {
        Self::Text { header: false, delimiter: b'\t', null: "\\N".to_owned() }
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
    /// Defaults and conditions of the table, if it has some.
    pub(crate) rules: Option<Rules>,
    /// The treatment of rows and values that are refused by default.
    pub(crate) options: LoadOptions,
    /// The outcome of the last attempt to load the rows.
    pub(crate) tally: Tally,
}

/// The place where a load reports its outcome.
#[derive(Clone, Default)]
pub(crate) struct Tally(Arc<Mutex<Loaded>>);

impl Tally {
    pub(crate) fn set(&self, loaded: Loaded) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = loaded;
    }

    pub(crate) fn get(&self) -> Loaded {
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
    /// What puts the rows into the table.
    pub(crate) fn inserter<'s>(
        &'s self,
        transaction: &'s mut Transaction,
        interrupt: &'s Interrupt,
        part: Part<'s>,
    ) -> Result<Inserter<'s>, ApplyError> {
        let loading = match &self.rules {
            Some(rules) => rules.loading(transaction, part)?,
            None => None,
        };
        let mut unique = Vec::new();
        if self.options.on_conflict == OnConflict::Skip {
            let schema = self.table.schema();
            for spec in self.table.indexes().into_iter().filter(|spec| spec.unique) {
                let columns = spec.columns.iter().filter_map(|name| schema.position(name));
                let index = self.table.index(&spec.name).map_err(SqlError::from)?;
                unique.push(((index, spec.nulls_not_distinct), columns.collect()));
            }
        }
        let loaded = Loaded::default();
        Ok(Inserter { source: self, transaction, interrupt, unique, loading, loaded })
    }
}

/// Puts the rows of a file into its table, in a transaction.
pub(crate) struct Inserter<'s> {
    source: &'s Source,
    transaction: &'s mut Transaction,
    interrupt: &'s Interrupt,
    /// Unique indexes. Conflicting rows are searched for before each insert: the transaction cannot
    /// continue after a conflict that the insert itself finds.
    /// With whether NULL equals NULL in them.
    unique: Vec<((Index, bool), Vec<usize>)>,
    /// Keeps foreign keys, if there are some.
    loading: Option<Loading<'s>>,
    /// The outcome so far.
    loaded: Loaded,
}

impl Inserter<'_> {
    /// Ends the load, and says what it has done.
    ///
    /// # Errors
    /// A foreign key is violated.
    pub(crate) fn finish(self) -> Result<Loaded, ApplyError> {
        let Self { source, transaction, loading, loaded, .. } = self;
        if let (Some(rules), Some(loading)) = (&source.rules, loading) {
            rules.finish(loading, transaction)?;
        }
        Ok(loaded)
    }
}

impl Sink for Inserter<'_> {
    /// Inserts a row, or applies the chosen treatment if its key exists.
    fn row(&mut self, row: &[Value], place: &dyn Fn() -> String) -> Result<(), ApplyError> {
        self.interrupt.check_row()?;
        let transaction = &mut *self.transaction;
        let conflict = self.source.options.on_conflict;
        let table = &self.source.table;
        let mut taken = false;
        for ((index, nulls_not_distinct), columns) in &self.unique {
            let index = (index, *nulls_not_distinct);
            taken = taken || has_row(transaction, index, columns, row)?;
        }
        if !taken {
            if let Some(loading) = &mut self.loading {
                loading.store(transaction, row, None).map_err(stopped)?;
            }
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
            if let Some(loading) = &mut self.loading
                && let Some(old) = transaction.read(table, &key)?
            {
                loading.store(transaction, row, Some(&old)).map_err(stopped)?;
                loading.replaced(&old, row);
            }
            transaction.update(table, &key, &changes).map_err(|error| within(error, place))?;
        }
        self.loaded.replaced += 1;
        Ok(())
    }
}

/// Whether a table has a row with the values that a new row has in a unique index.
fn has_row(
    transaction: &mut Transaction,
    (index, nulls_not_distinct): (&Index, bool),
    columns: &[usize],
    row: &[Value],
) -> Result<bool, ApplyError> {
    let values: Vec<Value> = columns.iter().map(|at| row[*at].clone()).collect();
    // NULL equals nothing, as a rule.
    if values.contains(&Value::Null) && !nulls_not_distinct {
        return Ok(false);
    }
    let mut found = false;
    transaction.scan(
        index,
        Range::prefix(&values),
        |_| (),
        |()| {
            found = true;
            ControlFlow::Break(())
        },
    )?;
    Ok(found)
}

fn within(error: TxnError, place: &dyn Fn() -> String) -> ApplyError {
    match ApplyError::from(error) {
        ApplyError::Error(error) => ApplyError::Error(error.within(&place())),
        abort => abort,
    }
}
