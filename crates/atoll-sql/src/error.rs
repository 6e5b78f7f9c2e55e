//! Errors of statements, with their place and with advice.
//!
//! A [`SqlError`] is one sentence with a kind, a place in the statement where it is known, and a
//! hint where one helps. This module translates errors of the database; `parse` translates those of
//! the parser, `query_error` those of DataFusion.

use std::fmt;

use atoll::{AbortReason, DataType, LogError, MemoryError, RestoreError, Table, TxnError};
use sqlparser::tokenizer::Span;

use crate::about::{About, key_shown};

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
    /// NULL in a column that takes none.
    NullValue,
    /// A table of that name exists.
    TableExists,
    /// A table was dropped or altered since the statement was bound.
    TableChanged,
    /// A constraint of that name exists in the table.
    ConstraintExists,
    /// A column of that name exists in the table.
    ColumnExists,
    /// Something that others need cannot be dropped.
    Needed,
    /// A constraint or an index that does not exist.
    UnknownObject,
    /// An aggregate or a window function where there is no group of rows.
    Grouping,
    /// A condition that a table has for its rows would be false.
    CheckViolation,
    /// A row refers to one that does not exist, or would.
    ForeignKeyViolation,
    /// A foreign key to columns that are not unique, or of which there are too many or too few.
    InvalidForeignKey,
    /// A name of something of another kind than the statement needs.
    OtherObject,
    /// A value for a column that is computed.
    GeneratedColumn,
    /// An expression that cannot define what it is to define.
    InvalidDefinition,
    /// A column that its place does not take.
    InvalidReference,
    /// Checks of a table are still to be made in the transaction.
    PendingChecks,
    /// A division by zero.
    DivisionByZero,
    /// A subquery that stands for a value returned a second row, or a statement came to a row a
    /// second time.
    SecondRow,
    /// A timestamp that is finer than a microsecond.
    FineTimestamp,
    /// The transaction was part of a deadlock.
    Deadlock,
    /// Another transaction holds a row, and the statement does not wait, or not any longer.
    LockNotAvailable,
    /// The transaction was open for too long without a statement.
    IdleTimeout,
    /// An earlier statement of the transaction failed.
    FailedTransaction,
    /// No transaction is open.
    NoTransaction,
    /// A transaction is open already.
    OpenTransaction,
    /// A savepoint that is not set.
    UnknownSavepoint,
    /// No statement is prepared under the name.
    UnknownPrepared,
    /// A statement is prepared under the name already.
    PreparedExists,
    /// A statement is nested too deeply, or has too many parts.
    TooComplex,
    /// An operator or a function that does not exist for these types.
    NoSuchOperator,
    /// A value of another type than its place takes.
    OtherType,
    /// A name with a character that none may have.
    InvalidName,
    /// A name that is too long.
    LongName,
    /// Another number of values than of parameters.
    ParameterCount,
    /// A parameter of a type or of a setting that it cannot have.
    InvalidParameter,
    /// A parameter without a value, or that no statement can have.
    UnknownParameter,
}

/// An error of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SqlError {
    kind: SqlErrorKind,
    cause: Option<Cause>,
    /// The SQLSTATE, where kind and cause do not say it.
    state: Option<&'static str>,
    // Results carry errors, so they are small.
    message: Box<str>,
    position: Option<(u64, u64)>,
    detail: Option<Box<str>>,
    hint: Option<Box<str>>,
    about: Option<Box<About>>,
}

impl SqlError {
    /// An error without a place.
    /// An error of the program around a session, such as a server, with its SQLSTATE and a hint.
    pub fn around(state: &'static str, message: impl Into<String>, hint: Option<String>) -> Self {
        Self::new(SqlErrorKind::Database, message).with_state(state).with_hint(hint)
    }

