//! Values without a column: literals, casts and values of files.
//!
//! A [`Literal`] is as exact as it was written. It becomes a [`Value`] when the type of its column
//! is known. That step checks ranges, and lost digits are an error there.

use atoll::{DataType, Interval, Value};

use crate::{array_text, clock, interval, show, text, uuid, zone};

/// Integers up to here are exact as floating-point numbers, as are these powers of ten.
const EXACT_INTEGER_MAX: u128 = 1 << 53;
const EXACT_POWER_MAX: u8 = 22;

/// A constant, or the value of a parameter.
#[derive(Debug, Clone, PartialEq)]
pub enum Literal {
    /// No value.
    Null,
    /// True or false.
    Bool(bool),
    /// A whole number.
    Integer(i128),
    /// Digits, and how many of them are behind the point.
    Decimal(i128, u8),
    /// A floating-point number of 64 bits.
    Float(f64),
    /// A floating-point number of 32 bits.
    Real(f32),
    /// Text, which a column of another type parses.
    Text(String),
    /// Days since 1970-01-01.
    Date(i32),
    /// Microseconds since 1970-01-01 00:00.
    Timestamp(i64),
    /// An instant: microseconds since 1970-01-01 00:00 UTC.
    Instant(i64),
    /// Microseconds since midnight.
    Time(i64),
    /// A span of time.
    Interval(Interval),
    /// A UUID.
    Uuid([u8; 16]),
    /// A text in the JSON format.
    Json(String),
    /// Bytes.
    Bytes(Vec<u8>),
    /// The elements of an array: `id = ANY($1)`.
    List(Vec<Literal>),
}

macro_rules! literal_from {
    ($($rust:ty => $variant:ident),* $(,)?) => {$(
        impl From<$rust> for Literal {
            fn from(value: $rust) -> Self {
                Self::$variant(value.into())
            }
        }
    )*};
}
literal_from!(
    bool => Bool, i16 => Integer, i32 => Integer, i64 => Integer, u32 => Integer, u64 => Integer,
    f64 => Float, f32 => Real, &str => Text, String => Text, &[u8] => Bytes, Vec<u8> => Bytes,
    Interval => Interval,
);

impl<T: Into<Self>> From<Vec<T>> for Literal {
    fn from(values: Vec<T>) -> Self {
        Self::List(values.into_iter().map(Into::into).collect())
    }
}

impl<T: Into<Self> + Clone> From<&[T]> for Literal {
    fn from(values: &[T]) -> Self {
        Self::List(values.iter().cloned().map(Into::into).collect())
    }
}

impl<T: Into<Self>> From<Option<T>> for Literal {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl Literal {
    /// The number of the digits, as exact as they are written.
    pub fn number(digits: &str) -> Option<Self> {
        if let Ok(integer) = digits.parse() {
            return Some(Self::Integer(integer));
        }
        match text::decimal(digits) {
            Some((value, scale)) => Some(Self::Decimal(value, scale)),
            None => digits.parse().ok().filter(|v: &f64| v.is_finite()).map(Self::Float),
        }
    }

