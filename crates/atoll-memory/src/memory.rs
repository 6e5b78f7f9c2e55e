//! The memory of one database: a store, its allocator, its epochs, and safe access by offset.
//!
//! All data in the store is accessed by offset through this module, with bounds checks. The
//! accesses are atomic word by word, so a reader that races with a writer gets old or new words and
//! never an undefined result. The concurrency-control scheme, a layer above, decides whether the
//! reader may use them.
//!
//! The life of an extent
//! 1. [`Memory::allocate`] returns it; its birth is the epoch of the caller.
//! 2. A worker that finds it frozen ([`Inside::is_frozen`]) copies it, publishes the copy and
//!    passes the old extent to [`Memory::retire`]. It does so only after [`Memory::seal`] of its
//!    own epoch: before, a worker inside under an older epoch may still store into the extent.
//! 3. The extent waits for the leases that show it ([`crate::epochs`]), then for the workers that
//!    entered before it was replaced, and is freed.
//!
//! Invariants
//! - `MEMORY-1`: the bytes of a frozen extent that a lease shows do not change, and the extent is
//!   not allocated again.
//! - `MEMORY-2`: the root of an epoch is recorded before a worker inside under the next epoch may
//!   change the directory. Any thread that needs the seal makes it, so no worker waits for a
//!   snapshot thread that the scheduler has preempted.
//! - `MEMORY-3`: an epoch is held before the next one is visible, so a worker of the next epoch
//!   never regards an extent that the snapshot shows as unfrozen.
//! - `MEMORY-4`: no worker stores in place into an extent that another worker may be copying. When
//!   the end of a lease lowers the frontier, a worker of the new epoch finds an extent thawed that
//!   a worker still inside under the old epoch has found frozen. Until that worker has left, others
//!   store into such an extent only after a seal ([`Memory::may_store`]).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::access::Access;
use crate::epochs::{Epochs, Retired};
use crate::error::MemoryError;
use crate::gate::{Gate, Inside, Member};
use crate::store::Store;
use crate::swing::{Extent, SwingMalloc};

/// Extents in limbo are freed when together they reach this many bytes.
const LIMBO_BYTES_MAX: u64 = 4 << 20;

/// What an allocation is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// New data or a copy: fails when memory is full.
    Ordinary,
    /// Undoing a transaction: may use the headroom that is reserved for it, and may pass the limit
    /// when snapshots have frozen more extents than the headroom covers. A rollback must not fail,
    /// and it cannot wait for a snapshot to end, because the thread that rolls back may hold it.
    Rollback,
}

/// The cost of copy-on-write since the database was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CopyCount {
    /// Extents copied.
    pub extents: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// A cut: the epoch that a snapshot shows and the root of its directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// The last epoch that the snapshot shows; held by one lease.
    pub epoch: u64,
    /// Offset of the directory's root.
    pub root: u64,
}

/// The memory of one database; see the module.
pub struct Memory {
    store: Arc<Store>,
    swing: SwingMalloc,
    access: Access,
    gate: Arc<Gate>,
    /// A member that is reserved for maintenance, so that workers cannot use up all slots.
    upkeep: Mutex<Member>,
    epochs: Mutex<Epochs>,
    /// Extents that no lease shows and that a worker may still read.
    limbo: Mutex<Limbo>,
    /// Held by the thread that begins an epoch; the value is the frontier of the current epoch.
    advancing: Mutex<u64>,
    /// While [`Memory::advance_after`] begins an epoch, the frontier of the previous one; 0
    /// otherwise.
    thawing: AtomicU64,
    /// The newest epoch that is sealed: its predecessors are drained and their root is recorded.
    sealed: AtomicU64,
    sealing: Mutex<()>,
    /// Current root of the directory, and the root as it was when the newest epoch was sealed.
    root: AtomicU64,
    sealed_root: AtomicU64,
    copied_extents: AtomicU64,
    copied_bytes: AtomicU64,
}

/// The limbo list of epoch-based reclamation.
#[derive(Default)]
struct Limbo {
    /// Each extent with the epoch in which it came here.
    extents: Vec<(u64, Retired)>,
    bytes: u64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // None of these mutexes is held across code that can panic halfway through a change.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Memory {
    /// The memory of a new database on an empty store.
    pub fn new(store: Arc<Store>, swing: SwingMalloc) -> Self {
        let access = Access::new(Arc::clone(&store));
        let gate = Arc::new(Gate::new());
        let upkeep = Mutex::new(gate.join().expect("a new gate has a free slot"));
        Self {
            store,
            swing,
            access,
            gate,
            upkeep,
            epochs: Mutex::default(),
            limbo: Mutex::default(),
            advancing: Mutex::default(),
            thawing: AtomicU64::new(0),
            sealed: AtomicU64::new(1),
            sealing: Mutex::default(),
            root: AtomicU64::new(0),
            sealed_root: AtomicU64::new(0),
            copied_extents: AtomicU64::new(0),
            copied_bytes: AtomicU64::new(0),
        }
    }

