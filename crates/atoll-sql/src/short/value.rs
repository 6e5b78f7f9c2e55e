//! Values as the short executor compares, groups and exchanges them.
//!
//! `SHORT-1`: two values are compared only if they have one type, which the analyzer has seen to;
//! of decimals also one scale. Floating-point numbers follow `COMPARE-1`.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type,
    IntervalMonthDayNanoType, Time64MicrosecondType, TimestampMicrosecondType, TimestampSecondType,
};
use arrow_array::{Array, ArrayRef, ListArray};
use arrow_buffer::IntervalMonthDayNano;
use arrow_schema::{DataType as ArrowType, FieldRef, TimeUnit};
use atoll::{Interval, Value};
use datafusion::common::ScalarValue;

use crate::types;

/// Compares two values that are not NULL.
pub(crate) fn compare(left: &Value, right: &Value) -> Ordering {
    match (left, right) {
        (Value::Int16(a), Value::Int16(b)) => a.cmp(b),
        (Value::Int32(a), Value::Int32(b)) => a.cmp(b),
        (Value::Int64(a), Value::Int64(b)) => a.cmp(b),
        (Value::Float32(a), Value::Float32(b)) => floats((*a).into(), (*b).into()),
        (Value::Float64(a), Value::Float64(b)) => floats(*a, *b),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Date(a), Value::Date(b)) => a.cmp(b),
        (Value::Timestamp(a), Value::Timestamp(b)) => a.cmp(b),
        (Value::Decimal(a), Value::Decimal(b)) => a.cmp(b),
        (Value::Interval(a), Value::Interval(b)) => a.cmp(b),
        (Value::Text(a), Value::Text(b)) => a.cmp(b),
        (Value::Binary(a), Value::Binary(b)) => a.cmp(b),
        (a, b) => {
            debug_assert!(false, "{} beside {} (SHORT-1)", a.kind(), b.kind());
            Ordering::Equal
        }
    }
}

fn floats(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

/// One key of an order.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Direction {
    pub(crate) descending: bool,
    pub(crate) nulls_first: bool,
}

/// Compares two values, of which each may be NULL, in an order.
pub(crate) fn in_order(left: &Value, right: &Value, how: Direction) -> Ordering {
    let null = if how.nulls_first { Ordering::Less } else { Ordering::Greater };
    match (left == &Value::Null, right == &Value::Null) {
        (true, true) => Ordering::Equal,
        (true, false) => null,
        (false, true) => null.reverse(),
        (false, false) if how.descending => compare(right, left),
        (false, false) => compare(left, right),
    }
}

/// Values as a key of groups and of joins: NULL equals NULL.
#[derive(Debug, Clone)]
pub(crate) struct GroupKey(pub(crate) Vec<Value>);

impl PartialEq for GroupKey {
    fn eq(&self, other: &Self) -> bool {
        self.0.len() == other.0.len()
            && self.0.iter().zip(&other.0).all(|(a, b)| match (a, b) {
                (Value::Null, Value::Null) => true,
                (Value::Null, _) | (_, Value::Null) => false,
                (a, b) => compare(a, b) == Ordering::Equal,
            })
    }
}

impl Eq for GroupKey {}

impl Hash for GroupKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let float = |value: f64| match value {
            _ if value.is_nan() => f64::NAN.to_bits(),
            // Adding zero makes -0.0 the positive zero.
            _ => (value + 0.0).to_bits(),
        };
        for value in &self.0 {
            match value {
                Value::Null => 0u8.hash(state),
                Value::Int16(v) => v.hash(state),
                Value::Int32(v) => v.hash(state),
                Value::Int64(v) => v.hash(state),
                Value::Float32(v) => float((*v).into()).hash(state),
                Value::Float64(v) => float(*v).hash(state),
                Value::Bool(v) => v.hash(state),
                Value::Date(v) => v.hash(state),
                Value::Timestamp(v) => v.hash(state),
                Value::Decimal(v) => v.hash(state),
                Value::Text(v) => v.hash(state),
                Value::Binary(v) => v.hash(state),
                Value::Interval(v) => v.hash(state),
            }
        }
    }
}

