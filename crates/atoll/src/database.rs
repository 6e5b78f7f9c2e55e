//! The database in the process that owns it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use atoll_log::{LogError, LogsOptions};
use atoll_machine::{FileMedium, Machine, Medium, Native, Topology};
use atoll_memory::lease::{LeaseId, Peer, RuntimeDir, Server};
use atoll_memory::{Memory, Purpose};
use atoll_storage::{Directory, Schema, undo};
use atoll_txn::any::{self, AnyEngine, AnyWorker};
use atoll_txn::{Component, SchemeKind, SchemeOptions, TableOptions, TimestampKind};

use crate::durable::flusher::{Flusher, Policy};
use crate::durable::moment::{Moment, now_us};
use crate::durable::open::OpenOptions;
use crate::durable::{
    self, Acknowledger, BackupReport, CheckpointReport, Durability, RecoveryReport,
};
use crate::error::{Error, Result, TxnResult};
use crate::evictor::{Budget, Evictor};
use crate::keeper::{Errands, Keeper};
use crate::lanes::Lanes;
use crate::leases::{Leases, NewLease, SnapshotInfo};
use crate::publish::Publication;
use crate::room::Room;
use crate::session::Session;
use crate::snapshot::{LocalLease, Origin, Snapshot, SnapshotParts};
use crate::transaction::{Transaction, TransactionOptions};

/// After so many bytes of log a checkpoint is taken.
const CHECKPOINT_LOG_BYTES: u64 = 256 << 20;
/// See [`DatabaseOptions::checkpoint_steps_max`].
const CHECKPOINT_STEPS_MAX: u64 = 64;
/// Most values that are stored again in one go to empty sparse blocks.
const COMPACT_VALUES_MAX: usize = 16_384;

/// Settings of a database.
#[derive(Debug, Clone)]
pub struct DatabaseOptions {
    /// Most bytes that its store may take; by default 80 % of what the process may use, or, with a
    /// budget, sixteen times that as far as half of what is free on the disk goes.
    pub memory_limit_bytes: Option<u64>,
    /// Bytes of its store that are kept in memory, at least 32 MiB, for a database that is opened
    /// in a folder; what was not used for longest waits in a file there (in the folder `spill`
    /// within it, if there is one). Not counted are indexes and what schemes keep beside rows. By
    /// default none: everything is in memory.
    pub memory_budget_bytes: Option<u64>,
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
    /// Partitions, for a scheme that has them; by default one for each CPU.
    pub partitions: Option<u32>,
    /// Longest wait for a lock, for schemes that bound it.
    pub lock_timeout: Duration,
    /// Whether it is measured what transactions spend their time on, see [`Database::accounting`].
    pub accounting: bool,
    /// What an acknowledged commit survives, for a database that is opened in a folder.
    pub durability: Durability,
    /// Tablespaces of a database that is made in a folder, each with a log and a home of its own;
    /// by default one for each node.
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
    /// Bytes of a file of a log and of what can wait for a flush.
    pub logs: LogsOptions,
}

impl Default for DatabaseOptions {
    fn default() -> Self {
        Self {
            memory_limit_bytes: None,
            memory_budget_bytes: None,
            nodes: None,
            snapshot_age_max: None,
            snapshot_bytes_max: None,
            scheme: SchemeKind::default(),
            timestamps: TimestampKind::default(),
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
            logs: LogsOptions::default(),
        }
    }
}

/// What a database has done and what it uses.
#[derive(Debug, Clone, Copy, serde::Serialize)]
pub struct Counters {
    /// Transactions committed.
    pub commits: u64,
    /// Transactions aborted, those tried again included.
    pub aborts: u64,
    /// Extents copied because a snapshot shows them.
    pub extents_copied: u64,
    /// Bytes of those copies.
    pub bytes_copied_on_write: u64,
    /// Bytes allocated in the store.
    pub memory_allocated_bytes: u64,
    /// Bytes that the store takes from the machine.
    pub memory_committed_bytes: u64,
    /// Most that it may take.
    pub memory_limit_bytes: u64,
    /// Bytes of replaced data that snapshots keep alive.
    pub memory_kept_bytes: u64,
    /// Snapshots held.
    pub snapshots: u64,
    /// The current epoch.
    pub epoch: u64,
}

