//! The image of a segment on a medium, and filling an empty segment from such an image.

use atoll_machine::{Latch, Machine};
use atoll_memory::MemoryError;

use super::heap::Heap;
use super::node::{PRESENCE, validity_of, values_of};
use super::{Barrier, Segment};
use crate::data_type::DataType;
use crate::directory::Change;
use crate::image::{self, HeapPlace};
use crate::layout::{SEGMENT_ROWS, column, column_line, segment};
use crate::redo::{Input, number};
use crate::types::Column;

/// A segment as a checkpoint stores it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentImage<'b> {
    /// Number of slots up to the last row.
    pub filled: usize,
    /// Presence bitmap: one bit for each of these slots.
    pub presence: &'b [u8],
    /// Its columns.
    pub columns: Vec<ColumnImage<'b>>,
}

/// A column of a segment image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnImage<'b> {
    /// The values of the filled slots; for a `bool` one bit each.
    pub values: &'b [u8],
    /// The validity bitmap of these slots, for nullable columns.
    pub validity: Option<&'b [u8]>,
    /// Heap blocks by number, up to their used size; empty for a block that was freed.
    pub heap: Vec<&'b [u8]>,
    /// The zone's words, see [`crate::zone`].
    pub zone: (u64, u64),
}

impl<'b> SegmentImage<'b> {
    /// Appends the image as bytes of a redo record:
    ///
    /// ```text
    /// filled | presence | column × n
    /// column = values | validity, if nullable | zone (2 words) | blocks | (bytes, block) × blocks
    /// ```
    /// Numbers are unsigned LEB128, words little-endian; the schema gives the bytes of values and
    /// bitmaps.
    pub fn encode(&self, out: &mut Vec<u8>) {
        number(out, self.filled as u64);
        out.extend_from_slice(self.presence);
        for column in &self.columns {
            out.extend_from_slice(column.values);
            out.extend_from_slice(column.validity.unwrap_or_default());
            out.extend_from_slice(&column.zone.0.to_le_bytes());
            out.extend_from_slice(&column.zone.1.to_le_bytes());
            number(out, column.heap.len() as u64);
            for block in &column.heap {
                number(out, block.len() as u64);
                out.extend_from_slice(block);
            }
        }
    }

    /// Whether every text and binary of a row is in the image, and every text is UTF-8.
    pub(crate) fn is_sound(&self, schema: &[Column]) -> bool {
        let is_set = |bits: &[u8], at: usize| bits[at / 8] >> (at % 8) & 1 == 1;
        self.columns.iter().zip(schema).all(|(column, described)| {
            let is_sound = |view: &[u8]| {
                let bytes = match image::heap_place(view) {
                    None => image::inline(view),
                    Some(HeapPlace { len, block, offset }) => {
                        let block = column.heap.get(block as usize);
                        block.and_then(|block| block.get(offset as usize..)?.get(..len as usize))
                    }
                };
                let is_text = described.data_type.stored_as() == DataType::Text;
                bytes.is_some_and(|bytes| !is_text || std::str::from_utf8(bytes).is_ok())
            };
            let mut rows = (0..self.filled).filter(|slot| is_set(self.presence, *slot));
            // The view of NULL is empty.
            !described.data_type.is_view()
                || rows.all(|slot| is_sound(&column.values[slot * 16..][..16]))
        })
    }

    /// Decodes an image of a table with these columns; `None` for other bytes.
    pub fn decode(bytes: &'b [u8], schema: &[Column]) -> Option<Self> {
        let mut input = Input(bytes);
        let filled = usize::try_from(input.number()?).ok().filter(|rows| *rows <= SEGMENT_ROWS)?;
        let bits = filled.div_ceil(8);
        let presence = input.take(bits)?;
        if !filled.is_multiple_of(8) && presence.last()? >> (filled % 8) != 0 {
            return None; // A row behind the last one.
        }
        let word =
            |input: &mut Input<'b>| Some(u64::from_le_bytes(input.take(8)?.try_into().ok()?));
        let mut columns = Vec::with_capacity(schema.len());
        for column in schema {
            let width = column.data_type.width();
            let values = input.take(if width == 0 { bits } else { width * filled })?;
            let validity = if column.nullable { Some(input.take(bits)?) } else { None };
            let zone = (word(&mut input)?, word(&mut input)?);
            let blocks = input.number()?;
            // Each block takes a byte at least.
            let mut heap = Vec::with_capacity(usize::try_from(blocks).ok()?.min(input.0.len()));
            for _ in 0..blocks {
                let len = input.number()?;
                heap.push(input.take(len.try_into().ok()?)?);
            }
            columns.push(ColumnImage { values, validity, heap, zone });
        }
        input.0.is_empty().then_some(Self { filled, presence, columns })
    }
}

impl<M: Machine> Barrier<M> {
    /// Whether nothing was ever stored into a segment.
    pub(crate) fn is_vacant(&self, target: &Segment<M>) -> bool {
        let no_block = |heap: &Latch<M, Heap>| heap.take().is_empty();
        self.access().load_u64(target.node() + segment::FILLED) == 0
            && target.heaps.iter().all(no_block)
    }

    /// Fills an empty segment that no other thread uses. The image fits the schema.
    ///
    /// # Errors
    /// [`MemoryError::OutOfMemory`].
    pub(crate) fn fill_segment(
        &self,
        change: Change,
        target: &Segment<M>,
        image: &SegmentImage<'_>,
    ) -> Result<(), MemoryError> {
        let access = self.access();
        for (at, (given, described)) in image.columns.iter().zip(self.columns.iter()).enumerate() {
            let values = values_of(at, described.data_type.width());
            let place = self.own(change, target, &self.extents.values[at], || values)?;
            access.write(place, given.values);
            if let Some(validity) = given.validity {
                let extents = &self.extents.validity[at];
                let place = self.own(change, target, extents, || validity_of(at))?;
                access.write(place, validity);
            }
            self.fill_heap(change, target, at, &given.heap)?;
            let line = target.node() + column_line(at);
            access.store_u64(line + column::MIN, given.zone.0);
            access.store_u64(line + column::MAX, given.zone.1);
        }
        let presence = self.own(change, target, &self.extents.presence, || PRESENCE)?;
        access.write(presence, image.presence);
        access.store_u64(target.node() + segment::FILLED, image.filled as u64);
        Ok(())
    }
}
