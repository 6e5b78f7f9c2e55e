//! A snapshot's table as a stream of Arrow arrays over the store, without a copy.
//!
//! `STREAM-1`: nothing is copied unless the rows of a segment are in more than [`RUNS_MAX`] runs,
//! with deleted rows between them: the fixed-width values and views of that segment are then
//! gathered into new arrays. Otherwise each run is a slice of the segment's arrays.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BooleanArray, StructArray};
use arrow_schema::{ArrowError, Field, FieldRef, Schema};
use atoll::SnapshotTable;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use pyo3_arrow::ffi::{ArrayIterator, ArrayReader, to_stream_pycapsule};

use crate::errors::Outcome;

/// Most runs of rows of a segment that are returned as slices.
const RUNS_MAX: usize = 8;

/// The shape of the arrays of a stream.
#[derive(Clone)]
pub(crate) enum Shape {
    /// Structs of these columns: record batches.
    Rows(Vec<usize>),
    /// The values of one column.
    Column(usize),
}

/// The arrays of a table, segment by segment.
pub(crate) struct Chunks {
    table: SnapshotTable,
    shape: Shape,
    next_segment: usize,
    ready: VecDeque<ArrayRef>,
}

impl Chunks {
    /// The arrays of a table.
    ///
    /// # Errors
    /// [`atoll::Error::SnapshotExpired`], which is better reported here than in the middle of a
    /// stream.
    pub(crate) fn new(table: &SnapshotTable, shape: Shape) -> Outcome<Self> {
        if table.segment_count() > 0 {
            table.segment(0)?;
        }
        Ok(Self { table: table.clone(), shape, next_segment: 0, ready: VecDeque::new() })
    }

    fn field(&self) -> FieldRef {
        let schema = self.table.arrow_schema();
        match &self.shape {
            Shape::Rows(columns) => {
                let fields = columns.iter().map(|at| Arc::clone(&schema.fields()[*at]));
                Arc::new(Field::new_struct("", fields.collect::<Vec<_>>(), false))
            }
            Shape::Column(at) => Arc::clone(&schema.fields()[*at]),
        }
    }

    fn read(&mut self, segment: usize) -> Result<(), ArrowError> {
        let outside = |error: atoll::Error| ArrowError::ExternalError(Box::new(error));
        let segment = self.table.segment(segment).map_err(outside)?;
        let runs = segment.runs();
        if runs.is_empty() {
            return Ok(());
        }
        let array: ArrayRef = match &self.shape {
            Shape::Rows(columns) => {
                Arc::new(StructArray::from(segment.batch(columns).map_err(outside)?))
            }
            Shape::Column(at) => segment.array(*at).map_err(outside)?,
        };
        match segment.presence() {
            Some(presence) if runs.len() > RUNS_MAX => {
                let present = BooleanArray::new(presence, None);
                self.ready.push_back(arrow_select::filter::filter(&array, &present)?);
            }
            _ => self.ready.extend(runs.iter().map(|(first, len)| array.slice(*first, *len))),
        }
        Ok(())
    }

    /// All arrays at once.
    ///
    /// # Errors
    /// [`atoll::Error`] of a damaged or expired snapshot.
    pub(crate) fn collect_all(self) -> Outcome<Vec<ArrayRef>> {
        Ok(self.collect::<Result<Vec<_>, ArrowError>>()?)
    }
}

impl Iterator for Chunks {
    type Item = Result<ArrayRef, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(array) = self.ready.pop_front() {
                return Some(Ok(array));
            }
            if self.next_segment == self.table.segment_count() {
                return None;
            }
            let segment = self.next_segment;
            self.next_segment += 1;
            if let Err(error) = self.read(segment) {
                self.next_segment = self.table.segment_count();
                return Some(Err(error));
            }
        }
    }
}

/// A table's or a column's arrays as the capsule of `__arrow_c_stream__`.
pub(crate) fn of_table<'py>(
    py: Python<'py>,
    table: &SnapshotTable,
    shape: Shape,
    requested_schema: Option<Bound<'py, PyCapsule>>,
) -> PyResult<Bound<'py, PyCapsule>> {
    let chunks = py.detach(|| Chunks::new(table, shape))?;
    let field = chunks.field();
    let reader: Box<dyn ArrayReader + Send> = Box::new(ArrayIterator::new(chunks, field));
    Ok(to_stream_pycapsule(py, reader, requested_schema)?)
}

/// Record batches as the capsule of `__arrow_c_stream__`.
pub(crate) fn of_batches<'py>(
    py: Python<'py>,
    schema: &Schema,
    batches: &[arrow_array::RecordBatch],
    requested_schema: Option<Bound<'py, PyCapsule>>,
) -> PyResult<Bound<'py, PyCapsule>> {
    let field = Field::new_struct("", schema.fields().clone(), false);
    let field = Arc::new(field.with_metadata(schema.metadata().clone()));
    let arrays: Vec<Result<ArrayRef, ArrowError>> = batches
        .iter()
        .map(|batch| Ok(Arc::new(StructArray::from(batch.clone())) as ArrayRef))
        .collect();
    let reader: Box<dyn ArrayReader + Send> = Box::new(ArrayIterator::new(arrays, field));
    Ok(to_stream_pycapsule(py, reader, requested_schema)?)
}
