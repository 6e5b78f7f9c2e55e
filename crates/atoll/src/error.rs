//! What an embedding program can be told.

use std::time::Duration;

use atoll_log::LogError;
use atoll_machine::{MachineError, MediumError, NodeId};
use atoll_memory::MemoryError;
use atoll_memory::lease::LeaseError;
use atoll_storage::StorageError;
use atoll_txn::{AbortReason, OpError};

use crate::restore_point::RestorePoint;

/// An error of a database: the world's or the caller's, never a normal outcome of a transaction.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Something about a table or a value.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// Memory could not be had.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// Something about a name, or between this process and another.
    #[error(transparent)]
    Lease(#[from] LeaseError),
    /// Something about the files of a database.
    #[error(transparent)]
    Log(#[from] LogError),
    /// Something about a moment to which a database was to be restored.
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
    /// Something of the process that this one was forked from.
    #[error(
        "{what} belongs to process {pid}, from which this process was forked, and is of no use \
         here: {remedy}"
    )]
    ForkedChild {
        /// What was used.
        what: &'static str,
        /// The process that it belongs to.
        pid: u32,
        /// What to do.
        remedy: &'static str,
    },
    /// A database that is only in memory was asked for something that needs files.
    #[error("the database is in memory only; open it in a folder to make it durable")]
    NotDurable,
    /// More folders for tablespaces than the database has of these.
    #[error(
        "{folders} folders are given for the nodes of a database that has tablespaces for \
         {tablespaces}, one for each node with CPUs when it is made; name no more than that"
    )]
    TooManyFolders {
        /// Folders given.
        folders: usize,
        /// Tablespaces there are, or are to be.
        tablespaces: usize,
    },
    /// Too few addresses, or too small files, for the store of a database.
    #[error(
        "a database that may take {limit_bytes} bytes needs {need_bytes} bytes of {what}: raise \
         that limit of the process, or give the database less memory"
    )]
    Addresses {
        /// The memory limit of the database.
        limit_bytes: u64,
        /// What is needed.
        need_bytes: u64,
        /// Of what.
        what: &'static str,
    },
    /// A budget of memory for a database that has no place for what is beyond it.
    #[error(
        "a memory budget needs a place for what does not fit: open the database in a folder, name \
         a cold node, or set a memory limit instead"
    )]
    BudgetWithoutFolder,
    /// A cold node for a database that has no budget beyond which it would be used.
    #[error(
        "node {0} is to hold what does not fit DRAM, but nothing says how much fits: set a memory \
         budget too, or do without a cold node"
    )]
    ColdNodeWithoutBudget(NodeId),
    /// A cold node that is not there, or has no memory.
    #[error(
        "node {node} cannot be the cold node: it is not there or has no memory that this process \
         may use; those with memory are {}",
        list(with_memory)
    )]
    NoColdNode {
        /// The node, as the kernel numbers it.
        node: NodeId,
        /// The nodes that would do.
        with_memory: Vec<NodeId>,
    },
    /// More partitions than a database can have.
    #[error("{given} partitions are too many; a database has {most} at most")]
    TooManyPartitions {
        /// Partitions asked for.
        given: u32,
        /// The most.
        most: u32,
    },
    /// Something about this machine.
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
    /// A table of another database than the transaction's.
    #[error("table \"{0}\" belongs to another database than the transaction")]
    ForeignTable(String),
    /// A procedure has swapped the transaction that it was given for another.
    #[error(
        "the procedure has put another transaction in the place of the one that it was given, \
         which is rolled back when it is dropped; this one has been"
    )]
    Exchanged,
    /// Too many transactions are open.
    #[error("{0} transactions are open at a time, which is the most; end one and try again")]
    TooManyTransactions(usize),
    /// A transaction was aborted and the caller did not ask to try again.
    #[error("the transaction was rolled back: {0}")]
    Aborted(AbortReason),
    /// A snapshot is over one of its limits.
    #[error("the snapshot has expired: {0}; take a new one")]
    SnapshotExpired(Expiry),
    /// No snapshot is given because those that live keep too much memory.
    #[error(
        "no snapshot: those that are held keep {kept_bytes} bytes of replaced data alive, the \
         limit is {limit_bytes}; release one, or raise the limit"
    )]
    SnapshotLimit {
        /// Bytes that held snapshots keep.
        kept_bytes: u64,
        /// The limit.
        limit_bytes: u64,
    },
    /// More snapshots are held than there are places for.
    #[error("{0} snapshots are held, which is the most; release one")]
    TooManySnapshots(usize),
    /// Something that a transaction was asked for and cannot do: an index that does not exist, a
    /// partition that it did not name, a change in a read-only one.
    #[error(transparent)]
    Transaction(OpError),
    /// A database is published already.
    #[error("the database is published as \"{0}\" already")]
    Published(String),
    /// A snapshot of a database of this process cannot be handed on.
    #[error(
        "a snapshot of a database in this very process cannot be a base of a published one; \
         publish that database and attach to it by name"
    )]
    LocalBase,
    /// A change of a table that belongs to a snapshot which the database is built on.
    #[error(
        "table \"{0}\" belongs to a snapshot that this database is built on, which never changes; \
         a table of the same name made here hides it, and can be filled from it"
    )]
    InheritedTable(String),
    /// A column that cannot be one array.
    #[error(
        "column \"{column}\" of \"{table}\" cannot be given as one array: {why}; read it as Arrow, \
         or copy"
    )]
    NotContiguous {
        /// The table.
        table: String,
        /// The column.
        column: String,
        /// Why not.
        why: &'static str,
    },
    /// Bytes of a snapshot that are not what they should be.
    #[error("column \"{column}\" of the snapshot is damaged: {detail}")]
    Damaged {
        /// The column.
        column: String,
        /// What Arrow says about it.
        detail: String,
    },
    /// An answer of an owner that cannot be understood.
    #[error("the owner of \"{name}\" answered with something else than a list of snapshots")]
    BadStatus {
        /// Its name.
        name: String,
    },
}

