//! Translation of errors to those of ADBC: a status, an SQLSTATE and a message.
//!
//! The SQLSTATEs are PostgreSQL's. The statuses are chosen so that Python's database interface
//! raises the class that its specification asks for.

use std::ffi::c_char;
use std::panic::{AssertUnwindSafe, catch_unwind};

use adbc_core::error::{Error, Status};
use arrow_schema::ArrowError;
use atoll::{LeaseError, RefusalCode, StorageError};
use atoll_sql::{Cause, ChangeError, SqlError, SqlErrorKind, in_words_of_sql};

use crate::registry::OpenError;
use crate::rows::RowsError;

/// Result of an operation of the driver.
pub(crate) type Result<T> = std::result::Result<T, Error>;

/// The SQLSTATE of a `COMMIT` which rolls back.
pub(crate) const ROLLED_BACK: &str = "40000";

/// An error with an SQLSTATE.
pub(crate) fn error(status: Status, state: &str, message: impl Into<String>) -> Error {
    let mut error = Error::with_message_and_status(message, status);
    for (to, from) in error.sqlstate.iter_mut().zip(state.bytes()) {
        *to = from as c_char;
    }
    error
}

/// Runs `work`, and returns an error where it panics: `adbc_ffi` refuses all calls of the process
/// after a panic that it has to catch.
pub(crate) fn guarded<R>(work: impl FnOnce() -> Result<R>) -> Result<R> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        Err(error(Status::Internal, "XX000", "a fault in Atoll has ended the call"))
    })
}

/// The error for what the driver does not do.
pub(crate) fn unsupported(message: impl Into<String>) -> Error {
    error(Status::NotImplemented, "0A000", message)
}

/// The error for a call that comes at the wrong moment.
pub(crate) fn wrong_state(message: impl Into<String>) -> Error {
    error(Status::InvalidState, "55000", message)
}

/// The error for a wrong argument.
pub(crate) fn wrong_argument(message: impl Into<String>) -> Error {
    error(Status::InvalidArguments, "22023", message)
}

/// The status for a kind of error.
fn status(kind: SqlErrorKind, cause: Option<Cause>) -> Status {
    use SqlErrorKind as Kind;
    match (kind, cause) {
        (_, Some(Cause::DuplicateKey | Cause::NullValue)) => Status::Integrity,
        (_, Some(Cause::TableExists | Cause::PreparedExists)) => Status::AlreadyExists,
        (_, Some(Cause::UnknownPrepared | Cause::UnknownSavepoint)) => Status::NotFound,
        (_, Some(Cause::NoTransaction | Cause::OpenTransaction)) => Status::InvalidState,
        (Kind::Syntax | Kind::Schema, _) => Status::InvalidArguments,
        (Kind::UnknownTable | Kind::UnknownColumn | Kind::UnknownTablespace, _) => Status::NotFound,
        (Kind::Type | Kind::Query, _) => Status::InvalidData,
        (Kind::Constraint, _) => Status::Integrity,
        // A change where nothing can be changed is a feature that is missing there.
        (Kind::ReadOnly | Kind::Unsupported, _) => Status::NotImplemented,
        (Kind::ForkedChild, _) => Status::InvalidState,
        (Kind::Cancelled, _) => Status::Cancelled,
        // As PostgreSQL's own driver: trying again may succeed.
        _ => Status::IO,
    }
}

/// The error of a statement, with the place in its text.
pub(crate) fn of_sql(error: &SqlError, text: &str) -> Error {
    let rendered = error.render(text);
    let message = rendered.strip_prefix("error: ").unwrap_or(&rendered);
    self::error(status(error.kind(), error.cause()), error.sqlstate(), message)
}

/// The error of a change that is not a statement.
pub(crate) fn of_change(error: ChangeError) -> Error {
    match error {
        ChangeError::Session(error) => of_sql(&error, ""),
        ChangeError::Database(error) => of_database(&error),
    }
}

/// The error of a database.
pub(crate) fn of_database(error: &atoll::Error) -> Error {
    let (status, state) = match error {
        atoll::Error::InUse { .. } => (Status::InvalidState, "55006"),
        atoll::Error::Lease(error) => of_lease(error),
        atoll::Error::Memory(_) | atoll::Error::Storage(StorageError::Memory(_)) => {
            (Status::IO, "53200")
        }
        atoll::Error::SnapshotLimit { .. } | atoll::Error::TooManySnapshots(_) => {
            (Status::IO, "53400")
        }
        error => {
            let error = SqlError::from(error);
            (status(error.kind(), error.cause()), error.sqlstate())
        }
    };
    self::error(status, state, error.to_string())
}

fn of_lease(error: &LeaseError) -> (Status, &'static str) {
    match error {
        LeaseError::UnknownName { .. } => (Status::NotFound, "3D000"),
        LeaseError::BadName { .. } => (Status::InvalidArguments, "22023"),
        LeaseError::ForeignUser { .. } | LeaseError::DirForeign { .. } => {
            (Status::Unauthorized, "42501")
        }
        LeaseError::ForkedChild { .. } => (Status::InvalidState, "08003"),
        LeaseError::Refused { code: RefusalCode::ForeignUser, .. } => {
            (Status::Unauthorized, "42501")
        }
        LeaseError::Refused { code: RefusalCode::SnapshotLimit, .. } => (Status::IO, "53400"),
        LeaseError::Refused { code: RefusalCode::OutOfMemory, .. } => (Status::IO, "53200"),
        _ => (Status::IO, "08006"),
    }
}

/// The error of opening a folder.
pub(crate) fn of_open(error: &OpenError) -> Error {
    match error {
        OpenError::Database(error) => of_database(error),
        OpenError::Path { .. } => self::error(Status::IO, "58030", error.to_string()),
        OpenError::Settings { .. } => wrong_argument(error.to_string()),
    }
}

/// The error of rows that a table is to hold.
pub(crate) fn of_rows(error: RowsError) -> Error {
    match error {
        RowsError::Mismatch(what) => self::error(Status::AlreadyExists, "42804", what),
        RowsError::Null(what) => self::error(Status::Integrity, "23502", what),
        RowsError::Value(what) => self::error(Status::InvalidData, "22000", what),
        RowsError::Source(error) => of_source(&error),
        RowsError::Database(error) => of_database(&error),
    }
}

/// The error of a stream that the client gives.
pub(crate) fn of_source(error: &ArrowError) -> Error {
    let told = in_words_of_sql(&error.to_string());
    self::error(Status::InvalidData, "22000", format!("the given data cannot be read: {told}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_panic_is_an_error_of_its_call() {
        let error = guarded(|| -> Result<()> { panic!("on purpose") }).unwrap_err();
        assert_eq!(error.status, Status::Internal);
        assert_eq!(guarded(|| Ok(1)).unwrap(), 1);
    }

    #[test]
    fn an_error_has_the_state_of_its_kind() {
        let state = |error: &Error| error.sqlstate.map(|one| one as u8 as char);
        let taken = StorageError::TableExists("t".into());
        let taken = of_database(&taken.into());
        assert_eq!(
            (taken.status, state(&taken)),
            (Status::AlreadyExists, ['4', '2', 'P', '0', '7'])
        );
        let null = of_rows(RowsError::Null("x".into()));
        assert_eq!((null.status, state(&null)), (Status::Integrity, ['2', '3', '5', '0', '2']));
        let wrong = wrong_state("x");
        assert_eq!(
            (wrong.status, state(&wrong)),
            (Status::InvalidState, ['5', '5', '0', '0', '0'])
        );
    }
}
