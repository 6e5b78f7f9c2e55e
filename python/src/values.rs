//! Arrow values as Python objects.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, ArrowTimestampType, Date32Type, Decimal128Type, DecimalType, Float32Type,
    Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, IntervalMonthDayNanoType,
    Time64MicrosecondType, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrowNativeTypeOp, PrimitiveArray};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{DataType, Field, IntervalUnit, TimeUnit};
use atoll::{DataType as ColumnType, Interval, JSON, UUID, Value, decode_list};
use atoll_sql::{show_date, show_interval, show_time, show_timestamp};
use chrono::{DateTime, Datelike, NaiveDateTime, NaiveTime, TimeDelta, Utc};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::errors::Fault;

type Values<'py> = Vec<Bound<'py, PyAny>>;

/// The values of an array as Python objects: int, float, bool, str, bytes, `datetime.date`,
/// `datetime.time`, `datetime.datetime`, `datetime.timedelta`, `decimal.Decimal`, `uuid.UUID`, what
/// `json.loads` makes of JSON, and lists of them; None for NULL. Values of other types become text.
pub(crate) fn of_array<'py>(
    py: Python<'py>,
    array: &dyn Array,
    field: &Field,
) -> PyResult<Values<'py>> {
    match array.data_type() {
        DataType::Null => Ok(vec![py.None().into_bound(py); array.len()]),
        DataType::Boolean => each(py, array, |at| array.as_boolean().value(at)),
        DataType::Int8 => numbers::<Int8Type>(py, array),
        DataType::Int16 => numbers::<Int16Type>(py, array),
        DataType::Int32 => numbers::<Int32Type>(py, array),
        DataType::Int64 => numbers::<Int64Type>(py, array),
        DataType::UInt8 => numbers::<UInt8Type>(py, array),
        DataType::UInt16 => numbers::<UInt16Type>(py, array),
        DataType::UInt32 => numbers::<UInt32Type>(py, array),
        DataType::UInt64 => numbers::<UInt64Type>(py, array),
        DataType::Float32 => numbers::<Float32Type>(py, array),
        DataType::Float64 => numbers::<Float64Type>(py, array),
        DataType::Utf8 => each(py, array, |at| array.as_string::<i32>().value(at)),
        DataType::LargeUtf8 => each(py, array, |at| array.as_string::<i64>().value(at)),
        DataType::Utf8View if field.extension_type_name() == Some(JSON) => {
            let loads = json_loads(py)?;
            objects(py, array, |at| json(&loads, array.as_string_view().value(at)))
        }
        DataType::Utf8View => each(py, array, |at| array.as_string_view().value(at)),
        DataType::Binary => each(py, array, |at| array.as_binary::<i32>().value(at)),
        DataType::LargeBinary => each(py, array, |at| array.as_binary::<i64>().value(at)),
        DataType::BinaryView => each(py, array, |at| array.as_binary_view().value(at)),
        DataType::FixedSizeBinary(_) if is_uuid(field) => {
            let class = uuid_class(py)?;
            let bytes = array.as_fixed_size_binary();
            objects(py, array, |at| uuid(&class, bytes.value(at)))
        }
        DataType::FixedSizeBinary(_) => {
            each(py, array, |at| array.as_fixed_size_binary().value(at))
        }
        DataType::Time64(TimeUnit::Microsecond) => {
            let times = array.as_primitive::<Time64MicrosecondType>();
            each(py, array, |at| clock(times.value(at)))
        }
        DataType::Timestamp(TimeUnit::Microsecond, Some(_)) => {
            let instants = array.as_primitive::<TimestampMicrosecondType>();
            each(py, array, |at| in_utc(instants.value(at)))
        }
        DataType::Date32 => {
            let dates = array.as_primitive::<Date32Type>();
            each(py, array, |at| moment(dates.value_as_date(at), || show_date(dates.value(at))))
        }
        DataType::Timestamp(unit, None) => instants(py, array, *unit),
        DataType::Decimal128(precision, scale) => decimals(py, array, *precision, *scale),
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            let intervals = array.as_primitive::<IntervalMonthDayNanoType>();
            each(py, array, |at| {
                let value = intervals.value(at);
                let (months, days, nanos) = (value.months, value.days, value.nanoseconds);
                timedelta(Interval { months, days, nanos })
            })
        }
        DataType::List(item) => {
            let lists = array.as_list::<i32>();
            objects(py, array, |at| {
                let items = of_array(py, lists.value(at).as_ref(), item)?;
                PyList::new(py, items)?.into_bound_py_any(py)
            })
        }
        _ => texts(py, array),
    }
}

