//! Columns as NumPy arrays: over the snapshot's memory, or copied.

use arrow_array::{Array, ArrayRef, cast::AsArray};
use atoll::{Column, DataType, SnapshotTable, arrow_field};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyDict, PyList};

use crate::errors::{Fault, Outcome};
use crate::memory::ColumnMemory;
use crate::stream::{Chunks, Shape};
use crate::values;

/// NumPy's "not a time".
const NOT_A_TIME: i64 = i64::MIN;

/// Whether the values may be copied.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Copying {
    /// They must not.
    Never,
    /// If rows are missing between others, with a warning.
    Told,
    /// If they cannot be shared.
    IfNeeded,
    /// They must.
    Always,
}

/// The NumPy type of a column; `None` for values that become objects.
fn dtype(data_type: DataType) -> Option<String> {
    Some(match data_type {
        DataType::Int16 => "<i2".to_owned(),
        DataType::Int32 => "<i4".to_owned(),
        DataType::Int64 => "<i8".to_owned(),
        DataType::Float32 => "<f4".to_owned(),
        DataType::Float64 => "<f8".to_owned(),
        DataType::Bool => "?".to_owned(),
        DataType::Date => "<M8[D]".to_owned(),
        DataType::Timestamp | DataType::TimestampTz => "<M8[us]".to_owned(),
        DataType::FixedBinary(width) => format!("V{width}"),
        DataType::Decimal { .. }
        | DataType::Text
        | DataType::Binary
        | DataType::Varchar(_)
        | DataType::Char(_)
        | DataType::Time
        | DataType::Uuid
        | DataType::Interval
        | DataType::Json
        | DataType::Jsonb
        | DataType::Array(_)
        | DataType::Enum(_) => return None,
    })
}

/// Bytes of one value in a NumPy array.
fn numpy_width(data_type: DataType) -> usize {
    match data_type {
        DataType::Bool => 1,
        DataType::Date => 8,
        other => other.width(),
    }
}

/// A column as a NumPy array; `masked` makes it a `numpy.ma.MaskedArray`.
pub(crate) fn array<'py>(
    py: Python<'py>,
    table: &SnapshotTable,
    at: usize,
    copying: Copying,
    masked: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let column = &table.schema().columns()[at];
    let chunks =
        py.detach(|| Chunks::new(table, Shape::Column(at)).and_then(Chunks::collect_all))?;
    let nulls: usize = chunks.iter().map(|chunk| chunk.null_count()).sum();
    let shares = copying != Copying::Always && column.data_type != DataType::Date;
    let shared = if shares { shared(py, table, at, copying)? } else { None };
    if nulls > 0 && !masked {
        check_nulls(&column.name, column.data_type, nulls, shared.is_some())?;
    }
    let array = match shared {
        Some(array) => array,
        None => copied(py, &chunks, column)?,
    };
    if masked { with_mask(array, &chunks, nulls) } else { Ok(array) }
}

/// The array over the snapshot's memory, if possible.
fn shared<'py>(
    py: Python<'py>,
    table: &SnapshotTable,
    at: usize,
    copying: Copying,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let column = &table.schema().columns()[at];
    let refuse = |why: &str| {
        let name = &column.name;
        Fault::NotContiguous(format!(
            "column \"{name}\" {why}; pass copy=True, or read it as Arrow"
        ))
    };
    let dtype = match dtype(column.data_type) {
        Some(dtype) if column.data_type != DataType::Bool => dtype,
        _ if copying == Copying::IfNeeded => return Ok(None),
        _ => {
            let why = format!("is of type {}, which NumPy lays out otherwise", column.data_type);
            return Err(refuse(&why).into());
        }
    };
    let memory = match py.detach(|| table.contiguous(at)) {
        Ok(column) => ColumnMemory::new(column),
        Err(atoll::Error::NotContiguous { .. }) if copying == Copying::IfNeeded => return Ok(None),
        Err(atoll::Error::NotContiguous { why, .. }) if copying == Copying::Told => {
            let name = &column.name;
            let text = format!("column \"{name}\" was copied: {why}; copy=True copies silently");
            let warning = py.import("atolldb.errors")?.getattr("CopyWarning")?;
            py.import("warnings")?.getattr("warn")?.call1((text, warning))?;
            return Ok(None);
        }
        Err(atoll::Error::NotContiguous { why, .. }) => {
            return Err(refuse(&format!("cannot be one array: {why}")).into());
        }
        Err(error) => return Err(Fault::from(error).into()),
    };
    let numpy = py.import("numpy")?;
    let dtype = numpy.getattr("dtype")?.call1((dtype,))?;
    let memory = Bound::new(py, memory)?;
    if memory.len()? == 0 {
        // `frombuffer` refuses an empty buffer.
        let empty = numpy.getattr("empty")?.call1((0, dtype))?;
        empty.getattr("flags")?.setattr("writeable", false)?;
        return Ok(Some(empty));
    }
    Ok(Some(numpy.getattr("frombuffer")?.call1((memory, dtype))?))
}

