//! The current bucket array of each part of a hash index, one word per part.
//!
//! Every lookup begins here, so it needs one word only, and the words of all parts take a few cache
//! lines. A word holds the address of an array, which is aligned, and in the bits that the
//! alignment leaves free the shift that turns a hash into a position.
//!
//! Invariants
//! - `BUCKETS-1`: a word is null, or leads to an array that lives as long as the words, does not
//!   move and is never borrowed mutably. The shift is 64 minus the binary logarithm of the array's
//!   length, so every hash has a position in the array.

use std::ptr;
use std::sync::atomic::AtomicPtr;

use atoll_machine::{Machine, Ordering};

/// The least alignment of a bucket; the shift fits below it.
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
    /// The bucket of a hash in the array of its part, if the part has an array.
    #[inline]
    pub fn of<M: Machine>(&self, part: usize, hash: u64) -> Option<&T> {
        let entry = &self.0[part];
        M::read(ptr::from_ref(entry).cast(), size_of_val(entry));
        let word = entry.load(Ordering::Acquire);
        let place = (hash >> (word.addr() % ALIGN)) as usize;
        // SAFETY: BUCKETS-1, if there is an array.
        let bucket = || unsafe { &*word.map_addr(|addr| addr & !(ALIGN - 1)).add(place) };
        (!word.is_null()).then(bucket)
    }

    /// Sets the array of a part. Its length is a power of two of at least 2.
    ///
    /// # Safety
    /// The array lives as long as `self`, does not move and is never borrowed mutably.
    pub unsafe fn set<M: Machine>(&self, part: usize, array: &[T]) {
        assert!(array.len().is_power_of_two() && array.len() > 1);
        let shift = (u64::BITS - array.len().ilog2()) as usize;
        let start = ptr::from_ref(array).cast::<T>().cast_mut();
        let entry = &self.0[part];
        M::write(ptr::from_ref(entry).cast(), size_of_val(entry));
        M::fence(Ordering::Release); // The pointer is no word of the machine.
        entry.store(start.map_addr(|addr| addr | shift), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use atoll_machine::Native;

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
        assert!((0..3).all(|part| named.of::<Native>(part, !0).is_none()));
        for (bits, array) in (1..=12).zip(&arrays) {
            // SAFETY: the arrays live longer and are never borrowed mutably.
            unsafe { named.set::<Native>(1, array) };
            for hash in [0, 1, 1 << 40, 1 << 63, 0x1234_5678_9abc_def0, !0] {
                let bucket = named.of::<Native>(1, hash).expect("the part has an array");
                assert_eq!(bucket.0 as u64, hash >> (64 - bits), "{hash:x} of {bits} bits");
            }
            assert!(named.of::<Native>(0, 0).is_none() && named.of::<Native>(2, 0).is_none());
        }
    }
}
