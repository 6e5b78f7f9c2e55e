//! The binary tree of the buddy part: one byte per node, at fixed offsets in the store.
//!
//! A node of order `o` stands for `2^o` bytes of data. Its byte contains
//! - `ALLOCATED` or `CACHED` (with `FULL`): an extent starts here and fills the node; a cached
//!   extent is free but in a magazine, or is being decommitted;
//! - otherwise, in the low five bits, how many orders its largest free node is smaller than the
//!   node itself; 0 is "wholly free", `FULL` is "nothing free".
//!
//! So zeros, the initial content of a sparse file, are a free tree. For locality, the tree is cut
//! at 2 MiB: nodes from 2 MiB up are one array (the top), the nodes below one 2 MiB block are
//! another (a bottom, 32 KiB).
//!
//! Invariants:
//! - `TREE-1`: all bytes below a node that is wholly free, allocated or cached are zero. So a flag
//!   is always valid, and a bottom may be decommitted when its block is not split.
//! - `TREE-2`: the top is always committed; a bottom is committed while its block is split.
//! - `TREE-3`: ancestors change only under the allocator's latch. The byte of a live or cached
//!   extent is changed only by the thread that has the extent, or by a compare-and-swap.
//!
//! A process that dies during a change leaves ancestors that promise too little free space, never
//! too much: [`Tree::repair`] computes them again.

use super::layout::{BLOCK_ORDER, BOTTOM_BYTES, Layout, MAX_ORDER, MIN_ORDER};
use std::sync::atomic::{AtomicU8, Ordering};

/// An allocated extent.
pub(super) const ALLOCATED: u8 = 0x80;
/// A free extent that is not joined with its buddy.
pub(super) const CACHED: u8 = 0x40;
const FLAGS: u8 = ALLOCATED | CACHED;
/// Low bits: nothing free here.
const FULL: u8 = 0x1f;

/// A node, by its order and its index among the nodes of that order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Node {
    pub(super) order: u32,
    pub(super) index: u64,
}

impl Node {
    /// Bytes of data.
    pub(super) fn bytes(self) -> u64 {
        1 << self.order
    }

    /// Offset of its data in the buddy part.
    pub(super) fn offset(self) -> u64 {
        self.index << self.order
    }

    fn child(self, right: u64) -> Node {
        Node { order: self.order - 1, index: self.index * 2 + right }
    }

    fn ancestor(self, order: u32) -> Node {
        Node { order, index: self.index >> (order - self.order) }
    }

    /// The block that holds a smaller node.
    pub(super) fn block(self) -> Node {
        self.ancestor(BLOCK_ORDER)
    }
}

/// The tree in a mapped store.
#[derive(Debug)]
pub(super) struct Tree {
    top: *mut u8,
    bottoms: *mut u8,
    root: Node,
}

// SAFETY: the pointers are into a shared mapping that the owner of the tree keeps; every access is
// atomic.
unsafe impl Send for Tree {}
// SAFETY: as above.
unsafe impl Sync for Tree {}

impl Tree {
    /// The tree at its place in a store.
    ///
    /// # Safety
    /// `base` is the start of a mapping of at least `layout.capacity_bytes` that outlives the tree;
    /// methods that change the tree may only be called if it is writable.
    pub(super) unsafe fn new(base: *mut u8, layout: &Layout) -> Tree {
        // SAFETY: both offsets are in the mapping, by the caller's promise.
        let (top, bottoms) =
            unsafe { (base.add(layout.top_at as usize), base.add(layout.bottoms_at as usize)) };
        Tree { top, bottoms, root: Node { order: layout.root_order, index: 0 } }
    }

    fn byte(&self, node: Node) -> &AtomicU8 {
        debug_assert!(node.order >= MIN_ORDER && node.order <= self.root.order);
        debug_assert!(node.index < 1 << (self.root.order - node.order));
        // SAFETY: a node of the tree is in the top or in the bottom of its block. Both are mapped,
        // by the promise of the caller of `new`, and have space (TREE-2).
        unsafe {
            let at = if node.order >= BLOCK_ORDER {
                self.top.add((1 << (self.root.order - node.order)) + node.index as usize)
            } else {
                let depth = BLOCK_ORDER - node.order;
                let bottom = (node.index >> depth) * BOTTOM_BYTES;
                let within = (1 << depth) + (node.index & ((1 << depth) - 1));
                self.bottoms.add((bottom + within) as usize)
            };
            AtomicU8::from_ptr(at)
        }
    }

    fn load(&self, node: Node) -> u8 {
        self.byte(node).load(Ordering::Relaxed)
    }

    fn store(&self, node: Node, value: u8) {
        self.byte(node).store(value, Ordering::Relaxed);
    }

    /// The order of the largest free node in `node`.
    pub(super) fn best(&self, node: Node) -> Option<u32> {
        let byte = self.load(node);
        if byte & FLAGS != 0 || byte & FULL == FULL {
            return None;
        }
        node.order.checked_sub(u32::from(byte & FULL)).filter(|order| *order >= MIN_ORDER)
    }

    /// The size of the largest free node in bytes.
    pub(super) fn largest_free(&self) -> u64 {
        self.best(self.root).map_or(0, |order| 1 << order)
    }

    /// Whether the block (or what it is part of) is wholly free, allocated or cached: not split.
    pub(super) fn is_whole(&self, block: Node) -> bool {
        let byte = self.load(block);
        byte == 0 || byte & FLAGS != 0
    }

