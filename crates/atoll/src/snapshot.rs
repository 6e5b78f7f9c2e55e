//! A snapshot in the process that holds it, which may be the owner or another one.
//!
//! The store may contain changes of transactions that were open at the cut. The owner writes the
//! undo entries of these changes into the *patch*; a reader applies the patch to a private copy of
//! an extent when it first reads that extent. Everything else is read in place.

use std::collections::{HashMap, HashSet};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arrow_buffer::Buffer;
use atoll_machine::fork::{Here, Legacy, Mark};
use atoll_machine::{Machine, Native};
use atoll_memory::lease::{Descriptor, LeaseId, Peer, dup_tree};
use atoll_memory::{MemoryError, Store, View};
use atoll_storage::reader::{self, TableView};
use atoll_storage::undo::{self, Entry, Was};
use atoll_storage::{StorageError, TableId, TableSerial};

use crate::core::Core;
use crate::error::{Error, Result};
use crate::leases;

/// Largest patch that a reader accepts, in bytes.
const PATCH_BYTES_MAX: u64 = 1 << 32;

/// What keeps a snapshot alive.
pub(crate) enum Origin {
    /// A lease of a database of this process.
    Here {
        /// Ends the lease when the snapshot is dropped.
        _lease: LocalLease,
    },
    /// The descriptor that another process sent; the lease lasts as long as the descriptor is open.
    There(Box<Descriptor>),
}

/// A lease of a database of this process; ends when dropped.
pub(crate) struct LocalLease {
    pub(crate) core: Here<Arc<Core>>,
    pub(crate) id: LeaseId,
    /// Tells whether forked children may still be reading the snapshot.
    pub(crate) legacy: Option<Legacy>,
}

impl Drop for LocalLease {
    fn drop(&mut self) {
        // The book of leases is the owner's, so a forked child ends no lease.
        if self.core.is_owner() && self.core.let_go(self.id, self.legacy.take()) {
            self.core.memory().reclaim();
        }
    }
}

/// The parts from which a snapshot is opened.
pub(crate) struct SnapshotParts {
    pub(crate) database: String,
    pub(crate) store: Arc<Store>,
    pub(crate) root: u64,
    pub(crate) epoch: u64,
    pub(crate) patch: (u64, u64),
    pub(crate) line: u64,
    pub(crate) take_ns: u64,
    pub(crate) attach_ns: u64,
    pub(crate) origin: Origin,
    pub(crate) bases: Vec<Snapshot>,
}

/// A column of a segment: table, segment, position.
pub(crate) type ColumnKey = (TableId, u64, usize);

/// A private copy of a column with the patch applied.
#[derive(Clone)]
pub(crate) struct PatchedColumn {
    pub(crate) values: Buffer,
    pub(crate) validity: Option<Buffer>,
}

pub(crate) struct Shared {
    parts: SnapshotParts,
    view: View,
    tables: Vec<Arc<TableView>>,
    /// Patch entries by table and segment, in the order in which a reader applies them.
    patch: HashMap<(TableId, u64), Vec<Entry>>,
    bytes_patched: AtomicU64,
    patched: Mutex<HashMap<ColumnKey, PatchedColumn>>,
    /// Text columns of which a number of leading slots was validated.
    sound: Mutex<HashSet<(ColumnKey, usize)>>,
    /// A forked child does not use the two caches: another thread may have held their latches at
    /// the fork, and these stay locked in the child for ever.
    mark: Mark,
}

// Arrow requires this of the owner of a buffer's memory. A panic cannot leave a snapshot in an
// inconsistent state: it is only read, and whole entries are added to its caches.
impl RefUnwindSafe for Shared {}
impl UnwindSafe for Shared {}

/// A frozen, consistent view of a whole database: it shows exactly what had committed at the cut.
///
/// Clones, tables, segments and Arrow buffers all keep the lease; it ends when the last of them is
/// dropped, or with this process. A forked child can read the snapshot too, and keeps the lease as
/// well: for a database of another process until the child has dropped all of them, for a database
/// of its parent until the child ends or calls `exec`.
#[derive(Clone)]
pub struct Snapshot(Arc<Shared>);

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Snapshot of \"{}\" at epoch {}", self.database(), self.epoch())
    }
}

