//! A table of a snapshot.

use std::sync::Arc;

use atoll::SnapshotTable;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};

use crate::column::Column;
use crate::convert;
use crate::errors::{Fault, Outcome};
use crate::schema::Schema;
use crate::stream::{self, Shape};

/// A table of a snapshot, or some of its columns; keeps the snapshot.
#[pyclass(frozen, module = "atolldb", name = "Table")]
pub(crate) struct Table {
    table: SnapshotTable,
    columns: Vec<usize>,
}

/// A name, or several.
#[derive(FromPyObject)]
enum Names {
    One(String),
    Several(Vec<String>),
}

impl Table {
    /// All columns of a table.
    pub(crate) fn new(table: SnapshotTable) -> Self {
        let columns = (0..table.schema().visible().len()).collect();
        Self { table, columns }
    }

    fn find(&self, name: &str) -> Outcome<usize> {
        let columns = self.table.schema().columns();
        let found = self.columns.iter().find(|at| columns[**at].name == name);
        found.copied().ok_or_else(|| {
            let known = self.columns();
            Fault::UnknownColumn(format!(
                "table \"{}\" has no column \"{name}\"; it has {}",
                self.table.name(),
                known.join(", ")
            ))
        })
    }
}

#[pymethods]
impl Table {
    /// Its name.
    #[getter]
    fn name(&self) -> &str {
        self.table.name()
    }

    /// Names and Arrow types of its columns.
    #[getter]
    fn schema(&self) -> Outcome<Schema> {
        Ok(Schema(Arc::new(self.table.arrow_schema().project(&self.columns)?)))
    }

    /// Names of its columns.
    #[getter]
    fn columns(&self) -> Vec<String> {
        let columns = self.table.schema().columns();
        self.columns.iter().map(|at| columns[*at].name.clone()).collect()
    }

    /// Names of the columns of its primary key.
    #[getter]
    fn primary_key(&self) -> Vec<String> {
        let schema = self.table.schema();
        schema.visible_key().iter().map(|at| schema.columns()[*at].name.clone()).collect()
    }

    /// Number of rows.
    #[getter]
    fn num_rows(&self, py: Python<'_>) -> Outcome<u64> {
        Ok(py.detach(|| self.table.row_count())?)
    }

    /// The same table with only these columns, in this order. Nothing is read yet.
    fn select(&self, columns: Vec<String>) -> Outcome<Self> {
        if columns.is_empty() {
            return Err(Fault::Value("name at least one column to select".to_owned()));
        }
        let columns = columns.iter().map(|name| self.find(name)).collect::<Outcome<_>>()?;
        Ok(Self { table: self.table.clone(), columns })
    }

    fn __getitem__<'py>(&self, py: Python<'py>, names: Names) -> PyResult<Bound<'py, PyAny>> {
        Ok(match names {
            Names::One(name) => {
                let column = Column::new(self.table.clone(), self.find(&name)?);
                Bound::new(py, column)?.into_any()
            }
            Names::Several(names) => Bound::new(py, self.select(names)?)?.into_any(),
        })
    }

    fn __contains__(&self, name: &str) -> bool {
        self.find(name).is_ok()
    }

    fn __len__(&self, py: Python<'_>) -> Outcome<usize> {
        Ok(self.num_rows(py)? as usize)
    }

    /// Record batches over the snapshot's memory: one for each segment of 8,192 rows, or one for
    /// each run of rows where rows were deleted. Only a segment with more than eight such runs is
    /// copied.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        stream::of_table(py, &self.table, Shape::Rows(self.columns.clone()), requested_schema)
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        Ok(pyo3_arrow::ffi::to_schema_pycapsule(py, self.schema()?.0.as_ref())?)
    }

    /// The table as a `pyarrow.Table` over the snapshot's memory. Many functions of pyarrow do not
    /// support the view types of texts and bytes yet; with `views=False` these are copied into the
    /// older types.
    #[pyo3(signature = (*, views = true))]
    fn to_arrow<'py>(slf: &Bound<'py, Self>, views: bool) -> PyResult<Bound<'py, PyAny>> {
        convert::to_arrow(slf.as_any(), views)
    }

    /// The table as a `pandas.DataFrame`; pandas copies columns that it cannot share. Arguments go
    /// to `pyarrow.Table.to_pandas`.
    #[pyo3(signature = (**options))]
    fn to_pandas<'py>(
        slf: &Bound<'py, Self>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        convert::to_pandas(slf.as_any(), options)
    }

    /// The table as a `polars.DataFrame`.
    fn to_polars<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        convert::to_polars(slf.as_any())
    }

    fn __repr__(&self) -> String {
        let columns = self.table.schema().columns();
        let shown = |at: &usize| format!("{} {}", columns[*at].name, columns[*at].data_type);
        let columns = self.columns.iter().map(shown).collect::<Vec<_>>().join(", ");
        format!("<atolldb.Table \"{}\": {columns}>", self.table.name())
    }
}
