//! The ordered index: from key bytes to rows, in the order of the bytes.
//!
//! A B+-tree whose readers write nothing. A node has a version; a reader reads a node and then asks
//! whether the version is still the same, and begins again if not. A writer latches the nodes that
//! it changes and no others (optimistic latch coupling: Leis, Scheibner, Kemper and Neumann, "The
//! ART of practical synchronization", DaMoN 2016). Every shared word is a [`Machine::Word`], so
//! reading beside a change is defined, only useless.
//!
//! Entries are pairs of key and row, ordered by both, so one key may stand there with several rows.
//! [`encode`] makes key bytes of values. A slot of a node holds the 8 bytes of the key that follow
//! what all keys of the node's range have in common; the whole key lies in the slot if it has at
//! most 8 bytes and in an arena of the index otherwise.
//!
//! Guards
//!
//! Every leaf has a guard: a number under which whoever uses the index keeps what it must know
//! about the leaf's range, so that no entry appears in a range that was scanned. Leaves share a
//! guard where a split was refused.
//! - `ORDERED-1`: a scan observes the guard of a leaf and validates the leaf after that; an insert
//!   makes its entry visible and returns the guard then. Both use sequentially consistent words
//!   here (`NODE-3`); if the state of guards is read and written so too, an insert into a range
//!   that a scan has read without it finds the observation.
//! - `ORDERED-2`: a range changes its guard only where `split` or `join` was told, while the leaves
//!   are latched and before anybody can find the new guard.
//! - `ORDERED-3`: the number of a guard whose last leaf has gone is offered again. Whoever uses the
//!   index may still keep something under it, of leaves that were there before, and then keeps more
//!   free than it must.
//!
//! Invariants of the parts: `node`, `pool`, `guards`, `arena`, `walk`.
//!
//! Nothing here fails. If a callback panics, the latches are released and the tree is as it was
//! before the split or the join: the entry that was to be added is not there, the one that was
//! taken out is gone, the empty leaf has stayed.

mod arena;
mod cursor;
pub mod encode;
mod entry_position;
mod grow;
mod guards;
mod node;
mod pool;
mod shrink;
mod spot;
mod walk;

use std::ops::Bound;

use atoll_machine::Machine;

pub use cursor::{Batch, Found};
pub use entry_position::KEY_BYTES_MAX;
pub use spot::Spot;

use crate::layout::RowId;
use arena::Arena;
use entry_position::EntryPosition;
use guards::Guards;
use pool::Pool;
use walk::{ANCHOR, retry};

/// See the module.
pub struct OrderedIndex<M: Machine> {
    leaves: Pool<M>,
    inners: Pool<M>,
    arena: Arena<M>,
    guards: Guards<M>,
}

/// Number of the guard of a leaf: what is locked or validated to keep a range free of phantoms.
/// Small and dense, from 0.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct GuardId(pub u32);

/// Keys between two bounds, and from which end they are wanted.
#[derive(Clone, Copy, Debug)]
pub struct KeyRange<'k> {
    /// Lower bound.
    pub from: Bound<&'k [u8]>,
    /// Upper bound.
    pub to: Bound<&'k [u8]>,
    /// Whether the greatest key comes first.
    pub descending: bool,
}

/// What an index has grown to. Nodes, words and guards that became free are used again and count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Size {
    /// Leaves, of 1 KiB each on the real machine.
    pub leaves: u64,
    /// Inner nodes, of 1.5 KiB each.
    pub inner_nodes: u64,
    /// Words for keys of more than 8 bytes.
    pub key_words: u64,
    /// Guards given out.
    pub guards: u64,
}

impl<M: Machine> Default for OrderedIndex<M> {
    fn default() -> Self {
        let index = Self {
            leaves: Pool::new(true),
            inners: Pool::new(false),
            arena: Arena::default(),
            guards: Guards::new(),
        };
        let anchor = index.inners.take();
        debug_assert_eq!(anchor.id, ANCHOR);
        anchor.node.set_child(0, index.leaves.take().id);
        index
    }
}

impl<M: Machine> OrderedIndex<M> {
    /// Adds an entry, if it is not there. Returns the guard of the leaf that it is in, as it was
    /// when the entry became visible.
    ///
    /// Before a leaf is split, `split(old, new)` says whether the right half shall have the guard
    /// `new` (true) or share `old` (false). It is called under latches: it must not use this index.
    pub fn insert(
        &self,
        key: &[u8],
        row: RowId,
        split: &mut dyn FnMut(GuardId, GuardId) -> bool,
    ) -> GuardId {
        self.insert_place(&EntryPosition::entry(key, row), None, split)
    }

    /// `payload` is that of the place, if it has one already.
    fn insert_place(
        &self,
        place: &EntryPosition<'_>,
        mut payload: Option<u64>,
        split: &mut dyn FnMut(GuardId, GuardId) -> bool,
    ) -> GuardId {
        retry::<M, _>(|| self.try_insert(place, &mut payload, split))
    }

    /// Takes an entry out. Returns the guard of the leaf it was in, or `None` if it was not there.
    ///
    /// Before an empty leaf goes and its range joins a neighbour's, `join(from, into)` says whether
    /// it may (true). It is called under latches: it must not use this index. It is not called if
    /// both leaves share a guard. Other leaves may go on sharing `from`.
    pub fn remove(
        &self,
        key: &[u8],
        row: RowId,
        join: &mut dyn FnMut(GuardId, GuardId) -> bool,
    ) -> Option<GuardId> {
        self.remove_with(key, row, &mut |_| (), join)
    }

    /// As [`OrderedIndex::remove`]; `leaving(guard)` is called while the leaf is latched and the
    /// entry is still there, so whoever finds it gone comes after the call. It must not use this
    /// index.
    pub fn remove_with(
        &self,
        key: &[u8],
        row: RowId,
        leaving: &mut dyn FnMut(GuardId),
        join: &mut dyn FnMut(GuardId, GuardId) -> bool,
    ) -> Option<GuardId> {
        let place = EntryPosition::entry(key, row);
        let (guard, is_empty) = retry::<M, _>(|| self.try_remove(&place, leaving))?;
        if is_empty {
            while retry::<M, _>(|| self.try_tidy(&place, join)) {}
        }
        Some(guard)
    }

    /// Whether an entry is there.
    pub fn has(&self, key: &[u8], row: RowId) -> bool {
        let place = EntryPosition::entry(key, row);
        retry::<M, _>(|| {
            let leaf = self.descend(|node| self.child_for(node, &place), |_| Ok(()))?.here;
            let (_, is_there) = self.position(leaf.node, &place);
            leaf.validate().map(|()| is_there)
        })
    }

    /// What the index has grown to.
    pub fn size(&self) -> Size {
        Size {
            leaves: self.leaves.used(),
            inner_nodes: self.inners.used(),
            key_words: self.arena.used_words(),
            guards: self.guards.used(),
        }
    }
}
