//! Sparse heap blocks: finding the values that are still live in them.

use atoll_machine::{Machine, Ordering, Word};
use atoll_memory::Member;

use super::Table;
use crate::image;
use crate::layout::RowId;

/// A search for sparse blocks pays only after this many bytes of long values were released.
const SPARSE_BYTES_MIN: u64 = 1 << 20;

impl<M: Machine> Table<M> {
    /// Whether enough long values were released since the last call that blocks may be sparse.
    pub fn may_be_sparse(&self) -> bool {
        let enough =
            !self.is_leaving() && self.gone_bytes.load(Ordering::Relaxed) >= SPARSE_BYTES_MIN;
        if enough {
            self.gone_bytes.store(0, Ordering::Relaxed);
        }
        enough
    }

    /// Makes [`Table::may_be_sparse`] return true again: the last search has found more values than
    /// it returned.
    pub fn stays_sparse(&self) {
        self.gone_bytes.fetch_max(SPARSE_BYTES_MIN, Ordering::Relaxed);
    }

    /// Values in sparse blocks, at most `most`: row and column. To empty the blocks, the caller
    /// stores each value again, in a transaction of its own. A thread that is inside the gate must
    /// not call this; `member` is its place at the gate. The search ends early if a drop of the
    /// table begins, which waits for the caller.
    pub fn sparse_values(&self, member: &mut Member, most: usize) -> Vec<(RowId, usize)> {
        let columns = self.barrier.columns().iter().enumerate();
        let views: Vec<usize> =
            columns.filter(|(_, column)| column.data_type.is_view()).map(|(at, _)| at).collect();
        let mut found = Vec::new();
        for number in 0..self.segment_count() {
            if self.is_leaving() {
                return Vec::new();
            }
            let Some(segment) = self.segments.get(number) else { continue };
            let views = views.iter().copied().filter(|at| *at < segment.columns());
            for at in views {
                let blocks = self.barrier.sparse_blocks(segment, at);
                if blocks.is_empty() {
                    continue;
                }
                let section = member.enter();
                for row in self.slots_of(number) {
                    let mut image = [0; 16];
                    let valid = self.is_present(row) && self.load(self.slot(row), at, &mut image);
                    let place = image::heap_place(&image).filter(|_| valid);
                    if place.is_some_and(|place| blocks.contains(&place.block)) {
                        found.push((row, at));
                    }
                }
                drop(section);
                if found.len() >= most {
                    found.truncate(most);
                    return found;
                }
            }
        }
        found
    }
}
