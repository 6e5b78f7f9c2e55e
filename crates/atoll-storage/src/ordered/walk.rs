//! From the anchor down to a leaf, and what a node's range is.
//!
//! 1. Begin a visit of the child, then validate the parent's: at that moment the child was the
//!    parent's child in the state that the visit began with.
//! 2. A node's range changes only while the node is latched. So a valid visit means a range that
//!    is the one found on the way down, even if nodes above have changed since.
//!
//! The range of a node lies between two fences, separators of nodes above it.

use atoll_machine::Machine;

use super::OrderedIndex;
use super::entry_position::{EntryPosition, LONG, ROW_MASK, TAG_SHIFT, head_of};
use super::node::{Changed, Node, NodeId, Prefix, Visit};

/// An inner node without separators; its only child is the root.
pub(super) const ANCHOR: NodeId = NodeId(0);

/// Records that are brought in together, where the heads of so many entries are the same.
const TOUCHED_MAX: usize = 4;

/// The separator at a position of a visited node, or no bound.
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

/// A node on the way down and the one above it.
pub(super) struct Step<'i, M: Machine> {
    pub(super) parent: Visit<'i, M>,
    pub(super) parent_fences: Fences<'i, M>,
    /// Which child of its parent the node is.
    pub(super) at: usize,
    pub(super) here: Visit<'i, M>,
    pub(super) fences: Fences<'i, M>,
}

/// The fences of children `first..=last` of a node.
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

/// Repeats until nothing changed meanwhile.
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

/// The prefix of all keys between two fences; an empty fence is none.
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

    /// Where every way down begins. It says one thing, so nothing of it is brought in beforehand.
    #[inline]
    pub(super) fn anchor(&self) -> Visit<'_, M> {
        Visit::begin(ANCHOR, self.node(ANCHOR))
    }

    /// Goes down to a leaf. `choose` says which child of a node; `on_way` sees every inner node.
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

    /// The child of an inner node in whose range a place lies.
    #[inline]
    pub(super) fn child_for(&self, node: &Node<M>, place: &EntryPosition<'_>) -> usize {
        let (at, is_there) = self.position(node, place);
        at + usize::from(is_there)
    }

    /// How many entries of a node come before a place of its range, and whether the next one is the
    /// place itself.
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
            // All at once, since each of their records is one that nobody has used lately.
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

    /// How an entry stands to a place with the same head.
    #[inline]
    fn compare(&self, payload: u64, place: &EntryPosition<'_>, same: usize) -> std::cmp::Ordering {
        if payload >> TAG_SHIFT != LONG || !place.is_long() {
            return payload.cmp(&place.payload());
        }
        match self.arena.record(payload) {
            Ok(Some(record)) => record.compare(place, same),
            _ => std::cmp::Ordering::Less, // read beside a change, and thrown away
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

    /// Replaces `out` by a fence's key and returns its row. No fence: an empty key.
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

    /// The head of an entry of a node with prefix `from` in a node that skips `skip` bytes.
    pub(super) fn head_for(&self, from: Prefix, head: u64, payload: u64, skip: usize) -> u64 {
        match self.arena.record(payload) {
            Ok(Some(record)) => record.head(skip),
            _ => whole(from, head).checked_shl(skip as u32 * 8).unwrap_or(0),
        }
    }

    /// Gives a latched node another prefix.
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

/// The 8 bytes of a key of at most 8, from its head.
fn whole(prefix: Prefix, head: u64) -> u64 {
    prefix.base | head.checked_shr(prefix.skip as u32 * 8).unwrap_or(0)
}