/// What transactions have spent their time on, and why they were rolled back, since the database
/// was opened.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Accounting {
    /// Transactions committed.
    pub commits: u64,
    /// Transactions rolled back for each reason.
    pub aborts: Vec<(&'static str, u64)>,
    /// Nanoseconds for each component, of the transactions that were measured: a sample.
    pub components_ns: Vec<(&'static str, u64)>,
}

/// An ordered index of a table; cheap to clone.
#[derive(Clone)]
pub struct Index {
    pub(crate) table: Table,
    pub(crate) number: usize,
}

impl Index {
    /// Its table.
    pub fn table(&self) -> &Table {
        &self.table
    }
}

/// A table of a database; cheap to clone.
#[derive(Clone)]
pub struct Table {
    pub(crate) core: Arc<atoll_storage::Table<Native>>,
    engine: Engine,
}

/// The engine, of whatever scheme.
pub(crate) type Engine = Arc<dyn AnyEngine<Native>>;
/// Its workers.
pub(crate) type CoreWorker = Box<dyn AnyWorker<Native>>;

impl Table {
    /// Its name.
    pub fn name(&self) -> &str {
        self.core.name()
    }

    /// Its columns and primary key.
    pub fn schema(&self) -> &Schema {
        self.core.schema()
    }

    /// Rows present at some moment during the call, uncommitted ones included.
    pub fn row_count(&self) -> u64 {
        self.core.row_count()
    }

    /// An ordered index by name.
    ///
    /// # Errors
    /// [`Error::Transaction`] when there is none.
    pub fn index(&self, name: &str) -> Result<Index> {
        let number = self.engine.index(&self.core, name).map_err(Error::of_stop)?;
        Ok(Index { table: self.clone(), number })
    }

    /// Its ordered indexes.
    pub fn indexes(&self) -> Vec<atoll_txn::IndexSpec> {
        self.engine.indexes(self.core.id())
    }

    /// Number of its tablespace.
    pub fn tablespace(&self) -> u32 {
        self.engine.table_options(self.core.id()).tablespace.unwrap_or(0)
    }

    /// The partition of a key, by its first column; 0 unless the database's scheme has partitions.
    pub fn partition(&self, key: &[atoll_storage::Value]) -> u32 {
        self.engine.partition(key)
    }
}

/// A database and everything of it that snapshots in this process keep alive.
pub(crate) struct Inner {
    pub(crate) engine: Engine,
    pub(crate) scheme: SchemeKind,
    pub(crate) leases: Mutex<Leases>,
    workers: Mutex<Vec<CoreWorker>>,
    pub(crate) bases: Vec<Snapshot>,
    topology: Topology,
    /// One snapshot is taken at a time.
    taking: Mutex<()>,
    pub(crate) errands: Arc<Errands>,
    /// Of a database with a budget of memory.
    pub(crate) evictor: Option<Evictor>,
    /// Of a durable database.
    pub(crate) acknowledger: OnceLock<Acknowledger>,
}

/// A database, owned by this process and in its memory. Clones are the same database; its memory
/// goes when the last clone and the last snapshot in this process have gone.
#[derive(Clone)]
pub struct Database(Arc<Handle>);

struct Handle {
    /// Stops before the rest goes.
    server: Mutex<Option<Server>>,
    _keeper: Keeper,
    /// Of a durable database; stops before the rest goes.
    flusher: Mutex<Option<Flusher>>,
    recovery: Option<RecoveryReport>,
    inner: Arc<Inner>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = self.name().unwrap_or_else(|| "without a name".to_owned());
        write!(f, "Database {name}, {}, with {} tables", self.scheme(), self.tables().len())
    }
}

impl Database {
    /// A new, empty database.
    ///
    /// # Errors
    /// [`Error::Memory`] when its store cannot be made, [`Error::Machine`];
    /// [`Error::BudgetWithoutFolder`].
    pub fn create(options: DatabaseOptions) -> Result<Self> {
        Self::derive(Vec::new(), options)
    }

    /// A new database that also shows the tables of the given snapshots. Its own tables lie in a
    /// store of its own; the snapshots are read where they are.
    ///
    /// # Errors
    /// As [`Database::create`]; [`Error::SnapshotExpired`].
    pub fn derive(bases: Vec<Snapshot>, options: DatabaseOptions) -> Result<Self> {
        Ok(Self::of(Inner::new(bases, &options, None)?, None, None))
    }

