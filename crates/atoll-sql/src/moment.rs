//! The texts of values in results that a client cannot write as PostgreSQL does.

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::{Date32Type, Time64MicrosecondType, TimestampMicrosecondType};
use arrow_schema::{DataType as ArrowType, Field, TimeUnit};
use atoll::UUID;

use crate::{clock, show, uuid, zone};

/// The text of a date, a time, a timestamp, an instant or a UUID in an array, of whatever year;
/// `None` for values of other types. An instant is in the zone of the last statement of this
/// thread.
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
        ArrowType::FixedSizeBinary(_) if field.extension_type_name() == Some(UUID) => {
            Some(uuid::show(array.as_fixed_size_binary().value(row)))
        }
        _ => None,
    }
}

/// A time of day as `HH:MM:SS[.ffffff]`.
pub fn show_time(micros: i64) -> String {
    clock::show(micros)
}
