//! The memory of one database: a store, its allocator, its epochs, and safe access by offset.
//!
//! Everything that lies in the store is reached by offset through here: reads and writes of bytes
//! and of shared words, each checked against the size of the store. All of them are atomic word by
//! word, so that a reader that meets a writer gets an old word or a new one and never an undefined
//! result; which of the two it may use is settled above, by the scheme.
//!
//! The life of an extent
//! 1. [`Memory::allocate`] gives it, born in the epoch of the caller.
//! 2. A worker that finds it frozen ([`Inside::is_frozen`]) copies it, publishes the copy and hands
//!    the old one to [`Memory::retire`]. Only after [`Memory::seal`] of its own epoch: before, a
//!    store of an older epoch may still be on its way into the extent.
//! 3. It waits for the leases that show it ([`crate::epochs`]), then for the workers that went
//!    inside before it was replaced, and is freed.
//!
//! Invariants
//! - `MEMORY-1`: bytes of a frozen extent that a lease shows do not change and are not given to
//!   anyone else.
//! - `MEMORY-2`: the root of an epoch is recorded before anyone inside under the next epoch may
//!   change the directory. Whoever needs the seal makes it, so nobody waits for a taker that was
//!   put to sleep.
//! - `MEMORY-3`: an epoch is held before the next one is visible, so a worker of the next epoch
//!   never takes what the snapshot shows for unfrozen.
//! - `MEMORY-4`: nobody stores in place into an extent that somebody else may be copying. When the
//!   end of a lease lowers the frontier, a worker of the new epoch finds thawed what one that is
//!   still inside under the old epoch found frozen; until that one has left, such an extent is
//!   stored into only after a seal ([`Memory::may_store`]).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::access::Access;
use crate::epochs::{Epochs, Retired};
use crate::error::MemoryError;
use crate::gate::{Gate, Inside, Member};
use crate::store::Store;
use crate::swing::{Extent, SwingMalloc};

/// Extents that wait for workers only are freed when they reach this many bytes.
const LIMBO_BYTES_MAX: u64 = 4 << 20;

/// What an allocation is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// New data or a copy: fails when memory is full.
    Ordinary,
    /// Undoing a transaction: may use the memory that is kept back for it, and when snapshots have
    /// frozen more than that since, pass the limit. A rollback cannot be refused, and waiting for a
    /// snapshot to end could be waiting for the very thread that rolls back.
    Rollback,
}

/// What copying on write has cost since the database was opened.
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

/// See the module.
pub struct Memory {
    store: Arc<Store>,
    swing: SwingMalloc,
    access: Access,
    gate: Arc<Gate>,
    /// A place at the gate that no worker can take.
    upkeep: Mutex<Member>,
    epochs: Mutex<Epochs>,
    /// Extents that no lease shows, with the epoch after which no worker can still read them.
    limbo: Mutex<Limbo>,
    /// One thread advances at a time; holds the frontier of the current epoch.
    advancing: Mutex<u64>,
    /// While an epoch with a lower frontier begins, the frontier of the one before; 0 otherwise.
    thawing: AtomicU64,
    /// The newest epoch that has been drained of its predecessors and whose root is recorded.
    sealed: AtomicU64,
    sealing: Mutex<()>,
    /// Current root of the directory, and the root as it was when the newest epoch was sealed.
    root: AtomicU64,
    sealed_root: AtomicU64,
    copied_extents: AtomicU64,
    copied_bytes: AtomicU64,
}

#[derive(Default)]
struct Limbo {
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
        let upkeep = Mutex::new(gate.join().expect("a new gate has a place"));
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

    /// A place at the gate; `None` when all are taken.
    pub fn join(&self) -> Option<Member> {
        self.gate.join()
    }

