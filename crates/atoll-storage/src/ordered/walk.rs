//! The descent from the anchor to a leaf, and the ranges of nodes.
//!
//! 1. A descent begins a visit of the child, then validates the visit of the parent: at that moment
//!    the child was the parent's child, in the state with which the visit began.
//! 2. The range of a node changes only while the node is latched. So, while a visit is valid, the
//!    range that was found on the way down is the range of the node, even if nodes above have
//!    changed since.
//!
//! The range of a node is between two fences, which are separators of nodes above it.

use atoll_machine::Machine;

use super::OrderedIndex;
use super::entry_position::{EntryPosition, LONG, ROW_MASK, TAG_SHIFT, head_of};
use super::node::{Changed, Node, NodeId, Prefix, Visit};

/// An inner node without separators; its only child is the root.
pub(super) const ANCHOR: NodeId = NodeId(0);

/// Number of records that are prefetched together when this many entries have equal heads.
const TOUCHED_MAX: usize = 4;

/// The separator at a position of a visited node, or `None` for no bound.
pub(super) type Fence<'i, M> = Option<(Visit<'i, M>, usize)>;

/// The fences of a node.
pub(super) struct Fences<'i, M: Machine> {
    pub(super) low: Fence<'i, M>,
    pub(super) high: Fence<'i, M>,
}

impl<M: Machine> Clone for Fences<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<M: Machine> Copy for Fences<'_, M> {}

/// A node of the descent and its parent.
pub(super) struct Step<'i, M: Machine> {
    pub(super) parent: Visit<'i, M>,
    pub(super) parent_fences: Fences<'i, M>,
    /// Position of the node among the parent's children.
    pub(super) at: usize,
    pub(super) here: Visit<'i, M>,
    pub(super) fences: Fences<'i, M>,
}

/// The fences of the children `first..=last` of a node.
pub(super) fn fences_of<'i, M: Machine>(
    parent: Visit<'i, M>,
    parent_fences: Fences<'i, M>,
    first: usize,
    last: usize,
) -> Fences<'i, M> {
    let is_last = last >= parent.node.count();
    Fences {
        low: first.checked_sub(1).map_or(parent_fences.low, |at| Some((parent, at))),
        high: if is_last { parent_fences.high } else { Some((parent, last)) },
    }
}

/// Repeats an attempt until no node has changed during it.
#[inline]
pub(super) fn retry<M: Machine, T>(mut attempt: impl FnMut() -> Result<T, Changed>) -> T {
    let mut round = 0;
    loop {
        if let Ok(done) = attempt() {
            return done;
        }
        M::wait(round);
        round = round.saturating_add(1);
    }
}

/// The common prefix of all keys between two fences. An empty key stands for no fence.
pub(super) fn common(low: &[u8], high: &[u8]) -> Prefix {
    let skip = low.iter().zip(high).take_while(|(low, high)| low == high).count();
    Prefix { skip, base: head_of(&low[..skip.min(8)], 0) }
}

impl<M: Machine> OrderedIndex<M> {
    #[inline]
    pub(super) fn node(&self, id: NodeId) -> &Node<M> {
        if id.is_leaf() { self.leaves.get(id) } else { self.inners.get(id) }
    }

