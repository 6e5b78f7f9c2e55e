//! The hash index of a primary key: it maps the hash of a key to rows that may have the key.
//!
//! The index stores no keys. An entry is one word, 28 bits of the hash (the tag) and 36 bits of row
//! id, so a bucket of 8 entries is one cache line. A lookup reads one line here and one of the row,
//! to verify the row's key. The home bucket of an entry follows from the same 28 bits, so a part
//! grows without reading the keys of its rows.
//!
//! The hash selects one of 64 parts; each part is an open-addressed table of buckets that grows by
//! a quarter, independently of the others. Lookups take no latch. Inserts and removals latch a
//! bucket by a bit in the line that they change anyway, so threads that insert into one table share
//! nothing else.
//!
//! Invariants
//! - `INDEX-1`: an entry never moves within a table; a thread that grows a part fills a new table
//!   before it publishes that table. A lookup that misses repeats if the part's current table is
//!   not the one that it has searched.
//! - `INDEX-2`: old tables keep their addresses until the index is dropped, but their memory goes
//!   back to the system once the next table is published. A lookup in an old table may find it
//!   empty; a lookup that sees this also sees that the next table is published.
//! - `INDEX-3`: a thread changes the words of a bucket only under the bucket's latch. An insert or
//!   removal holds the latch of the entry's home bucket, so two inserts of one key exclude each
//!   other. While it holds a latch it never waits for another one: it unlatches and retries.
//! - `INDEX-4`: a thread that grows a part first latches all buckets of the current table. So a
//!   thread that holds a latch of the current table holds a latch of the current table until it
//!   unlatches. A latch of an old table protects nothing.
//! - `INDEX-5`: `arrays` leads to the current table of a part. That table is stored in `tables`
//!   before, and its generation in `current` afterwards, so `current` is at most one generation
//!   behind.
//! - `INDEX-6`: an entry is in the first bucket, from its home bucket on, that had a free word. A
//!   word that has been used never becomes empty again while its table is current. So no entry is
//!   beyond a bucket of the current table that has an empty word.
//!
//! All shared words except those of `BucketArrays`, which are pointers, are words of [`Machine`].

mod bucket;
mod build;
mod part;
mod table;

use std::hint::cold_path;
use std::sync::OnceLock;

use atoll_machine::{Machine, WordLine};

pub use self::bucket::BucketRef;
use self::bucket::{BUCKET, Bucket, Busy, Latched, TOMBSTONE, entry, is_free};
pub use self::build::{BuiltIndex, HashedRows, IndexBuild};
use self::part::{PARTS, Part, PartOf};
use crate::bucket_arrays::{BucketArrays, Size};
use crate::layout::RowId;

/// See the module.
pub struct HashIndex<M: Machine> {
    /// The current table of each part: all that nearly every lookup needs.
    arrays: BucketArrays<WordLine<M::Word>, PARTS>,
    /// Made for the first row.
    parts: OnceLock<Box<[Part<M>]>>,
}

impl<M: Machine> Default for HashIndex<M> {
    fn default() -> Self {
        Self { arrays: BucketArrays::default(), parts: OnceLock::new() }
    }
}

