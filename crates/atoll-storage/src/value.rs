//! One value of a row, outside the table.

use crate::data_type::{DAY_MICROS, DataType};
use crate::interval::Interval;

/// One value of a row, outside the table.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// No value; allowed in nullable columns only.
    Null,
    /// `smallint`.
    Int16(i16),
    /// `integer`.
    Int32(i32),
    /// `bigint`.
    Int64(i64),
    /// `real`.
    Float32(f32),
    /// `double precision`.
    Float64(f64),
    /// `boolean`.
    Bool(bool),
    /// Days since 1970-01-01.
    Date(i32),
    /// Microseconds since 1970-01-01 00:00.
    Timestamp(i64),
    /// The unscaled integer of a decimal; the column's scale places the decimal point.
    Decimal(i128),
    /// `text`.
    Text(String),
    /// `bytea` and `binary(n)`, and the bytes of an array (`LIST-1`).
    Binary(Vec<u8>),
    /// `interval`.
    Interval(Interval),
}

/// A set of kinds of values, one bit per kind.
pub(crate) type Kinds = u16;

impl Value {
    /// The bit of the value's kind.
    #[inline]
    pub(crate) fn bit(&self) -> Kinds {
        1 << match self {
            Self::Null => 0,
            Self::Int16(_) => 1,
            Self::Int32(_) => 2,
            Self::Int64(_) => 3,
            Self::Float32(_) => 4,
            Self::Float64(_) => 5,
            Self::Bool(_) => 6,
            Self::Date(_) => 7,
            Self::Timestamp(_) => 8,
            Self::Decimal(_) => 9,
            Self::Text(_) => 10,
            Self::Binary(_) => 11,
            Self::Interval(_) => 12,
        }
    }

    /// Whether a column of this type can hold the value.
    pub fn fits(&self, data_type: DataType) -> bool {
        match (self, data_type.stored_as()) {
            (Self::Null, _)
            | (Self::Int16(_), DataType::Int16)
            | (Self::Float32(_), DataType::Float32)
            | (Self::Float64(_), DataType::Float64)
            | (Self::Bool(_), DataType::Bool)
            | (Self::Date(_), DataType::Date)
            | (Self::Timestamp(_), DataType::Timestamp)
            | (Self::Interval(_), DataType::Interval)
            | (Self::Binary(_), DataType::Binary) => true,
            (Self::Int32(value), DataType::Int32) => data_type.has_number(*value),
            (Self::Decimal(digits), DataType::Decimal { precision, .. }) => {
                digits.unsigned_abs() < 10u128.pow(u32::from(precision))
            }
            (Self::Binary(bytes), DataType::FixedBinary(width)) => bytes.len() == width as usize,
            (Self::Int64(value), DataType::Int64) => {
                data_type != DataType::Time || (0..=DAY_MICROS).contains(value)
            }
            (Self::Text(text), DataType::Text) => has_room_for(data_type, text),
            _ => false,
        }
    }

    /// Name of the value's own type, for error messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Null => "NULL",
            Self::Int16(_) => "smallint",
            Self::Int32(_) => "integer",
            Self::Int64(_) => "bigint",
            Self::Float32(_) => "real",
            Self::Float64(_) => "double precision",
            Self::Bool(_) => "boolean",
            Self::Date(_) => "date",
            Self::Timestamp(_) => "timestamp",
            Self::Decimal(_) => "decimal",
            Self::Text(_) => "text",
            Self::Binary(_) => "bytea",
            Self::Interval(_) => "interval",
        }
    }
}

/// Whether a column of the type can hold the text.
pub fn has_room_for(data_type: DataType, text: &str) -> bool {
    // No character is longer than its bytes, so most texts need not be counted.
    let fits = |most: u32| text.len() <= most as usize || text.chars().count() <= most as usize;
    match data_type {
        DataType::Varchar(most) => fits(most),
        DataType::Char(most) => !text.ends_with(' ') && fits(most),
        _ => true,
    }
}

macro_rules! value_from {
    ($($rust:ty => $variant:ident),* $(,)?) => {$(
        impl From<$rust> for Value {
            fn from(value: $rust) -> Self {
                Self::$variant(value.into())
            }
        }
    )*};
}
value_from!(i16 => Int16, i32 => Int32, i64 => Int64, f32 => Float32, f64 => Float64, bool => Bool,
    &str => Text, String => Text, Vec<u8> => Binary,
    Interval => Interval);

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}
