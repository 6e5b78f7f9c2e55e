//! SwingMalloc: the allocator of extents in a shared store.
//!
//! It has two parts: a buddy allocator for 128 B to 512 MiB with one byte per tree node, and a
//! table of large blocks. The metadata and a region reserved for the application are at fixed
//! offsets at the front, so every process that maps the store finds them. An allocation returns the
//! true size with the offset.
//!
//! Invariants:
//! - `SWING-1`: the data of an allocated or cached extent is committed.
//! - `SWING-2`: `warm` is the number of committed bytes in wholly free blocks.
//! - `SWING-3`: at most one handle of a store may change it: the writer lock of the store's file.
//!
//! A failed call changes nothing. A process that dies may leak one allocated extent per thread, and
//! leaves cached extents, which the next `open` frees.

mod large;
mod layout;
mod magazine;
mod partial;
mod supply;
mod tree;

use crate::error::MemoryError;
use crate::store::{Reach, Store};
use atoll_machine::fork::Unshared;
use large::LargeTable;
use layout::{Layout, SWING_AT, SWING_BYTES};
use magazine::Magazines;
use partial::PartialBlocks;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tree::{ALLOCATED, Node, Tree};

/// The default for the bytes of wholly free blocks that keep their space, see
/// [`SwingMalloc::set_warm_bytes`]: committing space again costs a hundred times what an allocation
/// costs.
pub const WARM_BYTES: u64 = 64 << 20;
const GIB: u64 = 1 << 30;

/// The sizes of an allocator's parts. All are virtual: they cost nothing until they are used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwingConfig {
    /// Bytes of the buddy part: a power of two, 2 MiB to 128 GiB.
    pub buddy_bytes: u64,
    /// Size in bytes (a multiple of 2 MiB) and number of the large blocks.
    pub large_blocks: Vec<(u64, u32)>,
    /// Bytes of the region at a fixed offset that belongs to the application; rounded up to 2 MiB.
    /// It is not committed: the application commits the part that it uses.
    pub reserved_bytes: u64,
}

impl Default for SwingConfig {
    /// 64 GiB buddy part, 384 GiB of large blocks from 1 to 32 GiB, 512 MiB reserved.
    fn default() -> SwingConfig {
        let table = [(1, 64), (2, 32), (4, 16), (8, 8), (16, 4), (32, 2)];
        SwingConfig {
            buddy_bytes: 64 * GIB,
            large_blocks: table.map(|(gib, count)| (gib * GIB, count)).to_vec(),
            reserved_bytes: GIB / 2,
        }
    }
}

/// An allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Extent {
    /// Its offset in the store.
    pub offset: u64,
    /// Its true size in bytes, at least the requested size; all of it may be used.
    pub size_bytes: u64,
}

/// The state that the latch protects, besides the tree and the table.
#[derive(Debug, Default)]
struct State {
    /// Extents taken from the tree, including those in magazines.
    taken: u64,
    taken_bytes: u64,
    /// SWING-2.
    warm: u64,
    partial: PartialBlocks,
}

/// The allocator of one store.
#[derive(Debug)]
pub struct SwingMalloc {
    tree: Tree,
    large: LargeTable,
    magazines: Magazines,
    state: Mutex<State>,
    headroom: AtomicU64,
    warm_bytes: AtomicU64,
    layout: Layout,
    /// SWING-3; `None` in a handle for inspection.
    writer_lock: Option<Unshared>,
    store: Arc<Store>,
}

impl SwingMalloc {
    /// The capacity in bytes (virtual) that a store needs for `config`; 0 if `config` is
    /// impossible, which [`SwingMalloc::create`] then explains.
    #[must_use]
    pub fn capacity_for(config: &SwingConfig) -> u64 {
        Layout::new(config).map_or(0, |layout| layout.capacity_bytes)
    }

    /// Creates the allocator of a store that has none.
    ///
    /// # Errors
    /// [`MemoryError::InvalidOption`] for an impossible configuration or a store that is too
    /// small; [`MemoryError::HasAllocator`], [`MemoryError::InUse`], [`MemoryError::ReadOnly`],
    /// [`MemoryError::OutOfMemory`] if there is no space for the metadata.
    pub fn create(store: Arc<Store>, config: &SwingConfig) -> Result<SwingMalloc, MemoryError> {
        let layout = Layout::new(config)?;
        if layout.capacity_bytes > store.capacity_bytes() {
            return Err(MemoryError::InvalidOption {
                option: "the store's capacity in bytes",
                value: store.capacity_bytes(),
                need: "it must be at least `SwingMalloc::capacity_for` the configuration",
            });
        }
        let lock = store.lock_for_writing()?;
        if read_header(&store)?.iter().any(|byte| *byte != 0) {
            return Err(MemoryError::HasAllocator);
        }
        store.commit(0, layout.front_bytes())?;
        let header = layout.encode();
        let base = store.base_mut().ok_or(MemoryError::ReadOnly)?;
        // SAFETY: the header's page was committed above and is in the mapping; the writer lock,
        // which is held, keeps others from writing it.
        unsafe {
            let at = base.add(SWING_AT as usize);
            std::ptr::copy_nonoverlapping(header.as_ptr(), at, header.len());
        }
        Ok(SwingMalloc::over(store, layout, Some(lock)))
    }

