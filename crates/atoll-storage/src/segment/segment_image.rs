//! Segments as a medium keeps them, and filling a segment from such an image.

use atoll_machine::Machine;
use atoll_memory::MemoryError;

use super::{Barrier, PRESENCE, Segment, column_line, validity_of, values_of};
use crate::directory::Change;
use crate::layout::{column, segment};
use crate::types::Schema;

/// A segment as a medium keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentImage<'b> {
    /// Slots up to the last row.
    pub filled: usize,
    /// A bit for each slot up to there.
    pub presence: &'b [u8],
    /// Its columns.
    pub columns: Vec<ColumnImage<'b>>,
}

/// A column of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnImage<'b> {
    /// Values of the slots that are filled; bits of them for a `bool`.
    pub values: &'b [u8],
    /// Their validity, for columns that can be NULL.
    pub validity: Option<&'b [u8]>,
    /// Heap blocks by number, as far as they are used; empty where a block is gone.
    pub heap: Vec<&'b [u8]>,
    /// The zone's words, see [`crate::zone`].
    pub zone: (u64, u64),
}

impl<M: Machine> Barrier<M> {
    /// Fills a segment that is empty and that nobody else uses; the image fits the schema.
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
