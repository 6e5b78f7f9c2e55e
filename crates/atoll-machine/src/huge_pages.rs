//! Large arrays on huge pages.
//!
//! A dependent read of an array far larger than the caches misses the address translation as well,
//! which costs as much again as the data. The advice is a hint: where the kernel gives no huge
//! pages, the array works on small ones. It must come before the pages are touched, so an array is
//! filled here and not by its owner.

use std::mem::MaybeUninit;

/// Bytes of a huge page on the machines that this runs on.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// `len` values made by `make` from their position, on huge pages if they fill at least one.
pub fn collect<T>(len: usize, make: impl FnMut(usize) -> T) -> Box<[T]> {
    let mut values = Vec::with_capacity(len);
    advise(values.spare_capacity_mut());
    values.extend((0..len).map(make));
    values.into_boxed_slice()
}

fn advise<T>(space: &mut [MaybeUninit<T>]) {
    let bytes = size_of_val(space);
    if bytes < HUGE_PAGE_BYTES {
        return;
    }
    let start = space.as_mut_ptr().cast::<u8>();
    let page = 4096;
    let skipped = start.align_offset(page);
    if skipped >= bytes {
        return;
    }
    let whole = (bytes - skipped) / page * page;
    // SAFETY: the range lies inside `space`, which is the caller's alone; MADV_HUGEPAGE changes
    // how the range is backed and never what it holds. A failure changes nothing.
    unsafe { libc::madvise(start.add(skipped).cast(), whole, libc::MADV_HUGEPAGE) };
}

#[cfg(test)]
mod tests {
    use super::collect;

    #[test]
    fn values_stand_where_they_were_made_for_whatever_the_size() {
        for len in [0, 1, 1000, 1 << 19] {
            let values = collect(len, |at| at as u64 * 3);
            assert_eq!(values.len(), len);
            assert!(values.iter().enumerate().all(|(at, value)| *value == at as u64 * 3));
        }
    }
}
