//! `COPY … FROM`: a file into a table, as one transaction.
//!
//! `COPY-1`: a file is loaded completely or not at all. Malformed input names its line (or row),
//! column and value, and the table is left as it was.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use atoll::{Database, Transaction};
use sqlparser::ast::{
    CopyLegacyCsvOption, CopyLegacyOption, CopyOption, CopySource, CopyTarget, Ident, Statement,
};
use sqlparser::tokenizer::Span;

use crate::copy_syntax::{self, ExtraOption};
use crate::error::{ApplyError, Cause, SqlError, SqlErrorKind};
use crate::input::Input;
use crate::interrupt::{Interrupt, Question};
use crate::load::{Format, LoadOptions, Loaded, OnConflict, Progress, Source, Tally};
use crate::parse;
use crate::prepared::cache::Shared;
use crate::prepared::query::Binder;
use crate::prepared::run::Part;
use crate::ruled::{Ruled, Rules};
use crate::scope::Scope;
use crate::sequence::context::{self, Context};
use crate::settings::Choice;
use crate::sink::Sink;
use crate::view::View;
use crate::zone::{self, Zone};
use crate::{copy_binary, copy_text, csv, names, parquet, txn};

impl Source {
    /// Loads every row of the file and says how many were written.
    pub(crate) fn load(
        &self,
        transaction: &mut Transaction,
        part: Part<'_>,
        interrupt: &Interrupt,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<u64, ApplyError> {
        let mut inserter = self.inserter(transaction, interrupt, part)?;
        self.read(&mut inserter, progress)?;
        let loaded = inserter.finish()?;
        context::write_pending(transaction)?;
        self.tally.set(loaded);
        Ok(loaded.rows())
    }

    /// Passes every row of the file to a sink.
    pub(crate) fn read(
        &self,
        sink: &mut dyn Sink,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(), ApplyError> {
        let mut ruled =
            self.rules.as_ref().map(|rules| Ruled::new(rules, &self.table, sink)).transpose()?;
        let sink: &mut dyn Sink = match &mut ruled {
            Some(ruled) => ruled,
            None => sink,
        };
        let read = match &self.format {
            Format::Csv { header, delimiter, null } => {
                let shape = csv::Shape { header: *header, delimiter: *delimiter, null };
                csv::load(self, shape, sink, progress)
            }
            Format::Text { header, delimiter, null } => {
                let shape = csv::Shape { header: *header, delimiter: *delimiter, null };
                copy_text::load(self, shape, sink, progress)
            }
            Format::Binary => copy_binary::load(self, sink, progress),
            Format::Parquet => parquet::load(self, sink, progress),
        };
        read.map_err(|error| match error {
            ApplyError::Error(error) => ApplyError::Error(with_way_out(error)),
            abort => abort,
        })
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
    let scope = Scope::of(db)?;
    let table = names::find_table(&scope, table, Span::empty())?;
    let (input, format, options) = (input.clone(), format.clone(), *options);
    let interrupt = Interrupt::new(question, None, None);
    let replaces = options.on_conflict == OnConflict::Replace;
    let binder = Binder { scope: &scope, interrupt: &interrupt };
    let rules = Rules::of(&table, replaces, None, &binder)?;
    let (columns, tally) = (None, Tally::default());
    let source = Source { table, input, format, columns, rules, options, tally };
    // No session says in which zone its instants are.
    let load = || source.load_alone(db, None, &interrupt, progress);
    let shared = Shared::of(db);
    let (sequences, together) = (Arc::clone(&shared.sequences), shared.together.clone());
    let context = Context::on_database(db.clone(), sequences, together);
    context::with(&context, || zone::with(Zone::default(), load))?;
    context.store_pending()?;
    Ok(source.tally.get())
}

impl Source {
    /// Loads every row of the file as a transaction of its own and returns the number of rows that
    /// were written.
    pub(crate) fn load_alone(
        &self,
        db: &Database,
        durability: Choice,
        interrupt: &Interrupt,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<u64, SqlError> {
        // Parents have to be held, which a load outside transactions does not.
        let has_parents = self.rules.as_ref().is_some_and(Rules::has_foreign_keys);
        if !has_parents
            && let Some(inserted) = self.load_in_bulk(db, durability, interrupt, progress)?
        {
            self.tally.set(Loaded { inserted, ..Loaded::default() });
            return Ok(inserted);
        }
        txn::run(db, durability, |transaction| {
            self.load(transaction, Part::whole(), interrupt, progress)
        })
    }
}

/// Whether a statement is a `COPY … FROM STDIN`, which has its data behind it.
pub fn copies_from_stdin(statement: &str) -> bool {
    let mut words = statement.split_whitespace().filter(|word| !word.starts_with("--"));
    let is_copy = |word: &str| word.eq_ignore_ascii_case("copy");
    // Comments before it have more words; then the parser tells.
    if !statement.to_ascii_lowercase().contains("stdin") || !words.any(is_copy) {
        return false;
    }
    let parsed = parse::one(statement);
    matches!(parsed, Ok(Statement::Copy { to: false, target: CopyTarget::Stdin, .. }))
}

/// The source that a `COPY` statement describes.
pub(crate) fn source(
    scope: &Scope,
    from: &CopySource,
    to: bool,
    target: &CopyTarget,
    (options, given): ((&[CopyOption], &[CopyLegacyOption]), Option<&Input>),
    interrupt: &Interrupt,
) -> Result<Source, SqlError> {
    if to {
        return Err(SqlError::unsupported("COPY … TO is not supported")
            .with_hint(Some("export a snapshot as Arrow or Parquet from Python".to_owned())));
    }
    let CopySource::Table { table_name, columns } = from else {
        return Err(SqlError::unsupported("COPY needs the name of a table"));
    };
    let path = match (target, given) {
        (CopyTarget::File { filename }, _) => Some(PathBuf::from(filename)),
        (CopyTarget::Stdin, Some(_)) => None,
        (CopyTarget::Stdin, None) => {
            return Err(SqlError::unsupported("COPY … FROM STDIN has no data here")
                .with_hint(Some(
                "a script of the shell has the data in the lines behind the statement, up to \\."
                    .to_owned(),
            )));
        }
        _ => {
            let message = "COPY reads files and STDIN: COPY t FROM 'file.csv'";
            return Err(SqlError::unsupported(message));
        }
    };
    let (name, span) = names::table_name(table_name)?;
    if View::find(&scope.catalog, &name)?.is_some() {
        return Err(no_copy_to_view(&name, span));
    }
    let table = names::find_table(scope, &name, span)?;
    let columns = (!columns.is_empty())
        .then(|| names::target_columns(&table, columns.iter().map(Ok::<&Ident, SqlError>)))
        .transpose()?;
    let (format, load) = format(path.as_deref(), options)?;
    let input = match (&path, given) {
        (None, Some(given)) => given.clone(),
        (path, _) => Input::open(path.as_deref().unwrap_or(Path::new("")))?,
    };
    let replaces = load.on_conflict == OnConflict::Replace;
    let mut extra = options.0.iter().filter_map(ExtraOption::of);
    let condition = extra.find_map(|option| copy_syntax::condition(&option));
    let rules = Rules::of(&table, replaces, condition, &Binder { scope, interrupt })?;
    Ok(Source { table, input, format, columns, rules, options: load, tally: Tally::default() })
}

pub(crate) fn no_copy_to_view(name: &str, span: Span) -> SqlError {
    let message = format!("cannot copy to view \"{name}\"");
    SqlError::unsupported(message).with_state("42809").at(span)
}

/// Whether a `COPY` says that its data are in the binary format.
pub(crate) fn is_binary(options: &[CopyOption], legacy: &[CopyLegacyOption]) -> bool {
    let says = |option: &CopyOption| match option {
        CopyOption::Format(name) => names::fold(name) == "binary",
        _ => false,
    };
    options.iter().any(says) || legacy.contains(&CopyLegacyOption::Binary)
}

/// Checks the options of a `COPY … FROM STDIN`.
///
/// # Errors
/// One that is not supported.
pub(crate) fn check_options(
    options: &[CopyOption],
    legacy: &[CopyLegacyOption],
) -> Result<(), SqlError> {
    format(None, (options, legacy)).map(drop)
}

/// Whether a name of an encoding is that of the one that there is.
pub(crate) fn is_utf8(name: &str) -> bool {
    ["utf8", "utf-8", "unicode"].iter().any(|one| name.eq_ignore_ascii_case(one))
}

fn format(
    path: Option<&Path>,
    (options, legacy): (&[CopyOption], &[CopyLegacyOption]),
) -> Result<(Format, LoadOptions), SqlError> {
    let (mut named, mut header, mut delimiter, mut null) = (None, None, None, None);
    let mut load = LoadOptions::default();
    for option in options {
        if let Some(extra) = ExtraOption::of(option) {
            if copy_syntax::condition(&extra).is_some() {
                continue;
            }
            extra_option(&extra, &mut load)?;
            continue;
        }
        match option {
            CopyOption::Format(name) => named = Some(names::fold(name)),
            CopyOption::Header(value) => header = Some(*value),
            CopyOption::Delimiter(value) => delimiter = Some(ascii(*value)?),
            CopyOption::Null(value) => null = Some(value.clone()),
            // Rows are as they are after other loads: what PostgreSQL does here has no counterpart.
            CopyOption::Freeze(_) => {}
            CopyOption::Encoding(name) if is_utf8(name) => {}
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
            CopyLegacyOption::Csv(inner)
                if inner.iter().all(|one| *one == CopyLegacyCsvOption::Header) =>
            {
                named = Some("csv".to_owned());
                header = header.or((!inner.is_empty()).then_some(true));
            }
            CopyLegacyOption::Binary => named = Some("binary".to_owned()),
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
        Some("text") => Format::text(),
        Some("binary") => Format::Binary,
        Some(other) => {
            return Err(SqlError::unsupported(format!("COPY knows no format \"{other}\""))
                .with_hint(Some("the formats are csv, text, binary and parquet".to_owned())));
        }
        None => match path {
            // As in PostgreSQL.
            None => Format::text(),
            Some(path) => Format::of_path(path).ok_or_else(|| {
                let message = format!("the name of {} does not tell its format", path.display());
                let hint = "add WITH (FORMAT csv), WITH (FORMAT text) or WITH (FORMAT parquet)";
                SqlError::new(SqlErrorKind::Input, message).with_hint(Some(hint.to_owned()))
            })?,
        },
    };
    let format = match guessed {
        // As in PostgreSQL, a statement has a header only if it says so.
        Format::Csv { delimiter: usual, .. } => Ok(Format::Csv {
            header: header.unwrap_or(false),
            delimiter: delimiter.unwrap_or(usual),
            null: null.unwrap_or_default(),
        }),
        Format::Text { delimiter: usual, null: usual_null, .. } => Ok(Format::Text {
            header: header.unwrap_or(false),
            delimiter: delimiter.unwrap_or(usual),
            null: null.unwrap_or(usual_null),
        }),
        Format::Binary | Format::Parquet
            if header.or(delimiter.map(|_| true)).is_some() || null.is_some() =>
        {
            let message = "HEADER, DELIMITER and NULL are no options of parquet and binary";
            Err(SqlError::unsupported(message))
        }
        other @ (Format::Binary | Format::Parquet) => Ok(other),
    };
    Ok((format?, load))
}

const OPTIONS: &str =
    "the options are FORMAT, HEADER, DELIMITER, NULL, ON_CONFLICT and TRUNCATE_TIMESTAMPS";

/// Whether rows that are there already are looked at, or replaced.
pub(crate) fn may_meet_rows(options: &[CopyOption]) -> bool {
    let extras = options.iter().filter_map(ExtraOption::of);
    extras.into_iter().any(|extra| extra.name.eq_ignore_ascii_case("ON_CONFLICT"))
}

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

pub(crate) fn ascii(delimiter: char) -> Result<u8, SqlError> {
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
