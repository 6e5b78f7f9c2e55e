//! The current bucket array of each part of a hash index, one word per part.
//!
//! Every lookup begins here, so it needs one word only, and the words of all parts take a few cache
//! lines. A word holds the address of an array, and in the bits that no address uses the number of
//! its buckets ([`Size`]).
//!
//! Invariants
//! - `BUCKETS-1`: a word is null, or leads to an array that lives as long as the words, does not
//!   move and is never borrowed mutably, and that has as many buckets as the size in the word says.
//!   So every hash has a position in the array.

use std::ptr;
use std::sync::atomic::AtomicPtr;

use atoll_machine::{Machine, Ordering};

/// Bits of a hash, its highest ones, that select a bucket.
pub(crate) const HASH_BITS: u32 = 28;
/// The bits of a word from this one on hold the size. No address of a process has as many bits: on
/// x86-64 it has 47, or 56 if the process asks for them.
const SIZE_SHIFT: u32 = 56;
const ADDRESS: usize = (1 << SIZE_SHIFT) - 1;

/// A number of buckets: 4, 5, 6 or 7 quarters of a power of two, so that an array can grow by a
/// quarter or less. It is stored in a byte: the quarters minus 4 in the two lowest bits, and above
/// them how far a hash is shifted, which falls as the power rises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size(u8);

impl Size {
    /// The binary logarithm of the largest size.
    const LOG_MAX: u32 = HASH_BITS;
    /// Below this logarithm a size is a power of two. Small arrays are never freed, and a few
    /// doublings leave less behind than many small steps.
    const QUARTERS_FROM: u32 = 9;

    /// One bucket.
    pub(crate) const ONE: Self = Self::new(0, 4);

    const fn new(log: u32, quarters: u32) -> Self {
        Self(((Self::LOG_MAX + 2 - log) << 2 | (quarters - 4)) as u8)
    }

    const fn quarters(self) -> u64 {
        self.0 as u64 % 4 + 4
    }

    const fn shift(self) -> u32 {
        self.0 as u32 >> 2
    }

    const fn log(self) -> u32 {
        Self::LOG_MAX + 2 - self.shift()
    }

    /// The number of buckets.
    pub(crate) const fn buckets(self) -> usize {
        (self.quarters() as usize) << self.log() >> 2
    }

    /// The next larger size, if there is one.
    pub(crate) fn next(self) -> Option<Self> {
        let (log, quarters) = (self.log(), self.quarters() as u32);
        match log {
            Self::LOG_MAX => None,
            _ if log < Self::QUARTERS_FROM || quarters == 7 => Some(Self::new(log + 1, 4)),
            _ => Some(Self::new(log, quarters + 1)),
        }
    }

    /// The smallest size of at least this many buckets; the largest if there is none.
    pub(crate) fn at_least(buckets: usize) -> Self {
        let mut size = Self::ONE;
        while size.buckets() < buckets
            && let Some(next) = size.next()
        {
            size = next;
        }
        size
    }

    /// The bucket of a hash. Buckets rise with hashes, and each has about the same share of them.
    #[inline]
    pub(crate) const fn bucket_of(self, hash: u64) -> usize {
        (((hash >> (u64::BITS - HASH_BITS)) * self.quarters()) >> self.shift()) as usize
    }
}

/// See the module.
#[repr(align(64))]
pub struct BucketArrays<T, const PARTS: usize>([AtomicPtr<T>; PARTS]);

impl<T, const PARTS: usize> Default for BucketArrays<T, PARTS> {
    fn default() -> Self {
        Self([const { AtomicPtr::new(ptr::null_mut()) }; PARTS])
    }
}

