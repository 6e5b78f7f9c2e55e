//! The table of large blocks: each block has a fixed size, and is free or holds one extent.
//!
//! An entry is the size of the extent in its block; 0 is a free block, so a new table needs no
//! initialization. A search tries the smallest sizes first. The size of an extent is the requested
//! size in whole chunks: the rest of its block stays sparse and costs only addresses.
//!
//! Invariant `LARGE-1`: entries change only under the allocator's latch. A `BUSY` entry belongs to
//! a thread that is decommitting its space; one that a dead process has left is free.

use super::layout::{Class, ENTRY_BYTES, Layout, TABLE_AT};
use crate::store::CHUNK_BYTES;
use std::sync::atomic::{AtomicU64, Ordering};

/// The entry of a block that a thread is decommitting.
const BUSY: u64 = u64::MAX;

/// The table in a mapped store.
#[derive(Debug)]
pub(super) struct LargeTable {
    table: *mut u64,
    classes: Vec<Class>,
}

// SAFETY: the pointer is into a shared mapping that the owner of the table keeps; every access is
// atomic.
unsafe impl Send for LargeTable {}
// SAFETY: as above.
unsafe impl Sync for LargeTable {}

impl LargeTable {
    /// The table at its place in a store.
    ///
    /// # Safety
    /// `base` is the page-aligned start of a mapping of at least `layout.capacity_bytes` that
    /// outlives the table; methods that change it may only be called if it is writable.
    pub(super) unsafe fn new(base: *mut u8, layout: &Layout) -> LargeTable {
        // SAFETY: the table is in the mapping, by the caller's promise.
        let table = unsafe { base.add(TABLE_AT as usize) }.cast();
        LargeTable { table, classes: layout.classes.clone() }
    }

    fn entry(&self, n: u64) -> &AtomicU64 {
        debug_assert!(self.classes.iter().any(|c| n < c.first_entry + c.count));
        debug_assert_eq!(ENTRY_BYTES, 8);
        // SAFETY: the table has an entry for every block of the classes, is aligned to its page,
        // and is in the part of the store that is always committed.
        unsafe { AtomicU64::from_ptr(self.table.add(n as usize)) }
    }

    /// Takes the smallest free block that holds `size` bytes, and returns its offset and the
    /// extent's true size. Under the latch.
    pub(super) fn take(&self, size: u64) -> Option<(u64, u64)> {
        let held = size.checked_next_multiple_of(CHUNK_BYTES)?;
        for class in self.classes.iter().filter(|class| class.size >= held) {
            for n in 0..class.count {
                let entry = self.entry(class.first_entry + n);
                if entry.load(Ordering::Relaxed) == 0 {
                    entry.store(held, Ordering::Relaxed);
                    return Some((class.data_at + n * class.size, held));
                }
            }
        }
        None
    }

    /// The entry and size of the extent that starts at `offset`.
    pub(super) fn find(&self, offset: u64) -> Option<(u64, u64)> {
        let class = self.classes.iter().rev().find(|class| class.data_at <= offset)?;
        let within = offset - class.data_at;
        if !within.is_multiple_of(class.size) || within / class.size >= class.count {
            return None;
        }
        let n = class.first_entry + within / class.size;
        match self.entry(n).load(Ordering::Relaxed) {
            0 | BUSY => None,
            held if held > class.size => None,
            held => Some((n, held)),
        }
    }

    /// Keeps other threads from taking a block that is about to be decommitted. Under the latch.
    pub(super) fn set_busy(&self, n: u64) {
        self.entry(n).store(BUSY, Ordering::Relaxed);
    }

    /// Makes a block free. Under the latch.
    pub(super) fn release(&self, n: u64) {
        self.entry(n).store(0, Ordering::Relaxed);
    }

    /// Number and bytes of the extents in the table.
    pub(super) fn live(&self) -> (u64, u64) {
        let mut live = (0, 0);
        for class in &self.classes {
            for n in class.first_entry..class.first_entry + class.count {
                match self.entry(n).load(Ordering::Relaxed) {
                    0 | BUSY => {}
                    held => live = (live.0 + 1, live.1 + held.min(class.size)),
                }
            }
        }
        live
    }

    /// Frees the blocks that an earlier process has left busy. Under the latch.
    pub(super) fn repair(&self) {
        for class in &self.classes {
            for n in class.first_entry..class.first_entry + class.count {
                if self.entry(n).load(Ordering::Relaxed) == BUSY {
                    self.release(n);
                }
            }
        }
    }
}
