//! Lists that grow while other threads read them. Their values never move.
//!
//! Invariants
//! - `STABLE-1`: a pointer in a list is null or leads to a value that lives as long as the list,
//!   does not move and is never borrowed mutably. A pointer that is set never changes.
//! - `STABLE-2`: in a [`SharedVec`] a pointer also becomes null again, and another value may
//!   follow, as in a [`Replaceable`]. The list has a reference to the value; it gives it to the
//!   thread that takes the value out, which keeps it until no thread uses the value.

use std::ptr;
use std::sync::Arc;
use std::sync::atomic::AtomicPtr;

use atoll_machine::huge_pages::{self, Array, Need};
use atoll_machine::{Latch, Latched, Machine, Ordering, ZeroDefault};

use crate::flat::{Flat, Locked};
use crate::layout::{RowId, SEGMENT_ROWS};

type Pointers<T, M> = Flat<AtomicPtr<T>, M>;

/// The pointer at an index; null if it has not been set.
#[inline]
fn pointer<T, M: Machine>(pointers: &Pointers<T, M>, index: u64) -> *mut T {
    let load = |entry: &AtomicPtr<T>| {
        M::read(ptr::from_ref(entry).cast(), size_of_val(entry));
        entry.load(Ordering::Acquire)
    };
    pointers.read(index, load).unwrap_or(ptr::null_mut())
}

/// Sets a pointer of a list that is locked.
fn set<T, M: Machine>(entry: &AtomicPtr<T>, to: *mut T) {
    M::write(ptr::from_ref(entry).cast(), size_of_val(entry));
    M::fence(Ordering::Release); // The pointer is no word of the machine.
    entry.store(to, Ordering::Release);
}

/// A list of values. See the module.
pub struct StableVec<T, M> {
    pointers: Pointers<T, M>,
}

// SAFETY: the list owns its values (STABLE-1) and gives out shared references only.
unsafe impl<T: Send, M> Send for StableVec<T, M> {}
// SAFETY: as above; a value may come from one thread and be dropped by another.
unsafe impl<T: Send + Sync, M> Sync for StableVec<T, M> {}

impl<T, M: Machine> Default for StableVec<T, M> {
    fn default() -> Self {
        Self { pointers: Pointers::default() }
    }
}

impl<T, M: Machine> StableVec<T, M> {
    /// The entry, if it has been set.
    #[inline]
    pub fn get(&self, index: u64) -> Option<&T> {
        // SAFETY: STABLE-1.
        unsafe { pointer(&self.pointers, index).as_ref() }
    }

    /// The entry. If it has not been set, `make` makes it, once, under the lock of the list; `make`
    /// must not use this list.
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
        set::<T, M>(&pointers.entries(index as usize + 1)[index as usize], made);
        // SAFETY: STABLE-1; the value is in the list now.
        unsafe { &*made }
    }
}

/// A list without entries, which gets none as long as this exists: a thread that makes one waits.
pub struct EmptyList<'l, T, M: Machine> {
    _pointers: Locked<'l, AtomicPtr<T>, M>,
}

impl<T, M: Machine> StableVec<T, M> {
    /// Keeps the list empty for a while, if it has never had an entry.
    pub fn keep_empty(&self) -> Option<EmptyList<'_, T, M>> {
        let _pointers = self.pointers.lock();
        _pointers.is_empty().then_some(EmptyList { _pointers })
    }
}

impl<T, M> Drop for StableVec<T, M> {
    fn drop(&mut self) {
        for entry in self.pointers.current() {
            let value = entry.load(Ordering::Acquire);
            if !value.is_null() {
                // SAFETY: made by `Box::into_raw` and stored in one entry only; a list that is
                // being dropped is not borrowed.
                drop(unsafe { Box::from_raw(value) });
            }
        }
    }
}

/// A list of values that can be taken out again. See the module.
pub struct SharedVec<T, M> {
    pointers: Pointers<T, M>,
}

