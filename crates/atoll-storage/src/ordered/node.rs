//! Nodes of the tree: their words, and how entries are put into and taken out of them.
//!
//! Leaves and inner nodes have the same words; only inner nodes have children. Heads lie together,
//! so that a search touches few cache lines.
//!
//! - `NODE-1`: a node's words change only under its latch, and whoever changed one raises the
//!   version when unlatching. A reader that finds the version it began with has read one state.
//! - `NODE-2`: readers load with acquire and writers store with release. So a reader that saw any
//!   word of a change also sees the latch when it looks at the version again.
//! - `NODE-3`: taking a latch and looking at a version are sequentially consistent. Of a scan that
//!   observes a guard and then validates, and an insert that latches and then asks the guard, one
//!   sees the other.
//!
//! A number read from a node that is being changed may be any that once stood there. Counts and
//! ids stay in bounds, so such a read is thrown away and never faults.

use std::hint::select_unpredictable;

use atoll_machine::{Machine, Ordering, Word};

use super::GuardId;

/// Entries of a node, so that all its words are 1 KiB.
pub(super) const SLOTS: usize = 61;

const LATCHED: u64 = 1;
const STEP: u64 = 2;

/// The state that was read has changed meanwhile: begin again.
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

/// What a node knows of all keys of its range: that they begin with the same `skip` bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Prefix {
    pub(super) skip: usize,
    /// The first 8 of those bytes, the rest zero.
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

    /// The heads must be made to fit by the caller.
    pub(super) fn set_prefix(&self, prefix: Prefix) {
        self.skip.store(prefix.skip as u64, Ordering::Release);
        self.base.store(prefix.base, Ordering::Release);
    }

    /// Link of a list of free nodes; only of a node that is not in the tree.
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

    /// Brings what a search reads on its way, all lines at once.
    #[inline]
    pub(super) fn prefetch(&self) {
        M::prefetch(std::ptr::from_ref(self).cast(), 64 + size_of_val(&self.heads));
    }

    /// Brings what an insert changes, too.
    #[inline]
    pub(super) fn prefetch_all(&self) {
        M::prefetch(std::ptr::from_ref(self).cast(), size_of_val(self));
    }

    /// As [`Node::touch`], what follows the search in an inner node.
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

    /// How many of the first `count` heads are smaller.
    #[inline]
    pub(super) fn heads_below(&self, head: u64, count: usize) -> usize {
        let heads = &self.heads[..count];
        let (mut below, mut size) = (0, count);
        while size > 1 {
            let half = size / 2;
            let is_below = heads[below + half - 1].load(Ordering::Acquire) < head;
            // No key says which half is next, so a branch would be mispredicted every other time.
            below = select_unpredictable(is_below, below + half, below);
            size -= half;
        }
        let last = heads.get(below).is_some_and(|last| last.load(Ordering::Acquire) < head);
        below + usize::from(last)
    }

    /// Puts an entry in front of the one at `at`.
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

    /// Forgets the entries from `count` on.
    pub(super) fn truncate(&self, count: usize) {
        self.set_count(count);
    }

    /// Puts a child in front of the one at `at`; before its separator, while the count is old.
    pub(super) fn insert_child(&self, at: usize, child: NodeId) {
        shift_up::<M>(&self.children[at..=self.count() + 1], child.0.into());
    }

    /// Takes a child out; before its separator, while the count is old.
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
    /// A visit that began when the node had this version.
    #[inline]
    pub(super) fn at(id: NodeId, node: &'i Node<M>, version: u64) -> Self {
        Self { id, node, version }
    }

    /// The version that the node had when the visit began.
    #[inline]
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// Waits until the node is not latched.
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

    /// Whether all that was read since the visit began is one state.
    #[inline]
    pub(super) fn validate(&self) -> Result<(), Changed> {
        let now = self.node.version.load(Ordering::SeqCst);
        if now == self.version { Ok(()) } else { Err(Changed) }
    }

    /// Latches the node if it has not changed.
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
