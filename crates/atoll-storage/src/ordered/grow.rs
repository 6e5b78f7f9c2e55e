//! Inserting entries and splitting full nodes.
//!
//! Insert
//! 1. Descend; split every full inner node on the way and restart, so that the parent of a leaf has
//!    a free slot.
//! 2. If the leaf has a free slot: latch it at the version that was read, insert the entry,
//!    unlatch. The entry is visible from then on.
//! 3. If the leaf is full: plan the separator and both prefixes from what was read, latch parent
//!    and leaf at the versions that were read, let the caller decide which guard the right half
//!    gets, fill the right half, insert it into the parent, insert the entry into its half,
//!    unlatch.
//!
//! A leaf that is filled at its end, as by rising keys, is split at its end and stays full.

use atoll_machine::Machine;

use super::entry_position::{EntryPosition, head_of};
use super::node::{Changed, Latched, Node, NodeId, Prefix, SLOTS, Visit};
use super::walk::{ANCHOR, Step, common};
use super::{GuardId, OrderedIndex};

/// The plan of a split, made before anything is latched.
struct Plan {
    /// Number of entries (with their children) that stay in the left node.
    stay: usize,
    /// Key and row of the separator.
    key: Vec<u8>,
    row: u64,
    left: Prefix,
    right: Prefix,
}

impl Plan {
    fn separator(&self) -> EntryPosition<'_> {
        EntryPosition::new(&self.key, self.row)
    }
}

impl<M: Machine> OrderedIndex<M> {
    /// One attempt at an insert. `payload` is kept between attempts.
    pub(super) fn try_insert(
        &self,
        place: &EntryPosition<'_>,
        payload: &mut Option<u64>,
        split: &mut dyn FnMut(GuardId, GuardId) -> bool,
    ) -> Result<GuardId, Changed> {
        let step = self.descend(
            |node| self.child_for(node, place),
            |step| if step.here.node.count() < SLOTS { Ok(()) } else { self.split_inner(step) },
        )?;
        let leaf = step.here;
        let position = self.position(leaf.node, place);
        if let Some(guard) = self.try_put(leaf, place, position, payload)? {
            return Ok(guard);
        }
        let guard = leaf.node.guard();
        let plan = self.plan_leaf(&step, place, position.0)?;
        let payload = *payload.get_or_insert_with(|| self.arena.store(place));
        let mut parent = step.parent.latch()?;
        let mut held = leaf.latch()?;
        let node = held.change();
        let offer = self.guards.offer().filter(|offer| split(guard, offer.id()));
        let (right, _right_latch) = self.move_right(node, &plan, true);
        let right_guard = match offer {
            Some(offer) => offer.accept(),
            None => {
                self.guards.share(guard);
                guard
            }
        };
        right.node.set_meta(right.node.count(), right_guard);
        self.hang(parent.change(), step.parent.id, step.at, leaf.id, right.id, &plan);
        let target = if *place < plan.separator() { node } else { right.node };
        let (at, _) = self.position(target, place);
        target.insert_slot(at, head_of(place.key(), target.skip()), payload);
        Ok(target.guard())
    }

    /// Inserts an entry at its position into the leaf, unless the entry is present; `None` if the
    /// leaf is full.
    pub(super) fn try_put(
        &self,
        leaf: Visit<'_, M>,
        place: &EntryPosition<'_>,
        (at, is_there): (usize, bool),
        payload: &mut Option<u64>,
    ) -> Result<Option<GuardId>, Changed> {
        let guard = leaf.node.guard();
        if is_there {
            leaf.validate()?;
            if let Some(payload) = payload.take() {
                self.arena.release(payload);
            }
            return Ok(Some(guard));
        }
        if leaf.node.count() == SLOTS {
            return Ok(None);
        }
        let payload = *payload.get_or_insert_with(|| self.arena.store(place));
        let mut held = leaf.latch()?;
        let node = held.change();
        node.insert_slot(at, head_of(place.key(), node.skip()), payload);
        Ok(Some(guard))
    }

