//! Building an index bottom-up from sorted entries.
//!
//! Threads collect the entries of their rows in runs ([`EntryRun`]) and sort them. One thread then
//! merges the runs and writes the leaves from left to right, and the levels above them one by one.
//! An entry costs no descent and no latch, and the leaves are nearly full, with some room for later
//! inserts.
//!
//! - `BUILD-1`: the nodes of a tree that is being built are reachable from nowhere, until
//!   [`OrderedIndex::adopt`] makes the tree that of an empty index. It changes the version of the
//!   old root, so a scan that has observed the old root's guard begins again.

use std::cmp::Ordering as Order;

use atoll_machine::Machine;

use super::entry_position::{EntryPosition, LONG, ROW_MASK, TAG_SHIFT, head_of};
use super::node::{NodeId, SLOTS, Visit};
use super::walk::{ANCHOR, common, retry};
use super::{GuardId, OrderedIndex};
use crate::layout::RowId;

/// Entries of a leaf and children of an inner node, at most.
const FILLED: usize = SLOTS - SLOTS / 10;

/// In the word of an item: another row may have the same key.
const MAY_REPEAT: u64 = 1 << 59;

/// An entry: the first 8 bytes of its key, and a word. For a key of at most 8 bytes the word is the
/// entry's payload; for a longer one its number among the long keys of the run.
#[derive(Clone, Copy)]
struct Item {
    head: u64,
    word: u64,
}

/// A key of more than 8 bytes and its row.
struct LongKey {
    start: usize,
    len: usize,
    row: u64,
}

/// Entries that one thread has collected.
#[derive(Default)]
pub struct EntryRun {
    items: Vec<Item>,
    longs: Vec<LongKey>,
    bytes: Vec<u8>,
}

impl EntryRun {
    /// Adds an entry. `may_repeat` says whether other rows may have its key.
    pub fn add(&mut self, key: &[u8], row: RowId, may_repeat: bool) {
        let place = EntryPosition::entry(key, row);
        let word = if place.is_long() {
            let (start, len) = (self.bytes.len(), place.key().len());
            self.bytes.extend_from_slice(place.key());
            self.longs.push(LongKey { start, len, row: row.0 });
            LONG << TAG_SHIFT | (self.longs.len() as u64 - 1)
        } else {
            place.payload()
        };
        let flag = if may_repeat { MAY_REPEAT } else { 0 };
        self.items.push(Item { head: head_of(key, 0), word: word | flag });
    }

