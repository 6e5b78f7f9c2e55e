//! Removing entries, and nodes that became empty.
//!
//! Remove
//! 1. Descend, latch the leaf at the version that was read, remove the entry, unlatch.
//! 2. If the leaf is now empty, tidy: give its range to a sibling, the left one if there is one,
//!    and repeat for that one if it is empty too. So a leaf that had to stay because its join was
//!    refused is removed together with its right neighbour.
//! 3. An inner node with one child left hands the child over to a sibling with a free slot; a root
//!    with one child is replaced by that child.
//!
//! Nodes that are not empty are never joined.

use atoll_machine::Machine;

use super::entry_position::EntryPosition;
use super::node::{Changed, SLOTS, Visit};
use super::walk::{ANCHOR, Step, common, fences_of};
use super::{GuardId, OrderedIndex};

impl<M: Machine> OrderedIndex<M> {
    /// One attempt at a removal; returns the guard, and whether the leaf is empty now.
    pub(super) fn try_remove(
        &self,
        place: &EntryPosition<'_>,
        leaving: &mut dyn FnMut(GuardId),
    ) -> Result<Option<(GuardId, bool)>, Changed> {
        let step = self.descend(|node| self.child_for(node, place), |_| Ok(()))?;
        let leaf = step.here;
        let (at, is_there) = self.position(leaf.node, place);
        if !is_there {
            leaf.validate()?;
            return Ok(None);
        }
        let mut held = leaf.latch()?;
        let node = held.change();
        let (payload, guard) = (node.payload(at), node.guard());
        leaving(guard);
        node.remove_slot(at);
        let is_empty = node.count() == 0;
        drop(held);
        self.arena.release(payload);
        Ok(Some((guard, is_empty)))
    }

    /// One attempt to remove the leaf of a position if it is empty; returns whether to repeat.
    pub(super) fn try_tidy(
        &self,
        place: &EntryPosition<'_>,
        join: &mut dyn FnMut(GuardId, GuardId) -> bool,
    ) -> Result<bool, Changed> {
        let step =
            self.descend(|node| self.child_for(node, place), |step| self.thin_inner(step))?;
        let Step { parent, at, here: leaf, .. } = step;
        let siblings = parent.node.count();
        let is_done = leaf.node.count() > 0 || siblings == 0;
        leaf.validate()?;
        parent.validate()?;
        if is_done {
            return Ok(false);
        }
        let left = at.saturating_sub(1);
        let into = self.visit(parent.node.child(if at == 0 { 1 } else { left }));
        let [low, high] = self.fence_keys(fences_of(parent, step.parent_fences, left, left + 1))?;
        let mut parent = parent.latch()?;
        let mut from = leaf.latch()?;
        let mut into = into.latch()?;
        let guards = (leaf.node.guard(), into.node().guard());
        if guards.0 != guards.1 && !join(guards.0, guards.1) {
            return Ok(false);
        }
        self.set_prefix(into.change(), common(&low, &high));
        let parent = parent.change();
        let separator = parent.payload(left);
        parent.remove_child(at);
        parent.remove_slot(left);
        self.leaves.give_back(leaf.id, from.change());
        self.guards.leave(guards.0);
        self.arena.release(separator);
        Ok(true)
    }

    /// Removes an inner node with one child, if possible; the descent then restarts.
    fn thin_inner(&self, step: &Step<'_, M>) -> Result<(), Changed> {
        let (parent, here) = (step.parent, step.here);
        if here.node.count() > 0 {
            return Ok(());
        }
        if parent.id == ANCHOR {
            let mut parent = parent.latch()?;
            let mut held = here.latch()?;
            parent.change().set_child(0, here.node.child(0));
            self.inners.give_back(here.id, held.change());
            return Err(Changed);
        }
        let siblings = parent.node.count();
        let (left, right) = (step.at.checked_sub(1), step.at + 1);
        if let Some(left) = left {
            let sibling = self.visit(parent.node.child(left));
            parent.validate()?;
            if sibling.node.count() < SLOTS {
                return self.hand_over(step, sibling, left);
            }
        }
        if right <= siblings {
            let sibling = self.visit(parent.node.child(right));
            parent.validate()?;
            if sibling.node.count() < SLOTS {
                return self.hand_over(step, sibling, step.at);
            }
        }
        Ok(())
    }

    /// Moves the only child of an inner node to a sibling. `left` is the position of the left one
    /// of the two, and of the separator between them, which moves down with the child.
    fn hand_over(
        &self,
        step: &Step<'_, M>,
        sibling: Visit<'_, M>,
        left: usize,
    ) -> Result<(), Changed> {
        let here = step.here;
        let is_to_left = left < step.at;
        let fences = fences_of(step.parent, step.parent_fences, left, left + 1);
        let [low, high] = self.fence_keys(fences)?;
        let mut parent = step.parent.latch()?;
        let mut held = here.latch()?;
        let mut into = sibling.latch()?;
        let (parent, into) = (parent.change(), into.change());
        self.set_prefix(into, common(&low, &high));
        let separator = parent.payload(left);
        let head = self.head_for(parent.prefix(), parent.head(left), separator, into.skip());
        let only = here.node.child(0);
        let end = into.count();
        if is_to_left {
            into.insert_child(end + 1, only);
            into.insert_slot(end, head, separator);
        } else {
            into.insert_child(0, only);
            into.insert_slot(0, head, separator);
        }
        parent.remove_child(step.at);
        parent.remove_slot(left);
        self.inners.give_back(here.id, held.change());
        Err(Changed)
    }
}
