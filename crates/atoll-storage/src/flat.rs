//! Contiguous lists that grow while other threads read them.
//!
//! Every access to a row reads such a list, so a read takes few instructions and few cache lines:
//! it indexes one array, without a latch. When a list grows, its array is copied into one of twice
//! the size. Therefore an entry consists of atomics, and a writer changes it under the lock of the
//! list.
//!
//! Invariants
//! - `FLAT-1`: an array that was ever current stays allocated until the list is dropped, so a
//!   reader may use a pointer to it. Together the old arrays are smaller than the newest one.
//! - `FLAT-2`: a writer publishes the length after the array of that length, and neither ever
//!   shrinks. So a reader that loads the length first finds an array of at least that length.
//! - `FLAT-3`: entries change only in the current array and only under the lock, under which the
//!   array is also copied. So a copy loses no change. A reader of an old array sees values that it
//!   could have seen a moment earlier; a reader that learns of a change in another way also sees
//!   the array that has the change.

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize};

use atoll_machine::{Latch, Latched, Machine, Ordering};

/// Entries of the first array.
const FIRST: usize = 16;

/// An entry: it consists of atomics, which threads share.
pub(crate) trait Entry: Default + Send + Sync {
    /// A new entry with the same values.
    fn copy(&self) -> Self;
}

impl<T> Entry for AtomicPtr<T> {
    fn copy(&self) -> Self {
        Self::new(self.load(Ordering::Relaxed))
    }
}

/// See the module.
pub(crate) struct Flat<E, M> {
    /// Length of the current array, or of an earlier one.
    len: AtomicUsize,
    /// The first entry of the current array.
    first: AtomicPtr<E>,
    arrays: Latch<M, Arrays<E>>,
}

/// All arrays that were ever current; the last one is the current array.
struct Arrays<E>(Vec<*mut [E]>);

// SAFETY: the arrays are boxes, which another thread may drop if it may drop their entries.
unsafe impl<E: Send> Send for Arrays<E> {}

impl<E> Drop for Arrays<E> {
    fn drop(&mut self) {
        for array in self.0.drain(..) {
            // SAFETY: made by `Box::into_raw`; the list is being dropped, so no reader is left
            // (FLAT-1).
            drop(unsafe { Box::from_raw(array) });
        }
    }
}

/// The locked list: its holder is the only writer.
pub(crate) struct Locked<'l, E, M: Machine> {
    list: &'l Flat<E, M>,
    arrays: Latched<'l, M, Arrays<E>>,
}

impl<E, M: Machine> Default for Flat<E, M> {
    fn default() -> Self {
        Self {
            len: AtomicUsize::new(0),
            first: AtomicPtr::new(ptr::null_mut()),
            arrays: Latch::new(Arrays(Vec::new())),
        }
    }
}

impl<E: Entry, M: Machine> Flat<E, M> {
    /// The result of `read` for an entry, or `None` if the list is shorter. The entry may still
    /// have its default value.
    // Returns no reference to the entry: `Option<&E>` would add a check for null, and a caller that
    // kept the reference would miss changes in a later array.
    #[inline(always)]
    pub(crate) fn read<R>(&self, index: u64, read: impl FnOnce(&E) -> R) -> Option<R> {
        if index as usize >= self.len.load(Ordering::Acquire) {
            return None;
        }
        let first = self.first.load(Ordering::Acquire); // after the length: FLAT-2
        // SAFETY: by FLAT-1 and FLAT-2 the entry is in an array that stays allocated.
        Some(read(unsafe { &*first.add(index as usize) }))
    }

    /// Locks the list, to change entries.
    pub(crate) fn lock(&self) -> Locked<'_, E, M> {
        Locked { list: self, arrays: self.arrays.take() }
    }
}

impl<E, M> Flat<E, M> {
    /// The current entries of a list that no other thread uses.
    pub(crate) fn current(&mut self) -> &[E] {
        let current = self.arrays.get_mut().0.last();
        // SAFETY: FLAT-1.
        current.map_or(&[], |array| unsafe { &**array })
    }
}

impl<E, M: Machine> Locked<'_, E, M> {
    /// Whether the list has never had an entry.
    pub(crate) fn is_empty(&self) -> bool {
        self.arrays.0.is_empty()
    }
}

