//! Extents in a segment's node.

use crate::layout::{column, column_line, segment, values_bytes};

/// An extent in a segment's node: the offsets of its place and birth in the node, and the bytes of
/// a value, 0 for a bit.
#[derive(Clone, Copy)]
pub(super) struct Slotted {
    pub(super) place: u64,
    pub(super) birth: u64,
    width: usize,
}

impl Slotted {
    /// Its bytes if it has room for so many rows.
    pub(super) fn bytes(self, rows: u64) -> u64 {
        values_bytes(self.width, rows)
    }
}

/// The presence bitmap.
pub(super) const PRESENCE: Slotted =
    Slotted { place: segment::PRESENCE, birth: segment::PRESENCE_BIRTH, width: 0 };

/// The values of a column.
#[inline]
pub(super) fn values_of(at: usize, width: usize) -> Slotted {
    let line = column_line(at);
    Slotted { place: line + column::VALUES, birth: line + column::VALUES_BIRTH, width }
}

/// The validity bitmap of a column.
pub(super) fn validity_of(at: usize) -> Slotted {
    let line = column_line(at);
    Slotted { place: line + column::VALIDITY, birth: line + column::VALIDITY_BIRTH, width: 0 }
}
