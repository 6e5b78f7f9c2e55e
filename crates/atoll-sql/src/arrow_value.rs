//! Conversion of Arrow arrays to values, for Parquet files and `INSERT … SELECT`.
//!
//! `ARROW-1`: the conversion is exact or an error: an instant finer than a microsecond, or a number
//! out of the range of its column, is never rounded.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Date64Type, Decimal32Type, Decimal64Type, Decimal128Type,
    Decimal256Type, DurationMicrosecondType, DurationMillisecondType, DurationNanosecondType,
    DurationSecondType, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, IntervalDayTimeType, IntervalMonthDayNanoType, IntervalYearMonthType,
    Time32MillisecondType, Time32SecondType, Time64MicrosecondType, Time64NanosecondType,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, IntervalUnit, TimeUnit};
use atoll::Interval;
use chrono::DateTime;

use crate::enums::label;
use crate::interval;
use crate::literal::Literal;

/// The array without dictionary or run-length encoding.
///
/// # Errors
/// An encoding that cannot be undone.
pub fn plain(array: &ArrayRef) -> Result<ArrayRef, String> {
    let values = match array.data_type() {
        DataType::Dictionary(_, values) => values.as_ref(),
        DataType::RunEndEncoded(_, values) => values.data_type(),
        _ => return Ok(Arc::clone(array)),
    };
    arrow_cast::cast(array, values).map_err(|error| error.to_string())
}

/// The value at a place of an array of a result.
///
/// # Errors
/// One clause: a type that no column has.
pub fn literal_at(array: &ArrayRef, index: usize) -> Result<Literal, String> {
    at(plain(array)?.as_ref(), index)
}

/// The array with timestamps in nanoseconds truncated to microseconds.
pub(crate) fn cut_to_micros(array: &ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::Timestamp(TimeUnit::Nanosecond, zone) => {
            let nanos = array.as_primitive::<TimestampNanosecondType>();
            let cut = |nanos: i64| nanos.div_euclid(1000);
            let micros = nanos.unary::<_, TimestampMicrosecondType>(cut);
            Arc::new(micros.with_timezone_opt(zone.clone()))
        }
        _ => Arc::clone(array),
    }
}

