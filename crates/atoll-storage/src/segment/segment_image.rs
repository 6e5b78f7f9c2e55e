//! The image of a segment on a medium, and filling an empty segment from such an image.

use atoll_machine::Machine;
use atoll_memory::MemoryError;

use super::{Barrier, PRESENCE, Segment, column_line, validity_of, values_of};
use crate::directory::Change;
use crate::layout::{column, segment};
use crate::types::Schema;

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

impl<M: Machine> Barrier<M> {
    /// Fills an empty segment that no other thread uses. The image fits the schema.
    ///
    /// # Errors
    /// [`MemoryError::OutOfMemory`].
    pub(crate) fn fill_segment(
        &self,
        change: Change,
        target: &Segment<M>,
        schema: &Schema,
        image: &SegmentImage<'_>,
    ) -> Result<(), MemoryError> {
        let access = self.access();
        for (at, (given, described)) in image.columns.iter().zip(schema.columns()).enumerate() {
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
