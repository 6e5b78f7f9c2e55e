//! The reader-writer lock of a row or a gap: one word.
//!
//! 0 means free. Otherwise the word holds a bit for a writer, the number of readers, and a bound on
//! the age of the oldest holder. Ages are only compared; the smaller age is the older one. A reader
//! that unlocks leaves its age in the word until the last reader unlocks, so the age may be older
//! than every holder but is never younger than one.

use atoll_machine::{Machine, Ordering, Word, zero_default};

const EXCLUSIVE: u64 = 1 << 63;
const READER: u64 = 1 << AGE_BITS;
const READERS: u64 = (EXCLUSIVE - 1) & !AGE;
const AGE: u64 = READER - 1;
/// Bits of an age.
pub const AGE_BITS: u32 = 50;
/// From this many readers on, the lock asks a reader to check first whether it holds the lock.
const CROWD: u64 = 1 << 10;

/// See the module.
pub struct Lock<M: Machine>(M::Word);

/// A lock that was not granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Busy {
    /// Other transactions, or the caller itself, hold it.
    Held {
        /// A bound on the age of the oldest holder.
        oldest: u64,
    },
    /// There are so many readers that the caller should first check whether it is one of them.
    Crowded,
}

zero_default!([M: Machine] Lock<M> { 0 });

const fn with_age(flags: u64, age: u64) -> u64 {
    flags | (age & AGE)
}

impl<M: Machine> Lock<M> {
    /// Locks it shared, unless a writer holds it. With `crowd`, the number of readers does not
    /// matter.
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
            // Sequentially consistent, since a reader of a gap searches an index afterwards.
            match self.replace(now, with_age(readers + READER, oldest), Ordering::SeqCst) {
                Ok(()) => return Ok(()),
                Err(changed) => now = changed,
            }
        }
    }

    /// Locks it exclusively, unless another transaction holds it; the caller itself holds it shared
    /// `mine` times.
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

    /// Checks that no other transaction holds it shared; the caller itself does so `mine` times.
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

    /// Whether any transaction holds it.
    pub fn is_held(&self) -> bool {
        self.0.load(Ordering::SeqCst) != 0
    }

    /// Unlocks it for one reader.
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

    /// Unlocks it for the writer.
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
