//! Arrays of Arrow of values, and lists of them.
//!
//! A table stores an array as the bytes of one value (`LIST-1`), so a list is made of them whenever
//! it is asked for.

use std::sync::Arc;

use arrow_array::builder::{BinaryViewBuilder, FixedSizeBinaryBuilder, StringViewBuilder};
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int16Type, Int32Type,
    Int64Type, IntervalMonthDayNanoType, Time64MicrosecondType, TimestampMicrosecondType,
};
use arrow_array::{ArrayRef, BooleanArray, ListArray, PrimitiveArray};
use arrow_buffer::{IntervalMonthDayNano, NullBuffer, OffsetBuffer};
use arrow_schema::{ArrowError, Field};
use atoll_storage::types::Interval;
use atoll_storage::{DataType, Value, list};

use crate::arrow_types::{UTC, arrow_type};

/// The values as an array of the [Arrow type](crate::arrow_type) of a column; those of another
/// type become NULL.
///
/// # Errors
/// A value that the Arrow type does not hold.
pub fn value_array(data_type: DataType, values: &[Value]) -> Result<ArrayRef, ArrowError> {
    fn primitive<T: ArrowPrimitiveType>(
        values: &[Value],
        take: impl Fn(&Value) -> Option<T::Native>,
    ) -> PrimitiveArray<T> {
        values.iter().map(take).collect()
    }
    macro_rules! numbers {
        ($arrow:ty, $variant:ident) => {
            Arc::new(primitive::<$arrow>(values, |value| match value {
                Value::$variant(number) => Some(*number),
                _ => None,
            }))
        };
    }
    Ok(match data_type.stored_as() {
        _ if let Some(element) = data_type.element() => {
            let bytes = values.iter().map(|value| match value {
                Value::Binary(bytes) => Some(bytes.as_slice()),
                _ => None,
            });
            Arc::new(list_array(element, bytes)?)
        }
        _ if data_type == DataType::Time => numbers!(Time64MicrosecondType, Int64),
        DataType::Int16 => numbers!(Int16Type, Int16),
        DataType::Int32 => numbers!(Int32Type, Int32),
        DataType::Int64 => numbers!(Int64Type, Int64),
        DataType::Float32 => numbers!(Float32Type, Float32),
        DataType::Float64 => numbers!(Float64Type, Float64),
        DataType::Date => numbers!(Date32Type, Date),
        DataType::Timestamp => {
            let zone = (data_type == DataType::TimestampTz).then_some(UTC);
            let moments = primitive::<TimestampMicrosecondType>(values, |value| match value {
                Value::Timestamp(micros) => Some(*micros),
                _ => None,
            });
            Arc::new(moments.with_timezone_opt(zone))
        }
        DataType::Decimal { precision, scale } => {
            let digits = primitive::<Decimal128Type>(values, |value| match value {
                Value::Decimal(digits) => Some(*digits),
                _ => None,
            });
            Arc::new(digits.with_precision_and_scale(precision, scale as i8)?)
        }
        DataType::Interval => {
            Arc::new(primitive::<IntervalMonthDayNanoType>(values, |value| match value {
                Value::Interval(Interval { months, days, nanos }) => {
                    Some(IntervalMonthDayNano::new(*months, *days, *nanos))
                }
                _ => None,
            }))
        }
        DataType::Bool => {
            let truths = values.iter().map(|value| match value {
                Value::Bool(truth) => Some(*truth),
                _ => None,
            });
            Arc::new(truths.collect::<BooleanArray>())
        }
        DataType::FixedBinary(width) => {
            let mut builder = FixedSizeBinaryBuilder::with_capacity(values.len(), width as i32);
            for value in values {
                match value {
                    Value::Binary(bytes) => builder.append_value(bytes)?,
                    _ => builder.append_null(),
                }
            }
            Arc::new(builder.finish())
        }
        DataType::Text => {
            let mut builder = StringViewBuilder::with_capacity(values.len());
            for value in values {
                builder.append_option(match value {
                    Value::Text(text) => Some(text),
                    _ => None,
                });
            }
            Arc::new(builder.finish())
        }
        _ => {
            let mut builder = BinaryViewBuilder::with_capacity(values.len());
            for value in values {
                builder.append_option(match value {
                    Value::Binary(bytes) => Some(bytes),
                    _ => None,
                });
            }
            Arc::new(builder.finish())
        }
    })
}

/// Arrays, given as their bytes, as lists.
///
/// # Errors
/// Bytes of no such array.
pub fn list_array<'b>(
    element: DataType,
    arrays: impl Iterator<Item = Option<&'b [u8]>>,
) -> Result<ListArray, ArrowError> {
    let (mut items, mut lengths, mut valid) = (Vec::new(), Vec::new(), Vec::new());
    for bytes in arrays {
        let more = list::decode(element, bytes.unwrap_or_default());
        let mut more = more.ok_or_else(|| {
            ArrowError::InvalidArgumentError(format!("the bytes of an array are no {element}[]"))
        })?;
        lengths.push(more.len());
        valid.push(bytes.is_some());
        items.append(&mut more);
    }
    let field = Arc::new(Field::new_list_field(arrow_type(element), true));
    let nulls = valid.contains(&false).then(|| NullBuffer::from(valid));
    let offsets = OffsetBuffer::from_lengths(lengths);
    ListArray::try_new(field, offsets, value_array(element, &items)?, nulls)
}
