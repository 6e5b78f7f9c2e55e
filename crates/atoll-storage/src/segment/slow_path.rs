//! The slow path of the write barrier: copies of extents and nodes.

use atoll_machine::{Machine, Ordering, Word};
use atoll_memory::{MemoryError, Retired};

use super::extents::{Extents, OUTGROWN};
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
        let growth = target.latch.take();
        let node = self.own_node(change, target)?;
        let access = self.access();
        let (listed, place) = extents.of(target.number);
        let birth = access.load_u64(node + what.birth);
        let is_outgrown = listed == OUTGROWN;
        let must_grow = is_outgrown && growth.must_copy(change.inside.epoch);
        if !change.inside.is_frozen(birth) && !must_grow {
            return Ok(place);
        }
        let copy = if is_outgrown {
            self.enlarge(
                change,
                place,
                [target.capacity(), growth.capacity].map(|n| what.bytes(n)),
            )?
        } else {
            let bytes = what.bytes(growth.capacity);
            let copy = self.memory.copy_extent(place, bytes, change.purpose)?;
            access.copied(place, copy.offset, bytes);
            copy
        };
        self.replace(change, target, extents, (node, what), copy.offset);
        let held = if is_outgrown { target.capacity() } else { growth.capacity };
        let retired = Retired { offset: place, size_bytes: what.bytes(held), birth };
        self.memory.retire(retired, change.inside.epoch);
        Ok(copy.offset)
    }

    /// Publishes a copy of an extent in the node, which the caller owns, and in the list.
    pub(super) fn replace(
        &self,
        change: Change,
        target: &Segment<M>,
        extents: &Extents<M>,
        (node, what): (u64, Slotted),
        copy: u64,
    ) {
        let access = self.access();
        // Readers load the place without the birth, so the store of the place publishes the copy,
        // too.
        access.store_release(node + what.place, copy);
        access.store_release(node + what.birth, change.inside.epoch);
        extents.publish(target.number, copy, change.inside.epoch);
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
        let bytes = segment_node_bytes(target.heaps.len());
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