    /// The literal for the value of a column.
    pub(crate) fn of(value: Value, data_type: DataType) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Int16(v) => Self::Integer(v.into()),
            Value::Int32(v) => match data_type {
                DataType::Enum(labels) => labels.label(v).map_or(Self::Null, Self::from),
                _ => Self::Integer(v.into()),
            },
            Value::Int64(v) if data_type == DataType::Time => Self::Time(v),
            Value::Int64(v) => Self::Integer(v.into()),
            Value::Float32(v) => Self::Real(v),
            Value::Float64(v) => Self::Float(v),
            Value::Bool(v) => Self::Bool(v),
            Value::Date(v) => Self::Date(v),
            Value::Timestamp(v) if data_type == DataType::TimestampTz => Self::Instant(v),
            Value::Timestamp(v) => Self::Timestamp(v),
            Value::Decimal(v) => match data_type {
                DataType::Decimal { scale, .. } => Self::Decimal(v, scale),
                _ => Self::Decimal(v, 0),
            },
            Value::Interval(v) => Self::Interval(v),
            Value::Text(v) if matches!(data_type, DataType::Json | DataType::Jsonb) => {
                Self::Json(v)
            }
            Value::Text(v) => Self::Text(v),
            Value::Binary(v) if let Some(element) = data_type.element() => {
                let items = atoll::decode_list(element, &v).unwrap_or_default();
                Self::List(items.into_iter().map(|item| Self::of(item, element)).collect())
            }
            Value::Binary(v) => match (data_type, v.as_slice().try_into()) {
                (DataType::Uuid, Ok(bytes)) => Self::Uuid(bytes),
                _ => Self::Bytes(v),
            },
        }
    }

    /// The value in a column of a type.
    ///
    /// # Errors
    /// One clause that says why the literal is not a value of that type.
    pub(crate) fn into_value(self, data_type: DataType) -> Result<Value, String> {
        use DataType as T;
        match (self, data_type) {
            (Self::Null, _) => Ok(Value::Null),
            (Self::Text(text), T::Text) => Ok(Value::Text(text)),
            (Self::Text(text), _) => text::parse(&text, data_type),
            (Self::Json(text), T::Json | T::Jsonb) => text::parse(&text, data_type),
            (Self::Json(text), T::Text | T::Varchar(_) | T::Char(_)) => {
                text::parse(&text, data_type)
            }
            (Self::Bytes(bytes), T::Binary) => Ok(Value::Binary(bytes)),
            (Self::List(items), T::Array(_)) => {
                let element = data_type.element().ok_or("the array has no elements")?;
                let items = items.into_iter().map(|item| item.into_value(element));
                let items = items.collect::<Result<Vec<_>, _>>()?;
                Ok(Value::Binary(atoll::encode_list(element, &items)))
            }
            (Self::Uuid(bytes), T::Uuid | T::Binary | T::FixedBinary(16)) => {
                Ok(Value::Binary(bytes.to_vec()))
            }
            (Self::Bytes(bytes), T::Uuid) if bytes.len() == 16 => Ok(Value::Binary(bytes)),
            (Self::Bytes(bytes), T::FixedBinary(width)) => {
                if bytes.len() == width as usize {
                    return Ok(Value::Binary(bytes));
                }
                Err(format!("the value has {} bytes, not {width}", bytes.len()))
            }
            (Self::Bool(value), T::Bool) => Ok(Value::Bool(value)),
            (Self::Date(days), T::Date) => Ok(Value::Date(days)),
            (Self::Date(days), T::Timestamp) => {
                Ok(Value::Timestamp(i64::from(days) * text::DAY_US))
            }
            (Self::Timestamp(micros), T::Timestamp) => Ok(Value::Timestamp(micros)),
            (Self::Instant(micros), T::TimestampTz) => Ok(Value::Timestamp(micros)),
            (Self::Time(micros), T::Time) => Ok(Value::Int64(micros)),
            (Self::Interval(value), T::Interval) => Ok(Value::Interval(value)),
            (Self::Time(micros), T::Interval) => {
                Ok(Value::Interval(Interval { months: 0, days: 0, nanos: micros * 1000 }))
            }
            (Self::Interval(value), T::Time) => {
                Ok(Value::Int64((value.nanos / 1000).rem_euclid(text::DAY_US)))
            }
            (Self::Timestamp(micros), T::Time) => Ok(Value::Int64(micros.rem_euclid(text::DAY_US))),
            (Self::Date(days), T::TimestampTz) => {
                Self::Timestamp(i64::from(days) * text::DAY_US).into_value(data_type)
            }
            (Self::Timestamp(micros), T::TimestampTz) => {
                zone::current().instant(micros).map(Value::Timestamp).ok_or_else(out_of_range)
            }
            (Self::Instant(micros), T::Timestamp | T::Date | T::Time) => {
                let local = zone::current().local(micros).ok_or_else(out_of_range)?;
                Self::Timestamp(local).into_value(data_type)
            }
            (Self::Timestamp(micros), T::Date) if micros % text::DAY_US == 0 => {
                i32::try_from(micros / text::DAY_US)
                    .map(Value::Date)
                    .map_err(|_| "the date is out of range".to_owned())
            }
            (
                number @ (Self::Integer(_) | Self::Decimal(..) | Self::Float(_) | Self::Real(_)),
                _,
            ) => number.number_into(data_type),
            (other, _) => Err(format!("a {} is not a {data_type}", other.kind())),
        }
    }

    fn number_into(self, data_type: DataType) -> Result<Value, String> {
        use DataType as T;
        match data_type {
            T::Int16 | T::Int32 | T::Int64 => {
                let whole = self.whole().map_err(|shown| format!("{shown} is not an integer"))?;
                let range = || text::out_of_range(&whole.to_string(), data_type);
                match data_type {
                    T::Int16 => whole.try_into().map(Value::Int16).map_err(|_| range()),
                    T::Int32 => whole.try_into().map(Value::Int32).map_err(|_| range()),
                    _ => whole.try_into().map(Value::Int64).map_err(|_| range()),
                }
            }
            T::Float32 => {
                let (wide, shown) = (self.float(), self.show());
                let value = match self {
                    // Read at once: by way of 64 bits it would be rounded twice.
                    Self::Decimal(..) => shown.parse().unwrap_or(f32::NAN),
                    _ => wide as f32,
                };
                let vanished = value == 0.0 && wide != 0.0;
                if value.is_infinite() && wide.is_finite() || vanished {
                    return Err(format!("{shown} is out of range for {data_type}"));
                }
                Ok(Value::Float32(value))
            }
            T::Float64 => Ok(Value::Float64(self.float())),
            T::Decimal { precision, scale } => {
                let shown = self.show();
                let (digits, from) = match self {
                    Self::Integer(value) => (value, 0),
                    Self::Decimal(value, from) => (value, from),
                    _ => text::decimal(&shown)
                        .ok_or_else(|| format!("{shown} is not a decimal number"))?,
                };
                text::rescale(digits, from, precision, scale)
                    .map(Value::Decimal)
                    .map_err(|reason| format!("{shown} {reason}"))
            }
            _ => Err(format!("{} is a number, not a {data_type}", self.show())),
        }
    }

    /// The whole number, or how the number is written when it is not whole.
    fn whole(&self) -> Result<i128, String> {
        match *self {
            Self::Integer(value) => Ok(value),
            Self::Decimal(value, scale) => {
                text::rescale(value, scale, 38, 0).map_err(|_| self.show())
            }
            Self::Float(_) | Self::Real(_) => {
                let value = self.float();
                let is_whole = value.fract() == 0.0 && value.abs() < 1e38;
                if is_whole { Ok(value as i128) } else { Err(self.show()) }
            }
            _ => Err(self.show()),
        }
    }

    /// The nearest floating-point number.
    pub(crate) fn float(&self) -> f64 {
        match *self {
            Self::Integer(value) => value as f64,
            Self::Decimal(digits, scale) => decimal_to_float(digits, scale),
            Self::Float(value) => value,
            Self::Real(value) => value.into(),
            _ => f64::NAN,
        }
    }

    /// The literal as a message shows it.
    pub(crate) fn show(&self) -> String {
        match self {
            Self::Null => "NULL".to_owned(),
            Self::Bool(value) => value.to_string(),
            Self::Integer(value) => value.to_string(),
            Self::Decimal(digits, scale) => show::decimal(*digits, *scale),
            Self::Float(value) => show::double(*value),
            Self::Real(value) => show::real(*value),
            Self::Date(days) => show::date(*days),
            Self::Timestamp(micros) => show::timestamp(*micros),
            Self::Instant(micros) => zone::show(*micros),
            Self::Time(micros) => clock::show(*micros),
            Self::Interval(value) => interval::show(*value),
            Self::Uuid(bytes) => uuid::show(bytes),
            Self::Text(text) | Self::Json(text) => text::quote(text),
            Self::List(_) => self.to_text().unwrap_or_default(),
            other => format!("a {}", other.kind()),
        }
    }

    /// The value as a cast to text writes it; `None` for NULL.
    pub(crate) fn to_text(&self) -> Option<String> {
        Some(match self {
            Self::Null => return None,
            Self::Text(text) | Self::Json(text) => text.clone(),
            Self::Bytes(value) => show::bytes(value),
            Self::List(items) => array_text::write(items.iter().map(Self::to_text)),
            other => other.show(),
        })
    }

    /// The value as a cast to text writes it, instants in the time zone of the last statement of
    /// this thread; `None` for NULL.
    pub fn text(&self) -> Option<String> {
        self.to_text()
    }

    /// The value as one of a type, as a column of that type would store it.
    ///
    /// # Errors
    /// One clause that says why it is no value of the type.
    pub fn as_type(self, data_type: DataType) -> Result<Value, String> {
        self.into_value(data_type)
    }

    /// The literal for a value of a type.
    pub fn of_value(value: &Value, data_type: DataType) -> Self {
        Self::of(value.clone(), data_type)
    }

    /// Name of the literal's kind, for messages.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "NULL",
            Self::Bool(_) => "boolean",
            Self::Integer(_) | Self::Decimal(..) | Self::Float(_) | Self::Real(_) => "number",
            Self::Text(_) => "text",
            Self::Date(_) => "date",
            Self::Timestamp(_) => "timestamp",
            Self::Instant(_) => "timestamp with time zone",
            Self::Time(_) => "time",
            Self::Interval(_) => "interval",
            Self::Uuid(_) => "uuid",
            Self::Json(_) => "jsonb",
            Self::Bytes(_) => "bytea",
            Self::List(_) => "list",
        }
    }
}

