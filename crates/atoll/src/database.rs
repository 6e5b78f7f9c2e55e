//! The database in the process that owns it.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use atoll_log::LogError;
use atoll_machine::fork::Here;
use atoll_machine::{FileMedium, Medium, Topology};
use atoll_memory::lease::{RuntimeDir, Server};
use atoll_storage::Schema;
use atoll_txn::{Component, SchemeKind, TableOptions};

use crate::acknowledger::Acknowledger;
use crate::core::Core;
use crate::counters::{Accounting, Counters};
use crate::durability::Durability;
use crate::durable::flusher::{Flusher, Policy};
use crate::durable::health::{Health, Notes};
use crate::durable::open::OpenOptions;
use crate::durable::{self, BackupReport, CheckpointReport, RecoveryReport};
use crate::error::{Error, Result, TxnResult};
use crate::evictor::{Budget, Evictor};
use crate::keeper::Keeper;
use crate::lanes::Lanes;
use crate::leases::SnapshotInfo;
use crate::options::DatabaseOptions;
use crate::publish::Publication;
use crate::restore_point::{RestorePoint, now_us};
use crate::session::Session;
use crate::snapshot::Snapshot;
use crate::table::Table;
use crate::transaction::{Transaction, TransactionOptions};

/// A database, owned by this process and in its memory. Clones are the same database; its memory
/// goes when the last clone and the last snapshot in this process have gone.
///
/// A child that is forked from this process cannot use it: whatever can fail does so there, with
/// [`Error::ForkedChild`], the rest shows a database without tables that has done nothing, and
/// dropping it there changes nothing. A child reads snapshots that were taken before the fork,
/// attaches by name like any other process, and has databases of its own.
#[derive(Clone)]
pub struct Database(Arc<Here<Handle>>);

struct Handle {
    /// Stops before the rest goes.
    server: Mutex<Option<Server>>,
    _keeper: Keeper,
    /// Of a durable database; stops before the rest goes.
    flusher: Mutex<Option<Flusher>>,
    /// What its threads have met.
    notes: Arc<Notes>,
    recovery: Option<RecoveryReport>,
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
    /// A new, empty database.
    ///
    /// # Errors
    /// [`Error::Memory`] when its store cannot be made, [`Error::Machine`];
    /// [`Error::BudgetWithoutFolder`], [`Error::ColdNodeWithoutBudget`], [`Error::NoColdNode`].
    pub fn create(options: DatabaseOptions) -> Result<Self> {
        Self::derive(Vec::new(), options)
    }

    /// A new database that also shows the tables of the given snapshots. Its own tables lie in a
    /// store of its own; the snapshots are read where they are.
    ///
    /// # Errors
    /// As [`Database::create`]; [`Error::SnapshotExpired`].
    pub fn derive(bases: Vec<Snapshot>, options: DatabaseOptions) -> Result<Self> {
        bases.iter().try_for_each(Snapshot::check)?;
        let core = Core::new(&options, None)?;
        core.make_ready(options.ready_bytes)?;
        Ok(Self::of(core, bases, None, None))
    }

