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
//! - `ROWS-2`: nothing lies beside rows for a scheme whose transactions are told apart by their
//!   partitions, but the hash; and rows of a partition are given up by who has it. So to such a
//!   transaction a row that is surely that of its key ([`Table::is_exact`]) has [`Meta::of_any`]
//!   beside it, which is in a cache, until it deletes rows itself.

use atoll_machine::{Machine, Ordering, Word};
#[cfg(doc)]
use atoll_storage::Table;
use atoll_storage::key::RESERVED_MAX;

use crate::scheme::Scheme;

/// The hash of a slot that no entry names.
const NO_KEY: u64 = 0;
/// What is kept of any hash that stands for something else.
const RESERVED: u64 = 1;
/// What has any hash.
const ANY_KEY: u64 = RESERVED_MAX;

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
    if hash <= RESERVED_MAX { RESERVED } else { hash }
}

impl<S: Scheme<M>, M: Machine> Meta<S, M> {
    /// What a row has beside it that need not be asked (`ROWS-2`).
    pub(crate) fn of_any() -> Self {
        const { assert!(!S::PARTITIONED || size_of::<S::State>() == 0, "rows share it") };
        Self { hash: M::Word::new(ANY_KEY), state: S::State::default() }
    }

    /// Whether the slot's key has this hash.
    #[inline]
    pub fn has_hash(&self, hash: u64) -> bool {
        let own = self.hash.load(Ordering::Acquire);
        own == stored(hash) || S::PARTITIONED && own == ANY_KEY
    }

    /// Whether an entry may name the slot.
    pub fn is_named(&self) -> bool {
        self.hash.load(Ordering::Acquire) != NO_KEY
    }

    /// An entry is going to name the slot.
    pub fn set_hash(&self, hash: u64) {
        self.hash.store(stored(hash), Ordering::Release);
    }

    /// Its entry is going to be removed, and the table has
    /// [unlearnt](atoll_storage::Table::invalidate_dense) it.
    pub(crate) fn clear_hash(&self) {
        self.hash.store(NO_KEY, Ordering::Release);
    }
}