// SAFETY: the list owns references to its values (STABLE-2), which it gives to other threads.
unsafe impl<T: Send + Sync, M> Send for SharedVec<T, M> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync, M> Sync for SharedVec<T, M> {}

impl<T, M: Machine> Default for SharedVec<T, M> {
    fn default() -> Self {
        Self { pointers: Pointers::default() }
    }
}

impl<T, M: Machine> SharedVec<T, M> {
    /// The value at an index, if there is one.
    #[inline]
    pub fn get(&self, index: u64) -> Option<&T> {
        // SAFETY: STABLE-2.
        unsafe { pointer(&self.pointers, index).as_ref() }
    }

    /// Puts a value at an index.
    ///
    /// # Panics
    /// When there is one.
    pub fn put(&self, index: u64, value: Arc<T>) {
        let mut pointers = self.pointers.lock();
        assert!(self.get(index).is_none(), "a value is taken out first");
        let value = Arc::into_raw(value).cast_mut();
        set::<T, M>(&pointers.entries(index as usize + 1)[index as usize], value);
    }

    /// Takes the value at an index out of the list.
    ///
    /// # Safety
    /// The caller keeps the result until no thread uses a reference that [`SharedVec::get`] has
    /// returned for it.
    pub unsafe fn take(&self, index: u64) -> Option<Arc<T>> {
        let mut pointers = self.pointers.lock();
        let value = ptr::from_ref(self.get(index)?);
        set::<T, M>(&pointers.entries(index as usize + 1)[index as usize], ptr::null_mut());
        // SAFETY: STABLE-2; the reference of the list is given away once.
        Some(unsafe { Arc::from_raw(value) })
    }
}

impl<T, M> Drop for SharedVec<T, M> {
    fn drop(&mut self) {
        for entry in self.pointers.current() {
            let value = entry.load(Ordering::Acquire);
            if !value.is_null() {
                // SAFETY: STABLE-2; a list that is being dropped is not borrowed.
                drop(unsafe { Arc::from_raw(value) });
            }
        }
    }
}

/// A value that another one can replace while threads use it. See the module.
pub struct Replaceable<T, M> {
    /// Leads to the value of `owner`.
    pointer: AtomicPtr<T>,
    owner: Latch<M, Arc<T>>,
}

impl<T, M: Machine> Replaceable<T, M> {
    /// With its first value.
    pub fn new(value: Arc<T>) -> Self {
        let pointer = AtomicPtr::new(Arc::as_ptr(&value).cast_mut());
        Self { pointer, owner: Latch::new(value) }
    }

    /// The value, which may be replaced meanwhile.
    pub fn share(&self) -> Arc<T> {
        Arc::clone(&self.owner.take())
    }

    /// The value.
    #[inline]
    pub fn get(&self) -> &T {
        M::read(ptr::from_ref(&self.pointer).cast(), size_of_val(&self.pointer));
        // SAFETY: STABLE-2; the pointer is never null.
        unsafe { &*self.pointer.load(Ordering::Acquire) }
    }

    /// Replaces the value; returns the old one.
    ///
    /// # Safety
    /// The caller keeps the result until no thread uses a reference that [`Replaceable::get`] has
    /// returned for it.
    pub unsafe fn replace(&self, value: Arc<T>) -> Arc<T> {
        let mut owner = self.owner.take();
        set::<T, M>(&self.pointer, Arc::as_ptr(&value).cast_mut());
        std::mem::replace(&mut owner, value)
    }
}

/// A fixed number of values, each made at its first use. Finding one takes a single load.
pub struct StableArray<T, M, const N: usize> {
    pointers: [AtomicPtr<T>; N],
    making: Latch<M, ()>,
}

// SAFETY: the array owns its values (STABLE-1) and gives out shared references only.
unsafe impl<T: Send, M, const N: usize> Send for StableArray<T, M, N> {}
// SAFETY: as above; a value may come from one thread and be dropped by another.
unsafe impl<T: Send + Sync, M, const N: usize> Sync for StableArray<T, M, N> {}