    /// Opens the database in a folder, or makes a new one there. Everything that was acknowledged
    /// is there, whatever has stopped it; see [`Durability`].
    ///
    /// # Errors
    /// As [`Database::create`]; [`Error::InUse`] when it is open; [`Error::Log`] when the folder
    /// cannot be read or written, is not a database's, or is damaged: nothing is changed then.
    pub fn open(folder: &Path, options: DatabaseOptions) -> Result<Self> {
        Self::open_on(&FileMedium::new(folder)?, options)
    }

    /// As [`Database::open`], on any medium.
    ///
    /// # Errors
    /// As there.
    pub fn open_on(medium: &dyn Medium, options: DatabaseOptions) -> Result<Self> {
        let archive = options.archive.as_deref().map(FileMedium::new).transpose()?;
        Self::open_archived_on(medium, archive.map(|archive| Arc::new(archive) as _), options)
    }

    /// As [`Database::open_on`], with the logs archived on any medium.
    ///
    /// # Errors
    /// As there; [`Error::Log`] with [`LogError::NoArchive`] or [`LogError::AnotherDatabase`].
    pub fn open_archived_on(
        medium: &dyn Medium,
        archive: Option<Arc<dyn Medium>>,
        options: DatabaseOptions,
    ) -> Result<Self> {
        let inner = Inner::new(Vec::new(), &options, medium.on_file_system())?;
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let tablespaces = options.tablespaces.unwrap_or(inner.topology.nodes.len());
        let most = atoll_log::logs::TABLESPACES_MAX;
        let tablespaces = tablespaces.clamp(1, most);
        let folders = options.node_folders;
        let steps_max = options.checkpoint_steps_max;
        let checkpoint_log_bytes = options.checkpoint_log_bytes;
        let logs = options.logs;
        let how = OpenOptions {
            tablespaces,
            folders,
            checkpoint_log_bytes,
            steps_max,
            logs,
            archive,
            threads,
        };
        let (checkpointer, report) = durable::open::open(medium, &inner.engine, &how)?;
        let logs = checkpointer.logs();
        let durability = options.durability;
        let acknowledger = Acknowledger { logs: Arc::clone(&logs), durability };
        let is_first = inner.acknowledger.set(acknowledger).is_ok();
        debug_assert!(is_first);
        inner.engine.record_to(logs);
        let policy = Policy {
            durability,
            checkpoint_log_bytes: options.checkpoint_log_bytes,
            checkpoint_interval: options.checkpoint_interval,
        };
        let flusher = Flusher::start(&inner, checkpointer, policy);
        Ok(Self::of(inner, Some(flusher), Some(report)))
    }

    fn of(inner: Arc<Inner>, flusher: Option<Flusher>, recovery: Option<RecoveryReport>) -> Self {
        let (server, _keeper) = (Mutex::default(), Keeper::start(&inner));
        Self(Arc::new(Handle { server, _keeper, flusher: Mutex::new(flusher), recovery, inner }))
    }

    /// Bytes that have been written into the logs since it was opened.
    ///
    /// # Errors
    /// [`Error::NotDurable`].
    pub fn log_bytes(&self) -> Result<u64> {
        let acknowledger = self.0.inner.acknowledger.get().ok_or(Error::NotDurable)?;
        Ok(acknowledger.logs.bytes())
    }

    /// What opening has found and done; `None` for a database that is in memory only.
    pub fn recovery(&self) -> Option<&RecoveryReport> {
        self.0.recovery.as_ref()
    }

    /// Writes what has changed home, so that opening again needs less of the logs. Transactions go
    /// on meanwhile. Taken by itself as the logs grow, and every
    /// [`DatabaseOptions::checkpoint_interval`].
    ///
    /// # Errors
    /// [`Error::NotDurable`], [`Error::Log`], those of [`Database::snapshot`]. The checkpoint
    /// before counts then.
    pub fn checkpoint(&self) -> Result<CheckpointReport> {
        let flusher = lock(&self.0.flusher);
        flusher.as_ref().ok_or(Error::NotDurable)?.checkpoint(&self.0.inner)
    }