    /// Opens the allocator that a store already has, with everything that was allocated.
    ///
    /// The handle of a read-only store is for inspection only: it shows the current allocations of
    /// the owner; extents in magazines count as free.
    ///
    /// # Errors
    /// [`MemoryError::BadMagic`], [`MemoryError::ForeignVersion`], [`MemoryError::Truncated`],
    /// [`MemoryError::Corrupt`] if there is no allocator of this version;
    /// [`MemoryError::InUse`] if the store is writable and another handle has it.
    pub fn open(store: Arc<Store>) -> Result<SwingMalloc, MemoryError> {
        let lock = if store.is_writable() { Some(store.lock_for_writing()?) } else { None };
        let layout = Layout::decode(&read_header(&store)?, store.capacity_bytes())?;
        if lock.is_some() {
            store.commit(0, layout.front_bytes())?;
        }
        let swing = SwingMalloc::over(store, layout, lock);
        if swing.writer_lock.is_some() {
            let mut state = swing.latch();
            swing.tree.repair();
            swing.large.repair();
            (state.taken, state.taken_bytes) = swing.count_extents(true);
            state.warm = swing.warm();
            state.partial = PartialBlocks::of(&swing.tree);
            drop(state);
        }
        Ok(swing)
    }

    fn over(store: Arc<Store>, layout: Layout, writer_lock: Option<Unshared>) -> SwingMalloc {
        let base = store.base().cast_mut();
        // SAFETY: the layout fits the capacity, which the store keeps mapped (STORE-1); the `Arc`
        // lives as long as tree and table. They change nothing unless `writer_lock` is there, and
        // then the store is writable.
        let (tree, large) = unsafe { (Tree::new(base, &layout), LargeTable::new(base, &layout)) };
        SwingMalloc {
            tree,
            large,
            magazines: Magazines::new(),
            state: Mutex::new(State::default()),
            headroom: AtomicU64::new(0),
            warm_bytes: AtomicU64::new(WARM_BYTES),
            layout,
            writer_lock,
            store,
        }
    }

    /// The store that this allocates in.
    #[must_use]
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// Allocates at least `size_bytes`: up to 512 MiB a power of two from the buddy part, aligned
    /// to its size or 2 MiB, whichever is less; above that from a large block, in whole 2 MiB.
    /// The contents are undefined.
    ///
    /// # Errors
    /// [`MemoryError::OutOfMemory`] (of the limit less the headroom), [`MemoryError::TooLarge`],
    /// [`MemoryError::ReadOnly`]; nothing is changed then.
    pub fn allocate(&self, size_bytes: u64) -> Result<Extent, MemoryError> {
        self.allocate_as_far_as(size_bytes, Reach::Below(self.headroom.load(Ordering::Relaxed)))
    }

    /// As [`SwingMalloc::allocate`], but may use the headroom too: for work that must not fail,
    /// such as rolling back.
    ///
    /// # Errors
    /// As [`SwingMalloc::allocate`].
    pub fn allocate_from_headroom(&self, size_bytes: u64) -> Result<Extent, MemoryError> {
        self.allocate_as_far_as(size_bytes, Reach::Below(0))
    }

    /// As [`SwingMalloc::allocate`], but is not stopped by the store's limit: for work that must
    /// not fail and has used up the headroom.
    ///
    /// # Errors
    /// As [`SwingMalloc::allocate`], when the system or the address space has no more.
    pub fn allocate_past_limit(&self, size_bytes: u64) -> Result<Extent, MemoryError> {
        self.allocate_as_far_as(size_bytes, Reach::PastLimit)
    }

    /// Sets how many bytes below the store's limit ordinary allocations leave uncommitted.
    pub fn set_headroom(&self, bytes: u64) {
        self.headroom.store(bytes, Ordering::Relaxed);
    }

