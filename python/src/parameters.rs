//! Python objects as values of the parameters of statements.

use std::borrow::Cow;

use atoll::Interval;
use atoll_sql::Literal;
use chrono::{DateTime, NaiveDate, NaiveDateTime, NaiveTime, TimeDelta, Timelike, Utc};
use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyByteArray, PyBytes, PyDate, PyDateTime, PyDelta, PyDict, PyFloat, PyInt, PyList,
    PyMapping, PyString, PyTime, PyTuple,
};

use crate::errors::{Fault, Outcome};

/// The values of a sequence; none for `None`.
pub(crate) fn of(values: Option<&Bound<'_, PyAny>>) -> Outcome<Vec<Literal>> {
    let Some(values) = values.filter(|values| !values.is_none()) else { return Ok(Vec::new()) };
    if let Ok(values) = values.cast::<PyTuple>() {
        return values.iter_borrowed().enumerate().map(|(at, one)| value(&one, at)).collect();
    }
    if let Ok(values) = values.cast::<PyList>() {
        return values.iter().enumerate().map(|(at, one)| value(&one, at)).collect();
    }
    let is_text = values.is_instance_of::<PyString>() || values.is_instance_of::<PyBytes>();
    if is_text || values.cast::<PyMapping>().is_ok() {
        let kind = values.get_type().name().map_err(Fault::Python)?;
        let message = format!("parameters are a tuple or a list of values, not a {kind}");
        return Err(Fault::Type(message));
    }
    let values = values.try_iter().map_err(Fault::Python)?;
    values.enumerate().map(|(at, one)| value(&one.map_err(Fault::Python)?, at)).collect()
}

/// One value; `at` is its position, for messages.
fn value(object: &Bound<'_, PyAny>, at: usize) -> Outcome<Literal> {
    if object.is_none() {
        return Ok(Literal::Null);
    }
    // The usual ones first; a bool is an int too.
    if let Ok(truth) = object.cast::<PyBool>() {
        return Ok(Literal::Bool(truth.is_true()));
    }
    if object.is_instance_of::<PyInt>() {
        return match object.extract::<i64>() {
            Ok(number) => Ok(number.into()),
            Err(_) => large(object, at),
        };
    }
    if let Ok(text) = object.cast::<PyString>() {
        let text: Cow<'_, str> = text.extract().map_err(Fault::Python)?;
        return Ok(Literal::Text(text.into_owned()));
    }
    if object.is_instance_of::<PyFloat>() {
        return Ok(Literal::Float(object.extract().map_err(Fault::Python)?));
    }
    if let Ok(bytes) = object.cast::<PyBytes>() {
        return Ok(Literal::Bytes(bytes.as_bytes().to_vec()));
    }
    if let Ok(bytes) = object.cast::<PyByteArray>() {
        return Ok(Literal::Bytes(bytes.to_vec()));
    }
    if object.is_instance_of::<PyDateTime>() {
        return moment(object);
    }
    if object.is_instance_of::<PyDate>() {
        let date: NaiveDate = object.extract().map_err(Fault::Python)?;
        let days = date.signed_duration_since(NaiveDate::default()).num_days();
        return Ok(Literal::Date(i32::try_from(days).unwrap_or(i32::MAX)));
    }
    if object.is_instance_of::<PyTime>() {
        let time: NaiveTime = object.extract().map_err(Fault::Python)?;
        let seconds = i64::from(time.num_seconds_from_midnight());
        return Ok(Literal::Time(seconds * 1_000_000 + i64::from(time.nanosecond() / 1000)));
    }
    if object.is_instance_of::<PyDelta>() {
        return span(object, at);
    }
    if object.is_instance_of::<PyDict>() {
        let json = object.py().import("json").map_err(Fault::Python)?;
        let text = json.call_method1("dumps", (object,)).map_err(Fault::Python)?;
        return Ok(Literal::Json(text.extract().map_err(Fault::Python)?));
    }
    if let Ok(items) = object.cast::<PyList>() {
        let items = items.iter().map(|item| value(&item, at));
        return Ok(Literal::List(items.collect::<Outcome<_>>()?));
    }
    other(object, at)
}

