//! Sets of the columns of a table, as bits.
//!
//! A table may have more columns than a set has bits. Columns share a bit if their positions are
//! equal modulo the number of bits. So a set may seem to contain further columns; it never lacks
//! one. A column that only seems to be in a set costs its caller a check of the column itself. In a
//! table of up to 256 columns, each has a bit of its own.

const WORDS: usize = 4;
const BITS: usize = WORDS * 64;

/// See the module.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ColumnSet([u64; WORDS]);

impl ColumnSet {
    #[inline]
    pub(crate) fn add(&mut self, column: usize) {
        let bit = column % BITS;
        self.0[bit / 64] |= 1 << (bit % 64);
    }

    /// Whether the set may contain a column.
    pub(crate) fn may_have(&self, column: usize) -> bool {
        let bit = column % BITS;
        self.0[bit / 64] >> (bit % 64) & 1 == 1
    }

    /// Whether the set is empty.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether the two may have a column in common.
    #[inline]
    pub(crate) fn meets(&self, other: &Self) -> bool {
        let common = self.0.iter().zip(&other.0).map(|(mine, others)| mine & others);
        common.fold(0, |any, word| any | word) != 0
    }

    /// The union of the two.
    pub(crate) fn with(self, other: &Self) -> Self {
        Self(std::array::from_fn(|at| self.0[at] | other.0[at]))
    }

    /// Whether the set may contain any of these columns.
    pub(crate) fn may_have_any(self, columns: &[usize]) -> bool {
        columns.iter().any(|column| self.may_have(*column))
    }
}

#[cfg(test)]
mod tests {
    use atoll_storage::types::COLUMNS_MAX;

    use super::{BITS, ColumnSet};

    #[test]
    fn a_set_lacks_no_column_and_seems_to_have_those_with_the_same_bit_only() {
        for column in 0..COLUMNS_MAX {
            let mut set = ColumnSet::default();
            set.add(column);
            assert!(!set.is_empty() && set.meets(&set) && set.may_have_any(&[column]));
            let seems = (0..COLUMNS_MAX).filter(|other| set.may_have(*other));
            assert!(seems.eq((column % BITS..COLUMNS_MAX).step_by(BITS)));
        }
    }
}