    /// A place at the gate for looking at tables and for changing the directory outside any
    /// transaction; one at a time.
    pub fn upkeep(&self) -> MutexGuard<'_, Member> {
        atoll_machine::lock_patiently(&self.upkeep)
    }

    /// The current epoch.
    pub fn epoch(&self) -> u64 {
        self.gate.epoch()
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

    /// Gives up an extent that was replaced in epoch `died` and that no new reader can find.
    pub fn retire(&self, extent: Retired, died: u64) {
        let free = lock(&self.epochs).retire(extent, died);
        self.bury(free, died);
    }

    /// Gives back an extent that nobody but the caller has ever seen.
    pub fn discard(&self, offset: u64) {
        let freed = self.swing.free(offset);
        debug_assert!(freed.is_ok(), "extent at {offset} was not allocated: {freed:?}");
    }

    /// Sets the root of the directory; inside, after the seal of the caller's epoch.
    pub fn set_root(&self, root: u64) {
        self.root.store(root, Ordering::Release);
    }

    /// The current root of the directory.
    pub fn root(&self) -> u64 {
        self.root.load(Ordering::Acquire)
    }

    /// Makes sure that nobody stores under an epoch before `epoch` and that the root which the
    /// epoch before it shows is recorded (`MEMORY-2`). Cheap when that is so already.
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

    /// Begins a new epoch and a lease on the one that ended. Waits for stores that are on their
    /// way, never for a transaction to end. Not to be called by a thread that is inside.
    pub fn cut(&self) -> Cut {
        let mut frontier = atoll_machine::lock_patiently(&self.advancing);
        let epoch = self.gate.epoch();
        lock(&self.epochs).hold(epoch); // MEMORY-3
        *frontier = epoch;
        let next = self.gate.advance(epoch);
        self.seal(next);
        Cut { epoch, root: self.sealed_root.load(Ordering::Relaxed) }
    }

    /// Ends a lease on `epoch`. Returns whether a [`Memory::reclaim`] would free memory or spare
    /// writers copies now.
    pub fn release(&self, epoch: u64) -> bool {
        let (free, newest_before, newest) = {
            let mut epochs = lock(&self.epochs);
            let before = epochs.newest_held();
            let free = epochs.release(epoch);
            (free, before, epochs.newest_held())
        };
        let any = !free.is_empty();
        self.bury(free, self.gate.epoch());
        any || newest < newest_before
    }

    /// Frees all that waits for workers only, and lets extents that no lease shows be written in
    /// place again. Not to be called by a thread that is inside.
    pub fn reclaim(&self) {
        // Two epochs: see `sweep`.
        self.advance();
        self.advance();
    }

    /// Begins a new epoch without a cut.
    fn advance(&self) {
        let mut frontier = atoll_machine::lock_patiently(&self.advancing);
        let before = std::mem::replace(&mut *frontier, lock(&self.epochs).newest_held());
        self.thawing.store(before, Ordering::Relaxed); // visible with the epoch: MEMORY-4
        let next = self.gate.advance(*frontier);
        self.seal(next);
        self.thawing.store(0, Ordering::Release);
        drop(frontier);
        self.sweep(next);
    }

    /// Up to which birth an extent may be being copied by a worker that is still inside under the
    /// epoch before, see [`Memory::may_store`].
    #[inline]
    pub fn thawing(&self) -> u64 {
        self.thawing.load(Ordering::Acquire)
    }

    /// Whether a worker that is `inside` may store in place, without a seal, into an extent born in
    /// `birth`. `thawing` is what [`Memory::thawing`] said *before* the worker looked for the
    /// extent: 0 then means that every copy made under the epoch before is published.
    #[inline]
    pub fn may_store(inside: Inside, thawing: u64, birth: u64) -> bool {
        birth == inside.epoch || birth > inside.frontier.max(thawing)
    }

    /// Frees waiting memory if there is enough of it to be worth a new epoch.
    pub fn tidy(&self) {
        if lock(&self.limbo).bytes >= LIMBO_BYTES_MAX {
            self.reclaim();
        }
    }

    /// Keeps `free` until no worker can still be reading it.
    fn bury(&self, free: impl IntoIterator<Item = Retired>, epoch: u64) {
        let mut limbo = lock(&self.limbo);
        for extent in free {
            limbo.bytes += extent.size_bytes;
            limbo.extents.push((epoch, extent));
        }
    }

    /// Frees what was buried at least two epochs before `epoch`, which has been sealed.
    ///
    /// One would not do: a worker of epoch `e` replaces an extent while a reader that went inside
    /// under `e + 1` has just found it. Once `e + 1` is sealed that worker has left, so whoever
    /// enters under `e + 2` finds the copy; once `e + 2` is sealed that reader has left too.
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

    /// Bytes that wait for the leases on `epoch`: what ending them would free at least.
    pub fn kept_bytes(&self, epoch: u64) -> u64 {
        lock(&self.epochs).waiting_bytes(epoch)
    }

    /// Bytes that wait for any lease.
    pub fn kept_bytes_all(&self) -> u64 {
        lock(&self.epochs).waiting_bytes_all()
    }

    /// Leases that have not ended.
    pub fn leases(&self) -> u64 {
        lock(&self.epochs).leases()
    }

    /// Cost of copying on write so far.
    pub fn copied(&self) -> CopyCount {
        CopyCount {
            extents: self.copied_extents.load(Ordering::Relaxed),
            bytes: self.copied_bytes.load(Ordering::Relaxed),
        }
    }

    /// Whether an extent born in `birth` must be copied by a worker that is `inside`; if it must,
    /// the worker's epoch is sealed when this returns, so the copy may start.
    #[inline]
    pub fn must_copy(&self, inside: Inside, birth: u64) -> bool {
        if !inside.is_frozen(birth) {
            return false;
        }
        self.seal(inside.epoch);
        true
    }
}
