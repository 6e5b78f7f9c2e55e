//! Errors of statements, with their place and with advice.
//!
//! A [`SqlError`] is one sentence with a kind, a place in the statement where it is known, and a
//! hint where one helps. This module translates errors of the layers below and of DataFusion;
//! `wording` puts their messages into the words of SQL.

use std::fmt;

use arrow_schema::ArrowError;
use datafusion::common::{Column, DataFusionError, SchemaError};
use sqlparser::parser::ParserError;
use sqlparser::tokenizer::{Location, Span, TokenizerError};

use crate::wording::sentence;
use crate::{limits, names, wording};

/// The kind of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SqlErrorKind {
    /// The text is not a statement.
    Syntax,
    /// A table that does not exist.
    UnknownTable,
    /// A column that does not exist.
    UnknownColumn,
    /// A tablespace that does not exist.
    UnknownTablespace,
    /// A value of the wrong type or out of its type's range.
    Type,
    /// A rule of the table is broken: a key that exists already, NULL where none may be.
    Constraint,
    /// A schema that no table can have, or a table that exists already.
    Schema,
    /// A change on a session that reads a snapshot.
    ReadOnly,
    /// A feature of SQL that Atoll does not support.
    Unsupported,
    /// The transaction lost against others, or an earlier statement of it failed.
    Aborted,
    /// The snapshot outlived its limits.
    Expired,
    /// The database belongs to the parent of this forked process.
    ForkedChild,
    /// A file that could not be read or has wrong contents.
    Input,
    /// A query that failed while it was planned or run.
    Query,
    /// A query that needs more memory, or more spill files, than queries may take.
    OutOfMemory,
    /// A statement that was cancelled.
    Cancelled,
    /// An error of the database itself.
    Database,
}

/// Causes that a program may treat separately, finer than [`SqlErrorKind`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Cause {
    /// A row with the key exists, or one with the values of a unique index.
    DuplicateKey,
    /// A timestamp that is finer than a microsecond.
    FineTimestamp,
}

/// An error of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SqlError {
    kind: SqlErrorKind,
    cause: Option<Cause>,
    message: String,
    position: Option<(u64, u64)>,
    hint: Option<String>,
}

impl SqlError {
    /// An error without a place.
    pub(crate) fn new(kind: SqlErrorKind, message: impl Into<String>) -> Self {
        Self { kind, cause: None, message: message.into(), position: None, hint: None }
    }

    /// An error for a feature of SQL that Atoll does not support.
    pub(crate) fn unsupported(message: impl Into<String>) -> Self {
        Self::new(SqlErrorKind::Unsupported, message)
    }

    /// The same error at a place, unless it has one already or the place is unknown.
    pub(crate) fn at(mut self, span: Span) -> Self {
        if self.position.is_none() && span.start.line > 0 {
            self.position = Some((span.start.line, span.start.column));
        }
        self
    }

    /// The same error with a hint.
    pub(crate) fn with_hint(mut self, hint: Option<String>) -> Self {
        self.hint = hint.or(self.hint);
        self
    }

    /// The same error with its cause.
    pub(crate) fn with_cause(mut self, cause: Cause) -> Self {
        self.cause = Some(cause);
        self
    }

    /// The same error, with a prefix that names the row.
    pub(crate) fn within(mut self, place: &str) -> Self {
        self.message = format!("{place}: {}", self.message);
        self
    }

    /// The kind of the error.
    pub fn kind(&self) -> SqlErrorKind {
        self.kind
    }

    /// Its cause, if it is one of those that are distinguished.
    pub fn cause(&self) -> Option<Cause> {
        self.cause
    }

    /// One sentence about the error.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Line and column in the statement, both from 1 and counted in characters.
    pub fn position(&self) -> Option<(u64, u64)> {
        self.position
    }

    /// Advice for the user.
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// The error with the offending line of the statement and a caret under the place.
    pub fn render(&self, sql: &str) -> String {
        let mut text = format!("error: {}", self.message);
        if let Some((line, column)) = self.position
            && let Some(source) = usize::try_from(line - 1).ok().and_then(|i| sql.lines().nth(i))
        {
            let before = usize::try_from(column.saturating_sub(1)).unwrap_or(0);
            // A tab before the caret must be as wide as the tab above it.
            let pad: String = source
                .chars()
                .chain(std::iter::repeat(' '))
                .take(before)
                .map(|c| if c == '\t' { '\t' } else { ' ' })
                .collect();
            let number = line.to_string();
            let gutter = " ".repeat(number.len());
            text.push_str(&format!("\n{gutter} |\n{number} | {source}\n{gutter} | {pad}^"));
        }
        if let Some(hint) = &self.hint {
            text.push_str(&format!("\nhint: {hint}"));
        }
        text
    }
}

