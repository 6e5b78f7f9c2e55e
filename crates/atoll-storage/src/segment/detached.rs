//! Segments that are built outside their table.
//!
//! A bulk load builds segments that no other thread can reach, and adds all of them to the table at
//! once. It needs neither the gate nor the write barrier: no snapshot shows a detached segment, and
//! no transaction accesses it.
//!
//! - `DETACHED-1`: the directory does not lead to a detached segment, so nothing retires its
//!   extents; a load that fails frees them. Their birth is an epoch at or before the one in which
//!   the segment is attached; if a lease on a later epoch is held then, the write barrier copies
//!   an extent that the lease does not show, which costs time and nothing else.

use atoll_machine::{Latch, Machine};
use atoll_memory::{Extent, MemoryError, Purpose};

use super::heap::Heap;
use super::node::{PRESENCE, validity_of, values_of};
use super::segment_buffer::SegmentBuffer;
use super::{Barrier, Grown, Segment};
use crate::layout::{
    capacity_for, column, column_line, heap_list, heap_list_bytes, segment, segment_node_bytes,
};
use crate::types::Schema;

/// The heaps of the columns of a segment.
type Heaps<M> = Grown<Latch<M, Heap>, M>;

/// A segment that is not part of its table; see the module.
pub struct DetachedSegment<M: Machine> {
    segment: Segment<M>,
    /// All its extents.
    extents: Vec<u64>,
}

impl<M: Machine> DetachedSegment<M> {
    /// The segment.
    pub(crate) fn segment(&self) -> &Segment<M> {
        &self.segment
    }

    /// The segment, which its table owns from now on.
    pub(crate) fn attach(self) -> Segment<M> {
        self.segment
    }
}

/// Allocates extents and writes them, and keeps a list of them.
struct Extents<'b, M: Machine> {
    barrier: &'b Barrier<M>,
    made: Vec<u64>,
}

impl<M: Machine> Extents<'_, M> {
    /// An extent that begins with `bytes` and is zero behind them, up to `size_bytes`.
    fn add(&mut self, bytes: &[u8], size_bytes: u64) -> Result<Extent, MemoryError> {
        let extent = self.barrier.memory().allocate(size_bytes, Purpose::Ordinary)?;
        self.made.push(extent.offset);
        let (access, len) = (self.barrier.access(), bytes.len() as u64);
        access.write(extent.offset, bytes);
        access.fill(extent.offset + len, 0, size_bytes - len);
        Ok(extent)
    }
}

impl<M: Machine> Barrier<M> {
    /// Builds the segment with this number, which the table does not have. `bits` is a buffer for
    /// bits.
    ///
    /// # Errors
    /// [`MemoryError::OutOfMemory`].
    pub(crate) fn build(
        &self,
        number: u64,
        schema: &Schema,
        rows: &SegmentBuffer,
        bits: &mut Vec<u8>,
    ) -> Result<DetachedSegment<M>, MemoryError> {
        let mut extents = Extents { barrier: self, made: Vec::new() };
        let built = self.build_node(&mut extents, schema, rows, bits);
        let made = extents.made;
        let (node, heaps) = match built {
            Ok(built) => built,
            Err(error) => {
                made.iter().for_each(|offset| self.memory().discard(*offset));
                return Err(error);
            }
        };
        self.note(number, node, 0..schema.columns().len());
        let segment = Segment::new(number, node, capacity_for(rows.rows()) as u64, heaps);
        Ok(DetachedSegment { segment, extents: made })
    }

    /// Frees a segment that was not attached.
    pub(crate) fn discard(&self, segment: &DetachedSegment<M>) {
        segment.extents.iter().for_each(|offset| self.memory().discard(*offset));
    }

    fn build_node(
        &self,
        extents: &mut Extents<'_, M>,
        schema: &Schema,
        rows: &SegmentBuffer,
        bits: &mut Vec<u8>,
    ) -> Result<(u64, Heaps<M>), MemoryError> {
        let (access, birth) = (self.access(), self.memory().epoch());
        let image = rows.image(bits);
        let node = extents.add(&[], segment_node_bytes(image.columns.len()))?.offset;
        access.store_u64(node, birth);
        access.store_u64(node + segment::FILLED, image.filled as u64);
        access.store_u64(node + segment::COLUMNS, image.columns.len() as u64);
        let capacity = capacity_for(image.filled) as u64;
        access.store_u64(node + segment::CAPACITY, capacity);
        let presence = extents.add(image.presence, PRESENCE.bytes(capacity))?.offset;
        access.store_u64(node + PRESENCE.place, presence);
        access.store_u64(node + PRESENCE.birth, birth);
        let mut heaps = Vec::with_capacity(image.columns.len());
        for (at, (given, described)) in image.columns.iter().zip(schema.columns()).enumerate() {
            let values = values_of(at, described.data_type.width());
            access.store_u64(
                node + values.place,
                extents.add(given.values, values.bytes(capacity))?.offset,
            );
            access.store_u64(node + values.birth, birth);
            if let Some(bits) = given.validity {
                let validity = validity_of(at);
                let place = extents.add(bits, validity.bytes(capacity))?.offset;
                access.store_u64(node + validity.place, place);
                access.store_u64(node + validity.birth, birth);
            }
            let line = node + column_line(at);
            access.store_u64(line + column::MIN, given.zone.0);
            access.store_u64(line + column::MAX, given.zone.1);
            let mut blocks = Vec::with_capacity(given.heap.len());
            for (bytes, live) in given.heap.iter().zip(rows.live(at)) {
                let used = bytes.len() as u64;
                blocks.push((extents.add(bytes, used)?, birth, used, live));
            }
            if !blocks.is_empty() {
                let count = blocks.len() as u64;
                let list = extents.add(&[], heap_list_bytes(count))?.offset;
                access.store_u64(list + heap_list::ENTRIES, count);
                access.store_u64(list + heap_list::CAPACITY, count);
                for (number, (extent, ..)) in (0..).zip(&blocks) {
                    let pair = list + heap_list::FIRST + number * heap_list::PAIR;
                    access.store_u64(pair, extent.offset);
                    access.store_u64(pair + 8, extent.size_bytes);
                }
                access.store_u64(line + column::HEAP, list);
                access.store_u64(line + column::HEAP_BIRTH, birth);
            }
            heaps.push(Latch::new(Heap::of(blocks.into_iter())));
        }
        Ok((node, heaps.into_iter().collect()))
    }
}