    /// The store.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// The allocator.
    pub fn swing(&self) -> &SwingMalloc {
        &self.swing
    }

    /// Reads and writes by offset.
    #[inline]
    pub fn access(&self) -> &Access {
        &self.access
    }

    /// A new member of the gate; `None` when all slots are taken.
    pub fn join(&self) -> Option<Member> {
        self.gate.join()
    }

    /// The member for reading tables and changing the directory outside transactions; one thread at
    /// a time can use it.
    pub fn upkeep(&self) -> MutexGuard<'_, Member> {
        atoll_machine::lock_patiently(&self.upkeep)
    }

    /// The current epoch.
    pub fn epoch(&self) -> u64 {
        self.gate.epoch()
    }

    /// How many cuts there were before the current epoch.
    #[inline]
    pub fn cuts(&self) -> u64 {
        self.gate.cuts()
    }

    /// As [`Gate::cuts_before`].
    #[inline]
    pub fn cuts_before(&self, epoch: u64) -> u64 {
        self.gate.cuts_before(epoch)
    }

    /// Allocates an extent of at least `size_bytes`; its contents are undefined.
    ///
    /// # Errors
    /// [`MemoryError::OutOfMemory`].
    pub fn allocate(&self, size_bytes: u64, purpose: Purpose) -> Result<Extent, MemoryError> {
        match purpose {
            Purpose::Ordinary => self.swing.allocate(size_bytes),
            Purpose::Rollback => self
                .swing
                .allocate_from_headroom(size_bytes)
                .or_else(|_| self.swing.allocate_past_limit(size_bytes)),
        }
    }

    /// Allocates a copy of an extent.
    ///
    /// # Errors
    /// Those of [`Memory::allocate`].
    pub fn copy_extent(
        &self,
        from: u64,
        len_bytes: u64,
        purpose: Purpose,
    ) -> Result<Extent, MemoryError> {
        let extent = self.allocate(len_bytes, purpose)?;
        self.store.will_need(from, len_bytes);
        self.access.copy(from, extent.offset, len_bytes);
        self.copied_extents.fetch_add(1, Ordering::Relaxed);
        self.copied_bytes.fetch_add(len_bytes, Ordering::Relaxed);
        Ok(extent)
    }

    /// Retires an extent that was replaced in epoch `died` and that no new reader can find.
    pub fn retire(&self, extent: Retired, died: u64) {
        let free = lock(&self.epochs).retire(extent, died);
        self.add_to_limbo(free, died);
    }

    /// Frees an extent that no thread but the caller has ever seen.
    pub fn discard(&self, offset: u64) {
        let freed = self.swing.free(offset);
        debug_assert!(freed.is_ok(), "extent at {offset} was not allocated: {freed:?}");
    }

    /// Sets the root of the directory. The caller is inside the gate and has sealed its epoch.
    pub fn set_root(&self, root: u64) {
        self.root.store(root, Ordering::Release);
    }

    /// The current root of the directory.
    pub fn root(&self) -> u64 {
        self.root.load(Ordering::Acquire)
    }

    /// Makes sure that no worker stores under an epoch before `epoch`, and that the root of the
    /// directory at the end of the previous epoch is recorded (`MEMORY-2`). One load if the epoch
    /// is sealed already.
    #[inline]
    pub fn seal(&self, epoch: u64) {
        if self.sealed.load(Ordering::Acquire) < epoch {
            self.seal_slow(epoch);
        }
    }

    #[cold]
    fn seal_slow(&self, epoch: u64) {
        self.gate.drain(epoch);
        let _sealing = lock(&self.sealing);
        if self.sealed.load(Ordering::Relaxed) < epoch {
            self.sealed_root.store(self.root.load(Ordering::Acquire), Ordering::Relaxed);
            self.sealed.store(epoch, Ordering::Release);
        }
    }

    /// Begins a new epoch and a lease on the one that ended. Waits for the sections of workers that
    /// are inside, never for a transaction to end. A thread that is inside must not call this.
    pub fn cut(&self) -> Cut {
        let mut frontier = atoll_machine::lock_patiently(&self.advancing);
        let epoch = self.gate.epoch();
        lock(&self.epochs).hold(epoch); // MEMORY-3
        *frontier = epoch;
        let next = self.gate.advance(epoch, true);
        self.seal(next);
        Cut { epoch, root: self.sealed_root.load(Ordering::Relaxed) }
    }

    /// Ends a lease on `epoch`. Returns whether [`Memory::reclaim`] would now free memory or lower
    /// the frontier, which spares writers copies.
    pub fn release(&self, epoch: u64) -> bool {
        let (free, newest_before, newest) = {
            let mut epochs = lock(&self.epochs);
            let before = epochs.newest_held();
            let free = epochs.release(epoch);
            (free, before, epochs.newest_held())
        };
        let any = !free.is_empty();
        self.add_to_limbo(free, self.gate.epoch());
        any || newest < newest_before
    }

    /// Frees all extents in limbo, and lets workers write extents that no lease shows in place
    /// again. A thread that is inside must not call this.
    pub fn reclaim(&self) {
        // Two epochs: see `sweep`.
        self.advance_after(|_| ());
        self.advance_after(|_| ());
    }

    /// Begins a new epoch without a cut, and waits until no worker is inside under an earlier one.
    /// Extents that no lease shows are not frozen in it. Calls `prepare` with the number of the
    /// epoch before the epoch is visible. A thread that is inside must not call this.
    pub fn advance_after(&self, prepare: impl FnOnce(u64)) {
        let mut frontier = atoll_machine::lock_patiently(&self.advancing);
        prepare(self.gate.epoch() + 1);
        let before = std::mem::replace(&mut *frontier, lock(&self.epochs).newest_held());
        self.thawing.store(before, Ordering::Relaxed); // Visible with the epoch: MEMORY-4.
        let next = self.gate.advance(*frontier, false);
        self.seal(next);
        self.thawing.store(0, Ordering::Release);
        drop(frontier);
        self.sweep(next);
    }

    /// The greatest birth of an extent that a worker inside under the previous epoch may still be
    /// copying, see [`Memory::may_store`]; 0 if there can be none.
    #[inline]
    pub fn thawing(&self) -> u64 {
        self.thawing.load(Ordering::Acquire)
    }

    /// Whether a worker that is `inside` may store in place, without a seal, into an extent with
    /// this `birth`. `thawing` is the result of [`Memory::thawing`] from *before* the worker looked
    /// up the extent: 0 then means that all copies of the previous epoch are published.
    #[inline]
    pub fn may_store(inside: Inside, thawing: u64, birth: u64) -> bool {
        birth == inside.epoch || birth > inside.frontier.max(thawing)
    }

    /// Calls [`Memory::reclaim`] if the extents in limbo are large enough to be worth new epochs.
    pub fn tidy(&self) {
        if lock(&self.limbo).bytes >= LIMBO_BYTES_MAX {
            self.reclaim();
        }
    }

    /// Adds extents to the limbo list until no worker can still read them.
    fn add_to_limbo(&self, free: impl IntoIterator<Item = Retired>, epoch: u64) {
        let mut limbo = lock(&self.limbo);
        for extent in free {
            limbo.bytes += extent.size_bytes;
            limbo.extents.push((epoch, extent));
        }
    }

    /// Frees the extents that entered limbo at least two epochs before `epoch`, which is sealed.
    ///
    /// One epoch would not be enough: a worker of epoch `e` may replace an extent that a reader
    /// inside under `e + 1` has just found. Once `e + 1` is sealed, that worker has left, so a
    /// reader that enters under `e + 2` finds the copy. Once `e + 2` is sealed, the reader of
    /// `e + 1` has left, too.
    fn sweep(&self, epoch: u64) {
        let due = {
            let mut limbo = lock(&self.limbo);
            let all = std::mem::take(&mut limbo.extents);
            let (due, keep): (Vec<_>, Vec<_>) =
                all.into_iter().partition(|(at, _)| at + 2 <= epoch);
            limbo.extents = keep;
            limbo.bytes -= due.iter().map(|(_, extent)| extent.size_bytes).sum::<u64>();
            due
        };
        for (_, extent) in due {
            self.discard(extent.offset);
        }
    }

    /// Bytes of the extents that wait for the leases on `epoch`.
    pub fn kept_bytes(&self, epoch: u64) -> u64 {
        lock(&self.epochs).waiting_bytes(epoch)
    }

    /// Bytes of the extents that wait for any lease.
    pub fn kept_bytes_all(&self) -> u64 {
        lock(&self.epochs).waiting_bytes_all()
    }

    /// Number of leases that have not ended.
    pub fn leases(&self) -> u64 {
        lock(&self.epochs).leases()
    }

    /// The cost of copy-on-write so far.
    pub fn copied(&self) -> CopyCount {
        CopyCount {
            extents: self.copied_extents.load(Ordering::Relaxed),
            bytes: self.copied_bytes.load(Ordering::Relaxed),
        }
    }

    /// Whether a worker that is `inside` must copy an extent with this `birth` before it stores. If
    /// so, the worker's epoch is sealed when this returns, so the worker can copy at once.
    #[inline]
    pub fn must_copy(&self, inside: Inside, birth: u64) -> bool {
        if !inside.is_frozen(birth) {
            return false;
        }
        self.seal(inside.epoch);
        true
    }
}
