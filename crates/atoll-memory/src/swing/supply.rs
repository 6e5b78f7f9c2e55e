//! Allocating, freeing and trimming: how extents move between users, the magazines, the tree or
//! table, and the system.
//!
//! 1. *allocate*: take a recently freed extent of that order from a magazine; otherwise take a
//!    node of the tree under the latch (a small one from a block that is split already, if there
//!    is one with room), then commit its data without the latch.
//! 2. *free*: mark the node `CACHED` (a compare-and-swap, which detects double frees) and put it in
//!    a magazine; otherwise return it to the tree, which joins buddies.
//! 3. A block of 2 MiB or more that becomes wholly free keeps its space while all such blocks
//!    together stay within a budget (warm blocks); beyond the budget it is decommitted first.
//! 4. Before out-of-memory is reported, magazines are emptied and warm blocks decommitted, once.
//!
//! A failed call changes nothing.

use super::layout::{BLOCK_ORDER, BOTTOM_BYTES, MIN_ORDER};
use super::magazine::Magazines;
use super::tree::{ALLOCATED, CACHED, Node};
use super::{Extent, SwingMalloc};
use crate::error::{MemoryError, Shortage};
use crate::store::{CHUNK_BYTES, Reach};
use std::sync::atomic::Ordering;

impl SwingMalloc {
    /// Frees the extent that starts at `offset` and returns its size in bytes.
    ///
    /// # Errors
    /// [`MemoryError::NotAllocated`] for anything that is not the start of a live extent, such as
    /// one that was freed before; [`MemoryError::ReadOnly`]. Nothing is changed then.
    pub fn free(&self, offset: u64) -> Result<u64, MemoryError> {
        self.check_writer()?;
        if let Some(within) = self.buddy_offset(offset) {
            let node = match self.tree.extent_at(within) {
                Some((node, ALLOCATED)) if self.tree.change(node, ALLOCATED, CACHED) => node,
                _ => return Err(MemoryError::NotAllocated { offset }),
            };
            if !Magazines::keeps(node.order) {
                self.give_back(&[node]);
                return Ok(node.bytes());
            }
            let over = self.magazines.push(node);
            if !over.is_empty() {
                self.give_back(&over);
            }
            return Ok(node.bytes());
        }
        let state = self.latch();
        let Some((entry, held)) = self.large.find(offset) else {
            return Err(MemoryError::NotAllocated { offset });
        };
        self.large.set_busy(entry);
        drop(state);
        self.store.decommit(offset, held);
        let _state = self.latch();
        self.large.release(entry);
        Ok(held)
    }

    /// Decommits all free space: magazines, warm blocks, and the metadata of free blocks.
    pub fn trim(&self) {
        if self.writer_lock.is_none() {
            return;
        }
        self.give_back(&self.magazines.drain());
        let mut state = self.latch();
        if state.warm > 0 {
            self.tree.blocks_with_room(&mut |node| {
                if self.tree.is_free(node) {
                    self.store.decommit(self.layout.data_at + node.offset(), node.bytes());
                }
            });
            state.warm = self.warm();
        }
        self.trim_bottoms();
    }

    /// Commits `bytes` of free blocks ahead of need, so that no allocation waits while the system
    /// zeroes their pages; as far as the budget of warm blocks, the limit and the headroom allow.
    /// Returns the bytes committed.
    ///
    /// # Errors
    /// [`MemoryError::ReadOnly`], and those of [`SwingMalloc::free`].
    pub fn make_ready(&self, bytes: u64) -> Result<u64, MemoryError> {
        self.check_writer()?;
        let bytes = bytes.min(self.warm_bytes.load(Ordering::Relaxed));
        let blocks = 0..bytes >> BLOCK_ORDER;
        let taken = blocks.map_while(|_| self.allocate(1 << BLOCK_ORDER).ok());
        let taken: Vec<Extent> = taken.collect();
        taken.iter().try_for_each(|block| self.free(block.offset).map(drop))?;
        Ok((taken.len() as u64) << BLOCK_ORDER)
    }

    /// Decommits the chunks of tree bottoms in which no block is split (TREE-1: they are zeros).
    /// Under the latch.
    fn trim_bottoms(&self) {
        let blocks = self.layout.buddy_bytes() >> BLOCK_ORDER;
        let per_chunk = CHUNK_BYTES / BOTTOM_BYTES;
        for first in (0..blocks).step_by(per_chunk as usize) {
            let at = self.layout.bottoms_at + first * BOTTOM_BYTES;
            if self.store.committed_in(at, 1) == 0 {
                continue;
            }
            let mut covered = first..blocks.min(first + per_chunk);
            if covered.all(|index| self.tree.is_whole(Node { order: BLOCK_ORDER, index })) {
                self.store.decommit(at, CHUNK_BYTES);
            }
        }
    }