fn check_nulls(name: &str, data_type: DataType, nulls: usize, shared: bool) -> Outcome<()> {
    let why = match data_type {
        DataType::Float32 | DataType::Float64 | DataType::Date => return Ok(()),
        DataType::Timestamp | DataType::TimestampTz if !shared => return Ok(()),
        other if dtype(other).is_none() => return Ok(()),
        DataType::Timestamp | DataType::TimestampTz => {
            "; pass masked=True for a masked array, or copy=True for NaT"
        }
        _ => ", which NumPy has no value for; pass masked=True for a masked array",
    };
    Err(Fault::Value(format!("column \"{name}\" holds {nulls} times NULL{why}")))
}

/// A writable array of the values of these chunks.
fn copied<'py>(
    py: Python<'py>,
    chunks: &[ArrayRef],
    column: &Column,
) -> PyResult<Bound<'py, PyAny>> {
    let data_type = column.data_type;
    let numpy = py.import("numpy")?;
    let rows: usize = chunks.iter().map(|chunk| chunk.len()).sum();
    let Some(dtype) = dtype(data_type) else {
        let (objects, field) = (PyList::empty(py), arrow_field(column));
        for chunk in chunks {
            for value in values::of_array(py, chunk.as_ref(), &field)? {
                objects.append(value)?;
            }
        }
        let array = numpy.getattr("empty")?.call1((rows, "O"))?;
        array.set_item(py.Ellipsis(), objects)?;
        return Ok(array);
    };
    let dtype = numpy.getattr("dtype")?.call1((dtype,))?;
    if rows == 0 {
        return numpy.getattr("empty")?.call1((0, dtype));
    }
    let width = numpy_width(data_type);
    let bytes = PyByteArray::new_with(py, rows * width, |out| {
        let mut rest = out;
        for chunk in chunks {
            let (part, behind) = rest.split_at_mut(chunk.len() * width);
            fill(part, chunk.as_ref(), data_type);
            rest = behind;
        }
        Ok(())
    })?;
    numpy.getattr("frombuffer")?.call1((bytes, dtype))
}

/// Writes the values of an array in NumPy's layout.
fn fill(out: &mut [u8], array: &dyn Array, data_type: DataType) {
    let data = array.to_data();
    let width = data_type.width();
    match data_type {
        DataType::Bool => {
            let values = array.as_boolean().values();
            out.iter_mut().zip(values).for_each(|(byte, value)| *byte = u8::from(value));
        }
        DataType::Date => {
            let days = array.as_primitive::<arrow_array::types::Date32Type>().values();
            for (word, days) in out.chunks_exact_mut(8).zip(days) {
                word.copy_from_slice(&i64::from(*days).to_le_bytes());
            }
        }
        _ => {
            let values = &data.buffers()[0][data.offset() * width..];
            out.copy_from_slice(&values[..out.len()]);
        }
    }
    let Some(nulls) = array.nulls() else { return };
    let null: &[u8] = match data_type {
        DataType::Date | DataType::Timestamp => &NOT_A_TIME.to_le_bytes(),
        DataType::Float32 => &f32::NAN.to_le_bytes(),
        DataType::Float64 => &f64::NAN.to_le_bytes(),
        _ => return,
    };
    for (at, word) in out.chunks_exact_mut(null.len()).enumerate() {
        if nulls.is_null(at) {
            word.copy_from_slice(null);
        }
    }
}

fn with_mask<'py>(
    array: Bound<'py, PyAny>,
    chunks: &[ArrayRef],
    nulls: usize,
) -> PyResult<Bound<'py, PyAny>> {
    let py = array.py();
    let numpy = py.import("numpy")?;
    let options = PyDict::new(py);
    options.set_item("copy", false)?;
    if nulls > 0 {
        let rows: usize = chunks.iter().map(|chunk| chunk.len()).sum();
        let mask = PyByteArray::new_with(py, rows, |out| {
            let is_null = chunks
                .iter()
                .flat_map(|chunk| (0..chunk.len()).map(|at| u8::from(chunk.is_null(at))));
            out.iter_mut().zip(is_null).for_each(|(byte, null)| *byte = null);
            Ok(())
        })?;
        options.set_item("mask", numpy.getattr("frombuffer")?.call1((mask, "?"))?)?;
    }
    numpy.getattr("ma")?.getattr("array")?.call((array,), Some(&options))
}
