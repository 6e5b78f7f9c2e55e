//! The database in the process that owns it. `folder` is about databases that are kept in a folder.

mod folder;
mod tables;

use std::any::Any;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use atoll_machine::Topology;
use atoll_machine::fork::Here;
use atoll_memory::lease::{RuntimeDir, Server};
use atoll_txn::{Component, SchemeKind};

use crate::acknowledger::Acknowledger;
use crate::core::Core;
use crate::counters::{Accounting, Counters, MemoryAccount};
use crate::durable::RecoveryReport;
use crate::durable::flusher::Flusher;
use crate::durable::health::Notes;
use crate::engine::Engine;
use crate::error::{Error, Result, TxnResult};
use crate::evictor::{Budget, Evictor};
use crate::keeper::Keeper;
use crate::lanes::Lanes;
use crate::leases::SnapshotInfo;
use crate::options::DatabaseOptions;
use crate::publish::Publication;
use crate::session::Session;
use crate::sharing::Sharing;
use crate::snapshot::Snapshot;
use crate::transaction::{Transaction, TransactionOptions};

/// A database that this process owns and keeps in its memory. Clones are handles of the same
/// database; its memory is freed when the last clone and the last snapshot in this process are
/// dropped.
///
/// A child that is forked from this process cannot use the database: calls that can fail return
/// [`Error::ForkedChild`], other calls show a database without tables and with all counters at
/// zero, and dropping the handle changes nothing. The child can read snapshots that were taken
/// before the fork, attach by name like any other process, and create databases of its own.
#[derive(Clone)]
pub struct Database(Arc<Here<Handle>>);

/// The core of a database and the services that work on it.
struct Handle {
    /// Stops before the other fields are dropped.
    server: Mutex<Option<Server>>,
    _keeper: Keeper,
    /// Set for a durable database; stops before the fields below are dropped.
    flusher: Mutex<Option<Flusher>>,
    /// Failures that the flusher's threads have met.
    notes: Arc<Notes>,
    recovery: Option<RecoveryReport>,
    companion: OnceLock<Box<dyn Any + Send + Sync>>,
    /// Of [`Database::shared_snapshot`].
    sharing: Sharing<Snapshot>,
    core: Arc<Core>,
    bases: Vec<Snapshot>,
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
    /// Creates an empty database.
    ///
    /// # Errors
    /// [`Error::Memory`] when its store cannot be created, [`Error::Machine`];
    /// [`Error::BudgetWithoutFolder`], [`Error::ColdNodeWithoutBudget`], [`Error::NoColdNode`].
    pub fn create(options: DatabaseOptions) -> Result<Self> {
        Self::derive(Vec::new(), options)
    }

    /// Creates a database that also shows the tables of the given snapshots. Its own tables are in
    /// a store of its own; the snapshots are read in place.
    ///
    /// # Errors
    /// As [`Database::create`]; [`Error::SnapshotExpired`].
    pub fn derive(bases: Vec<Snapshot>, options: DatabaseOptions) -> Result<Self> {
        bases.iter().try_for_each(Snapshot::check)?;
        let core = Core::new(&options, None)?;
        core.make_ready(options.ready_bytes)?;
        Ok(Self::of(core, bases, None, None))
    }

    fn of(
        core: Arc<Core>,
        bases: Vec<Snapshot>,
        flusher: Option<Flusher>,
        recovery: Option<RecoveryReport>,
    ) -> Self {
        core.list_tables();
        let (server, _keeper) = (Mutex::default(), Keeper::start(&core));
        let notes = flusher.as_ref().map(Flusher::notes).unwrap_or_default();
        let flusher = Mutex::new(flusher);
        let companion = OnceLock::new();
        let sharing = Sharing::default();
        let handle =
            Handle { server, _keeper, flusher, notes, recovery, companion, sharing, core, bases };
        Self(Arc::new(Here::new(handle)))
    }

    /// Checks that this process owns the database and is not a child that was forked from the
    /// owner. Every fallible call makes this check first.
    ///
    /// # Errors
    /// [`Error::ForkedChild`].
    pub fn check_owner(&self) -> Result<()> {
        self.owned().map(drop)
    }