impl<T, M: Machine, const N: usize> Default for StableArray<T, M, N> {
    fn default() -> Self {
        let pointers = std::array::from_fn(|_| AtomicPtr::new(ptr::null_mut()));
        Self { pointers, making: Latch::default() }
    }
}

impl<T, M: Machine, const N: usize> StableArray<T, M, N> {
    /// The value, if it has been made.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&T> {
        let entry = &self.pointers[index];
        M::read(ptr::from_ref(entry).cast(), size_of_val(entry));
        // SAFETY: STABLE-1.
        unsafe { entry.load(Ordering::Acquire).as_ref() }
    }

    /// The value. If it has not been made, `make` makes it, once; `make` must not use this array.
    #[inline]
    pub fn get_or_init(&self, index: usize, make: impl FnOnce() -> T) -> &T {
        match self.get(index) {
            Some(made) => made,
            None => self.init(index, make),
        }
    }

    #[cold]
    #[inline(never)]
    fn init(&self, index: usize, make: impl FnOnce() -> T) -> &T {
        let _making = self.making.take();
        if let Some(made) = self.get(index) {
            return made;
        }
        let made = Box::into_raw(Box::new(make()));
        set::<T, M>(&self.pointers[index], made);
        // SAFETY: STABLE-1; the value is in the array now.
        unsafe { &*made }
    }
}

/// An array without values, as [`EmptyList`].
pub struct EmptyArray<'l, M: Machine> {
    _making: Latched<'l, M, ()>,
}

impl<T, M: Machine, const N: usize> StableArray<T, M, N> {
    /// Keeps the array empty for a while, if none of its values has been made.
    pub fn keep_empty(&self) -> Option<EmptyArray<'_, M>> {
        let _making = self.making.take();
        (0..N).all(|at| self.get(at).is_none()).then_some(EmptyArray { _making })
    }
}

impl<T, M, const N: usize> Drop for StableArray<T, M, N> {
    fn drop(&mut self) {
        for entry in &mut self.pointers {
            let value = *entry.get_mut();
            if !value.is_null() {
                // SAFETY: made by `Box::into_raw` and stored in one entry only; an array that is
                // being dropped is not borrowed.
                drop(unsafe { Box::from_raw(value) });
            }
        }
    }
}

/// Blocks double in size up to this number of segments, and then keep it.
const BLOCK_SEGMENTS: u64 = 32;

type Rows<T> = [T; SEGMENT_ROWS];

/// A small table may have few rows, which then share a page.
fn need_of(segment: u64) -> Need {
    if segment == 0 { Need::Sparse } else { Need::Long }
}

/// One value for each row of a table. Blocks of values are allocated at first use and are large
/// enough for huge pages. If the bytes of default values are 0, a block takes memory only for the
/// pages of rows that were accessed. The values of rows that were loaded in bulk are made one
/// segment at a time, when the first of them is used.
pub struct PerRow<T, M> {
    segments: Pointers<Rows<T>, M>,
    /// The blocks that own what `segments` points to.
    blocks: Latch<M, Vec<Array<T>>>,
}

// SAFETY: it owns its values through the blocks, and gives out shared references only.
unsafe impl<T: Send, M> Send for PerRow<T, M> {}
// SAFETY: as above; a value may come from one thread and be dropped by another.
unsafe impl<T: Send + Sync, M> Sync for PerRow<T, M> {}

impl<T, M: Machine> Default for PerRow<T, M> {
    fn default() -> Self {
        Self { segments: Pointers::default(), blocks: Latch::default() }
    }
}

impl<T, M: Machine> PerRow<T, M> {
    /// Bytes of all values that are in memory.
    pub fn resident_bytes(&self) -> u64 {
        let blocks = self.blocks.take();
        blocks.iter().map(|block| block.resident_bytes() as u64).sum()
    }