impl Snapshot {
    /// Takes a snapshot of a database of this process, which is built on `bases`.
    pub(crate) fn take(
        core: &Arc<Core>,
        bases: &[Self],
        name: String,
        is_own: bool,
    ) -> Result<Self> {
        core.check_owner()?;
        // Created before the snapshot can be read. A forked child never reads a snapshot of the
        // database's own, so that one needs none.
        let legacy = (!is_own).then(Legacy::new);
        let begin = Native::now_ns();
        let id = core.local_lease_id();
        let holder = Peer { pid: std::process::id(), uid: 0, command: "(this process)".to_owned() };
        bases.iter().try_for_each(Self::check)?;
        let taken = core.take(id, holder, is_own)?;
        let lease = LocalLease { core: Here::new(Arc::clone(core)), id, legacy };
        let origin = Origin::Here { _lease: lease };
        Self::open(SnapshotParts {
            database: name,
            store: Arc::clone(core.memory().store()),
            root: taken.root,
            epoch: taken.epoch,
            patch: taken.patch,
            line: taken.line,
            take_ns: taken.take_ns,
            attach_ns: Native::now_ns() - begin,
            origin,
            bases: bases.to_vec(),
        })
    }

    /// Opens a snapshot from parts that may come from another process.
    ///
    /// # Errors
    /// [`Error::Storage`] when the parts do not lead to a directory of this format.
    pub(crate) fn open(parts: SnapshotParts) -> Result<Self> {
        let view = View::new(Arc::clone(&parts.store));
        if !leases::is_line(&view, parts.line) {
            return Err(corrupt("lease", parts.line));
        }
        let mut tables = reader::tables(&view, parts.root)?;
        let patch = read_patch(&view, parts.patch, &tables)?;
        tables.sort_unstable_by_key(|table| table.serial);
        Ok(Self(Arc::new(Shared {
            parts,
            view,
            tables: tables.into_iter().map(Arc::new).collect(),
            patch,
            bytes_patched: AtomicU64::new(0),
            patched: Mutex::default(),
            sound: Mutex::default(),
            mark: Mark::new(),
        })))
    }

    /// The name under which the database was published; empty if it was not.
    pub fn database(&self) -> &str {
        &self.0.parts.database
    }

    /// The epoch that it shows.
    pub fn epoch(&self) -> u64 {
        self.0.parts.epoch
    }

    /// Nanoseconds that the owner needed to take it.
    pub fn take_ns(&self) -> u64 {
        self.0.parts.take_ns
    }

    /// Nanoseconds from the request for the snapshot until it could be used here, including the
    /// time that the owner needed.
    pub fn attach_ns(&self) -> u64 {
        self.0.parts.attach_ns
    }

    /// Bytes that this process has copied because a transaction was open at the cut.
    pub fn bytes_patched(&self) -> u64 {
        self.0.bytes_patched.load(Ordering::Relaxed)
    }

    /// Whether an address is in the mapping of the snapshot's store, or of a snapshot that it is
    /// built on: bytes there are not copies.
    pub fn is_stored_at(&self, address: usize) -> bool {
        let store = &self.0.parts.store;
        let offset = address.checked_sub(store.base().addr());
        offset.is_some_and(|offset| (offset as u64) < store.capacity_bytes())
            || self.bases().iter().any(|base| base.is_stored_at(address))
    }

    /// The snapshots that it is built on.
    pub fn bases(&self) -> &[Self] {
        &self.0.parts.bases
    }

    /// Checks that the snapshot may still be used.
    ///
    /// # Errors
    /// [`Error::SnapshotExpired`] when it, or one that it is built on, is over a limit.
    pub fn check(&self) -> Result<()> {
        leases::check_line(&self.0.view, self.0.parts.line)?;
        self.bases().iter().try_for_each(Self::check)
    }

    /// Names of its tables: its own, then those of its bases that no earlier table hides.
    pub fn tables(&self) -> Vec<String> {
        let own = self.0.tables.iter().filter(|table| table.schema.object().is_none());
        let mut names: Vec<String> = own.map(|table| table.name.clone()).collect();
        for base in self.bases() {
            for name in base.tables() {
                if !names.contains(&name) && !self.has(&name) {
                    names.push(name);
                }
            }
        }
        names
    }

