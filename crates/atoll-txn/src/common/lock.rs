//! The lock beside a row, or for a gap: one word.
//!
//! 0 is free. Otherwise it says how it is held and how old its oldest holder is at least: a bit for
//! a writer, the number of readers, and an age. Ages are only compared; the smaller is the older.
//! Readers that come and go leave the age behind until the last one goes, so it may be older than
//! any holder and never younger.

use atoll_machine::{Machine, Ordering, Word};

const EXCLUSIVE: u64 = 1 << 63;
const READER: u64 = 1 << AGE_BITS;
const READERS: u64 = (EXCLUSIVE - 1) & !AGE;
const AGE: u64 = READER - 1;
/// Bits of an age.
pub const AGE_BITS: u32 = 50;
/// From so many readers on, who reads again is told to look whether it does already.
const CROWD: u64 = 1 << 10;

/// See the module.
pub struct Lock<M: Machine>(M::Word);

/// A lock that was not granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Busy {
    /// Held by others (or the asker itself); the oldest of them is this old at least.
    Held {
        /// Its age.
        oldest: u64,
    },
    /// So many readers that the asker should look first whether it is one of them.
    Crowded,
}

impl<M: Machine> Default for Lock<M> {
    fn default() -> Self {
        Self(M::Word::new(0))
    }
}

const fn with_age(flags: u64, age: u64) -> u64 {
    flags | (age & AGE)
}

impl<M: Machine> Lock<M> {
    /// Becomes one of its readers, unless a writer holds it. With `crowd`, however many there are.
    ///
    /// # Errors
    /// [`Busy`].
    #[inline]
    pub fn lock_shared(&self, age: u64, crowd: bool) -> Result<(), Busy> {
        let mut now = self.0.load(Ordering::Relaxed);
        loop {
            let readers = now & READERS;
            if now & EXCLUSIVE != 0 {
                return Err(Busy::Held { oldest: now & AGE });
            }
            if readers >= CROWD * READER && !crowd {
                return Err(Busy::Crowded);
            }
            let oldest = if readers == 0 { age & AGE } else { (now & AGE).min(age & AGE) };
            // Sequentially consistent, since who watches a gap looks at an index afterwards.
            match self.replace(now, with_age(readers + READER, oldest), Ordering::SeqCst) {
                Ok(()) => return Ok(()),
                Err(changed) => now = changed,
            }
        }
    }

    /// Becomes its writer, unless anybody but the asker, `mine` times a reader, holds it.
    ///
    /// # Errors
    /// [`Busy::Held`].
    #[inline]
    pub fn lock_exclusive(&self, mine: u64, age: u64) -> Result<(), Busy> {
        let mut now = if mine == 0 { 0 } else { self.0.load(Ordering::Relaxed) };
        loop {
            if now & EXCLUSIVE != 0 || now & READERS != mine * READER {
                return Err(Busy::Held { oldest: now & AGE });
            }
            match self.replace(now, with_age(EXCLUSIVE, age), Ordering::Acquire) {
                Ok(()) => return Ok(()),
                Err(changed) => now = changed,
            }
        }
    }

    /// Whether nobody but the asker, `mine` times a reader, reads under it.
    ///
    /// # Errors
    /// [`Busy::Held`].
    #[inline]
    pub fn check_sole_reader(&self, mine: u64) -> Result<(), Busy> {
        let now = self.0.load(Ordering::SeqCst);
        if now & READERS == mine * READER {
            return Ok(());
        }
        Err(Busy::Held { oldest: now & AGE })
    }

    /// Whether anybody holds it.
    pub fn is_held(&self) -> bool {
        self.0.load(Ordering::SeqCst) != 0
    }

    /// One reader goes.
    #[inline]
    pub fn unlock_shared(&self) {
        let mut now = self.0.load(Ordering::Relaxed);
        loop {
            let left = now - READER;
            let next = if left & READERS == 0 { 0 } else { left };
            match self.replace(now, next, Ordering::Release) {
                Ok(()) => return,
                Err(changed) => now = changed,
            }
        }
    }

    /// The writer goes.
    #[inline]
    pub fn unlock_exclusive(&self) {
        self.0.store(0, Ordering::Release);
    }

    #[inline]
    fn replace(&self, current: u64, new: u64, order: Ordering) -> Result<(), u64> {
        self.0.compare_exchange(current, new, order, Ordering::Relaxed).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use atoll_machine::Native;

    use super::{Busy, CROWD, Lock};

    const HELD: Result<(), Busy> = Err(Busy::Held { oldest: 3 });

    #[test]
    fn readers_share_and_a_writer_is_alone() {
        let lock = Lock::<Native>::default();
        assert_eq!((lock.lock_shared(5, false), lock.lock_shared(3, false)), (Ok(()), Ok(())));
        assert_eq!(
            (lock.lock_exclusive(0, 1), lock.lock_exclusive(1, 1), lock.check_sole_reader(1)),
            (HELD, HELD, HELD)
        );
        assert_eq!(lock.lock_exclusive(2, 3), Ok(()));
        assert_eq!((lock.lock_shared(9, false), lock.lock_exclusive(0, 1)), (HELD, HELD));
        lock.unlock_exclusive();
        assert_eq!(lock.lock_exclusive(0, 4), Ok(()));
    }

    #[test]
    fn the_age_is_that_of_the_oldest_since_the_lock_was_free() {
        let lock = Lock::<Native>::default();
        for age in [7, 3, 9] {
            lock.lock_shared(age, false).expect("readers share");
        }
        lock.unlock_shared();
        assert_eq!(lock.check_sole_reader(0), HELD);
        lock.unlock_shared();
        lock.unlock_shared();
        assert!(!lock.is_held());
        lock.lock_shared(8, false).expect("it is free");
        assert_eq!(lock.lock_exclusive(0, 1), Err(Busy::Held { oldest: 8 }));
    }

    #[test]
    fn a_crowd_of_readers_is_told_to_look_first() {
        let lock = Lock::<Native>::default();
        (0..CROWD).for_each(|_| lock.lock_shared(1, false).expect("below the crowd"));
        assert_eq!(lock.lock_shared(1, false), Err(Busy::Crowded));
        assert_eq!(lock.lock_shared(1, true), Ok(()));
    }
}
