//! The slow path of the write barrier: copies of extents and nodes.

use atoll_machine::{Machine, Ordering, Word};
use atoll_memory::{MemoryError, Retired};

use super::constant::SHARED;
use super::extents::{Extents, OUTGROWN};
use super::growth::Growth;
use super::node::Slotted;
use super::{Barrier, Segment};
use crate::directory::Change;
use crate::layout::{column_line, segment_node_bytes};

impl<M: Machine> Barrier<M> {
    /// Owns an extent for which the fast path does not suffice: seals the epoch, and copies the
    /// extent if it is frozen or must grow.
    #[cold]
    pub(super) fn own_slow(
        &self,
        change: Change,
        target: &Segment<M>,
        extents: &Extents<M>,
        what: Slotted,
    ) -> Result<u64, MemoryError> {
        self.memory.seal(change.inside.epoch); // before the latch, see `Directory::latch`
        let mut growth = target.latch.take();
        let node = self.own_node(change, target)?;
        let (listed, place) = extents.of(target.number);
        let birth = self.access().load_u64(node + what.birth);
        let is_frozen = birth == SHARED || change.inside.is_frozen(birth); // SHARED-1
        let must_grow = listed == OUTGROWN && growth.must_copy(change.inside.epoch);
        if !is_frozen && !must_grow {
            return Ok(place);
        }
        match self.copy(change, target, extents, (node, what), &growth) {
            // A store in place needs no memory.
            Err(_) if !is_frozen => {
                growth.suspend();
                Ok(place)
            }
            copied => copied,
        }
    }

    /// Copies an extent, into a larger one if it must grow, and publishes the copy. The caller has
    /// sealed the epoch, holds the segment's latch and owns its node.
    pub(super) fn copy(
        &self,
        change: Change,
        target: &Segment<M>,
        extents: &Extents<M>,
        (node, what): (u64, Slotted),
        growth: &Growth,
    ) -> Result<u64, MemoryError> {
        let (access, epoch) = (self.access(), change.inside.epoch);
        let (listed, place) = extents.of(target.number);
        let birth = access.load_u64(node + what.birth);
        let is_shared = birth == SHARED;
        // What is shared has room for all rows (SHARED-2).
        let is_outgrown = listed == OUTGROWN && !is_shared;
        let size_bytes = what.bytes(if is_outgrown { target.capacity() } else { growth.capacity });
        let copy = if is_outgrown && growth.must_copy(epoch) {
            let copy = self.enlarge(change, place, [size_bytes, what.bytes(growth.capacity)])?;
            self.replace(target, extents, (node, what), copy.offset, [epoch; 2]);
            copy
        } else {
            let copy = self.memory.copy_extent(place, size_bytes, change.purpose)?;
            access.copied(place, copy.offset, size_bytes);
            let listed = if is_outgrown { OUTGROWN } else { epoch };
            self.replace(target, extents, (node, what), copy.offset, [epoch, listed]);
            copy
        };
        if !is_shared {
            self.memory.retire(Retired { offset: place, size_bytes, birth }, epoch);
        }
        Ok(copy.offset)
    }

    /// Publishes a copy of an extent in the node, which the caller owns, and in the list, with its
    /// birth in each.
    pub(super) fn replace(
        &self,
        target: &Segment<M>,
        extents: &Extents<M>,
        (node, what): (u64, Slotted),
        copy: u64,
        [birth, listed]: [u64; 2],
    ) {
        let access = self.access();
        // Readers load the place without the birth, so the store of the place publishes the copy,
        // too.
        access.store_release(node + what.place, copy);
        access.store_release(node + what.birth, birth);
        extents.publish(target.number, copy, listed);
    }

    /// The segment's node, copied first if it is frozen. The caller has sealed the epoch and holds
    /// the segment's latch.
    pub(super) fn own_node(&self, change: Change, target: &Segment<M>) -> Result<u64, MemoryError> {
        let node = target.node.load(Ordering::Acquire);
        let access = self.access();
        let birth = access.load_u64(node);
        if !change.inside.is_frozen(birth) {
            return Ok(node);
        }
        let bytes = segment_node_bytes(target.columns());
        let copy = self.memory.copy_extent(node, bytes, change.purpose)?;
        access.copied(node, copy.offset, bytes);
        access.store_u64(copy.offset, change.inside.epoch);
        let published =
            self.directory.replace_segment(change, self.table, target.number, copy.offset);
        if let Err(error) = published {
            self.memory.discard(copy.offset);
            return Err(error);
        }
        target.node.store(copy.offset, Ordering::Release);
        let retired = Retired { offset: node, size_bytes: bytes, birth };
        self.memory.retire(retired, change.inside.epoch);
        Ok(copy.offset)
    }

    /// Calls `body` with the offset of a column's line in the node, which may be written; for
    /// [`Heap`].
    pub(crate) fn with_heap_line<R>(
        &self,
        change: Change,
        target: &Segment<M>,
        at: usize,
        body: impl FnOnce(u64) -> Result<R, MemoryError>,
    ) -> Result<R, MemoryError> {
        self.memory.seal(change.inside.epoch);
        let _latch = target.latch.take();
        let node = self.own_node(change, target)?;
        body(node + column_line(at))
    }
}