/// The value at a place of an array that [`plain`] returned.
///
/// # Errors
/// One clause: a type that no column has, or digits that no column keeps.
pub(crate) fn at(array: &dyn Array, index: usize) -> Result<Literal, String> {
    if array.is_null(index) {
        return Ok(Literal::Null);
    }
    Ok(match array.data_type() {
        DataType::Null => Literal::Null,
        DataType::Boolean => Literal::Bool(array.as_boolean().value(index)),
        DataType::Int8 => Literal::Integer(get::<Int8Type>(array, index).into()),
        DataType::Int16 => Literal::Integer(get::<Int16Type>(array, index).into()),
        DataType::Int32 => Literal::Integer(get::<Int32Type>(array, index).into()),
        DataType::Int64 => Literal::Integer(get::<Int64Type>(array, index).into()),
        DataType::UInt8 => Literal::Integer(get::<UInt8Type>(array, index).into()),
        DataType::UInt16 => Literal::Integer(get::<UInt16Type>(array, index).into()),
        DataType::UInt32 => Literal::Integer(get::<UInt32Type>(array, index).into()),
        DataType::UInt64 => Literal::Integer(get::<UInt64Type>(array, index).into()),
        DataType::Float16 => Literal::Real(get::<Float16Type>(array, index).into()),
        DataType::Float32 => Literal::Real(get::<Float32Type>(array, index)),
        DataType::Float64 => Literal::Float(get::<Float64Type>(array, index)),
        DataType::Utf8 => Literal::Text(array.as_string::<i32>().value(index).to_owned()),
        DataType::LargeUtf8 => Literal::Text(array.as_string::<i64>().value(index).to_owned()),
        DataType::Utf8View => Literal::Text(array.as_string_view().value(index).to_owned()),
        DataType::Binary => Literal::Bytes(array.as_binary::<i32>().value(index).to_vec()),
        DataType::LargeBinary => Literal::Bytes(array.as_binary::<i64>().value(index).to_vec()),
        DataType::BinaryView => Literal::Bytes(array.as_binary_view().value(index).to_vec()),
        DataType::FixedSizeBinary(_) => {
            let bytes = array.as_fixed_size_binary().value(index);
            bytes.try_into().map_or_else(|_| Literal::Bytes(bytes.to_vec()), Literal::Uuid)
        }
        DataType::Date32 => Literal::Date(get::<Date32Type>(array, index)),
        DataType::Date64 => instant(get::<Date64Type>(array, index), TimeUnit::Millisecond)?,
        DataType::Timestamp(TimeUnit::Second, Some(_)) if let Some(label) = label(array, index) => {
            Literal::from(label)
        }
        DataType::Timestamp(unit, zone) => {
            let value = match unit {
                TimeUnit::Second => get::<TimestampSecondType>(array, index),
                TimeUnit::Millisecond => get::<TimestampMillisecondType>(array, index),
                TimeUnit::Microsecond => get::<TimestampMicrosecondType>(array, index),
                TimeUnit::Nanosecond => get::<TimestampNanosecondType>(array, index),
            };
            match (instant(value, *unit)?, zone) {
                (Literal::Timestamp(micros), Some(_)) => Literal::Instant(micros),
                (moment, _) => moment,
            }
        }
        DataType::Time32(TimeUnit::Second) => {
            Literal::Time(i64::from(get::<Time32SecondType>(array, index)) * 1_000_000)
        }
        DataType::Time32(_) => {
            Literal::Time(i64::from(get::<Time32MillisecondType>(array, index)) * 1000)
        }
        DataType::Time64(TimeUnit::Nanosecond) => match get::<Time64NanosecondType>(array, index) {
            nanos if nanos % 1000 == 0 => Literal::Time(nanos / 1000),
            _ => return Err("the time is finer than a microsecond".to_owned()),
        },
        DataType::Time64(_) => Literal::Time(get::<Time64MicrosecondType>(array, index)),
        DataType::Interval(unit) => Literal::Interval(match unit {
            IntervalUnit::YearMonth => {
                let months = get::<IntervalYearMonthType>(array, index);
                Interval { months, days: 0, nanos: 0 }
            }
            IntervalUnit::DayTime => {
                let value = get::<IntervalDayTimeType>(array, index);
                let nanos = i64::from(value.milliseconds) * 1_000_000;
                Interval { months: 0, days: value.days, nanos }
            }
            IntervalUnit::MonthDayNano => {
                let value = get::<IntervalMonthDayNanoType>(array, index);
                if value.nanoseconds % 1000 != 0 {
                    return Err("the interval is finer than a microsecond".to_owned());
                }
                let (months, days) = (value.months, value.days);
                Interval { months, days, nanos: value.nanoseconds }
            }
        }),
        DataType::Duration(unit) => {
            let value = match unit {
                TimeUnit::Second => get::<DurationSecondType>(array, index),
                TimeUnit::Millisecond => get::<DurationMillisecondType>(array, index),
                TimeUnit::Microsecond => get::<DurationMicrosecondType>(array, index),
                TimeUnit::Nanosecond => get::<DurationNanosecondType>(array, index),
            };
            let Literal::Timestamp(micros) = instant(value, *unit)? else {
                return Err("the interval is finer than a microsecond".to_owned());
            };
            let value = interval::between(micros, 0);
            Literal::Interval(value.ok_or("the interval is out of range")?)
        }
        DataType::Decimal32(_, scale) => {
            decimal(get::<Decimal32Type>(array, index).into(), *scale)?
        }
        DataType::Decimal64(_, scale) => {
            decimal(get::<Decimal64Type>(array, index).into(), *scale)?
        }
        DataType::Decimal128(_, scale) => decimal(get::<Decimal128Type>(array, index), *scale)?,
        DataType::Decimal256(_, scale) => {
            let digits = get::<Decimal256Type>(array, index).to_i128();
            decimal(digits.ok_or("the decimal has more than 38 digits")?, *scale)?
        }
        DataType::List(_) => {
            let items = array.as_list::<i32>().value(index);
            let items = plain(&items)?;
            let items = (0..items.len()).map(|row| at(items.as_ref(), row));
            Literal::List(items.collect::<Result<_, _>>()?)
        }
        DataType::LargeList(_) => {
            let items = plain(&array.as_list::<i64>().value(index))?;
            let items = (0..items.len()).map(|row| at(items.as_ref(), row));
            Literal::List(items.collect::<Result<_, _>>()?)
        }
        other => return Err(format!("values of the Arrow type {other} fit no column")),
    })
}