/// A span of time: its days, and the rest.
fn span(object: &Bound<'_, PyAny>, at: usize) -> Outcome<Literal> {
    let out_of_range = || Fault::Value(format!("parameter {} is too long a time", at + 1));
    let span: TimeDelta = object.extract().map_err(Fault::Python)?;
    let days = i32::try_from(span.num_days()).map_err(|_| out_of_range())?;
    let rest = span - TimeDelta::days(days.into());
    let nanos = rest.num_nanoseconds().ok_or_else(out_of_range)?;
    Ok(Literal::Interval(Interval { months: 0, days, nanos }))
}

/// One with a time zone is an instant.
fn moment(object: &Bound<'_, PyAny>) -> Outcome<Literal> {
    if let Ok(naive) = object.extract::<NaiveDateTime>() {
        return Ok(Literal::Timestamp(naive.and_utc().timestamp_micros()));
    }
    // Of a zone of Python's own, with its rules.
    let utc = match object.extract::<DateTime<Utc>>() {
        Ok(utc) => utc,
        Err(_) => {
            let zone = object.py().import("datetime").and_then(|module| module.getattr("timezone"));
            let utc = zone.and_then(|zone| zone.getattr("utc")).map_err(Fault::Python)?;
            let moved = object.call_method1("astimezone", (utc,)).map_err(Fault::Python)?;
            moved.extract::<DateTime<Utc>>().map_err(Fault::Python)?
        }
    };
    Ok(Literal::Instant(utc.timestamp_micros()))
}

/// An integer of more than 64 bits.
fn large(object: &Bound<'_, PyAny>, at: usize) -> Outcome<Literal> {
    let out_of_range =
        || Fault::Value(format!("parameter {} has more digits than any number here", at + 1));
    object.extract::<i128>().map(Literal::Integer).map_err(|_| out_of_range())
}

/// Decimals, UUIDs, and scalars of NumPy.
fn other(object: &Bound<'_, PyAny>, at: usize) -> Outcome<Literal> {
    let kind = object.get_type();
    let name = kind.name().map_err(Fault::Python)?;
    let module = kind.module().map_err(Fault::Python)?;
    let name = (module.to_string_lossy().into_owned(), name.to_string_lossy().into_owned());
    match (name.0.as_str(), name.1.as_str()) {
        ("decimal", "Decimal") => {
            let text = object.str().map_err(Fault::Python)?;
            let text = text.to_string_lossy();
            let finite =
                Literal::number(text.trim()).filter(|one| !matches!(one, Literal::Float(_)));
            let message = || format!("parameter {}: {text} has no exact digits here", at + 1);
            finite.ok_or_else(|| Fault::Value(message()))
        }
        ("uuid", "UUID") => {
            let bytes: Vec<u8> =
                object.getattr("bytes").and_then(|bytes| bytes.extract()).map_err(Fault::Python)?;
            match bytes.as_slice().try_into() {
                Ok(bytes) => Ok(Literal::Uuid(bytes)),
                Err(_) => Err(unknown(&name.1, at)),
            }
        }
        ("numpy", _) if object.hasattr("item").map_err(Fault::Python)? => {
            let item = object.call_method0("item").map_err(Fault::Python)?;
            let is_array = item.is_instance_of::<PyList>() || item.get_type().is(&kind);
            if is_array { Err(unknown(&name.1, at)) } else { value(&item, at) }
        }
        _ => Err(unknown(&name.1, at)),
    }
}

fn unknown(name: &str, at: usize) -> Fault {
    Fault::Type(format!(
        "parameter {} is a {name}; values are None, bool, int, float, str, bytes, Decimal, date, \
         time, datetime, timedelta, UUID and dict, and lists of them",
        at + 1
    ))
}
