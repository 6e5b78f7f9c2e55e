//! Lists that grow while others read them, and whose values never move.
//!
//! Invariant
//! - `STABLE-1`: a pointer in a list is null or that of a value which lives, unmoved and never
//!   borrowed mutably, as long as the list. Once set it stays.

use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, PoisonError};

use atoll_machine::huge_pages::{self, Array};

use crate::flat::Flat;
use crate::layout::{RowId, SEGMENT_ROWS};

type Pointers<T> = Flat<AtomicPtr<T>>;

/// The pointer, null if it has not been set.
#[inline]
fn pointer<T>(pointers: &Pointers<T>, index: u64) -> *mut T {
    pointers.read(index, |entry| entry.load(Ordering::Acquire)).unwrap_or(ptr::null_mut())
}

/// A list of values. See the module.
pub struct StableVec<T> {
    pointers: Pointers<T>,
}

// SAFETY: the list owns its values (STABLE-1) and gives out shared references only.
unsafe impl<T: Send> Send for StableVec<T> {}
// SAFETY: as above; a value may come from one thread and be dropped by another.
unsafe impl<T: Send + Sync> Sync for StableVec<T> {}

impl<T> Default for StableVec<T> {
    fn default() -> Self {
        Self { pointers: Pointers::default() }
    }
}

impl<T> StableVec<T> {
    /// The entry, if it was set.
    #[inline]
    pub fn get(&self, index: u64) -> Option<&T> {
        // SAFETY: STABLE-1.
        unsafe { pointer(&self.pointers, index).as_ref() }
    }

    /// The entry, made by `make` if this is the first to ask for it. `make` may not ask this list.
    #[inline]
    pub fn get_or_init(&self, index: u64, make: impl FnOnce() -> T) -> &T {
        self.get(index).unwrap_or_else(|| self.init(index, make))
    }

    #[cold]
    fn init(&self, index: u64, make: impl FnOnce() -> T) -> &T {
        let mut pointers = self.pointers.lock();
        if let Some(made) = self.get(index) {
            return made;
        }
        let made = Box::into_raw(Box::new(make()));
        pointers.entries(index as usize + 1)[index as usize].store(made, Ordering::Release);
        // SAFETY: STABLE-1 from now on.
        unsafe { &*made }
    }
}

impl<T> Drop for StableVec<T> {
    fn drop(&mut self) {
        for entry in self.pointers.lock().entries(0) {
            let value = entry.load(Ordering::Acquire);
            if !value.is_null() {
                // SAFETY: made by `Box::into_raw` and in one place only; nobody has a reference.
                drop(unsafe { Box::from_raw(value) });
            }
        }
    }
}

/// Segments up to which blocks double; from then on they are this large.
const BLOCK_SEGMENTS: u64 = 32;

type Rows<T> = [T; SEGMENT_ROWS];

/// Values for all rows of a table, in blocks that are made when they are first needed and are large
/// enough for huge pages.
pub struct PerRow<T> {
    segments: Pointers<Rows<T>>,
    /// Hold what `segments` names.
    blocks: Mutex<Vec<Array<T>>>,
}

// SAFETY: it owns its values, which lie in the blocks, and gives out shared references only.
unsafe impl<T: Send> Send for PerRow<T> {}
// SAFETY: as above; a value may come from one thread and be dropped by another.
unsafe impl<T: Send + Sync> Sync for PerRow<T> {}

impl<T> Default for PerRow<T> {
    fn default() -> Self {
        Self { segments: Pointers::default(), blocks: Mutex::new(Vec::new()) }
    }
}

impl<T: Default> PerRow<T> {
    /// The value of a row.
    #[inline]
    pub fn get(&self, row: RowId) -> &T {
        // SAFETY: STABLE-1: a block stays as long as `self`.
        let rows = unsafe { pointer(&self.segments, row.segment()).as_ref() };
        &rows.unwrap_or_else(|| self.make(row.segment()))[row.slot()]
    }

    /// Makes the block of a segment.
    #[cold]
    fn make(&self, segment: u64) -> &Rows<T> {
        // Blocks of 1, 1, 2, 4, 8 and 16 segments, then of 32.
        let (first, len) = match segment {
            0 => (0, 1),
            1..BLOCK_SEGMENTS => (1 << segment.ilog2(), 1 << segment.ilog2()),
            _ => (segment / BLOCK_SEGMENTS * BLOCK_SEGMENTS, BLOCK_SEGMENTS as usize),
        };
        let first = first as usize;
        // What panics below changes nothing before.
        let mut blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        if pointer(&self.segments, segment).is_null() {
            let array = huge_pages::collect(len * SEGMENT_ROWS, |_| T::default());
            let rows = array.as_ptr().cast_mut().cast::<Rows<T>>();
            blocks.push(array);
            let mut segments = self.segments.lock();
            // The block is as long as that many segments.
            for (at, entry) in segments.entries(first + len)[first..][..len].iter().enumerate() {
                entry.store(rows.wrapping_add(at), Ordering::Release);
            }
        }
        // SAFETY: set above, or by who had the lock before; STABLE-1.
        unsafe { &*pointer(&self.segments, segment) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicU32;

    use super::*;

    #[test]
    fn every_index_has_its_own_place_that_does_not_move() {
        let list = StableVec::default();
        let first = ptr::from_ref(list.get_or_init(0, || 0));
        for i in 0..10_000u64 {
            assert_eq!(list.get(i).is_some(), i == 0);
            assert_eq!(*list.get_or_init(i, || i * 3), i * 3);
        }
        assert!(
            (0..10_000).all(|i| list.get(i) == Some(&(i * 3)) && list.get(i + 10_000).is_none())
        );
        assert_eq!(*list.get_or_init(1 << 20, || 7), 7);
        assert_eq!(ptr::from_ref(list.get(0).expect("it is there")), first);
    }

    #[test]
    fn threads_that_ask_for_the_same_entries_share_them_and_each_is_dropped_once() {
        let (list, counted) = (StableVec::default(), Arc::new(()));
        let made = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for index in 0..2000 {
                        let (_, number) = list.get_or_init(index, || {
                            made.fetch_add(1, Ordering::Relaxed);
                            (Arc::clone(&counted), index)
                        });
                        assert_eq!(*number, index);
                    }
                });
            }
        });
        assert_eq!(made.into_inner(), 2000);
        assert_eq!(Arc::strong_count(&counted), 2001);
        drop(list);
        assert_eq!(Arc::strong_count(&counted), 1);
    }

    #[test]
    fn every_row_has_a_value_of_its_own() {
        let values = PerRow::<AtomicU32>::default();
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for (segment, slot) in rows() {
                        values.get(RowId::new(segment, slot)).fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        let count = |(segment, slot)| values.get(RowId::new(segment, slot)).load(Ordering::Relaxed);
        assert!(rows().all(|row| count(row) == 2));
    }

    fn rows() -> impl Iterator<Item = (u64, usize)> {
        (0..100).rev().flat_map(|segment| [0, 1, SEGMENT_ROWS - 1].map(|slot| (segment, slot)))
    }
}
