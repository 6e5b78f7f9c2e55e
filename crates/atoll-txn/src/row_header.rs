//! Row headers: for each slot of a table, the hash of its key and the scheme's state of the row.
//!
//! Both are on one cache line. A lookup that has found an index entry needs this line for the
//! state anyway, and checks with it whether the row has the key.
//!
//! - `ROWS-1`: the inserter sets the hash of a slot under the latch under which it adds the row to
//!   the hash index. The hash is cleared before the index entry is removed. So a slot with a hash
//!   holds *the* row of a key with this hash, even for a reader that found the slot when it held an
//!   earlier row, or that has not searched the index at all. A slot that an inserter claimed but
//!   did not use, because another inserter of the key was faster, never gets the hash. If the hash
//!   were cleared after the entry, a reader that does not search the index could take a row that is
//!   gone for the row of its key, although a new row has the key already.
//! - `ROWS-2`: a partitioned scheme has no row state, so the header holds only the hash; and only
//!   the transaction that holds a partition removes rows of it. So if such a transaction has an
//!   exact prediction ([`Table::is_exact`]) of a row, it uses [`RowHeader::of_any`], which stays in
//!   the cache, instead of the row's own header, as long as it has not deleted rows itself.
//! - `ROWS-3`: a row that was loaded in bulk or restored gets its header when a transaction first
//!   uses a header of its segment: no transaction can delete a row without it, not even one that
//!   uses [`RowHeader::of_any`]. Until then all headers of the segment follow from the rows: a
//!   present row has the hash of its key and the state after [`Scheme::adopt`], an absent one the
//!   default header.

use atoll_machine::{Machine, Ordering, Word, zero_default};
#[cfg(doc)]
use atoll_storage::Table;
use atoll_storage::key::RESERVED_MAX;

use crate::scheme::Scheme;

/// The hash of a slot to which no index entry leads.
const NO_KEY: u64 = 0;
/// Stored in place of each hash that is a reserved value.
const RESERVED: u64 = 1;
/// Equal to any hash.
const ANY_KEY: u64 = RESERVED_MAX;

/// See the module.
pub struct RowHeader<S: Scheme<M>, M: Machine> {
    hash: M::Word,
    /// The scheme's state of the row.
    pub state: S::State,
}

const _: () = assert!(NO_KEY == 0, "a default word");
zero_default!([S: Scheme<M>, M: Machine] RowHeader<S, M> { hash, state });

const fn stored(hash: u64) -> u64 {
    if hash <= RESERVED_MAX { RESERVED } else { hash }
}

impl<S: Scheme<M>, M: Machine> RowHeader<S, M> {
    /// The header of any row with an exact prediction (`ROWS-2`).
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

    /// Whether an index entry may lead to the slot.
    pub fn is_named(&self) -> bool {
        self.hash.load(Ordering::Acquire) != NO_KEY
    }

    /// Sets the hash; an index entry for the slot is going to be added.
    pub fn set_hash(&self, hash: u64) {
        self.hash.store(stored(hash), Ordering::Release);
    }

    /// Clears the hash; the slot's index entry is going to be removed, and the table has
    /// [invalidated](atoll_storage::Table::invalidate_dense) its dense block.
    pub(crate) fn clear_hash(&self) {
        self.hash.store(NO_KEY, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use atoll_machine::{Native, ZeroDefault};

    use super::RowHeader;
    use crate::scheme::Scheme;
    use crate::schemes::{SchemeKind, SchemeOptions, SchemeVisitor};

    struct Zero;

    impl SchemeVisitor<Native> for Zero {
        type Output = bool;

        fn visit<S: Scheme<Native>>(self, _: S) -> bool {
            RowHeader::<S, Native>::IS_ZERO && !RowHeader::<S, Native>::default().is_named()
        }
    }

    #[test]
    fn the_headers_of_unused_rows_take_no_memory_under_every_scheme() {
        for kind in SchemeKind::ALL {
            assert!(kind.visit(&SchemeOptions::default(), Zero), "{}", kind.name());
        }
    }
}
