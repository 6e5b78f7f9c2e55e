//! Nodes of the tree: their words, and inserting and removing entries.
//!
//! Leaves and inner nodes have the same words; only inner nodes have children. The heads of a node
//! are adjacent, so that a search touches few cache lines.
//!
//! - `NODE-1`: the words of a node change only under its latch, and a thread that has changed one
//!   raises the version when it unlatches. A reader that finds the version unchanged has read one
//!   state.
//! - `NODE-2`: readers load with acquire order and writers store with release order. So a reader
//!   that has seen any word of a change also sees the latch when it checks the version.
//! - `NODE-3`: latching and checking a version are sequentially consistent. If a scan observes a
//!   guard and then validates, and an insert latches and then reads the state of the guard, at
//!   least one of the two sees the other.
//!
//! A reader of a node that is being changed may read any earlier value of a word. Counts and ids
//! stay in bounds, so such a read never faults and is discarded.

use std::hint::select_unpredictable;

use atoll_machine::{Machine, Ordering, Word};

use super::GuardId;

/// Entries of a node; chosen so that the words of a leaf take 1 KiB.
pub(super) const SLOTS: usize = 61;

const LATCHED: u64 = 1;
const STEP: u64 = 2;

/// The node has changed during the read: the operation restarts.
#[derive(Debug)]
pub(super) struct Changed;

/// Number of a node in the pool of its kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct NodeId(pub(super) u32);

impl NodeId {
    pub(super) const LEAF: u32 = 1 << 31;

    pub(super) fn is_leaf(self) -> bool {
        self.0 & Self::LEAF != 0
    }
}

/// The common prefix of all keys of a node's range.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Prefix {
    pub(super) skip: usize,
    /// The first 8 bytes of the prefix, zero behind its end.
    pub(super) base: u64,
}

/// See the module.
#[repr(C, align(64))]
pub(super) struct Node<M: Machine> {
    version: M::Word,
    /// Guard in the upper half (leaves), entries in the lower.
    meta: M::Word,
    skip: M::Word,
    base: M::Word,
    children: Box<[M::Word]>,
    heads: [M::Word; SLOTS],
    payloads: [M::Word; SLOTS],
}

impl<M: Machine> Node<M> {
    pub(super) fn new(is_leaf: bool) -> Self {
        let word = || M::Word::new(0);
        let children = if is_leaf { 0 } else { SLOTS + 1 };
        Self {
            version: word(),
            meta: word(),
            skip: word(),
            base: word(),
            children: (0..children).map(|_| word()).collect(),
            heads: std::array::from_fn(|_| word()),
            payloads: std::array::from_fn(|_| word()),
        }
    }

    /// Entries of a leaf, separators of an inner node.
    #[inline]
    pub(super) fn count(&self) -> usize {
        (self.meta.load(Ordering::Acquire) as u32 as usize).min(SLOTS)
    }

    pub(super) fn guard(&self) -> GuardId {
        GuardId((self.meta.load(Ordering::Acquire) >> 32) as u32)
    }

    pub(super) fn set_meta(&self, count: usize, guard: GuardId) {
        self.meta.store(u64::from(guard.0) << 32 | count as u64, Ordering::Release);
    }

    fn set_count(&self, count: usize) {
        self.set_meta(count, self.guard());
    }

    #[inline]
    pub(super) fn prefix(&self) -> Prefix {
        Prefix { skip: self.skip(), base: self.base.load(Ordering::Acquire) }
    }

    #[inline]
    pub(super) fn skip(&self) -> usize {
        self.skip.load(Ordering::Acquire) as usize
    }

    /// Sets the prefix; the caller adapts the heads.
    pub(super) fn set_prefix(&self, prefix: Prefix) {
        self.skip.store(prefix.skip as u64, Ordering::Release);
        self.base.store(prefix.base, Ordering::Release);
    }

    /// Link of the free list; only for a node that is not in the tree.
    pub(super) fn free_link(&self) -> &M::Word {
        &self.base
    }

    #[inline]
    pub(super) fn head(&self, at: usize) -> u64 {
        self.heads[at].load(Ordering::Acquire)
    }

    #[inline]
    pub(super) fn payload(&self, at: usize) -> u64 {
        self.payloads[at].load(Ordering::Acquire)
    }

    #[inline]
    pub(super) fn child(&self, at: usize) -> NodeId {
        NodeId(self.children[at].load(Ordering::Acquire) as u32)
    }

    /// Prefetches what a search reads, all lines at once.
    #[inline]
    pub(super) fn prefetch(&self) {
        M::prefetch(std::ptr::from_ref(self).cast(), 64 + size_of_val(&self.heads));
    }

    /// Prefetches the whole node, which an insert changes.
    #[inline]
    pub(super) fn prefetch_all(&self) {
        M::prefetch(std::ptr::from_ref(self).cast(), size_of_val(self));
    }

    /// Prefetches the children, which the search of an inner node reads last.
    #[inline]
    pub(super) fn prefetch_children(&self) {
        M::prefetch(self.children.as_ptr().cast(), size_of_val(&*self.children));
    }