fn out_of_range() -> String {
    "the timestamp is out of range".to_owned()
}

/// The double nearest to a decimal (`CAST-3`).
pub(crate) fn decimal_to_float(digits: i128, scale: u8) -> f64 {
    if digits.unsigned_abs() <= EXACT_INTEGER_MAX && scale <= EXACT_POWER_MAX {
        // Both are exact, so dividing rounds once.
        return digits as f64 / 10f64.powi(i32::from(scale));
    }
    // Reading the digits rounds once; dividing would round twice.
    show::decimal(digits, scale).parse().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn numbers_are_as_exact_as_written() {
        assert_eq!(Literal::number("7"), Some(Literal::Integer(7)));
        assert_eq!(Literal::number("0.10"), Some(Literal::Decimal(10, 2)));
        assert_eq!(Literal::number("1e100"), Some(Literal::Float(1e100)));
        assert_eq!(Literal::number("1e999"), None);
        assert_eq!(Literal::Decimal(-5, 2).show(), "-0.05");
    }

    #[test]
    fn a_number_is_checked_against_its_column() {
        let range = Literal::Integer(300_000).into_value(DataType::Int16).unwrap_err();
        assert_eq!(range, "300000 is out of range for smallint (-32768 to 32767)");
        assert_eq!(Literal::Decimal(20, 1).into_value(DataType::Int32), Ok(Value::Int32(2)));
        assert!(Literal::Decimal(25, 1).into_value(DataType::Int32).is_err());
        assert!(Literal::Float(2.5).into_value(DataType::Int64).is_err());
        assert!(Literal::Integer(1).into_value(DataType::Bool).is_err());
        assert!(Literal::Integer(1).into_value(DataType::Text).is_err());
        assert!(Literal::Float(1e300).into_value(DataType::Float32).is_err());
        assert!(Literal::Float(1e-300).into_value(DataType::Float32).is_err());
        assert!(Literal::Float(f64::NAN).into_value(DataType::Int32).is_err());
    }

    #[test]
    fn floats_become_decimals_by_their_shortest_digits() {
        let money = DataType::Decimal { precision: 9, scale: 2 };
        assert_eq!(Literal::Float(0.1).into_value(money), Ok(Value::Decimal(10)));
        assert!(Literal::Float(0.125).into_value(money).is_err());
        assert!(Literal::Float(f64::INFINITY).into_value(money).is_err());
    }

    #[test]
    fn text_means_what_it_says_in_its_column() {
        let text = |t: &str| Literal::Text(t.into());
        assert_eq!(text("1970-01-03").into_value(DataType::Date), Ok(Value::Date(2)));
        assert_eq!(text("t").into_value(DataType::Bool), Ok(Value::Bool(true)));
        assert_eq!(text("\\x01").into_value(DataType::Binary), Ok(Value::Binary(vec![1])));
        assert!(text("x").into_value(DataType::Date).is_err());
    }

    #[test]
    fn a_timestamp_is_a_date_only_at_midnight() {
        assert_eq!(Literal::Timestamp(text::DAY_US).into_value(DataType::Date), Ok(Value::Date(1)));
        assert!(Literal::Timestamp(1).into_value(DataType::Date).is_err());
        assert_eq!(Literal::Date(1).into_value(DataType::Timestamp).unwrap(), {
            Value::Timestamp(text::DAY_US)
        });
    }

    #[test]
    fn a_decimal_becomes_the_nearest_double() {
        assert_eq!(decimal_to_float(1, 1), 0.1);
        assert_eq!(
            decimal_to_float(123_456_789_012_345_678_901_234_567_890, 10),
            12_345_678_901_234_567_890.123_456_789_0
        );
        assert_eq!(decimal_to_float(3, 30), 3e-30);
    }
}
