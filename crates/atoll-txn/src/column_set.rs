//! Sets of the columns of a table, as bits.

/// A set of columns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ColumnSet([u64; 4]);

impl ColumnSet {
    #[inline]
    pub(crate) fn add(&mut self, column: usize) {
        self.0[column / 64] |= 1 << (column % 64);
    }

    pub(crate) fn has(&self, column: usize) -> bool {
        self.0[column / 64] >> (column % 64) & 1 == 1
    }

    /// Whether the set is empty.
    #[inline]
    pub(crate) fn is_empty(self) -> bool {
        self == Self::default()
    }

    /// Whether the two have a column in common.
    #[inline]
    pub(crate) fn meets(&self, other: &Self) -> bool {
        let common = self.0.iter().zip(&other.0).map(|(mine, others)| mine & others);
        common.fold(0, |any, word| any | word) != 0
    }

    /// The union of the two.
    pub(crate) fn with(self, other: &Self) -> Self {
        Self(std::array::from_fn(|at| self.0[at] | other.0[at]))
    }

    pub(crate) fn has_any(self, columns: &[usize]) -> bool {
        columns.iter().any(|column| self.has(*column))
    }
}