    /// The value of a row, if the values of its segment have been made.
    #[inline]
    pub fn get(&self, row: RowId) -> Option<&T> {
        // SAFETY: STABLE-1: a block lives as long as `self`.
        let rows = unsafe { pointer(&self.segments, row.segment()).as_ref() };
        rows.map(|rows| &rows[row.slot()])
    }

    /// Makes the values of a segment, unless they have been made: those of `rows`, which are in the
    /// segment, with `set`, which gets the default value.
    #[cold]
    pub fn make_segment(
        &self,
        segment: u64,
        rows: impl Iterator<Item = RowId>,
        set: impl Fn(RowId, &T),
    ) where
        T: ZeroDefault,
    {
        self.make_block(segment, (segment, 1), |len| {
            let values: Array<T> = huge_pages::defaults(need_of(segment), len);
            rows.for_each(|row| set(row, &values[row.slot()]));
            values
        });
    }

    /// Makes the block of a segment, unless its values have been made. The segments before `from`
    /// are made one at a time.
    #[cold]
    pub fn make(&self, segment: u64, from: u64)
    where
        T: ZeroDefault,
    {
        // Blocks have 1, 1, 2, 4, 8 and 16 segments, and 32 from then on.
        let (first, len) = match segment {
            0 => (0, 1),
            1..BLOCK_SEGMENTS => (1 << segment.ilog2(), 1 << segment.ilog2()),
            _ => (segment / BLOCK_SEGMENTS * BLOCK_SEGMENTS, BLOCK_SEGMENTS),
        };
        let end = first + len;
        let first = first.max(from);
        let make = |len| huge_pages::defaults(need_of(segment), len);
        self.make_block(segment, (first, end - first), make);
    }

    fn make_block(
        &self,
        segment: u64,
        (first, len): (u64, u64),
        make: impl FnOnce(usize) -> Array<T>,
    ) {
        // `make` may panic below; nothing has been changed by then.
        let mut blocks = self.blocks.take();
        if !pointer(&self.segments, segment).is_null() {
            return;
        }
        let array = make((len as usize) * SEGMENT_ROWS);
        let rows = array.as_ptr().cast_mut().cast::<Rows<T>>();
        blocks.push(array);
        let mut segments = self.segments.lock();
        let (first, len) = (first as usize, len as usize);
        // The block holds the values of `len` segments.
        for (at, entry) in segments.entries(first + len)[first..][..len].iter().enumerate() {
            set::<_, M>(entry, rows.wrapping_add(at));
        }
    }
}

#[cfg(test)]
mod tests {
    use atoll_machine::Native;
    use std::sync::atomic::{AtomicU32, AtomicU64};

    use super::*;

