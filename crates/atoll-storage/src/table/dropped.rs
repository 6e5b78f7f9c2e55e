//! Dropped tables.
//!
//! A table is dropped in three steps, between which the caller drains the gate:
//! 1. [`Table::begin_drop`]: threads that work on tables outside transactions leave this one alone.
//! 2. [`Table::remove`]: the directory loses the table. No later snapshot shows it.
//! 3. [`Table::release`]: its memory is freed. What a snapshot still shows is freed when that ends.
//!
//! - `DROP-1`: from the first step on no transaction uses the table; the layer above ensures that.
//! - `DROP-2`: a thread that changes the table outside transactions, and is inside the gate, has
//!   found there that no drop has begun. So after the first drain no thread changes it, and none
//!   makes a copy of a node, which would bring the table back into the directory.
//! - `DROP-3`: handles outlive the table. A thread that reads through one, inside the gate, finds
//!   there whether the table was removed, and then reads nothing of it. An extent is freed two
//!   epochs after the removal at the earliest, when the threads that did not find it have left.

use atoll_machine::{Machine, Ordering, Word};
use atoll_memory::Retired;

use super::Table;
use crate::directory::{Change, Shown};
use crate::error::StorageError;
use crate::segment::Barrier;

/// States of a table.
const LIVE: u64 = 0;
const LEAVING: u64 = 1;
const REMOVED: u64 = 2;

/// What is left of a table that the directory does not have any more.
#[derive(Debug)]
#[must_use = "its memory has to be released"]
pub struct Remains {
    /// The table's node, and the epoch in which it was removed.
    node: u64,
    died: u64,
}

impl<M: Machine> Table<M> {
    /// Announces that the table is going to be dropped.
    pub fn begin_drop(&self) {
        self.state.store(LEAVING, Ordering::Release);
    }

    /// The table could not be dropped.
    pub fn cancel_drop(&self) {
        self.state.store(LIVE, Ordering::Release);
    }

    /// Whether a drop of the table has begun.
    #[inline]
    pub fn is_leaving(&self) -> bool {
        self.state.load(Ordering::Acquire) != LIVE
    }

    /// Whether the table was removed. A thread that reads the table is inside the gate (`DROP-3`).
    pub(super) fn is_removed(&self) -> bool {
        self.state.load(Ordering::Acquire) == REMOVED
    }

    /// Removes the table from the directory. A drop has begun, and the gate was drained since
    /// (`DROP-2`).
    ///
    /// # Errors
    /// [`StorageError::Memory`]; the table is unchanged.
    pub fn remove(&self, change: Change) -> Result<Remains, StorageError> {
        let node = self.barrier.directory().remove_table(change, self.id())?;
        self.state.store(REMOVED, Ordering::Release);
        Ok(Remains { node, died: change.inside.epoch })
    }

    /// Takes back [`Table::remove`], in the same section; the drop has begun still.
    pub fn put_back(&self, change: Change, remains: Remains) {
        self.barrier.directory().put_table_back(change, self.id(), remains.node);
        self.state.store(LEAVING, Ordering::Release);
    }

    /// Makes later snapshots show the table, or not.
    ///
    /// # Errors
    /// [`StorageError::Memory`]; not in a section that has shown or hidden it already.
    pub fn show(&self, change: Change, shown: Shown) -> Result<(), StorageError> {
        Ok(self.barrier.directory().show_table(change, self.id(), shown)?)
    }

    /// Frees the memory of a table that was removed. The gate was drained since.
    pub fn release(&self, Remains { node, died }: Remains) {
        let mut retire = |extent: Retired| self.memory().retire(extent, died);
        for number in 0..self.segment_count() {
            if let Some(segment) = self.segments.get(number) {
                self.barrier.retire_segment(segment, &mut retire);
            }
        }
        let constants = self.barrier.constants();
        constants.for_each(|constant| Barrier::<M>::retire_constant(constant, &mut retire));
        self.barrier.directory().retire_table(node, &mut retire);
        // Handles may keep the rest.
        self.index.discard();
        self.free_count.store(0, Ordering::Relaxed);
        *self.free.take() = Vec::new();
        *self.left.take() = Vec::new();
    }
}
