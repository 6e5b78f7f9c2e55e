//! Finding the leaf of an entry before the entry is added.
//!
//! The last step down to a leaf waits for a leaf that nobody has used lately. Who has something
//! else to do before it adds an entry goes down first, has the leaf brought in, and remembers where
//! it is; if the node above has not changed by then, the leaf still is the one.

use atoll_machine::Machine;

use super::entry_position::EntryPosition;
use super::node::{Changed, NodeId, Visit};
use super::{GuardId, OrderedIndex};
use crate::layout::RowId;

/// The leaf that the first entry of a key would go into, and the node above it as it was when it
/// led there.
#[derive(Debug, Clone, Copy)]
pub struct Spot {
    leaf: NodeId,
    parent: NodeId,
    /// Of the parent.
    version: u64,
    /// Which child of the parent the leaf is.
    at: usize,
}

impl<M: Machine> OrderedIndex<M> {
    /// Finds the leaf that an entry with this key is likely to go into and brings in its cache
    /// lines, without waiting for them. `None` where somebody is changing the nodes above it.
    pub fn prefetch_leaf(&self, key: &[u8]) -> Option<Spot> {
        self.try_prefetch_leaf(&EntryPosition::new(key, 0)).ok()
    }

    fn try_prefetch_leaf(&self, place: &EntryPosition<'_>) -> Result<Spot, Changed> {
        let (mut parent, mut at) = (self.anchor(), 0);
        loop {
            let child = parent.node.child(at);
            parent.validate()?; // `POOL-1`: it was a child, so it is a node
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

    /// As [`OrderedIndex::insert`], for an entry whose key was approached in this index; with a
    /// spot of anything else, entries are lost.
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
            // The leaf is another, or full.
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
        // The first entry of the key would still go there: the parent has not changed since before
        // the visit of the leaf began, as on the way down ([`super::walk`]). The place does not lie
        // before that, but perhaps behind the leaf, unless an entry of the leaf or the separator
        // behind it does.
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
