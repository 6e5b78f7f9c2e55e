//! A gap with a counter of gap inserts, for schemes that validate at commit.
//!
//! The word holds the number and a bit which says that a transaction has read the gap since the
//! number last grew. If the bit is not set, an inserter only loads the word. So the cache line
//! stays in the caches of all inserters, of which there are many more than readers that find a key
//! absent.
//!
//! - `GAP-1`: while a transaction relies on a number, the bit is set or the number has grown.

use atoll_machine::{Machine, Ordering, Word};

const READ: u64 = 1;
const ONE: u64 = 2;

/// See the module.
pub struct Gap<M: Machine>(M::Word);

impl<M: Machine> Default for Gap<M> {
    fn default() -> Self {
        Self(M::Word::new(0))
    }
}

impl<M: Machine> AsRef<Self> for Gap<M> {
    fn as_ref(&self) -> &Self {
        self
    }
}

impl<M: Machine> Gap<M> {
    /// The number of the gap.
    #[inline]
    pub fn number(&self) -> u64 {
        self.0.load(Ordering::SeqCst) / ONE
    }

    /// Registers a reader that relies on the number from now on, and returns the number.
    #[inline]
    pub fn read(&self) -> u64 {
        let mut now = self.0.load(Ordering::SeqCst);
        if now & READ == 0 {
            now = self.0.fetch_or(READ, Ordering::SeqCst);
        }
        now / ONE
    }

    /// If the gap has been read, increments the number and returns the number before. If `still`
    /// returns true, the gap counts as read afterwards, too.
    #[inline]
    pub fn insert(&self, still: impl Fn() -> bool) -> Option<u64> {
        let mut now = self.0.load(Ordering::SeqCst);
        while now & READ != 0 {
            let next = if still() { now + ONE } else { (now & !READ) + ONE };
            match self.0.compare_exchange(now, next, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => return Some(now / ONE),
                Err(changed) => now = changed,
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use atoll_machine::Native;

    use super::Gap;

    #[test]
    fn the_number_grows_when_it_has_been_watched() {
        let gap = Gap::<Native>::default();
        assert_eq!((gap.insert(|| false), gap.number()), (None, 0));
        assert_eq!((gap.read(), gap.read()), (0, 0));
        assert_eq!((gap.insert(|| false), gap.number()), (Some(0), 1));
        assert_eq!((gap.insert(|| false), gap.number()), (None, 1));
        assert_eq!(gap.read(), 1);
        assert_eq!((gap.insert(|| true), gap.insert(|| true), gap.number()), (Some(1), Some(2), 3));
        assert_eq!((gap.insert(|| false), gap.insert(|| true), gap.number()), (Some(3), None, 4));
    }
}
