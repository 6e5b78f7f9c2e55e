//! Translation of every error of the layers below to a Python exception.
//!
//! The exception classes are written in Python (`atolldb/errors.py`), because several of them are
//! also built-in exceptions (`MemoryError`, `ValueError`, `KeyError`).

use arrow_schema::ArrowError;
use atoll::{LeaseError, MemoryError, RefusalCode, StorageError};
use atoll_adbc::registry::OpenError;
use atoll_adbc::rows::RowsError;
use atoll_sql::{Cause, SqlError, SqlErrorKind};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// The failures of operations of the package.
#[derive(Debug)]
pub(crate) enum Fault {
    /// An error of the database.
    Atoll(atoll::Error),
    /// An error of a statement, and the statement; boxed, because every `Outcome` has this size.
    Sql(Box<(SqlError, String)>),
    /// An error of Arrow.
    Arrow(ArrowError),
    /// A use of a closed or released object.
    Closed(&'static str),
    /// A column that the table does not have.
    UnknownColumn(String),
    /// Values that cannot be converted as requested.
    Value(String),
    /// A NumPy array that cannot share memory.
    NotContiguous(String),
    /// An argument has an unsupported type.
    Type(String),
    /// An exception of Python.
    Python(PyErr),
}

impl Fault {
    /// Returns the failure of `statement`; an empty text means that there was none.
    pub(crate) fn sql(error: SqlError, statement: impl Into<String>) -> Self {
        Self::Sql(Box::new((error, statement.into())))
    }
}

/// Result of an operation below Python.
pub(crate) type Outcome<T> = Result<T, Fault>;

impl From<atoll::Error> for Fault {
    fn from(error: atoll::Error) -> Self {
        Self::Atoll(error)
    }
}

impl From<SqlError> for Fault {
    fn from(error: SqlError) -> Self {
        Self::sql(error, "")
    }
}

impl From<StorageError> for Fault {
    fn from(error: StorageError) -> Self {
        Self::Atoll(error.into())
    }
}

impl From<RowsError> for Fault {
    fn from(error: RowsError) -> Self {
        match error {
            RowsError::Mismatch(text) | RowsError::Null(text) | RowsError::Value(text) => {
                Self::Value(text)
            }
            RowsError::Source(error) => error.into(),
            RowsError::Database(error) => error.into(),
        }
    }
}

impl From<OpenError> for Fault {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Database(error) => error.into(),
            other => Self::Value(other.to_string()),
        }
    }
}

impl From<ArrowError> for Fault {
    fn from(error: ArrowError) -> Self {
        match error {
            // An error of this package that passed through Arrow.
            ArrowError::ExternalError(inner) => match inner.downcast::<atoll::Error>() {
                Ok(own) => Self::Atoll(*own),
                Err(other) => Self::Arrow(ArrowError::ExternalError(other)),
            },
            other => Self::Arrow(other),
        }
    }
}

fn of_memory(error: &MemoryError) -> &'static str {
    match error {
        MemoryError::OutOfMemory { .. } | MemoryError::TooLarge { .. } => "OutOfMemory",
        MemoryError::ForeignVersion { .. } => "VersionMismatch",
        _ => "Error",
    }
}

fn of_storage(error: &StorageError) -> &'static str {
    match error {
        StorageError::UnknownTable(_) => "UnknownTable",
        StorageError::TableExists(_) => "TableExists",
        StorageError::Memory(error) => of_memory(error),
        StorageError::Schema(_)
        | StorageError::Type { .. }
        | StorageError::NullInColumn { .. }
        | StorageError::ColumnCount { .. }
        | StorageError::KeyCount { .. }
        | StorageError::TooLong { .. } => "InvalidValue",
        _ => "Error",
    }
}

fn of_lease(error: &LeaseError) -> &'static str {
    match error {
        LeaseError::UnknownName { .. } => "UnknownName",
        LeaseError::BadName { .. } => "InvalidValue",
        LeaseError::NameTaken { .. } => "NameTaken",
        LeaseError::VersionMismatch { .. } => "VersionMismatch",
        LeaseError::ForeignUser { .. } | LeaseError::DirForeign { .. } => "ForeignUser",
        LeaseError::OwnerGone { .. } | LeaseError::Closed { .. } | LeaseError::Timeout { .. } => {
            "OwnerGone"
        }
        LeaseError::ForkedChild { .. } => "ForkedChild",
        LeaseError::Refused { code, .. } => match code {
            RefusalCode::SnapshotLimit => "SnapshotLimit",
            RefusalCode::Expired => "SnapshotExpired",
            RefusalCode::OutOfMemory => "OutOfMemory",
            RefusalCode::Closing => "OwnerGone",
            RefusalCode::Version => "VersionMismatch",
            RefusalCode::ForeignUser => "ForeignUser",
            _ => "Error",
        },
        _ => "Error",
    }
}

