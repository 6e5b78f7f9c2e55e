//! Finding the leaf of an entry before the entry is inserted.
//!
//! The last step of a descent waits for the cache lines of a leaf, which no thread has used lately.
//! A caller that has other work before it inserts an entry descends first, prefetches the leaf, and
//! remembers its position as a spot. If the parent has not changed by the time of the insert, the
//! leaf is still the right one.

use atoll_machine::Machine;

use super::entry_position::EntryPosition;
use super::node::{Changed, NodeId, Visit};
use super::{GuardId, OrderedIndex};
use crate::layout::RowId;

/// The leaf into which the first entry of a key would be inserted, and its parent at the version
/// with which it led there.
#[derive(Debug, Clone, Copy)]
pub struct Spot {
    leaf: NodeId,
    parent: NodeId,
    /// Version of the parent.
    version: u64,
    /// Position of the leaf among the parent's children.
    at: usize,
}

impl<M: Machine> OrderedIndex<M> {
    /// Finds the leaf into which an entry with this key will probably be inserted, and prefetches
    /// its cache lines without waiting for them. `None` if another thread is changing the nodes
    /// above it.
    pub fn prefetch_leaf(&self, key: &[u8]) -> Option<Spot> {
        self.try_prefetch_leaf(&EntryPosition::new(key, 0)).ok()
    }

    fn try_prefetch_leaf(&self, place: &EntryPosition<'_>) -> Result<Spot, Changed> {
        let (mut parent, mut at) = (self.anchor(), 0);
        loop {
            let child = parent.node.child(at);
            parent.validate()?; // `NODEPOOL-1`: it was a child, so it is a node
            if child.is_leaf() {
                self.node(child).prefetch_all();
                let version = parent.version();
                return Ok(Spot { leaf: child, parent: parent.id, version, at });
            }
            let here = self.visit(child);
            parent.validate()?;
            at = self.child_for(here.node, place);
            parent = here;
        }
    }

    /// As [`OrderedIndex::insert`], with the `spot` that [`OrderedIndex::prefetch_leaf`] of this
    /// index has returned for the key; with any other spot, entries are lost.
    pub fn insert_at(
        &self,
        spot: Spot,
        key: &[u8],
        row: RowId,
        split: &mut dyn FnMut(GuardId, GuardId) -> bool,
    ) -> GuardId {
        let place = EntryPosition::entry(key, row);
        let mut payload = None;
        match self.try_insert_at(spot, &place, &mut payload) {
            Ok(Some(guard)) => guard,
            // The leaf is not the right one any more, or it is full.
            Ok(None) | Err(Changed) => self.insert_place(&place, payload, split),
        }
    }

    fn try_insert_at(
        &self,
        spot: Spot,
        place: &EntryPosition<'_>,
        payload: &mut Option<u64>,
    ) -> Result<Option<GuardId>, Changed> {
        let parent = Visit::at(spot.parent, self.node(spot.parent), spot.version);
        let leaf = self.visit(spot.leaf);
        // The first entry of the key still belongs into this leaf: the parent has not changed since
        // before the visit of the leaf began, as in a descent ([`super::walk`]). So the position is
        // not before the leaf's range, but it may be behind it, unless the leaf has a greater entry
        // or the separator behind the leaf is greater.
        let position = self.position(leaf.node, place);
        let is_inside = position.0 < leaf.node.count()
            || (spot.at < parent.node.count() && self.child_for(parent.node, place) == spot.at);
        let is_its_spot = || {
            let first = EntryPosition::new(place.key(), 0);
            (self.child_for(parent.node, &first), parent.node.child(spot.at))
                == (spot.at, spot.leaf)
        };
        let is_its_spot = !cfg!(debug_assertions) || is_its_spot();
        parent.validate()?;
        debug_assert!(is_its_spot, "{spot:?} is no spot of {place:?}");
        if is_inside { self.try_put(leaf, place, position, payload) } else { Ok(None) }
    }
}
