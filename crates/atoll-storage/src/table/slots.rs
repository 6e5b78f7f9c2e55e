//! Slots for new rows.
//!
//! A worker fills a segment of its own from the first slot to the last (`TABLE-3`); it first takes
//! slots that deletes have freed. Its first segment of a table is small and grows with its rows;
//! the segments after that are large from the start.
//!
//! - `SLOTS-1`: a table is valid for index-only access until a transaction is about to give a slot
//!   other values in columns of ordered indexes than those with which it was first filled, by
//!   reusing the slot or by an update. So in such a table a present row has the keys that the index
//!   entries of its slot say, in its new version and in its old ones. A writer clears the validity
//!   before the changed row can become visible. A reader checks it after it holds the row's lock,
//!   or after it has read the version of the row that the scheme will validate.

use std::hint::cold_path;

use atoll_machine::{Machine, Ordering, Word};
use atoll_memory::Member;

use super::Table;
use crate::directory::Change;
use crate::error::StorageError;
use crate::layout::{RowId, SEGMENT_ROWS, capacity_for};

/// The segment that a worker fills, its next free slot, and its capacity, which is 0 if there is no
/// segment yet.
#[derive(Debug, Clone, Copy, Default)]
pub struct Filling {
    segment: u64,
    next: usize,
    capacity: usize,
}

impl Filling {
    /// The filling of a segment of this capacity from slot `next` on.
    pub(crate) fn at(segment: u64, next: usize, capacity: usize) -> Self {
        Self { segment, next, capacity }
    }

    /// Whether a segment is being filled.
    pub fn is_active(&self) -> bool {
        self.capacity > 0
    }

    /// Whether [`Table::make_room`] has anything to do before the worker claims so many slots.
    #[inline]
    pub fn lacks_room(&self, slots: usize) -> bool {
        self.capacity - self.next < slots && self.capacity < SEGMENT_ROWS
    }

    /// The capacity that the segment has after it has grown once; that of the first segment, if
    /// there is none.
    fn grown(&self) -> usize {
        capacity_for(self.capacity + 1)
    }
}

/// Not 0 once [`Table::invalidate_index_only`] has been called. It has a cache line of its own,
/// since scans read it for every row.
#[repr(align(64))]
pub(super) struct IndexOnlyInvalid<M: Machine>(M::Word);

impl<M: Machine> Default for IndexOnlyInvalid<M> {
    fn default() -> Self {
        Self(M::Word::new(0))
    }
}

impl<M: Machine> Table<M> {
    /// Claims a slot for a new row.
    ///
    /// # Errors
    /// [`StorageError::Memory`], [`StorageError::TableFull`].
    pub fn claim(&self, change: Change, filling: &mut Filling) -> Result<RowId, StorageError> {
        if self.free_count.load(Ordering::Relaxed) > 0
            && let Some(row) = self.pop_free()
        {
            return Ok(row);
        }
        if filling.next == filling.capacity {
            let next = self.next_filling(change, filling.grown())?;
            self.leave(std::mem::replace(filling, next));
        }
        let row = RowId::new(filling.segment, filling.next);
        filling.next += 1;
        Ok(row)
    }

    #[inline(never)]
    fn pop_free(&self) -> Option<RowId> {
        if self.is_loading() {
            return None; // BULK-2
        }
        let row = self.free.take().pop()?;
        self.free_count.fetch_sub(1, Ordering::Relaxed);
        self.invalidate_index_only();
        Some(row)
    }

    /// Whether every row has the keys that the index entries of its slot say (`SLOTS-1`), so that a
    /// reader need not compare them.
    #[inline]
    pub fn is_index_only(&self) -> bool {
        self.index_only_invalid.0.load(Ordering::Relaxed) == 0
    }

    /// Invalidates index-only access: a row is about to have other keys in ordered indexes than
    /// those with which its slot was first filled (`SLOTS-1`).
    #[inline]
    pub fn invalidate_index_only(&self) {
        // Stores only once: mostly the word is set already, and all threads read its cache line.
        if self.is_index_only() {
            cold_path();
            self.index_only_invalid.0.store(1, Ordering::Relaxed);
        }
    }

    /// A segment that another worker has left, or a new one of this capacity.
    #[cold]
    fn next_filling(&self, change: Change, capacity: usize) -> Result<Filling, StorageError> {
        let _adding = self.begin_adding()?;
        let mut left = self.left.take();
        if let Some(at) = left.iter().rposition(|filling| filling.next < filling.capacity) {
            return Ok(left.remove(at));
        }
        drop(left);
        Ok(Filling::at(self.add_segment(change, capacity)?, 0, capacity))
    }

    /// Enlarges the segment that a worker fills, so that the worker can claim so many slots in it.
    /// A worker that claims slots without room gets another segment. A thread that is inside the
    /// gate must not call this; `member` is its place at the gate.
    ///
    /// # Errors
    /// [`StorageError::Memory`].
    #[cold]
    pub fn make_room(
        &self,
        member: &mut Member,
        filling: &mut Filling,
        slots: usize,
    ) -> Result<(), StorageError> {
        if self.free_count.load(Ordering::Relaxed) >= slots as u64 {
            return Ok(());
        }
        if !filling.is_active()
            && let Ok(_adding) = self.begin_adding()
            && let Some(left) = self.left.take().pop()
        {
            *filling = left;
        }
        while filling.is_active() && filling.lacks_room(slots) {
            let capacity = filling.grown();
            let segment = self.slot(RowId::new(filling.segment, 0)).segment();
            let barrier = &self.barrier;
            let begin = |epoch| barrier.begin_growth(segment, capacity as u64, epoch);
            self.memory().advance_after(begin);
            let section = member.enter();
            let change = Change::forward(section.inside());
            if barrier.finish_growth(change, segment)? {
                filling.capacity = capacity;
            }
        }
        Ok(())
    }

    /// Adds an empty segment of this capacity; returns its number. If several threads add segments
    /// concurrently, all of them can be found when the last call has returned.
    ///
    /// # Errors
    /// [`StorageError::Memory`], [`StorageError::TableFull`].
    pub fn add_segment(&self, change: Change, capacity: usize) -> Result<u64, StorageError> {
        let Some(segment) = self.barrier.create(change, capacity as u64)? else {
            let rows = self.segment_count() * SEGMENT_ROWS as u64;
            return Err(StorageError::TableFull(self.name().to_owned(), rows));
        };
        let number = segment.number();
        self.segments.get_or_init(number, || segment);
        self.segment_count.fetch_max(number + 1, Ordering::AcqRel);
        Ok(number)
    }

    /// Returns the filling of a worker that inserts no more; another worker continues it.
    pub fn leave(&self, filling: Filling) {
        if filling.is_active() && filling.next < SEGMENT_ROWS {
            self.left.take().push(filling);
        }
    }

    /// Frees a slot that no row uses: the delete of its row has committed, or the insert was
    /// undone.
    pub fn free(&self, row: RowId) {
        self.free.take().push(row);
        self.free_count.fetch_add(1, Ordering::Relaxed);
    }
}
