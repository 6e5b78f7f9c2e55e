//! Blocks of slots that are whole: a row in each slot, in the order of their keys, and none of them
//! has ever been given up.
//!
//! Most rows of a table that was filled in order lie in such blocks. Who has found out where a row
//! lies without asking the index (`table/runs.rs`) need not even look at the row then to
//! know that it is the one, if nobody else can give it up meanwhile.
//!
//! - `WHOLE-1`: a block is marked by who has put a row into each of its slots, at the last of them,
//!   and only if it was never broken. It is broken before a row in it is given up, and stays so. So
//!   whatever somebody else does meanwhile, a block is never marked when a row is missing.
//! - `WHOLE-2`: a mark says which key is in the first slot, and with it which are in the others:
//!   the step from key to key is the table's.

use atoll_machine::{Machine, Ordering, Word};

use crate::layout::{RowId, SEGMENT_ROWS};

/// Slots of a block.
pub const WHOLE_ROWS: u64 = 1024;
const BLOCKS: usize = SEGMENT_ROWS / WHOLE_ROWS as usize;
const _: () = assert!(SEGMENT_ROWS.is_multiple_of(WHOLE_ROWS as usize), "every slot is in one");

/// What nobody has filled in order yet.
const UNKNOWN: u64 = 0;
const BROKEN: u64 = 1;

/// What a block is marked with: the word that is the key of its first slot, as far as that is not
/// one of three that mean something else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark(u64);

impl Mark {
    /// What no block is marked with.
    pub(crate) const NONE: Self = Self(2);

    /// That of the block of this row, whose key is this word, when keys go up by `step`.
    #[inline(always)]
    pub(crate) fn of(word: u64, step: u64, RowId(row): RowId) -> Self {
        let first = word.wrapping_sub((row % WHOLE_ROWS).wrapping_mul(step));
        Self(first.wrapping_add(Self::NONE.0 + 1).max(Self::NONE.0))
    }
}

/// The blocks of a segment, see the module.
pub(super) struct Whole<M: Machine>([M::Word; BLOCKS]);

impl<M: Machine> Default for Whole<M> {
    fn default() -> Self {
        Self(std::array::from_fn(|_| M::Word::new(UNKNOWN)))
    }
}

impl<M: Machine> Whole<M> {
    #[inline]
    fn block(&self, slot: usize) -> &M::Word {
        &self.0[slot / WHOLE_ROWS as usize]
    }

    /// Whether the block of a slot has this mark.
    #[inline]
    pub(super) fn has(&self, slot: usize, mark: Mark) -> bool {
        self.block(slot).load(Ordering::Acquire) == mark.0
    }

    /// Marks the block of a slot (`WHOLE-1`).
    pub(super) fn mark(&self, slot: usize, mark: Mark) {
        if mark != Mark::NONE {
            let _ = self.block(slot).compare_exchange(
                UNKNOWN,
                mark.0,
                Ordering::AcqRel,
                Ordering::Relaxed,
            );
        }
    }

    /// The row in a slot is going to be given up.
    pub(super) fn break_at(&self, slot: usize) {
        self.block(slot).store(BROKEN, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use atoll_machine::Native;

    use super::*;

    #[test]
    fn a_mark_is_that_of_every_row_of_the_block_and_of_no_other_key() {
        let mark = Mark::of(7000, 3, RowId(2 * WHOLE_ROWS));
        for at in 0..WHOLE_ROWS {
            let row = RowId(2 * WHOLE_ROWS + at);
            assert_eq!(Mark::of(7000 + 3 * at, 3, row), mark);
            assert_ne!(Mark::of(7000 + 3 * at + 1, 3, row), mark);
        }
    }

    #[test]
    fn keys_whose_mark_would_mean_something_else_have_none() {
        for word in [u64::MAX, u64::MAX - 1, u64::MAX - 2] {
            assert_eq!(Mark::of(word, 1, RowId(WHOLE_ROWS)), Mark::NONE);
        }
        assert_ne!(Mark::of(0, 1, RowId(0)), Mark::NONE);
        let whole = Whole::<Native>::default();
        whole.mark(0, Mark::NONE);
        assert!(!whole.has(0, Mark::NONE));
    }

    #[test]
    fn a_block_that_was_broken_is_never_marked_again() {
        let (whole, mark) = (Whole::<Native>::default(), Mark::of(5, 1, RowId(0)));
        whole.mark(WHOLE_ROWS as usize - 1, mark);
        assert!(whole.has(0, mark) && !whole.has(WHOLE_ROWS as usize, mark));
        whole.break_at(3);
        whole.mark(WHOLE_ROWS as usize - 1, mark);
        assert!(!whole.has(0, mark));
        // Nor one that was broken before.
        whole.break_at(WHOLE_ROWS as usize);
        whole.mark(2 * WHOLE_ROWS as usize - 1, mark);
        assert!(!whole.has(WHOLE_ROWS as usize, mark));
    }
}
