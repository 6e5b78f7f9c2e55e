//! Storing and reading single values of any type.

use atoll_machine::{Machine, Ordering};
use atoll_memory::{Memory, MemoryError};

use super::extents::Extents;
use super::table_memory::TableMemory;
use super::{Barrier, Segment, Slot, column_line, validity_of, values_of};
use crate::directory::Change;
use crate::layout::RowId;
use crate::types::DataType;
use crate::undo::UndoList;
use crate::zone;

/// A place into which a value may be stored until the section of the gate ends in which the place
/// was found; see [`Barrier::place_in`]. No worker copies the extent before all workers have left
/// that section's epoch.
#[derive(Debug, Clone, Copy)]
pub struct ValuePlace(u64);

impl ValuePlace {
    /// Stores the value there; `memory` is the table's.
    #[inline]
    pub fn store<M: Machine>(self, memory: &Memory, bytes: &[u8]) {
        TableMemory::<M>::new(memory.access()).write(self.0, bytes);
    }
}

/// A value that is to be stored in a slot.
#[derive(Clone, Copy)]
pub struct Cell<'i> {
    /// Position of its column.
    pub column: usize,
    /// The column's type.
    pub data_type: DataType,
    /// Whether the column can be NULL.
    pub nullable: bool,
    /// The image, as wide as the type.
    pub image: &'i [u8],
    /// False for NULL.
    pub valid: bool,
}

/// The places of a column's values and validity bits; the latter is 0 if the column cannot be NULL.
#[derive(Clone, Copy)]
pub(super) struct Places {
    pub(super) values: u64,
    pub(super) validity: u64,
}

/// See [`Barrier::hints_of`].
pub(crate) struct ColumnHints<'b, M: Machine> {
    extents: &'b Extents<M>,
    access: TableMemory<'b, M>,
}

impl<M: Machine> Clone for ColumnHints<'_, M> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Machine> Copy for ColumnHints<'_, M> {}

impl<M: Machine> ColumnHints<'_, M> {
    /// The address of the value of a row, for a prefetch; `width` is 0 for a bit.
    #[inline(always)]
    pub(crate) fn of(self, row: RowId, width: usize) -> *const u8 {
        let offset = if width == 0 { row.slot() / 64 * 8 } else { row.slot() * width };
        self.access.hint(self.extents.hinted_place(row.segment()) + offset as u64)
    }
}

impl<M: Machine> Barrier<M> {
    /// Stores the image of a value (see [`crate::image`]) and its validity.
    ///
    /// # Errors
    /// [`MemoryError::OutOfMemory`] when a frozen extent cannot be copied; nothing is stored then.
    #[inline]
    pub fn store_value(
        &self,
        change: Change,
        slot: Slot<'_, M>,
        cell: Cell<'_>,
    ) -> Result<(), MemoryError> {
        let Cell { column, data_type, nullable, .. } = cell;
        let places = self.own_places(change, slot.segment, column, data_type, nullable)?;
        self.put(slot, cell, places);
        Ok(())
    }

    /// As [`Barrier::store_value`], but first writes the before image into the undo list.
    ///
    /// # Errors
    /// As there; no undo entry has been written then.
    #[inline]
    pub fn replace_value(
        &self,
        change: Change,
        slot: Slot<'_, M>,
        cell: Cell<'_>,
        undo: &mut UndoList<M>,
    ) -> Result<(), MemoryError> {
        let Cell { column, data_type, nullable, .. } = cell;
        let places = self.own_places(change, slot.segment, column, data_type, nullable)?;
        let (at, width) = (slot.id.slot(), data_type.width());
        let valid = !nullable || self.bit(places.validity, at);
        let entry = (change.inside.epoch, self.table, slot.id);
        undo.push_value(entry, (column as u16, valid), width.max(1), |words| match width {
            0 => words[0].store(self.bit(places.values, at).into(), Ordering::Relaxed),
            _ => self.access().read_words(places.values + (at * width) as u64, width, words),
        });
        self.put(slot, cell, places);
        Ok(())
    }

    /// As [`Barrier::replace_value`], for a column of this width that has no zones and cannot be
    /// NULL.
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn replace_bytes(
        &self,
        change: Change,
        slot: Slot<'_, M>,
        at: usize,
        bytes: &[u8],
        undo: &mut UndoList<M>,
    ) -> Result<(), MemoryError> {
        let what = || values_of(at, bytes.len());
        let values = self.own_of(change, slot, &self.extents.values[at], what)?;
        let place = values + (slot.id.slot() * bytes.len()) as u64;
        let entry = (change.inside.epoch, self.table, slot.id);
        undo.push_value(entry, (at as u16, true), bytes.len(), |words| {
            self.access().read_words(place, bytes.len(), words);
        });
        self.access().write(place, bytes);
        Ok(())
    }