    pub(super) fn allocate_as_far_as(
        &self,
        size: u64,
        reach: Reach,
    ) -> Result<Extent, MemoryError> {
        self.check_writer()?;
        let order = size.max(1).checked_next_power_of_two().map_or(64, u64::trailing_zeros);
        let order = order.max(MIN_ORDER);
        if order > self.layout.max_order() {
            if size > self.layout.largest_bytes() {
                let largest_bytes = self.layout.largest_bytes();
                return Err(MemoryError::TooLarge { asked_bytes: size, largest_bytes });
            }
            return self.with_relief(size, || self.take_large(size, reach));
        }
        if Magazines::keeps(order)
            && let Some(node) = self.magazines.pop(order)
        {
            // MAG-1: only this thread has the extent, so its flag is `CACHED`.
            let was_cached = self.tree.change(node, CACHED, ALLOCATED);
            debug_assert!(was_cached, "an extent in a magazine is cached");
            return Ok(self.extent(node));
        }
        self.with_relief(size, || self.take_node(order, reach))
    }

    /// Runs `attempt`, and once more after a trim if it was out of memory.
    fn with_relief(
        &self,
        size: u64,
        attempt: impl Fn() -> Result<Extent, MemoryError>,
    ) -> Result<Extent, MemoryError> {
        match attempt() {
            Err(error) if error.is_out_of_memory() => {
                self.trim();
                attempt().map_err(|error| error.asked(size))
            }
            done => done,
        }
    }

    fn take_node(&self, order: u32, reach: Reach) -> Result<Extent, MemoryError> {
        let mut state = self.latch();
        let hole = if order < BLOCK_ORDER { state.partial.find(order) } else { None };
        let found = match hole {
            Some(block) => self.tree.find_in(block, order),
            None => self.tree.find(order),
        };
        let Some(node) = found else {
            return Err(self.store.out_of_memory(1 << order, Shortage::AddressSpace));
        };
        let was_free = if order < BLOCK_ORDER { node.block() } else { node };
        if order < BLOCK_ORDER {
            // TREE-2: the block is about to be split.
            let bottom = self.layout.bottoms_at + was_free.index * BOTTOM_BYTES;
            self.store.commit_as_far_as(bottom, BOTTOM_BYTES, reach)?;
        }
        if self.tree.is_free(was_free) {
            state.warm -= self.committed(was_free);
        }
        state.partial.around(&self.tree, node, || self.tree.take(node, ALLOCATED));
        state.taken += 1;
        state.taken_bytes += node.bytes();
        drop(state);
        let extent = self.extent(node);
        if let Err(error) = self.store.commit_as_far_as(extent.offset, extent.size_bytes, reach) {
            self.tree.change(node, ALLOCATED, CACHED);
            self.give_back(&[node]);
            return Err(error);
        }
        Ok(extent)
    }

    fn take_large(&self, size: u64, reach: Reach) -> Result<Extent, MemoryError> {
        let taken = {
            let _state = self.latch();
            self.large.take(size)
        };
        let Some((offset, held)) = taken else {
            return Err(self.store.out_of_memory(size, Shortage::AddressSpace));
        };
        if let Err(error) = self.store.commit_as_far_as(offset, held, reach) {
            let _state = self.latch();
            if let Some((entry, _)) = self.large.find(offset) {
                self.large.release(entry);
            }
            return Err(error);
        }
        Ok(Extent { offset, size_bytes: held })
    }

    /// Returns cached extents to the tree, and decommits blocks that become wholly free, except
    /// those that may stay warm.
    pub(super) fn give_back(&self, nodes: &[Node]) {
        let mut cold: Vec<Node> = Vec::new();
        let budget = self.warm_bytes.load(Ordering::Relaxed);
        {
            let mut state = self.latch();
            for node in nodes {
                state.partial.around(&self.tree, *node, || self.tree.release(*node));
                state.taken -= 1;
                state.taken_bytes -= node.bytes();
                let free = if node.order < BLOCK_ORDER { node.block() } else { *node };
                if !self.tree.is_free(free) {
                    continue;
                }
                let committed = self.committed(free);
                if state.warm + committed <= budget {
                    state.warm += committed;
                } else {
                    // Taken again, so that no thread allocates it while it is decommitted.
                    self.tree.take(free, CACHED);
                    cold.push(free);
                }
            }
        }
        if cold.is_empty() {
            return;
        }
        for node in &cold {
            self.store.decommit(self.layout.data_at + node.offset(), node.bytes());
        }
        let mut state = self.latch();
        for node in cold {
            self.tree.release(node);
            state.warm += self.committed(node);
        }
    }
}