    /// Writes a copy into a folder that is empty or is made: a database of its own, as this one is
    /// at some moment during the call, which is opened as any other. Transactions go on meanwhile;
    /// checkpoints wait.
    ///
    /// # Errors
    /// [`Error::NotDurable`]; [`Error::Log`] for a folder that holds something, or cannot be
    /// written; those of [`Database::checkpoint`]. What was written then is no database.
    pub fn backup(&self, folder: &Path) -> Result<BackupReport> {
        self.backup_on(&FileMedium::new(folder)?)
    }

    /// As [`Database::backup`], on any medium.
    ///
    /// # Errors
    /// As there.
    pub fn backup_on(&self, medium: &dyn Medium) -> Result<BackupReport> {
        let flusher = lock(&self.0.flusher);
        let flusher = flusher.as_ref().ok_or(Error::NotDurable)?;
        flusher.backup(&self.0.inner, medium)
    }

    /// Marks this moment in the logs, so that the database can be restored to it: with exactly what
    /// had been committed. Durable when this returns. A moment is marked every second in any case,
    /// if something has been logged, and when the database is closed.
    ///
    /// # Errors
    /// [`Error::NotDurable`], [`Error::Log`].
    pub fn mark(&self) -> Result<Moment> {
        let logs = &self.0.inner.acknowledger.get().ok_or(Error::NotDurable)?.logs;
        let mark = logs.mark(now_us)?;
        logs.settle(mark.gsn)?;
        Ok(Moment { gsn: mark.gsn, time_us: mark.time_us })
    }

    /// Why the logs could not be archived when that was last tried, with the last checkpoint; they
    /// are kept where they are until they can.
    pub fn archive_failure(&self) -> Option<LogError> {
        lock(&self.0.flusher).as_ref().and_then(Flusher::not_archived)
    }

    /// Waits until everything that has been committed is durable, whatever durability was asked
    /// for.
    ///
    /// # Errors
    /// [`Error::NotDurable`], [`Error::Log`].
    pub fn flush(&self) -> Result<()> {
        let acknowledger = self.0.inner.acknowledger.get().ok_or(Error::NotDurable)?;
        Ok(acknowledger.logs.flush()?)
    }

    /// Flushes of the logs so far; 0 for a database that is in memory only.
    pub fn flushes(&self) -> u64 {
        self.0.inner.acknowledger.get().map_or(0, |acknowledger| acknowledger.logs.flushes())
    }

    /// Checkpoints since it was opened, those taken by itself included; 0 for a database that is in
    /// memory only.
    pub fn checkpoints(&self) -> u64 {
        lock(&self.0.flusher).as_ref().map_or(0, Flusher::checkpoints)
    }

    /// Makes everything durable and says on the medium that the database was closed. Dropping the
    /// last clone does the same and cannot tell of an error.
    ///
    /// # Errors
    /// [`Error::Log`]: what was committed without [`Durability::Strict`] may be lost; with
    /// [`LogError::NotArchived`] it is closed, and only the archive lacks something.
    pub fn close(self) -> Result<()> {
        match lock(&self.0.flusher).as_mut() {
            Some(flusher) => flusher.close(),
            None => Ok(()),
        }
    }
}

impl Inner {
    /// `folder` is where the database is kept, if that is on a file system.
    fn new(
        bases: Vec<Snapshot>,
        options: &DatabaseOptions,
        folder: Option<&Path>,
    ) -> Result<Arc<Self>> {
        bases.iter().try_for_each(Snapshot::check)?;
        let topology = match options.nodes {
            Some(nodes) => Topology::discover()?.with_logical_nodes(nodes)?,
            None => Topology::discover()?,
        };
        let Room { memory, limits, evictor } = Room::new(options, folder)?;
        let directory = Arc::new(Directory::create(Arc::clone(&memory))?);
        let leases = Mutex::new(Leases::new(&memory, limits)?);
        let cpus = || std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32);
        let scheme = SchemeOptions {
            timestamps: options.timestamps,
            partitions: options.partitions.unwrap_or_else(cpus).max(1),
            lock_timeout_ns: options.lock_timeout.as_nanos().try_into().unwrap_or(u64::MAX),
        };
        Ok(Arc::new(Self {
            engine: any::engine(options.scheme, &scheme, directory, options.accounting),
            scheme: options.scheme,
            leases,
            workers: Mutex::default(),
            bases,
            topology,
            taking: Mutex::default(),
            errands: Arc::default(),
            evictor,
            acknowledger: OnceLock::new(),
        }))
    }
}

