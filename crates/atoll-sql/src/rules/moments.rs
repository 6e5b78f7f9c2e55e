//! Arithmetic of instants and times of day.
//!
//! `MOMENT-1`: as in PostgreSQL, months and days are added to the local time of the session's zone
//! (`ZONE-1`), and what is left of an interval to the instant. A time of day goes round at
//! midnight.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, DurationMicrosecondType, IntervalMonthDayNanoType,
    Time64MicrosecondType, TimestampMicrosecondType,
};
use arrow_array::{ArrayRef, PrimitiveArray};
use arrow_buffer::IntervalMonthDayNano;
use arrow_schema::{ArrowError, DataType as ArrowType, IntervalUnit, TimeUnit};
use atoll::DAY_MICROS;
use chrono::{DateTime, Months};
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, Expr, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility, lit,
};

use super::at_zone;
use super::temporal::{TIME, TIMESTAMP, instant, out_of_range};
use super::typed::Typed;
use crate::zone::{self, Zone};

/// Of two types of moments that are compared or merged, the one that both become: a date is a
/// timestamp at midnight, and a timestamp an instant in the session's zone.
pub(crate) fn common(left: &ArrowType, right: &ArrowType) -> Option<ArrowType> {
    let rank = |arrow: &ArrowType| match arrow {
        ArrowType::Date32 => Some(0),
        ArrowType::Timestamp(TimeUnit::Microsecond, None) => Some(1),
        ArrowType::Timestamp(TimeUnit::Microsecond, Some(_)) => Some(2),
        _ => None,
    };
    let (a, b) = (rank(left)?, rank(right)?);
    Some(if a >= b { left.clone() } else { right.clone() })
}

/// The arguments of a function that takes moments apart: an instant counts by the local time of the
/// session's zone, except for the seconds since 1970.
pub(crate) fn apart(name: &str, arguments: Vec<Typed>) -> Result<Vec<Typed>> {
    let is_epoch =
        |one: &Typed| one.untyped().is_some_and(|part| part.eq_ignore_ascii_case("epoch"));
    if !matches!(name, "date_part" | "extract" | "to_char") {
        return Ok(arguments);
    }
    let is_since_epoch = arguments.iter().any(is_epoch);
    let local = |one: Typed| match (one.arrow == instant(), is_since_epoch) {
        (true, true) => {
            let utc = Typed::of(lit("UTC"), ArrowType::Utf8);
            Ok(Typed::of(at_zone::call(utc, one)?, TIMESTAMP))
        }
        (true, false) => one.into_type(&TIMESTAMP),
        (false, _) => Ok(one),
    };
    arguments.into_iter().map(local).collect()
}

/// The operation of an operator on these types, if it is one of this module.
fn operation(left: &ArrowType, op: Operator, right: &ArrowType) -> Option<(Operation, bool)> {
    let is_interval = |arrow: &ArrowType| *arrow == ArrowType::Interval(IntervalUnit::MonthDayNano);
    let is_instant = |arrow: &ArrowType| *arrow == instant();
    Some(match op {
        Operator::Plus | Operator::Minus if is_instant(left) && is_interval(right) => {
            (Operation::ShiftInstant(op == Operator::Minus), false)
        }
        Operator::Plus if is_interval(left) && is_instant(right) => {
            (Operation::ShiftInstant(false), true)
        }
        Operator::Plus | Operator::Minus if *left == TIME && is_interval(right) => {
            (Operation::ShiftTime(op == Operator::Minus), false)
        }
        Operator::Plus if is_interval(left) && *right == TIME => {
            (Operation::ShiftTime(false), true)
        }
        Operator::Minus if *left == TIME && *right == TIME => (Operation::Between, false),
        Operator::Plus if *left == ArrowType::Date32 && *right == TIME => {
            (Operation::Together, false)
        }
        Operator::Plus if *left == TIME && *right == ArrowType::Date32 => {
            (Operation::Together, true)
        }
        _ => return None,
    })
}