impl fmt::Display for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for SqlError {}

/// Why a change that is not a statement failed.
#[derive(Debug)]
pub enum ChangeError {
    /// The session, or its open transaction, refuses it.
    Session(SqlError),
    /// The database refuses it.
    Database(atoll::Error),
}

impl fmt::Display for ChangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Session(error) => error.fmt(f),
            Self::Database(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ChangeError {}

impl From<SqlError> for ChangeError {
    fn from(error: SqlError) -> Self {
        Self::Session(error)
    }
}

impl From<atoll::Error> for ChangeError {
    fn from(error: atoll::Error) -> Self {
        Self::Database(error)
    }
}

impl From<ChangeError> for SqlError {
    fn from(error: ChangeError) -> Self {
        match error {
            ChangeError::Session(error) => error,
            ChangeError::Database(error) => Self::from(error),
        }
    }
}

impl From<&atoll::Error> for SqlError {
    fn from(error: &atoll::Error) -> Self {
        use atoll::StorageError as Storage;
        let kind = match error {
            atoll::Error::Storage(Storage::UnknownTable(_)) => SqlErrorKind::UnknownTable,
            atoll::Error::DuplicateKey { .. }
            | atoll::Error::DuplicateIndexKey { .. }
            | atoll::Error::Storage(Storage::NullInColumn { .. }) => SqlErrorKind::Constraint,
            atoll::Error::Storage(Storage::Schema(_) | Storage::TableExists(_)) => {
                SqlErrorKind::Schema
            }
            atoll::Error::Storage(
                Storage::Type { .. } | Storage::TooLong { .. } | Storage::ColumnCount { .. },
            ) => SqlErrorKind::Type,
            atoll::Error::InheritedTable(_) => SqlErrorKind::ReadOnly,
            atoll::Error::SnapshotExpired(_) => SqlErrorKind::Expired,
            atoll::Error::Aborted(_) => SqlErrorKind::Aborted,
            atoll::Error::ForkedChild { .. } => SqlErrorKind::ForkedChild,
            _ => SqlErrorKind::Database,
        };
        let duplicate = matches!(
            error,
            atoll::Error::DuplicateKey { .. } | atoll::Error::DuplicateIndexKey { .. }
        );
        let cause = duplicate.then_some(Cause::DuplicateKey);
        Self { cause, ..Self::new(kind, error.to_string()) }
    }
}

impl From<atoll::Error> for SqlError {
    fn from(error: atoll::Error) -> Self {
        Self::from(&error)
    }
}

impl From<atoll::StorageError> for SqlError {
    fn from(error: atoll::StorageError) -> Self {
        Self::from(&atoll::Error::Storage(error))
    }
}

impl From<TokenizerError> for SqlError {
    fn from(error: TokenizerError) -> Self {
        let span = Span::new(error.location, error.location);
        Self::new(SqlErrorKind::Syntax, sentence(&error.message)).at(span)
    }
}

impl From<ParserError> for SqlError {
    fn from(error: ParserError) -> Self {
        let text = match error {
            ParserError::TokenizerError(text) | ParserError::ParserError(text) => text,
            ParserError::RecursionLimitExceeded => {
                "the statement is nested too deeply; split it".to_owned()
            }
        };
        // The parser keeps the place at the end of its message only.
        let (text, place) = match text.rsplit_once(" at Line: ") {
            Some((before, place)) => (before.to_owned(), parse_location(place)),
            None => (text, None),
        };
        let error = Self::new(SqlErrorKind::Syntax, sentence(&text));
        match place {
            Some(location) => error.at(Span::new(location, location)),
            None => error,
        }
    }
}

/// Reads `3, Column: 14`.
fn parse_location(text: &str) -> Option<Location> {
    let (line, column) = text.split_once(", Column: ")?;
    Some(Location::new(line.trim().parse().ok()?, column.trim().parse().ok()?))
}

impl From<DataFusionError> for SqlError {
    fn from(error: DataFusionError) -> Self {
        let span = error.diagnostic().and_then(|diagnostic| diagnostic.span);
        let translated = translate(error.find_root());
        match span {
            Some(span) => translated.at(Span::new(
                Location::new(span.start.line, span.start.column),
                Location::new(span.end.line, span.end.column),
            )),
            None => translated,
        }
    }
}

/// The error at the root of one of DataFusion's.
fn translate(error: &DataFusionError) -> SqlError {
    match error {
        DataFusionError::External(inner) => of_external(inner.as_ref()),
        DataFusionError::Diagnostic(_, inner) | DataFusionError::Context(_, inner) => {
            translate(inner)
        }
        DataFusionError::Shared(inner) => translate(inner),
        DataFusionError::Collection(errors) if !errors.is_empty() => translate(&errors[0]),
        DataFusionError::SchemaError(schema, _) => match schema.as_ref() {
            SchemaError::FieldNotFound { field, valid_fields } => {
                unknown_field(field, valid_fields)
            }
            other => wording::of_query(&other.to_string()),
        },
        // `LIMITS-2`: only our pool refuses, whatever the operator reports.
        DataFusionError::ResourcesExhausted(_) => limits::exhausted("the query needs"),
        DataFusionError::IoError(error) => of_spill(error),
        DataFusionError::NotImplemented(text) => wording::of_missing(text),
        DataFusionError::SQL(parser, _) => SqlError::from((**parser).clone()),
        DataFusionError::Plan(text)
            if ["DDL ", "DML ", "Statement "].iter().any(|what| text.starts_with(what)) =>
        {
            SqlError::unsupported("a query reads tables; it cannot create or change anything")
        }
        DataFusionError::Plan(text) if text.contains("not supported") => wording::of_missing(text),
        DataFusionError::ArrowError(arrow, _) => match arrow.as_ref() {
            ArrowError::DivideByZero => SqlError::new(SqlErrorKind::Query, "division by zero"),
            ArrowError::IoError(_, error) => of_spill(error),
            ArrowError::ExternalError(inner) => of_external(inner.as_ref()),
            ArrowError::NotYetImplemented(text) => wording::of_missing(text),
            other => wording::of_query(&other.to_string()),
        },
        // An internal error of DataFusion, unless it is the last part of a known message.
        DataFusionError::Internal(text) => wording::of_internal(text),
        DataFusionError::ExecutionJoin(_) => wording::fault(),
        other => wording::of_query(&other.message()),
    }
}

/// An error that came through DataFusion or Arrow.
fn of_external(error: &(dyn std::error::Error + Send + Sync + 'static)) -> SqlError {
    if let Some(own) = error.downcast_ref::<SqlError>() {
        return own.clone();
    }
    if let Some(own) = error.downcast_ref::<atoll::Error>() {
        return SqlError::from(own);
    }
    if let Some(inner) = error.downcast_ref::<DataFusionError>() {
        return translate(inner.find_root());
    }
    wording::of_query(&error.to_string())
}

/// The error of a spill file, which is the only kind of file that a query has.
fn of_spill(error: &std::io::Error) -> SqlError {
    let own = error.get_ref().and_then(|inner| inner.downcast_ref::<SqlError>());
    let other = || SqlError::new(SqlErrorKind::Query, sentence(&error.to_string()));
    own.cloned().unwrap_or_else(other)
}

/// The error for a column that is not there: perhaps its table is not there either.
fn unknown_field(field: &Column, valid: &[Column]) -> SqlError {
    let table_of = |column: &Column| column.relation.as_ref().map(|r| r.table().to_owned());
    let table = table_of(field);
    if let Some(table) = &table {
        let mut tables: Vec<String> = valid.iter().filter_map(table_of).collect();
        tables.sort();
        tables.dedup();
        if !tables.contains(table) {
            return names::unknown_qualifier(table, tables.iter().map(String::as_str));
        }
    }
    let columns = valid
        .iter()
        .filter(|column| table.is_none() || table_of(column) == table)
        // One without a name of its own cannot be written.
        .filter(|column| wording::in_sql(&column.name) == column.name)
        .map(|column| column.name.as_str());
    names::unknown_column(field.name(), table.as_deref(), columns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_caret_stands_under_the_place() {
        let error = SqlError::new(SqlErrorKind::Syntax, "no such thing")
            .at(Span::new(Location::new(2, 8), Location::new(2, 9)))
            .with_hint(Some("try another".into()));
        assert_eq!(
            error.render("SELECT\n  a, b, c"),
            "error: no such thing\n  |\n2 |   a, b, c\n  |        ^\nhint: try another"
        );
    }

    #[test]
    fn a_tab_before_the_caret_stays_a_tab() {
        let error = SqlError::new(SqlErrorKind::Syntax, "x")
            .at(Span::new(Location::new(1, 3), Location::new(1, 3)));
        assert!(error.render("\tab").ends_with("| \t ^"));
    }

    #[test]
    fn the_place_of_a_parse_error_is_read_from_its_end() {
        let error = SqlError::from(ParserError::ParserError(
            "Expected: an expression, found: ; at Line: 3, Column: 14".into(),
        ));
        assert_eq!(error.position(), Some((3, 14)));
        assert_eq!(error.message(), "expected: an expression, found: ;");
    }
}
