//! The errors of a database as a program that embeds it sees them.

use std::time::Duration;

use atoll_log::LogError;
use atoll_machine::{MachineError, MediumError, NodeId};
use atoll_memory::MemoryError;
use atoll_memory::lease::LeaseError;
use atoll_storage::StorageError;
use atoll_txn::{AbortReason, OpError};

use crate::restore_point::RestorePoint;

/// An error of a database: caused by the environment or by the caller, never a normal outcome of a
/// transaction.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An error about a table or a value.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// Memory could not be allocated.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// An error about a name, or of the connection with another process.
    #[error(transparent)]
    Lease(#[from] LeaseError),
    /// An error about the files of a database.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The database cannot be restored to the requested moment.
    #[error(transparent)]
    Restore(#[from] RestoreError),
    /// Another process, or this one, has the database open.
    #[error("{path} is open already{}; close it there first", by(*.pid))]
    InUse {
        /// The folder.
        path: String,
        /// The process that has it open, if it is known.
        pid: Option<u32>,
    },
    /// The object belongs to the process from which this one was forked.
    #[error(
        "{what} belongs to process {pid}, from which this process was forked, and cannot be used \
         here: {remedy}"
    )]
    ForkedChild {
        /// The object.
        what: &'static str,
        /// The process that owns the object.
        pid: u32,
        /// What to do instead.
        remedy: &'static str,
    },
    /// The call needs a database in a folder, and this one is in memory only.
    #[error("the database is in memory only; open it in a folder to make it durable")]
    NotDurable,
    /// More folders for tablespaces were given than the database has tablespaces.
    #[error(
        "{folders} folders are given for the nodes of a database that has tablespaces for \
         {tablespaces}, one for each node with CPUs when it is made; name no more than that"
    )]
    TooManyFolders {
        /// Number of folders given.
        folders: usize,
        /// Number of tablespaces that the database has, or is created with.
        tablespaces: usize,
    },
    /// The address space or the file size of the process is too small for the store of a database.
    #[error(
        "a database that may take {limit_bytes} bytes needs {need_bytes} bytes of {what}: raise \
         that limit of the process, or give the database less memory"
    )]
    Addresses {
        /// The memory limit of the database.
        limit_bytes: u64,
        /// The bytes that are needed.
        need_bytes: u64,
        /// The resource that is limited.
        what: &'static str,
    },
    /// A memory budget was given, but no place for the data that exceeds it.
    #[error(
        "a memory budget needs a place for what does not fit: open the database in a folder, name \
         a cold node, or set a memory limit instead"
    )]
    BudgetWithoutFolder,
    /// A cold node was given, but no memory budget.
    #[error(
        "node {0} is given as the cold node, but there is no memory budget that could be \
         exceeded: set a memory budget too, or give no cold node"
    )]
    ColdNodeWithoutBudget(NodeId),
    /// The cold node does not exist, or has no memory.
    #[error(
        "node {node} cannot be the cold node: it does not exist or has no memory that this process \
         may use; the nodes with memory are {}",
        list(with_memory)
    )]
    NoColdNode {
        /// The node, as the kernel numbers it.
        node: NodeId,
        /// The nodes that could serve.
        with_memory: Vec<NodeId>,
    },
    /// More partitions were requested than a database can have.
    #[error("{given} partitions are too many; a database has {most} at most")]
    TooManyPartitions {
        /// Partitions requested.
        given: u32,
        /// The most that a database can have.
        most: u32,
    },
    /// An error about this machine.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// A row with this key exists.
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
    /// An update would change a key.
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
    /// The table belongs to another database than the transaction.
    #[error("table \"{0}\" belongs to another database than the transaction")]
    ForeignTable(String),
    /// The table was dropped or altered since the handle was made.
    #[error("table \"{0}\" was dropped or altered meanwhile; look it up by its name again")]
    TableChanged(String),
    /// An index that has not been filled and checked, or that was given up.
    #[error("index \"{0}\" is not ready; begin it again, fill it and check it")]
    IndexNotFilled(String),
    /// A procedure has swapped its transaction for another one.
    #[error(
        "the procedure has swapped its transaction for another one, which has been rolled back; \
         the original is rolled back when it is dropped"
    )]
    Exchanged,
    /// Too many transactions are open.
    #[error("{0} transactions are open, which is the maximum; end one and try again")]
    TooManyTransactions(usize),
    /// A transaction was aborted and the caller did not ask to try again.
    #[error("the transaction was rolled back: {0}")]
    Aborted(AbortReason),
    /// A snapshot is over one of its limits.
    #[error("the snapshot has expired: {0}; take a new one")]
    SnapshotExpired(Expiry),
    /// The held snapshots keep too much memory, so no further one is taken.
    #[error(
        "no snapshot: the held snapshots keep {kept_bytes} bytes of replaced data alive, the limit \
         is {limit_bytes}; release one, or raise the limit"
    )]
    SnapshotLimit {
        /// Bytes that held snapshots keep.
        kept_bytes: u64,
        /// The limit.
        limit_bytes: u64,
    },
    /// The most snapshots are held already.
    #[error("{0} snapshots are held, which is the maximum; release one")]
    TooManySnapshots(usize),
    /// A transaction cannot do what was requested: an index does not exist, a partition was not
    /// named, or a read-only transaction made a change.
    #[error(transparent)]
    Transaction(OpError),
    /// The database is published already.
    #[error("the database is published as \"{0}\" already")]
    Published(String),
    /// A snapshot of a database of this process cannot be given to another process.
    #[error(
        "a snapshot of a database of this process cannot be a base of a published one; publish \
         that database and attach to it by name"
    )]
    LocalBase,
    /// The table belongs to a snapshot that the database is built on, and cannot be changed.
    #[error(
        "table \"{0}\" belongs to a snapshot that this database is built on, which never changes; \
         a table of the same name made here hides it, and can be filled from it"
    )]
    InheritedTable(String),
    /// The column cannot be mapped as one array.
    #[error(
        "column \"{column}\" of \"{table}\" cannot be given as one array: {why}; read it as Arrow, \
         or copy"
    )]
    NotContiguous {
        /// The table.
        table: String,
        /// The column.
        column: String,
        /// The reason.
        why: &'static str,
    },
    /// Bytes of a snapshot are damaged.
    #[error("column \"{column}\" of the snapshot is damaged: {detail}")]
    Damaged {
        /// The column.
        column: String,
        /// The finding of Arrow's validation.
        detail: String,
    },
    /// The owner's answer cannot be parsed.
    #[error("the answer of the owner of \"{name}\" is not a list of snapshots")]
    BadStatus {
        /// Name of the database.
        name: String,
    },
}

