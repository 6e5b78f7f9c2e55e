//! Objects of other libraries: input as Arrow data, and output as their tables.

use arrow_array::RecordBatchReader;
use atoll_adbc::rows;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyMapping};
use pyo3_arrow::input::AnyRecordBatch;

use crate::errors::Fault;

type Reader = Box<dyn RecordBatchReader + Send>;

/// An object with `__arrow_c_stream__` as a `pyarrow.Table`; without `views`, texts and bytes are
/// copied into the types that all functions of pyarrow support.
pub(crate) fn to_arrow<'py>(
    object: &Bound<'py, PyAny>,
    views: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let pyarrow = object.py().import("pyarrow")?;
    let table = pyarrow.getattr("table")?.call1((object,))?;
    if views {
        return Ok(table);
    }
    let plain = |view: &str, plain: &str| {
        Ok::<_, PyErr>((pyarrow.call_method0(view)?, pyarrow.call_method0(plain)?))
    };
    let pairs = [plain("string_view", "large_string")?, plain("binary_view", "large_binary")?];
    let mut fields = Vec::new();
    for field in table.getattr("schema")?.try_iter()? {
        let mut field = field?;
        let given = field.getattr("type")?;
        for (view, plain) in &pairs {
            if given.eq(view)? {
                field = field.call_method1("with_type", (plain,))?;
            }
        }
        fields.push(field);
    }
    table.call_method1("cast", (pyarrow.call_method1("schema", (fields,))?,))
}

/// The object as a `pyarrow.RecordBatchReader`.
pub(crate) fn to_reader<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let reader = object.py().import("pyarrow")?.getattr("RecordBatchReader")?;
    reader.call_method1("from_stream", (object,))
}

/// The object as a `pandas.DataFrame`.
pub(crate) fn to_pandas<'py>(
    object: &Bound<'py, PyAny>,
    options: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    to_arrow(object, true)?.call_method("to_pandas", (), options)
}

/// The object as a `polars.DataFrame`.
pub(crate) fn to_polars<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    object.py().import("polars")?.getattr("DataFrame")?.call1((object,))
}

/// A reader of an object from Python: one that exports Arrow data, or a dict of columns.
pub(crate) fn reader(data: &Bound<'_, PyAny>) -> PyResult<Reader> {
    let py = data.py();
    let has_stream = data.hasattr(intern!(py, "__arrow_c_stream__"))?;
    if has_stream || data.hasattr(intern!(py, "__arrow_c_array__"))? {
        let reader = data.extract::<AnyRecordBatch>()?.into_reader()?;
        let is_untyped =
            reader.schema().fields().iter().any(|field| rows::is_untyped(field.data_type()));
        let module: String = data.get_type().getattr(intern!(py, "__module__"))?.extract()?;
        // polars (2.1.0) gives a column of type null a buffer, which arrow-rs (59) refuses and
        // pyarrow takes.
        if is_untyped && module.starts_with("polars") {
            let table = py.import("pyarrow")?.getattr("table")?.call1((data,))?;
            return table.extract::<AnyRecordBatch>()?.into_reader();
        }
        return Ok(reader);
    }
    if data.cast::<PyMapping>().is_ok() {
        let table = py.import("pyarrow")?.getattr("table")?.call1((data,))?;
        return table.extract::<AnyRecordBatch>()?.into_reader();
    }
    let kind = data.get_type().name()?;
    Err(Fault::Type(format!(
        "data is a {kind}; give a table of pyarrow, polars, pandas (2.2 or later) or DuckDB, or a \
         dict of columns"
    ))
    .into())
}