    #[inline]
    pub(super) fn visit(&self, id: NodeId) -> Visit<'_, M> {
        let node = self.node(id);
        node.prefetch();
        let visit = Visit::begin(id, node);
        if !id.is_leaf() {
            node.prefetch_children();
        }
        visit
    }

    /// The anchor, where every descent begins. Only one word of it is read, so it is not
    /// prefetched.
    #[inline]
    pub(super) fn anchor(&self) -> Visit<'_, M> {
        Visit::begin(ANCHOR, self.node(ANCHOR))
    }

    /// Descends to a leaf. `choose` selects the child of a node; `on_way` is called for every inner
    /// node.
    #[inline]
    pub(super) fn descend<'i>(
        &'i self,
        choose: impl Fn(&Node<M>) -> usize,
        mut on_way: impl FnMut(&Step<'i, M>) -> Result<(), Changed>,
    ) -> Result<Step<'i, M>, Changed> {
        let parent = self.anchor();
        let none = Fences { low: None, high: None };
        let here = self.visit(parent.node.child(0));
        let mut step = Step { parent, parent_fences: none, at: 0, here, fences: none };
        parent.validate()?;
        while !step.here.id.is_leaf() {
            on_way(&step)?;
            let parent = step.here;
            let at = choose(parent.node);
            let here = self.visit(parent.node.child(at));
            let fences = fences_of(parent, step.fences, at, at);
            step = Step { parent, parent_fences: step.fences, at, here, fences };
            parent.validate()?;
        }
        Ok(step)
    }

    /// The child of an inner node for a position: the child's range includes it.
    #[inline]
    pub(super) fn child_for(&self, node: &Node<M>, place: &EntryPosition<'_>) -> usize {
        let (at, is_there) = self.position(node, place);
        at + usize::from(is_there)
    }

    /// The number of entries of a node before a position of its range, and whether the next entry
    /// is at that position.
    #[inline]
    pub(super) fn position(&self, node: &Node<M>, place: &EntryPosition<'_>) -> (usize, bool) {
        let (skip, count) = (node.skip(), node.count());
        let head = head_of(place.key(), skip);
        let first = node.heads_below(head, count);
        if first == count || node.head(first) != head {
            return (first, false);
        }
        let is_before = |at| self.compare(node.payload(at), place, skip + 8).is_lt();
        let mut low = first;
        let mut high = first + 1;
        if high < count && node.head(high) == head {
            high = if head == u64::MAX { count } else { node.heads_below(head + 1, count) };
            high = high.max(low);
            // Prefetches the records together, since each of them probably misses the caches.
            let records = (low..high).take(TOUCHED_MAX);
            records.for_each(|at| self.arena.prefetch(node.payload(at)));
        }
        while low < high {
            let middle = (low + high) / 2;
            if is_before(middle) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let is_there = low < count
            && node.head(low) == head
            && self.compare(node.payload(low), place, skip + 8).is_eq();
        (low, is_there)
    }

    /// Compares an entry with a position that has the same head.
    #[inline]
    fn compare(&self, payload: u64, place: &EntryPosition<'_>, same: usize) -> std::cmp::Ordering {
        if payload >> TAG_SHIFT != LONG || !place.is_long() {
            return payload.cmp(&place.payload());
        }
        match self.arena.record(payload) {
            Ok(Some(record)) => record.compare(place, same),
            _ => std::cmp::Ordering::Less, // raced with a change; the caller discards it
        }
    }

    /// Appends the key of an entry to `out` and returns its row.
    #[inline]
    pub(super) fn entry(
        &self,
        node: &Node<M>,
        at: usize,
        out: &mut Vec<u8>,
    ) -> Result<u64, Changed> {
        let payload = node.payload(at);
        if let Some(record) = self.arena.record(payload)? {
            record.append_key(out);
            return Ok(record.row());
        }
        let bytes = whole(node.prefix(), node.head(at)).to_be_bytes();
        let len = (payload >> TAG_SHIFT) as usize;
        out.extend_from_slice(bytes.get(..len).ok_or(Changed)?);
        Ok(payload & ROW_MASK)
    }

    /// Replaces `out` by the key of a fence and returns its row; an empty key for no fence.
    pub(super) fn fence(&self, fence: Fence<'_, M>, out: &mut Vec<u8>) -> Result<u64, Changed> {
        out.clear();
        let Some((visit, at)) = fence else { return Ok(0) };
        let row = self.entry(visit.node, at, out)?;
        visit.validate()?;
        Ok(row)
    }

    /// The keys of two fences.
    pub(super) fn fence_keys(&self, fences: Fences<'_, M>) -> Result<[Vec<u8>; 2], Changed> {
        let mut keys = [Vec::new(), Vec::new()];
        self.fence(fences.low, &mut keys[0])?;
        self.fence(fences.high, &mut keys[1])?;
        Ok(keys)
    }

    /// The head that an entry of a node with prefix `from` has in a node that skips `skip` bytes.
    pub(super) fn head_for(&self, from: Prefix, head: u64, payload: u64, skip: usize) -> u64 {
        match self.arena.record(payload) {
            Ok(Some(record)) => record.head(skip),
            _ => whole(from, head).checked_shl(skip as u32 * 8).unwrap_or(0),
        }
    }

    /// Changes the prefix of a latched node and adapts its heads.
    pub(super) fn set_prefix(&self, node: &Node<M>, prefix: Prefix) {
        let old = node.prefix();
        if old == prefix {
            return;
        }
        for at in 0..node.count() {
            let payload = node.payload(at);
            let head = self.head_for(old, node.head(at), payload, prefix.skip);
            node.set_slot(at, head, payload);
        }
        node.set_prefix(prefix);
    }
}

/// The key of at most 8 bytes, reconstructed from its head.
fn whole(prefix: Prefix, head: u64) -> u64 {
    prefix.base | head.checked_shr(prefix.skip as u32 * 8).unwrap_or(0)
}