    #[test]
    fn every_index_has_its_own_place_that_does_not_move() {
        let list = StableVec::<_, Native>::default();
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
        let (list, counted) = (StableVec::<_, Native>::default(), Arc::new(()));
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
    fn a_value_that_was_taken_out_makes_room_for_another_and_each_is_dropped_once() {
        let (list, counted) = (SharedVec::<_, Native>::default(), Arc::new(()));
        let value = |number: u64| Arc::new((Arc::clone(&counted), number));
        (0..100).for_each(|index| list.put(index, value(index)));
        // SAFETY: no reference to the value is used afterwards.
        let taken = unsafe { list.take(7) };
        assert_eq!(taken.map(|value| value.1), Some(7));
        // SAFETY: as above.
        assert!(list.get(7).is_none() && unsafe { list.take(1000) }.is_none());
        list.put(7, value(1007));
        let at = |index| list.get(index).map(|value| value.1);
        assert_eq!((at(7), at(8)), (Some(1007), Some(8)));
        assert_eq!(Arc::strong_count(&counted), 101);
        drop(list);
        assert_eq!(Arc::strong_count(&counted), 1);
    }

    #[test]
    fn a_value_that_is_replaced_is_dropped_once() {
        let counted = Arc::new(());
        let value = |number: u64| Arc::new((Arc::clone(&counted), number));
        let replaceable = Replaceable::<_, Native>::new(value(1));
        assert_eq!(replaceable.get().1, 1);
        // SAFETY: no reference to the value is used afterwards, and there is one thread.
        let old = unsafe { replaceable.replace(value(2)) };
        assert_eq!((old.1, replaceable.get().1), (1, 2));
        assert_eq!(Arc::strong_count(&counted), 3);
        drop((old, replaceable));
        assert_eq!(Arc::strong_count(&counted), 1);
    }

    #[test]
    fn the_values_of_an_array_are_made_once_by_whichever_thread_needs_them() {
        let (array, counted) = (StableArray::<_, Native, 64>::default(), Arc::new(()));
        assert!((0..64).all(|index| array.get(index).is_none()));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for index in (0..64).step_by(2) {
                        let (_, number) =
                            array.get_or_init(index, || (Arc::clone(&counted), index));
                        assert_eq!(*number, index);
                    }
                });
            }
        });
        assert_eq!(Arc::strong_count(&counted), 33);
        assert!((0..64).all(|index| array.get(index).is_some() == (index % 2 == 0)));
        drop(array);
        assert_eq!(Arc::strong_count(&counted), 1);
    }

    #[test]
    fn values_of_rows_that_were_not_accessed_take_no_memory() {
        let values = PerRow::<AtomicU64, Native>::default();
        values.make(0, 0);
        let at = |row| values.get(RowId(row)).expect("its segment was made");
        (0..10).for_each(|row| at(row).store(row, Ordering::Relaxed));
        let resident = || values.blocks.take().iter().map(Array::resident_bytes).sum::<usize>();
        assert_eq!(resident(), atoll_machine::page_bytes());
        assert!((0..10).all(|row| at(row).load(Ordering::Relaxed) == row));
        assert_eq!(at(SEGMENT_ROWS as u64 - 1).load(Ordering::Relaxed), 0);
    }

    #[test]
    fn every_row_has_a_value_of_its_own() {
        let values = PerRow::<AtomicU32, Native>::default();
        let at = |segment, slot| {
            let row = RowId::new(segment, slot);
            values.get(row).unwrap_or_else(|| {
                values.make(segment, 0);
                values.get(row).expect("it was made")
            })
        };
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for (segment, slot) in rows() {
                        at(segment, slot).fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        let count = |(segment, slot)| at(segment, slot).load(Ordering::Relaxed);
        assert!(rows().all(|row| count(row) == 2));
    }

    #[test]
    fn values_of_loaded_segments_are_made_one_segment_at_a_time_and_others_beside_them() {
        let values = PerRow::<AtomicU64, Native>::default();
        let get =
            |segment, slot| Some(values.get(RowId::new(segment, slot))?.load(Ordering::Relaxed));
        // Of the first 43 segments, which were loaded.
        let set = |row: RowId, value: &AtomicU64| value.store(row.0, Ordering::Relaxed);
        let some = |segment| (0..50).map(move |slot| RowId::new(segment, slot));
        values.make_segment(40, some(40), set);
        assert_eq!(get(40, 17), Some(RowId::new(40, 17).0));
        assert_eq!((get(39, 0), get(41, 0), get(43, 0)), (None, None, None));
        values.make(50, 43);
        assert_eq!((get(42, 0), get(43, 5), get(63, 0)), (None, Some(0), Some(0)));
        values.make_segment(42, some(42), set);
        values.make_segment(40, some(40), |_, _| unreachable!("they are made once"));
        assert_eq!(get(42, 50), Some(0), "not one of the rows");
        assert_eq!(
            (get(40, 17), get(42, 3)),
            (Some(RowId::new(40, 17).0), Some(RowId::new(42, 3).0))
        );
    }

    fn rows() -> impl Iterator<Item = (u64, usize)> {
        (0..100).rev().flat_map(|segment| [0, 1, SEGMENT_ROWS - 1].map(|slot| (segment, slot)))
    }
}
