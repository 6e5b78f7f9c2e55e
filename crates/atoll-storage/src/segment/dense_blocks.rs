//! The dense-block map: marks for blocks of slots in which every slot holds the row of the key that
//! its position implies, and from which no row has ever been deleted or moved.
//!
//! Most rows of a table that was filled in key order are in such blocks. For such a row, a
//! transaction that has predicted the slot of a key (`table/key_predictor.rs`) needs to verify the
//! prediction neither in the index nor in the row, provided that no other thread can delete or move
//! the row meanwhile.
//!
//! - `DENSE-1`: a block is marked by the worker that has put a row into each of its slots, when it
//!   fills the last one, and only if the block was never invalidated. A transaction invalidates the
//!   block before it deletes or moves a row in it, and the block stays invalid. So, whatever other
//!   threads do meanwhile, a block is never marked while a row is missing.
//! - `DENSE-2`: a mark encodes the key of the first slot and thereby the keys of the others, since
//!   consecutive keys differ by the step of the table's key predictor.

use atoll_machine::{Machine, Ordering, Word};

use crate::layout::{RowId, SEGMENT_ROWS};

/// Slots of a block.
pub const DENSE_ROWS: u64 = 1024;
const BLOCKS: usize = SEGMENT_ROWS / DENSE_ROWS as usize;
const _: () = assert!(SEGMENT_ROWS.is_multiple_of(DENSE_ROWS as usize), "every slot is in a block");

/// A block that no worker has filled in key order yet.
const UNKNOWN: u64 = 0;
const INVALID: u64 = 1;

/// The mark of a block: the key of its first slot as a word, offset so that it differs from the
/// three values with another meaning. If that is impossible for a key, its mark is
/// [`DenseMark::NONE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DenseMark(u64);

impl DenseMark {
    /// The mark that no block has.
    pub(crate) const NONE: Self = Self(2);

    /// The mark of the block of this row if its key is `word` and keys rise by `step`.
    #[inline(always)]
    pub(crate) fn of(word: u64, step: u64, RowId(row): RowId) -> Self {
        let first = word.wrapping_sub((row % DENSE_ROWS).wrapping_mul(step));
        Self(first.wrapping_add(Self::NONE.0 + 1).max(Self::NONE.0))
    }
}

/// The dense-block map of a segment; see the module.
pub(super) struct DenseBlocks<M: Machine>([M::Word; BLOCKS]);

impl<M: Machine> Default for DenseBlocks<M> {
    fn default() -> Self {
        Self(std::array::from_fn(|_| M::Word::new(UNKNOWN)))
    }
}

impl<M: Machine> DenseBlocks<M> {
    #[inline]
    fn block(&self, slot: usize) -> &M::Word {
        &self.0[slot / DENSE_ROWS as usize]
    }

    /// Whether the block of a slot has this mark.
    #[inline]
    pub(super) fn has(&self, slot: usize, mark: DenseMark) -> bool {
        self.block(slot).load(Ordering::Acquire) == mark.0
    }

    /// Marks the block of a slot (`DENSE-1`).
    pub(super) fn mark(&self, slot: usize, mark: DenseMark) {
        if mark != DenseMark::NONE {
            let _ = self.block(slot).compare_exchange(
                UNKNOWN,
                mark.0,
                Ordering::AcqRel,
                Ordering::Relaxed,
            );
        }
    }

    /// Invalidates the block of a slot, before its row is deleted or moved (`DENSE-1`).
    pub(super) fn invalidate(&self, slot: usize) {
        self.block(slot).store(INVALID, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use atoll_machine::Native;

    use super::*;

    #[test]
    fn a_mark_is_that_of_every_row_of_the_block_and_of_no_other_key() {
        let mark = DenseMark::of(7000, 3, RowId(2 * DENSE_ROWS));
        for at in 0..DENSE_ROWS {
            let row = RowId(2 * DENSE_ROWS + at);
            assert_eq!(DenseMark::of(7000 + 3 * at, 3, row), mark);
            assert_ne!(DenseMark::of(7000 + 3 * at + 1, 3, row), mark);
        }
    }

    #[test]
    fn keys_without_a_distinct_mark_have_none() {
        for word in [u64::MAX, u64::MAX - 1, u64::MAX - 2] {
            assert_eq!(DenseMark::of(word, 1, RowId(DENSE_ROWS)), DenseMark::NONE);
        }
        assert_ne!(DenseMark::of(0, 1, RowId(0)), DenseMark::NONE);
        let dense_blocks = DenseBlocks::<Native>::default();
        dense_blocks.mark(0, DenseMark::NONE);
        assert!(!dense_blocks.has(0, DenseMark::NONE));
    }

    #[test]
    fn an_invalid_block_is_never_marked_again() {
        let (dense_blocks, mark) =
            (DenseBlocks::<Native>::default(), DenseMark::of(5, 1, RowId(0)));
        dense_blocks.mark(DENSE_ROWS as usize - 1, mark);
        assert!(dense_blocks.has(0, mark) && !dense_blocks.has(DENSE_ROWS as usize, mark));
        dense_blocks.invalidate(3);
        dense_blocks.mark(DENSE_ROWS as usize - 1, mark);
        assert!(!dense_blocks.has(0, mark));
        // Nor is a block that was invalidated before it was full.
        dense_blocks.invalidate(DENSE_ROWS as usize);
        dense_blocks.mark(2 * DENSE_ROWS as usize - 1, mark);
        assert!(!dense_blocks.has(DENSE_ROWS as usize, mark));
    }
}
