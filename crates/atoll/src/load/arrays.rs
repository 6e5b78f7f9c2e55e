//! Values of Arrow arrays on their way into a table.

use std::ops::Range;

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int16Type, Int32Type,
    Int64Type, IntervalMonthDayNanoType, Time64MicrosecondType, TimestampMicrosecondType,
};
use arrow_buffer::{IntervalMonthDayNano, ToByteSlice};
use atoll_storage::list;
use atoll_storage::segment::ColumnBuffer;
use atoll_storage::types::{Interval, VALUE_BYTES_MAX, has_room_for};
use atoll_storage::{DataType, Schema, StorageError, Value};

use super::ArrowRows;
use crate::arrow_types::arrow_type;
use crate::error::Result;

/// Checks that rows fit a schema; numbers of rows may still be missing.
///
/// # Errors
/// [`Error::Storage`](crate::Error::Storage) with the first column that does not fit.
pub fn check(schema: &Schema, rows: &ArrowRows) -> Result<()> {
    let (expected, given) = (schema.columns().len(), rows.columns.len());
    if expected != given {
        return Err(StorageError::ColumnCount { expected, given }.into());
    }
    for (at, (column, array)) in schema.columns().iter().zip(&rows.columns).enumerate() {
        let is_given_later = schema.is_keyless() && at == schema.visible().len();
        if is_given_later && array.is_none() {
            continue;
        }
        let nulls = array.as_ref().map_or(rows.rows, |array| array.null_count());
        if nulls > 0 && !column.nullable {
            return Err(StorageError::NullInColumn { column: column.name.clone() }.into());
        }
        let Some(array) = array else { continue };
        if *array.data_type() != arrow_type(column.data_type) || array.len() != rows.rows {
            let (column, expected) = (column.name.clone(), column.data_type);
            return Err(StorageError::Type { column, expected, given: "another array" }.into());
        }
        if let DataType::Decimal { .. } = column.data_type {
            // An array may hold more digits than its type says.
            for value in array.as_primitive::<Decimal128Type>().iter().flatten() {
                schema.check_value(at, &Value::Decimal(value))?;
            }
        }
        let lengths = |views: &[u128]| views.iter().map(|view| *view as u32 as usize).max();
        match column.data_type {
            DataType::Varchar(_) | DataType::Char(_) => {
                let texts = array.as_string_view().iter().flatten();
                if !texts.into_iter().all(|text| has_room_for(column.data_type, text)) {
                    let (column, expected) = (column.name.clone(), column.data_type);
                    return Err(StorageError::TooManyCharacters { column, expected }.into());
                }
            }
            DataType::Enum(labels) => {
                let own = labels.labels().iter().map(|label| Some(label.as_str()));
                let dictionary = array.as_dictionary::<Int32Type>();
                if !dictionary.values().as_string::<i32>().iter().eq(own) {
                    let (column, expected) = (column.name.clone(), column.data_type);
                    let given = "an array of other labels";
                    return Err(StorageError::Type { column, expected, given }.into());
                }
            }
            DataType::Time => {
                let times = array.as_primitive::<Time64MicrosecondType>();
                for value in times.iter().flatten() {
                    schema.check_value(at, &Value::Int64(value))?;
                }
            }
            _ => {}
        }
        let longest = match column.data_type.stored_as() {
            _ if column.data_type.element().is_some() => None,
            DataType::Text => lengths(array.as_string_view().views()),
            DataType::Binary => lengths(array.as_binary_view().views()),
            _ => None,
        };
        if let Some(bytes) = longest.filter(|bytes| *bytes > VALUE_BYTES_MAX) {
            let (column, bytes_max) = (column.name.clone(), VALUE_BYTES_MAX);
            return Err(StorageError::TooLong { column, bytes, bytes_max }.into());
        }
    }
    Ok(())
}

