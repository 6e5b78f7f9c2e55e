//! Blocks of long values that are mostly empty: finding what still lies in them.

use std::sync::atomic::Ordering;

use atoll_machine::Machine;
use atoll_memory::Member;

use super::Table;
use crate::image;
use crate::layout::{RowId, SEGMENT_ROWS};

/// So many bytes of long values must have gone before looking for sparse blocks pays.
const SPARSE_BYTES_MIN: u64 = 1 << 20;

impl<M: Machine> Table<M> {
    /// Whether enough long values went since the last call that blocks may be sparse.
    pub fn may_be_sparse(&self) -> bool {
        let enough = self.gone_bytes.load(Ordering::Relaxed) >= SPARSE_BYTES_MIN;
        if enough {
            self.gone_bytes.store(0, Ordering::Relaxed);
        }
        enough
    }

    /// There was more than was asked for, so that it pays to look again.
    pub fn stays_sparse(&self) {
        self.gone_bytes.fetch_max(SPARSE_BYTES_MIN, Ordering::Relaxed);
    }

    /// Values that lie in sparse blocks, at most `most`: row and column. Storing each again, as a
    /// transaction of its own, empties the blocks. Not to be called by a thread that is inside;
    /// `member` is its place at the gate.
    pub fn sparse_values(&self, member: &mut Member, most: usize) -> Vec<(RowId, usize)> {
        let columns = self.schema.columns().iter().enumerate();
        let views: Vec<usize> =
            columns.filter(|(_, column)| column.data_type.is_view()).map(|(at, _)| at).collect();
        let mut found = Vec::new();
        for number in 0..self.segment_count() {
            let Some(segment) = self.segments.get(number) else { continue };
            for at in views.iter().copied() {
                let blocks = self.barrier.sparse_blocks(segment, at);
                if blocks.is_empty() {
                    continue;
                }
                let section = member.enter();
                for slot in 0..SEGMENT_ROWS {
                    let row = RowId::new(number, slot);
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
