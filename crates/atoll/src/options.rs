//! Settings of a database.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use atoll_log::LogsOptions;
use atoll_machine::NodeId;
use atoll_txn::{SchemeKind, SchemeOptions, TimestampKind};

use crate::durability::Durability;
use crate::progress::OpenProgress;

/// After so many bytes of log a checkpoint is taken.
const CHECKPOINT_LOG_BYTES: u64 = 256 << 20;
/// See [`DatabaseOptions::checkpoint_steps_max`].
const CHECKPOINT_STEPS_MAX: u64 = 64;

/// Settings of a database.
#[derive(Debug, Clone)]
pub struct DatabaseOptions {
    /// Most bytes that its store may take; by default 80 % of what the process may use, or, with a
    /// budget, sixteen times that as far as half of what is free on the disk goes. With a cold node
    /// it is 80 % too, and no more than the budget and 80 % of that node.
    pub memory_limit_bytes: Option<u64>,
    /// Bytes of free memory in its store that are touched when it is opened, as far as its limit
    /// goes (with a budget, an eighth of that), so that no transaction waits while the system
    /// clears them. As many are touched for indexes and what schemes keep beside rows, no more than
    /// half of what the machine has left then; they count for no limit, and the databases of a
    /// process share them. All lie on the node of the thread that opens it. Usually none.
    pub ready_bytes: u64,
    /// Bytes of its store that are kept in memory, at least 32 MiB, for a database that is opened
    /// in a folder; what was not used for longest waits in a file there (in the folder `spill`
    /// within it, if there is one), or on the [`cold_node`](Self::cold_node). Not counted are
    /// indexes and what schemes keep beside rows. By default none: everything is in memory.
    pub memory_budget_bytes: Option<u64>,
    /// Where what does not fit the budget waits and is read, instead of a file: a node of slower
    /// memory, as the kernel numbers it. Persistent or CXL memory that the kernel uses as memory is
    /// such a node, without CPUs; a node with CPUs will do as well. The store lies in memory then,
    /// so the database need not be in a folder.
    pub cold_node: Option<NodeId>,
    /// Logical nodes; by default the machine's own.
    pub nodes: Option<usize>,
    /// Oldest age of a snapshot; by default none.
    pub snapshot_age_max: Option<Duration>,
    /// Most bytes of replaced data that snapshots keep alive together; by default half of the
    /// memory limit.
    pub snapshot_bytes_max: Option<u64>,
    /// How transactions are kept apart.
    pub scheme: SchemeKind,
    /// Where timestamps come from, for schemes that need them.
    pub timestamps: TimestampKind,
    /// Whether a transaction takes a timestamp when it begins even if its scheme can do without, as
    /// in the study: for comparing.
    pub begin_timestamps: bool,
    /// Partitions, for a scheme that has them, 4,096 at most; by default one for each CPU.
    pub partitions: Option<u32>,
    /// Longest wait for a lock, for schemes that bound it.
    pub lock_timeout: Duration,
    /// Whether it is measured what transactions spend their time on, see [`Database::accounting`].
    pub accounting: bool,
    /// What an acknowledged commit survives, for a database that is opened in a folder.
    pub durability: Durability,
    /// Tablespaces of a database that is made in a folder, each with a log and a home of its own;
    /// by default one for each node that has CPUs.
    pub tablespaces: Option<usize>,
    /// Where the tablespaces of a database that is made lie, in their order: folders on other
    /// disks, or on the persistent memory of the nodes, that are empty or are made. Links in the
    /// database's own folder lead there. Tablespaces without one lie in that folder.
    pub node_folders: Vec<PathBuf>,
    /// Where the logs of a database in a folder are archived, so that [`crate::restore`] can make
    /// it again as it was at any moment since a backup: a folder that is empty, is made, or has
    /// its archive. By default logs that are needed no more are gone.
    pub archive: Option<PathBuf>,
    /// A checkpoint is taken after so many bytes of log.
    pub checkpoint_log_bytes: u64,
    /// Behind a checkpoint that says where everything lies, so many at most only say what is
    /// different; opening the database reads them all.
    pub checkpoint_steps_max: u64,
    /// A checkpoint is taken so long after the last one has ended, if anything has been logged
    /// since; by default only for the bytes of log.
    pub checkpoint_interval: Option<Duration>,
    /// Counters that grow while a database in a folder is opened, for another thread to look at.
    pub progress: Option<Arc<OpenProgress>>,
    /// Bytes of a file of a log and of what can wait for a flush.
    pub logs: LogsOptions,
}

impl Default for DatabaseOptions {
    fn default() -> Self {
        Self {
            memory_limit_bytes: None,
            ready_bytes: 0,
            memory_budget_bytes: None,
            cold_node: None,
            nodes: None,
            snapshot_age_max: None,
            snapshot_bytes_max: None,
            scheme: SchemeKind::default(),
            timestamps: TimestampKind::default(),
            begin_timestamps: false,
            partitions: None,
            lock_timeout: Duration::from_nanos(SchemeOptions::default().lock_timeout_ns),
            accounting: true,
            durability: Durability::default(),
            tablespaces: None,
            node_folders: Vec::new(),
            archive: None,
            checkpoint_log_bytes: CHECKPOINT_LOG_BYTES,
            checkpoint_steps_max: CHECKPOINT_STEPS_MAX,
            checkpoint_interval: None,
            progress: None,
            logs: LogsOptions::default(),
        }
    }
}