    /// Whether a table of its own, or an object of another kind, has this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.tables.iter().any(|table| table.name == name)
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.0
    }

    pub(crate) fn store(&self) -> &Arc<Store> {
        &self.0.parts.store
    }

    /// Duplicates the descriptors that another process needs to hold the same snapshot.
    ///
    /// # Errors
    /// [`Error::LocalBase`] for a snapshot of a database of this process.
    pub(crate) fn descriptor(&self) -> Result<Descriptor> {
        let Origin::There(own) = &self.0.parts.origin else { return Err(Error::LocalBase) };
        let system = |source| MemoryError::System { call: "dup of a lease", source };
        let mut copy = dup_tree(own).map_err(system)?;
        copy.bases = self.bases().iter().map(Self::descriptor).collect::<Result<_>>()?;
        Ok(copy)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // After this, other snapshots of the same store and contiguous columns map again what they
        // still read.
        if let Origin::There(_) = &self.parts.origin {
            self.parts.store.let_go();
        }
    }
}

impl Shared {
    /// The serial number of the next table, at the cut.
    pub(crate) fn next_serial(&self) -> Result<TableSerial> {
        Ok(reader::next_serial(&self.view, self.parts.root)?)
    }

    /// The snapshot's own tables, in the order of their creation.
    pub(crate) fn tables(&self) -> &[Arc<TableView>] {
        &self.tables
    }

    pub(crate) fn view(&self) -> &View {
        &self.view
    }

    pub(crate) fn check(&self) -> Result<()> {
        leases::check_line(&self.view, self.parts.line)
    }

    /// The patch of a segment, in the order in which it is applied.
    pub(crate) fn patch(&self, table: TableId, segment: u64) -> &[Entry] {
        self.patch.get(&(table, segment)).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn count_patched(&self, bytes: usize) {
        self.bytes_patched.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// The patched copy of a column; the first caller makes it with `make`.
    pub(crate) fn patched(
        &self,
        key: ColumnKey,
        make: impl FnOnce() -> PatchedColumn,
    ) -> PatchedColumn {
        if !self.mark.is_here() {
            return make();
        }
        let mut patched = self.patched.lock().unwrap_or_else(PoisonError::into_inner);
        patched.entry(key).or_insert_with(make).clone()
    }

    pub(crate) fn is_sound(&self, key: ColumnKey, slots: usize) -> bool {
        self.mark.is_here()
            && self.sound.lock().unwrap_or_else(PoisonError::into_inner).contains(&(key, slots))
    }

    pub(crate) fn set_sound(&self, key: ColumnKey, slots: usize) {
        if self.mark.is_here() {
            self.sound.lock().unwrap_or_else(PoisonError::into_inner).insert((key, slots));
        }
    }
}

fn corrupt(what: &'static str, offset: u64) -> Error {
    StorageError::Corrupt { what, offset }.into()
}

fn read_patch(
    view: &View,
    (offset, bytes): (u64, u64),
    tables: &[TableView],
) -> Result<HashMap<(TableId, u64), Vec<Entry>>> {
    if bytes == 0 {
        return Ok(HashMap::new());
    }
    let sound = offset.is_multiple_of(8) && bytes.is_multiple_of(8) && bytes <= PATCH_BYTES_MAX;
    if !sound || !view.contains(offset, bytes) {
        return Err(corrupt("patch", offset));
    }
    let words: Vec<u64> = (0..bytes / 8).map(|at| view.load_u64(offset + at * 8)).collect();
    let column_of = |table: TableId, column: u16| {
        let at = tables.binary_search_by_key(&table, |table| table.id);
        at.ok().map(|at| tables[at].schema.columns().get(usize::from(column)))
    };
    let mut entries = undo::parse(&words).ok_or_else(|| corrupt("patch", offset))?;
    // A transaction may have stored into columns that it has added.
    entries.retain(|entry| match &entry.was {
        Was::Presence(_) => true,
        Was::Value { column, .. } => column_of(entry.table, *column) != Some(None),
    });
    let fits = |entry: &Entry| match &entry.was {
        Was::Presence(_) => true,
        Was::Value { column, image, .. } => {
            column_of(entry.table, *column).flatten().is_some_and(|column| {
                image.len() == column.data_type.width().max(1).next_multiple_of(8)
            })
        }
    };
    if !entries.iter().all(fits) {
        return Err(corrupt("patch", offset));
    }
    let mut by_segment: HashMap<_, Vec<Entry>> = HashMap::new();
    for entry in entries {
        by_segment.entry((entry.table, entry.row.segment())).or_default().push(entry);
    }
    Ok(by_segment)
}