    /// Sorts the entries.
    pub fn sort(&mut self) {
        let mut items = std::mem::take(&mut self.items);
        if self.longs.is_empty() {
            items.sort_unstable_by_key(|item| (item.head, item.word));
        } else {
            items.sort_unstable_by(|one, other| compare((self, *one), (self, *other)));
        }
        self.items = items;
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Replaces `key` by the key of an entry; returns its row.
    pub(super) fn entry(&self, at: usize, key: &mut Vec<u8>) -> u64 {
        key.clear();
        self.key(self.items[at], key)
    }

    fn long(&self, item: Item) -> Option<&LongKey> {
        let is_long = item.word >> TAG_SHIFT == LONG;
        is_long.then(|| &self.longs[(item.word & ROW_MASK) as usize])
    }

    /// Appends the key of an item; returns its row.
    fn key(&self, item: Item, out: &mut Vec<u8>) -> u64 {
        if let Some(LongKey { start, len, row }) = self.long(item) {
            out.extend_from_slice(&self.bytes[*start..][..*len]);
            return *row;
        }
        out.extend_from_slice(&item.head.to_be_bytes()[..(item.word >> TAG_SHIFT) as usize]);
        item.word & ROW_MASK
    }
}

/// Compares two items of two runs.
fn compare((run, item): (&EntryRun, Item), (other_run, other): (&EntryRun, Item)) -> Order {
    item.head.cmp(&other.head).then_with(|| match (run.long(item), other_run.long(other)) {
        (Some(one), Some(other)) => {
            let one_key = &run.bytes[one.start..][..one.len];
            let other_key = &other_run.bytes[other.start..][..other.len];
            (one_key, one.row).cmp(&(other_key, other.row))
        }
        _ => item.word.cmp(&other.word),
    })
}

/// The entries of several sorted runs, in their order.
struct Merged<'r> {
    runs: Vec<(&'r EntryRun, usize)>,
}

impl<'r> Iterator for Merged<'r> {
    type Item = (&'r EntryRun, Item);

    fn next(&mut self) -> Option<Self::Item> {
        let first = |(run, at): &(&'r EntryRun, usize)| Some((*run, *run.items.get(*at)?));
        let heads = self
            .runs
            .iter()
            .enumerate()
            .filter_map(|(number, run)| first(run).map(|head| (number, head)));
        let (number, head) = heads.min_by(|(_, one), (_, other)| compare(*one, *other))?;
        self.runs[number].1 += 1;
        Some(head)
    }
}

/// A separator: the first position of a node's range. Empty for the first node of a level.
struct Separator {
    key: Vec<u8>,
    row: u64,
}

impl Separator {
    fn none() -> Self {
        Self { key: Vec::new(), row: 0 }
    }

    fn position(&self) -> EntryPosition<'_> {
        EntryPosition::new(&self.key, self.row)
    }
}

/// The entries of a leaf that is being filled.
#[derive(Default)]
struct Filling {
    keys: Vec<u8>,
    /// For each entry the end of its key, and its row.
    ends: Vec<(usize, u64)>,
}

impl Filling {
    fn entry(&self, at: usize) -> EntryPosition<'_> {
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before].0);
        let (end, row) = self.ends[at];
        EntryPosition::new(&self.keys[start..end], row)
    }

    fn last(&self) -> Option<EntryPosition<'_>> {
        Some(self.entry(self.ends.len().checked_sub(1)?))
    }
}

/// A tree that has been built, for [`OrderedIndex::adopt`] or [`OrderedIndex::discard`] of the
/// index that built it.
pub struct BuiltTree(Option<NodeId>);

/// How many of `count` things the group `number` of `groups` groups gets.
fn share(count: usize, groups: usize, number: usize) -> usize {
    count / groups + usize::from(number < count % groups)
}

impl<M: Machine> OrderedIndex<M> {
    /// Builds a tree from sorted runs.
    ///
    /// # Errors
    /// The rows of two entries with the same key, neither of which may repeat.
    pub fn build(&self, runs: &[EntryRun]) -> Result<BuiltTree, (RowId, RowId)> {
        let count: usize = runs.iter().map(EntryRun::len).sum();
        if count == 0 {
            return Ok(BuiltTree(None));
        }
        let mut merged = Merged { runs: runs.iter().map(|run| (run, 0)).collect() };
        let leaves = count.div_ceil(FILLED);
        let mut level: Vec<(Separator, NodeId)> = Vec::with_capacity(leaves);
        let (mut filling, mut low) = (Filling::default(), Separator::none());
        let mut coming = merged.next();
        for number in 0..leaves {
            filling.keys.clear();
            filling.ends.clear();
            for _ in 0..share(count, leaves, number) {
                let Some((run, item)) = coming else { break };
                let row = run.key(item, &mut filling.keys);
                filling.ends.push((filling.keys.len(), row));
                coming = merged.next();
                let next_is_alike = coming.filter(|(next_run, next)| {
                    item.word & MAY_REPEAT == 0 && has_same_key((run, item), (next_run, *next))
                });
                if let Some((next_run, next)) = next_is_alike {
                    let other = next_run.key(next, &mut Vec::new());
                    self.discard_level(level);
                    return Err((RowId(row), RowId(other)));
                }
            }
            let high = coming.map_or_else(Separator::none, |(run, item)| {
                let (mut key, mut row) = (Vec::new(), 0);
                let first_row = run.key(item, &mut key);
                let below = filling.last().map_or(&[][..], |last| last.key());
                // As in a split.
                if below == key {
                    row = first_row;
                } else {
                    key.truncate(common(below, &key).skip + 1);
                }
                Separator { key, row }
            });
            let leaf = self.build_leaf(&filling, &low, &high);
            level.push((std::mem::replace(&mut low, high), leaf));
        }
        while level.len() > 1 {
            level = self.build_level(level);
        }
        Ok(BuiltTree(level.pop().map(|(_, root)| root)))
    }

