//! A table of one generation: an open-addressed array of buckets.
//!
//! The bits of an entry select its home bucket, so a larger table is filled without the keys.
//!
//! - `PROBE-1`: an entry is at most `probes` buckets from its home bucket, which is part of that
//!   distance.
//! - `PROBE-2`: a table that is being filled belongs to one thread, which stores without latches.

use atoll_machine::huge_pages::{self, Array};
use atoll_machine::{Machine, Ordering, Word, WordLine};

use super::bucket::{BUCKET, Bucket, Busy, EMPTY, is_entry};
use crate::layout::RowId;

/// A table of one generation.
pub(super) struct Buckets<M: Machine> {
    pub(super) buckets: Array<WordLine<M::Word>>,
    pub(super) bits: u32,
    /// Number of buckets that an insert probes.
    pub(super) probes: usize,
}

impl<M: Machine> Buckets<M> {
    pub(super) fn new(bits: u32, probes: usize) -> Self {
        let bucket = |_| WordLine(std::array::from_fn(|_| M::Word::new(EMPTY)));
        let buckets = huge_pages::collect_words(1usize << bits, bucket);
        Self { bits, probes: probes.min(buckets.len()), buckets }
    }

    /// The bucket at `distance` from the home bucket of an entry, which the top bits of the tag
    /// select.
    #[inline]
    pub(super) fn bucket(&self, entry: u64, distance: usize) -> Bucket<'_, M> {
        let bucket = (entry >> (64 - self.bits)) as usize;
        Bucket(&self.buckets[(bucket + distance) & (self.buckets.len() - 1)])
    }

    /// The first row beyond the home bucket of an entry that has the entry's tag and for which
    /// `is_it` holds.
    #[inline]
    pub(super) fn find_beyond(
        &self,
        wanted: u64,
        is_it: &mut impl FnMut(RowId) -> bool,
    ) -> Option<RowId> {
        for distance in 1..self.probes {
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
        for distance in 1..self.probes {
            let mut next = self.bucket(entry, distance).try_latch().ok_or(Busy)?;
            if let Some(at) = next.position(&is_it) {
                next.put(at, with());
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Copies all entries to a table that no other thread can reach yet; false if an entry finds no
    /// free word within the probes.
    pub(super) fn copy_to(&self, grown: &Self) -> bool {
        if grown.bits != self.bits + 1 {
            return self.entries().all(|word| grown.fill(word));
        }
        // Most entries are in their home bucket. When the table doubles, such a bucket is split
        // into two adjacent ones, which are filled from the first word on without a search. The
        // other entries follow afterwards.
        let mut others = Vec::new();
        for (bucket, words) in self.buckets.iter().enumerate() {
            let halves =
                [2 * bucket, 2 * bucket + 1].map(|at| Bucket::<M>(&grown.buckets[at]).words());
            let mut filled = [0; 2];
            for at in 0..BUCKET {
                let word = Bucket::<M>(words).word(at, Ordering::Relaxed);
                if !is_entry(word) {
                    continue;
                }
                let bucket_now = (word >> (64 - grown.bits)) as usize;
                let half = bucket_now % 2;
                if bucket_now / 2 != bucket {
                    others.push(word);
                    continue;
                }
                // One of the two buckets receives at most as many entries as the old one had.
                halves[half][filled[half]].store(word, Ordering::Relaxed);
                filled[half] += 1;
            }
        }
        others.into_iter().all(|word| grown.fill(word))
    }

    /// Puts an entry into a table that no other thread can reach yet; false if it finds no free
    /// word within the probes.
    fn fill(&self, entry: u64) -> bool {
        let mut near = (0..self.probes).flat_map(|distance| self.bucket(entry, distance).words());
        let place = near.find(|word| word.load(Ordering::Relaxed) == EMPTY);
        place.inspect(|word| word.store(entry, Ordering::Relaxed)).is_some()
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = u64> {
        let words = |line| {
            (0..BUCKET).map(move |at| Bucket::<M>::word(Bucket(line), at, Ordering::Relaxed))
        };
        self.buckets.iter().flat_map(words).filter(|word| is_entry(*word))
    }
}
