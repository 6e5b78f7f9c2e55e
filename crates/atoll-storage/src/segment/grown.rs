//! Lists with an entry for each column of a table, to which a later column adds one.
//!
//! Every access to a row reads such lists. The entries of the first columns are one array; those of
//! columns that were added since come behind it, and take longer to find.

use std::hint::cold_path;
use std::ops::Index;

use atoll_machine::Machine;

use crate::stable::StableVec;

/// See the module.
pub(crate) struct Grown<T, M> {
    first: Box<[T]>,
    added: StableVec<T, M>,
}

impl<T, M: Machine> FromIterator<T> for Grown<T, M> {
    fn from_iter<I: IntoIterator<Item = T>>(first: I) -> Self {
        Self { first: first.into_iter().collect(), added: StableVec::default() }
    }
}

impl<T, M: Machine> Grown<T, M> {
    /// The entry of a column.
    #[inline(always)]
    pub(crate) fn get(&self, column: usize) -> Option<&T> {
        match self.first.get(column) {
            Some(entry) => Some(entry),
            None => {
                cold_path();
                self.added.get((column - self.first.len()) as u64)
            }
        }
    }

    /// How many columns were there first.
    pub(crate) fn first(&self) -> usize {
        self.first.len()
    }

    /// The entries of the columns in their order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.first.iter().chain((0..).map_while(|at| self.added.get(at)))
    }

    /// Number of entries.
    pub(crate) fn len(&self) -> usize {
        self.iter().count()
    }

    /// Adds the entry of a column that follows the last one, unless it is there.
    pub(crate) fn add(&self, column: usize, entry: impl FnOnce() -> T) -> &T {
        debug_assert!(column >= self.first.len() && column <= self.len());
        self.added.get_or_init((column - self.first.len()) as u64, entry)
    }
}

impl<T, M: Machine> Index<usize> for Grown<T, M> {
    type Output = T;

    #[inline(always)]
    fn index(&self, column: usize) -> &T {
        self.get(column).expect("the table has the column")
    }
}
