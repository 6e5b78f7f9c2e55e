//! Holding a row for a moment, for readers whom writers overtake.
//!
//! Who reads a row without holding it reads again what has changed meanwhile. Should its look at
//! the row take longer than the row stays as it is, that might never end. So after some tries it
//! holds the row while it looks, or leaves the gate and begins anew if somebody else has it. It
//! holds nothing else for that, nor waits, and leaves the row's word as it was: nothing has been
//! stored.

use atoll_machine::{Machine, Ordering, Word};

/// Looks at a row in vain, after which its reader holds it.
pub const LOOKS: u32 = 3;

/// A row is held as long as this lives.
pub struct RowLatch<'w, M: Machine> {
    word: &'w M::Word,
    before: u64,
}

impl<'w, M: Machine> RowLatch<'w, M> {
    /// Holds the row of a word by making `held` of `free`; `None` if the word is another.
    pub fn begin(word: &'w M::Word, free: u64, held: u64) -> Option<Self> {
        word.compare_exchange(free, held, Ordering::SeqCst, Ordering::SeqCst).ok()?;
        Some(Self { word, before: free })
    }

    /// The word as it was, and will be.
    pub fn before(&self) -> u64 {
        self.before
    }
}

/// By a reader's panic, too.
impl<M: Machine> Drop for RowLatch<'_, M> {
    fn drop(&mut self) {
        self.word.store(self.before, Ordering::SeqCst);
    }
}
