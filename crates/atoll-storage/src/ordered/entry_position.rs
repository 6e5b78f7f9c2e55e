//! The position of an entry in the order of the index: a key and a row.
//!
//! A search in a node compares heads (8 bytes of the key) first, and the rest only if the heads are
//! equal. If one of two keys with equal heads has at most 8 bytes, the shorter key is a prefix of
//! the longer one, so a payload of length and row orders them.

use crate::layout::RowId;

/// Longest key, in bytes. Further bytes are not part of the key.
pub const KEY_BYTES_MAX: usize = (1 << (u64::BITS - ROW_BITS)) - 1;

/// Bits of a row id; every row id is smaller than [`ROW_END`].
pub(super) const ROW_BITS: u32 = 36;
pub(super) const ROW_MASK: u64 = (1 << ROW_BITS) - 1;

pub(super) const TAG_SHIFT: u32 = 60;
/// Tag of a key that is stored in the arena.
pub(super) const LONG: u64 = 9;

/// Greater than any row id: the position behind all entries of a key.
pub(super) const ROW_END: u64 = ROW_MASK;
const _: () = assert!(crate::layout::SEGMENTS_MAX << crate::layout::SLOT_BITS < ROW_MASK);

/// See the module.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct EntryPosition<'k> {
    key: &'k [u8],
    row: u64,
}

impl<'k> EntryPosition<'k> {
    /// The position of a key and a row id, which may be [`ROW_END`].
    pub(super) fn new(key: &'k [u8], row: u64) -> Self {
        Self { key: &key[..key.len().min(KEY_BYTES_MAX)], row: row.min(ROW_END) }
    }

    /// The position of an entry.
    pub(super) fn entry(key: &'k [u8], row: RowId) -> Self {
        Self::new(key, row.0)
    }

    pub(super) fn key(&self) -> &'k [u8] {
        self.key
    }

    pub(super) fn row(&self) -> u64 {
        self.row
    }

    pub(super) fn is_long(&self) -> bool {
        self.key.len() > 8
    }

    /// The word that orders positions with equal heads, if at least one of the keys is short.
    #[inline]
    pub(super) fn payload(&self) -> u64 {
        (self.key.len() as u64).min(LONG) << TAG_SHIFT | self.row
    }
}

/// The head of a key behind `skip` bytes: 8 bytes, big-endian, zero behind the key's end.
#[inline]
pub(super) fn head_of(key: &[u8], skip: usize) -> u64 {
    let rest = key.get(skip..).unwrap_or(&[]);
    match rest.first_chunk() {
        Some(bytes) => u64::from_be_bytes(*bytes),
        None => {
            let mut bytes = [0; 8];
            bytes[..rest.len()].copy_from_slice(rest);
            u64::from_be_bytes(bytes)
        }
    }
}
