//! The result of a statement.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use atoll::{DataType, Value};
use atoll_sql::Outcome as Done;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyList, PyTuple};

use crate::errors::{Fault, Outcome};
use crate::schema::Schema;
use crate::{convert, query_stream, render, stream, values};

/// The result of a statement: rows as Arrow data, or its outcome.
#[pyclass(frozen, module = "atolldb", name = "Result")]
pub(crate) struct QueryResult {
    /// The rows, of a statement that returns some. While they wait here, their memory counts.
    rows: Option<atoll_sql::QueryResult>,
    schema: SchemaRef,
    /// The outcome of a change.
    done: Option<(String, u64)>,
}

impl QueryResult {
    /// The outcome of a statement.
    pub(crate) fn new(outcome: Done) -> Outcome<Self> {
        match outcome {
            Done::Rows(rows) => {
                let done = rows.change().map(|(tag, rows)| (tag.to_owned(), rows));
                Ok(Self { schema: rows.schema(), rows: Some(rows), done })
            }
            Done::Done { tag, rows } => {
                let schema = SchemaRef::new(arrow_schema::Schema::empty());
                Ok(Self { rows: None, schema, done: Some((tag, rows)) })
            }
            _ => Err(Fault::Value("the statement returned something unknown".to_owned())),
        }
    }

    fn batches(&self) -> &[RecordBatch] {
        self.rows.as_ref().map_or(&[], atoll_sql::QueryResult::batches)
    }

    /// The rows of a batch as tuples; a result of the short executor counts as one batch.
    fn tuples<'py>(&self, py: Python<'py>, batch: usize) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        if let Some((rows, types)) = self.rows.as_ref().and_then(atoll_sql::QueryResult::rows) {
            let decimal = types.iter().any(|one| matches!(one, DataType::Decimal { .. }));
            let decimal = decimal.then(|| values::decimal_class(py)).transpose()?;
            let tuple = |row: &[Value]| {
                let objects = row.iter().zip(types);
                let objects =
                    objects.map(|(value, one)| values::of_value(py, value, *one, decimal.as_ref()));
                PyTuple::new(py, objects.collect::<PyResult<Vec<_>>>()?)
            };
            return rows.map(tuple).collect();
        }
        query_stream::tuples(py, &self.batches()[batch])
    }

    fn batch_count(&self) -> usize {
        match &self.rows {
            Some(rows) if rows.rows().is_some() => 1,
            _ => self.batches().len(),
        }
    }
}

/// The rows of a result, one after the other.
#[pyclass(module = "atolldb")]
pub(crate) struct RowIterator {
    result: Py<QueryResult>,
    batch: usize,
    rows: std::vec::IntoIter<Py<PyTuple>>,
}

#[pymethods]
impl RowIterator {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&mut self, py: Python<'_>) -> PyResult<Option<Py<PyTuple>>> {
        loop {
            if let Some(row) = self.rows.next() {
                return Ok(Some(row));
            }
            let result = self.result.get();
            if self.batch >= result.batch_count() {
                return Ok(None);
            }
            let rows = result.tuples(py, self.batch)?;
            self.rows = rows.into_iter().map(Bound::unbind).collect::<Vec<_>>().into_iter();
            self.batch += 1;
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
        self.rows.as_ref().map_or(0, atoll_sql::QueryResult::row_count)
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
        stream::of_batches(py, &self.schema, self.batches(), requested_schema)
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
        for batch in 0..self.batch_count() {
            for row in self.tuples(py, batch)? {
                rows.append(row)?;
            }
        }
        Ok(rows)
    }

    /// The first row as a tuple of Python objects; None if there is none.
    fn fetchone<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        for batch in 0..self.batch_count() {
            if let Some(row) = self.tuples(py, batch)?.into_iter().next() {
                return Ok(Some(row));
            }
        }
        Ok(None)
    }

    fn __iter__(slf: Py<Self>) -> RowIterator {
        RowIterator { result: slf, batch: 0, rows: Vec::new().into_iter() }
    }

    fn __repr__(&self) -> Outcome<String> {
        match &self.done {
            Some((tag, _)) if self.rows.is_none() => Ok(tag.clone()),
            _ => Ok(render::text(&self.schema, self.batches())?),
        }
    }

    fn _repr_html_(&self) -> Outcome<String> {
        match &self.done {
            Some((tag, _)) if self.rows.is_none() => Ok(format!("<p>{tag}</p>")),
            _ => Ok(render::html(&self.schema, self.batches())?),
        }
    }
}