    #[inline]
    fn owned(&self) -> Result<&Arc<Core>> {
        let core = &self.0.core;
        core.check_owner().map(|()| core)
    }

    /// The engine.
    pub(crate) fn engine(&self) -> Result<&Engine> {
        self.owned().map(|core| &core.engine)
    }

    /// The acknowledger of a durable database.
    pub(crate) fn acknowledger(&self) -> Result<Option<&Acknowledger>> {
        self.owned().map(|core| core.acknowledger.get())
    }

    /// Gives the database a name by which other processes attach to it, in `runtime_dir` or in the
    /// user's own runtime directory.
    ///
    /// # Errors
    /// [`Error::Lease`] for a name that is taken or invalid; [`Error::Published`];
    /// [`Error::SnapshotExpired`] or [`Error::LocalBase`] when the database is built on a snapshot
    /// that cannot be given to another process.
    pub fn publish(&self, name: &str, runtime_dir: Option<&Path>) -> Result<()> {
        let core = self.owned()?;
        let mut server = lock(&self.0.server);
        if let Some(server) = &*server {
            return Err(Error::Published(server.name().to_owned()));
        }
        for base in self.bases() {
            base.check()?;
            base.descriptor()?;
        }
        let publication = Arc::new(Publication::new(core, self.bases().to_vec()));
        *server = Some(Server::start(name, &RuntimeDir::open(runtime_dir)?, publication)?);
        Ok(())
    }

    /// The name under which the database is published.
    pub fn name(&self) -> Option<String> {
        self.owned().ok()?;
        lock(&self.0.server).as_ref().map(|server| server.name().to_owned())
    }

    /// The snapshots that the database is built on.
    pub fn bases(&self) -> &[Snapshot] {
        &self.0.bases
    }

    /// What a layer above keeps with the database, such as its plans; it is made by the first call
    /// and lives as long as the database. `None` if another layer has put something else there.
    pub fn companion<T: Any + Send + Sync>(&self, make: impl FnOnce() -> T) -> Option<&T> {
        self.0.companion.get_or_init(|| Box::new(make())).downcast_ref()
    }

    /// The number of tablespaces: those of the folder, or one for each node with CPUs when the
    /// database is in memory only; there a tablespace is no more than a number.
    pub fn tablespaces(&self) -> usize {
        self.0.core.tablespaces()
    }

    /// Begins a transaction. A thread may have several open, as long as none waits for what another
    /// of them holds: it would wait, or be retried, for ever.
    ///
    /// # Errors
    /// [`Error::TooManyTransactions`].
    pub fn begin(&self) -> Result<Transaction> {
        self.begin_with(&TransactionOptions::default())
    }

    /// Begins a transaction with options.
    ///
    /// # Errors
    /// [`Error::TooManyTransactions`]; [`Error::Transaction`] for a partition that does not exist;
    /// [`Error::Aborted`] when the scheme does not let it begin.
    pub fn begin_with(&self, options: &TransactionOptions) -> Result<Transaction> {
        let mut transaction = self.new_transaction()?;
        transaction.restart(options)?;
        Ok(transaction)
    }

    /// A transaction that has a worker and has not begun.
    pub(crate) fn new_transaction(&self) -> Result<Transaction> {
        let core = &self.0.core;
        let mut transaction = Transaction::new(Arc::clone(core), core.txn()?);
        transaction.attach()?;
        Ok(transaction)
    }

    /// A session, by which a thread runs many transactions one after the other.
    ///
    /// # Errors
    /// [`Error::TooManyTransactions`].
    pub fn session(&self) -> Result<Session> {
        Ok(Session::new(self.new_transaction()?))
    }

    /// A number of lanes, at least one, by which a thread interleaves many transactions.
    ///
    /// # Errors
    /// [`Error::TooManyTransactions`].
    pub fn lanes(&self, count: usize) -> Result<Lanes> {
        let transaction = |_| self.new_transaction();
        let transactions = (0..count.max(1)).map(transaction).collect::<Result<_>>()?;
        Ok(Lanes::new(transactions, self.0.core.scheme.is_partitioned()))
    }

