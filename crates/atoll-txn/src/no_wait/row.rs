//! The lock beside a row: one word.
//!
//! 0 is free, [`OWNED`] is held by one writer, any other value is the number of readers.

use atoll_machine::{Machine, Ordering, Word};

const OWNED: u64 = 1 << 63;

/// See the module.
pub struct Lock<M: Machine>(M::Word);

impl<M: Machine> Default for Lock<M> {
    fn default() -> Self {
        Self(M::Word::new(0))
    }
}

impl<M: Machine> Lock<M> {
    /// Becomes one of its readers, unless a writer holds it.
    #[inline]
    pub fn try_share(&self) -> bool {
        let mut readers = self.0.load(Ordering::Relaxed);
        while readers != OWNED {
            match self.replace(readers, readers + 1) {
                Ok(()) => return true,
                Err(now) => readers = now,
            }
        }
        false
    }

    /// Becomes its writer, unless anybody holds it.
    #[inline]
    pub fn try_own(&self) -> bool {
        self.replace(0, OWNED).is_ok()
    }

    /// Turns from its only reader into its writer.
    #[inline]
    pub fn try_upgrade(&self) -> bool {
        self.replace(1, OWNED).is_ok()
    }

    /// One reader goes.
    #[inline]
    pub fn release_shared(&self) {
        self.0.fetch_sub(1, Ordering::Release);
    }

    /// The writer goes.
    #[inline]
    pub fn release_owned(&self) {
        self.0.store(0, Ordering::Release);
    }

    fn replace(&self, current: u64, new: u64) -> Result<(), u64> {
        self.0.compare_exchange(current, new, Ordering::Acquire, Ordering::Relaxed).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use atoll_machine::Native;

    use super::Lock;

    #[test]
    fn readers_share_and_a_writer_is_alone() {
        let lock = Lock::<Native>::default();
        assert!(lock.try_share() && lock.try_share());
        assert!(!lock.try_own() && !lock.try_upgrade());
        lock.release_shared();
        assert!(lock.try_upgrade());
        assert!(!lock.try_share() && !lock.try_own());
        lock.release_owned();
        assert!(lock.try_own());
    }
}
