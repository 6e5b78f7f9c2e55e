//! A place: a row or a gap, packed into one word. Transactions keep lists of places, compare and
//! sort them.
//!
//! ```text
//! gap (1 bit) | table (23) | row (40), or index (8) and guard (32)
//! ```

use std::fmt;
use std::hash::Hasher;

use atoll_storage::TableId;
use atoll_storage::key::mix;
use atoll_storage::layout::{SEGMENTS_MAX, SLOT_BITS, TABLES_MAX};

/// Most ordered indexes of a table.
pub const INDEXES_MAX: usize = 64;

const WHAT_BITS: u32 = 40;
const GUARD_BITS: u32 = u32::BITS;
const GAP: u64 = 1 << 63;

// Table numbers are less than TABLES_MAX, which itself stands for "no table".
const _: () = assert!(TABLES_MAX < GAP >> WHAT_BITS);
const _: () = assert!(SEGMENTS_MAX << SLOT_BITS < 1 << WHAT_BITS);
const _: () = assert!(INDEXES_MAX < 1 << (WHAT_BITS - GUARD_BITS));

/// Something that a scheme guards. Rows come before gaps, in the order of tables and ids.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place(u64);

/// What a [`Place`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guarded {
    /// A row, by its id.
    Row(u64),
    /// A gap: keys that are absent, by the number of an index of the table and of a guard in it.
    /// A transaction that finds a key absent or scans a range registers a gap read; a transaction
    /// that adds an entry registers a gap insert. Index 0 is the hash index, and its guards are
    /// stripes of hashes; the others are ordered indexes, and their guards belong to leaves.
    Gap(u16, u32),
}

impl Place {
    /// A row of a table.
    #[inline]
    pub const fn row(table: TableId, row: u64) -> Self {
        debug_assert!(row >> WHAT_BITS == 0);
        Self((table.0 as u64) << WHAT_BITS | row)
    }

    /// A gap of a table, see [`Guarded::Gap`].
    #[inline]
    pub const fn gap(table: TableId, index: u16, guard: u32) -> Self {
        debug_assert!(index as usize <= INDEXES_MAX);
        Self(GAP | (table.0 as u64) << WHAT_BITS | (index as u64) << GUARD_BITS | guard as u64)
    }

    /// The place that stands for a whole partition; it belongs to no table.
    #[inline]
    pub const fn partition(partition: u32) -> Self {
        Self::row(TableId(TABLES_MAX as u32), partition as u64)
    }

    /// Whether it is a row.
    #[inline]
    pub const fn is_row(self) -> bool {
        self.0 & GAP == 0
    }

    /// The table.
    #[inline]
    pub const fn table(self) -> TableId {
        TableId(((self.0 & !GAP) >> WHAT_BITS) as u32)
    }

    /// Its row or gap.
    #[inline]
    pub const fn what(self) -> Guarded {
        let what = self.0 & ((1 << WHAT_BITS) - 1);
        if self.is_row() {
            Guarded::Row(what)
        } else {
            Guarded::Gap((what >> GUARD_BITS) as u16, what as u32)
        }
    }

    /// Its number, which no other place has.
    #[inline]
    pub const fn number(self) -> u64 {
        self.0
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} of {:?}", self.what(), self.table())
    }
}

/// A hasher of places and row ids. No adversary chooses them, so it only mixes their bits.
#[derive(Debug, Default)]
pub(crate) struct PlaceHasher(u64);

impl Hasher for PlaceHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64((*byte).into()));
    }

    fn write_u16(&mut self, value: u16) {
        self.write_u64(value.into());
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(value.into());
    }

    fn write_isize(&mut self, value: isize) {
        self.write_u64(value as u64);
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = mix(self.0 ^ value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_what_it_was_made_of_and_no_other() {
        let tables = [0, 1, TABLES_MAX as u32 - 1].map(TableId);
        let rows = [0, 1, (SEGMENTS_MAX << SLOT_BITS) - 1];
        let gaps = [(0, 0), (0, u32::MAX), (1, 0), (INDEXES_MAX as u16, u32::MAX)];
        let mut all = vec![Place::partition(0), Place::partition(u32::MAX)];
        for table in tables {
            for row in rows {
                let place = Place::row(table, row);
                assert_eq!((place.table(), place.what()), (table, Guarded::Row(row)));
                assert!(place.is_row());
                all.push(place);
            }
            for (index, guard) in gaps {
                let place = Place::gap(table, index, guard);
                assert_eq!((place.table(), place.what()), (table, Guarded::Gap(index, guard)));
                assert!(!place.is_row());
                all.push(place);
            }
        }
        let made = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), made);
        assert!(all.is_sorted_by_key(|place| !place.is_row()), "rows come first");
        assert!(Place::row(TableId(1), 9) < Place::row(TableId(2), 0));
    }
}
