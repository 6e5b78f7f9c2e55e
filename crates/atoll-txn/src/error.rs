//! The errors of a transaction's operations.

use atoll_machine::Machine;
use atoll_storage::{StorageError, Table};

use crate::journal::JournalError;
use crate::scheme::AbortReason;

/// Why an operation did not succeed. An abort is a normal outcome; an error has its cause in the
/// environment or the caller. They are separate so that no caller retries an error or reports an
/// abort.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpError {
    /// The transaction has been rolled back; the caller may try again.
    #[error("the transaction was rolled back: {0}")]
    Abort(AbortReason),
    /// Another transaction holds the row, and the operation does not wait. The transaction may go
    /// on.
    #[error("another transaction holds the row")]
    Held,
    /// A row with this key exists. The new row has not been inserted, and the transaction may go
    /// on.
    #[error("table \"{table}\" has a row with key {key} already")]
    DuplicateKey {
        /// The table.
        table: String,
        /// The key as a user writes it, with its columns: `id = 7`.
        key: String,
    },
    /// Another row has these values in a unique index. The transaction has been rolled back.
    #[error("table \"{table}\" has a row with {key} already, and its index \"{index}\" is unique")]
    DuplicateIndexKey {
        /// The table.
        table: String,
        /// The index.
        index: String,
        /// The values as a user writes them, with their columns: `mail = 'ann@x.org'`.
        key: String,
    },
    /// An update would change a key. If a callback has tried to change it, the transaction has been
    /// rolled back; otherwise it is unchanged and may go on.
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
    /// A value does not fit, or the system is out of memory. The documentation of each operation
    /// says whether the transaction has been rolled back.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// A table of another database. The transaction is unchanged and may go on.
    #[error("table \"{0}\" belongs to another database than the transaction")]
    ForeignTable(String),
    /// A key of a partition that the transaction did not name when it began. It has been rolled
    /// back.
    #[error(
        "the transaction touches partition {partition} of \"{table}\", which it did not name when \
         it began; name all partitions that it needs, or none, which means all"
    )]
    OtherPartition {
        /// The table.
        table: String,
        /// The partition.
        partition: u32,
    },
    /// A partition that does not exist.
    #[error("there is no partition {partition}: the database has {partitions}, counted from 0")]
    NoSuchPartition {
        /// The number given.
        partition: u32,
        /// How many there are.
        partitions: u32,
    },
    /// A change in a transaction that was begun as read-only. The transaction is unchanged and may
    /// go on.
    #[error("the transaction is read-only; begin one that is not to change \"{0}\"")]
    ReadOnly(String),
    /// No index of that name.
    #[error("table \"{table}\" has no index \"{index}\"")]
    UnknownIndex {
        /// The table.
        table: String,
        /// The name.
        index: String,
    },
    /// The changes cannot be made durable. The transaction has been rolled back.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// Too many workers are in use at a time.
    #[error("{0} transactions are at work at a time, which is the most; end one and try again")]
    TooManyWorkers(usize),
    /// Too many transactions are open at a time.
    #[error("{0} transactions are open at a time, which is the most; end one and try again")]
    TooManyTxns(usize),
}

impl OpError {
    /// The error for a change of a key column.
    pub(crate) fn key_update<M: Machine>(table: &Table<M>, column: usize) -> Self {
        Self::KeyUpdate {
            table: table.name().to_owned(),
            column: table.schema().columns()[column].name.clone(),
        }
    }
}

impl From<AbortReason> for OpError {
    fn from(reason: AbortReason) -> Self {
        Self::Abort(reason)
    }
}
