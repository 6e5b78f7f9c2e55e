//! Large arrays on huge pages.
//!
//! A dependent read of an array far larger than the caches misses the TLB as well, which costs as
//! much again as the data. An allocator gives an array huge pages only if it is as large as several
//! of them, but the arrays of per-row data are allocated in smaller pieces. So pieces are cut from
//! large regions of memory for which huge pages are requested before the first access. The request
//! is a hint: where the kernel gives no huge pages, everything works on small ones.
//!
//! - `HUGE-1`: an array's place in its region belongs to the array alone and is initialised; the
//!   region is mapped as long as any array in it lives.
//! - `HUGE-2`: arrays that are discarded before they are dropped have regions of their own, and
//!   large ones have huge pages of their own: discarding an array takes no huge page from another
//!   array, and no other array keeps its memory allocated for long.
//! - `HUGE-3`: no place is used twice, and the system zeroes the pages of a region. So a place is 0
//!   until its array writes there.
//!
//! Memory goes back to the system when the last array of a region is dropped, or when an array is
//! discarded. If no region can be mapped, the process is out of memory, and the allocator's error
//! handler is called, as for any other array.
//!
//! An array of [default values of bytes of 0](ZeroDefault) is therefore not written when it is
//! allocated, and its pages take memory when they are first used. If most of an array may never be
//! used, it is on small pages.
//!
//! The system zeroes a page at the first access. [`make_ready`] causes that in advance, so that no
//! transaction waits for it; memory that was made ready and is discarded goes back to the system.

use std::alloc::{Layout, handle_alloc_error};
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::mm::Advice;

use crate::binding::page_bytes;
use crate::fork;
use crate::mapping::Mapping;
use crate::word_line::WordLine;
use crate::zero_default::ZeroDefault;

/// Bytes of a huge page on the machines that this runs on.
const HUGE_PAGE_BYTES: usize = 2 << 20;
/// Bytes of a region, unless an array needs a larger one.
const REGION_BYTES: usize = 32 << 20;
/// Smaller arrays are not worth a place in a region.
const WORTH_BYTES: usize = 32 << 10;
/// Alignment of places in a region.
const ALIGN: usize = 128;

/// A mapping of memory for several arrays.
#[derive(Debug)]
struct Region(Mapping);

impl Region {
    fn map(bytes: usize) -> Option<Self> {
        let bytes = bytes.next_multiple_of(HUGE_PAGE_BYTES);
        // Extra space, to begin at a multiple of a huge page; memory that is never accessed costs
        // nothing.
        let mapping = Mapping::anonymous(bytes + HUGE_PAGE_BYTES).ok()?;
        let mapping = mapping.trimmed(HUGE_PAGE_BYTES, bytes);
        // A kernel without huge pages refuses.
        let _ = mapping.advise(0, bytes, Advice::LinuxHugepage);
        Some(Self(mapping))
    }

    /// A region on small pages.
    fn map_small(bytes: usize) -> Option<Self> {
        let bytes = bytes.next_multiple_of(page_bytes());
        let mapping = Mapping::anonymous(bytes).ok()?;
        let _ = mapping.advise(0, bytes, Advice::LinuxNoHugepage);
        Some(Self(mapping))
    }

    /// Makes the system zero the whole region; false if it has too little memory, or lacks this
    /// call.
    fn touch(&self) -> bool {
        self.0.advise(0, self.0.bytes(), Advice::LinuxPopulateWrite).is_ok()
    }
}

/// How long an array needs its memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Until the array is dropped.
    Long,
    /// Until the array is discarded.
    Short,
    /// Until the array is dropped; much of it may never be used.
    Sparse,
    /// Until the array is dropped, which is soon: its memory goes back to the system then.
    Passing,
}

/// The regions of the process.
struct Pool {
    /// The regions that are being filled, by need, with the number of used bytes (`HUGE-2`).
    filling: [Option<(Arc<Region>, usize)>; 3],
    /// Regions for later, which have been zeroed.
    ready: Vec<Region>,
}

static POOL: Mutex<Pool> = Mutex::new(Pool { filling: [None, None, None], ready: Vec::new() });

