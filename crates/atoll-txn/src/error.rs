//! How an operation of a transaction can end other than well.

use atoll_storage::StorageError;

use crate::scheme::AbortReason;

/// An abort is a normal outcome, an error is the world's or the caller's; they are kept apart so
/// that nobody retries an error or reports an abort.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Stop {
    /// The transaction has been rolled back; it may be tried again.
    #[error("the transaction was rolled back: {0}")]
    Abort(AbortReason),
    /// A row with this key exists. The transaction goes on as if nothing had been asked.
    #[error("table \"{table}\" has a row with key ({key}) already")]
    DuplicateKey {
        /// The table.
        table: String,
        /// The key as people write it.
        key: String,
    },
    /// An update would change a key. The transaction goes on as if nothing had been asked.
    #[error(
        "column \"{column}\" is part of the primary key of \"{table}\", which an update cannot \
         change; delete the row and insert it again"
    )]
    KeyUpdate {
        /// The table.
        table: String,
        /// The column.
        column: String,
    },
    /// A value that does not fit (the transaction goes on), or memory that could not be had (the
    /// transaction has been rolled back).
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// A table of another database. The transaction goes on as if nothing had been asked.
    #[error("table \"{0}\" belongs to another database than the transaction")]
    ForeignTable(String),
    /// Too many transactions are open at a time.
    #[error("{0} transactions are open at a time, which is the most; end one and try again")]
    TooManyWorkers(usize),
}

impl From<AbortReason> for Stop {
    fn from(reason: AbortReason) -> Self {
        Self::Abort(reason)
    }
}
