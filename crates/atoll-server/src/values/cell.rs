//! A value of a result, borrowed from where it is: a row of the short executor or an Arrow array.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type,
    IntervalMonthDayNanoType, Time64MicrosecondType, TimestampMicrosecondType,
};
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType as ArrowType, IntervalUnit, TimeUnit};
use atoll::{DataType, Interval, Value};
use atoll_sql::{Literal, literal_at, plain_array};

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Cell<'v> {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Real(f32),
    /// Digits, and how many of them are behind the point.
    Decimal(i128, u8),
    Text(&'v str),
    Bytes(&'v [u8]),
    Uuid(&'v [u8]),
    Date(i32),
    Timestamp(i64),
    Instant(i64),
    Time(i64),
    Interval(Interval),
    /// What has no form of its own above: arrays, and values that a query alone has.
    Other(Literal),
}

impl<'v> Cell<'v> {
    /// A value of a type.
    pub(crate) fn of_value(value: &'v Value, data_type: DataType) -> Self {
        match (value, data_type) {
            (Value::Null, _) => Self::Null,
            (Value::Int16(value), _) => Self::Int((*value).into()),
            (Value::Int32(code), DataType::Enum(labels)) => {
                labels.label(*code).map_or(Self::Null, Self::Text)
            }
            (Value::Int32(value), _) => Self::Int((*value).into()),
            (Value::Int64(micros), DataType::Time) => Self::Time(*micros),
            (Value::Int64(value), _) => Self::Int(*value),
            (Value::Float32(value), _) => Self::Real(*value),
            (Value::Float64(value), _) => Self::Float(*value),
            (Value::Bool(value), _) => Self::Bool(*value),
            (Value::Date(days), _) => Self::Date(*days),
            (Value::Timestamp(micros), DataType::TimestampTz) => Self::Instant(*micros),
            (Value::Timestamp(micros), _) => Self::Timestamp(*micros),
            (Value::Decimal(digits), DataType::Decimal { scale, .. }) => {
                Self::Decimal(*digits, scale)
            }
            (Value::Decimal(digits), _) => Self::Decimal(*digits, 0),
            (Value::Interval(value), _) => Self::Interval(*value),
            (Value::Text(text), _) => Self::Text(text),
            (value @ Value::Binary(_), DataType::Array(_)) => {
                Self::Other(Literal::of_value(value, data_type))
            }
            (Value::Binary(bytes), DataType::Uuid) => Self::Uuid(bytes),
            (Value::Binary(bytes), _) => Self::Bytes(bytes),
        }
    }

    /// A literal, which lends its texts and bytes.
    pub(crate) fn of_literal(literal: &'v Literal) -> Self {
        match literal {
            Literal::Null => Self::Null,
            Literal::Bool(value) => Self::Bool(*value),
            Literal::Integer(value) => match i64::try_from(*value) {
                Ok(value) => Self::Int(value),
                Err(_) => Self::Decimal(*value, 0),
            },
            Literal::Decimal(digits, scale) => Self::Decimal(*digits, *scale),
            Literal::Float(value) => Self::Float(*value),
            Literal::Real(value) => Self::Real(*value),
            Literal::Text(text) | Literal::Json(text) => Self::Text(text),
            Literal::Date(days) => Self::Date(*days),
            Literal::Timestamp(micros) => Self::Timestamp(*micros),
            Literal::Instant(micros) => Self::Instant(*micros),
            Literal::Time(micros) => Self::Time(*micros),
            Literal::Interval(value) => Self::Interval(*value),
            Literal::Uuid(bytes) => Self::Uuid(bytes),
            Literal::Bytes(bytes) => Self::Bytes(bytes),
            list @ Literal::List(_) => Self::Other(list.clone()),
        }
    }

    /// The value by itself.
    pub(crate) fn literal(&self) -> Literal {
        match self {
            Self::Null => Literal::Null,
            Self::Bool(value) => Literal::Bool(*value),
            Self::Int(value) => Literal::Integer((*value).into()),
            Self::Float(value) => Literal::Float(*value),
            Self::Real(value) => Literal::Real(*value),
            Self::Decimal(digits, scale) => Literal::Decimal(*digits, *scale),
            Self::Text(text) => Literal::Text((*text).to_owned()),
            Self::Bytes(bytes) => Literal::Bytes(bytes.to_vec()),
            Self::Uuid(bytes) => match (*bytes).try_into() {
                Ok(bytes) => Literal::Uuid(bytes),
                Err(_) => Literal::Bytes(bytes.to_vec()),
            },
            Self::Date(days) => Literal::Date(*days),
            Self::Timestamp(micros) => Literal::Timestamp(*micros),
            Self::Instant(micros) => Literal::Instant(*micros),
            Self::Time(micros) => Literal::Time(*micros),
            Self::Interval(value) => Literal::Interval(*value),
            Self::Other(literal) => literal.clone(),
        }
    }
}

/// Reads the values of a column of a batch.
pub(crate) enum Reader<'a> {
    Int16(&'a arrow_array::Int16Array),
    Int32(&'a arrow_array::Int32Array),
    Int64(&'a arrow_array::Int64Array),
    Float64(&'a arrow_array::Float64Array),
    Float32(&'a arrow_array::Float32Array),
    Bool(&'a arrow_array::BooleanArray),
    Date(&'a arrow_array::Date32Array),
    Timestamp(&'a arrow_array::TimestampMicrosecondArray),
    Instant(&'a arrow_array::TimestampMicrosecondArray),
    Time(&'a arrow_array::Time64MicrosecondArray),
    Decimal(&'a arrow_array::Decimal128Array, u8),
    Interval(&'a arrow_array::IntervalMonthDayNanoArray),
    Text(&'a arrow_array::StringArray),
    View(&'a arrow_array::StringViewArray),
    BytesView(&'a arrow_array::BinaryViewArray),
    Fixed(&'a arrow_array::FixedSizeBinaryArray, bool),
    Other(ArrayRef),
}

impl<'a> Reader<'a> {
    /// A reader of a column, which has values of a type if that is known.
    pub(crate) fn of(array: &'a ArrayRef, data_type: Option<DataType>) -> Self {
        match array.data_type() {
            ArrowType::Int16 => Self::Int16(array.as_primitive::<Int16Type>()),
            ArrowType::Int32 => Self::Int32(array.as_primitive::<Int32Type>()),
            ArrowType::Int64 => Self::Int64(array.as_primitive::<Int64Type>()),
            ArrowType::Float64 => Self::Float64(array.as_primitive::<Float64Type>()),
            ArrowType::Float32 => Self::Float32(array.as_primitive::<Float32Type>()),
            ArrowType::Boolean => Self::Bool(array.as_boolean()),
            ArrowType::Date32 => Self::Date(array.as_primitive::<Date32Type>()),
            ArrowType::Timestamp(TimeUnit::Microsecond, zone) => {
                let array = array.as_primitive::<TimestampMicrosecondType>();
                if zone.is_some() { Self::Instant(array) } else { Self::Timestamp(array) }
            }
            ArrowType::Time64(TimeUnit::Microsecond) => {
                Self::Time(array.as_primitive::<Time64MicrosecondType>())
            }
            ArrowType::Decimal128(_, scale) if *scale >= 0 => {
                Self::Decimal(array.as_primitive::<Decimal128Type>(), scale.unsigned_abs())
            }
            ArrowType::Interval(IntervalUnit::MonthDayNano) => {
                Self::Interval(array.as_primitive::<IntervalMonthDayNanoType>())
            }
            ArrowType::Utf8 => Self::Text(array.as_string::<i32>()),
            ArrowType::Utf8View => Self::View(array.as_string_view()),
            ArrowType::BinaryView => Self::BytesView(array.as_binary_view()),
            ArrowType::FixedSizeBinary(_) => {
                Self::Fixed(array.as_fixed_size_binary(), data_type == Some(DataType::Uuid))
            }
            // A dictionary is read through once, not for each value.
            _ => Self::Other(plain_array(array).unwrap_or_else(|_| ArrayRef::clone(array))),
        }
    }

    fn array(&self) -> &dyn Array {
        match self {
            Self::Int16(array) => *array,
            Self::Int32(array) => *array,
            Self::Int64(array) => *array,
            Self::Float64(array) => *array,
            Self::Float32(array) => *array,
            Self::Bool(array) => *array,
            Self::Date(array) => *array,
            Self::Timestamp(array) | Self::Instant(array) => *array,
            Self::Time(array) => *array,
            Self::Decimal(array, _) => *array,
            Self::Interval(array) => *array,
            Self::Text(array) => *array,
            Self::View(array) => *array,
            Self::BytesView(array) => *array,
            Self::Fixed(array, _) => *array,
            Self::Other(array) => array.as_ref(),
        }
    }

    /// The value in a row.
    ///
    /// # Errors
    /// One clause: a type that no column has.
    pub(crate) fn cell(&self, row: usize) -> Result<Cell<'a>, String> {
        if self.array().is_null(row) {
            return Ok(Cell::Null);
        }
        Ok(match self {
            Self::Int16(array) => Cell::Int(array.value(row).into()),
            Self::Int32(array) => Cell::Int(array.value(row).into()),
            Self::Int64(array) => Cell::Int(array.value(row)),
            Self::Float64(array) => Cell::Float(array.value(row)),
            Self::Float32(array) => Cell::Real(array.value(row)),
            Self::Bool(array) => Cell::Bool(array.value(row)),
            Self::Date(array) => Cell::Date(array.value(row)),
            Self::Timestamp(array) => Cell::Timestamp(array.value(row)),
            Self::Instant(array) => Cell::Instant(array.value(row)),
            Self::Time(array) => Cell::Time(array.value(row)),
            Self::Decimal(array, scale) => Cell::Decimal(array.value(row), *scale),
            Self::Interval(array) => {
                let value = array.value(row);
                let (months, days, nanos) = (value.months, value.days, value.nanoseconds);
                Cell::Interval(Interval { months, days, nanos })
            }
            Self::Text(array) => Cell::Text(array.value(row)),
            Self::View(array) => Cell::Text(array.value(row)),
            Self::BytesView(array) => Cell::Bytes(array.value(row)),
            Self::Fixed(array, true) => Cell::Uuid(array.value(row)),
            Self::Fixed(array, false) => Cell::Bytes(array.value(row)),
            Self::Other(array) => match literal_at(array, row)? {
                Literal::Null => Cell::Null,
                literal => Cell::Other(literal),
            },
        })
    }
}
