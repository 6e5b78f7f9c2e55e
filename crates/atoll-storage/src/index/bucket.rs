//! A bucket: one cache line of entries, with its latch.
//!
//! Lookups read a bucket without the latch. A thread that changes its words holds the latch, which
//! is a bit of the first word (`INDEX-3`).
//!
//! - `BUCKET-1`: a latched bucket keeps its first word, with the latch bit, until it is unlatched;
//!   a change of that word becomes visible with the unlatching.

use std::ptr;

use atoll_machine::{Machine, Ordering, Word, WordLine};

use crate::layout::RowId;

pub(super) const BUCKET: usize = 8;
pub(super) const EMPTY: u64 = 0;
/// A tombstone: lookups continue past it, inserts may reuse it. No row id has this value.
pub(super) const TOMBSTONE: u64 = !LATCHED;
pub(super) const TAG_BITS: u32 = 28;
const TAG_MASK: u64 = !0 << (64 - TAG_BITS);
/// In the first word of a bucket: a thread has latched the bucket.
const LATCHED: u64 = 1 << (63 - TAG_BITS);
const ROW_MASK: u64 = LATCHED - 1;
const _: () = assert!(crate::layout::SEGMENTS_MAX << crate::layout::SLOT_BITS < ROW_MASK);

/// The word of an entry. It stores the row id plus 1, so that no entry equals [`EMPTY`].
#[inline]
pub(super) fn entry(hash: u64, row: RowId) -> u64 {
    hash & TAG_MASK | (row.0 + 1)
}

#[inline]
pub(super) fn is_entry(word: u64) -> bool {
    !is_free(word)
}

#[inline]
pub(super) fn is_free(word: u64) -> bool {
    matches!(word, EMPTY | TOMBSTONE)
}

/// A cache line of entries.
pub(super) struct Bucket<'t, M: Machine>(pub(super) &'t WordLine<M::Word>);

impl<M: Machine> Clone for Bucket<'_, M> {
    #[inline]
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Machine> Copy for Bucket<'_, M> {}

impl<'t, M: Machine> Bucket<'t, M> {
    #[inline]
    pub(super) fn words(self) -> &'t [M::Word; BUCKET] {
        &self.0.0
    }

    #[inline]
    pub(super) fn is(self, other: Self) -> bool {
        ptr::eq(self.0, other.0)
    }

    /// The first row for which `is_it` holds, among entries with the tag of `wanted`; otherwise
    /// whether the search continues in the next bucket.
    #[inline]
    pub(super) fn find(
        self,
        wanted: u64,
        is_it: &mut impl FnMut(RowId) -> bool,
    ) -> Result<RowId, bool> {
        const TAG: u32 = (TAG_MASK >> 32) as u32;
        // Compares the whole bucket at once: the position at which a loop would stop cannot be
        // predicted.
        let mut like = M::Word::upper_like(self.words(), (wanted >> 32) as u32, TAG);
        while like != 0 {
            let word = self.word(like.trailing_zeros() as usize % BUCKET, Ordering::Acquire);
            let row = RowId((word & ROW_MASK).wrapping_sub(1));
            // Another thread may have replaced the entry since the comparison.
            if is_entry(word) && (word ^ wanted) & TAG_MASK == 0 && is_it(row) {
                return Ok(row);
            }
            like &= like - 1;
        }
        // Inserts use the first free word, so the last word is the last to be used (INDEX-6).
        Err(self.words()[BUCKET - 1].load(Ordering::Acquire) != EMPTY)
    }

    /// A word, without the latch bit.
    #[inline]
    pub(super) fn word(self, at: usize, order: Ordering) -> u64 {
        self.words()[at].load(order) & !LATCHED
    }

    #[inline]
    pub(super) fn try_latch(self) -> Option<Latched<'t, M>> {
        let [first, ..] = self.words();
        let now = first.load(Ordering::Relaxed);
        let latched = now & LATCHED == 0
            && first
                .compare_exchange(now, now | LATCHED, Ordering::Acquire, Ordering::Relaxed)
                .is_ok();
        // Not `then_some`: that would make a `Latched` in any case, and dropping it would unlatch.
        latched.then(|| Latched { bucket: self, first: now })
    }

    /// Latches the bucket and never unlatches it: the table is about to be replaced (INDEX-4).
    pub(super) fn latch_for_growth(self) {
        let mut round = 0;
        loop {
            match self.try_latch() {
                Some(latched) => return std::mem::forget(latched),
                None => M::wait(round),
            }
            round = round.saturating_add(1);
        }
    }
}

/// Another thread holds the latch of a bucket, and may be waiting for another one.
pub(super) struct Busy;

/// A latched bucket; dropping it unlatches.
pub(super) struct Latched<'b, M: Machine> {
    pub(super) bucket: Bucket<'b, M>,
    /// The value that unlatching stores in the first word.
    first: u64,
}

impl<M: Machine> Latched<'_, M> {
    /// Position of the first word that satisfies `is_it`.
    #[inline]
    pub(super) fn position(&self, is_it: impl Fn(u64) -> bool) -> Option<usize> {
        (0..BUCKET).find(|at| is_it(self.bucket.word(*at, Ordering::Relaxed)))
    }

    #[inline]
    pub(super) fn put(&mut self, at: usize, word: u64) {
        if at == 0 {
            self.first = word;
        } else {
            self.bucket.words()[at].store(word, Ordering::Release);
        }
    }
}

impl<M: Machine> Drop for Latched<'_, M> {
    #[inline]
    fn drop(&mut self) {
        self.bucket.words()[0].store(self.first, Ordering::Release);
    }
}

/// The home bucket of a hash. If the index has grown since, the bucket belongs to an old table and
/// may look empty.
pub struct BucketRef<'i, M: Machine>(pub(super) Bucket<'i, M>);

impl<M: Machine> Clone for BucketRef<'_, M> {
    #[inline]
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Machine> Copy for BucketRef<'_, M> {}

impl<M: Machine> BucketRef<'_, M> {
    /// Address of the first cache line that a lookup reads.
    #[inline]
    pub fn line(self) -> *const u8 {
        ptr::from_ref(self.0.0).cast()
    }

    /// The row of the bucket's first entry with the tag of the hash: a guess that is almost always
    /// right.
    #[inline]
    pub fn candidate(self, hash: u64) -> Option<RowId> {
        self.0.find(hash, &mut |_| true).ok()
    }
}
