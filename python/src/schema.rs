//! The columns of a table or a result.

use arrow_schema::SchemaRef;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use pyo3_arrow::ffi::to_schema_pycapsule;

/// Names and Arrow types of columns; any Arrow library reads it.
#[pyclass(frozen, module = "atolldb", name = "Schema", eq)]
#[derive(PartialEq)]
pub(crate) struct Schema(pub(crate) SchemaRef);

#[pymethods]
impl Schema {
    /// Names of the columns.
    #[getter]
    fn names(&self) -> Vec<String> {
        self.0.fields().iter().map(|field| field.name().clone()).collect()
    }

    /// Arrow types of the columns, as text.
    #[getter]
    fn types(&self) -> Vec<String> {
        self.0.fields().iter().map(|field| field.data_type().to_string()).collect()
    }

    /// Which columns may be NULL.
    #[getter]
    fn nullable(&self) -> Vec<bool> {
        self.0.fields().iter().map(|field| field.is_nullable()).collect()
    }

    /// The schema as a `pyarrow.Schema`.
    fn to_arrow<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("pyarrow")?.getattr("schema")?.call1((slf,))
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        Ok(to_schema_pycapsule(py, self.0.as_ref())?)
    }

    fn __len__(&self) -> usize {
        self.0.fields().len()
    }

    fn __repr__(&self) -> String {
        let line = |field: &arrow_schema::FieldRef| {
            let not_null = if field.is_nullable() { "" } else { " not null" };
            format!("{}: {}{not_null}", field.name(), field.data_type())
        };
        self.0.fields().iter().map(line).collect::<Vec<_>>().join("\n")
    }
}