/// The class of decimals.
pub(crate) fn decimal_class(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    py.import("decimal")?.getattr("Decimal")
}

/// A value of a column as a Python object, as [`of_array`] makes it; `decimal` is
/// [`decimal_class`], if the row has a decimal.
pub(crate) fn of_value<'py>(
    py: Python<'py>,
    value: &Value,
    data_type: ColumnType,
    decimal: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    match value {
        Value::Null => Ok(py.None().into_bound(py)),
        Value::Int16(v) => v.into_bound_py_any(py),
        Value::Int32(v) => match data_type {
            ColumnType::Enum(labels) => labels.label(*v).into_bound_py_any(py),
            _ => v.into_bound_py_any(py),
        },
        Value::Int64(v) if data_type == ColumnType::Time => clock(*v).into_bound_py_any(py),
        Value::Int64(v) => v.into_bound_py_any(py),
        Value::Float32(v) => v.into_bound_py_any(py),
        Value::Float64(v) => v.into_bound_py_any(py),
        Value::Bool(v) => v.into_bound_py_any(py),
        Value::Interval(v) => timedelta(*v).into_bound_py_any(py),
        Value::Text(v) if is_json(data_type) => json(&json_loads(py)?, v),
        Value::Binary(v) if let Some(element) = data_type.element() => {
            let items = decode_list(element, v).unwrap_or_default();
            let items = items.iter().map(|item| of_value(py, item, element, decimal));
            PyList::new(py, items.collect::<PyResult<Vec<_>>>()?)?.into_bound_py_any(py)
        }
        Value::Text(v) => v.into_bound_py_any(py),
        Value::Binary(v) if data_type == ColumnType::Uuid => uuid(&uuid_class(py)?, v),
        Value::Binary(v) => v.as_slice().into_bound_py_any(py),
        Value::Date(days) => {
            let date = Date32Type::to_naive_date_opt(*days);
            moment(date, || show_date(*days)).into_bound_py_any(py)
        }
        Value::Timestamp(micros) if data_type == ColumnType::TimestampTz => {
            in_utc(*micros).into_bound_py_any(py)
        }
        Value::Timestamp(micros) => {
            let instant = DateTime::from_timestamp_micros(*micros).map(|one| one.naive_utc());
            moment(instant, || show_timestamp(*micros)).into_bound_py_any(py)
        }
        Value::Decimal(digits) => {
            let (precision, scale) = match data_type {
                ColumnType::Decimal { precision, scale } => (precision, scale),
                _ => (38, 0),
            };
            let text = Decimal128Type::format_decimal(*digits, precision, scale.cast_signed());
            match decimal {
                Some(class) => class.call1((text,)),
                None => decimal_class(py)?.call1((text,)),
            }
        }
    }
}

fn is_json(data_type: ColumnType) -> bool {
    matches!(data_type, ColumnType::Json | ColumnType::Jsonb)
}

fn json_loads(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    py.import("json")?.getattr("loads")
}

fn json<'py>(loads: &Bound<'py, PyAny>, text: &str) -> PyResult<Bound<'py, PyAny>> {
    loads.call1((text,))
}

/// A span of time, in which a year has 365 days and a month 30, as in psycopg; as text where it is
/// longer than `timedelta` allows.
fn timedelta(value: Interval) -> Span {
    let Interval { months, days, nanos } = value;
    let days = i64::from(months / 12) * 365 + i64::from(months % 12) * 30 + i64::from(days);
    let span = TimeDelta::try_days(days);
    let span = span.and_then(|span| span.checked_add(&TimeDelta::microseconds(nanos / 1000)));
    let fits = |span: &TimeDelta| span.num_days().abs() < 999_999_999;
    span.filter(fits).map_or_else(|| Span::Text(show_interval(value)), Span::Held)
}

/// A span of time as a Python object.
#[derive(IntoPyObject)]
enum Span {
    Held(TimeDelta),
    Text(String),
}

/// Whether a field of 16 bytes is one of UUIDs.
fn is_uuid(field: &Field) -> bool {
    field.extension_type_name() == Some(UUID)
}

fn uuid_class(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    py.import("uuid")?.getattr("UUID")
}

fn uuid<'py>(class: &Bound<'py, PyAny>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    let arguments = PyDict::new(class.py());
    arguments.set_item("bytes", bytes)?;
    class.call((), Some(&arguments))
}

