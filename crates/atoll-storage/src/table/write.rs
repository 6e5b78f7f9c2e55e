//! Storing values, and restoring the values that were replaced.
//!
//! A store first writes the old value into the undo list (`UNDO-1`). Where no undo is needed, the
//! caller finds the place first and stores later. Long values are stored in the heap; the old one
//! is released when no transaction can restore it any more.

use atoll_machine::{Machine, Ordering, Word};
use atoll_memory::MemoryError;

use super::{PlainColumn, Slot, Table};
use crate::directory::Change;
use crate::error::StorageError;
use crate::image::{self, HeapPlace, Plain};
use crate::layout::RowId;
use crate::segment::{Cell, Number, ValuePlace};
use crate::types::Column;
use crate::undo::{Before, Replaced, UndoList};

impl<M: Machine> Table<M> {
    /// Stores a value and writes an undo entry with the old one.
    ///
    /// # Errors
    /// [`StorageError::Memory`]; nothing is changed then.
    #[inline]
    pub fn store(
        &self,
        change: Change,
        slot: Slot<'_, M>,
        at: usize,
        plain: Plain<'_>,
        undo: &mut UndoList<M>,
    ) -> Result<(), StorageError> {
        let shape = &self.shapes[at];
        if shape.is_bytes
            && let Some(bytes) = plain.filter(|bytes| bytes.len() == shape.width)
        {
            return Ok(self.barrier.replace_bytes(change, slot, at, bytes, undo)?);
        }
        /// Stores a number that is not NULL.
        macro_rules! number {
            ($rust:ty) => {
                if let Some(bytes) = plain.and_then(|bytes| bytes.try_into().ok()) {
                    let value = <$rust>::from_le_bytes(bytes);
                    let stored = self.store_number(change, slot, at, |_| Some(value), undo);
                    return stored.map(|_| ());
                }
            };
        }
        match shape.set_width {
            2 => number!(i16),
            4 => number!(i32),
            8 => number!(i64),
            _ => {}
        }
        let Column { data_type, nullable, .. } = *self.column(at);
        let fits = |bytes: &[u8]| data_type.is_view() || bytes.len() == data_type.width().max(1);
        debug_assert!(plain.is_none_or(fits), "{plain:?} for {data_type}");
        let mut room = [0; 16];
        let row = slot.id();
        let image = self.encode(change, row, at, plain, &mut room)?;
        let cell = Cell { column: at, data_type, nullable, image, valid: plain.is_some() };
        self.barrier.replace_value(change, slot, cell, undo).map_err(|error| {
            let place = data_type.is_view().then(|| image::heap_place(image)).flatten();
            self.release_heap(change, row, at, place);
            error.into()
        })
    }

    /// As [`Table::store`], for a value of a plain column; `bytes` has the column's width.
    ///
    /// # Errors
    /// As there.
    #[inline(always)]
    pub fn store_plain(
        &self,
        change: Change,
        slot: Slot<'_, M>,
        column: PlainColumn,
        bytes: &[u8],
        undo: &mut UndoList<M>,
    ) -> Result<(), StorageError> {
        debug_assert_eq!(bytes.len(), column.width());
        let at = column.position();
        if !column.is_bytes() {
            return self.store(change, slot, at, Some(bytes), undo);
        }
        Ok(self.barrier.replace_bytes(change, slot, at, bytes, undo)?)
    }

    /// As [`Table::store`], for a number in a column that [sets](Table::sets_numbers) them: stores
    /// the result of `new` for the old number and returns it; stores nothing if that is `None`.
    ///
    /// # Errors
    /// As there.
    #[inline(always)]
    pub fn store_number<N: Number>(
        &self,
        change: Change,
        slot: Slot<'_, M>,
        at: usize,
        new: impl FnOnce(N) -> Option<N>,
        undo: &mut UndoList<M>,
    ) -> Result<Option<N>, StorageError> {
        debug_assert!(self.sets_numbers::<N>(at));
        Ok(self.barrier.replace_number(change, slot, at, new, undo)?)
    }

    /// The place into which a value can be stored until the section of `change` ends, so that the
    /// store cannot fail and needs nothing else. `None` if the store needs more than that.
    #[inline(always)]
    pub fn place_for(
        &self,
        change: Change,
        row: RowId,
        at: usize,
        plain: Plain<'_>,
    ) -> Option<ValuePlace> {
        let shape = &self.shapes[at];
        let bytes = plain.filter(|bytes| shape.is_flat && bytes.len() == shape.width)?;
        let place = self.barrier.place_in(change, row, at, shape.width)?;
        if !shape.is_bytes {
            // If the value is not stored after all, the zone is wider than necessary, which is
            // allowed.
            self.widen_for(self.slot(row), at, bytes);
        }
        Some(place)
    }

    /// Widens the zone of a flat column so that it includes a value.
    #[inline(always)]
    fn widen_for(&self, slot: Slot<'_, M>, at: usize, bytes: &[u8]) {
        let segment = slot.segment();
        macro_rules! number {
            ($rust:ty) => {
                if let Ok(bytes) = bytes.try_into() {
                    return self.barrier.widen_by(segment, at, <$rust>::from_le_bytes(bytes));
                }
            };
        }
        match self.shapes[at].number_width {
            2 => number!(i16),
            4 => number!(i32),
            8 => number!(i64),
            _ => {}
        }
        self.barrier.widen_for(segment, at, self.column(at).data_type, bytes);
    }

