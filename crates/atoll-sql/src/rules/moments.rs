//! Arithmetic of instants and times of day.
//!
//! Arithmetic of intervals is that of [`crate::interval`].
//!
//! `MOMENT-1`: as in PostgreSQL, months and days are added to the local time of the session's zone
//! (`ZONE-1`), and what is left of an interval to the instant. A time of day goes round at
//! midnight.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Float64Type, IntervalMonthDayNanoType, Time64MicrosecondType,
    TimestampMicrosecondType,
};
use arrow_array::{ArrayRef, PrimitiveArray};
use arrow_buffer::IntervalMonthDayNano;
use arrow_schema::{ArrowError, DataType as ArrowType, TimeUnit};
use atoll::{DAY_MICROS, Interval};
use chrono::{DateTime, Months};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, Expr, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility, lit,
};

use super::at_zone;
use super::number::Number;
use super::temporal::{INTERVAL, TIME, TIMESTAMP, instant, out_of_range};
use super::typed::Typed;
use crate::error::{Cause, SqlError, SqlErrorKind};
use crate::interval;
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
    if !matches!(name, "date_part" | "extract" | "to_char" | "age") {
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
    let is_interval = |arrow: &ArrowType| *arrow == INTERVAL;
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
        Operator::Plus | Operator::Minus if is_interval(left) && is_interval(right) => {
            (Operation::Sum(op == Operator::Minus), false)
        }
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
    Some(call(operation, if is_turned { [b, a] } else { [a, b] }))
}

fn call(operation: Operation, arguments: [Expr; 2]) -> Expr {
    let (zone, signature) = (zone::current(), Signature::any(2, Volatility::Immutable));
    ScalarUDF::from(Moments { operation, zone, signature }).call(arguments.to_vec())
}

/// The time between two timestamps or two instants: days, and the rest.
pub(crate) fn difference(later: Expr, earlier: Expr) -> Expr {
    call(Operation::Apart, [later, earlier])
}

/// An interval that is multiplied with a number, or divided by one.
pub(crate) fn scaled(left: &Typed, op: Operator, right: &Typed) -> Result<Option<Expr>> {
    let is_number = |side: &Typed| {
        Number::of(&side.arrow).is_some() || side.untyped().is_some() || side.is_open_parameter()
    };
    let (operation, value, by) = match op {
        Operator::Multiply if left.arrow == INTERVAL && is_number(right) => {
            (Operation::Scale(false), left, right)
        }
        Operator::Multiply if right.arrow == INTERVAL && is_number(left) => {
            (Operation::Scale(false), right, left)
        }
        Operator::Divide if left.arrow == INTERVAL && is_number(right) => {
            (Operation::Scale(true), left, right)
        }
        _ => return Ok(None),
    };
    let by = by.clone().with_parameter_type(&ArrowType::Float64).into_type(&ArrowType::Float64)?;
    Ok(Some(call(operation, [value.expr.clone(), by.expr])))
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
    /// Two timestamps, or two instants.
    Apart,
    /// Two intervals, of which the second one is subtracted or not.
    Sum(bool),
    /// An interval and a number, which divides or not.
    Scale(bool),
}

/// A function of this module.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Moments {
    operation: Operation,
    zone: Zone,
    signature: Signature,
}

/// The instant at a distance from another one.
pub(crate) fn shifted(
    zone: Zone,
    micros: i64,
    by: IntervalMonthDayNano,
    minus: bool,
) -> Option<i64> {
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

fn own(value: IntervalMonthDayNano) -> Interval {
    let IntervalMonthDayNano { months, days, nanoseconds: nanos } = value;
    Interval { months, days, nanos }
}

fn failed(error: SqlError) -> ArrowError {
    ArrowError::ExternalError(Box::new(error))
}

/// An interval as Arrow has it.
pub(crate) fn arrow(Interval { months, days, nanos }: Interval) -> IntervalMonthDayNano {
    IntervalMonthDayNano::new(months, days, nanos)
}

/// An interval, if it is one.
fn known(value: Option<Interval>) -> std::result::Result<IntervalMonthDayNano, ArrowError> {
    let out_of_range = || failed(SqlError::new(SqlErrorKind::Type, "interval out of range"));
    value.map(arrow).ok_or_else(out_of_range)
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
            Operation::ShiftInstant(true) | Operation::ShiftTime(true) => "-",
            Operation::Between | Operation::Apart | Operation::Sum(true) => "-",
            Operation::Scale(false) => "*",
            Operation::Scale(true) => "/",
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
            Operation::Between | Operation::Apart => INTERVAL,
            Operation::Sum(_) | Operation::Scale(_) => INTERVAL,
            Operation::Together => TIMESTAMP,
        })
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [left, right] = [0, 1].map(|at| args.args[at].to_array(args.number_rows));
        let (left, right) = (left?, right?);
        if left.data_type().is_null() || right.data_type().is_null() {
            // The optimizer asks what a condition is where columns are NULL, which have no type.
            let result = self.return_type(&[])?;
            return ScalarValue::try_from(&result).map(ColumnarValue::Scalar);
        }
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
                IntervalMonthDayNanoType,
            >(&left, &right, |a, b| {
                Ok(IntervalMonthDayNano::new(0, 0, (a - b) * 1000))
            })?),
            Operation::Apart => {
                Arc::new(each::<
                    TimestampMicrosecondType,
                    TimestampMicrosecondType,
                    IntervalMonthDayNanoType,
                >(&left, &right, |a, b| known(interval::between(a, b)))?)
            }
            Operation::Sum(minus) => Arc::new(each::<
                IntervalMonthDayNanoType,
                IntervalMonthDayNanoType,
                IntervalMonthDayNanoType,
            >(&left, &right, |a, b| {
                let b = if minus { interval::negated(own(b)) } else { Some(own(b)) };
                known(b.and_then(|b| interval::plus(own(a), b)))
            })?),
            Operation::Scale(divides) => {
                Arc::new(each::<IntervalMonthDayNanoType, Float64Type, IntervalMonthDayNanoType>(
                    &left,
                    &right,
                    |a, by| match divides && by == 0.0 {
                        true => Err(failed(
                            SqlError::new(SqlErrorKind::Type, "division by zero")
                                .with_cause(Cause::DivisionByZero),
                        )),
                        false => known(interval::scaled(own(a), by, divides)),
                    },
                )?)
            }
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