/// A list with another field, and another layout of texts, for its elements.
fn list_of(list: ListArray, item: &FieldRef) -> Option<ListArray> {
    let (_, offsets, values, nulls) = list.into_parts();
    let values = arrow_cast::cast(&values, item.data_type()).ok()?;
    ListArray::try_new(Arc::clone(item), offsets, values, nulls).ok()
}

/// An interval of Arrow.
fn own(value: IntervalMonthDayNano) -> Interval {
    let IntervalMonthDayNano { months, days, nanoseconds: nanos } = value;
    Interval { months, days, nanos }
}

/// The value of a constant of DataFusion, if a column can hold it.
pub(crate) fn of_scalar(scalar: &ScalarValue) -> Option<Value> {
    use ScalarValue as S;
    if scalar.is_null() {
        return Some(Value::Null);
    }
    Some(match scalar {
        S::Boolean(Some(v)) => Value::Bool(*v),
        S::Int16(Some(v)) => Value::Int16(*v),
        S::Int32(Some(v)) => Value::Int32(*v),
        S::Int64(Some(v)) => Value::Int64(*v),
        S::Float32(Some(v)) => Value::Float32(*v),
        S::Float64(Some(v)) => Value::Float64(*v),
        S::Date32(Some(v)) => Value::Date(*v),
        S::TimestampMicrosecond(Some(v), _) => Value::Timestamp(*v),
        S::TimestampSecond(Some(v), Some(_)) => Value::Int32(i32::try_from(*v).ok()?),
        S::Time64Microsecond(Some(v)) => Value::Int64(*v),
        S::Decimal128(Some(v), ..) => Value::Decimal(*v),
        S::IntervalMonthDayNano(Some(v)) => Value::Interval(own(*v)),
        S::Utf8(Some(v)) | S::LargeUtf8(Some(v)) | S::Utf8View(Some(v)) => Value::Text(v.clone()),
        S::Binary(Some(v)) | S::LargeBinary(Some(v)) | S::BinaryView(Some(v)) => {
            Value::Binary(v.clone())
        }
        S::FixedSizeBinary(_, Some(v)) => Value::Binary(v.clone()),
        S::List(list) => return of_array(list.as_ref(), 0),
        _ => return None,
    })
}

/// A value as a constant of an Arrow type that `types::to_arrow` returned.
pub(crate) fn to_scalar(value: &Value, arrow: &ArrowType) -> Option<ScalarValue> {
    use ScalarValue as S;
    Some(match (value, arrow) {
        (Value::Null, arrow) => ScalarValue::try_from(arrow).ok()?,
        (Value::Bool(v), _) => S::Boolean(Some(*v)),
        (Value::Int16(v), _) => S::Int16(Some(*v)),
        (Value::Int32(v), ArrowType::Timestamp(_, zone)) => {
            S::TimestampSecond(Some(i64::from(*v)), zone.clone())
        }
        (Value::Int32(v), _) => S::Int32(Some(*v)),
        (Value::Int64(v), ArrowType::Time64(_)) => S::Time64Microsecond(Some(*v)),
        (Value::Int64(v), _) => S::Int64(Some(*v)),
        (Value::Float32(v), _) => S::Float32(Some(*v)),
        (Value::Float64(v), _) => S::Float64(Some(*v)),
        (Value::Date(v), _) => S::Date32(Some(*v)),
        (Value::Timestamp(v), ArrowType::Timestamp(_, zone)) => {
            S::TimestampMicrosecond(Some(*v), zone.clone())
        }
        (Value::Decimal(v), ArrowType::Decimal128(precision, scale)) => {
            S::Decimal128(Some(*v), *precision, *scale)
        }
        (Value::Interval(v), _) => {
            let Interval { months, days, nanos } = *v;
            S::IntervalMonthDayNano(Some(IntervalMonthDayNano::new(months, days, nanos)))
        }
        (Value::Text(v), ArrowType::Utf8) => S::Utf8(Some(v.clone())),
        (Value::Text(v), ArrowType::LargeUtf8) => S::LargeUtf8(Some(v.clone())),
        (Value::Text(v), _) => S::Utf8View(Some(v.clone())),
        (Value::Binary(v), ArrowType::List(item)) => {
            let element = types::of_arrow(item.data_type())?;
            let list = atoll::list_array(element, std::iter::once(Some(v.as_slice()))).ok()?;
            let list = list_of(list, item)?;
            S::List(Arc::new(list))
        }
        (Value::Binary(v), ArrowType::FixedSizeBinary(width)) => {
            S::FixedSizeBinary(*width, Some(v.clone()))
        }
        (Value::Binary(v), ArrowType::Binary) => S::Binary(Some(v.clone())),
        (Value::Binary(v), ArrowType::LargeBinary) => S::LargeBinary(Some(v.clone())),
        (Value::Binary(v), _) => S::BinaryView(Some(v.clone())),
        (Value::Decimal(_) | Value::Timestamp(_), _) => return None,
    })
}

