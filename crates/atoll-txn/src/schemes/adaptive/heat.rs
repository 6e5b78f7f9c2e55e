//! An estimate of the contention on rows.
//!
//! A hash of a row's place selects a cell. A validation that fails because of the row heats the
//! cell, and so does a wait for the row; a lock that is granted at once cools it. A cell above a
//! threshold is hot. Updates of a cell may be lost, since heat is only an estimate.

use atoll_machine::huge_pages::{self, Array};
use atoll_machine::{Machine, Ordering, Word};
use atoll_storage::key::mix;

use crate::scheme::Place;

const CELLS: usize = 1 << 12;
/// From this heat on, a cell is hot.
const HOT: u64 = 64;
/// The maximum, so that a cell cools down again in reasonable time.
const MOST: u64 = 512;
/// The heat that a failed validation adds, and a wait.
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

    /// Whether transactions should lock the row before they use it.
    #[inline]
    pub fn is_hot(&self, place: Place) -> bool {
        self.cell(place).load(Ordering::Relaxed) >= HOT
    }

    fn add(&self, place: Place, much: u64) {
        let cell = self.cell(place);
        let now = cell.load(Ordering::Relaxed);
        cell.store((now + much).min(MOST), Ordering::Relaxed);
    }

    /// Notes that a validation failed because of the row.
    pub fn failed(&self, place: Place) {
        self.add(place, OF_FAILURE);
    }

    /// Notes that a transaction waited for the row.
    pub fn waited(&self, place: Place) {
        self.add(place, OF_WAIT);
    }

    /// Notes that a lock of the row was granted at once.
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
