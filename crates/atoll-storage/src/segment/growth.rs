//! Growth of segments: a segment begins with room for few rows, and its extents are copied into
//! larger ones when its inserter needs more slots.
//!
//! A table of ten rows takes kilobytes so, and the rows of a table stay side by side. An extent
//! cannot be copied while another worker may be storing into it, and workers that are inside the
//! gate store without a latch. So a segment grows over an epoch, as it is copied after a snapshot:
//!
//! 1. [`Barrier::begin_growth`] marks all extents of the segment as [`OUTGROWN`] in the lists of
//!    the table. From then on each store takes the slow path, which still stores in place.
//! 2. A new epoch begins ([`Memory::advance_after`]). Under it, and under later ones, the first
//!    store into each extent copies it.
//! 3. In a section under such an epoch, [`Barrier::finish_growth`] copies the extents that no
//!    worker has copied, and publishes the capacity.
//!
//! Invariants
//! - `GROWTH-1`: a worker copies an outgrown extent into a larger one only under an epoch that has
//!   begun after the extents were marked, and that it has sealed. So no worker is left that may
//!   store into the old extent without the latch.
//! - `GROWTH-2`: an extent with the birth [`OUTGROWN`] in the list has room for as many rows as the
//!   published capacity, and any other for as many as the latch of the segment says. The capacity
//!   in the node and in [`Segment::capacity`] rises when all extents have been copied, and a row
//!   takes a slot only below it.
//! - `GROWTH-3`: a store into an extent that is not frozen needs no memory. If there is none for
//!   the copy, the growth is suspended until the next inserter continues it over another epoch, and
//!   stores are in place meanwhile.

use atoll_machine::{Machine, Ordering, Word};
#[cfg(doc)]
use atoll_memory::Memory;
use atoll_memory::{Extent, MemoryError};

use super::constant::SHARED;
#[cfg(doc)]
use super::extents::OUTGROWN;
use super::{Barrier, Segment};
use crate::directory::Change;
use crate::layout::segment;

/// What the latch of a segment guards; see the module.
pub(super) struct Growth {
    /// Slots for which an extent that is not outgrown has room.
    pub(super) capacity: u64,
    /// The first epoch under which a worker copies an outgrown extent, see [`SUSPENDED`].
    since: u64,
}

/// In place of an epoch: outgrown extents are not copied.
const SUSPENDED: u64 = u64::MAX;

impl Growth {
    /// No growth has begun that has not ended.
    pub(super) fn ended(capacity: u64) -> Self {
        Self { capacity, since: SUSPENDED }
    }

    /// Whether a worker inside under this epoch, which is sealed, copies an outgrown extent before
    /// it stores (`GROWTH-1`).
    pub(super) fn must_copy(&self, epoch: u64) -> bool {
        epoch >= self.since
    }

    /// There is no memory for a copy (`GROWTH-3`).
    pub(super) fn suspend(&mut self) {
        self.since = SUSPENDED;
    }
}

impl<M: Machine> Barrier<M> {
    /// Begins to enlarge a segment, or continues a growth that was suspended. The caller is the
    /// only inserter of the segment. `epoch` begins, with a number that no worker has seen, when
    /// this has returned.
    pub(crate) fn begin_growth(&self, target: &Segment<M>, capacity: u64, epoch: u64) {
        let mut growth = target.latch.take();
        if growth.capacity == target.capacity() {
            self.mark(target, &mut growth, capacity);
        }
        growth.since = growth.since.min(epoch);
    }

    /// Ends the growth of a segment; `change` is under the epoch with which it began, or a later
    /// one. Returns false if another worker has suspended the growth, which has to begin again.
    ///
    /// # Errors
    /// [`MemoryError::OutOfMemory`]: the growth is suspended.
    pub(crate) fn finish_growth(
        &self,
        change: Change,
        target: &Segment<M>,
    ) -> Result<bool, MemoryError> {
        self.memory.seal(change.inside.epoch);
        for (extents, what) in self.each(target) {
            // Taken for each extent, since stores of others wait for it.
            let mut growth = target.latch.take();
            let is_shared = || self.access().load_u64(target.node() + what.birth) == SHARED;
            if !extents.is_outgrown(target.number) || is_shared() {
                continue;
            }
            if !growth.must_copy(change.inside.epoch) {
                return Ok(false);
            }
            let node = self.own_node(change, target);
            let copied =
                node.and_then(|node| self.copy(change, target, extents, (node, what), &growth));
            copied.inspect_err(|_| growth.suspend())?;
        }
        let mut growth = target.latch.take();
        let node = self.own_node(change, target)?;
        self.publish_capacity(target, node, &mut growth);
        Ok(true)
    }

    /// Enlarges a segment that no other thread uses and no snapshot shows.
    ///
    /// # Errors
    /// [`MemoryError::OutOfMemory`]: nothing has been changed, or the growth has not ended.
    pub(crate) fn grow_alone(
        &self,
        change: Change,
        target: &Segment<M>,
        capacity: u64,
    ) -> Result<(), MemoryError> {
        let mut growth = target.latch.take();
        let node = target.node();
        while target.capacity() < capacity {
            if growth.capacity == target.capacity() {
                self.mark(target, &mut growth, capacity);
            }
            for (extents, what) in self.each(target) {
                let is_shared = self.access().load_u64(node + what.birth) == SHARED;
                if extents.is_outgrown(target.number) && !is_shared {
                    let (_, place) = extents.of(target.number);
                    let bytes = [target.capacity(), growth.capacity].map(|rows| what.bytes(rows));
                    let (copy, epoch) = (self.enlarge(change, place, bytes)?, change.inside.epoch);
                    self.replace(target, extents, (node, what), copy.offset, [epoch; 2]);
                    self.memory.discard(place);
                }
            }
            self.publish_capacity(target, node, &mut growth);
        }
        Ok(())
    }

    fn mark(&self, target: &Segment<M>, growth: &mut Growth, capacity: u64) {
        growth.capacity = capacity;
        self.each(target).for_each(|(extents, _)| extents.outgrow(target.number));
    }

    fn publish_capacity(&self, target: &Segment<M>, node: u64, growth: &mut Growth) {
        growth.suspend();
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
