//! Columns that a table gets while it has rows, all of which have one value there.
//!
//! The time does not depend on the rows, but on the segments: each gets a new node, and all share
//! the extents of the new column until a row gets another value.
//!
//! - `WIDEN-1`: a column is added behind the others, and stays until the table is freed. If the
//!   transaction that has added it rolls back, no schema names it, and the table gets no further
//!   column so.
//! - `WIDEN-2`: no other thread uses the rows meanwhile; the layer above ensures that.

use atoll_machine::{Latched, Machine};

use super::Table;
use super::altered::has_values_of;
use super::shape::{PlainColumn, Shape};
use crate::directory::Change;
use crate::error::StorageError;
use crate::image::{self, Plain};
use crate::types::{Column, Schema, Value};

/// Segments that get a new node in one section of the gate.
const SEGMENTS_IN_SECTION: u64 = 256;

impl<M: Machine> Table<M> {
    /// Adds columns, in each of which all rows have one value; `false` if that takes a copy of the
    /// table: a value is long, or the table has columns of a transaction that has rolled back.
    /// [`Table::widen`] follows, then [`Table::rename`].
    ///
    /// # Errors
    /// [`StorageError::Memory`].
    pub fn add_columns(&self, added: &[(Column, Value)]) -> Result<bool, StorageError> {
        let is_long = |value: &Value| {
            let bytes = match value {
                Value::Text(text) => text.as_bytes(),
                Value::Binary(bytes) => bytes,
                _ => &[],
            };
            bytes.len() > image::INLINE_BYTES_MAX
        };
        let is_view = |column: &Column| column.data_type.is_view();
        if self.has_hidden_columns()
            || self.schema().is_keyless()
            || added.iter().any(|(column, value)| is_view(column) && is_long(value))
        {
            return Ok(false);
        }
        for (column, value) in added {
            let mut room = [0; 16];
            if !self.add_constant(column, image::plain(value, &mut room))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// One thread at a time adds a column.
    pub(crate) fn widening(&self) -> Latched<'_, M, ()> {
        self.widening.take()
    }

    /// Adds a column in which all rows have this value; `false` if it needs the heap.
    ///
    /// # Errors
    /// [`StorageError::Memory`].
    pub(crate) fn add_constant(
        &self,
        column: &Column,
        plain: Plain<'_>,
    ) -> Result<bool, StorageError> {
        let barrier = self.barrier();
        let Some(constant) = barrier.constant(column, plain)? else { return Ok(false) };
        let at = barrier.columns().len();
        let shape = Shape::of(column, false);
        self.plain_columns.add(at, || PlainColumn::of(at, &shape));
        self.shapes.add(at, || shape);
        barrier.add_column(column, constant);
        Ok(true)
    }

    /// Gives segments the columns that they lack, from the number `from` on; returns the number
    /// with which to go on in another section, `None` in the end. If it fails, segments lack
    /// columns; the table must not get a schema with them.
    ///
    /// # Errors
    /// [`StorageError::Memory`].
    pub fn widen(&self, change: Change, from: u64) -> Result<Option<u64>, StorageError> {
        let end = self.segment_count();
        let until = end.min(from + SEGMENTS_IN_SECTION);
        for segment in (from..until).filter_map(|number| self.segments.get(number)) {
            self.barrier().widen_segment(change, segment)?;
        }
        Ok((until < end).then_some(until))
    }

    /// The columns of which segments have values, behind the first so many: each with the value
    /// with which it began, as plain bytes.
    pub fn columns_from(&self, first: usize) -> impl Iterator<Item = (&Column, Plain<'_>)> {
        let columns = self.columns().iter().enumerate().skip(first);
        columns.map(|(at, column)| {
            let constant = self.barrier().constant_of(at);
            (column, constant.and_then(|constant| constant.plain()))
        })
    }

    /// How many columns segments have, or are going to have ([`Table::widen`]).
    pub fn stored_columns(&self) -> usize {
        self.columns().len()
    }

    /// Whether segments have columns that the schema does not name (`WIDEN-1`).
    pub fn has_hidden_columns(&self) -> bool {
        self.columns().len() > self.schema().columns().len()
    }

    /// Whether a schema fits the columns of which segments have values, as far as both go.
    pub fn fits(&self, schema: &Schema) -> bool {
        let mut both = schema.columns().iter().zip(self.columns().iter());
        schema.primary_key() == self.schema.primary_key()
            && both.all(|(one, other)| {
                one.nullable == other.nullable && has_values_of(one.data_type, other.data_type)
            })
    }
}
