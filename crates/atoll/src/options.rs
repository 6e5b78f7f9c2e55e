//! Settings of a database.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use atoll_log::LogsOptions;
use atoll_machine::NodeId;
use atoll_txn::{SchemeKind, SchemeOptions, TimestampKind};

use crate::durability::Durability;
use crate::progress::OpenProgress;

/// Default of [`DatabaseOptions::checkpoint_log_bytes`].
const CHECKPOINT_LOG_BYTES: u64 = 256 << 20;
/// Default of [`DatabaseOptions::checkpoint_steps_max`].
const CHECKPOINT_STEPS_MAX: u64 = 64;

/// Settings of a database.
#[derive(Debug, Clone)]
pub struct DatabaseOptions {
    /// Most bytes of the store. The default is 80 % of what the process may use. With a budget on a
    /// file it is sixteen times the budget, and at most half of the free disk space. With a cold
    /// node it is the budget and 80 % of that node, and at most 80 % of what the process may use.
    pub memory_limit_bytes: Option<u64>,
    /// Bytes of free memory in the store that are touched when the database is opened, at most its
    /// limit (with a budget, an eighth of that), so that no transaction waits while the system
    /// clears pages. As many bytes are touched for indexes and row states, at most half of what the
    /// machine has left then; these count for no limit, and the databases of a process share them.
    /// All are on the node of the thread that opens the database. Default: 0.
    pub ready_bytes: u64,
    /// Bytes of the store that are kept in DRAM, at least 32 MiB, for a database that is opened in
    /// a folder. What was not used for longest is moved to a file there (in the subfolder `spill`,
    /// if it exists) or to the [`cold_node`](Self::cold_node). Indexes and row states are not
    /// counted. Default: no budget, everything is in memory.
    pub memory_budget_bytes: Option<u64>,
    /// The node of slower memory, as the kernel numbers it, to which what exceeds the budget is
    /// moved, and where it is read, instead of a file. Persistent or CXL memory that the kernel
    /// uses as memory is a node without CPUs; a node with CPUs can serve as well. The whole store
    /// is in memory then, so the database need not be in a folder.
    pub cold_node: Option<NodeId>,
    /// Number of logical nodes; by default the machine's own nodes.
    pub nodes: Option<usize>,
    /// Greatest age of a snapshot; by default no limit.
    pub snapshot_age_max: Option<Duration>,
    /// Most bytes of replaced data that snapshots keep alive together; by default half of the
    /// memory limit.
    pub snapshot_bytes_max: Option<u64>,
    /// The concurrency-control scheme.
    pub scheme: SchemeKind,
    /// How timestamps are allocated, for schemes that need them.
    pub timestamps: TimestampKind,
    /// Whether a transaction takes a timestamp when it begins even if its scheme does not need one,
    /// as in "Staring into the Abyss"; for comparisons.
    pub begin_timestamps: bool,
    /// Number of partitions, for a scheme that has them; at most 4,096, by default one for each
    /// CPU.
    pub partitions: Option<u32>,
    /// Longest wait for a lock, for schemes that limit it.
    pub lock_timeout: Duration,
    /// Whether the time of transactions is measured by component, see [`Database::accounting`].
    pub accounting: bool,
    /// The durability of commits, for a database that is opened in a folder.
    pub durability: Durability,
    /// Number of tablespaces of a database that is created in a folder, each with a log and a
    /// checkpoint store; by default one for each node that has CPUs.
    pub tablespaces: Option<usize>,
    /// The folders of the tablespaces of a new database, in their order: folders on other disks, or
    /// on the persistent memory of the nodes, that are empty or do not exist yet. Links in the
    /// database's own folder lead to them. The other tablespaces are in the database's own folder.
    pub node_folders: Vec<PathBuf>,
    /// The folder into which the logs of a database in a folder are archived, so that
    /// [`crate::restore`] can restore any moment since a backup. It is empty, does not exist yet,
    /// or holds the archive of this database. By default the database reuses log files that it does
    /// not need any more, without archiving them.
    pub archive: Option<PathBuf>,
    /// The database takes a checkpoint after this many bytes of log.
    pub checkpoint_log_bytes: u64,
    /// Most checkpoints in a row that are written as steps, which hold only the difference from the
    /// checkpoint before, until one with a complete map follows; opening the database reads the map
    /// and all its steps.
    pub checkpoint_steps_max: u64,
    /// The database takes a checkpoint this long after the last one ended, if something was logged
    /// since; by default only [`Self::checkpoint_log_bytes`] decides.
    pub checkpoint_interval: Option<Duration>,
    /// Counters that another thread can read while a database in a folder is opened.
    pub progress: Option<Arc<OpenProgress>>,
    /// Size of log files and of the ring that holds what waits for a flush.
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
