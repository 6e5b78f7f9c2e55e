//! Lists whose entries lie side by side, and that grow while others read them.
//!
//! What is found here is found for every access to a row, so it takes few instructions and few
//! cache lines: one table, looked up without a latch. A table that is too small is copied into one
//! of twice the size; so an entry is made of atomics, and is changed under the list's lock only.
//!
//! Invariants
//! - `FLAT-1`: a table that was ever current stays until the list goes; together the old ones are
//!   smaller than the newest. So who has read a pointer to a table may use it.
//! - `FLAT-2`: the length is published after the table that is as long, and neither ever shrinks.
//!   So the table is at least as long as the length that was read before it.
//! - `FLAT-3`: entries change under the lock, under which tables are copied, in the current table.
//!   So no change is lost to a copy. Who still reads an old table sees what it might have seen a
//!   moment before: whoever learns of a change in another way also sees the table that has it.

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Entries of the first table.
const FIRST: usize = 16;

/// An entry: made of atomics, and shared by threads.
pub(crate) trait Entry: Default + Send + Sync {
    /// One with the same values.
    fn copy(&self) -> Self;
}

impl<T> Entry for AtomicPtr<T> {
    fn copy(&self) -> Self {
        Self::new(self.load(Ordering::Relaxed))
    }
}

/// See the module.
pub(crate) struct Flat<E> {
    /// Entries of the current table, or of one before it.
    len: AtomicUsize,
    /// The first of the current table's.
    first: AtomicPtr<E>,
    tables: Mutex<Tables<E>>,
}

/// All tables that were ever current; the last one is.
struct Tables<E>(Vec<*mut [E]>);

// SAFETY: the tables are boxes, which may be dropped anywhere if their entries may.
unsafe impl<E: Send> Send for Tables<E> {}

impl<E> Drop for Tables<E> {
    fn drop(&mut self) {
        for table in self.0.drain(..) {
            // SAFETY: made by `Box::into_raw`; the list goes, so nobody reads any more (FLAT-1).
            drop(unsafe { Box::from_raw(table) });
        }
    }
}

/// The only one who changes a list's entries at the moment.
pub(crate) struct Locked<'l, E> {
    list: &'l Flat<E>,
    tables: MutexGuard<'l, Tables<E>>,
}

impl<E> Default for Flat<E> {
    fn default() -> Self {
        Self {
            len: AtomicUsize::new(0),
            first: AtomicPtr::new(ptr::null_mut()),
            tables: Mutex::new(Tables(Vec::new())),
        }
    }
}

impl<E: Entry> Flat<E> {
    /// What `read` makes of an entry, if the list is so long. It may be one that nobody has set.
    // Not the entry itself: it would be asked whether it is at address 0, and who keeps it misses
    // what changes in a table after this one.
    #[inline(always)]
    pub(crate) fn read<R>(&self, index: u64, read: impl FnOnce(&E) -> R) -> Option<R> {
        if index as usize >= self.len.load(Ordering::Acquire) {
            return None;
        }
        let first = self.first.load(Ordering::Acquire); // after the length: FLAT-2
        // SAFETY: FLAT-1 and FLAT-2: the entry is in a table that stays.
        Some(read(unsafe { &*first.add(index as usize) }))
    }

    /// The list, for who changes it.
    pub(crate) fn lock(&self) -> Locked<'_, E> {
        // What panics under the lock changes nothing before.
        let tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        Locked { list: self, tables }
    }
}

impl<E: Entry> Locked<'_, E> {
    /// The entries, which are so many at least, to be changed before the lock is given back.
    pub(crate) fn entries(&mut self, least: usize) -> &[E] {
        let current = self.tables.0.last();
        // SAFETY: FLAT-1.
        let entries = current.map_or(&[][..], |table| unsafe { &**table });
        if entries.len() >= least {
            return entries;
        }
        let len = least.next_power_of_two().max(FIRST);
        let grown = entries.iter().map(E::copy).chain(std::iter::repeat_with(E::default));
        let grown = Box::into_raw(grown.take(len).collect::<Box<[E]>>());
        self.tables.0.push(grown);
        self.list.first.store(grown.cast(), Ordering::Release);
        self.list.len.store(len, Ordering::Release); // FLAT-2
        // SAFETY: FLAT-1.
        unsafe { &*grown }
    }
}

#[cfg(test)]
mod tests {
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
        /// The second is set last, so it is read first.
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
        let list = Flat::<Pair>::default();
        assert!(list.read(0, |_| ()).is_none());
        for index in 0..1000 {
            list.lock().entries(index + 1)[index].set(index as u64 * 3);
        }
        let both = |index| list.read(index, Pair::both);
        assert!((0..1000).all(|index| both(index) == Some([index * 3; 2])));
        assert_eq!((both(1000), both(1023)), (Some([0; 2]), Some([0; 2])));
        assert!(both(1024).is_none() && both(u64::MAX).is_none());
    }

    /// Says that a thread has ended, however it did.
    struct Ended<'f>(&'f AtomicBool);

    impl Drop for Ended<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Release);
        }
    }

    /// One who changes entries, one who makes the list grow in between, and one who reads.
    #[test]
    fn what_is_changed_while_the_list_grows_is_never_lost_or_torn() {
        const ENTRIES: usize = FIRST;
        const GROWTHS: u32 = 8;
        const LAST: u64 = (ENTRIES << GROWTHS) as u64 - 1;
        for _ in 0..30 {
            let (list, ended) = (Flat::<Pair>::default(), AtomicBool::new(false));
            list.lock().entries(ENTRIES);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let _ended = Ended(&ended);
                    let mut value = 0;
                    // As long as it grows, and once more.
                    let mut goes_on = true;
                    while std::mem::replace(&mut goes_on, list.read(LAST, |_| ()).is_none()) {
                        value += 1;
                        for index in 0..ENTRIES {
                            list.lock().entries(0)[index].set(value);
                            let seen = list.read(index as u64, Pair::both);
                            assert_eq!(seen, Some([value; 2]), "by who has changed it");
                        }
                    }
                });
                scope.spawn(|| {
                    for growth in 1..=GROWTHS {
                        // After something has been changed since the last time.
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
