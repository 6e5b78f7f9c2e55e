//! The version of a row: one word.
//!
//! Three bits say that a writer holds the row, that it is storing into it, and that the row is
//! present; the rest is a number that changes with each change of the row. A reader reads the word,
//! then the row, then the word again (a sequence lock: readers write nothing).
//!
//! A reader that writers overtake several times latches the row ([`row_latch`](super::row_latch)).
//!
//! A patient reader waits while a writer holds the row, whether the writer stores into it or not.
//! If all readers of a scheme are patient, its writers need not announce when they begin to store.

use atoll_machine::{Machine, Ordering, Word, zero_default};

use super::row_latch::{LOOKS, RowLatch};
use crate::scheme::{Fetch, FetchOnce, Seen};

/// A writer holds the row.
pub const LOCKED: u64 = 1 << 63;
/// The writer is storing into the row.
pub const STORING: u64 = 1 << 62;
/// The row is present.
pub const PRESENT: u64 = 1 << 61;
/// The number.
pub const NUMBER: u64 = PRESENT - 1;

/// The result of one attempt to read a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// The row was read at this word, without the bits of writers.
    At(Seen, u64),
    /// A writer is storing into the row, or holds it and the reader is patient.
    Locked,
    /// The row has changed during the attempt.
    Overtaken,
}

/// See the module.
pub struct Version<M: Machine>(pub M::Word);

zero_default!([M: Machine] Version<M> { 0 });

impl<M: Machine> Version<M> {
    /// The word.
    #[inline]
    pub fn load(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    /// Reads the row; returns the word of the version read, without the bits of writers. `None` if
    /// a writer is storing into the row, or holds it and the reader is `patient`.
    #[inline]
    pub fn read(&self, patient: bool, fetch: Fetch<'_>) -> Option<(Seen, u64)> {
        match self.look(patient, &mut *fetch) {
            Look::At(seen, word) => Some((seen, word)),
            Look::Locked => None,
            Look::Overtaken => self.look_again(patient, fetch),
        }
    }

    /// Makes one attempt to read the row.
    #[inline(always)]
    pub fn look(&self, patient: bool, mut fetch: impl FetchOnce) -> Look {
        let (refused, ignored) = if patient { (LOCKED | STORING, 0) } else { (STORING, LOCKED) };
        let before = self.0.load(Ordering::Acquire);
        if before & refused != 0 {
            return Look::Locked;
        }
        let word = before & !ignored;
        if word & PRESENT == 0 {
            return Look::At(Seen::Absent, word);
        }
        let there = fetch.fetch(None);
        M::fence(Ordering::Acquire);
        if self.0.load(Ordering::Relaxed) & !ignored != word {
            return Look::Overtaken;
        }
        Look::At(if there { Seen::Present } else { Seen::Absent }, word)
    }

    #[cold]
    fn look_again(&self, patient: bool, fetch: Fetch<'_>) -> Option<(Seen, u64)> {
        for _ in 1..LOOKS {
            match self.look(patient, &mut *fetch) {
                Look::At(seen, word) => return Some((seen, word)),
                Look::Locked => return None,
                Look::Overtaken => {}
            }
        }
        let held = self.row_latch()?;
        let there = held.before() & PRESENT != 0 && fetch(None);
        Some((if there { Seen::Present } else { Seen::Absent }, held.before()))
    }

    /// Latches the row; `None` if it is locked.
    pub fn row_latch(&self) -> Option<RowLatch<'_, M>> {
        let now = self.0.load(Ordering::Relaxed);
        let is_free = now & LOCKED == 0;
        is_free.then(|| RowLatch::begin(&self.0, now, now | LOCKED)).flatten()
    }

    /// Locks the row for a writer; returns the word before, or `None` if it is locked already. The
    /// writer executes a release fence before it stores into the row.
    #[inline]
    pub fn lock(&self) -> Option<u64> {
        let mut now = self.0.load(Ordering::Relaxed);
        loop {
            if now & LOCKED != 0 {
                return None;
            }
            let locked = now | LOCKED;
            match self.0.compare_exchange(now, locked, Ordering::SeqCst, Ordering::Relaxed) {
                Ok(_) => return Some(now),
                Err(changed) => now = changed,
            }
        }
    }

