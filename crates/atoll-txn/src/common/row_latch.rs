//! A short latch on a row, for readers that writers overtake.
//!
//! A reader that does not hold a row reads again if the row has changed meanwhile. If each read
//! takes longer than the row stays unchanged, this might never end. So after some attempts the
//! reader latches the row while it reads it, or, if another transaction holds the row, leaves the
//! gate and starts over. The reader holds nothing else meanwhile and does not wait. It leaves the
//! row's word as it was, since it has stored nothing.

use atoll_machine::{Machine, Ordering, Word};

/// Attempts to read a row without a latch.
pub const LOOKS: u32 = 3;

/// A latched row; dropping this releases the latch.
pub struct RowLatch<'w, M: Machine> {
    word: &'w M::Word,
    before: u64,
}

impl<'w, M: Machine> RowLatch<'w, M> {
    /// Latches a row by changing its word from `free` to `held`; `None` if the word is not `free`.
    pub fn begin(word: &'w M::Word, free: u64, held: u64) -> Option<Self> {
        word.compare_exchange(free, held, Ordering::SeqCst, Ordering::SeqCst).ok()?;
        Some(Self { word, before: free })
    }

    /// The word before the latch, which will be the word after it.
    pub fn before(&self) -> u64 {
        self.before
    }
}

/// This runs if the reader panics, too.
impl<M: Machine> Drop for RowLatch<'_, M> {
    fn drop(&mut self) {
        self.word.store(self.before, Ordering::SeqCst);
    }
}