fn get<T: ArrowPrimitiveType>(array: &dyn Array, index: usize) -> T::Native {
    array.as_primitive::<T>().value(index)
}

/// Converts an instant from its unit to microseconds; midnights remain usable as dates.
fn instant(value: i64, unit: TimeUnit) -> Result<Literal, String> {
    let micros = match unit {
        TimeUnit::Second => value.checked_mul(1_000_000),
        TimeUnit::Millisecond => value.checked_mul(1000),
        TimeUnit::Microsecond => Some(value),
        TimeUnit::Nanosecond if value % 1000 == 0 => Some(value / 1000),
        TimeUnit::Nanosecond => {
            let shown = DateTime::from_timestamp_nanos(value).format("%Y-%m-%d %H:%M:%S%.9f");
            return Err(format!("\"{shown}\" is finer than a microsecond"));
        }
    };
    micros.map(Literal::Timestamp).ok_or_else(|| "the timestamp is out of range".to_owned())
}

fn decimal(digits: i128, scale: i8) -> Result<Literal, String> {
    match u8::try_from(scale) {
        Ok(scale) => Ok(Literal::Decimal(digits, scale)),
        // A negative scale stands for zeros before the point.
        Err(_) => 10i128
            .checked_pow(u32::from(scale.unsigned_abs()))
            .and_then(|factor| digits.checked_mul(factor))
            .map(Literal::Integer)
            .ok_or_else(|| "the decimal has more than 38 digits".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use arrow_array::{
        DictionaryArray, Int8Array, LargeStringArray, StringViewArray, TimestampNanosecondArray,
        TimestampSecondArray, UInt64Array,
    };

    use super::*;

    #[test]
    fn every_string_layout_is_text() {
        let dictionary: DictionaryArray<Int32Type> = vec!["a", "b", "a"].into_iter().collect();
        let arrays: [ArrayRef; 3] = [
            Arc::new(LargeStringArray::from(vec!["x", "y", "a"])),
            Arc::new(StringViewArray::from(vec!["x", "y", "a"])),
            Arc::new(dictionary),
        ];
        for array in arrays {
            let plain = plain(&array).unwrap();
            assert_eq!(at(&plain, 2), Ok(Literal::Text("a".into())));
        }
    }

    #[test]
    fn instants_of_other_units_are_exact_or_refused() {
        let seconds = TimestampSecondArray::from(vec![2]);
        assert_eq!(at(&seconds, 0), Ok(Literal::Timestamp(2_000_000)));
        let nanos = TimestampNanosecondArray::from(vec![3000, 3001]);
        assert_eq!(at(&nanos, 0), Ok(Literal::Timestamp(3)));
        let fine = at(&nanos, 1).unwrap_err();
        assert_eq!(fine, "\"1970-01-01 00:00:00.000003001\" is finer than a microsecond");
        let before: ArrayRef = Arc::new(TimestampNanosecondArray::from(vec![Some(-1), None]));
        let cut = cut_to_micros(&before);
        assert_eq!((at(&cut, 0), at(&cut, 1)), (Ok(Literal::Timestamp(-1)), Ok(Literal::Null)));
        let far = TimestampSecondArray::from(vec![i64::MAX]);
        assert!(at(&far, 0).is_err());
    }

    #[test]
    fn integers_of_every_width_are_numbers_and_null_is_null() {
        let narrow = Int8Array::from(vec![Some(-3), None]);
        assert_eq!(at(&narrow, 0), Ok(Literal::Integer(-3)));
        assert_eq!(at(&narrow, 1), Ok(Literal::Null));
        let wide = UInt64Array::from(vec![u64::MAX]);
        assert_eq!(at(&wide, 0), Ok(Literal::Integer(u64::MAX.into())));
    }
}
