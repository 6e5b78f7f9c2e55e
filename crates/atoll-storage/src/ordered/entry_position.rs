//! A place in the order of entries: a key and a row.
//!
//! A node compares 8 bytes of the key first, the head, and the rest only if the heads are alike.
//! Of two keys with one head the shorter is the beginning of the longer, as long as one of them has
//! at most 8 bytes, so a payload of length and row orders them.

use crate::layout::RowId;

/// Longest key, in bytes. The bytes of a value behind it are not part of the key.
pub const KEY_BYTES_MAX: usize = (1 << (u64::BITS - ROW_BITS)) - 1;

/// Bits of a row: the number of a row is smaller than [`ROW_END`].
pub(super) const ROW_BITS: u32 = 36;
pub(super) const ROW_MASK: u64 = (1 << ROW_BITS) - 1;

pub(super) const TAG_SHIFT: u32 = 60;
/// Tag of a key that lies in the arena.
pub(super) const LONG: u64 = 9;

/// Greater than any row: the place behind all entries of a key.
pub(super) const ROW_END: u64 = ROW_MASK;
const _: () = assert!(crate::layout::SEGMENTS_MAX << crate::layout::SLOT_BITS < ROW_MASK);

/// See the module.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct EntryPosition<'k> {
    key: &'k [u8],
    row: u64,
}

impl<'k> EntryPosition<'k> {
    /// The place of a key's row. No row of a table reaches the end of rows.
    pub(super) fn new(key: &'k [u8], row: u64) -> Self {
        Self { key: &key[..key.len().min(KEY_BYTES_MAX)], row: row.min(ROW_END) }
    }

    /// The place of an entry.
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

    /// What orders places with the same head, as long as one of them is short.
    #[inline]
    pub(super) fn payload(&self) -> u64 {
        (self.key.len() as u64).min(LONG) << TAG_SHIFT | self.row
    }
}

/// The 8 bytes of a key from `skip` on, big-endian, zero behind its end.
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