/// Appends values of an array, which has the [Arrow type](crate::arrow_type) of the column, to a
/// column. The column can be NULL if one of them is.
pub fn append(column: &mut ColumnBuffer, array: &dyn Array, rows: Range<usize>) {
    fn numbers<T>(column: &mut ColumnBuffer, array: &dyn Array, rows: Range<usize>)
    where
        T: ArrowPrimitiveType,
        T::Native: ToByteSlice,
    {
        let values = &array.as_primitive::<T>().values()[rows.clone()];
        if array.null_count() == 0 {
            return column.extend(values.to_byte_slice());
        }
        for (value, row) in values.iter().zip(rows) {
            column.push(array.is_valid(row).then_some(value.to_byte_slice()));
        }
    }
    macro_rules! each {
        ($array:expr, $bytes:expr) => {{
            let array = $array;
            for row in rows {
                column.push(array.is_valid(row).then(|| $bytes(array.value(row))));
            }
        }};
    }
    match column.data_type().stored_as() {
        _ if column.data_type() == DataType::Time => {
            numbers::<Time64MicrosecondType>(column, array, rows);
        }
        _ if matches!(column.data_type(), DataType::Enum(_)) => {
            numbers::<Int32Type>(column, array.as_dictionary::<Int32Type>().keys(), rows);
        }
        _ if let Some(element) = column.data_type().element() => {
            for row in rows {
                let items = array.is_valid(row).then(|| list_bytes(array, element, row));
                column.push(items.as_deref());
            }
        }
        DataType::Int16 => numbers::<Int16Type>(column, array, rows),
        DataType::Int32 => numbers::<Int32Type>(column, array, rows),
        DataType::Int64 => numbers::<Int64Type>(column, array, rows),
        DataType::Float32 => numbers::<Float32Type>(column, array, rows),
        DataType::Float64 => numbers::<Float64Type>(column, array, rows),
        DataType::Date => numbers::<Date32Type>(column, array, rows),
        DataType::Timestamp => numbers::<TimestampMicrosecondType>(column, array, rows),
        DataType::Decimal { .. } => numbers::<Decimal128Type>(column, array, rows),
        DataType::Interval => numbers::<IntervalMonthDayNanoType>(column, array, rows),
        DataType::Bool => each!(array.as_boolean(), |on: bool| if on { &[1][..] } else { &[0] }),
        DataType::Text => each!(array.as_string_view(), str::as_bytes),
        DataType::Binary => each!(array.as_binary_view(), std::convert::identity),
        _ => each!(array.as_fixed_size_binary(), std::convert::identity),
    }
}

/// The bytes of the array in a row of a list.
fn list_bytes(array: &dyn Array, element: DataType, row: usize) -> Vec<u8> {
    let items = array.as_list::<i32>().value(row);
    let items: Vec<Value> = (0..items.len()).map(|at| value(&items, element, at)).collect();
    list::encode(element, &items)
}

/// The value of a row of an array that has the [Arrow type](crate::arrow_type) of a column.
pub fn value(array: &dyn Array, data_type: DataType, row: usize) -> Value {
    fn number<T: ArrowPrimitiveType>(array: &dyn Array, row: usize) -> T::Native {
        array.as_primitive::<T>().value(row)
    }
    if array.is_null(row) {
        return Value::Null;
    }
    match data_type.stored_as() {
        _ if data_type == DataType::Time => {
            Value::Int64(number::<Time64MicrosecondType>(array, row))
        }
        _ if matches!(data_type, DataType::Enum(_)) => {
            Value::Int32(array.as_dictionary::<Int32Type>().keys().value(row))
        }
        DataType::Int16 => Value::Int16(number::<Int16Type>(array, row)),
        DataType::Int32 => Value::Int32(number::<Int32Type>(array, row)),
        DataType::Int64 => Value::Int64(number::<Int64Type>(array, row)),
        DataType::Float32 => Value::Float32(number::<Float32Type>(array, row)),
        DataType::Float64 => Value::Float64(number::<Float64Type>(array, row)),
        DataType::Bool => Value::Bool(array.as_boolean().value(row)),
        DataType::Date => Value::Date(number::<Date32Type>(array, row)),
        DataType::Timestamp => Value::Timestamp(number::<TimestampMicrosecondType>(array, row)),
        DataType::Decimal { .. } => Value::Decimal(number::<Decimal128Type>(array, row)),
        DataType::Text => Value::Text(array.as_string_view().value(row).to_owned()),
        DataType::Interval => {
            let value = number::<IntervalMonthDayNanoType>(array, row);
            let IntervalMonthDayNano { months, days, nanoseconds: nanos } = value;
            Value::Interval(Interval { months, days, nanos })
        }
        DataType::Binary if let Some(element) = data_type.element() => {
            Value::Binary(list_bytes(array, element, row))
        }
        DataType::Binary => Value::Binary(array.as_binary_view().value(row).to_vec()),
        _ => Value::Binary(array.as_fixed_size_binary().value(row).to_vec()),
    }
}
