//! The core of a database: its engine, its memory and its leases.
//!
//! Transactions, snapshots and the services (keeper, evictor, flusher) work on the core and share
//! it; the core depends on none of them, except that it owns the evictor: a snapshot that outlives
//! the [`Database`](crate::Database) keeps the core, and its store must stay within the budget.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use atoll_machine::fork::{Legacy, Mark};
use atoll_machine::{Machine, Native, Topology};
use atoll_memory::lease::{LeaseId, Peer};
use atoll_memory::{Memory, Purpose};
use atoll_storage::{Directory, undo};
use atoll_txn::any;
use atoll_txn::{EngineOptions, SchemeKind, SchemeOptions};

use crate::acknowledger::Acknowledger;
use crate::catalog::Catalog;
use crate::counters::{Counters, MemoryAccount};
use crate::engine::{CoreTxn, Engine};
use crate::errands::Errands;
use crate::error::{Error, Result};
use crate::evictor::Evictor;
use crate::leases::{Leases, NewLease};
use crate::memory_setup::MemorySetup;
use crate::options::DatabaseOptions;
use crate::table::Table;
use crate::table_locks::TableLocks;
use crate::unfinished::Unfinished;

/// Most values that [`Core::compact`] stores again for one table in one call.
const COMPACT_VALUES_MAX: usize = 16_384;
/// Most rows and entries that [`Core::collect_garbage`] collects from one worker in one call; this
/// takes a millisecond or two.
const COLLECT_MAX: usize = 4096;

/// Most partitions; each has a queue with one entry for every transaction number.
const PARTITIONS_MAX: u32 = 4096;

/// See the module. Snapshots in this process keep it alive.
pub(crate) struct Core {
    pub(crate) engine: Engine,
    pub(crate) scheme: SchemeKind,
    pub(crate) leases: Mutex<Leases>,
    pub(crate) topology: Topology,
    /// The version of the catalog.
    pub(crate) catalog_version: AtomicU64,
    pub(crate) table_locks: TableLocks,
    pub(crate) catalog: Mutex<Arc<Catalog>>,
    /// Serializes the taking of snapshots.
    taking: Mutex<()>,
    pub(crate) errands: Arc<Errands>,
    pub(crate) unfinished: Unfinished,
    /// Set for a database with a memory budget.
    pub(crate) evictor: Option<Evictor>,
    /// Set for a durable database.
    pub(crate) acknowledger: OnceLock<Acknowledger>,
    /// Identifies the process that owns the database.
    mark: Mark,
    pid: u32,
    /// Leases of snapshots that this process has dropped while forked children may still read it.
    inherited: Mutex<Vec<(LeaseId, Legacy)>>,
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Core {
    /// `folder` is the folder of the database if it is on a file system.
    pub(crate) fn new(options: &DatabaseOptions, folder: Option<&Path>) -> Result<Arc<Self>> {
        let topology = match options.nodes {
            Some(nodes) => Topology::discover()?.with_logical_nodes(nodes)?,
            None => Topology::discover()?,
        };
        let MemorySetup { memory, limits, evictor } = MemorySetup::new(options, folder)?;
        let directory = Arc::new(Directory::create(Arc::clone(&memory))?);
        let leases = Mutex::new(Leases::new(&memory, limits)?);
        let cpus = || std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32);
        if let Some(given) = options.partitions.filter(|given| *given > PARTITIONS_MAX) {
            return Err(Error::TooManyPartitions { given, most: PARTITIONS_MAX });
        }
        let scheme = SchemeOptions {
            timestamps: options.timestamps,
            begin_timestamps: options.begin_timestamps,
            partitions: options.partitions.unwrap_or_else(cpus).max(1),
            lock_timeout_ns: options.lock_timeout.as_nanos().try_into().unwrap_or(u64::MAX),
        };
        let engine = EngineOptions {
            partitions: scheme.partitions,
            accounting: options.accounting,
            ..EngineOptions::default()
        };
        Ok(Arc::new(Self {
            engine: any::native_engine(options.scheme, &scheme, directory, engine),
            scheme: options.scheme,
            leases,
            topology,
            catalog_version: AtomicU64::new(0),
            table_locks: TableLocks::default(),
            catalog: Mutex::default(),
            taking: Mutex::default(),
            unfinished: Unfinished::default(),
            errands: Arc::default(),
            evictor,
            acknowledger: OnceLock::new(),
            mark: Mark::new(),
            pid: std::process::id(),
            inherited: Mutex::default(),
        }))
    }

    /// Checks that this process owns the database. A child that was forked from the owner may not
    /// use it: the child would change shared memory without the owner's knowledge, and a latch that
    /// another thread held at the fork stays locked in the child for ever.
    ///
    /// # Errors
    /// [`Error::ForkedChild`].
    #[inline]
    pub(crate) fn check_owner(&self) -> Result<()> {
        if self.mark.is_here() { Ok(()) } else { Err(self.forked()) }
    }

    #[cold]
    fn forked(&self) -> Error {
        let remedy = "publish it there and attach to it here by its name, read a snapshot that was \
                      taken before the fork, or make a database of your own";
        Error::ForkedChild { what: "the database", pid: self.pid, remedy }
    }

    /// Whether this process owns the database.
    #[inline]
    pub(crate) fn is_owner(&self) -> bool {
        self.mark.is_here()
    }