    /// Whether the node is wholly free, by itself or as a part of a larger node; it must not be
    /// inside an extent.
    pub(super) fn is_free(&self, node: Node) -> bool {
        self.load(node) == 0
    }

    /// The lowest free node of this order: so used nodes stay close together, and committed space
    /// is reused.
    pub(super) fn find(&self, order: u32) -> Option<Node> {
        self.find_in(self.root, order)
    }

    /// The lowest free node of this order in `node`.
    pub(super) fn find_in(&self, mut node: Node, order: u32) -> Option<Node> {
        let fits = |node| self.best(node).is_some_and(|best| best >= order);
        if !fits(node) {
            return None;
        }
        while node.order > order {
            if self.load(node) == 0 {
                return Some(Node { order, index: node.index << (node.order - order) });
            }
            node = if fits(node.child(0)) { node.child(0) } else { node.child(1) };
        }
        (self.load(node) == 0).then_some(node)
    }

    /// Makes a free node an extent with this flag. Under the latch; a bottom must be committed.
    pub(super) fn take(&self, node: Node, flag: u8) {
        // From the top down, so that no ancestor promises a node as free that a dead process has
        // taken.
        for order in (node.order + 1..=self.root.order).rev() {
            let ancestor = node.ancestor(order);
            if self.load(ancestor) == 0 {
                self.store(ancestor, FULL);
            }
        }
        self.store(node, flag | FULL);
        self.refresh(node);
    }

    /// Makes an extent free and joins it with its buddies. Under the latch.
    pub(super) fn release(&self, node: Node) {
        self.store(node, 0);
        self.refresh(node);
    }

    /// Computes the ancestors of a changed node.
    fn refresh(&self, node: Node) {
        for order in node.order + 1..=self.root.order {
            let ancestor = node.ancestor(order);
            let value = self.computed(ancestor);
            if self.load(ancestor) == value {
                return;
            }
            self.store(ancestor, value);
        }
    }

    /// What a split node's byte must be, from its children.
    fn computed(&self, node: Node) -> u8 {
        let (left, right) = (self.best(node.child(0)), self.best(node.child(1)));
        let whole = Some(node.order - 1);
        if left == whole && right == whole {
            return 0;
        }
        left.max(right).map_or(FULL, |best| (node.order - best) as u8)
    }

    /// Changes the flag of an extent from `from` to `to`; `false` if the extent had another flag.
    pub(super) fn change(&self, node: Node, from: u8, to: u8) -> bool {
        let (from, to) = (from | FULL, to | FULL);
        let done = self.byte(node).compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed);
        done.is_ok()
    }

    /// The allocated or cached extent that starts at this offset of the buddy part.
    pub(super) fn extent_at(&self, offset: u64) -> Option<(Node, u8)> {
        if !offset.is_multiple_of(1 << MIN_ORDER) || offset >> self.root.order != 0 {
            return None;
        }
        let aligned = if offset == 0 { self.root.order } else { offset.trailing_zeros() };
        let highest = aligned.min(self.root.order).min(MAX_ORDER);
        let at = |order| Node { order, index: offset >> order };
        for order in (BLOCK_ORDER..=highest).rev() {
            match self.load(at(order)) {
                0 => return None,
                byte if byte & FLAGS != 0 => return Some((at(order), byte & FLAGS)),
                _ => {}
            }
        }
        // TREE-2: only a split block has a bottom.
        if self.is_whole(at(BLOCK_ORDER)) {
            return None;
        }
        for order in (MIN_ORDER..=highest.min(BLOCK_ORDER - 1)).rev() {
            match self.load(at(order)) {
                0 => return None,
                byte if byte & FLAGS != 0 => return Some((at(order), byte & FLAGS)),
                _ => {}
            }
        }
        None
    }

    /// Calls `visit` for every extent with its flag, in the order of their offsets.
    pub(super) fn extents(&self, visit: &mut impl FnMut(Node, u8)) {
        self.extents_in(self.root, visit);
    }

    fn extents_in(&self, node: Node, visit: &mut impl FnMut(Node, u8)) {
        let byte = self.load(node);
        if byte & FLAGS != 0 {
            visit(node, byte & FLAGS);
        } else if byte != 0 && node.order > MIN_ORDER {
            self.extents_in(node.child(0), visit);
            self.extents_in(node.child(1), visit);
        }
    }

    /// Calls `visit` for every largest node of a block or more that is wholly free, and for every
    /// split block.
    pub(super) fn blocks_with_room(&self, visit: &mut impl FnMut(Node)) {
        self.blocks_with_room_in(self.root, visit);
    }

    fn blocks_with_room_in(&self, node: Node, visit: &mut impl FnMut(Node)) {
        let byte = self.load(node);
        if byte & FLAGS != 0 {
            return;
        }
        if byte == 0 || node.order == BLOCK_ORDER {
            visit(node);
        } else {
            self.blocks_with_room_in(node.child(0), visit);
            self.blocks_with_room_in(node.child(1), visit);
        }
    }

    /// Repairs the tree after an earlier process: computes every split node again from its extents,
    /// and frees cached extents. Under the latch.
    pub(super) fn repair(&self) {
        self.repair_in(self.root);
    }

    fn repair_in(&self, node: Node) {
        let byte = self.load(node);
        if byte & ALLOCATED != 0 || byte == 0 {
            return;
        }
        if byte & CACHED != 0 || node.order == MIN_ORDER {
            self.store(node, 0);
            return;
        }
        self.repair_in(node.child(0));
        self.repair_in(node.child(1));
        self.store(node, self.computed(node));
    }
}