impl<M: Machine> HashIndex<M> {
    fn part(&self, hash: u64) -> PartOf<'_, M> {
        let number = hash as usize % PARTS;
        let make = || (0..PARTS).map(|_| Part::default()).collect();
        PartOf { arrays: &self.arrays, number, part: &self.parts.get_or_init(make)[number] }
    }

    /// The home bucket of `hash`, where a lookup begins and nearly always ends.
    #[inline]
    pub fn bucket(&self, hash: u64) -> BucketRef<'_, M> {
        let bucket = self.arrays.of::<M>(hash as usize % PARTS, hash);
        BucketRef(bucket.map_or_else(|| self.first_bucket(hash), Bucket))
    }

    /// Whether this is still the home bucket of the hash in the current table.
    #[inline]
    fn is_current(&self, bucket: Bucket<'_, M>, hash: u64) -> bool {
        bucket.is(self.bucket(hash).0)
    }

    /// True only if no row has this hash: the home bucket has no entry with its tag, and no entry
    /// can be beyond that bucket (`INDEX-6`). False says nothing; the caller has to search.
    #[inline]
    pub fn lacks(&self, hash: u64) -> bool {
        let BucketRef(bucket) = self.bucket(hash);
        bucket.find(hash, &mut |_| true) == Err(false) && self.is_current(bucket, hash)
    }

    #[cold]
    fn first_bucket(&self, hash: u64) -> Bucket<'_, M> {
        self.part(hash).table(hash).bucket(hash, 0)
    }

    /// The first row with this hash for which `is_it` holds. Takes no latch; may or may not find a
    /// row that another thread inserts or removes during the call.
    #[inline]
    pub fn find(&self, hash: u64, mut is_it: impl FnMut(RowId) -> bool) -> Option<RowId> {
        let mut bucket = self.bucket(hash);
        loop {
            let found = match bucket.0.find(hash, &mut is_it) {
                Ok(row) => Some(row),
                Err(true) => self.part(hash).find_beyond(bucket, hash, &mut is_it),
                Err(false) => None,
            };
            let now = self.bucket(hash);
            if found.is_some() || now.0.is(bucket.0) {
                return found;
            }
            bucket = now; // INDEX-1
        }
    }

    /// Inserts a row, unless the index has a row with the same hash for which `is_it` holds; then
    /// returns that row. Concurrent inserts of one key exclude each other here. `adding` is called
    /// when the insert is certain and before another thread can find the row.
    pub fn insert(
        &self,
        hash: u64,
        row: RowId,
        mut is_it: impl FnMut(RowId) -> bool,
        mut adding: impl FnMut(),
    ) -> Option<RowId> {
        let mut round = 0;
        loop {
            let mut latched = self.latch(hash, &mut round);
            let mut add = || {
                adding();
                entry(hash, row)
            };
            let mut is_it = |row| {
                cold_path();
                is_it(row)
            };
            let place = latched.position(is_free);
            let other = match latched.bucket.find(hash, &mut is_it) {
                Ok(other) => Some(other),
                Err(true) => {
                    self.part(hash).find_beyond(BucketRef(latched.bucket), hash, &mut is_it)
                }
                Err(false) => None,
            };
            if other.is_some() {
                return other;
            }
            if let Some(place) = place {
                latched.put(place, add());
                return None;
            }
            cold_path();
            let part = self.part(hash);
            let table = part.table(hash); // INDEX-4: the table of the latched home bucket
            let probes = table.probes();
            match table.replace_beyond(hash, is_free, add) {
                Ok(true) => return None,
                Ok(false) => {
                    drop(latched);
                    part.grow(table, probes);
                }
                Err(Busy) => {
                    drop(latched);
                    M::wait(round);
                    round = round.saturating_add(1);
                }
            }
        }
    }

    /// Latches the home bucket of a hash in the current table of its part.
    #[inline]
    fn latch(&self, hash: u64, round: &mut u32) -> Latched<'_, M> {
        loop {
            if let Some(latched) = self.bucket(hash).0.try_latch()
                && self.is_current(latched.bucket, hash)
            {
                return latched; // INDEX-4
            }
            M::wait(*round);
            *round = round.saturating_add(1);
        }
    }

    /// Grows all parts in advance so that they hold `rows` rows.
    pub fn reserve(&self, rows: u64) {
        let words = rows as usize / PARTS * 4 / 3;
        let size = Size::at_least(words.div_ceil(BUCKET));
        (0..PARTS as u64).for_each(|part| self.part(part).grow_to(size));
    }

    /// Bytes of the index that are in memory and not in the heap.
    pub fn resident_bytes(&self) -> u64 {
        if self.parts.get().is_none() {
            return 0;
        }
        (0..PARTS as u64).map(|part| self.part(part).resident_bytes()).sum()
    }

    /// Gives the memory of the entries back to the system. No thread uses the index any more.
    pub(crate) fn discard(&self) {
        if self.parts.get().is_some() {
            (0..PARTS as u64).for_each(|part| self.part(part).discard());
        }
    }

    /// Removes a row; returns whether the index had it.
    pub fn remove(&self, hash: u64, row: RowId) -> bool {
        let mut round = 0;
        loop {
            let mut latched = self.latch(hash, &mut round);
            let is_it = |word| word == entry(hash, row);
            if let Some(place) = latched.position(is_it) {
                latched.put(place, TOMBSTONE);
                return true;
            }
            // INDEX-4: the table of the latched home bucket.
            let table = self.part(hash).table(hash);
            if let Ok(was_there) = table.replace_beyond(hash, is_it, || TOMBSTONE) {
                return was_there;
            }
            drop(latched);
            M::wait(round);
            round = round.saturating_add(1);
        }
    }
}

#[cfg(test)]
mod tests;
