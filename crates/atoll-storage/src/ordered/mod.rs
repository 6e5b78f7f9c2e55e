//! The ordered index: it maps key bytes to rows, in the order of the bytes.
//!
//! A B+-tree in which readers write nothing. A node has a version; a reader reads a node, then
//! checks that the version is unchanged, and restarts otherwise. A writer latches only the nodes
//! that it changes (optimistic latch coupling: Leis, Scheibner, Kemper and Neumann, "The ART of
//! practical synchronization", DaMoN 2016). Every shared word is a [`Machine::Word`], so a read
//! that races with a change is defined behaviour; its result is discarded.
//!
//! Entries are pairs of key and row, ordered by both, so one key may have several rows. [`encode`]
//! turns values into key bytes. A slot of a node holds the head of a key: the 8 bytes that follow
//! the common prefix of all keys of the node's range. A key of at most 8 bytes is stored in the
//! slot as a whole; a longer key is stored in an arena of the index.
//!
//! Guards
//!
//! Every leaf has a guard: a number under which the user of the index (the scheme) keeps the gap
//! state of the leaf's range, so that it detects a new entry in a range that was scanned. Leaves
//! share a guard where a split was refused a new one.
//! - `ORDERED-1`: a scan observes the guard of a leaf before it validates the leaf; an insert makes
//!   its entry visible before it returns the guard. Both use sequentially consistent accesses here
//!   (`NODE-3`). If the state of guards is accessed in the same way, an insert into a range that a
//!   scan has read without the entry finds the observation.
//! - `ORDERED-2`: a range changes its guard only in a split or join of which the callback `split`
//!   or `join` was informed, while the leaves are latched and before another thread can find the
//!   new guard.
//! - `ORDERED-3`: the number of a guard without leaves is offered again. The user of the index may
//!   still keep state under it for the former leaves; that state protects more than necessary,
//!   which is safe.
//!
//! Invariants of the parts: `node`, `pool`, `guards`, `arena`, `walk`.
//!
//! No operation here fails. If a callback panics, the latches are released and the tree is as it
//! was before the split or the join: the entry that was to be inserted is absent, the entry that
//! was removed stays removed, and the empty leaf stays.

mod arena;
mod build;
mod cursor;
pub mod encode;
mod entry_position;
mod grow;
mod guards;
mod insert_run;
mod node;
mod pool;
mod shrink;
mod spot;
mod walk;

use std::ops::Bound;

use atoll_machine::Machine;

pub use build::{BuiltTree, EntryRun};
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

/// The number of a leaf's guard, which a scheme locks or validates to keep a range free of
/// phantoms. Numbers are small and dense, from 0.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct GuardId(pub u32);

/// A range of keys and the direction of the scan.
#[derive(Clone, Copy, Debug)]
pub struct KeyRange<'k> {
    /// Lower bound.
    pub from: Bound<&'k [u8]>,
    /// Upper bound.
    pub to: Bound<&'k [u8]>,
    /// Whether the scan begins with the greatest key.
    pub descending: bool,
}

/// The size of an index. Nodes, words and guards that are free for reuse are included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Size {
    /// Leaves, of 1 KiB each on the real machine.
    pub leaves: u64,
    /// Inner nodes, of 1.5 KiB each.
    pub inner_nodes: u64,
    /// Words for keys of more than 8 bytes.
    pub key_words: u64,
    /// Guards allocated.
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
    /// Inserts an entry, unless it is present. Returns the guard of the entry's leaf at the time
    /// when the entry became visible.
    ///
    /// Before a leaf is split, `split(old, new)` decides whether the right half gets the guard
    /// `new` (true) or shares `old` (false). It is called under latches: it must not use this
    /// index.
    pub fn insert(
        &self,
        key: &[u8],
        row: RowId,
        split: &mut dyn FnMut(GuardId, GuardId) -> bool,
    ) -> GuardId {
        self.insert_place(&EntryPosition::entry(key, row), None, split)
    }

    /// `payload` is the payload of the entry, if one is allocated already.
    fn insert_place(
        &self,
        place: &EntryPosition<'_>,
        mut payload: Option<u64>,
        split: &mut dyn FnMut(GuardId, GuardId) -> bool,
    ) -> GuardId {
        retry::<M, _>(|| self.try_insert(place, &mut payload, split))
    }

    /// Removes an entry. Returns the guard of its leaf, or `None` if the entry was absent.
    ///
    /// Before an empty leaf is removed and its range joins a neighbour's, `join(from, into)`
    /// decides whether it may (true). It is called under latches: it must not use this index. It is
    /// not called if both leaves share a guard. Other leaves may keep sharing `from`.
    pub fn remove(
        &self,
        key: &[u8],
        row: RowId,
        join: &mut dyn FnMut(GuardId, GuardId) -> bool,
    ) -> Option<GuardId> {
        self.remove_with(key, row, &mut |_| (), join)
    }

    /// As [`OrderedIndex::remove`]; calls `leaving(guard)` while the leaf is latched and the entry
    /// is still present, so a reader that finds the entry removed reads after the call. `leaving`
    /// must not use this index.
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

    /// Whether an entry is present.
    pub fn has(&self, key: &[u8], row: RowId) -> bool {
        let place = EntryPosition::entry(key, row);
        retry::<M, _>(|| {
            let leaf = self.descend(|node| self.child_for(node, &place), |_| Ok(()))?.here;
            let (_, is_there) = self.position(leaf.node, &place);
            leaf.validate().map(|()| is_there)
        })
    }

    /// Bytes of the index that are in memory and not in the heap.
    pub fn resident_bytes(&self) -> u64 {
        self.leaves.resident_bytes() + self.inners.resident_bytes() + self.arena.resident_bytes()
    }

    /// The size of the index.
    pub fn size(&self) -> Size {
        Size {
            leaves: self.leaves.used(),
            inner_nodes: self.inners.used(),
            key_words: self.arena.used_words(),
            guards: self.guards.used(),
        }
    }
}