fn of_atoll(error: &atoll::Error) -> &'static str {
    match error {
        atoll::Error::Storage(error) => of_storage(error),
        atoll::Error::Memory(error) => of_memory(error),
        atoll::Error::Lease(error) => of_lease(error),
        atoll::Error::ForkedChild { .. } => "ForkedChild",
        atoll::Error::DuplicateKey { .. } | atoll::Error::DuplicateIndexKey { .. } => {
            "DuplicateKey"
        }
        atoll::Error::KeyUpdate { .. } => "InvalidValue",
        atoll::Error::InheritedTable(_) => "ReadOnly",
        atoll::Error::SnapshotExpired(_) => "SnapshotExpired",
        atoll::Error::SnapshotLimit { .. } | atoll::Error::TooManySnapshots(_) => "SnapshotLimit",
        atoll::Error::Published(_) => "NameTaken",
        atoll::Error::NotContiguous { .. } => "NotContiguous",
        _ => "Error",
    }
}

/// Exception class and kind for an error of a statement.
fn of_sql(kind: SqlErrorKind) -> (&'static str, &'static str) {
    match kind {
        SqlErrorKind::Syntax => ("SqlError", "syntax"),
        SqlErrorKind::UnknownTable => ("SqlError", "unknown table"),
        SqlErrorKind::UnknownColumn => ("SqlError", "unknown column"),
        SqlErrorKind::UnknownTablespace => ("SqlError", "unknown tablespace"),
        SqlErrorKind::Type => ("SqlError", "type"),
        SqlErrorKind::Constraint => ("SqlError", "constraint"),
        SqlErrorKind::Schema => ("SqlError", "schema"),
        SqlErrorKind::ReadOnly => ("ReadOnly", "read-only"),
        SqlErrorKind::Unsupported => ("SqlError", "unsupported"),
        SqlErrorKind::Aborted => ("SqlError", "aborted"),
        SqlErrorKind::Expired => ("SnapshotExpired", "expired"),
        SqlErrorKind::ForkedChild => ("ForkedChild", "forked child"),
        SqlErrorKind::Input => ("SqlError", "input"),
        SqlErrorKind::OutOfMemory => ("SqlOutOfMemory", "out of memory"),
        SqlErrorKind::Cancelled => ("SqlError", "cancelled"),
        SqlErrorKind::Database => ("SqlError", "database"),
        _ => ("SqlError", "query"),
    }
}

fn raise(py: Python<'_>, class: &str, text: &str) -> PyResult<PyErr> {
    let class = py.import("atolldb.errors")?.getattr(class)?;
    Ok(PyErr::from_value(class.call1((text,))?))
}

fn raise_sql(py: Python<'_>, error: &SqlError, sql: &str) -> PyResult<PyErr> {
    let (class, kind) = match (error.cause(), of_sql(error.kind())) {
        (Some(Cause::DuplicateKey), (_, kind)) => ("SqlDuplicateKey", kind),
        (_, of_kind) => of_kind,
    };
    if matches!(class, "SnapshotExpired" | "ForkedChild") {
        return raise(py, class, error.message());
    }
    let rendered = error.render(sql);
    let text = rendered.strip_prefix("error: ").unwrap_or(&rendered);
    let facts = PyDict::new(py);
    facts.set_item("message", error.message())?;
    facts.set_item("kind", kind)?;
    facts.set_item("sqlstate", error.sqlstate())?;
    facts.set_item("line", error.position().map(|(line, _)| line))?;
    facts.set_item("column", error.position().map(|(_, column)| column))?;
    facts.set_item("hint", error.hint())?;
    let class = py.import("atolldb.errors")?.getattr(class)?;
    Ok(PyErr::from_value(class.call((text,), Some(&facts))?))
}

impl From<Fault> for PyErr {
    fn from(fault: Fault) -> Self {
        Python::attach(|py| {
            let raised = match &fault {
                Fault::Python(error) => Ok(error.clone_ref(py)),
                Fault::Atoll(error) => raise(py, of_atoll(error), &error.to_string()),
                Fault::Sql(failure) => raise_sql(py, &failure.0, &failure.1),
                Fault::Arrow(error) => {
                    raise(py, "InvalidValue", &atoll_sql::in_words_of_sql(&error.to_string()))
                }
                Fault::Closed(what) => raise(py, "Closed", what),
                Fault::UnknownColumn(text) => raise(py, "UnknownColumn", text),
                Fault::Value(text) => raise(py, "InvalidValue", text),
                Fault::NotContiguous(text) => raise(py, "NotContiguous", text),
                Fault::Type(text) => Ok(PyTypeError::new_err(text.clone())),
            };
            // The class is missing only in a broken installation; raise Python's error then.
            raised.unwrap_or_else(|error| error)
        })
    }
}