/// Values of one column as an array of an Arrow type; `None` where a value is not of that type.
pub(crate) fn to_array<'v>(
    values: impl ExactSizeIterator<Item = &'v Value>,
    arrow: &ArrowType,
) -> Option<ArrayRef> {
    if values.len() == 0 {
        return Some(arrow_array::new_empty_array(arrow));
    }
    let mut scalars = Vec::with_capacity(values.len());
    for value in values {
        scalars.push(to_scalar(value, arrow)?);
    }
    ScalarValue::iter_to_array(scalars).ok()
}

/// The value at a place of an array of a type that a column can hold.
pub(crate) fn of_array(array: &dyn Array, at: usize) -> Option<Value> {
    if array.is_null(at) {
        return Some(Value::Null);
    }
    Some(match array.data_type() {
        ArrowType::Int16 => Value::Int16(array.as_primitive::<Int16Type>().value(at)),
        ArrowType::Int32 => Value::Int32(array.as_primitive::<Int32Type>().value(at)),
        ArrowType::Time64(_) => {
            Value::Int64(array.as_primitive_opt::<Time64MicrosecondType>()?.value(at))
        }
        ArrowType::Int64 => Value::Int64(array.as_primitive::<Int64Type>().value(at)),
        ArrowType::Float32 => Value::Float32(array.as_primitive::<Float32Type>().value(at)),
        ArrowType::Float64 => Value::Float64(array.as_primitive::<Float64Type>().value(at)),
        ArrowType::Boolean => Value::Bool(array.as_boolean().value(at)),
        ArrowType::Date32 => Value::Date(array.as_primitive::<Date32Type>().value(at)),
        ArrowType::Timestamp(TimeUnit::Second, _) => {
            let code = array.as_primitive::<TimestampSecondType>().value(at);
            Value::Int32(i32::try_from(code).ok()?)
        }
        ArrowType::Dictionary(..) => {
            Value::Int32(array.as_dictionary_opt::<Int32Type>()?.keys().value(at))
        }
        ArrowType::Timestamp(..) => {
            Value::Timestamp(array.as_primitive_opt::<TimestampMicrosecondType>()?.value(at))
        }
        ArrowType::Decimal128(..) => {
            Value::Decimal(array.as_primitive::<Decimal128Type>().value(at))
        }
        ArrowType::Interval(_) => {
            Value::Interval(own(array.as_primitive_opt::<IntervalMonthDayNanoType>()?.value(at)))
        }
        ArrowType::Utf8 => Value::Text(array.as_string::<i32>().value(at).to_owned()),
        ArrowType::LargeUtf8 => Value::Text(array.as_string::<i64>().value(at).to_owned()),
        ArrowType::Utf8View => Value::Text(array.as_string_view().value(at).to_owned()),
        ArrowType::Binary => Value::Binary(array.as_binary::<i32>().value(at).to_vec()),
        ArrowType::LargeBinary => Value::Binary(array.as_binary::<i64>().value(at).to_vec()),
        ArrowType::BinaryView => Value::Binary(array.as_binary_view().value(at).to_vec()),
        ArrowType::List(item) => {
            let element = types::of_arrow(item.data_type())?;
            let items = array.as_list::<i32>().value(at);
            let items = (0..items.len()).map(|item| of_array(&items, item));
            let items = items.collect::<Option<Vec<_>>>()?;
            Value::Binary(atoll::encode_list(element, &items))
        }
        ArrowType::FixedSizeBinary(_) => {
            Value::Binary(array.as_fixed_size_binary().value(at).to_vec())
        }
        _ => return None,
    })
}
