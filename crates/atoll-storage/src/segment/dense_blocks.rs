//! Blocks of slots that are whole: a row in each slot, in the order of their keys, and none of them
//! has ever been given up.
//!
//! Most rows of a table that was filled in order lie in such blocks. Who has found out where a row
//! lies without asking the index (`table/key_predictor.rs`) need not even look at the row then to
//! know that it is the one, if nobody else can give it up meanwhile.
//!
//! - `DENSE-1`: a block is marked by who has put a row into each of its slots, at the last of them,
//!   and only if it was never broken. It is broken before a row in it is given up, and stays so. So
//!   whatever somebody else does meanwhile, a block is never marked when a row is missing.
//! - `DENSE-2`: a mark says which key is in the first slot, and with it which are in the others:
//!   the step from key to key is the table's.

use atoll_machine::{Machine, Ordering, Word};

use crate::layout::{RowId, SEGMENT_ROWS};

/// Slots of a block.
pub const DENSE_ROWS: u64 = 1024;
const BLOCKS: usize = SEGMENT_ROWS / DENSE_ROWS as usize;
const _: () = assert!(SEGMENT_ROWS.is_multiple_of(DENSE_ROWS as usize), "every slot is in one");

/// What nobody has filled in order yet.
const UNKNOWN: u64 = 0;
const INVALID: u64 = 1;

/// What a block is marked with: the word that is the key of its first slot, as far as that is not
/// one of three that mean something else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DenseMark(u64);

impl DenseMark {
    /// What no block is marked with.
    pub(crate) const NONE: Self = Self(2);

    /// That of the block of this row, whose key is this word, when keys go up by `step`.
    #[inline(always)]
    pub(crate) fn of(word: u64, step: u64, RowId(row): RowId) -> Self {
        let first = word.wrapping_sub((row % DENSE_ROWS).wrapping_mul(step));
        Self(first.wrapping_add(Self::NONE.0 + 1).max(Self::NONE.0))
    }
}

/// The blocks of a segment, see the module.
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

    /// The row in a slot is going to be given up.
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
    fn keys_whose_mark_would_mean_something_else_have_none() {
        for word in [u64::MAX, u64::MAX - 1, u64::MAX - 2] {
            assert_eq!(DenseMark::of(word, 1, RowId(DENSE_ROWS)), DenseMark::NONE);
        }
        assert_ne!(DenseMark::of(0, 1, RowId(0)), DenseMark::NONE);
        let dense_blocks = DenseBlocks::<Native>::default();
        dense_blocks.mark(0, DenseMark::NONE);
        assert!(!dense_blocks.has(0, DenseMark::NONE));
    }

    #[test]
    fn a_block_that_was_broken_is_never_marked_again() {
        let (dense_blocks, mark) =
            (DenseBlocks::<Native>::default(), DenseMark::of(5, 1, RowId(0)));
        dense_blocks.mark(DENSE_ROWS as usize - 1, mark);
        assert!(dense_blocks.has(0, mark) && !dense_blocks.has(DENSE_ROWS as usize, mark));
        dense_blocks.invalidate(3);
        dense_blocks.mark(DENSE_ROWS as usize - 1, mark);
        assert!(!dense_blocks.has(0, mark));
        // Nor one that was broken before.
        dense_blocks.invalidate(DENSE_ROWS as usize);
        dense_blocks.mark(2 * DENSE_ROWS as usize - 1, mark);
        assert!(!dense_blocks.has(DENSE_ROWS as usize, mark));
    }
}