/// Why a database cannot be restored to a moment.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// The folder is not an unopened backup.
    #[error(
        "{path} is no backup, or has been opened since it was made; name a folder that `\\backup` \
         has written and that has not been opened"
    )]
    NoBackup {
        /// The folder.
        path: String,
    },
    /// A part of the logs is missing.
    #[error(
        "the archive has a gap: {file} is missing or incomplete, while later files exist; bring it \
         back, or restore to a moment before it, the last of which is {last}"
    )]
    Gap {
        /// The file.
        file: String,
        /// The last restore point before it.
        last: RestorePoint,
    },
    /// The archive ends before the backup was made.
    #[error(
        "the archive in {path} ends before the backup was made, on {made}; open the backup itself, \
         or name the folder of the database too if it is still there"
    )]
    Behind {
        /// The archive.
        path: String,
        /// The backup's restore point.
        made: RestorePoint,
    },
    /// The moment is not between the backup and the end of the logs.
    #[error(
        "{wanted} cannot be restored: the backup and the logs have the moments from {first} to \
         {last} and changes up to GSN {known}; ask for one of them, use an older backup, or name \
         the folder of the database too if it is still there"
    )]
    OutOfReach {
        /// The moment requested.
        wanted: String,
        /// The backup's restore point.
        first: RestorePoint,
        /// The last known restore point.
        last: RestorePoint,
        /// The GSN up to which the logs are known.
        known: u64,
    },
}

/// The limit that a snapshot exceeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expiry {
    /// Its age exceeds this limit.
    Age(Duration),
    /// It keeps more replaced data alive than its owner allows.
    Bytes,
}

impl std::fmt::Display for Expiry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Age(limit) => write!(f, "it is older than {limit:?}"),
            Self::Bytes => f.write_str("it keeps more replaced data alive than its owner allows"),
        }
    }
}

fn list(nodes: &[NodeId]) -> String {
    nodes.iter().map(NodeId::to_string).collect::<Vec<_>>().join(", ")
}

fn by(pid: Option<u32>) -> String {
    pid.map_or(String::new(), |pid| format!(" in process {pid}"))
}

impl From<MediumError> for Error {
    fn from(error: MediumError) -> Self {
        Self::Log(LogError::Medium(error))
    }
}

impl Error {
    /// Whether a transaction accessed a partition that it had not named. It was rolled back; one
    /// that names all partitions, or none, which means all, may do the same.
    pub fn misses_partition(&self) -> bool {
        matches!(self, Self::Transaction(OpError::OtherPartition { .. }))
    }

    /// Converts the error of an operation; an abort becomes [`Error::Aborted`].
    pub(crate) fn of_op(error: OpError) -> Self {
        match error {
            OpError::Abort(reason) => Self::Aborted(reason),
            OpError::DuplicateKey { table, key } => Self::DuplicateKey { table, key },
            OpError::DuplicateIndexKey { table, index, key } => {
                Self::DuplicateIndexKey { table, index, key }
            }
            OpError::KeyUpdate { table, column } => Self::KeyUpdate { table, column },
            OpError::Storage(StorageError::Memory(error)) => Self::Memory(error),
            OpError::Storage(error) => Self::Storage(error),
            OpError::ForeignTable(table) => Self::ForeignTable(table),
            OpError::Journal(error) => match error.0.downcast_ref::<LogError>() {
                Some(known) => Self::Log(known.clone()),
                None => Self::Transaction(OpError::Journal(error)),
            },
            OpError::TooManyWorkers(most) | OpError::TooManyTxns(most) => {
                Self::TooManyTransactions(most)
            }
            other => Self::Transaction(other),
        }
    }
}

/// The result of an operation of a transaction that did not succeed: an abort, after which the
/// transaction may be retried, or an error.
#[derive(Debug, thiserror::Error)]
pub enum TxnError {
    /// The transaction has been rolled back.
    #[error("the transaction was rolled back: {0}")]
    Abort(AbortReason),
    /// The operation failed.
    #[error(transparent)]
    Error(#[from] Error),
}

impl From<OpError> for TxnError {
    fn from(error: OpError) -> Self {
        match error {
            OpError::Abort(reason) => Self::Abort(reason),
            other => Self::Error(Error::of_op(other)),
        }
    }
}

impl From<TxnError> for Error {
    fn from(error: TxnError) -> Self {
        match error {
            TxnError::Abort(reason) => Self::Aborted(reason),
            TxnError::Error(error) => error,
        }
    }
}

/// Result of an operation on a database.
pub type Result<T> = std::result::Result<T, Error>;
/// Result of an operation inside a transaction.
pub type TxnResult<T> = std::result::Result<T, TxnError>;
