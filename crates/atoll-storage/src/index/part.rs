//! A part of an index: its tables, and the steps by which it grows.
//!
//! 1. A thread takes the right to grow the part.
//! 2. It latches all buckets of the current table for ever (`INDEX-4`).
//! 3. It fills a larger table, or one that is probed further.
//! 4. It publishes that table (`INDEX-5`), and the memory of the old one goes back to the system
//!    (`INDEX-2`).
//!
//! - `PART-1`: one thread at a time is between the steps 1 and 4.

use std::ptr;
use std::sync::OnceLock;

use atoll_machine::{Machine, Ordering, Word, WordLine};

use super::bucket::{BUCKET, Bucket, BucketRef};
use super::table::Buckets;
use crate::bucket_arrays::BucketArrays;
use crate::layout::RowId;

pub(super) const PARTS_BITS: u32 = 6;
pub(super) const PARTS: usize = 1 << PARTS_BITS;
const FIRST_BUCKETS_BITS: u32 = 1;
const GROWTHS: usize = 40;
/// Number of buckets that an insert probes before the part grows. A part that is nearly empty (many
/// keys of one hash) doubles this number instead.
const PROBES_FIRST: usize = 4;

/// The tables of a part.
#[repr(align(64))]
pub(super) struct Part<M: Machine> {
    growing: M::Word,
    /// Generation of the current table, its position in `tables`, or the generation before
    /// (`INDEX-5`).
    pub(super) current: M::Word,
    tables: [OnceLock<Buckets<M>>; GROWTHS],
}

impl<M: Machine> Default for Part<M> {
    fn default() -> Self {
        Self {
            growing: M::Word::new(0),
            current: M::Word::new(0),
            tables: [const { OnceLock::new() }; GROWTHS],
        }
    }
}

/// A part of an index, with the array that leads to its current table.
pub(super) struct PartOf<'i, M: Machine> {
    pub(super) arrays: &'i BucketArrays<WordLine<M::Word>, PARTS>,
    pub(super) number: usize,
    pub(super) part: &'i Part<M>,
}

impl<'i, M: Machine> PartOf<'i, M> {
    fn at(&self, generation: u64) -> Option<&'i Buckets<M>> {
        self.part.tables.get(generation as usize)?.get()
    }

    /// The current table of the part; `hash` is any hash of the part.
    pub(super) fn table(&self, hash: u64) -> &'i Buckets<M> {
        loop {
            let current = self.part.current.load(Ordering::Acquire);
            let Some(bucket) = self.arrays.of::<M>(self.number, hash) else {
                self.make_first();
                continue;
            };
            let is_named = |table: &&Buckets<M>| ptr::eq(bucket, table.bucket(hash, 0).0);
            let mut tables = [current, current + 1].into_iter().filter_map(|at| self.at(at));
            if let Some(table) = tables.find(is_named) {
                return table; // INDEX-5
            }
            // The part has grown twice since `current` was read.
        }
    }

    #[cold]
    fn make_first(&self) {
        let _growing = Growing::<M>::begin(&self.part.growing);
        if self.at(0).is_none() {
            self.name(0, Buckets::new(FIRST_BUCKETS_BITS, PROBES_FIRST));
        }
    }

    /// Makes a table current; called by the thread that grows the part.
    fn name(&self, generation: u64, table: Buckets<M>) {
        let place = &self.part.tables[generation as usize];
        assert!(place.set(table).is_ok(), "one thread grows a part at a time");
        let Some(table) = place.get() else { return };
        // SAFETY: INDEX-2; a table in `tables` is only shared until the index is dropped.
        unsafe { self.arrays.set::<M>(self.number, &table.buckets) };
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

    /// Replaces the table `full` by one with the same entries and more space, unless another thread
    /// has done so.
    #[cold]
    pub(super) fn grow(&self, full: &Buckets<M>) {
        let _growing = Growing::<M>::begin(&self.part.growing);
        if !ptr::eq(full, self.table(0)) {
            return;
        }
        let is_full = full.entries().count() * 4 >= full.buckets.len() * BUCKET;
        if is_full {
            self.publish(full, full.bits + 1, PROBES_FIRST);
        } else {
            self.publish(full, full.bits, full.probes * 2);
        }
    }

    /// As [`PartOf::grow`], to a table of 2^`bits` buckets, unless the current one is as large.
    pub(super) fn grow_to(&self, bits: u32) {
        self.table(0); // before `Growing`, which making the first table takes, too
        let _growing = Growing::<M>::begin(&self.part.growing);
        let table = self.table(0);
        if table.bits < bits {
            self.publish(table, bits, PROBES_FIRST);
        }
    }

    /// Publishes a table of 2^`bits` buckets with the entries of the current one and at least
    /// `probes` probes.
    fn publish(&self, old: &Buckets<M>, bits: u32, mut probes: usize) {
        // `current` is exact here: only a thread that holds `Growing` publishes, and it stores the
        // generation before it lets go.
        let next = self.part.current.load(Ordering::Relaxed) + 1;
        assert!((next as usize) < GROWTHS, "more keys of one hash than a part can hold");
        old.buckets.iter().map(Bucket::<M>).for_each(Bucket::latch_for_growth);
        let grown = loop {
            let grown = Buckets::new(bits, probes);
            if old.copy_to(&grown) {
                break grown;
            }
            M::Word::discard(&grown.buckets);
            probes *= 2;
        };
        self.name(next, grown);
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