    /// Announces that the writer, which holds the lock, is going to store. The writer executes a
    /// release fence before it does.
    #[inline]
    pub fn begin_storing(&self) {
        let now = self.0.load(Ordering::Relaxed);
        self.0.store(now | STORING, Ordering::Relaxed);
    }

    /// Locks the row for a short time, outside any transaction; returns whether it is present, and
    /// its number.
    pub fn lock_outside(&self) -> Option<(Seen, u64)> {
        let now = self.lock()?;
        let seen = if now & PRESENT == 0 { Seen::Absent } else { Seen::Present };
        Some((seen, now & NUMBER))
    }

    /// Unlocks a row after [`Version::lock_outside`]. If index entries of the row have been
    /// removed, its number changes.
    pub fn unlock_outside(&self, changed: bool) {
        let now = self.0.load(Ordering::Relaxed) & !LOCKED;
        self.unlock(now + u64::from(changed));
    }

    /// Marks a restored row as present.
    pub fn adopt(&self) {
        self.0.store(PRESENT, Ordering::Release);
    }

    /// Unlocks the row and sets its word.
    #[inline]
    pub fn unlock(&self, word: u64) {
        self.0.store(word, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use atoll_machine::Native;

    use super::{LOCKED, PRESENT, STORING, Seen, Version};

    #[test]
    fn a_reader_reads_what_is_there_and_not_what_is_being_stored() {
        let version = Version::<Native>::default();
        assert_eq!(version.read(true, &mut |_| true), Some((Seen::Absent, 0)));
        assert_eq!(version.lock(), Some(0));
        assert_eq!(version.lock(), None);
        assert_eq!(version.read(true, &mut |_| true), None);
        version.begin_storing();
        assert_eq!(version.read(false, &mut |_| true), None);
        assert_eq!(version.load(), LOCKED | STORING);
        version.unlock(PRESENT | 7);
        assert_eq!(version.read(true, &mut |_| true), Some((Seen::Present, PRESENT | 7)));
        assert_eq!(version.read(true, &mut |_| false), Some((Seen::Absent, PRESENT | 7)));
    }

    #[test]
    fn a_reader_beside_a_writer_reads_again_until_nothing_has_changed() {
        let version = Version::<Native>::default();
        version.unlock(PRESENT | 1);
        let mut tries = 0;
        let read = version.read(false, &mut |_| {
            tries += 1;
            if tries == 1 {
                version.unlock(PRESENT | 2);
            }
            true
        });
        assert_eq!((read, tries), (Some((Seen::Present, PRESENT | 2)), 2));
    }

    #[test]
    fn a_reader_whom_writers_overtake_again_and_again_holds_them_up() {
        for patient in [true, false] {
            let version = Version::<Native>::default();
            version.unlock(PRESENT | 1);
            let mut overtaken = 0;
            let read = version.read(patient, &mut |_| {
                if let Some(word) = version.lock() {
                    overtaken += 1;
                    version.unlock(word + 1);
                }
                true
            });
            assert_eq!(read, Some((Seen::Present, PRESENT | (1 + overtaken))));
            assert_eq!(version.load(), PRESENT | (1 + overtaken), "it is let go as it was");
        }
    }

    #[test]
    fn a_row_that_is_held_to_be_read_is_let_go_when_its_reader_panics() {
        let version = Version::<Native>::default();
        version.unlock(PRESENT | 1);
        let body = std::panic::AssertUnwindSafe(|| {
            version.read(true, &mut |_| match version.lock() {
                Some(word) => {
                    version.unlock(word + 1);
                    true
                }
                None => panic!("a bad body"),
            })
        });
        assert!(std::panic::catch_unwind(body).is_err());
        assert_eq!(version.load() & LOCKED, 0);
    }

    #[test]
    fn a_patient_reader_beside_whom_the_row_is_locked_may_have_read_what_is_stored() {
        for patient in [true, false] {
            let version = Version::<Native>::default();
            version.unlock(PRESENT | 1);
            let read = version.read(patient, &mut |_| version.lock().is_some());
            assert_eq!(read, (!patient).then_some((Seen::Present, PRESENT | 1)));
        }
    }
}
