//! Filling claimed slots with whole rows, column by column.
//!
//! New rows mostly have adjacent slots, so the fixed work of a store (the write barrier, the zone,
//! the words of bitmaps) is done once per column, and the values follow in a loop over one type.
//!
//! The slots belong to the caller alone: claimed, absent, vacant, and without an index entry
//! (`TABLE-1`).

use atoll_machine::Machine;

use super::Table;
use crate::directory::Change;
use crate::error::StorageError;
use crate::image;
use crate::layout::RowId;
use crate::segment::Segment;
use crate::types::Value;
use crate::undo::{Before, UndoList};

/// The values of one column of consecutive rows, and the rows' slots.
#[derive(Clone, Copy)]
struct Cells<'v> {
    slots: &'v [RowId],
    rows: &'v [Value],
    width: usize,
    at: usize,
}

impl<'v> Cells<'v> {
    /// Each row with its value.
    #[inline(always)]
    fn iter(self) -> impl Iterator<Item = (RowId, &'v Value)> {
        // Indexes by position: `chunks` would divide to count the chunks, which takes longer than
        // one value does.
        let Self { slots, rows, width, at } = self;
        slots.iter().enumerate().map(move |(number, row)| (*row, &rows[number * width + at]))
    }
}

impl<M: Machine> Table<M> {
    /// Puts whole rows, which follow each other in `rows`, into claimed slots. The slots stay
    /// absent; the values fit the schema.
    ///
    /// # Errors
    /// [`StorageError::Memory`]; the slots may hold some of the values then, which
    /// [`Table::vacate`] empties.
    pub fn fill_rows(
        &self,
        change: Change,
        slots: &[RowId],
        rows: &[Value],
    ) -> Result<(), StorageError> {
        if let [row] = slots {
            return self.fill_row(change, *row, rows);
        }
        let width = self.schema().columns().len();
        let mut rest = rows;
        for slots in slots.chunk_by(|one, next| one.segment() == next.segment()) {
            let (rows, others) = rest.split_at(slots.len() * width);
            let segment = self.slot(slots[0]).segment();
            for at in 0..width {
                self.fill_column(change, segment, Cells { slots, rows, width, at })?;
            }
            rest = others;
        }
        Ok(())
    }

    /// The path for one row, for which the setup of the path for several rows would cost more than
    /// the values.
    fn fill_row(&self, change: Change, row: RowId, values: &[Value]) -> Result<(), StorageError> {
        let slot = self.slot(row);
        for (at, (value, shape)) in values.iter().zip(self.shapes.iter()).enumerate() {
            let barrier = self.barrier();
            match value {
                Value::Int16(number) if shape.is_flat => {
                    barrier.fill_number(change, slot, at, *number)?;
                }
                Value::Int32(number) | Value::Date(number) if shape.is_flat => {
                    barrier.fill_number(change, slot, at, *number)?;
                }
                Value::Int64(number) | Value::Timestamp(number) if shape.is_flat => {
                    barrier.fill_number(change, slot, at, *number)?;
                }
                _ => {
                    let mut room = [0; 16];
                    self.fill_value(change, slot, at, image::plain(value, &mut room))?;
                }
            }
            barrier.expect(slot.segment(), (at, shape.width), row.slot(), 1);
        }
        Ok(())
    }

    /// Puts values of one column into slots of one segment.
    fn fill_column(
        &self,
        change: Change,
        segment: &Segment<M>,
        cells: Cells<'_>,
    ) -> Result<(), StorageError> {
        let Cells { slots, rows, at, .. } = cells;
        let shape = &self.shapes[at];
        /// Numbers; another value is NULL, since the values fit the schema.
        macro_rules! numbers {
            ($($variant:path)|+) => {{
                let number = |value: &Value| match value {
                    $($variant(value))|+ => Some(*value),
                    _ => None,
                };
                let numbers = cells.iter().map(|(row, value)| (row.slot(), number(value)));
                if shape.is_flat {
                    let numbers = numbers.map(|(slot, value)| {
                        debug_assert!(value.is_some(), "NULL in a column that has none");
                        (slot, value.unwrap_or_default())
                    });
                    self.barrier().fill_numbers(change, segment, at, numbers)?;
                } else {
                    let column = self.column(at);
                    let mut appender = self.barrier().begin_append(change, segment, at, column)?;
                    appender.put_numbers(numbers);
                    self.barrier().end_append(segment, appender);
                }
            }};
        }
        match shape.number_width {
            2 => numbers!(Value::Int16),
            4 => numbers!(Value::Int32 | Value::Date),
            8 => numbers!(Value::Int64 | Value::Timestamp),
            // Decimals are flat without a `Number` type, too; these are `binary(n)`.
            _ if shape.is_bytes && matches!(rows[at], Value::Binary(_)) => {
                let bytes = cells.iter().map(|(row, value)| match value {
                    Value::Binary(bytes) => (row.slot(), &bytes[..]),
                    // No other value fits a column that cannot be NULL.
                    _ => (row.slot(), &[][..]),
                });
                self.barrier().fill_bytes(change, segment, (at, shape.width), bytes)?;
            }
            _ => {
                let column = self.column(at);
                let mut appender = self.barrier().begin_append(change, segment, at, column)?;
                for (row, value) in cells.iter() {
                    let mut room = [0; 16];
                    let plain = image::plain(value, &mut room);
                    let mut view = [0; 16];
                    let image = self.encode(change, row, at, plain, &mut view)?;
                    appender.put(row.slot(), image, plain.is_some());
                }
                self.barrier().end_append(segment, appender);
            }
        }
        let last = slots[slots.len() - 1].slot();
        self.barrier().expect(segment, (at, shape.width), last, slots.len());
        Ok(())
    }

    /// Makes filled slots present and writes an undo entry for each, which is all that a rollback
    /// needs. [`Machine::fence_behind_rmw`] may follow.
    ///
    /// # Errors
    /// [`StorageError::Memory`]; the slots from the failed segment on are absent then.
    pub fn appear(
        &self,
        change: Change,
        slots: &[RowId],
        undo: &mut UndoList<M>,
    ) -> Result<(), StorageError> {
        for slots in slots.chunk_by(|one, next| one.segment() == next.segment()) {
            let segment = self.slot(slots[0]).segment();
            let present = slots.iter().map(|row| row.slot());
            self.barrier().set_present(change, segment, present, || {
                for row in slots {
                    undo.push(change.inside.epoch, self.id(), *row, Before::Presence(false));
                }
            })?;
        }
        Ok(())
    }
}
