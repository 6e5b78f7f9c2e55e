//! The result of a statement.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use atoll_sql::{Outcome as Done, QueryMemory};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyList, PyTuple};

use crate::errors::{Fault, Outcome};
use crate::schema::Schema;
use crate::{convert, render, stream, values};

/// The result of a statement: rows as Arrow data, or its outcome.
#[pyclass(frozen, module = "atolldb", name = "Result")]
pub(crate) struct QueryResult {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
    /// While the rows wait here, their memory counts.
    _memory: Option<QueryMemory>,
    /// The outcome of a statement without rows.
    done: Option<(String, u64)>,
}

impl QueryResult {
    /// The outcome of a statement.
    pub(crate) fn new(outcome: Done) -> Outcome<Self> {
        match outcome {
            Done::Rows(rows) => {
                let (schema, _memory) = (rows.schema(), rows.memory());
                Ok(Self { schema, batches: rows.into_batches(), _memory, done: None })
            }
            Done::Done { tag, rows } => Ok(Self {
                schema: SchemaRef::new(arrow_schema::Schema::empty()),
                batches: Vec::new(),
                _memory: None,
                done: Some((tag, rows)),
            }),
            _ => Err(Fault::Value("the statement returned something unknown".to_owned())),
        }
    }
}

#[pymethods]
impl QueryResult {
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

    /// Rows returned.
    #[getter]
    fn num_rows(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    /// The command tag, as in PostgreSQL: "SELECT 3", "INSERT 0 3", "CREATE TABLE".
    #[getter]
    fn tag(&self) -> String {
        match &self.done {
            Some((tag, _)) => tag.clone(),
            None => format!("SELECT {}", self.num_rows()),
        }
    }

    /// Rows inserted, updated or deleted; 0 for a query.
    #[getter]
    fn rows_affected(&self) -> u64 {
        self.done.as_ref().map_or(0, |(_, rows)| *rows)
    }

    fn __len__(&self) -> usize {
        self.num_rows()
    }

    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        stream::of_batches(py, &self.schema, &self.batches, requested_schema)
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        Ok(pyo3_arrow::ffi::to_schema_pycapsule(py, self.schema.as_ref())?)
    }

    /// The rows as a `pyarrow.Table`. Many functions of pyarrow do not support the view types of
    /// texts and bytes yet; with `views=False` these are copied into the older types.
    #[pyo3(signature = (*, views = true))]
    fn to_arrow<'py>(slf: &Bound<'py, Self>, views: bool) -> PyResult<Bound<'py, PyAny>> {
        convert::to_arrow(slf.as_any(), views)
    }

    /// The rows as a `pandas.DataFrame`. The arguments are passed to `pyarrow.Table.to_pandas`.
    #[pyo3(signature = (**options))]
    fn to_pandas<'py>(
        slf: &Bound<'py, Self>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        convert::to_pandas(slf.as_any(), options)
    }

    /// The rows as a `polars.DataFrame`.
    fn to_polars<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        convert::to_polars(slf.as_any())
    }

    /// The rows as a list of tuples of Python objects; None for NULL.
    fn fetchall<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let rows = PyList::empty(py);
        for batch in &self.batches {
            let columns = batch.columns().iter();
            let mut columns = columns
                .map(|column| Ok(values::of_array(py, column.as_ref())?.into_iter()))
                .collect::<PyResult<Vec<_>>>()?;
            for _ in 0..batch.num_rows() {
                let row: Vec<_> = columns.iter_mut().filter_map(Iterator::next).collect();
                rows.append(PyTuple::new(py, row)?)?;
            }
        }
        Ok(rows)
    }

    fn __repr__(&self) -> Outcome<String> {
        match &self.done {
            Some((tag, _)) => Ok(tag.clone()),
            None => Ok(render::text(&self.schema, &self.batches)?),
        }
    }

    fn _repr_html_(&self) -> Outcome<String> {
        match &self.done {
            Some((tag, _)) => Ok(format!("<p>{tag}</p>")),
            None => Ok(render::html(&self.schema, &self.batches)?),
        }
    }
}
