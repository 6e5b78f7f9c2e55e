//! Lists of the places and births of a table's extents, which workers read instead of the segments'
//! nodes (`SEG-4`).
//!
//! There is one list for each column, so that the places of a column's values in all segments are
//! adjacent: random accesses to rows read them every time, and four of them share a cache line.

use atoll_machine::{Machine, Ordering, Word};

use super::grown::Grown;
use super::node::{PRESENCE, Slotted, validity_of, values_of};
use crate::flat::{Entry, Flat};
use crate::types::{Column, Schema};

/// The birth of an extent that its segment has outgrown (`growth.rs`). No worker may store into an
/// extent with this birth on the fast path.
pub(super) const OUTGROWN: u64 = 0;

/// The current place and birth of an extent.
struct ExtentEntry<M: Machine> {
    place: M::Word,
    birth: M::Word,
}

impl<M: Machine> Default for ExtentEntry<M> {
    fn default() -> Self {
        Self { place: M::Word::new(0), birth: M::Word::new(0) }
    }
}

impl<M: Machine> Entry for ExtentEntry<M> {
    fn copy(&self) -> Self {
        let Self { place, birth } = self;
        let copy = |word: &M::Word| M::Word::new(word.load(Ordering::Relaxed));
        Self { place: copy(place), birth: copy(birth) }
    }
}

impl<M: Machine> ExtentEntry<M> {
    #[inline]
    fn place(&self) -> u64 {
        self.place.load(Ordering::Acquire)
    }

    #[inline]
    fn birth(&self) -> u64 {
        self.birth.load(Ordering::Acquire)
    }
}

/// Extents of one kind, by the numbers of their segments.
pub(super) struct Extents<M: Machine>(Flat<ExtentEntry<M>, M>);

impl<M: Machine> Default for Extents<M> {
    fn default() -> Self {
        Self(Flat::default())
    }
}

impl<M: Machine> Extents<M> {
    /// The result of `read` for the extent of a segment that exists.
    #[inline(always)]
    fn read<R>(&self, segment: u64, read: impl FnOnce(&ExtentEntry<M>) -> R) -> R {
        self.0.read(segment, read).expect("extents are published before their segment can be found")
    }

    /// The place.
    #[inline(always)]
    pub(super) fn place(&self, segment: u64) -> u64 {
        self.read(segment, ExtentEntry::place)
    }

    /// The place for a prefetch: the caller does not read there, so the load is relaxed.
    #[inline(always)]
    pub(super) fn hinted_place(&self, segment: u64) -> u64 {
        self.read(segment, |extent| extent.place.load(Ordering::Relaxed))
    }

    /// The place, if `may` holds for the birth, which is read first.
    #[inline(always)]
    pub(super) fn place_if(&self, segment: u64, may: impl FnOnce(u64) -> bool) -> Option<u64> {
        self.read(segment, |extent| may(extent.birth()).then(|| extent.place())) // SEG-2
    }

    /// The birth and the place, read in this order.
    pub(super) fn of(&self, segment: u64) -> (u64, u64) {
        self.read(segment, |extent| (extent.birth(), extent.place()))
    }

    /// Publishes the place and the birth of a segment's extent.
    pub(super) fn publish(&self, segment: u64, place: u64, birth: u64) {
        let mut extents = self.0.lock();
        let extent = &extents.entries(segment as usize + 1)[segment as usize];
        extent.place.store(place, Ordering::Release);
        extent.birth.store(birth, Ordering::Release); // SEG-2
    }
}

impl<M: Machine> Extents<M> {
    /// Marks a segment's extent as outgrown.
    pub(super) fn outgrow(&self, segment: u64) {
        let mut extents = self.0.lock();
        let extents = extents.entries(segment as usize + 1);
        extents[segment as usize].birth.store(OUTGROWN, Ordering::Release);
    }

    /// Whether a segment's extent is outgrown.
    pub(super) fn is_outgrown(&self, segment: u64) -> bool {
        self.read(segment, |extent| extent.birth() == OUTGROWN)
    }
}

/// All extents of a table.
pub(super) struct TableExtents<M: Machine> {
    /// Values, by column.
    pub(super) values: Grown<Extents<M>, M>,
    /// Validity bitmaps, by column; empty lists for columns that cannot be NULL.
    pub(super) validity: Grown<Extents<M>, M>,
    pub(super) presence: Extents<M>,
}

impl<M: Machine> TableExtents<M> {
    pub(super) fn new(schema: &Schema) -> Self {
        let each = || schema.columns().iter().map(|_| Extents::default()).collect();
        Self { values: each(), validity: each(), presence: Extents::default() }
    }

    /// Adds the lists of a column behind the others.
    pub(super) fn add(&self, at: usize) {
        self.values.add(at, Extents::default);
        self.validity.add(at, Extents::default);
    }

    /// The lists of these columns, each with the place of its extents in a node.
    pub(super) fn each<'e>(
        &'e self,
        columns: impl Iterator<Item = &'e Column>,
    ) -> impl Iterator<Item = (&'e Extents<M>, Slotted)> {
        let columns = columns.enumerate().flat_map(|(at, column)| {
            let values = (&self.values[at], values_of(at, column.data_type.width()));
            let validity = column.nullable.then(|| (&self.validity[at], validity_of(at)));
            std::iter::once(values).chain(validity)
        });
        std::iter::once((&self.presence, PRESENCE)).chain(columns)
    }
}

#[cfg(test)]
mod tests {
    use atoll_machine::Native;

    use super::*;

    #[test]
    fn extents_of_all_segments_are_where_they_were_noted_last() {
        let extents = Extents::<Native>::default();
        // Segments are published in any order, and their extents move.
        for round in 1..=2 {
            for segment in (0..100).rev() {
                extents.publish(segment, 1000 * round + segment, round);
            }
        }
        for segment in 0..100 {
            assert_eq!(extents.of(segment), (2, 2000 + segment));
            assert_eq!(extents.place(segment), 2000 + segment);
            assert_eq!(extents.hinted_place(segment), 2000 + segment);
            assert_eq!(extents.place_if(segment, |birth| birth == 2), Some(2000 + segment));
            assert_eq!(extents.place_if(segment, |birth| birth != 2), None);
        }
    }

    #[test]
    fn what_was_noted_stays_when_more_segments_come() {
        let extents = Extents::<Native>::default();
        for segment in 0..100 {
            extents.publish(segment, 10 + segment, 20 + segment);
        }
        assert!((0..100).all(|segment| extents.of(segment) == (20 + segment, 10 + segment)));
    }
}