    /// Sets how many bytes of free blocks keep their space (initially [`WARM_BYTES`]). They count
    /// as committed, and are decommitted before out-of-memory is reported.
    pub fn set_warm_bytes(&self, bytes: u64) {
        self.warm_bytes.store(bytes, Ordering::Relaxed);
    }

    /// The region of the application: offset and length in bytes. It starts uncommitted:
    /// [`Store::commit`] the part that you use. The allocator never accesses it.
    #[must_use]
    pub fn reserved_region(&self) -> (u64, u64) {
        (self.layout.reserved_at, self.layout.reserved_bytes)
    }

    /// Bytes in live extents; those in magazines are free.
    #[must_use]
    pub fn allocated_bytes(&self) -> u64 {
        self.live().1
    }

    /// Number of live extents.
    #[must_use]
    pub fn extents_live(&self) -> u64 {
        self.live().0
    }

    /// Whether a live extent starts at `offset`.
    #[must_use]
    pub fn is_allocated(&self, offset: u64) -> bool {
        self.extent_at(offset).is_some()
    }

    /// The live extent that starts at `offset`.
    #[must_use]
    pub fn extent_at(&self, offset: u64) -> Option<Extent> {
        let size_bytes = match self.buddy_offset(offset) {
            Some(within) => match self.tree.extent_at(within)? {
                (node, ALLOCATED) => node.bytes(),
                _ => return None,
            },
            None => self.large.find(offset)?.1,
        };
        Some(Extent { offset, size_bytes })
    }

    /// The largest free extent of the buddy part in bytes; its whole size when no extent is taken
    /// from the tree. Extents in magazines do not count as free here.
    #[must_use]
    pub fn largest_free_bytes(&self) -> u64 {
        self.tree.largest_free()
    }

    /// Number and bytes of the extents in the tree; includes cached ones if `cached`.
    fn count_extents(&self, cached: bool) -> (u64, u64) {
        let mut live = (0, 0);
        self.tree.extents(&mut |node, flag| {
            if flag == ALLOCATED || cached {
                live = (live.0 + 1, live.1 + node.bytes());
            }
        });
        live
    }

    fn live(&self) -> (u64, u64) {
        let large = self.large.live();
        let buddy = if self.writer_lock.is_some() {
            let state = self.latch();
            let held = self.magazines.held();
            (state.taken.saturating_sub(held.0), state.taken_bytes.saturating_sub(held.1))
        } else {
            self.count_extents(false)
        };
        (buddy.0 + large.0, buddy.1 + large.1)
    }

    /// Computes `warm` from the tree (SWING-2).
    fn warm(&self) -> u64 {
        let mut warm = 0;
        self.tree.blocks_with_room(&mut |node| {
            if self.tree.is_free(node) {
                warm += self.committed(node);
            }
        });
        warm
    }

    fn committed(&self, node: Node) -> u64 {
        self.store.committed_in(self.layout.data_at + node.offset(), node.bytes())
    }

    fn extent(&self, node: Node) -> Extent {
        Extent { offset: self.layout.data_at + node.offset(), size_bytes: node.bytes() }
    }

    /// The offset within the buddy part, if it is there.
    fn buddy_offset(&self, offset: u64) -> Option<u64> {
        offset.checked_sub(self.layout.data_at).filter(|at| *at < self.layout.buddy_bytes())
    }

    fn check_writer(&self) -> Result<(), MemoryError> {
        if self.writer_lock.is_some() && self.store.is_writable() {
            Ok(())
        } else {
            Err(MemoryError::ReadOnly)
        }
    }

    fn latch(&self) -> MutexGuard<'_, State> {
        // Nothing under the latch panics half-way through a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for SwingMalloc {
    fn drop(&mut self) {
        // Not in a forked child, where the store cannot be written.
        if self.writer_lock.is_some() && self.store.is_writable() {
            self.give_back(&self.magazines.drain());
        }
    }
}

/// A copy of the allocator's header page.
fn read_header(store: &Store) -> Result<Vec<u8>, MemoryError> {
    let short = MemoryError::Truncated {
        size_bytes: store.capacity_bytes(),
        need_bytes: SWING_AT + SWING_BYTES,
    };
    let at = store.slice(SWING_AT, SWING_BYTES).ok_or(short)?;
    let mut bytes = vec![0; SWING_BYTES as usize];
    // SAFETY: `slice` checked that the page is in the mapping; it is in the first chunk, which
    // every store has committed.
    unsafe { std::ptr::copy_nonoverlapping(at, bytes.as_mut_ptr(), bytes.len()) };
    Ok(bytes)
}
