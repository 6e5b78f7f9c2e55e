//! A table of one generation: an open-addressed array of buckets.
//!
//! The bits of an entry select its home bucket, so a larger table is filled without the keys.
//!
//! - `PROBE-1`: an entry is in one of the first `probes` buckets from its home bucket on. `probes`
//!   only rises, and an inserter raises it before it adds an entry that needs it.
//! - `PROBE-2`: a table that is being filled belongs to one thread, which stores without latches.

use atoll_machine::huge_pages::{self, Array};
use atoll_machine::{Machine, Ordering, Word, WordLine};

use super::bucket::{BUCKET, Bucket, Busy, EMPTY, TOMBSTONE, is_entry};
use crate::bucket_arrays::Size;
use crate::layout::RowId;

/// A table of one generation.
pub(super) struct Buckets<M: Machine> {
    pub(super) buckets: Array<WordLine<M::Word>>,
    pub(super) size: Size,
    /// Number of buckets that an insert probes.
    probes: M::Word,
}

/// How the words of a table are used.
pub(super) struct Fill {
    pub(super) entries: usize,
    pub(super) tombstones: usize,
}

impl<M: Machine> Buckets<M> {
    pub(super) fn new(size: Size, probes: usize) -> Self {
        let bucket = |_| WordLine(std::array::from_fn(|_| M::Word::new(EMPTY)));
        let buckets = huge_pages::collect_words(size.buckets(), bucket);
        let probes = M::Word::new(probes.min(buckets.len()) as u64);
        Self { size, probes, buckets }
    }

    /// Number of buckets that an insert probes.
    pub(super) fn probes(&self) -> usize {
        self.probes.load(Ordering::Relaxed) as usize
    }

    /// Doubles the number of buckets that an insert probes; false if it probes all of them.
    pub(super) fn probe_further(&self) -> bool {
        let probes = self.probes();
        self.probes.store((2 * probes).min(self.buckets.len()) as u64, Ordering::Relaxed);
        probes < self.buckets.len()
    }

    /// The bucket at `distance` from the home bucket of an entry.
    #[inline]
    pub(super) fn bucket(&self, entry: u64, distance: usize) -> Bucket<'_, M> {
        let (at, len) = (self.size.bucket_of(entry) + distance, self.buckets.len());
        Bucket(&self.buckets[if at < len { at } else { at - len }])
    }

    /// The first row beyond the home bucket of an entry that has the entry's tag and for which
    /// `is_it` holds.
    #[inline]
    pub(super) fn find_beyond(
        &self,
        wanted: u64,
        is_it: &mut impl FnMut(RowId) -> bool,
    ) -> Option<RowId> {
        for distance in 1..self.probes() {
            match self.bucket(wanted, distance).find(wanted, is_it) {
                Ok(row) => return Some(row),
                Err(true) => {}
                Err(false) => return None,
            }
        }
        None
    }

    /// Replaces the first word for which `is_it` holds beyond the home bucket of an entry, which
    /// the caller has latched; false if there is no such word.
    #[inline]
    pub(super) fn replace_beyond(
        &self,
        entry: u64,
        is_it: impl Fn(u64) -> bool,
        with: impl FnOnce() -> u64,
    ) -> Result<bool, Busy> {
        for distance in 1..self.probes() {
            let mut next = self.bucket(entry, distance).try_latch().ok_or(Busy)?;
            if let Some(at) = next.position(&is_it) {
                next.put(at, with());
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Copies all entries to a table with room for them, which no other thread can reach yet.
    pub(super) fn copy_to(&self, grown: &Self) {
        // Buckets rise with hashes in both tables, so both are traversed from begin to end.
        self.entries().for_each(|word| grown.fill(word));
    }

    /// Puts an entry into a table with room for it, which no other thread can reach yet.
    fn fill(&self, entry: u64) {
        self.fill_unless(entry, entry, &mut |_| false);
    }

    /// Puts an entry of a hash into a table with room for it, which no other thread can reach yet,
    /// unless `is_it` holds for a row with the same tag; then returns that row.
    #[inline]
    pub(super) fn fill_unless(
        &self,
        hash: u64,
        entry: u64,
        is_it: &mut impl FnMut(RowId) -> bool,
    ) -> Option<RowId> {
        for distance in 0..self.buckets.len() {
            if distance == self.probes() {
                self.probe_further();
            }
            let bucket = self.bucket(hash, distance);
            if let Ok(row) = bucket.find(hash, is_it) {
                return Some(row);
            }
            let mut words = bucket.words().iter();
            if let Some(free) = words.find(|word| word.load(Ordering::Relaxed) == EMPTY) {
                free.store(entry, Ordering::Relaxed);
                return None;
            }
        }
        panic!("a table is larger than its entries");
    }

    /// The address of the home bucket of a hash, for a prefetch.
    #[inline]
    pub(super) fn line(&self, hash: u64) -> *const u8 {
        std::ptr::from_ref(self.bucket(hash, 0).0).cast()
    }

    fn words(&self) -> impl Iterator<Item = u64> {
        let words = |line| {
            (0..BUCKET).map(move |at| Bucket::<M>::word(Bucket(line), at, Ordering::Relaxed))
        };
        self.buckets.iter().flat_map(words)
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = u64> {
        self.words().filter(|word| is_entry(*word))
    }

    /// Counts the words by use.
    pub(super) fn fill_of_words(&self) -> Fill {
        let mut fill = Fill { entries: 0, tombstones: 0 };
        for word in self.words() {
            fill.entries += usize::from(is_entry(word));
            fill.tombstones += usize::from(word == TOMBSTONE);
        }
        fill
    }
}