impl<T: Sync, const PARTS: usize> BucketArrays<T, PARTS> {
    /// The bucket of a hash in the array of its part, if the part has an array.
    #[inline]
    pub(crate) fn of<M: Machine>(&self, part: usize, hash: u64) -> Option<&T> {
        let entry = &self.0[part];
        M::read(ptr::from_ref(entry).cast(), size_of_val(entry));
        let word = entry.load(Ordering::Acquire);
        let place = Size((word.addr() >> SIZE_SHIFT) as u8).bucket_of(hash);
        // SAFETY: BUCKETS-1, if there is an array.
        let bucket = || unsafe { &*word.map_addr(|addr| addr & ADDRESS).add(place) };
        (!word.is_null()).then(bucket)
    }

    /// Sets the array of a part, which has `size` buckets.
    ///
    /// # Safety
    /// The array lives as long as `self`, does not move and is never borrowed mutably.
    pub(crate) unsafe fn set<M: Machine>(&self, part: usize, array: &[T], size: Size) {
        assert_eq!(array.len(), size.buckets());
        let start = ptr::from_ref(array).cast::<T>().cast_mut();
        assert_eq!(start.addr() & !ADDRESS, 0, "an address has at most {SIZE_SHIFT} bits");
        let entry = &self.0[part];
        M::write(ptr::from_ref(entry).cast(), size_of_val(entry));
        M::fence(Ordering::Release); // The pointer is no word of the machine.
        let size = usize::from(size.0) << SIZE_SHIFT;
        entry.store(start.map_addr(|addr| addr | size), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use atoll_machine::Native;

    use super::*;

    fn sizes() -> impl Iterator<Item = Size> {
        std::iter::successors(Some(Size::ONE), |size| size.next())
    }

    #[test]
    fn sizes_double_while_they_are_small_and_then_rise_by_a_quarter_at_most() {
        let mut before = 0;
        for size in sizes() {
            let now = size.buckets();
            assert!(now > before, "{now} after {before}");
            assert!(before < 512 && now <= 2 * before.max(1) || now * 4 <= before * 5);
            assert_eq!(Size::at_least(now), size);
            assert!(before == 0 || Size::at_least(before + 1) == size);
            before = now;
        }
        assert_eq!(before, 1 << HASH_BITS);
        assert_eq!(Size::at_least(usize::MAX).buckets(), 1 << HASH_BITS);
    }

    #[test]
    fn buckets_rise_with_hashes_and_all_are_used() {
        for size in sizes() {
            let buckets = size.buckets() as u64;
            assert_eq!(size.bucket_of(0), 0);
            assert_eq!(size.bucket_of(!0), size.buckets() - 1);
            for bucket in (0..buckets).step_by((buckets as usize / 1000).max(1)) {
                // The first hash of a bucket, among the highest bits that count.
                let first = (bucket << HASH_BITS).div_ceil(buckets) << (64 - HASH_BITS);
                assert_eq!(size.bucket_of(first) as u64, bucket, "of {buckets}");
                if first > 0 {
                    assert_eq!(size.bucket_of(first - 1) as u64, bucket - 1, "of {buckets}");
                }
            }
        }
    }

    #[test]
    fn a_word_leads_to_the_bucket_of_a_hash_in_the_array_of_its_part() {
        let sizes: Vec<_> = sizes().take(20).collect();
        let arrays: Vec<Vec<usize>> =
            sizes.iter().map(|size| (0..size.buckets()).collect()).collect();
        let named = BucketArrays::<usize, 3>::default();
        assert!((0..3).all(|part| named.of::<Native>(part, !0).is_none()));
        for (size, array) in sizes.iter().zip(&arrays) {
            // SAFETY: the arrays live longer and are never borrowed mutably.
            unsafe { named.set::<Native>(1, array, *size) };
            for hash in [0, 1, 1 << 40, 1 << 63, 0x1234_5678_9abc_def0, !0] {
                assert_eq!(named.of::<Native>(1, hash), Some(&size.bucket_of(hash)));
            }
            assert!(named.of::<Native>(0, 0).is_none() && named.of::<Native>(2, 0).is_none());
        }
    }
}