    fn build_leaf(&self, filling: &Filling, low: &Separator, high: &Separator) -> NodeId {
        let leaf = self.leaves.take();
        let mut held = leaf.latch().expect("no other thread can reach the node");
        let (node, prefix) = (held.change(), common(&low.key, &high.key));
        for at in 0..filling.ends.len() {
            let place = filling.entry(at);
            node.set_slot(at, head_of(place.key(), prefix.skip), self.arena.store(&place));
        }
        node.set_prefix(prefix);
        let guard = match self.guards.offer() {
            Some(offer) => offer.accept(),
            None => {
                self.guards.share(GuardId(0));
                GuardId(0)
            }
        };
        node.set_meta(filling.ends.len(), guard);
        leaf.id
    }

    /// The inner nodes above the nodes of a level.
    fn build_level(&self, below: Vec<(Separator, NodeId)>) -> Vec<(Separator, NodeId)> {
        let (count, groups) = (below.len(), below.len().div_ceil(FILLED));
        let mut level = Vec::with_capacity(groups);
        let mut below = below.into_iter().peekable();
        for number in 0..groups {
            let inner = self.inners.take();
            let mut held = inner.latch().expect("no other thread can reach the node");
            let node = held.change();
            let children: Vec<_> = below.by_ref().take(share(count, groups, number)).collect();
            let none = Separator::none();
            let high = below.peek().map_or(&none, |(separator, _)| separator);
            let prefix = common(&children[0].0.key, &high.key);
            node.set_prefix(prefix);
            for (at, (separator, child)) in children.iter().enumerate() {
                node.set_child(at, *child);
                if let Some(at) = at.checked_sub(1) {
                    let place = separator.position();
                    node.set_slot(at, head_of(place.key(), prefix.skip), self.arena.store(&place));
                }
            }
            node.set_meta(children.len() - 1, GuardId(0));
            let low = children.into_iter().next().map_or(none, |(separator, _)| separator);
            level.push((low, inner.id));
        }
        level
    }

    /// Makes a built tree that of the index, which has no entries and gets none meanwhile.
    pub fn adopt(&self, BuiltTree(built): BuiltTree) {
        let Some(root) = built else { return };
        let old = retry::<M, _>(|| {
            let anchor = self.anchor();
            let old = anchor.node.child(0);
            let leaf = Visit::begin(old, self.node(old));
            anchor.validate()?;
            debug_assert!(old.is_leaf() && leaf.node.count() == 0, "the index is empty");
            let mut anchor = anchor.latch()?;
            let mut held = leaf.latch()?;
            anchor.change().set_child(0, root);
            held.change(); // BUILD-1
            Ok(leaf)
        });
        debug_assert_ne!(old.id, ANCHOR);
        self.guards.leave(old.node.guard());
        self.leaves.give_back(old.id, old.node);
    }

    /// Frees a built tree.
    pub fn discard(&self, BuiltTree(built): BuiltTree) {
        if let Some(root) = built {
            self.discard_node(root);
        }
    }

    fn discard_level(&self, level: Vec<(Separator, NodeId)>) {
        level.into_iter().for_each(|(_, node)| self.discard_node(node));
    }

    fn discard_node(&self, id: NodeId) {
        let node = self.node(id);
        let count = node.count();
        (0..count).for_each(|at| self.arena.release(node.payload(at)));
        if id.is_leaf() {
            self.guards.leave(node.guard());
            self.leaves.give_back(id, node);
        } else {
            (0..=count).for_each(|at| self.discard_node(node.child(at)));
            self.inners.give_back(id, node);
        }
    }
}