/// Why a database cannot be restored to a moment.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// A folder that a database cannot be restored from.
    #[error(
        "{path} is no backup as it was made (it has been opened since, or never was one); name a \
         folder that `\\backup` has written and nobody has opened"
    )]
    NoBackup {
        /// The folder.
        path: String,
    },
    /// A part of the logs is missing.
    #[error(
        "the archive has a gap: {file} is missing, or not all of it is there, while later files \
         are; bring it back, or restore to a moment before it, the last of which is {last}"
    )]
    Gap {
        /// The file.
        file: String,
        /// The last moment before it.
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
        /// The backup's moment.
        made: RestorePoint,
    },
    /// A moment that is not between the backup and the end of the logs.
    #[error(
        "{wanted} cannot be restored: the backup and the logs have the moments from {first} to \
         {last} and changes up to GSN {known}; ask for one of them, use an older backup, or name \
         the folder of the database too if it is still there"
    )]
    OutOfReach {
        /// What was asked for.
        wanted: String,
        /// The backup's moment.
        first: RestorePoint,
        /// The last moment known.
        last: RestorePoint,
        /// The GSN up to which the logs are known.
        known: u64,
    },
}

/// Which limit a snapshot is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expiry {
    /// It is older than this.
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
    /// An error that ended a transaction; aborts become [`Error::Aborted`].
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
            OpError::TooManyWorkers(most) => Self::TooManyTransactions(most),
            other => Self::Transaction(other),
        }
    }
}

/// How an operation inside a transaction can end other than well: an abort, after which the
/// transaction may be tried again, or an error.
#[derive(Debug, thiserror::Error)]
pub enum TxnError {
    /// The transaction has been rolled back.
    #[error("the transaction was rolled back: {0}")]
    Abort(AbortReason),
    /// It failed.
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
