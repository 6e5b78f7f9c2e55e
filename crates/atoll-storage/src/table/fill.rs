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
use crate::types::{DataType, Value};
use crate::undo::{Before, UndoList};

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
        let width = self.schema().columns().len();
        let mut rest = rows;
        for slots in slots.chunk_by(|one, next| one.segment() == next.segment()) {
            let (rows, others) = rest.split_at(slots.len() * width);
            for at in 0..width {
                self.fill_column(change, slots, at, rows.chunks_exact(width).map(|row| &row[at]))?;
            }
            rest = others;
        }
        Ok(())
    }

    /// Puts values of one column into slots of one segment.
    fn fill_column<'v>(
        &self,
        change: Change,
        slots: &[RowId],
        at: usize,
        values: impl Iterator<Item = &'v Value>,
    ) -> Result<(), StorageError> {
        let column = &self.schema().columns()[at];
        let segment = self.slot(slots[0]).segment();
        let what = (at, column.data_type);
        let rows = slots.iter().map(|row| row.slot()).zip(values);
        /// Numbers; anything else is NULL, since the values fit the schema.
        macro_rules! numbers {
            ($($variant:path)|+) => {{
                let numbers = rows.map(|(slot, value)| match value {
                    $($variant(value))|+ => (slot, Some(*value)),
                    _ => (slot, None),
                });
                if column.nullable {
                    let mut run = self.barrier().begin_run(change, segment, at, column)?;
                    run.put_numbers(numbers);
                    self.barrier().end_run(segment, run);
                } else {
                    let numbers = numbers.filter_map(|(slot, value)| {
                        debug_assert!(value.is_some(), "NULL in a column that has none");
                        Some((slot, value?))
                    });
                    self.barrier().fill_numbers(change, segment, what, numbers)?;
                }
            }};
        }
        match column.data_type {
            DataType::Int16 => numbers!(Value::Int16),
            DataType::Int32 | DataType::Date => numbers!(Value::Int32 | Value::Date),
            DataType::Int64 | DataType::Timestamp => numbers!(Value::Int64 | Value::Timestamp),
            _ => {
                let mut run = self.barrier().begin_run(change, segment, at, column)?;
                for (row, value) in slots.iter().zip(rows.map(|(_, value)| value)) {
                    let mut room = [0; 16];
                    let plain = image::plain(value, &mut room);
                    let mut view = [0; 16];
                    let image = self.encode(change, *row, at, plain, &mut view)?;
                    run.put(row.slot(), image, plain.is_some());
                }
                self.barrier().end_run(segment, run);
            }
        }
        let last = slots[slots.len() - 1].slot();
        self.barrier().expect(segment, what, last, slots.len());
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
