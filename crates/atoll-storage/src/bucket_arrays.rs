//! Where hashes are at home: the current array of each part of a hash index, one word for each.
//!
//! Every lookup begins here, so what it needs is one word, and the words of all parts are a few
//! cache lines: an array's start, which is aligned, with what a hash is shifted by in the bits that
//! the alignment leaves free.
//!
//! Invariants
//! - `BUCKETS-1`: a word is null, or names an array that lives, unmoved and never borrowed mutably,
//!   as long as the words. What is shifted by is 64 less the binary logarithm of its length, so
//!   every hash has its place in it.

use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Values are aligned to as much at least.
const ALIGN: usize = 64;

/// See the module.
#[repr(align(64))]
pub struct BucketArrays<T, const PARTS: usize>([AtomicPtr<T>; PARTS]);

impl<T, const PARTS: usize> Default for BucketArrays<T, PARTS> {
    fn default() -> Self {
        const { assert!(align_of::<T>() >= ALIGN, "the shift has no room") };
        Self([const { AtomicPtr::new(ptr::null_mut()) }; PARTS])
    }
}

impl<T: Sync, const PARTS: usize> BucketArrays<T, PARTS> {
    /// The home of a hash in the array of its part, if there is one yet.
    #[inline]
    pub fn of(&self, part: usize, hash: u64) -> Option<&T> {
        let word = self.0[part].load(Ordering::Acquire);
        let place = (hash >> (word.addr() % ALIGN)) as usize;
        // SAFETY: BUCKETS-1, if there is an array.
        let bucket = || unsafe { &*word.map_addr(|addr| addr & !(ALIGN - 1)).add(place) };
        (!word.is_null()).then(bucket)
    }

    /// Names the array of a part, whose length is a power of two of at least 2.
    ///
    /// # Safety
    /// The array lives, unmoved and never borrowed mutably, as long as `self`.
    pub unsafe fn set(&self, part: usize, array: &[T]) {
        assert!(array.len().is_power_of_two() && array.len() > 1);
        let shift = (u64::BITS - array.len().ilog2()) as usize;
        let start = ptr::from_ref(array).cast::<T>().cast_mut();
        self.0[part].store(start.map_addr(|addr| addr | shift), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(align(64))]
    struct Line(usize);

    fn array(bits: u32) -> Vec<Line> {
        (0..1 << bits).map(Line).collect()
    }

    #[test]
    fn the_top_bits_of_a_hash_say_which_bucket_it_has() {
        let arrays: Vec<_> = (1..=12).map(array).collect();
        let named = BucketArrays::<Line, 3>::default();
        assert!((0..3).all(|part| named.of(part, !0).is_none()));
        for (bits, array) in (1..=12).zip(&arrays) {
            // SAFETY: the arrays live longer, and nobody changes them.
            unsafe { named.set(1, array) };
            for hash in [0, 1, 1 << 40, 1 << 63, 0x1234_5678_9abc_def0, !0] {
                let bucket = named.of(1, hash).expect("it has been named");
                assert_eq!(bucket.0 as u64, hash >> (64 - bits), "{hash:x} of {bits} bits");
            }
            assert!(named.of(0, 0).is_none() && named.of(2, 0).is_none());
        }
    }
}
