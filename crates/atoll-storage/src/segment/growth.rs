//! Growth of segments: a segment begins with room for few rows, and its extents are copied into
//! larger ones when its inserter needs more slots.
//!
//! A table of ten rows takes kilobytes so, and the rows of a table stay side by side. An extent
//! cannot be copied while another worker may be storing into it, and workers that are inside the
//! gate store without a latch. So a segment grows over an epoch, as it is copied after a snapshot:
//!
//! 1. [`Barrier::begin_growth`] marks all extents of the segment as [`OUTGROWN`] in the lists of
//!    the table. From then on each store takes the slow path, which still stores in place.
//! 2. A new epoch begins ([`Memory::advance`]).
//! 3. In a section under a later epoch, [`Barrier::finish_growth`] copies all extents that no other
//!    worker has copied, and publishes the capacity.
//!
//! Invariants
//! - `GROWTH-1`: a worker copies an outgrown extent only after it has sealed an epoch that is later
//!   than that in which the extents were marked, or if the extent is frozen and its own epoch is
//!   sealed. In both cases no worker is left that may store into the old extent without the latch.
//! - `GROWTH-2`: an extent with the birth [`OUTGROWN`] in the list has room for as many rows as the
//!   published capacity, and any other for as many as the latch of the segment says. The capacity
//!   in the node and in [`Segment::capacity`] rises when all extents have been copied, and a row
//!   takes a slot only below it.
//!
//! If there is no memory for a copy, the growth stays begun; the next inserter finishes it.

use atoll_machine::{Machine, Ordering, Word};
#[cfg(doc)]
use atoll_memory::Memory;
use atoll_memory::{Extent, MemoryError};

#[cfg(doc)]
use super::extents::OUTGROWN;
use super::{Barrier, Segment};
use crate::directory::Change;
use crate::layout::segment;
use crate::types::Schema;

/// What the latch of a segment guards; see the module.
pub(super) struct Growth {
    /// Slots for which an extent that is not outgrown has room.
    pub(super) capacity: u64,
    /// The epoch in which the extents were marked. A worker inside under it, or under an earlier
    /// one, may be storing into an outgrown extent.
    marked: u64,
}

impl Growth {
    /// No growth has begun that has not ended.
    pub(super) fn ended(capacity: u64) -> Self {
        Self { capacity, marked: 0 }
    }

    /// Whether a worker inside under this epoch, which is sealed, must copy an outgrown extent
    /// before it stores (`GROWTH-1`).
    pub(super) fn must_copy(&self, epoch: u64) -> bool {
        epoch > self.marked
    }
}

impl<M: Machine> Barrier<M> {
    /// Begins to enlarge a segment, unless a growth has begun before and has not ended. The caller
    /// is the only inserter of the segment.
    pub(crate) fn begin_growth(&self, target: &Segment<M>, schema: &Schema, capacity: u64) {
        let mut growth = target.latch.take();
        if growth.capacity > target.capacity() {
            return;
        }
        self.mark(target, schema, &mut growth, capacity);
        // A worker that enters under a later epoch sees the marks.
        growth.marked = self.memory.epoch();
    }

    /// Ends the growth of a segment. The epoch of `change` has begun after
    /// [`Barrier::begin_growth`].
    ///
    /// # Errors
    /// [`MemoryError::OutOfMemory`]: the growth has not ended.
    pub(crate) fn finish_growth(
        &self,
        change: Change,
        target: &Segment<M>,
        schema: &Schema,
    ) -> Result<(), MemoryError> {
        self.memory.seal(change.inside.epoch);
        for (extents, what) in self.extents.each(schema) {
            if extents.is_outgrown(target.number) {
                self.own_slow(change, target, extents, what)?;
            }
        }
        let growth = target.latch.take();
        debug_assert!(growth.must_copy(change.inside.epoch), "an outgrown extent may be left");
        let node = self.own_node(change, target)?;
        self.publish_capacity(target, node, &growth);
        Ok(())
    }

    /// Enlarges a segment that no other thread uses and no snapshot shows.
    ///
    /// # Errors
    /// [`MemoryError::OutOfMemory`]: nothing has been changed, or the growth has not ended.
    pub(crate) fn grow_alone(
        &self,
        change: Change,
        target: &Segment<M>,
        schema: &Schema,
        capacity: u64,
    ) -> Result<(), MemoryError> {
        let mut growth = target.latch.take();
        if growth.capacity == target.capacity() {
            self.mark(target, schema, &mut growth, capacity);
        }
        let node = target.node();
        for (extents, what) in self.extents.each(schema) {
            if extents.is_outgrown(target.number) {
                let (_, place) = extents.of(target.number);
                let bytes = [target.capacity(), growth.capacity].map(|rows| what.bytes(rows));
                let copy = self.enlarge(change, place, bytes)?;
                self.replace(change, target, extents, (node, what), copy.offset);
                self.memory.discard(place);
            }
        }
        self.publish_capacity(target, node, &growth);
        Ok(())
    }

    fn mark(&self, target: &Segment<M>, schema: &Schema, growth: &mut Growth, capacity: u64) {
        growth.capacity = capacity;
        self.extents.each(schema).for_each(|(extents, _)| extents.outgrow(target.number));
    }

    fn publish_capacity(&self, target: &Segment<M>, node: u64, growth: &Growth) {
        self.access().store_u64(node + segment::CAPACITY, growth.capacity);
        target.capacity.store(growth.capacity, Ordering::Release);
    }

    /// A copy of an extent of `old` bytes in an extent of `new` bytes, which is zero behind them.
    pub(super) fn enlarge(
        &self,
        change: Change,
        place: u64,
        [old, new]: [u64; 2],
    ) -> Result<Extent, MemoryError> {
        let extent = self.memory.allocate(new, change.purpose)?;
        self.access().copy(place, extent.offset, old);
        // A slot that was never filled must read as well-formed values (empty views).
        self.access().fill(extent.offset + old, 0, new - old);
        Ok(extent)
    }
}