/// Whether two items have the same key.
fn has_same_key((run, item): (&EntryRun, Item), (other_run, other): (&EntryRun, Item)) -> bool {
    if item.head != other.head || item.word >> TAG_SHIFT != other.word >> TAG_SHIFT {
        return false;
    }
    match (run.long(item), other_run.long(other)) {
        (Some(one), Some(other)) => {
            run.bytes[one.start..][..one.len] == other_run.bytes[other.start..][..other.len]
        }
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::ops::Bound;

    use atoll_machine::Native;

    use super::super::{Batch, KeyRange};
    use super::*;

    fn all(index: &OrderedIndex<Native>, descending: bool) -> Vec<(Vec<u8>, RowId)> {
        let range = KeyRange { from: Bound::Unbounded, to: Bound::Unbounded, descending };
        let (mut batch, mut out) = (Batch::default(), Vec::new());
        loop {
            let more = index.batch(&range, &mut |_| (), &mut batch);
            out.extend(batch.iter().map(|found| (found.key.to_vec(), found.row)));
            if !more {
                return out;
            }
        }
    }

    /// A key of the entry with this number; many have the same one.
    fn key(number: u64, kind: u64) -> Vec<u8> {
        let mixed = crate::key::mix(number);
        match kind {
            0 => (mixed % 5000).to_be_bytes().to_vec(),
            1 => format!("name {:07}", mixed % 3000).into_bytes(),
            2 => vec![7; (mixed % 20) as usize],
            _ => mixed.to_be_bytes()[..(mixed % 9) as usize].to_vec(),
        }
    }

    #[test]
    fn a_built_index_has_the_entries_in_their_order_and_can_be_changed() {
        for kind in 0..4 {
            for count in [0u64, 1, 2, 54, 55, 56, 57, 300, 3025, 3100, 20_000] {
                let index = OrderedIndex::<Native>::default();
                let mut runs: Vec<EntryRun> = (0..3).map(|_| EntryRun::default()).collect();
                let mut model: Vec<(Vec<u8>, RowId)> = Vec::new();
                for number in 0..count {
                    let key = key(number, kind);
                    runs[number as usize % 3].add(&key, RowId(number), true);
                    model.push((key, RowId(number)));
                }
                runs.iter_mut().for_each(EntryRun::sort);
                let built = index.build(&runs).unwrap();
                assert_eq!(all(&index, false), [], "nothing leads to the tree yet");
                index.adopt(built);
                model.sort();
                assert_eq!(all(&index, false), model, "{count} entries of kind {kind}");
                assert!(model.iter().all(|(key, row)| index.has(key, *row)));
                // Remove a third, insert as many others.
                for number in (0..count).step_by(3) {
                    assert!(
                        index.remove(&key(number, kind), RowId(number), &mut |_, _| true).is_some()
                    );
                }
                model.retain(|(_, row)| row.0 % 3 != 0);
                for number in count..count + count / 2 {
                    index.insert(&key(number, kind), RowId(number), &mut |_, _| true);
                    model.push((key(number, kind), RowId(number)));
                }
                model.sort();
                assert_eq!(all(&index, false), model, "{count} entries of kind {kind}, changed");
                model.reverse();
                assert_eq!(all(&index, true), model);
            }
        }
    }

    #[test]
    fn two_entries_with_a_key_that_may_not_repeat_are_found_and_leave_nothing_behind() {
        let index = OrderedIndex::<Native>::default();
        for round in 0..20 {
            let mut runs = [EntryRun::default(), EntryRun::default()];
            for number in 0..5000u64 {
                let key = format!("key {number:09}");
                runs[number as usize % 2].add(key.as_bytes(), RowId(number), false);
                runs[number as usize % 2].add(b"null", RowId(10_000 + number), true);
            }
            runs[round % 2].add(b"key 000000777", RowId(9999), false);
            runs.iter_mut().for_each(EntryRun::sort);
            assert_eq!(index.build(&runs).err(), Some((RowId(777), RowId(9999))));
        }
        let size = index.size();
        assert!(size.leaves < 400 && size.guards < 400 && size.inner_nodes < 10, "{size:?}");
    }
}