    /// Opens the database in a folder, or makes a new one there. Everything that was acknowledged
    /// is there, whatever has stopped it; see [`crate::Durability`].
    ///
    /// # Errors
    /// As [`Database::create`]; [`Error::InUse`] when it is open; [`Error::TooManyFolders`];
    /// [`Error::Log`] when the folder cannot be read or written, is not a database's, or is
    /// damaged: nothing is changed then.
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
        let core = Core::new(&options, medium.on_file_system())?;
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let tablespaces = options.tablespaces.unwrap_or(core.topology.working_nodes());
        let most = atoll_log::logs::TABLESPACES_MAX;
        let tablespaces = tablespaces.clamp(1, most);
        let folders = options.node_folders;
        let steps_max = options.checkpoint_steps_max;
        let checkpoint_log_bytes = options.checkpoint_log_bytes;
        let (logs, progress) = (options.logs, options.progress);
        let how = OpenOptions {
            tablespaces,
            folders,
            checkpoint_log_bytes,
            steps_max,
            logs,
            archive,
            threads,
            progress,
        };
        let (checkpointer, report) = durable::open::open(medium, &core.engine, &how)?;
        let logs = checkpointer.logs();
        let durability = options.durability;
        let due = Arc::default();
        let acknowledger =
            Acknowledger { logs: Arc::clone(&logs), durability, due: Arc::clone(&due) };
        let is_first = core.acknowledger.set(acknowledger).is_ok();
        debug_assert!(is_first);
        core.engine.record_to(logs);
        core.make_ready(options.ready_bytes)?;
        let policy = Policy {
            durability,
            checkpoint_log_bytes: options.checkpoint_log_bytes,
            checkpoint_interval: options.checkpoint_interval,
        };
        let flusher = Flusher::start(&core, checkpointer, policy, due);
        Ok(Self::of(core, Vec::new(), Some(flusher), Some(report)))
    }

    fn of(
        core: Arc<Core>,
        bases: Vec<Snapshot>,
        flusher: Option<Flusher>,
        recovery: Option<RecoveryReport>,
    ) -> Self {
        let (server, _keeper) = (Mutex::default(), Keeper::start(&core));
        let notes = flusher.as_ref().map(Flusher::notes).unwrap_or_default();
        let flusher = Mutex::new(flusher);
        let handle = Handle { server, _keeper, flusher, notes, recovery, core, bases };
        Self(Arc::new(Here::new(handle)))
    }

    /// That this process owns it, and is not a child that was forked from the owner. Everything
    /// that can fail begins with that.
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

    /// What commits survive that do not ask for something else; `None` for a database that is in
    /// memory only.
    pub fn durability(&self) -> Option<Durability> {
        self.0.core.acknowledger.get().map(|acknowledger| acknowledger.durability)
    }

    /// Bytes that have been written into the logs since it was opened.
    ///
    /// # Errors
    /// [`Error::NotDurable`].
    pub fn log_bytes(&self) -> Result<u64> {
        let acknowledger = self.owned()?.acknowledger.get().ok_or(Error::NotDurable)?;
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
        let core = self.owned()?;
        let flusher = lock(&self.0.flusher);
        flusher.as_ref().ok_or(Error::NotDurable)?.checkpoint(core)
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
        let core = self.owned()?;
        let flusher = lock(&self.0.flusher);
        flusher.as_ref().ok_or(Error::NotDurable)?.backup(core, medium)
    }

    /// Marks this moment in the logs, so that the database can be restored to it: with exactly what
    /// had been committed. Durable when this returns. A moment is marked every second in any case,
    /// if something has been logged, and when the database is closed.
    ///
    /// # Errors
    /// [`Error::NotDurable`], [`Error::Log`].
    pub fn mark(&self) -> Result<RestorePoint> {
        let logs = &self.owned()?.acknowledger.get().ok_or(Error::NotDurable)?.logs;
        let mark = logs.mark(now_us)?;
        logs.settle(mark.gsn)?;
        Ok(RestorePoint { gsn: mark.gsn, time_us: mark.time_us })
    }

    /// What is wrong with its durability: flushes, files and checkpoints that have failed, also
    /// where no transaction waits for them. Never waits for any of them.
    pub fn health(&self) -> Health {
        let Handle { notes, core, .. } = &**self.0;
        if !core.is_owner() {
            return Health::default();
        }
        let logs = core.acknowledger.get().map(|acknowledger| &*acknowledger.logs);
        let spill = core.check_spill().err().map(|error| error.to_string());
        notes.health(logs, spill)
    }

    /// Waits until everything that has been committed is durable, whatever durability was asked
    /// for.
    ///
    /// # Errors
    /// [`Error::NotDurable`], [`Error::Log`].
    pub fn flush(&self) -> Result<()> {
        let acknowledger = self.owned()?.acknowledger.get().ok_or(Error::NotDurable)?;
        Ok(acknowledger.logs.flush()?)
    }

    /// Flushes of the logs so far; 0 for a database that is in memory only.
    pub fn flushes(&self) -> u64 {
        let Ok(core) = self.owned() else { return 0 };
        core.acknowledger.get().map_or(0, |acknowledger| acknowledger.logs.flushes())
    }

    /// Checkpoints since it was opened, those taken by itself included; 0 for a database that is in
    /// memory only.
    pub fn checkpoints(&self) -> u64 {
        if self.owned().is_err() {
            return 0;
        }
        lock(&self.0.flusher).as_ref().map_or(0, Flusher::checkpoints)
    }

    /// Makes everything durable and says on the medium that the database was closed. Dropping the
    /// last clone does the same and cannot tell of an error.
    ///
    /// # Errors
    /// [`Error::Log`]: what was committed without [`crate::Durability::Strict`] may be lost; with
    /// [`LogError::NotArchived`] it is closed, and only the archive lacks something.
    pub fn close(self) -> Result<()> {
        self.owned()?;
        match lock(&self.0.flusher).as_mut() {
            Some(flusher) => flusher.close(),
            None => Ok(()),
        }
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

    /// The name that it is published by.
    pub fn name(&self) -> Option<String> {
        self.owned().ok()?;
        lock(&self.0.server).as_ref().map(|server| server.name().to_owned())
    }

    /// The snapshots that it is built on.
    pub fn bases(&self) -> &[Snapshot] {
        &self.0.bases
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
        let engine = &self.owned()?.engine;
        let count = self.tablespaces();
        // Checked here too, because in memory there is no log that would.
        if let Some(wanted) = options.tablespace.filter(|wanted| *wanted as usize >= count) {
            return Err(LogError::NoTablespace(wanted, count).into());
        }
        let core = engine.create_table(name, schema, options).map_err(Error::of_op)?;
        if let Some(acknowledger) = self.0.core.acknowledger.get() {
            acknowledger.acknowledge_all()?;
        }
        Ok(Table { core, engine: Here::new(Arc::clone(engine)) })
    }

    /// A table of its own by name, which can be changed.
    ///
    /// # Errors
    /// [`Error::Storage`] when there is none; [`Error::InheritedTable`] for one of a snapshot that
    /// the database is built on.
    pub fn table(&self, name: &str) -> Result<Table> {
        let engine = &self.owned()?.engine;
        let core = engine.table(name).map_err(|unknown| {
            let is_inherited = self.bases().iter().any(|base| base.table(name).is_ok());
            if is_inherited { Error::InheritedTable(name.to_owned()) } else { unknown.into() }
        })?;
        Ok(Table { core, engine: Here::new(Arc::clone(engine)) })
    }

    /// The names of its own tables in the order of creation.
    pub fn tables(&self) -> Vec<String> {
        let Ok(core) = self.owned() else { return Vec::new() };
        let tables = core.engine.all_tables();
        tables.iter().map(|table| table.name().to_owned()).collect()
    }

    /// How many tablespaces it has: those of its folder, or one for each node with CPUs when it is
    /// in memory only, where they are no more than a number.
    pub fn tablespaces(&self) -> usize {
        let core = &self.0.core;
        let logs = core.acknowledger.get().map(|acknowledger| acknowledger.logs.logs().len());
        logs.unwrap_or(core.topology.working_nodes())
    }

    /// Begins a transaction. A thread may have several, as long as none waits for what another of
    /// them holds: it would wait for ever, or be tried again for ever.
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
        let core = &self.0.core;
        let mut transaction = Transaction::new(Arc::clone(core), core.worker()?);
        transaction.restart(options)?;
        Ok(transaction)
    }

    /// A session: what a thread uses that runs many transactions.
    ///
    /// # Errors
    /// [`Error::TooManyTransactions`].
    pub fn session(&self) -> Result<Session> {
        let core = &self.0.core;
        Ok(Session::new(Transaction::new(Arc::clone(core), core.worker()?)))
    }

    /// So many lanes, at least one: what a thread uses that works on many transactions in turns.
    ///
    /// # Errors
    /// [`Error::TooManyTransactions`].
    pub fn lanes(&self, count: usize) -> Result<Lanes> {
        let core = &self.0.core;
        let transaction = |_| Ok(Transaction::new(Arc::clone(core), core.worker()?));
        let transactions = (0..count.max(1)).map(transaction).collect::<Result<_>>()?;
        Ok(Lanes::new(transactions, core.scheme.is_partitioned()))
    }

    /// Runs `body` in a transaction and commits; when it is aborted by a conflict, tries again, see
    /// [`Session::transaction`].
    ///
    /// # Errors
    /// What `body` returns; the transaction is rolled back then. [`Error::Aborted`] when `body`
    /// rolled it back, or an error ended the transaction and `body` passed over it.
    pub fn transaction<R>(&self, body: impl FnMut(&mut Transaction) -> TxnResult<R>) -> Result<R> {
        self.session()?.transaction(body)
    }

    /// The scheme that keeps its transactions apart.
    pub fn scheme(&self) -> SchemeKind {
        self.0.core.scheme
    }

    /// What its transactions have spent their time on.
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

    /// The snapshots that are held, and by whom.
    pub fn snapshots(&self) -> Vec<SnapshotInfo> {
        let Ok(core) = self.owned() else { return Vec::new() };
        lock(&core.leases).list(core.memory())
    }

    /// What it has done and what it uses.
    pub fn counters(&self) -> Counters {
        self.owned().map(|core| core.counters()).unwrap_or_default()
    }

    /// What its budget of memory is and how it is kept; `None` without one. Takes a look at every
    /// page: microseconds for a MiB.
    ///
    /// # Errors
    /// [`Error::Memory`] when the system does not tell.
    pub fn budget(&self) -> Result<Option<Budget>> {
        self.owned()?.evictor.as_ref().map(Evictor::budget).transpose()
    }

    /// The machine that it runs on.
    pub fn topology(&self) -> &Topology {
        &self.0.core.topology
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::time::{Duration, Instant};

    use crate::{Column, DataType, Database, DatabaseOptions, Schema, Value};

    /// Rows that were deleted while somebody might still need them do not wait for their worker to
    /// be used again.
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
        // The keeper may be looking at one of them just now.
        let waits = (0..1000).any(|_| db.0.core.idle_workers() == (2, 2));
        assert!(waits, "the reader may still need them");
        drop(reader);
        let began = Instant::now();
        while db.0.core.idle_workers() != (3, 0) {
            assert!(began.elapsed() < Duration::from_secs(60), "nobody has taken them away");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
