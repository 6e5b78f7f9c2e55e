//! The rows of a query while they are computed.
//!
//! `QUERYSTREAM-1`: a stream is read by one thread at a time; a second one, or a handler of signals
//! that interrupts the first, is refused, so that none waits with Python's lock for a latch.

use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

use arrow_array::{ArrayRef, RecordBatch, StructArray};
use arrow_schema::{ArrowError, Field, SchemaRef};
use atoll_sql::{QueryStream, Question, SqlError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};
use pyo3_arrow::ffi::{ArrayIterator, ArrayReader, to_stream_pycapsule};

use crate::errors::{Fault, Outcome};
use crate::schema::Schema;
use crate::{convert, interrupt, values};

/// The rows of a query, computed while they are read, once.
#[pyclass(frozen, module = "atolldb", name = "Stream")]
pub(crate) struct Stream {
    schema: SchemaRef,
    statement: String,
    state: Mutex<State>,
}

struct State {
    /// `None` once it is closed or given away.
    stream: Option<QueryStream>,
    /// The rows of a batch that are yet to be read.
    rows: std::vec::IntoIter<Py<PyTuple>>,
}

const GONE: &str = "the stream is closed, or its rows are read elsewhere; run the query again";

impl Stream {
    /// The stream of a statement.
    pub(crate) fn new(stream: Result<QueryStream, SqlError>, statement: &str) -> Outcome<Self> {
        let statement = statement.to_owned();
        let stream = match stream {
            Ok(stream) => stream,
            Err(error) => return Err(Fault::sql(error, statement)),
        };
        let schema = stream.schema();
        let state = State { stream: Some(stream), rows: Vec::new().into_iter() };
        Ok(Self { schema, statement, state: Mutex::new(state) })
    }

    fn state(&self) -> Outcome<MutexGuard<'_, State>> {
        match self.state.try_lock() {
            Ok(state) => Ok(state),
            Err(TryLockError::Poisoned(poisoned)) => Ok(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => {
                Err(Fault::Value("the stream is being read already".to_owned()))
            }
        }
    }

    /// The next batch that has rows.
    fn next_batch(
        &self,
        stream: &mut QueryStream,
        question: Option<Arc<Question>>,
    ) -> Outcome<Option<RecordBatch>> {
        stream.set_interrupt(question);
        loop {
            let next = stream.next_batch();
            match next.map_err(|error| Fault::sql(error, self.statement.clone()))? {
                Some(batch) if batch.num_rows() == 0 => {}
                next => return Ok(next),
            }
        }
    }
}

/// The rows of a batch as tuples.
pub(crate) fn tuples<'py>(
    py: Python<'py>,
    batch: &RecordBatch,
) -> PyResult<Vec<Bound<'py, PyTuple>>> {
    let columns = batch.columns().iter().zip(batch.schema_ref().fields());
    let mut columns = columns
        .map(|(column, field)| Ok(values::of_array(py, column.as_ref(), field)?.into_iter()))
        .collect::<PyResult<Vec<_>>>()?;
    let row = |_| {
        let row: Vec<_> = columns.iter_mut().filter_map(Iterator::next).collect();
        PyTuple::new(py, row)
    };
    (0..batch.num_rows()).map(row).collect()
}

#[pymethods]
impl Stream {
    /// Names and Arrow types of the columns.
    #[getter]
    fn schema(&self) -> Schema {
        Schema(SchemaRef::clone(&self.schema))
    }

    /// Names of the columns.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    /// The next row as a tuple of Python objects.
    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Py<PyTuple>>> {
        let mut state = self.state()?;
        if let Some(row) = state.rows.next() {
            return Ok(Some(row));
        }
        let Some(stream) = &mut state.stream else {
            return Err(Fault::Value(GONE.to_owned()).into());
        };
        let next = interrupt::run(py, |question| self.next_batch(stream, question))?;
        let Some(batch) = next else { return Ok(None) };
        let rows: Vec<_> = tuples(py, &batch)?.into_iter().map(Bound::unbind).collect();
        state.rows = rows.into_iter();
        Ok(state.rows.next())
    }

    /// Gives the rows that are left to another library, which reads them batch by batch.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let mut state = self.state()?;
        if state.rows.len() > 0 {
            let message = "rows of a batch have been read one by one; read the others so, too";
            return Err(Fault::Value(message.to_owned()).into());
        }
        let Some(mut stream) = state.stream.take() else {
            return Err(Fault::Value(GONE.to_owned()).into());
        };
        // The thread that reads may not be the one that handles signals.
        stream.set_interrupt(None);
        let field = Field::new_struct("", self.schema.fields().clone(), false);
        let field = Arc::new(field.with_metadata(self.schema.metadata().clone()));
        let statement = self.statement.clone();
        let arrays = stream.map(move |batch| match batch {
            Ok(batch) => Ok(Arc::new(StructArray::from(batch)) as ArrayRef),
            Err(error) => Err(ArrowError::ComputeError(error.render(&statement))),
        });
        let reader: Box<dyn ArrayReader + Send> = Box::new(ArrayIterator::new(arrays, field));
        Ok(to_stream_pycapsule(py, reader, requested_schema)?)
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        Ok(pyo3_arrow::ffi::to_schema_pycapsule(py, self.schema.as_ref())?)
    }

    /// The rows that are left as a `pyarrow.RecordBatchReader`.
    fn to_reader<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        convert::to_reader(slf.as_any())
    }

    /// Ends the query.
    fn close(&self, py: Python<'_>) -> Outcome<()> {
        let mut state = self.state()?;
        state.rows = Vec::new().into_iter();
        let stream = state.stream.take();
        drop(state);
        py.detach(|| drop(stream));
        Ok(())
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_error))]
    fn __exit__(&self, py: Python<'_>, _error: &Bound<'_, PyTuple>) -> Outcome<()> {
        self.close(py)
    }

    fn __repr__(&self) -> String {
        format!("<atolldb.Stream of {}>", self.column_names().join(", "))
    }
}
