//! A part of an index: its tables, and the steps by which it grows.
//!
//! 1. A thread takes the right to grow the part.
//! 2. It latches all buckets of the current table for ever (`INDEX-4`).
//! 3. It fills a larger table.
//! 4. It publishes that table (`INDEX-5`), and the memory of the old one goes back to the system
//!    (`INDEX-2`).
//!
//! If an insert finds no free word although the table is less than three quarters full, the table
//! does not grow: inserts probe further instead. So a table that only inserts have filled is three
//! fifths full or more. A table with many tombstones grows earlier, since a lookup of an absent key
//! does not end at a tombstone, but probes as far as inserts do.
//!
//! - `PART-1`: one thread at a time is between the steps 1 and 4.

use std::ptr;

use atoll_machine::{Machine, Ordering, Word, WordLine};

use super::bucket::{BUCKET, Bucket, BucketRef};
use super::table::{Buckets, Fill};
use crate::bucket_arrays::{BucketArrays, Size};
use crate::layout::RowId;
use crate::stable::StableVec;

pub(super) const PARTS: usize = 64;
/// Number of buckets that an insert probes in a new table.
pub(super) const PROBES_FIRST: usize = 4;
/// The same, at most, in a table with many tombstones.
const PROBES_CHURNED_MAX: usize = 8;

/// The tables of a part.
pub(super) struct Part<M: Machine> {
    growing: M::Word,
    /// Generation of the current table, its position in `tables`, or the generation before
    /// (`INDEX-5`).
    pub(super) current: M::Word,
    tables: StableVec<Buckets<M>, M>,
}

impl<M: Machine> Default for Part<M> {
    fn default() -> Self {
        let (growing, current) = (M::Word::new(0), M::Word::new(0));
        Self { growing, current, tables: StableVec::default() }
    }
}

/// A part of an index, with the array that leads to its current table.
pub(super) struct PartOf<'i, M: Machine> {
    pub(super) arrays: &'i BucketArrays<WordLine<M::Word>, PARTS>,
    pub(super) number: usize,
    pub(super) part: &'i Part<M>,
}

impl<'i, M: Machine> PartOf<'i, M> {
    /// The current table of the part; `hash` is any hash of the part.
    pub(super) fn table(&self, hash: u64) -> &'i Buckets<M> {
        loop {
            let current = self.part.current.load(Ordering::Acquire);
            let Some(bucket) = self.arrays.of::<M>(self.number, hash) else {
                self.make_first();
                continue;
            };
            let is_named = |table: &&Buckets<M>| ptr::eq(bucket, table.bucket(hash, 0).0);
            let generations = [current, current + 1];
            let mut tables = generations.into_iter().filter_map(|at| self.part.tables.get(at));
            if let Some(table) = tables.find(is_named) {
                return table; // INDEX-5
            }
            // The part has grown twice since `current` was read.
        }
    }

    #[cold]
    fn make_first(&self) {
        let _growing = Growing::<M>::begin(&self.part.growing);
        if self.part.tables.get(0).is_none() {
            self.name(0, Buckets::new(Size::ONE, PROBES_FIRST));
        }
    }

    /// Bytes of all tables of the part that are in memory and not in the heap.
    pub(super) fn resident_bytes(&self) -> u64 {
        let tables = (0..).map_while(|generation| self.part.tables.get(generation));
        tables.map(|table| table.buckets.resident_bytes() as u64).sum()
    }

    /// Gives the memory of the current table back to the system.
    pub(super) fn discard(&self) {
        let current = self.part.current.load(Ordering::Acquire);
        if let Some(table) = self.part.tables.get(current) {
            M::Word::discard(&table.buckets);
        }
    }

    /// Makes a table current; called by the thread that grows the part.
    fn name(&self, generation: u64, table: Buckets<M>) {
        let mut table = Some(table);
        let make = || table.take().expect("a list makes an entry once");
        let named = self.part.tables.get_or_init(generation, make);
        assert!(table.is_none(), "one thread grows a part at a time");
        // SAFETY: INDEX-2; a table in `tables` is only shared until the index is dropped.
        unsafe { self.arrays.set::<M>(self.number, &named.buckets, named.size) };
    }

    /// As [`HashIndex::find`], beyond the home bucket; `None` if the bucket is no longer current.
    #[inline(never)]
    pub(super) fn find_beyond(
        &self,
        BucketRef(bucket): BucketRef<'_, M>,
        hash: u64,
        is_it: &mut impl FnMut(RowId) -> bool,
    ) -> Option<RowId> {
        let table = self.table(hash);
        bucket.is(table.bucket(hash, 0)).then(|| table.find_beyond(hash, is_it)).flatten()
    }

    /// Makes room in the table `full`, in which an insert has found no free word in `probes`
    /// buckets, or replaces it by one with the same entries and more room, unless another thread
    /// has done so.
    #[cold]
    pub(super) fn grow(&self, full: &Buckets<M>, probes: usize) {
        let _growing = Growing::<M>::begin(&self.part.growing);
        if !ptr::eq(full, self.table(0)) || full.probes() > probes {
            return;
        }
        let Fill { entries, tombstones } = full.fill_of_words();
        let words = full.buckets.len() * BUCKET;
        let is_full = entries * 4 >= words * 3;
        let is_churned = tombstones * 8 >= words && full.probes() >= PROBES_CHURNED_MAX;
        if is_full || is_churned || !full.probe_further() {
            self.publish(full, full.size.next().expect("more rows than an index can hold"));
        }
    }

    /// Grows a part to a size, unless it is as large.
    pub(super) fn grow_to(&self, size: Size) {
        self.table(0); // before `Growing`, which making the first table takes, too
        let _growing = Growing::<M>::begin(&self.part.growing);
        let table = self.table(0);
        if table.size.buckets() < size.buckets() {
            self.publish(table, size);
        }
    }

    /// Replaces the table of a part without entries, to which no thread adds any, by a built one.
    pub(super) fn replace(&self, built: Buckets<M>) {
        let _growing = Growing::<M>::begin(&self.part.growing);
        let Some(old) = self.part.tables.get(self.part.current.load(Ordering::Relaxed)) else {
            return self.name(0, built);
        };
        self.change(old, |old| {
            debug_assert_eq!(old.entries().count(), 0, "the part has no entries");
            built
        });
    }

    /// Publishes a table of a size with the entries of the current one.
    fn publish(&self, old: &Buckets<M>, size: Size) {
        self.change(old, |old| {
            let grown = Buckets::new(size, PROBES_FIRST);
            old.copy_to(&grown);
            grown
        });
    }

    /// Publishes the table that `make` makes from the current one while no thread changes that.
    fn change(&self, old: &Buckets<M>, make: impl FnOnce(&Buckets<M>) -> Buckets<M>) {
        // `current` is exact here: only a thread that holds `Growing` publishes, and it stores the
        // generation before it lets go.
        let next = self.part.current.load(Ordering::Relaxed) + 1;
        old.buckets.iter().map(Bucket::<M>).for_each(Bucket::latch_for_growth);
        self.name(next, make(old));
        self.part.current.store(next, Ordering::Release); // INDEX-5
        M::Word::discard(&old.buckets); // INDEX-2
    }
}

/// The right to grow a part; one thread holds it at a time.
struct Growing<'w, M: Machine>(&'w M::Word);

impl<'w, M: Machine> Growing<'w, M> {
    fn begin(word: &'w M::Word) -> Self {
        let mut round = 0;
        while word.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            M::wait(round);
            round = round.saturating_add(1);
        }
        Self(word)
    }
}

impl<M: Machine> Drop for Growing<'_, M> {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Release);
    }
}