/// `left op right`, if this module has such an operator.
pub(crate) fn arithmetic(left: &Typed, op: Operator, right: &Typed) -> Option<Expr> {
    let (operation, is_turned) = operation(&left.arrow, op, &right.arrow)?;
    let (a, b) = (left.expr.clone(), right.expr.clone());
    let arguments = if is_turned { vec![b, a] } else { vec![a, b] };
    let (zone, signature) = (zone::current(), Signature::any(2, Volatility::Immutable));
    Some(ScalarUDF::from(Moments { operation, zone, signature }).call(arguments))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Operation {
    /// An instant and an interval, which is subtracted or not.
    ShiftInstant(bool),
    /// A time and an interval.
    ShiftTime(bool),
    /// Two times.
    Between,
    /// A date and a time.
    Together,
}

/// A function of this module.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Moments {
    operation: Operation,
    zone: Zone,
    signature: Signature,
}

/// The instant at a distance from another one.
fn shifted(zone: Zone, micros: i64, by: IntervalMonthDayNano, minus: bool) -> Option<i64> {
    let sign = if minus { -1 } else { 1 };
    let mut moved = micros;
    if by.months != 0 || by.days != 0 {
        let local = zone.local(moved)?;
        let (day, of_day) = (local.div_euclid(DAY_MICROS), local.rem_euclid(DAY_MICROS));
        let date = DateTime::from_timestamp(day.checked_mul(86_400)?, 0)?.date_naive();
        let months = Months::new(by.months.unsigned_abs());
        let date = match (by.months < 0) == minus {
            true => date.checked_add_months(months)?,
            false => date.checked_sub_months(months)?,
        };
        let days = i64::from(date.to_epoch_days()).checked_add(sign * i64::from(by.days))?;
        moved = zone.instant(days.checked_mul(DAY_MICROS)?.checked_add(of_day)?)?;
    }
    moved.checked_add(sign * (by.nanoseconds / 1000))
}

fn each<A: ArrowPrimitiveType, B: ArrowPrimitiveType, O: ArrowPrimitiveType>(
    left: &ArrayRef,
    right: &ArrayRef,
    step: impl Fn(A::Native, B::Native) -> std::result::Result<O::Native, ArrowError>,
) -> Result<PrimitiveArray<O>> {
    let pairs = left.as_primitive::<A>().iter().zip(right.as_primitive::<B>().iter());
    let values = pairs.map(|(a, b)| a.zip(b).map(|(a, b)| step(a, b)).transpose());
    Ok(values.collect::<std::result::Result<_, ArrowError>>()?)
}

impl ScalarUDFImpl for Moments {
    fn name(&self) -> &str {
        match self.operation {
            Operation::ShiftInstant(true) | Operation::ShiftTime(true) | Operation::Between => "-",
            _ => "+",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[ArrowType]) -> Result<ArrowType> {
        Ok(match self.operation {
            Operation::ShiftInstant(_) => instant(),
            Operation::ShiftTime(_) => TIME,
            Operation::Between => ArrowType::Duration(TimeUnit::Microsecond),
            Operation::Together => TIMESTAMP,
        })
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let left = args.args[0].to_array(args.number_rows)?;
        let right = args.args[1].to_array(args.number_rows)?;
        let array: ArrayRef = match self.operation {
            Operation::ShiftInstant(minus) => {
                let moved = each::<
                    TimestampMicrosecondType,
                    IntervalMonthDayNanoType,
                    TimestampMicrosecondType,
                >(&left, &right, |micros, by| {
                    shifted(self.zone, micros, by, minus)
                        .ok_or_else(|| out_of_range("the timestamp"))
                })?;
                Arc::new(moved.with_timezone(atoll::UTC))
            }
            Operation::ShiftTime(minus) => Arc::new(each::<
                Time64MicrosecondType,
                IntervalMonthDayNanoType,
                Time64MicrosecondType,
            >(&left, &right, |time, by| {
                let micros = by.nanoseconds / 1000 % DAY_MICROS;
                Ok((time + if minus { -micros } else { micros }).rem_euclid(DAY_MICROS))
            })?),
            Operation::Between => Arc::new(each::<
                Time64MicrosecondType,
                Time64MicrosecondType,
                DurationMicrosecondType,
            >(&left, &right, |a, b| Ok(a - b))?),
            Operation::Together => {
                Arc::new(each::<Date32Type, Time64MicrosecondType, TimestampMicrosecondType>(
                    &left,
                    &right,
                    |days, time| Ok(i64::from(days) * DAY_MICROS + time),
                )?)
            }
        };
        Ok(ColumnarValue::Array(array))
    }
}
