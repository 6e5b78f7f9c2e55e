//! Errors of the storage layer.

use atoll_memory::MemoryError;

use crate::data_type::DataType;

/// An error of the storage layer. The failed call has left the table unchanged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StorageError {
    /// A schema that no table can have.
    #[error("{0}")]
    Schema(String),
    /// A value of another type than its column's.
    #[error("column \"{column}\" holds {expected}, not {given}")]
    Type {
        /// The column.
        column: String,
        /// What it holds.
        expected: DataType,
        /// Type of the value it was given.
        given: &'static str,
    },
    /// A text that is longer than its column's type allows, or a `character(n)` with blanks at its
    /// end, which are not stored.
    #[error(
        "value too long for type {expected}, or with blanks at its end, in column \"{column}\""
    )]
    TooManyCharacters {
        /// The column.
        column: String,
        /// Its type.
        expected: DataType,
    },
    /// A sum that the column's type cannot represent.
    #[error("column \"{column}\" holds {expected}, and the sum is out of its range")]
    OutOfRange {
        /// The column.
        column: String,
        /// What it holds.
        expected: DataType,
    },
    /// NULL for a column that must have a value.
    #[error("column \"{column}\" must not be NULL")]
    NullInColumn {
        /// The column.
        column: String,
    },
    /// A row of the wrong length.
    #[error("the table has {expected} columns, the row has {given}")]
    ColumnCount {
        /// Columns of the table.
        expected: usize,
        /// Values in the row.
        given: usize,
    },
    /// A key of the wrong length.
    #[error("the primary key has {expected} columns, the key given has {given}")]
    KeyCount {
        /// Columns of the key.
        expected: usize,
        /// Values given.
        given: usize,
    },
    /// A bound of a scan with more values than the index has columns.
    #[error("index \"{index}\" has {expected} columns, the bound given has {given}")]
    BoundCount {
        /// The index.
        index: String,
        /// Columns of the index.
        expected: usize,
        /// Values given.
        given: usize,
    },
    /// A column without plain fixed-width values, for an operation that copies the bytes of values.
    #[error(
        "column {column} {what}; such operations take columns of integers, floats, dates, \
         timestamps and binary(n) that cannot be NULL, others can be visited"
    )]
    NotPlain {
        /// Position of the column.
        column: usize,
        /// Why the operation does not take the column.
        what: String,
    },
    /// An operation that names bytes outside its buffer.
    #[error("operation {operation} names {needed} bytes from {begin} on, of {given}")]
    OutsideBuffer {
        /// Position of the operation.
        operation: usize,
        /// First byte.
        begin: usize,
        /// Bytes of the column.
        needed: usize,
        /// Bytes of the buffer.
        given: usize,
    },
    /// The number of operations differs from the number of keys.
    #[error("{operations} operations are given for {keys} keys; each key needs one")]
    OperationCount {
        /// Operations given.
        operations: usize,
        /// Keys given.
        keys: usize,
    },
    /// A value longer than the format allows.
    #[error("column \"{column}\": a value of {bytes} bytes is too long; the most is {bytes_max}")]
    TooLong {
        /// The column.
        column: String,
        /// Bytes given.
        bytes: usize,
        /// Bytes allowed.
        bytes_max: usize,
    },
    /// A row with an index key that is too long. The transaction has been rolled back.
    #[error(
        "index \"{index}\": the values of a row take {bytes} bytes there; the most is {bytes_max}"
    )]
    IndexKeyTooLong {
        /// The index.
        index: String,
        /// Bytes of the row's key in it.
        bytes: usize,
        /// Bytes allowed.
        bytes_max: usize,
    },
    /// A table of this name exists already.
    #[error("table \"{0}\" exists already")]
    TableExists(String),
    /// No table of that name.
    #[error("table \"{0}\" does not exist")]
    UnknownTable(String),
    /// A table that a bulk load fills at the moment.
    #[error("table \"{0}\" is being loaded; insert rows when the load has ended")]
    Loading(String),
    /// A table that can hold no further segment.
    #[error("table \"{0}\" is full: it has {1} rows")]
    TableFull(String, u64),
    /// A directory in shared memory that is damaged or that another version wrote.
    #[error("the shared directory is damaged: {what} at offset {offset}")]
    Corrupt {
        /// What was read.
        what: &'static str,
        /// Where, in bytes from the start of the store.
        offset: u64,
    },
    /// A record on a medium that does not fit its table.
    #[error("table \"{table}\", row {row}: {what}; the files are of another database, or damaged")]
    BadRecord {
        /// The table.
        table: String,
        /// The row's place.
        row: u64,
        /// What is wrong.
        what: &'static str,
    },
    /// An allocation failed.
    #[error(transparent)]
    Memory(#[from] MemoryError),
}