    /// Puts values into slots that belong to the caller alone, in a column of this width that has
    /// no zones and cannot be NULL.
    ///
    /// # Errors
    /// [`MemoryError::OutOfMemory`] when a frozen extent cannot be copied; nothing is stored then.
    #[inline]
    pub fn fill_bytes<'v>(
        &self,
        change: Change,
        target: &Segment<M>,
        (at, width): (usize, usize),
        values: impl Iterator<Item = (usize, &'v [u8])>,
    ) -> Result<(), MemoryError> {
        let place = self.own(change, target, &self.extents.values[at], || values_of(at, width))?;
        for (slot, bytes) in values {
            debug_assert_eq!(bytes.len(), width);
            self.access().write(place + (slot * width) as u64, bytes);
        }
        Ok(())
    }

    /// The place into which a value of `width` bytes may be stored until the section of `change`
    /// ends. `None` if the extent would have to be copied first.
    #[inline]
    pub fn place_in(
        &self,
        change: Change,
        row: RowId,
        at: usize,
        width: usize,
    ) -> Option<ValuePlace> {
        let values = self.writable(change, &self.extents.values[at], row.segment())?;
        Some(ValuePlace(values + (row.slot() * width) as u64))
    }

    /// Widens the zone of a column so that it includes a value.
    #[inline]
    pub fn widen_for(&self, target: &Segment<M>, at: usize, data_type: DataType, image: &[u8]) {
        if let Some(word) = zone::word(data_type, image) {
            self.widen(target.node() + column_line(at), word, word);
        }
    }

    /// The places of a column's extents, into which the caller may store now.
    #[inline]
    pub(super) fn own_places(
        &self,
        change: Change,
        target: &Segment<M>,
        at: usize,
        data_type: DataType,
        nullable: bool,
    ) -> Result<Places, MemoryError> {
        let what = || values_of(at, data_type.width());
        let values = self.own(change, target, &self.extents.values[at], what)?;
        let validity = if nullable {
            self.own(change, target, &self.extents.validity[at], || validity_of(at))?
        } else {
            0
        };
        Ok(Places { values, validity })
    }

    #[inline]
    fn put(&self, Slot { id, segment }: Slot<'_, M>, cell: Cell<'_>, places: Places) {
        let Cell { column: at, data_type, nullable, image, valid } = cell;
        let slot = id.slot();
        if nullable {
            self.set_bit(places.validity, slot, valid);
        }
        match data_type.width() {
            0 => self.set_bit(places.values, slot, image.first().is_some_and(|byte| *byte != 0)),
            width => self.access().write(places.values + (slot * width) as u64, image),
        }
        if valid {
            self.widen_for(segment, at, data_type, image);
        }
    }

    /// Reads the image of a value; returns its validity.
    #[inline(always)]
    pub fn load_value(
        &self,
        slot: Slot<'_, M>,
        at: usize,
        data_type: DataType,
        nullable: bool,
        image: &mut [u8],
    ) -> bool {
        let segment = slot.id.segment();
        let validity = if nullable { self.extents.validity[at].place(segment) } else { 0 };
        let places = Places { values: self.extents.values[at].place(segment), validity };
        let width = data_type.width();
        self.get(slot.id.slot(), width, nullable, places, &mut image[..width.max(1)])
    }

    /// Reads the image of a value, for a column of fixed-width values that cannot be NULL.
    #[inline(always)]
    pub fn load_flat(&self, slot: Slot<'_, M>, at: usize, image: &mut [u8]) {
        let values = self.extents.values[at].place(slot.id.segment());
        self.access().read(values + (slot.id.slot() * image.len()) as u64, image);
    }

    #[inline(always)]
    fn get(
        &self,
        slot: usize,
        width: usize,
        nullable: bool,
        places: Places,
        image: &mut [u8],
    ) -> bool {
        match width {
            0 => image[0] = u8::from(self.bit(places.values, slot)),
            width => self.access().read(places.values + (slot * width) as u64, image),
        }
        !nullable || self.bit(places.validity, slot)
    }

    /// Reads the view of a text or binary, and its validity.
    #[inline(always)]
    pub(crate) fn view(&self, slot: Slot<'_, M>, at: usize, nullable: bool) -> ([u64; 2], bool) {
        let (segment, slot) = (slot.id.segment(), slot.id.slot());
        let place = self.extents.values[at].place(segment) + slot as u64 * 16;
        let view = self.access().pair(place).map(|word| word.load(Ordering::Relaxed));
        (view, !nullable || self.bit(self.extents.validity[at].place(segment), slot))
    }

    /// The addresses of a column's values, for prefetches.
    #[inline]
    pub(crate) fn hints_of(&self, at: usize) -> ColumnHints<'_, M> {
        ColumnHints { extents: &self.extents.values[at], access: self.access() }
    }

    /// An address for a prefetch: `offset` bytes behind the beginning of the column's values in the
    /// segment of a row.
    #[inline]
    pub fn hint_at(&self, row: RowId, at: usize, offset: usize) -> *const u8 {
        let values = self.extents.values[at].hinted_place(row.segment());
        self.access().hint(values + offset as u64)
    }
}
