//! Some rows of one table and no gaps, for tests of schemes and of their building blocks.

use std::marker::PhantomData;

use atoll_storage::TableId;

use crate::scheme::{Guarded, Place, States, Target};

/// See the module. `R` is the state of a row, `G` that of a gap.
pub struct Few<R, G>(pub Vec<R>, PhantomData<fn() -> G>);

impl<R: Default, G> Few<R, G> {
    /// Creates rows and calls `prepare` for each.
    pub fn new(rows: usize, prepare: impl Fn(&R)) -> Self {
        let rows: Vec<R> = (0..rows).map(|_| R::default()).collect();
        rows.iter().for_each(prepare);
        Self(rows, PhantomData)
    }

    /// The place of a row.
    pub fn place(row: u64) -> Place {
        Place::row(TableId(0), row)
    }

    /// The target of a request for a row.
    pub fn target(&self, row: u64) -> Target<'_, R> {
        Target { place: Self::place(row), state: &self.0[row as usize] }
    }
}

impl<R, G> States<R, G> for Few<R, G> {
    fn row(&self, place: Place) -> &R {
        let Guarded::Row(row) = place.what() else { unreachable!("{place:?} is no row") };
        &self.0[row as usize]
    }

    fn gap(&self, place: Place) -> &G {
        unreachable!("no test needs {place:?}")
    }
}