impl Database {
    /// Gives the database a name by which other processes attach to it, in `runtime_dir` or the
    /// user's own.
    ///
    /// # Errors
    /// [`Error::Lease`] for a name that is taken or bad; [`Error::Published`];
    /// [`Error::SnapshotExpired`] or [`Error::LocalBase`] when it is built on a snapshot that
    /// cannot be handed on.
    pub fn publish(&self, name: &str, runtime_dir: Option<&Path>) -> Result<()> {
        let mut server = lock(&self.0.server);
        if let Some(server) = &*server {
            return Err(Error::Published(server.name().to_owned()));
        }
        for base in &self.0.inner.bases {
            base.check()?;
            base.descriptor()?;
        }
        let publication = Arc::new(Publication::new(&self.0.inner));
        *server = Some(Server::start(name, &RuntimeDir::open(runtime_dir)?, publication)?);
        Ok(())
    }

    /// The name that it is published by.
    pub fn name(&self) -> Option<String> {
        lock(&self.0.server).as_ref().map(|server| server.name().to_owned())
    }

    /// The snapshots that it is built on.
    pub fn bases(&self) -> &[Snapshot] {
        &self.0.inner.bases
    }

    /// Adds a table, at once and outside any transaction.
    ///
    /// # Errors
    /// [`Error::Storage`] for a name that exists or cannot be one; [`Error::Memory`].
    pub fn create_table(&self, name: &str, schema: Schema) -> Result<Table> {
        self.create_table_with(name, schema, &TableOptions::default())
    }

    /// Adds a table with ordered indexes, or in a tablespace, at once and outside any transaction.
    ///
    /// # Errors
    /// As [`Database::create_table`]; [`Error::Log`] with [`LogError::NoTablespace`].
    pub fn create_table_with(
        &self,
        name: &str,
        schema: Schema,
        options: &TableOptions,
    ) -> Result<Table> {
        let engine = &self.0.inner.engine;
        let count = self.tablespaces();
        // Checked here too, because in memory there is no log that would.
        if let Some(wanted) = options.tablespace.filter(|wanted| *wanted as usize >= count) {
            return Err(LogError::NoTablespace(wanted, count).into());
        }
        let core = engine.create_table(name, schema, options).map_err(Error::of_stop)?;
        if let Some(acknowledger) = self.0.inner.acknowledger.get() {
            acknowledger.acknowledge_all()?;
        }
        Ok(Table { core, engine: Arc::clone(engine) })
    }

    /// A table by name.
    ///
    /// # Errors
    /// [`Error::Storage`] when there is none.
    pub fn table(&self, name: &str) -> Result<Table> {
        let engine = &self.0.inner.engine;
        Ok(Table { core: engine.table(name)?, engine: Arc::clone(engine) })
    }

    /// The names of its own tables in the order of creation.
    pub fn tables(&self) -> Vec<String> {
        let tables = self.0.inner.engine.all_tables();
        tables.iter().map(|table| table.name().to_owned()).collect()
    }

    /// How many tablespaces it has: those of its folder, or one for each node when it is in memory
    /// only, where they are no more than a number.
    pub fn tablespaces(&self) -> usize {
        let inner = &self.0.inner;
        let logs = inner.acknowledger.get().map(|acknowledger| acknowledger.logs.logs().len());
        logs.unwrap_or(inner.topology.nodes.len())
    }

    /// Begins a transaction.
    ///
    /// # Errors
    /// [`Error::TooManyTransactions`].
    pub fn begin(&self) -> Result<Transaction> {
        self.begin_with(&TransactionOptions::default())
    }

    /// Begins a transaction of which something is known.
    ///
    /// # Errors
    /// [`Error::TooManyTransactions`]; [`Error::Transaction`] for a partition that does not exist;
    /// [`Error::Aborted`] when the scheme does not let it begin.
    pub fn begin_with(&self, options: &TransactionOptions) -> Result<Transaction> {
        let inner = &self.0.inner;
        let mut transaction = Transaction::new(Arc::clone(inner), inner.worker()?);
        transaction.restart(options)?;
        Ok(transaction)
    }