    /// Puts a value into an absent, vacant slot, which needs no undo entry.
    ///
    /// # Errors
    /// [`StorageError::Memory`]; nothing is changed then.
    #[inline]
    pub(crate) fn fill_value(
        &self,
        change: Change,
        slot: Slot<'_, M>,
        at: usize,
        plain: Plain<'_>,
    ) -> Result<(), StorageError> {
        let row = slot.id();
        let Column { data_type, nullable, .. } = *self.column(at);
        let mut room = [0; 16];
        let image = self.encode(change, row, at, plain, &mut room)?;
        let cell = Cell { column: at, data_type, nullable, image, valid: plain.is_some() };
        self.barrier.store_value(change, slot, cell).map_err(|error| {
            let place = data_type.is_view().then(|| image::heap_place(image)).flatten();
            self.release_heap(change, row, at, place);
            error.into()
        })
    }

    #[inline(always)]
    pub(crate) fn encode<'v>(
        &self,
        change: Change,
        row: RowId,
        at: usize,
        plain: Plain<'v>,
        room: &'v mut [u8; 16],
    ) -> Result<&'v [u8], StorageError> {
        match plain {
            // The most frequent case, inlined: the result of a function that is called would be
            // returned through memory.
            Some(bytes) if !self.column(at).data_type.is_view() => Ok(bytes),
            _ => self.encode_view(change, row, at, plain, room),
        }
    }

    fn encode_view<'v>(
        &self,
        change: Change,
        row: RowId,
        at: usize,
        plain: Plain<'v>,
        room: &'v mut [u8; 16],
    ) -> Result<&'v [u8], StorageError> {
        let data_type = self.column(at).data_type;
        if data_type.is_view()
            && let Some(long) = plain.filter(|bytes| bytes.len() > image::INLINE_BYTES_MAX)
        {
            *room = self.barrier.heap_append(change, self.segment(row), at, long)?;
            return Ok(room);
        }
        Ok(image::of_plain(data_type, plain, room).expect("a short value needs no heap"))
    }

    /// Makes a slot absent and writes an undo entry.
    ///
    /// # Errors
    /// [`StorageError::Memory`]; nothing is changed then.
    pub fn erase(
        &self,
        change: Change,
        row: RowId,
        undo: &mut UndoList<M>,
    ) -> Result<(), StorageError> {
        undo.push(change.inside.epoch, self.id(), row, Before::Presence(true));
        self.barrier.set_presence(change, self.segment(row), row.slot(), false).map_err(|error| {
            undo.pop(0);
            error.into()
        })
    }

    /// Restores the before image of an undo entry.
    ///
    /// # Errors
    /// [`MemoryError::OutOfMemory`] when even the memory that is reserved for rollbacks is used up;
    /// the caller can try the entry again.
    pub fn restore(&self, change: Change, row: RowId, was: Before<'_>) -> Result<(), MemoryError> {
        let slot = self.slot(row);
        match was {
            Before::Presence(present) => {
                self.barrier.set_presence(change, slot.segment(), row.slot(), present)?;
                if !present {
                    self.vacate(change, row);
                }
                Ok(())
            }
            Before::Value { column, valid, image } => {
                let at = usize::from(column);
                let Column { data_type, nullable, .. } = *self.column(at);
                let width = data_type.width().max(1);
                let mut now = [0; 16];
                let heap = data_type.is_view().then(|| {
                    self.load(slot, at, &mut now);
                    image::heap_place(&now)
                });
                let image = &image[..width];
                let cell = Cell { column: at, data_type, nullable, image, valid };
                self.barrier.store_value(change, slot, cell)?;
                self.release_heap(change, row, at, heap.flatten());
                Ok(())
            }
        }
    }

    /// After commit: releases the long value that an undo entry kept for a rollback. For a deleted
    /// row, its long values are released, too.
    pub fn forget(&self, change: Change, row: RowId, replaced: Replaced) {
        match replaced {
            Replaced::Value { column, start } => {
                let at = usize::from(column);
                if self.column(at).data_type.is_view() {
                    self.release_heap(change, row, at, image::heap_place(&start));
                }
            }
            Replaced::Presence(true) => self.vacate(change, row),
            Replaced::Presence(false) => {}
        }
    }

    /// Releases the long values of an absent slot.
    pub fn vacate(&self, change: Change, row: RowId) {
        (0..self.segment(row).columns()).for_each(|at| self.empty_view(change, row, at));
    }

    /// Replaces a long value of an absent slot by an empty view, so that the slot reads as
    /// well-formed when the block of the value is freed. If the store fails (out of memory), the
    /// value is not released and its block stays.
    fn empty_view(&self, change: Change, row: RowId, at: usize) {
        let Column { data_type, nullable, .. } = *self.column(at);
        if !data_type.is_view() {
            return;
        }
        let mut now = [0; 16];
        self.load(self.slot(row), at, &mut now);
        let Some(place) = image::heap_place(&now) else { return };
        let cell = Cell { column: at, data_type, nullable, image: &[0; 16], valid: !nullable };
        let stored = self.barrier.store_value(change, self.slot(row), cell);
        if stored.is_ok() {
            self.release_heap(change, row, at, Some(place));
        }
    }

    pub(crate) fn release_heap(
        &self,
        change: Change,
        row: RowId,
        at: usize,
        place: Option<HeapPlace>,
    ) {
        if let Some(place) = place {
            self.gone_bytes.fetch_add(place.len.into(), Ordering::Relaxed);
            self.barrier.heap_release(change, self.segment(row), at, place);
        }
    }
}
