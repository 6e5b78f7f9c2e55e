//! Slots for new rows.
//!
//! A worker fills a segment of its own from its begin to its end (`TABLE-3`); slots that deletes
//! have freed come first.
//!
//! - `SLOTS-1`: a table is settled until somebody is about to give a slot other values in columns
//!   of ordered indexes than it was first filled with: another row, or an update. So in a settled
//!   table a row that is present has the keys that the entries of its slot say, be they new or old.
//!   Who unsettles it does so before the row can be seen as it will be; who reads a row looks
//!   whether the table is settled after it has the row's lock, or the version of the row that will
//!   be validated.

use std::hint::cold_path;
use std::sync::atomic::Ordering;

use atoll_machine::{Machine, Word};

use super::Table;
use crate::directory::Change;
use crate::error::StorageError;
use crate::layout::{RowId, SEGMENT_ROWS};

/// Where a worker puts its next new row of a table.
#[derive(Debug, Clone, Copy, Default)]
pub struct Filling {
    segment: u64,
    next: usize,
    active: bool,
}

impl Filling {
    /// The segment with this number, from a slot on.
    pub(crate) fn at(segment: u64, next: usize) -> Self {
        Self { segment, next, active: true }
    }

    /// Whether a segment is being filled.
    pub fn is_active(&self) -> bool {
        self.active
    }
}

/// Not 0 once [`Table::invalidate_index_only`] has been called. On a cache line of its own, since
/// it is read for every row that is scanned.
#[repr(align(64))]
pub(super) struct IndexOnlyInvalid<M: Machine>(M::Word);

impl<M: Machine> Default for IndexOnlyInvalid<M> {
    fn default() -> Self {
        Self(M::Word::new(0))
    }
}

impl<M: Machine> Table<M> {
    /// A place for a new row.
    ///
    /// # Errors
    /// [`StorageError::Memory`], [`StorageError::TableFull`].
    pub fn claim(&self, change: Change, filling: &mut Filling) -> Result<RowId, StorageError> {
        if self.free_count.load(Ordering::Relaxed) > 0
            && let Some(row) = self.pop_free()
        {
            return Ok(row);
        }
        if !filling.active || filling.next == SEGMENT_ROWS {
            *filling = self.next_filling(change)?;
        }
        let row = RowId::new(filling.segment, filling.next);
        filling.next += 1;
        Ok(row)
    }

    #[inline(never)]
    fn pop_free(&self) -> Option<RowId> {
        let row = self.free.take().pop()?;
        self.free_count.fetch_sub(1, Ordering::Relaxed);
        self.invalidate_index_only();
        Some(row)
    }

    /// Whether every row has the keys that the entries of its slot say (`SLOTS-1`), so that nobody
    /// has to compare them.
    #[inline]
    pub fn is_index_only(&self) -> bool {
        self.index_only_invalid.0.load(Ordering::Relaxed) == 0
    }

    /// A row is going to have other keys in ordered indexes than its slot has had (`SLOTS-1`).
    #[inline]
    pub fn invalidate_index_only(&self) {
        // Mostly it has been already, and everybody reads the word.
        if self.is_index_only() {
            cold_path();
            self.index_only_invalid.0.store(1, Ordering::Relaxed);
        }
    }

    /// What somebody has left, or a new segment.
    #[cold]
    fn next_filling(&self, change: Change) -> Result<Filling, StorageError> {
        let left = self.left.take().pop();
        match left {
            Some(filling) => Ok(filling),
            None => Ok(Filling::at(self.add_segment(change)?, 0)),
        }
    }

    /// Adds an empty segment; returns its number. What several threads add at once is all there
    /// when the last of them has returned.
    ///
    /// # Errors
    /// [`StorageError::Memory`], [`StorageError::TableFull`].
    pub fn add_segment(&self, change: Change) -> Result<u64, StorageError> {
        let Some(segment) = self.barrier.create(change, &self.schema)? else {
            let rows = self.segment_count.load(Ordering::Relaxed) * SEGMENT_ROWS;
            return Err(StorageError::TableFull(self.name.clone(), rows as u64));
        };
        let number = segment.number();
        self.segments.get_or_init(number, || segment);
        self.segment_count.fetch_max(number as usize + 1, Ordering::AcqRel);
        Ok(number)
    }

    /// A worker will insert no more; the next one goes on where it stopped.
    pub fn leave(&self, filling: Filling) {
        if filling.active && filling.next < SEGMENT_ROWS {
            self.left.take().push(filling);
        }
    }

    /// Gives a slot back that no row uses: its delete has committed, or its insert has been undone.
    pub fn free(&self, row: RowId) {
        self.free.take().push(row);
        self.free_count.fetch_add(1, Ordering::Relaxed);
    }
}
