//! Restoring a table from a medium: images of segments first, then the later changes.
//!
//! No transaction uses the table meanwhile. The caller first calls [`Table::add_segments`]; then
//! threads fill the segments in any order ([`Table::restore_segment`]); then they apply changes
//! ([`Table::redo`]), all changes of one segment in their order and by one thread; finally the
//! caller calls [`Table::widen`] and [`Table::end_restore`].
//!
//! - `REDO-1`: a table may get columns among the changes. Each thread learns of a column at its
//!   place in their order ([`Table::redo_column`]), so it knows how many columns a change is for.
//!   Segments have as many at least, and have had the constant of each further one from its
//!   beginning.

use atoll_machine::{Hints, Machine};

use crate::directory::Change;
use crate::error::StorageError;
use crate::image::{self, Plain};
use crate::layout::{RowId, SEGMENT_ROWS, capacity_for};
use crate::list;
use crate::redo::{Cell as NewValue, Head, Kind};
use crate::schema_codec;
use crate::segment::{Cell, SegmentImage};
use crate::table::{Filling, Table};
use crate::types::{COLUMNS_MAX, Column, DataType, has_room_for};

impl<M: Machine> Table<M> {
    /// Adds segments until the table has `count` of them.
    ///
    /// # Errors
    /// [`StorageError::Memory`], [`StorageError::TableFull`].
    pub fn add_segments(&self, change: Change, count: u64) -> Result<(), StorageError> {
        while self.segment_count() < count {
            // It grows with its rows.
            self.add_segment(change, capacity_for(0))?;
        }
        Ok(())
    }

    /// Makes room for so many rows in a segment.
    fn grow_alone(&self, change: Change, number: u64, rows: usize) -> Result<(), StorageError> {
        let segment = self.slot(RowId::new(number, 0)).segment();
        let capacity = capacity_for(rows) as u64;
        if capacity > segment.capacity() {
            self.barrier().grow_alone(change, segment, capacity)?;
        }
        Ok(())
    }

    /// Fills an empty segment from an image.
    ///
    /// # Errors
    /// [`StorageError::BadRecord`] for an image that does not fit the table,
    /// [`StorageError::Memory`].
    pub fn restore_segment(
        &self,
        change: Change,
        number: u64,
        image: &SegmentImage<'_>,
    ) -> Result<(), StorageError> {
        let row = RowId::new(number, 0);
        let filled = image.filled;
        let bits = filled.div_ceil(8);
        let sound = filled <= SEGMENT_ROWS
            && number < self.segment_count()
            && image.presence.len() == bits
            && image.columns.len() >= self.first_columns()
            && image.columns.len() <= self.columns().len();
        if !sound {
            return Err(self.bad(row, "the image of a segment does not fit the table"));
        }
        for (column, described) in image.columns.iter().zip(self.columns().iter()) {
            let values = match described.data_type.width() {
                0 => bits,
                width => width * filled,
            };
            let validity = described.nullable.then_some(bits);
            if column.values.len() != values || column.validity.map(<[u8]>::len) != validity {
                return Err(self.bad(row, "the image of a column does not fit the table"));
            }
        }
        self.grow_alone(change, number, filled)?;
        let segment = self.slot(row).segment();
        self.barrier().fill_segment(change, segment, image)?;
        self.forget_views_of_absent(change, number, image)
    }