impl<E: Entry, M: Machine> Locked<'_, E, M> {
    /// The entries, at least `least` of them. The caller changes them before it releases the lock.
    pub(crate) fn entries(&mut self, least: usize) -> &[E] {
        let current = self.arrays.0.last();
        // SAFETY: FLAT-1.
        let entries = current.map_or(&[][..], |array| unsafe { &**array });
        if entries.len() >= least {
            return entries;
        }
        let len = least.next_power_of_two().max(FIRST);
        let grown = entries.iter().map(E::copy).chain(std::iter::repeat_with(E::default));
        let grown = Box::into_raw(grown.take(len).collect::<Box<[E]>>());
        self.arrays.0.push(grown);
        self.list.first.store(grown.cast(), Ordering::Release);
        self.list.len.store(len, Ordering::Release); // FLAT-2
        // SAFETY: FLAT-1.
        unsafe { &*grown }
    }
}

#[cfg(test)]
mod tests {
    use atoll_machine::Native;
    use std::sync::atomic::{AtomicBool, AtomicU64};

    use super::*;

    #[derive(Default)]
    struct Pair([AtomicU64; 2]);

    impl Entry for Pair {
        fn copy(&self) -> Self {
            Self(self.both().map(AtomicU64::new))
        }
    }

    impl Pair {
        /// A writer sets the second word last, so a reader reads it first.
        fn both(&self) -> [u64; 2] {
            let second = self.0[1].load(Ordering::Acquire);
            [self.0[0].load(Ordering::Acquire), second]
        }

        fn set(&self, value: u64) {
            self.0.iter().for_each(|word| word.store(value, Ordering::Release));
        }
    }

    #[test]
    fn entries_that_were_set_stay_when_the_list_grows_and_the_others_are_the_default() {
        let list = Flat::<Pair, Native>::default();
        assert!(list.read(0, |_| ()).is_none());
        for index in 0..1000 {
            list.lock().entries(index + 1)[index].set(index as u64 * 3);
        }
        let both = |index| list.read(index, Pair::both);
        assert!((0..1000).all(|index| both(index) == Some([index * 3; 2])));
        assert_eq!((both(1000), both(1023)), (Some([0; 2]), Some([0; 2])));
        assert!(both(1024).is_none() && both(u64::MAX).is_none());
    }

    /// Sets the flag when a thread ends, also by a panic.
    struct Ended<'f>(&'f AtomicBool);

    impl Drop for Ended<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Release);
        }
    }

    /// One thread changes entries, one makes the list grow in between, and one reads.
    #[test]
    fn what_is_changed_while_the_list_grows_is_never_lost_or_torn() {
        const ENTRIES: usize = FIRST;
        const GROWTHS: u32 = 8;
        const LAST: u64 = (ENTRIES << GROWTHS) as u64 - 1;
        for _ in 0..30 {
            let (list, ended) = (Flat::<Pair, Native>::default(), AtomicBool::new(false));
            list.lock().entries(ENTRIES);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let _ended = Ended(&ended);
                    let mut value = 0;
                    // Until the list has its final length, and once more.
                    let mut goes_on = true;
                    while std::mem::replace(&mut goes_on, list.read(LAST, |_| ()).is_none()) {
                        value += 1;
                        for index in 0..ENTRIES {
                            list.lock().entries(0)[index].set(value);
                            let seen = list.read(index as u64, Pair::both);
                            assert_eq!(seen, Some([value; 2]), "by the thread that has changed it");
                        }
                    }
                });
                scope.spawn(|| {
                    for growth in 1..=GROWTHS {
                        // Waits for a change since the previous growth.
                        let before = list.read(0, Pair::both);
                        while list.read(0, Pair::both) == before && !ended.load(Ordering::Acquire) {
                            std::thread::yield_now();
                        }
                        list.lock().entries(ENTRIES << growth);
                    }
                });
                scope.spawn(|| {
                    let mut before = [0; ENTRIES];
                    while !ended.load(Ordering::Acquire) {
                        for (index, before) in before.iter_mut().enumerate() {
                            let both = list.read(index as u64, Pair::both);
                            let [first, second] = both.expect("it is there");
                            assert!(first >= second && second >= *before, "{first}, {second}");
                            *before = second;
                        }
                    }
                });
            });
        }
    }
}