    pub(crate) fn new(kind: SqlErrorKind, message: impl Into<String>) -> Self {
        let (cause, state, position, detail, hint, about) = (None, None, None, None, None, None);
        Self { kind, cause, state, message: message.into().into(), position, detail, hint, about }
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

    /// The same error with the values or the objects that it is about.
    pub(crate) fn with_detail(mut self, detail: String) -> Self {
        self.detail = Some(detail.into());
        self
    }

    /// The same error with a hint.
    pub(crate) fn with_hint(mut self, hint: Option<String>) -> Self {
        self.hint = hint.map(Into::into).or(self.hint);
        self
    }

    /// The same error with its cause.
    pub(crate) fn with_cause(mut self, cause: Cause) -> Self {
        self.cause = Some(cause);
        self
    }

    /// The same error with what the constraint is of that it is about.
    pub(crate) fn with_about(mut self, about: About) -> Self {
        self.about = Some(Box::new(about));
        self
    }

    /// The same error of a change of a table, with its name where only a column of it was told.
    pub(crate) fn in_table(mut self, table: &Table) -> Self {
        let is_null = self.cause == Some(Cause::NullValue);
        if let Some(about) = self.about.as_deref_mut()
            && is_null
            && about.table.is_none()
            && about.column.as_ref().is_some_and(|one| table.schema().position(one).is_some())
        {
            about.table = Some(table.name().to_owned());
        }
        self
    }

    /// The same error with its SQLSTATE.
    pub(crate) fn with_state(mut self, state: &'static str) -> Self {
        self.state = Some(state);
        self
    }

    /// The same error, with a prefix that names the row.
    pub(crate) fn within(mut self, place: &str) -> Self {
        self.message = format!("{place}: {}", self.message).into();
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

    /// Its SQLSTATE, if kind and cause do not say it.
    pub(crate) fn state(&self) -> Option<&'static str> {
        self.state
    }

    /// One sentence about the error.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Line and column in the statement, both from 1 and counted in characters.
    pub fn position(&self) -> Option<(u64, u64)> {
        self.position
    }

    /// The values or the objects that it is about.
    pub fn detail(&self) -> Option<&str> {
        self.detail.as_deref()
    }

    /// What the constraint is of that a row would break.
    pub fn about(&self) -> Option<&About> {
        self.about.as_deref()
    }

    pub(crate) fn about_mut(&mut self) -> Option<&mut About> {
        self.about.as_deref_mut()
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
        if let Some(detail) = &self.detail {
            text.push_str(&format!("\ndetail: {detail}"));
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

/// Why a change could not be applied to a transaction: a [`TxnError`] with an error of SQL.
pub(crate) enum ApplyError {
    /// The transaction was aborted; trying again may succeed.
    Abort(AbortReason),
    /// The change itself is wrong.
    Error(SqlError),
}

impl From<TxnError> for ApplyError {
    fn from(error: TxnError) -> Self {
        match error {
            TxnError::Abort(reason) => Self::Abort(reason),
            TxnError::Error(error) => Self::Error(SqlError::from(error)),
        }
    }
}

impl From<SqlError> for ApplyError {
    fn from(error: SqlError) -> Self {
        Self::Error(error)
    }
}

impl From<&atoll::Error> for SqlError {
    fn from(error: &atoll::Error) -> Self {
        use atoll::StorageError as Storage;
        if let atoll::Error::Storage(Storage::Type { expected: DataType::Enum(labels), .. }) = error
        {
            // All others are told when the value gets its type.
            let message = format!("unsafe use of new value of enum type {}", labels.shown());
            let hint = "New enum values must be committed before they can be used.".to_owned();
            let error = Self::new(SqlErrorKind::Schema, message);
            return error.with_state("55P04").with_hint(Some(hint));
        }
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
        let cause = match error {
            atoll::Error::DuplicateKey { .. } | atoll::Error::DuplicateIndexKey { .. } => {
                Some(Cause::DuplicateKey)
            }
            atoll::Error::Storage(Storage::NullInColumn { .. }) => Some(Cause::NullValue),
            atoll::Error::Storage(Storage::TableExists(_)) => Some(Cause::TableExists),
            atoll::Error::Aborted(AbortReason::Deadlock) => Some(Cause::Deadlock),
            atoll::Error::TableChanged(_) => Some(Cause::TableChanged),
            _ => None,
        };
        let exists = |key: &str| Some(format!("Key {} already exists.", key_shown(key)).into());
        let (about, detail) = match error {
            atoll::Error::DuplicateKey { table, key } => (Some(About::table(table)), exists(key)),
            atoll::Error::DuplicateIndexKey { table, index, key } => {
                (Some(About::table(table).constraint(index)), exists(key))
            }
            atoll::Error::Storage(Storage::NullInColumn { column }) => {
                (Some(About::column(column)), None)
            }
            _ => (None, None),
        };
        let about = about.map(Box::new);
        let state = state_of(error);
        Self { cause, state, detail, about, ..Self::new(kind, error.to_string()) }
    }
}

/// The state of an error of the database where that says more than its kind.
fn state_of(error: &atoll::Error) -> Option<&'static str> {
    use atoll::Error;
    Some(match error {
        Error::Memory(MemoryError::OutOfMemory { .. } | MemoryError::TooLarge { .. }) => "53200",
        Error::Log(LogError::Medium(cause) | LogError::Poisoned { cause, .. }) => {
            if cause.is_full() { "53100" } else { "58030" }
        }
        Error::Log(LogError::NotEmpty { .. } | LogError::CutShort { .. }) => "58P02",
        Error::Log(LogError::NoDatabase { .. } | LogError::Missing { .. })
        | Error::Restore(RestoreError::NoBackup { .. }) => "58P01",
        Error::Log(LogError::Damaged { .. }) => "XX001",
        Error::TooManyTransactions(_) => "53000",
        Error::TooManySnapshots(_) | Error::SnapshotLimit { .. } => "53400",
        Error::NotDurable => "55000",
        _ => return None,
    })
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

#[cfg(test)]
mod tests {
    use std::io::{Error, ErrorKind};
    use std::sync::Arc;

    use atoll::machine::MediumError;
    use sqlparser::tokenizer::Location;

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
    fn what_the_machine_lacks_is_told_apart() {
        let medium = |kind: ErrorKind| {
            let source = Arc::new(Error::from(kind));
            MediumError { what: "write", path: "/bank/log".to_owned(), source }
        };
        let state = |error: LogError| SqlError::from(atoll::Error::Log(error)).sqlstate();
        assert_eq!(state(medium(ErrorKind::StorageFull).into()), "53100");
        assert_eq!(state(medium(ErrorKind::QuotaExceeded).into()), "53100");
        assert_eq!(state(medium(ErrorKind::PermissionDenied).into()), "58030");
        let poisoned = |kind| LogError::Poisoned { tablespace: 0, cause: medium(kind) };
        assert_eq!(state(poisoned(ErrorKind::StorageFull)), "53100");
        assert_eq!(state(LogError::Closed), "58000");
    }
}