    /// A session: what a thread uses that runs many transactions.
    ///
    /// # Errors
    /// [`Error::TooManyTransactions`].
    pub fn session(&self) -> Result<Session> {
        let inner = &self.0.inner;
        Ok(Session::new(Transaction::new(Arc::clone(inner), inner.worker()?)))
    }

    /// So many lanes, at least one: what a thread uses that works on many transactions in turns.
    ///
    /// # Errors
    /// [`Error::TooManyTransactions`].
    pub fn lanes(&self, count: usize) -> Result<Lanes> {
        let inner = &self.0.inner;
        let transaction = |_| Ok(Transaction::new(Arc::clone(inner), inner.worker()?));
        Ok(Lanes::new((0..count.max(1)).map(transaction).collect::<Result<_>>()?))
    }

    /// Runs `body` in a transaction and commits; when it is aborted by a conflict, tries again.
    ///
    /// # Errors
    /// What `body` returns; the transaction is rolled back then. [`Error::Aborted`] when `body`
    /// rolled it back, or an error ended the transaction and `body` passed over it.
    pub fn transaction<R>(&self, body: impl FnMut(&mut Transaction) -> TxnResult<R>) -> Result<R> {
        self.session()?.transaction(body)
    }

    /// The scheme that keeps its transactions apart.
    pub fn scheme(&self) -> SchemeKind {
        self.0.inner.scheme
    }

    /// What its transactions have spent their time on.
    pub fn accounting(&self) -> Accounting {
        let counts = self.0.inner.engine.counts();
        let reasons = atoll_txn::AbortReason::ALL.iter().map(|reason| reason.name());
        let components = Component::ALL.iter().map(|component| component.name());
        Accounting {
            commits: counts.commits,
            aborts: reasons.zip(counts.aborts).collect(),
            components_ns: components.zip(counts.components).collect(),
        }
    }

    /// Takes a snapshot for this process.
    ///
    /// # Errors
    /// [`Error::SnapshotLimit`], [`Error::TooManySnapshots`], [`Error::Memory`],
    /// [`Error::SnapshotExpired`] for a base.
    pub fn snapshot(&self) -> Result<Snapshot> {
        self.0.inner.snapshot(self.name().unwrap_or_default(), false)
    }

    /// The snapshots that are held, and by whom.
    pub fn snapshots(&self) -> Vec<SnapshotInfo> {
        lock(&self.0.inner.leases).list(self.0.inner.memory())
    }

    /// What it has done and what it uses.
    pub fn counters(&self) -> Counters {
        self.0.inner.counters()
    }

    /// What its budget of memory is and how it is kept; `None` without one. Takes a look at every
    /// page: microseconds for a MiB.
    ///
    /// # Errors
    /// [`Error::Memory`] when the system does not tell.
    pub fn budget(&self) -> Result<Option<Budget>> {
        self.0.inner.evictor.as_ref().map(Evictor::budget).transpose()
    }

    /// The machine that it runs on.
    pub fn topology(&self) -> &Topology {
        &self.0.inner.topology
    }
}

/// A snapshot that was just taken.
pub(crate) struct Taken {
    pub(crate) root: u64,
    pub(crate) epoch: u64,
    /// Offset and bytes of the patch.
    pub(crate) patch: (u64, u64),
    pub(crate) line: u64,
    pub(crate) take_ns: u64,
}

impl Inner {
    pub(crate) fn memory(&self) -> &Arc<Memory> {
        self.engine.memory()
    }

    pub(crate) fn counters(&self) -> Counters {
        let (memory, counts) = (self.memory(), self.engine.counts());
        Counters {
            commits: counts.commits,
            aborts: counts.aborts_all(),
            extents_copied: memory.copied().extents,
            bytes_copied_on_write: memory.copied().bytes,
            memory_allocated_bytes: memory.swing().allocated_bytes(),
            memory_committed_bytes: memory.store().committed_bytes(),
            memory_limit_bytes: memory.store().limit_bytes(),
            memory_kept_bytes: memory.kept_bytes_all(),
            snapshots: memory.leases(),
            epoch: memory.epoch(),
        }
    }