    /// Runs `body` in a transaction and commits; retries it when a conflict aborts it, see
    /// [`Session::transaction`].
    ///
    /// # Errors
    /// What `body` returns; the transaction is rolled back then. [`Error::Aborted`] when `body`
    /// rolled it back, or when an error ended the transaction and `body` ignored it.
    pub fn transaction<R>(&self, body: impl FnMut(&mut Transaction) -> TxnResult<R>) -> Result<R> {
        self.session()?.transaction(body)
    }

    /// The concurrency-control scheme.
    pub fn scheme(&self) -> SchemeKind {
        self.0.core.scheme
    }

    /// The time that transactions have spent, by component, and the reasons of aborts.
    pub fn accounting(&self) -> Accounting {
        let counts = self.owned().map(|core| core.engine.counts()).unwrap_or_default();
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
        Snapshot::take(self.owned()?, self.bases(), self.name().unwrap_or_default(), false)
    }

    /// A snapshot that is taken from now on. All threads that ask while another is being taken get
    /// the same one, so that many queries at a time cost the writers few snapshots.
    ///
    /// # Errors
    /// As [`Database::snapshot`].
    pub fn shared_snapshot(&self) -> Result<Snapshot> {
        self.owned()?;
        self.0.sharing.take(|| self.snapshot())
    }

    /// The snapshots that are held, with their holders.
    pub fn snapshots(&self) -> Vec<SnapshotInfo> {
        let Ok(core) = self.owned() else { return Vec::new() };
        lock(&core.leases).list(core.memory())
    }

    /// Counters of the database's work and memory.
    pub fn counters(&self) -> Counters {
        self.owned().map(|core| core.counters()).unwrap_or_default()
    }

    /// Where the memory of the database is. Looks at every page of row headers and indexes, which
    /// takes microseconds for each MiB.
    pub fn memory(&self) -> MemoryAccount {
        self.owned().map(|core| core.memory_account()).unwrap_or_default()
    }

    /// The DRAM budget and its current state; `None` without a budget. Looks at every page of the
    /// store, which takes microseconds for each MiB.
    ///
    /// # Errors
    /// [`Error::Memory`] when the system cannot report it.
    pub fn budget(&self) -> Result<Option<Budget>> {
        self.owned()?.evictor.as_ref().map(Evictor::budget).transpose()
    }

    /// The machine on which the database runs.
    pub fn topology(&self) -> &Topology {
        &self.0.core.topology
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::time::{Duration, Instant};

    use crate::{Column, DataType, Database, DatabaseOptions, Schema, Value};

    /// Deleted rows that another transaction might still have needed are collected even if their
    /// worker is not used again.
    #[test]
    fn what_an_idle_worker_has_let_go_is_taken_away() {
        let options =
            DatabaseOptions { scheme: "mvcc".parse().unwrap(), ..DatabaseOptions::default() };
        let db = Database::create(options).unwrap();
        let schema = Schema::new(vec![Column::new("id", DataType::Int64)], &["id"]).unwrap();
        let table = db.create_table("t", schema).unwrap();
        let keys: Vec<Value> = (0..1000i64).map(Value::from).collect();
        let each = || keys.iter().map(std::slice::from_ref);
        db.transaction(|tx| each().try_for_each(|row| tx.insert(&table, row))).unwrap();
        let mut reader = db.begin().unwrap();
        assert!(reader.read(&table, &keys[..1]).unwrap().is_some());
        let mut writers = [db.begin().unwrap(), db.begin().unwrap()];
        for (at, key) in each().enumerate() {
            assert!(writers[at % 2].delete(&table, key).unwrap());
        }
        for writer in writers {
            writer.commit().unwrap();
        }
        std::thread::sleep(Duration::from_millis(100));
        // The keeper may be working on one of the workers at this moment.
        let waits = (0..1000).any(|_| db.0.core.engine.idle_workers() == (2, 2));
        assert!(waits, "the reader may still need them");
        drop(reader);
        let began = Instant::now();
        while db.0.core.engine.idle_workers() != (3, 0) {
            assert!(began.elapsed() < Duration::from_secs(60), "their garbage was not collected");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
