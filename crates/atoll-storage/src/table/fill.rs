//! Filling slots with whole rows, column by column.
//!
//! New rows mostly lie side by side, so what a store needs (the write barrier, the zone, the words
//! of bitmaps) is done once for all of them in a column, and the values follow in a loop over one
//! type.
//!
//! The slots are the caller's alone: claimed, absent, vacant, and named by no index (`TABLE-1`).

use atoll_machine::Machine;

use super::Table;
use crate::directory::Change;
use crate::error::StorageError;
use crate::image;
use crate::layout::RowId;
use crate::segment::Segment;
use crate::types::Value;
use crate::undo::{Before, UndoList};

/// The values of a column of rows that lie one after the other, and the rows' slots.
#[derive(Clone, Copy)]
struct Cells<'v> {
    slots: &'v [RowId],
    rows: &'v [Value],
    width: usize,
    at: usize,
}

impl<'v> Cells<'v> {
    /// Each row and its value.
    #[inline(always)]
    fn iter(self) -> impl Iterator<Item = (RowId, &'v Value)> {
        // By its position: how many chunks there are is a division, which takes longer than one
        // value does.
        let Self { slots, rows, width, at } = self;
        slots.iter().enumerate().map(move |(number, row)| (*row, &rows[number * width + at]))
    }
}

impl<M: Machine> Table<M> {
    /// Puts whole rows into slots that were claimed, one row after the other. The slots stay
    /// absent; the values fit the schema.
    ///
    /// # Errors
    /// [`StorageError::Memory`]; some values lie in their slots then, which [`Table::vacate`]
    /// empties.
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

    /// One row: what pays for several is more than its values cost.
    fn fill_row(&self, change: Change, row: RowId, values: &[Value]) -> Result<(), StorageError> {
        let slot = self.slot(row);
        for (at, (value, shape)) in values.iter().zip(&self.shapes).enumerate() {
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
        /// Numbers; anything else is NULL, since the values fit the schema.
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
            // Decimals are of so many bytes, too.
            _ if shape.is_bytes && matches!(rows[at], Value::Binary(_)) => {
                let bytes = cells.iter().map(|(row, value)| match value {
                    Value::Binary(bytes) => (row.slot(), &bytes[..]),
                    // No other fits, since none can be NULL.
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

    /// Makes filled slots present. Their own undo entries are all that rolling back needs.
    /// [`Machine::fence_behind_rmw`] may follow.
    ///
    /// # Errors
    /// [`StorageError::Memory`]; from the slot of some segment on they are absent then.
    pub fn appear(
        &self,
        change: Change,
        slots: &[RowId],
        undo: &mut UndoList,
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
