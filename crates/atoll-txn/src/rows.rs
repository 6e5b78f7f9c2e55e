//! What lies beside the rows of a table: for each slot the hash of its key and a scheme's state.
//!
//! The two lie on one cache line, so that a lookup that has found an entry of the index sees with
//! the line that it needs anyway whether the row has the key.
//!
//! - `ROWS-1`: the hash of a slot is set under the latch under which the index begins to name the
//!   row, and cleared after it has ceased to. So a slot that has a hash is that of *the* row of a
//!   key with this hash, even for somebody who found it there in an earlier life; one that was
//!   claimed and then not used, because another was faster, never has it.

use std::sync::OnceLock;

use atoll_machine::huge_pages::{self, Array};
use atoll_machine::{Machine, Ordering, Word};
use atoll_storage::chunked::Chunked;
use atoll_storage::{RowId, SEGMENT_ROWS};

use crate::scheme::Scheme;

/// The hash of a slot that no entry names.
const NO_KEY: u64 = 0;

/// See the module.
pub struct Meta<S: Scheme<M>, M: Machine> {
    hash: M::Word,
    /// The scheme's state of the row.
    pub state: S::State,
}

impl<S: Scheme<M>, M: Machine> Default for Meta<S, M> {
    fn default() -> Self {
        Self { hash: M::Word::new(NO_KEY), state: S::State::default() }
    }
}

const fn stored(hash: u64) -> u64 {
    if hash == NO_KEY { 1 } else { hash }
}

impl<S: Scheme<M>, M: Machine> Meta<S, M> {
    /// Whether the slot's key has this hash.
    #[inline]
    pub fn has_hash(&self, hash: u64) -> bool {
        self.hash.load(Ordering::Acquire) == stored(hash)
    }

    /// Whether an entry may name the slot.
    pub fn is_named(&self) -> bool {
        self.hash.load(Ordering::Acquire) != NO_KEY
    }

    /// An entry is going to name the slot.
    pub fn set_hash(&self, hash: u64) {
        self.hash.store(stored(hash), Ordering::Release);
    }

    /// No entry names it any more.
    pub fn clear_hash(&self) {
        self.hash.store(NO_KEY, Ordering::Release);
    }
}

/// Segments up to which blocks double; from then on they are this large.
const BLOCK_SEGMENTS_BITS: u32 = 5;
const BLOCK_SEGMENTS: u64 = 1 << BLOCK_SEGMENTS_BITS;

/// Values for all rows of a table, in blocks that are made when they are first needed and are large
/// enough for huge pages.
pub struct PerRow<T> {
    small: [OnceLock<Array<T>>; BLOCK_SEGMENTS_BITS as usize + 1],
    large: Chunked<Array<T>>,
}

impl<T> Default for PerRow<T> {
    fn default() -> Self {
        Self { small: [const { OnceLock::new() }; _], large: Chunked::default() }
    }
}

impl<T: Default> PerRow<T> {
    /// The value of a row.
    #[inline]
    pub fn get(&self, row: RowId) -> &T {
        let segment = row.segment();
        let (block, first) = if segment < BLOCK_SEGMENTS {
            // Blocks of 1, 1, 2, 4, 8 and 16 segments.
            let block = (segment + 1).next_power_of_two().ilog2();
            let first = (1u64 << block) / 2;
            let segments = first.max(1) as usize;
            let made = self.small[block as usize].get_or_init(|| make(segments));
            (made, if block == 0 { 0 } else { first })
        } else {
            let number = (segment >> BLOCK_SEGMENTS_BITS) - 1;
            let make = || make(BLOCK_SEGMENTS as usize);
            (self.large.get_or_init(number, make), segment & !(BLOCK_SEGMENTS - 1))
        };
        &block[(segment - first) as usize * SEGMENT_ROWS + row.slot()]
    }
}

fn make<T: Default>(segments: usize) -> Array<T> {
    huge_pages::collect(segments * SEGMENT_ROWS, |_| T::default())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use atoll_storage::RowId;

    use super::PerRow;

    #[test]
    fn every_row_has_a_value_of_its_own() {
        let values = PerRow::<AtomicU32>::default();
        for segment in 0..100u64 {
            for slot in [0, 1, 8191] {
                assert_eq!(
                    values.get(RowId::new(segment, slot)).fetch_add(1, Ordering::Relaxed),
                    0
                );
            }
        }
        let again = (0..100)
            .all(|segment| values.get(RowId::new(segment, 8191)).load(Ordering::Relaxed) == 1);
        assert!(again);
    }
}