    /// See [`DatabaseOptions::ready_bytes`].
    pub(crate) fn make_ready(&self, bytes: u64) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        let bytes = self.memory().swing().make_ready(bytes)?;
        // This memory is outside the store and its limit, so at most half of what the machine still
        // has is touched.
        let free_bytes = atoll_machine::memory_allowed().available_bytes / 2;
        let bytes = bytes.min(free_bytes).try_into().unwrap_or(usize::MAX);
        atoll_machine::huge_pages::make_ready(bytes);
        Ok(())
    }

    pub(crate) fn memory(&self) -> &Arc<Memory> {
        self.engine.memory()
    }

    /// The number of tablespaces: those of the folder, or one for each node with CPUs when the
    /// database is in memory only; there a tablespace is no more than a number.
    pub(crate) fn tablespaces(&self) -> usize {
        let logs = self.acknowledger.get().map(|acknowledger| acknowledger.logs.logs().len());
        logs.unwrap_or(self.topology.working_nodes())
    }

    /// The tables as they are now.
    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&lock(&self.catalog))
    }

    /// Changes what names mean.
    pub(crate) fn change_catalog(&self, change: impl FnOnce(&mut Catalog)) {
        let mut catalog = lock(&self.catalog);
        change(Arc::make_mut(&mut catalog));
        self.catalog_version.store(catalog.version(), Ordering::Release);
    }

    /// Lists the tables that were restored.
    pub(crate) fn list_tables(&self) {
        self.change_catalog(|catalog| {
            let tables = self.engine.all_tables().into_iter();
            tables.for_each(|table| catalog.add(Table::new(table, &self.engine)));
        });
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

    pub(crate) fn memory_account(&self) -> MemoryAccount {
        let (memory, resident) = (self.memory(), self.engine.resident_bytes());
        let process = atoll_machine::process::memory();
        let (allocated, kept) = (memory.swing().allocated_bytes(), memory.kept_bytes_all());
        let used = resident.headers + resident.indexes + process.heap_used_bytes;
        MemoryAccount {
            tables_bytes: allocated.saturating_sub(kept),
            kept_bytes: kept,
            free_bytes: memory.store().committed_bytes().saturating_sub(allocated),
            headers_bytes: resident.headers,
            indexes_bytes: resident.indexes,
            heap_bytes: process.heap_used_bytes,
            // Free parts of the heap need not be resident.
            heap_free_bytes: process
                .heap_free_bytes
                .min(process.private_bytes.saturating_sub(used)),
            process_bytes: process.private_bytes + process.shared_bytes,
        }
    }

    pub(crate) fn txn(&self) -> Result<CoreTxn> {
        self.check_owner()?;
        Arc::clone(&self.engine).any_txn().map_err(Error::of_op)
    }

    /// A number for a lease within this process.
    pub(crate) fn local_lease_id(&self) -> LeaseId {
        lock(&self.leases).local_id()
    }

    /// Takes a snapshot for `holder`: the cut, the patch that undoes the transactions that were
    /// open at the cut, and a line in the book of leases. A lease with `is_own` belongs to the
    /// database itself and has no limits.
    pub(crate) fn take(&self, id: LeaseId, holder: Peer, is_own: bool) -> Result<Taken> {
        let memory = self.memory();
        self.end_inherited();
        let _taking = lock(&self.taking);
        lock(&self.leases).may_take(memory)?;
        let begin = Native::now_ns();
        let taking = self.engine.taking();
        let cut = memory.cut();
        let open = taking.collect(cut.epoch);
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

    /// Ends a lease. Returns whether memory can be reclaimed now.
    pub(crate) fn end_lease(&self, id: LeaseId) -> bool {
        let memory = self.memory();
        let Some(lease) = lock(&self.leases).remove(memory, id) else { return false };
        if lease.patch != 0 {
            memory.discard(lease.patch);
        }
        memory.release(lease.epoch)
    }

    /// Called when a snapshot in this process is dropped. The lease goes on while a child that was
    /// forked meanwhile may read the snapshot; otherwise it ends. Returns whether memory can be
    /// reclaimed now.
    pub(crate) fn let_go(&self, id: LeaseId, legacy: Option<Legacy>) -> bool {
        match legacy {
            Some(legacy) if legacy.has_readers() => {
                lock(&self.inherited).push((id, legacy));
                false
            }
            _ => self.end_lease(id),
        }
    }

    /// Ends the leases that only forked children were reading, once those children are gone.
    /// Returns whether memory can be reclaimed.
    pub(crate) fn end_inherited(&self) -> bool {
        let ended: Vec<_> =
            lock(&self.inherited).extract_if(.., |(_, legacy)| !legacy.has_readers()).collect();
        ended.iter().fold(false, |any, (id, _)| self.end_lease(*id) | any)
    }

    /// Moves long values out of heap blocks that are mostly empty, so that those blocks can be
    /// freed.
    pub(crate) fn compact(&self) {
        for table in self.engine.all_tables() {
            if !table.may_be_sparse() {
                continue;
            }
            Arc::clone(&self.engine).compact(&table, COMPACT_VALUES_MAX);
        }
    }

    /// Frees the memory of dropped tables.
    pub(crate) fn free_dropped(&self) {
        self.engine.free_dropped();
    }

    /// Collects the garbage queues of idle workers.
    pub(crate) fn collect_garbage(&self) {
        self.engine.collect_garbage(COLLECT_MAX);
    }

    /// Checks that the data beyond the memory budget could be written out.
    pub(crate) fn check_spill(&self) -> Result<()> {
        self.evictor.as_ref().map_or(Ok(()), Evictor::check)
    }

    pub(crate) fn enforce(&self) {
        lock(&self.leases).enforce(self.memory());
    }
}