    pub(super) fn set_child(&self, at: usize, child: NodeId) {
        self.children[at].store(child.0.into(), Ordering::Release);
    }

    pub(super) fn set_slot(&self, at: usize, head: u64, payload: u64) {
        self.heads[at].store(head, Ordering::Release);
        self.payloads[at].store(payload, Ordering::Release);
    }

    /// Number of the first `count` heads that are smaller than `head`.
    #[inline]
    pub(super) fn heads_below(&self, head: u64, count: usize) -> usize {
        let heads = &self.heads[..count];
        M::work(4 * (count.max(1).ilog2() as usize + 1));
        let (mut below, mut size) = (0, count);
        while size > 1 {
            let half = size / 2;
            let is_below = heads[below + half - 1].load(Ordering::Acquire) < head;
            // Which half follows is unpredictable, so a branch would be mispredicted half of the
            // time.
            below = select_unpredictable(is_below, below + half, below);
            size -= half;
        }
        let last = heads.get(below).is_some_and(|last| last.load(Ordering::Acquire) < head);
        below + usize::from(last)
    }

    /// Inserts an entry before the one at `at`.
    pub(super) fn insert_slot(&self, at: usize, head: u64, payload: u64) {
        let count = self.count();
        shift_up::<M>(&self.heads[at..=count], head);
        shift_up::<M>(&self.payloads[at..=count], payload);
        self.set_count(count + 1);
    }

    pub(super) fn remove_slot(&self, at: usize) {
        let count = self.count();
        shift_down::<M>(&self.heads[at..count]);
        shift_down::<M>(&self.payloads[at..count]);
        self.set_count(count - 1);
    }

    /// Removes the entries from `count` on.
    pub(super) fn truncate(&self, count: usize) {
        self.set_count(count);
    }

    /// Inserts a child before the one at `at`. The caller inserts the separator afterwards, since
    /// this uses the old count.
    pub(super) fn insert_child(&self, at: usize, child: NodeId) {
        shift_up::<M>(&self.children[at..=self.count() + 1], child.0.into());
    }

    /// Removes a child. The caller removes the separator afterwards, since this uses the old count.
    pub(super) fn remove_child(&self, at: usize) {
        shift_down::<M>(&self.children[at..=self.count()]);
    }
}

fn shift_up<M: Machine>(words: &[M::Word], first: u64) {
    for pair in words.windows(2).rev() {
        pair[1].store(pair[0].load(Ordering::Relaxed), Ordering::Release);
    }
    words[0].store(first, Ordering::Release);
}

fn shift_down<M: Machine>(words: &[M::Word]) {
    for pair in words.windows(2) {
        pair[0].store(pair[1].load(Ordering::Relaxed), Ordering::Release);
    }
}

/// A node at one of its versions.
pub(super) struct Visit<'i, M: Machine> {
    pub(super) id: NodeId,
    pub(super) node: &'i Node<M>,
    version: u64,
}

impl<M: Machine> Clone for Visit<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<M: Machine> Copy for Visit<'_, M> {}

impl<'i, M: Machine> Visit<'i, M> {
    /// A visit that began at a given version of the node.
    #[inline]
    pub(super) fn at(id: NodeId, node: &'i Node<M>, version: u64) -> Self {
        Self { id, node, version }
    }

    /// The version that the node had when the visit began.
    #[inline]
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// Begins a visit; waits until the node is not latched.
    #[inline]
    pub(super) fn begin(id: NodeId, node: &'i Node<M>) -> Self {
        let mut round = 0;
        loop {
            let version = node.version.load(Ordering::SeqCst);
            if version & LATCHED == 0 {
                return Self { id, node, version };
            }
            M::wait(round);
            round = round.saturating_add(1);
        }
    }

    /// Checks that everything read since the visit began belongs to one state of the node.
    #[inline]
    pub(super) fn validate(&self) -> Result<(), Changed> {
        let now = self.node.version.load(Ordering::SeqCst);
        if now == self.version { Ok(()) } else { Err(Changed) }
    }

    /// Latches the node if it has not changed since the visit began.
    pub(super) fn latch(&self) -> Result<Latched<'i, M>, Changed> {
        let (old, new) = (self.version, self.version | LATCHED);
        let latched =
            self.node.version.compare_exchange(old, new, Ordering::SeqCst, Ordering::Relaxed);
        latched.map_err(|_| Changed)?;
        Ok(Latched { node: self.node, version: old, changed: false })
    }
}

/// A latched node; dropping it unlatches.
pub(super) struct Latched<'i, M: Machine> {
    node: &'i Node<M>,
    version: u64,
    changed: bool,
}

impl<'i, M: Machine> Latched<'i, M> {
    pub(super) fn node(&self) -> &'i Node<M> {
        self.node
    }

    /// The node, to change it.
    pub(super) fn change(&mut self) -> &'i Node<M> {
        self.changed = true;
        self.node
    }
}

impl<M: Machine> Drop for Latched<'_, M> {
    fn drop(&mut self) {
        let version = if self.changed { self.version + STEP } else { self.version };
        self.node.version.store(version, Ordering::Release);
    }
}