    /// Makes slots without a row read as well-formed: the image may hold a view that an uncommitted
    /// transaction had stored, which may lead to any place. Counts the heap bytes of the present
    /// rows.
    fn forget_views_of_absent(
        &self,
        change: Change,
        number: u64,
        image: &SegmentImage<'_>,
    ) -> Result<(), StorageError> {
        let present = |slot: usize| image.presence[slot / 8] >> (slot % 8) & 1 == 1;
        let columns = self.columns().iter().take(image.columns.len()).enumerate();
        for (at, column) in columns.filter(|(_, column)| column.data_type.is_view()) {
            for slot in (0..image.filled).filter(|slot| !present(*slot)) {
                let cell = Cell {
                    column: at,
                    data_type: column.data_type,
                    nullable: column.nullable,
                    image: &[0; 16],
                    valid: !column.nullable,
                };
                let row = RowId::new(number, slot);
                self.barrier().store_value(change, self.slot(row), cell)?;
            }
            let mut places = Vec::new();
            for slot in (0..image.filled).filter(|slot| present(*slot)) {
                let mut view = [0; 16];
                self.load(self.slot(RowId::new(number, slot)), at, &mut view);
                places.extend(image::heap_place(&view));
            }
            let segment = self.slot(RowId::new(number, 0)).segment();
            if !self.barrier().count_heap(segment, at, &places) {
                return Err(self.bad(RowId::new(number, 0), "a text has no heap block"));
            }
        }
        Ok(())
    }

    /// How many columns the table had when it was restored.
    pub fn first_columns(&self) -> usize {
        self.columns().first()
    }

