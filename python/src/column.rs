//! A column of a table of a snapshot.

use atoll::{DataType, SnapshotTable};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyTuple};

use crate::errors::{Fault, Outcome};
use crate::numpy::{self, Copying};
use crate::stream::{self, Shape};

/// A column of a table of a snapshot; keeps the snapshot.
#[pyclass(frozen, module = "atolldb", name = "Column")]
pub(crate) struct Column {
    table: SnapshotTable,
    at: usize,
}

impl Column {
    /// Column `at` of a table.
    pub(crate) fn new(table: SnapshotTable, at: usize) -> Self {
        Self { table, at }
    }

    fn described(&self) -> &atoll::Column {
        &self.table.schema().columns()[self.at]
    }
}

#[pymethods]
impl Column {
    /// Its name.
    #[getter]
    fn name(&self) -> &str {
        &self.described().name
    }

    /// Its SQL type.
    #[getter]
    fn r#type(&self) -> String {
        self.described().data_type.to_string()
    }

    /// Whether it may contain NULL.
    #[getter]
    fn nullable(&self) -> bool {
        self.described().nullable
    }

    fn __len__(&self, py: Python<'_>) -> Outcome<usize> {
        Ok(py.detach(|| self.table.row_count())? as usize)
    }

    /// Arrow arrays over the snapshot's memory, as `Table.__arrow_c_stream__`.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        stream::of_table(py, &self.table, Shape::Column(self.at), requested_schema)
    }

    /// The column as a `pyarrow.ChunkedArray` over the snapshot's memory.
    fn to_arrow<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("pyarrow")?.getattr("chunked_array")?.call1((slf,))
    }

    /// The column as a `polars.Series`.
    fn to_polars<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        py.import("polars")?.getattr("Series")?.call1((slf.get().name(), slf))
    }

    /// The column as one NumPy array.
    ///
    /// Without `copy`, a read-only array over the memory of the snapshot, which it keeps: no byte
    /// is copied. This works for numbers, timestamps and `binary(n)`; dates are widened to
    /// `datetime64[D]` and so are always copied. Where rows between others were deleted, or several
    /// threads inserted, the values are copied with a `CopyWarning` that gives the reason;
    /// `copy=False` raises `NotContiguous` (a `ValueError`) instead. Booleans, decimals and texts
    /// raise it unless `copy=True`, which returns a separate writable array; texts, bytes and
    /// decimals are objects there.
    ///
    /// NULL is NaN in floating-point columns, and NaT in dates and in copied timestamps; other
    /// columns with NULL raise `InvalidValue` (a `ValueError`) unless `masked` requests a
    /// `numpy.ma.MaskedArray`.
    #[pyo3(signature = (copy = None, *, masked = false))]
    fn to_numpy<'py>(
        &self,
        py: Python<'py>,
        copy: Option<bool>,
        masked: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let copying = match copy {
            Some(true) => Copying::Always,
            Some(false) => Copying::Never,
            None => Copying::Told,
        };
        numpy::array(py, &self.table, self.at, copying, masked)
    }

    /// Called by `numpy.asarray`: shares memory where that is possible.
    #[pyo3(signature = (dtype = None, copy = None))]
    fn __array__<'py>(
        &self,
        py: Python<'py>,
        dtype: Option<Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let copying = match copy {
            Some(true) => Copying::Always,
            // A date is always copied, and this caller does not accept a copy.
            Some(false) if self.described().data_type == DataType::Date => {
                return Err(Fault::NotContiguous(
                    "dates are 32 bits wide here and 64 in NumPy, so they are copied".to_owned(),
                )
                .into());
            }
            Some(false) => Copying::Never,
            None => Copying::IfNeeded,
        };
        let array = numpy::array(py, &self.table, self.at, copying, false)?;
        match dtype {
            None => Ok(array),
            Some(dtype) => {
                let options = PyDict::new(py);
                options.set_item("copy", false)?;
                array.call_method("astype", PyTuple::new(py, [dtype])?, Some(&options))
            }
        }
    }

    fn __repr__(&self) -> String {
        let column = self.described();
        let table = self.table.name();
        format!("<atolldb.Column \"{}\" {} of \"{table}\">", column.name, column.data_type)
    }
}