    fn worker(&self) -> Result<CoreWorker> {
        let pooled = lock(&self.workers).pop();
        match pooled {
            Some(worker) => Ok(worker),
            None => Arc::clone(&self.engine).any_worker().map_err(Error::of_stop),
        }
    }

    /// A worker that has no open transaction is used again.
    pub(crate) fn give_back(&self, worker: CoreWorker) {
        lock(&self.workers).push(worker);
    }

    /// Takes a snapshot for `holder`: the cut, the patch that undoes what was open at it, and a
    /// line in the book. No limit is set to what is the database's own.
    pub(crate) fn take(&self, id: LeaseId, holder: Peer, is_own: bool) -> Result<Taken> {
        self.bases.iter().try_for_each(Snapshot::check)?;
        let memory = self.memory();
        let _taking = lock(&self.taking);
        lock(&self.leases).may_take(memory)?;
        let begin = Native::now_ns();
        let taking = self.engine.taking();
        let cut = memory.cut();
        let open = self.engine.open_at(&taking, cut.epoch);
        drop(taking);
        if let Some(acknowledger) = self.acknowledger.get().filter(|_| !is_own) {
            acknowledger.show_all();
        }
        let taken = self.write_patch(&open).and_then(|patch| {
            let new = NewLease { holder, epoch: cut.epoch, patch: patch.0, is_own };
            let line = lock(&self.leases).add(memory, id, new).inspect_err(|_| {
                if patch.0 != 0 {
                    memory.discard(patch.0);
                }
            })?;
            let take_ns = Native::now_ns() - begin;
            Ok(Taken { root: cut.root, epoch: cut.epoch, patch, line, take_ns })
        });
        taken.inspect_err(|_| {
            memory.release(cut.epoch);
            self.errands.reclaim();
        })
    }

    fn write_patch(&self, open: &[undo::Entry]) -> Result<(u64, u64)> {
        if open.is_empty() {
            return Ok((0, 0));
        }
        let mut words = Vec::new();
        open.iter().for_each(|entry| undo::write(entry, &mut words));
        let bytes = words.len() as u64 * 8;
        let extent = self.memory().allocate(bytes, Purpose::Ordinary)?;
        for (at, word) in words.iter().enumerate() {
            self.memory().access().store_u64(extent.offset + at as u64 * 8, *word);
        }
        Ok((extent.offset, bytes))
    }

    /// A lease has ended. Returns whether memory can be reclaimed now.
    pub(crate) fn end_lease(&self, id: LeaseId) -> bool {
        let memory = self.memory();
        let Some(lease) = lock(&self.leases).remove(memory, id) else { return false };
        if lease.patch != 0 {
            memory.discard(lease.patch);
        }
        memory.release(lease.epoch)
    }

    pub(crate) fn snapshot(self: &Arc<Self>, name: String, is_own: bool) -> Result<Snapshot> {
        let begin = Native::now_ns();
        let id = lock(&self.leases).local_id();
        let holder = Peer { pid: std::process::id(), uid: 0, command: "(this process)".to_owned() };
        let taken = self.take(id, holder, is_own)?;
        let origin = Origin::Here { _lease: LocalLease { inner: Arc::clone(self), id } };
        Snapshot::open(SnapshotParts {
            database: name,
            store: Arc::clone(self.memory().store()),
            root: taken.root,
            epoch: taken.epoch,
            patch: taken.patch,
            line: taken.line,
            take_ns: taken.take_ns,
            attach_ns: Native::now_ns() - begin,
            origin,
            bases: self.bases.clone(),
        })
    }

    /// Empties blocks of long texts that few values keep.
    pub(crate) fn compact(&self) {
        for table in self.engine.all_tables() {
            if !table.may_be_sparse() {
                continue;
            }
            // Without a place at the gate it is left for another time.
            let Ok(mut worker) = self.worker() else { return };
            worker.compact(&table, COMPACT_VALUES_MAX);
            self.give_back(worker);
        }
    }

    /// That what does not fit memory is where it was put.
    pub(crate) fn check_spill(&self) -> Result<()> {
        self.evictor.as_ref().map_or(Ok(()), Evictor::check)
    }

    pub(crate) fn enforce(&self) {
        lock(&self.leases).enforce(self.memory());
    }
}