    /// Applies the addition of a column from a log ([`Kind::Column`]), of which a thread learns
    /// that has known `columns` columns so far (`REDO-1`); returns how many it knows now.
    ///
    /// # Errors
    /// [`StorageError::BadRecord`], [`StorageError::Memory`].
    pub fn redo_column(
        &self,
        columns: usize,
        cells: &[NewValue<'_>],
    ) -> Result<usize, StorageError> {
        let bad = || self.bad(RowId(0), "a column that is none, or does not follow the others");
        let [(at, Some(described)), (of, plain)] = cells else { return Err(bad()) };
        let described = schema_codec::decode_column(described).ok_or_else(bad)?;
        if [*at, *of] != [columns; 2] || columns >= COLUMNS_MAX || !is_of(&described, *plain) {
            return Err(bad());
        }
        let _widening = self.widening();
        let is_sound = match self.columns_from(columns).next() {
            // Another thread has come first.
            Some((known, constant)) => (known, constant) == (&described, *plain),
            None => self.add_constant(&described, *plain)?,
        };
        if is_sound { Ok(columns + 1) } else { Err(bad()) }
    }

    /// Applies a change from a log, which is for so many columns (`REDO-1`).
    ///
    /// # Errors
    /// [`StorageError::BadRecord`], [`StorageError::Memory`], [`StorageError::TableFull`].
    pub fn redo(
        &self,
        change: Change,
        columns: usize,
        Head { row, kind, .. }: Head,
        cells: &[NewValue<'_>],
    ) -> Result<(), StorageError> {
        if row.segment() >= self.segment_count() {
            return Err(self.bad(row, "the segment does not exist"));
        }
        if columns > self.first_columns() {
            self.barrier().widen_segment(change, self.slot(row).segment())?;
        }
        match kind {
            Kind::Put | Kind::Update | Kind::Delete => {}
            Kind::Segment => return self.redo_load(change, row, columns, cells),
            Kind::Column => return Err(self.bad(row, "a column among rows")),
        }
        for (at, plain) in cells {
            let column = self.columns().get(*at).filter(|_| *at < columns);
            if !column.is_some_and(|column| is_of(column, *plain)) {
                return Err(self.bad(row, "a value does not fit its column"));
            }
        }
        if kind == Kind::Put && !has_each(columns, cells) {
            return Err(self.bad(row, "a row without all of its columns"));
        }
        self.grow_alone(change, row.segment(), row.slot() + 1)?;
        for (at, plain) in cells {
            self.overwrite(change, row, *at, *plain)?;
        }
        let segment = self.slot(row).segment();
        match kind {
            Kind::Update => {}
            Kind::Put => self.barrier().set_presence(change, segment, row.slot(), true)?,
            Kind::Delete => {
                self.barrier().set_presence(change, segment, row.slot(), false)?;
                self.vacate(change, row);
            }
            Kind::Segment | Kind::Column => {}
        }
        Ok(())
    }

    /// Loads a segment. No change of the segment came before.
    fn redo_load(
        &self,
        change: Change,
        row: RowId,
        columns: usize,
        cells: &[NewValue<'_>],
    ) -> Result<(), StorageError> {
        let columns: Vec<Column> = self.columns().iter().take(columns).cloned().collect();
        let image = match cells {
            [(0, Some(bytes))] if row.slot() == 0 => SegmentImage::decode(bytes, &columns),
            _ => None,
        };
        let image = image.ok_or_else(|| self.bad(row, "the image of a segment is not readable"))?;
        if !self.barrier().is_vacant(self.slot(row).segment()) {
            return Err(self.bad(row, "a load into a segment with rows"));
        }
        if !image.is_sound(&columns) {
            return Err(self.bad(row, "a loaded segment with a value that is none"));
        }
        self.restore_segment(change, row.segment(), &image)
    }

    /// Adds the addresses that a change stores to, to the prefetch hints; nothing for a segment
    /// that does not exist.
    #[inline]
    pub fn hint_at_redo(&self, row: RowId, cells: &[NewValue<'_>], hints: &mut Hints) {
        if row.segment() < self.segment_count() {
            let slot = self.slot(row);
            // Segments may lack the columns behind those.
            let cells = cells.iter().filter(|(at, _)| *at < self.first_columns());
            cells.for_each(|(at, _)| self.hint_at_values(&[slot], &[*at], hints));
        }
    }

    /// Stores a value and releases the long value that it replaces.
    fn overwrite(
        &self,
        change: Change,
        row: RowId,
        at: usize,
        plain: Plain<'_>,
    ) -> Result<(), StorageError> {
        let is_view = self.columns()[at].data_type.is_view();
        let before = is_view.then(|| {
            let mut view = [0; 16];
            self.load(self.slot(row), at, &mut view);
            image::heap_place(&view)
        });
        self.fill_value(change, self.slot(row), at, plain)?;
        self.release_heap(change, row, at, before.flatten());
        Ok(())
    }

    /// Ends the restore, after all changes have been applied: finds the free slots.
    pub fn end_restore(&self) {
        for number in 0..self.segment_count() {
            let slots = self.slots_of(number);
            let capacity = slots.clone().count();
            let present = |row: &RowId| self.is_present(*row);
            let filled = slots.clone().rev().find(present).map_or(0, |last| last.slot() + 1);
            slots.take(filled).filter(|row| !present(row)).for_each(|row| self.free(row));
            self.leave(Filling::at(number, filled, capacity));
        }
    }

    fn bad(&self, row: RowId, what: &'static str) -> StorageError {
        StorageError::BadRecord { table: self.name().to_owned(), row: row.0, what }
    }
}

/// Whether there is one cell for each column, in any order. Each cell belongs to an existing
/// column.
fn has_each(columns: usize, cells: &[(usize, Plain<'_>)]) -> bool {
    let mut seen = [0u64; COLUMNS_MAX.div_ceil(64)];
    let mut is_new = |at: usize| {
        let is_new = seen[at / 64] >> (at % 64) & 1 == 0;
        seen[at / 64] |= 1 << (at % 64);
        is_new
    };
    cells.len() == columns && cells.iter().all(|(at, _)| is_new(*at))
}

/// Whether plain bytes are a valid value of a column.
fn is_of(column: &Column, plain: Plain<'_>) -> bool {
    let Some(bytes) = plain else { return column.nullable };
    match column.data_type.stored_as() {
        DataType::Text => {
            std::str::from_utf8(bytes).is_ok_and(|text| has_room_for(column.data_type, text))
        }
        DataType::Binary => match column.data_type.element() {
            Some(element) => list::decode(element, bytes).is_some(),
            None => true,
        },
        data_type => bytes.len() == data_type.width().max(1),
    }
}