    /// Plans the split of a full leaf into which a position is to be inserted.
    fn plan_leaf(
        &self,
        step: &Step<'_, M>,
        place: &EntryPosition<'_>,
        at: usize,
    ) -> Result<Plan, Changed> {
        let node = step.here.node;
        let stay = if at == SLOTS { SLOTS } else { SLOTS / 2 };
        let (mut below, mut key) = (Vec::new(), Vec::new());
        let low_row = self.entry(node, stay - 1, &mut below)?;
        let mut row = place.row();
        if stay < SLOTS {
            row = self.entry(node, stay, &mut key)?;
        } else {
            key.extend_from_slice(place.key());
        }
        step.here.validate()?;
        debug_assert!(EntryPosition::new(&below, low_row) < EntryPosition::new(&key, row));
        // The shortest prefix of the right key that is greater than the left key separates them.
        if below != key {
            key.truncate(common(&below, &key).skip + 1);
            row = 0;
        }
        self.plan(step, stay, key, row)
    }

    fn plan(
        &self,
        step: &Step<'_, M>,
        stay: usize,
        key: Vec<u8>,
        row: u64,
    ) -> Result<Plan, Changed> {
        let [low, high] = self.fence_keys(step.fences)?;
        let (left, right) = (common(&low, &key), common(&key, &high));
        Ok(Plan { stay, key, row, left, right })
    }

    /// Splits a full inner node; the descent restarts.
    fn split_inner(&self, step: &Step<'_, M>) -> Result<(), Changed> {
        // With rising keys, the left node stays nearly full.
        let is_last = step.fences.high.is_none();
        let stay = if is_last { SLOTS - 2 } else { SLOTS / 2 };
        let mut key = Vec::new();
        let row = self.entry(step.here.node, stay, &mut key)?;
        step.here.validate()?;
        let plan = self.plan(step, stay, key, row)?;
        let mut parent = step.parent.latch()?;
        let mut held = step.here.latch()?;
        let node = held.change();
        let middle = node.payload(stay);
        let (right, _right_latch) = self.move_right(node, &plan, false);
        self.hang(parent.change(), step.parent.id, step.at, step.here.id, right.id, &plan);
        self.arena.release(middle);
        Err(Changed)
    }

    /// Moves the entries that do not stay into a new node. The middle entry of an inner node goes
    /// into neither half: it is the separator.
    fn move_right(
        &self,
        node: &Node<M>,
        plan: &Plan,
        is_leaf: bool,
    ) -> (Visit<'_, M>, Latched<'_, M>) {
        let pool = if is_leaf { &self.leaves } else { &self.inners };
        let right = pool.take();
        let mut latch = right.latch().expect("no other thread can reach the node");
        let to = latch.change();
        let (old, count) = (node.prefix(), node.count());
        let first = plan.stay + usize::from(!is_leaf);
        for at in first..count {
            let payload = node.payload(at);
            let head = self.head_for(old, node.head(at), payload, plan.right.skip);
            to.set_slot(at - first, head, payload);
        }
        if !is_leaf {
            (first..=count).for_each(|at| to.set_child(at - first, node.child(at)));
        }
        to.set_meta(count - first, GuardId(0));
        to.set_prefix(plan.right);
        node.truncate(plan.stay);
        self.set_prefix(node, plan.left);
        (right, latch)
    }

    /// Inserts a new node into the parent, to the right of the child at `at`. If the child was the
    /// root, a new root is made.
    fn hang(
        &self,
        parent: &Node<M>,
        parent_id: NodeId,
        at: usize,
        left: NodeId,
        right: NodeId,
        plan: &Plan,
    ) {
        let separator = plan.separator();
        let payload = self.arena.store(&separator);
        if parent_id != ANCHOR {
            parent.insert_child(at + 1, right);
            return parent.insert_slot(at, head_of(&plan.key, parent.skip()), payload);
        }
        let root = self.inners.take();
        let mut held = root.latch().expect("no other thread can reach the node");
        let node = held.change();
        node.set_prefix(Prefix::default());
        node.set_child(0, left);
        node.set_child(1, right);
        node.set_slot(0, head_of(&plan.key, 0), payload);
        node.set_meta(1, GuardId(0));
        parent.set_child(0, root.id);
    }
}
