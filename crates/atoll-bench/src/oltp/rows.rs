//! Reads integer columns of a table in a snapshot, row by row, to check the result of a run.

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int16Type, Int32Type, Int64Type, TimestampMicrosecondType};
use atoll::{DataType, Snapshot, SnapshotSegment};

use crate::error::BenchError;

/// Calls `body` with the named columns of every row, in the order of the names; `None` is NULL.
///
/// # Errors
/// [`BenchError::Database`]; [`BenchError::Inconsistent`] when the table has no such column of
/// integers or timestamps.
pub fn for_each<const N: usize>(
    snapshot: &Snapshot,
    table: &str,
    columns: [&str; N],
    mut body: impl FnMut([Option<i64>; N]),
) -> Result<(), BenchError> {
    let read = snapshot.table(table)?;
    let missing = |name: &str| {
        BenchError::Inconsistent(format!("table \"{table}\" has no column \"{name}\" to check"))
    };
    let mut positions = [0; N];
    for (position, name) in positions.iter_mut().zip(columns) {
        *position = read.schema().position(name).ok_or_else(|| missing(name))?;
    }
    for number in 0..read.segment_count() {
        let segment = read.segment(number)?;
        let mut values = Vec::with_capacity(N);
        for (position, name) in positions.iter().zip(columns) {
            let data_type = read.schema().columns()[*position].data_type;
            let column = numbers(&segment, *position, data_type)?;
            values.push(column.ok_or_else(|| missing(name))?);
        }
        for (first, length) in segment.runs() {
            let slots = first..first + length;
            slots.for_each(|slot| body(std::array::from_fn(|at| values[at][slot])));
        }
    }
    Ok(())
}

/// Calls `body` with the named columns of every row, where no value is NULL.
///
/// # Errors
/// As [`for_each`].
pub fn for_each_present<const N: usize>(
    snapshot: &Snapshot,
    table: &str,
    columns: [&str; N],
    mut body: impl FnMut([i64; N]),
) -> Result<(), BenchError> {
    for_each(snapshot, table, columns, |values| body(values.map(Option::unwrap_or_default)))
}

fn numbers(
    segment: &SnapshotSegment,
    column: usize,
    data_type: DataType,
) -> Result<Option<Vec<Option<i64>>>, BenchError> {
    let array = segment.array(column)?;
    let values: Vec<Option<i64>> = match data_type {
        DataType::Int16 => {
            array.as_primitive::<Int16Type>().iter().map(|v| v.map(i64::from)).collect()
        }
        DataType::Int32 => {
            array.as_primitive::<Int32Type>().iter().map(|v| v.map(i64::from)).collect()
        }
        DataType::Int64 => array.as_primitive::<Int64Type>().iter().collect(),
        DataType::Timestamp => array.as_primitive::<TimestampMicrosecondType>().iter().collect(),
        _ => return Ok(None),
    };
    debug_assert_eq!(values.len(), array.len());
    Ok(Some(values))
}
