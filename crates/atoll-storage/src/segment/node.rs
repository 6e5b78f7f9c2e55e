//! Extents in a segment's node.

use crate::layout::{BITMAP_BYTES, column, column_line, segment, values_bytes};

/// An extent in a segment's node: the offsets of its place and birth in the node, and its size.
#[derive(Clone, Copy)]
pub(super) struct Slotted {
    pub(super) place: u64,
    pub(super) birth: u64,
    pub(super) bytes: u64,
}

/// The presence bitmap.
pub(super) const PRESENCE: Slotted =
    Slotted { place: segment::PRESENCE, birth: segment::PRESENCE_BIRTH, bytes: BITMAP_BYTES };

/// The values of a column.
#[inline]
pub(super) fn values_of(at: usize, width: usize) -> Slotted {
    let line = column_line(at);
    Slotted {
        place: line + column::VALUES,
        birth: line + column::VALUES_BIRTH,
        bytes: values_bytes(width),
    }
}

/// The validity bitmap of a column.
pub(super) fn validity_of(at: usize) -> Slotted {
    let line = column_line(at);
    Slotted {
        place: line + column::VALIDITY,
        birth: line + column::VALIDITY_BIRTH,
        bytes: BITMAP_BYTES,
    }
}
