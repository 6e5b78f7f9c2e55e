//! How much transactions get in each other's way, and where.
//!
//! Rows fall into cells by a hash of their place. A validation that fails because of a row heats
//! its cell, and so does waiting for a row there; a lock that is had at once cools it. A cell above
//! the mark is hot. Cells are counted without regard to lost updates: heat is an estimate.

use atoll_machine::huge_pages::{self, Array};
use atoll_machine::{Machine, Ordering, Word};
use atoll_storage::key::mix;

use crate::scheme::Place;

const CELLS: usize = 1 << 12;
/// From here on a cell is hot.
const HOT: u64 = 64;
/// And no hotter than this, so that it cools down again in reasonable time.
const MOST: u64 = 512;
/// What a failed validation adds, and a wait.
const OF_FAILURE: u64 = 16;
const OF_WAIT: u64 = 4;

/// See the module.
pub struct Heat<M: Machine>(Array<M::Word>);

impl<M: Machine> Default for Heat<M> {
    fn default() -> Self {
        Self(huge_pages::collect(CELLS, |_| M::Word::new(0)))
    }
}

impl<M: Machine> Heat<M> {
    #[inline]
    fn cell(&self, place: Place) -> &M::Word {
        if !place.is_row() {
            return &self.0[0];
        }
        &self.0[mix(place.number()) as usize % CELLS]
    }

    /// Whether rows there are to be locked before they are used.
    #[inline]
    pub fn is_hot(&self, place: Place) -> bool {
        self.cell(place).load(Ordering::Relaxed) >= HOT
    }

    fn add(&self, place: Place, much: u64) {
        let cell = self.cell(place);
        let now = cell.load(Ordering::Relaxed);
        cell.store((now + much).min(MOST), Ordering::Relaxed);
    }

    /// A validation failed there.
    pub fn failed(&self, place: Place) {
        self.add(place, OF_FAILURE);
    }

    /// Somebody waited there.
    pub fn waited(&self, place: Place) {
        self.add(place, OF_WAIT);
    }

    /// A lock was had at once there.
    pub fn calm(&self, place: Place) {
        let cell = self.cell(place);
        cell.store(cell.load(Ordering::Relaxed).saturating_sub(1), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use atoll_machine::Native;
    use atoll_storage::TableId;

    use super::{Heat, Place};

    #[test]
    fn a_row_gets_hot_by_failures_and_cools_down_when_locks_are_had_at_once() {
        let heat = Heat::<Native>::default();
        let place = |row| Place::row(TableId(1), row);
        assert!(!heat.is_hot(place(5)));
        (0..100).for_each(|_| heat.failed(place(5)));
        assert!(heat.is_hot(place(5)) && !heat.is_hot(place(6)));
        let mut rounds = 0;
        while heat.is_hot(place(5)) {
            heat.calm(place(5));
            rounds += 1;
        }
        assert!((100..1000).contains(&rounds), "it took {rounds}");
    }

    #[test]
    fn waiting_heats_a_row_as_well_but_less_than_a_failure() {
        let until_hot = |heat: fn(&Heat<Native>, Place)| {
            let (all, row) = (Heat::default(), Place::row(TableId(1), 5));
            let heated = (1..1000).find(|_| {
                heat(&all, row);
                all.is_hot(row)
            });
            heated.expect("it gets hot some time")
        };
        assert_eq!((until_hot(Heat::failed), until_hot(Heat::waited)), (4, 16));
    }
}
