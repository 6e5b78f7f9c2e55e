//! What lies beside the rows of a table: for each slot the hash of its key and a scheme's state.
//!
//! The two lie on one cache line, so that a lookup that has found an entry of the index sees with
//! the line that it needs anyway whether the row has the key.
//!
//! - `ROWS-1`: the hash of a slot is set under the latch under which the index begins to name the
//!   row, and cleared before it ceases to. So a slot that has a hash is that of *the* row of a key
//!   with this hash, even for somebody who found it there in an earlier life, or has not asked the
//!   index at all; one that was claimed and then not used, because another was faster, never has
//!   it. Were it cleared afterwards, who does not ask the index could meanwhile take a row that is
//!   gone for the key's, which has another already.

use atoll_machine::{Machine, Ordering, Word};

use crate::scheme::Scheme;

/// The hash of a slot that no entry names.
const NO_KEY: u64 = 0;

/// See the module.
pub struct Meta<S: Scheme<M>, M: Machine> {
    hash: M::Word,
    /// The scheme's state of the row.
    pub state: S::State,
}

impl<S: Scheme<M>, M: Machine> Default for Meta<S, M> {
    fn default() -> Self {
        Self { hash: M::Word::new(NO_KEY), state: S::State::default() }
    }
}

const fn stored(hash: u64) -> u64 {
    if hash == NO_KEY { 1 } else { hash }
}

impl<S: Scheme<M>, M: Machine> Meta<S, M> {
    /// Whether the slot's key has this hash.
    #[inline]
    pub fn has_hash(&self, hash: u64) -> bool {
        self.hash.load(Ordering::Acquire) == stored(hash)
    }

    /// Whether an entry may name the slot.
    pub fn is_named(&self) -> bool {
        self.hash.load(Ordering::Acquire) != NO_KEY
    }

    /// An entry is going to name the slot.
    pub fn set_hash(&self, hash: u64) {
        self.hash.store(stored(hash), Ordering::Release);
    }

    /// Its entry is going to be removed.
    pub fn clear_hash(&self) {
        self.hash.store(NO_KEY, Ordering::Release);
    }
}
