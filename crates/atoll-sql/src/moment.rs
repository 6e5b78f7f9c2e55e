//! The texts of values in results that a client cannot write as PostgreSQL does.

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, IntervalMonthDayNanoType, Time64MicrosecondType, TimestampMicrosecondType,
};
use arrow_schema::{DataType as ArrowType, Field, IntervalUnit, TimeUnit};
use atoll::{Interval, UUID};

use crate::{arrow_value, clock, interval, show, uuid, zone};

/// The text of a date, a time, a timestamp, an instant, an interval, a list or a UUID in an array,
/// of whatever year; `None` for values of other types. An instant is in the zone of the last
/// statement of this thread.
pub fn show_moment(array: &dyn Array, field: &Field, row: usize) -> Option<String> {
    match array.data_type() {
        ArrowType::Date32 => Some(show::date(array.as_primitive::<Date32Type>().value(row))),
        ArrowType::Timestamp(TimeUnit::Microsecond, None) => {
            Some(show::timestamp(array.as_primitive::<TimestampMicrosecondType>().value(row)))
        }
        ArrowType::Timestamp(TimeUnit::Microsecond, Some(_)) => {
            Some(zone::show(array.as_primitive::<TimestampMicrosecondType>().value(row)))
        }
        ArrowType::Time64(TimeUnit::Microsecond) => {
            Some(clock::show(array.as_primitive::<Time64MicrosecondType>().value(row)))
        }
        ArrowType::Interval(IntervalUnit::MonthDayNano) => {
            let value = array.as_primitive::<IntervalMonthDayNanoType>().value(row);
            let (months, days, nanos) = (value.months, value.days, value.nanoseconds);
            Some(interval::show(Interval { months, days, nanos }))
        }
        ArrowType::List(_) => arrow_value::at(array, row).ok()?.to_text(),
        ArrowType::FixedSizeBinary(_) if field.extension_type_name() == Some(UUID) => {
            Some(uuid::show(array.as_fixed_size_binary().value(row)))
        }
        _ => None,
    }
}

/// An interval as PostgreSQL writes it, `1 year 2 mons -3 days 04:05:06`.
pub fn show_interval(value: Interval) -> String {
    interval::show(value)
}

/// A time of day as `HH:MM:SS[.ffffff]`.
pub fn show_time(micros: i64) -> String {
    clock::show(micros)
}
