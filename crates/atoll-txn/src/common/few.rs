//! Some rows of one table and no gaps, for tests of schemes and of what they are made of.

use std::marker::PhantomData;

use atoll_storage::TableId;

use crate::scheme::{Guarded, Place, States, Target};

/// See the module. The states of its rows are `R`, those of gaps would be `G`.
pub struct Few<R, G>(pub Vec<R>, PhantomData<fn() -> G>);

impl<R: Default, G> Few<R, G> {
    /// So many rows, of which each is prepared.
    pub fn new(rows: usize, prepare: impl Fn(&R)) -> Self {
        let rows: Vec<R> = (0..rows).map(|_| R::default()).collect();
        rows.iter().for_each(prepare);
        Self(rows, PhantomData)
    }

    /// The place of a row.
    pub fn place(row: u64) -> Place {
        Place::row(TableId(0), row)
    }

    /// A row on its way to a scheme.
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
        unreachable!("nobody asks for {place:?}")
    }
}
