//! The split blocks that have room, indexed by the largest hole in each, so that small extents fill
//! holes of committed blocks before a whole block is split for them.
//!
//! The index is in the private DRAM of the process, and is built from the tree when an allocator is
//! opened.
//! Invariant `PART-1`: under the allocator's latch a block is in the set of order `o` exactly if it
//! is split and `o` is the order of its largest free node.

use super::layout::{BLOCK_ORDER, MIN_ORDER};
use super::tree::{Node, Tree};
use std::collections::BTreeSet;

/// One set of blocks per order below a whole block.
#[derive(Debug, Default)]
pub(super) struct PartialBlocks {
    by_hole: [BTreeSet<u64>; (BLOCK_ORDER - MIN_ORDER) as usize],
}

impl PartialBlocks {
    /// The sets for a tree as it is.
    pub(super) fn of(tree: &Tree) -> PartialBlocks {
        let mut all = PartialBlocks::default();
        tree.blocks_with_room(&mut |node| {
            if node.order == BLOCK_ORDER {
                all.moved(node, None, tree.best(node));
            }
        });
        all
    }

    /// Runs a change of the tree that may change the largest hole of `node`'s block, and updates
    /// the index.
    pub(super) fn around(&mut self, tree: &Tree, node: Node, change: impl FnOnce()) {
        if node.order >= BLOCK_ORDER {
            return change();
        }
        let block = node.block();
        let before = tree.best(block);
        change();
        self.moved(block, before, tree.best(block));
    }

    fn moved(&mut self, block: Node, before: Option<u32>, after: Option<u32>) {
        if before == after {
            return;
        }
        // A hole as large as the block is no hole: the block is whole.
        let set = |hole: Option<u32>| hole.filter(|hole| *hole < BLOCK_ORDER);
        if let Some(hole) = set(before) {
            self.by_hole[(hole - MIN_ORDER) as usize].remove(&block.index);
        }
        if let Some(hole) = set(after) {
            self.by_hole[(hole - MIN_ORDER) as usize].insert(block.index);
        }
    }

    /// The lowest block among those with the smallest hole that takes a node of this order.
    pub(super) fn find(&self, order: u32) -> Option<Node> {
        let fitting = self.by_hole.iter().skip((order - MIN_ORDER) as usize);
        let index = *fitting.filter_map(BTreeSet::first).next()?;
        Some(Node { order: BLOCK_ORDER, index })
    }
}