impl Pool {
    /// Calls `work` with the pool. No child is forked meanwhile, since it could never use the pool.
    fn with<R>(work: impl FnOnce(&mut Self) -> R) -> R {
        let _no_fork = fork::delay();
        // `work` never panics halfway through a change.
        work(&mut POOL.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Allocates a place of `bytes` bytes.
    fn place(&mut self, bytes: usize, need: Need) -> Option<(Arc<Region>, NonNull<u8>)> {
        if need == Need::Passing {
            let region = Arc::new(Region::map_small(bytes)?);
            let start = region.0.start();
            return Some((region, start));
        }
        let align = match need {
            Need::Short if bytes >= HUGE_PAGE_BYTES => HUGE_PAGE_BYTES,
            Need::Sparse => page_bytes(),
            _ => ALIGN,
        };
        let filling = &mut self.filling[need as usize];
        if let Some((_, used)) = filling {
            *used = used.next_multiple_of(align);
        }
        let fits = |(region, used): &(Arc<Region>, usize)| used + bytes <= region.0.bytes();
        if !filling.as_ref().is_some_and(fits) {
            // A large array has a region of its own, so that others can use the rest of the current
            // one.
            if bytes >= REGION_BYTES {
                let region = Arc::new(Region::map(bytes)?);
                let start = region.0.start();
                return Some((region, start));
            }
            let region = match need {
                Need::Sparse => Region::map_small(REGION_BYTES)?,
                _ => self.ready.pop().or_else(|| Region::map(REGION_BYTES))?,
            };
            *filling = Some((Arc::new(region), 0));
        }
        let (region, used) = filling.as_mut()?;
        // SAFETY: `used + bytes` is within the region.
        let start = unsafe { region.0.start().add(*used) };
        *used = (*used + bytes).next_multiple_of(align);
        Some((Arc::clone(region), start))
    }
}

/// Zeroes memory until `bytes` bytes are ready for later arrays of this process; less where the
/// system refuses. The memory belongs to the process until arrays use it, so a caller should not
/// request more than is free: a system may end a process rather than refuse.
pub fn make_ready(bytes: usize) {
    while Pool::with(|pool| pool.ready.len()) * REGION_BYTES < bytes {
        let Some(region) = Region::map(REGION_BYTES).filter(Region::touch) else { return };
        Pool::with(|pool| pool.ready.push(region));
    }
}

/// An array that may be on huge pages.
#[derive(Debug)]
pub struct Array<T> {
    start: NonNull<T>,
    len: usize,
    /// The region of a large array; a small one is a boxed slice.
    region: Option<Arc<Region>>,
}

// SAFETY: an array owns its values, as a boxed slice does (HUGE-1).
unsafe impl<T: Send> Send for Array<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Array<T> {}

impl<T> Deref for Array<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: HUGE-1, or the boxed slice that `collect` made; all values are initialised.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl<T> Drop for Array<T> {
    fn drop(&mut self) {
        let values = std::ptr::slice_from_raw_parts_mut(self.start.as_ptr(), self.len);
        if self.region.is_some() {
            // SAFETY: HUGE-1; no reference is left, and the region is dropped afterwards.
            unsafe { std::ptr::drop_in_place(values) };
        } else {
            // SAFETY: `collect` took it from a box, and no reference is left.
            drop(unsafe { Box::from_raw(values) });
        }
    }
}

impl<T> Array<T> {
    /// Gives the memory of the array back to the system, although threads may still read it: whole
    /// pages are 0 from then on. Later stores allocate memory again. A small array keeps its
    /// memory, as does memory that the system does not take back.
    ///
    /// # Safety
    /// The values are atomics and nothing else, and bytes of 0 are a valid value.
    pub(crate) unsafe fn discard(&self) {
        let Some(Region(mapping)) = self.region.as_deref() else { return };
        let (page, start) = (page_bytes(), self.start.addr().get());
        let skipped = start.next_multiple_of(page) - start;
        let Some(bytes) = size_of_val(&**self).checked_sub(skipped) else { return };
        let at = start + skipped - mapping.start().addr().get();
        // SAFETY: these are whole pages of the array's place, which belongs to this array alone
        // (HUGE-1); the caller guarantees that their values may change under readers. The bytes
        // behind the last whole page stay.
        let _ = unsafe { mapping.discard(at, bytes / page * page) };
    }
}

/// `len` values made by `make` from their position.
pub fn collect<T>(len: usize, make: impl FnMut(usize) -> T) -> Array<T> {
    collect_for(Need::Long, len, make)
}

/// As [`collect`], for words that are [discarded](crate::Word::discard) before the array is
/// dropped.
pub fn collect_words<W>(len: usize, make: impl FnMut(usize) -> WordLine<W>) -> Array<WordLine<W>> {
    collect_for(Need::Short, len, make)
}

/// `len` default values. If their bytes are 0, memory is used only where they are accessed.
pub fn defaults<T: ZeroDefault>(need: Need, len: usize) -> Array<T> {
    if !T::IS_ZERO {
        return collect_for(need, len, |_| T::default());
    }
    if let Some((start, region)) = place::<T>(need, len) {
        return Array { start, len, region: Some(region) }; // HUGE-3
    }
    // SAFETY: ZERO-1.
    let values = unsafe { Box::<[T]>::new_zeroed_slice(len).assume_init() };
    Array { start: NonNull::from(Box::leak(values)).cast(), len, region: None }
}

impl<T> Array<T> {
    /// Bytes of the whole pages of a large array that are in memory; 0 for a small array, and where
    /// the system does not tell.
    pub fn resident_bytes(&self) -> usize {
        let Some(Region(mapping)) = self.region.as_deref() else { return 0 };
        let (page, start) = (page_bytes(), self.start.addr().get());
        let (from, to) = (start.next_multiple_of(page), start + size_of_val(&**self));
        let mut pages = vec![0u8; to.saturating_sub(from) / page];
        let told = mapping.resident_pages(from - mapping.start().addr().get(), &mut pages);
        let resident = pages.iter().filter(|page| **page & 1 == 1).count() * page;
        told.map_or(0, |()| resident)
    }
}

/// `N` values at an address that is found without a check of their number.
#[derive(Debug)]
pub struct FixedArray<T, const N: usize>(Array<T>);

impl<T: ZeroDefault, const N: usize> FixedArray<T, N> {
    /// As [`defaults`].
    #[must_use]
    pub fn defaults(need: Need) -> Self {
        Self(defaults(need, N))
    }

    /// See [`Array::resident_bytes`].
    pub fn resident_bytes(&self) -> usize {
        self.0.resident_bytes()
    }
}

impl<T, const N: usize> Deref for FixedArray<T, N> {
    type Target = [T; N];

    #[inline]
    fn deref(&self) -> &[T; N] {
        // SAFETY: the array has `N` values.
        unsafe { self.0.start.cast().as_ref() }
    }
}

/// A place for a large array; `None` for a small one.
fn place<T>(need: Need, len: usize) -> Option<(NonNull<T>, Arc<Region>)> {
    let Ok(layout) = Layout::array::<T>(len) else {
        handle_alloc_error(Layout::new::<T>());
    };
    if layout.size() < WORTH_BYTES || layout.align() > ALIGN {
        return None;
    }
    let placed = Pool::with(|pool| pool.place(layout.size(), need));
    let Some((region, start)) = placed else { handle_alloc_error(layout) };
    Some((start.cast(), region))
}

fn collect_for<T>(need: Need, len: usize, mut make: impl FnMut(usize) -> T) -> Array<T> {
    let Some((start, region)) = place::<T>(need, len) else {
        let values: Box<[T]> = (0..len).map(make).collect();
        let start = NonNull::from(Box::leak(values)).cast();
        return Array { start, len, region: None };
    };
    for at in 0..len {
        // SAFETY: the place is as large as the layout, aligned, and belongs to this array. If
        // `make` panics, the values made so far are not dropped, which is safe.
        unsafe { start.add(at).write(make(at)) };
    }
    Array { start, len, region: Some(region) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use super::{
        Array, FixedArray, HUGE_PAGE_BYTES, Need, Pool, REGION_BYTES, collect, collect_words,
        defaults, make_ready,
    };
    use crate::binding::page_bytes;
    use crate::{NativeWord, Ordering, Word, WordLine};

    #[test]
    fn values_stand_where_they_were_made_for_whatever_the_size() {
        let lengths = [0, 1, 1000, 5000, 1 << 19, 5 << 20];
        let arrays = lengths.map(|len| collect(len, |at| at as u64 * 3));
        for (len, values) in lengths.into_iter().zip(&arrays) {
            assert_eq!(values.len(), len);
            assert!(values.iter().enumerate().all(|(at, value)| *value == at as u64 * 3));
        }
    }

    #[test]
    fn memory_that_was_made_ready_is_what_the_next_arrays_get() {
        // Other tests may begin regions of their own now, but not while this one counts.
        let _first = (collect(1 << 20, |at| at), collect_words(1000, line));
        let starts = |pool: &mut Pool| pool.ready.iter().map(|region| region.0.start()).collect();
        let ready = || -> Vec<_> { Pool::with(starts) };
        make_ready(3 * REGION_BYTES - 1);
        let before = ready();
        assert!(before.len() >= 3);
        make_ready(REGION_BYTES);
        assert_eq!(ready(), before, "nothing more than was asked for");
        // Other tests allocate places meanwhile, too.
        let many: Vec<_> = (0..16).map(|n| collect(1 << 20, |at| (at + n) as u64)).collect();
        assert!(ready().is_empty());
        let is_in = |place: usize| {
            let starts = before.iter().map(|start| start.addr().get());
            starts.into_iter().any(|start| (start..start + REGION_BYTES).contains(&place))
        };
        assert!(many.iter().filter(|array| is_in(array.as_ptr().addr())).count() >= 6);
        for (n, values) in many.iter().enumerate() {
            assert!(values.iter().enumerate().all(|(at, value)| *value == (at + n) as u64));
        }
    }

    fn line(at: usize) -> WordLine<NativeWord> {
        WordLine([at as u64 + 1; 8].map(NativeWord::new))
    }

    #[test]
    fn words_that_are_discarded_give_their_memory_back_and_leave_others_theirs() {
        // Small arrays; a part of a page at the end; whole pages; huge pages.
        let arrays = [1, 500, 1000, 2048, 16_384, 1 << 15, 70_001].map(|l| collect_words(l, line));
        let says = |array: &Array<WordLine<NativeWord>>, at: usize| {
            array[at].0.each_ref().map(|word| word.load(Ordering::Acquire))
        };
        for (number, array) in arrays.iter().enumerate() {
            let bytes = array.len() * size_of::<WordLine<NativeWord>>();
            let before = array.resident_bytes();
            NativeWord::discard(array);
            let whole =
                if array.region.is_some() { bytes.saturating_sub(2 * page_bytes()) } else { 0 };
            assert!(array.resident_bytes() + whole <= before, "{bytes} bytes");
            let zeros = (0..array.len()).filter(|at| says(array, *at) == [0; 8]).count();
            assert!(zeros * size_of::<WordLine<NativeWord>>() >= whole, "{bytes} bytes");
            for array in &arrays[number + 1..] {
                assert!((0..array.len()).all(|at| says(array, at) == [at as u64 + 1; 8]));
            }
        }
        for array in &arrays {
            // The array can be used as before.
            array.iter().for_each(|line| line.0[3].store(5, Ordering::Release));
            assert!(array.iter().all(|line| line.0[3].load(Ordering::Acquire) == 5));
        }
    }

    #[test]
    fn arrays_that_are_discarded_share_no_huge_page_with_those_that_stay() {
        let page = |at: usize| at / HUGE_PAGE_BYTES;
        let pages = |array: &[u8]| {
            page(array.as_ptr().addr())..=page(array[array.len() - 1..].as_ptr().addr())
        };
        let mut stay = Vec::new();
        let mut go = Vec::new();
        for len in [600, 1 << 15, 3000, 1 << 16, 5000] {
            stay.push(collect(len * 64, |_| 1u8));
            go.push(collect_words(len, line));
        }
        for (number, array) in go.iter().enumerate() {
            let start = array.as_ptr().addr();
            let own = page(start)..=page(start + size_of_val(&**array) - 1);
            let is_apart = |at| !own.contains(&at);
            assert!(stay.iter().all(|other| pages(other).all(is_apart)));
            if size_of_val(&**array) < HUGE_PAGE_BYTES {
                continue;
            }
            for other in
                go[..number].iter().filter(|other| size_of_val(&***other) >= HUGE_PAGE_BYTES)
            {
                assert!(is_apart(page(other.as_ptr().addr())));
            }
        }
    }

    #[test]
    fn default_values_of_zero_take_memory_where_they_are_used() {
        const LEN: usize = 1 << 15;
        for need in [Need::Sparse, Need::Passing] {
            // Arrays of one region share no page.
            let arrays = [0; 3].map(|_| defaults::<NativeWord>(need, LEN));
            assert_eq!(arrays.each_ref().map(Array::resident_bytes), [0; 3]);
            let page = page_bytes() / size_of::<NativeWord>();
            for at in [0, 1, page - 1, LEN - 1] {
                arrays[1][at].store(7, Ordering::Release);
            }
            assert_eq!(arrays.each_ref().map(Array::resident_bytes), [0, 2 * page_bytes(), 0]);
            let sums = arrays
                .each_ref()
                .map(|array| array.iter().map(|word| word.load(Ordering::Acquire)).sum::<u64>());
            assert_eq!(sums, [0, 28, 0]);
        }
        for len in [0, 5, LEN] {
            let words = defaults::<NativeWord>(Need::Long, len);
            assert_eq!(words.len(), len);
            assert!(words.iter().all(|word| word.load(Ordering::Acquire) == 0));
        }
        let fixed = FixedArray::<NativeWord, LEN>::defaults(Need::Sparse);
        assert_eq!(fixed.resident_bytes(), 0);
        assert_eq!((fixed.len(), fixed[LEN - 1].load(Ordering::Acquire)), (LEN, 0));
    }

    #[test]
    fn the_values_of_an_array_are_dropped_once() {
        let counted = Arc::new(());
        let array = collect(20_000, |_| Arc::clone(&counted));
        assert_eq!(Arc::strong_count(&counted), 20_001);
        drop(array);
        assert_eq!(Arc::strong_count(&counted), 1);
    }
}