/// A time of day; 24:00, which Python does not have, as text.
fn clock(micros: i64) -> Moment<NaiveTime> {
    let (seconds, rest) = (micros / 1_000_000, micros % 1_000_000);
    let time = u32::try_from(seconds).ok().and_then(|seconds| {
        NaiveTime::from_num_seconds_from_midnight_opt(seconds, u32::try_from(rest).ok()? * 1000)
    });
    time.map_or_else(|| Moment::Text(show_time(micros)), Moment::Held)
}

/// An instant with UTC as its time zone.
fn in_utc(micros: i64) -> Moment<DateTime<Utc>> {
    moment(DateTime::from_timestamp_micros(micros), || show_timestamp(micros) + "+00")
}

/// One object for each value, which may fail.
fn objects<'py>(
    py: Python<'py>,
    array: &dyn Array,
    value: impl Fn(usize) -> PyResult<Bound<'py, PyAny>>,
) -> PyResult<Values<'py>> {
    let none = || py.None().into_bound(py);
    (0..array.len()).map(|at| if array.is_null(at) { Ok(none()) } else { value(at) }).collect()
}

/// One object for each value.
fn each<'py, T: IntoPyObjectExt<'py>>(
    py: Python<'py>,
    array: &dyn Array,
    value: impl Fn(usize) -> T,
) -> PyResult<Values<'py>> {
    let none = || py.None().into_bound(py);
    let object = |at| if array.is_null(at) { Ok(none()) } else { value(at).into_bound_py_any(py) };
    (0..array.len()).map(object).collect()
}

fn numbers<'py, T>(py: Python<'py>, array: &dyn Array) -> PyResult<Values<'py>>
where
    T: ArrowPrimitiveType,
    T::Native: ArrowNativeTypeOp + IntoPyObjectExt<'py>,
{
    let numbers = array.as_primitive::<T>();
    each(py, array, |at| numbers.value(at))
}

fn instants<'py>(py: Python<'py>, array: &dyn Array, unit: TimeUnit) -> PyResult<Values<'py>> {
    match unit {
        TimeUnit::Second => {
            let instants = array.as_primitive::<TimestampSecondType>();
            each(py, array, |at| instant(instants, at))
        }
        TimeUnit::Millisecond => {
            let instants = array.as_primitive::<TimestampMillisecondType>();
            each(py, array, |at| instant(instants, at))
        }
        TimeUnit::Microsecond => {
            let instants = array.as_primitive::<TimestampMicrosecondType>();
            each(py, array, |at| instant(instants, at))
        }
        TimeUnit::Nanosecond => {
            let instants = array.as_primitive::<TimestampNanosecondType>();
            each(py, array, |at| instant(instants, at))
        }
    }
}

/// A date or a timestamp as a Python object, or as text outside the range of `datetime`: before
/// year 1 and after 9999.
#[derive(IntoPyObject)]
enum Moment<T> {
    Held(T),
    Text(String),
}

fn moment<T: Datelike>(value: Option<T>, text: impl FnOnce() -> String) -> Moment<T> {
    match value.filter(|value| (1..=9999).contains(&value.year())) {
        Some(value) => Moment::Held(value),
        None => Moment::Text(text()),
    }
}

fn instant<T: ArrowTimestampType>(
    instants: &PrimitiveArray<T>,
    at: usize,
) -> Moment<NaiveDateTime> {
    moment(instants.value_as_datetime(at), || match T::UNIT {
        TimeUnit::Microsecond => show_timestamp(instants.value(at)),
        unit => format!("{} ({unit} since 1970-01-01)", instants.value(at)),
    })
}

fn decimals<'py>(
    py: Python<'py>,
    array: &dyn Array,
    precision: u8,
    scale: i8,
) -> PyResult<Values<'py>> {
    let class = py.import("decimal")?.getattr("Decimal")?;
    let numbers = array.as_primitive::<Decimal128Type>();
    let object = |at| {
        if array.is_null(at) {
            return Ok(py.None().into_bound(py));
        }
        class.call1((Decimal128Type::format_decimal(numbers.value(at), precision, scale),))
    };
    (0..array.len()).map(object).collect()
}

fn texts<'py>(py: Python<'py>, array: &dyn Array) -> PyResult<Values<'py>> {
    let options = FormatOptions::default();
    let format = ArrayFormatter::try_new(array, &options).map_err(Fault::from)?;
    each(py, array, |at| format.value(at).to_string())
}
