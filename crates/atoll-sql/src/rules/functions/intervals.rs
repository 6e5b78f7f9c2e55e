//! Intervals: their fields, and the functions that make and change them.

use atoll::{DAY_MICROS, Interval as Span};
use chrono::{Datelike, NaiveDateTime};

use super::calendar::{self, Field};
use super::pattern::{int, text};
use super::{Function, Gives, Kind, Nulls, Overload, Run, call, refused, strict};
use crate::error::SqlError;
use crate::interval;
use crate::literal::Literal;
use crate::rules::temporal::TIMESTAMP;
use crate::rules::typed::Typed;

use Kind::{Float64, Int32, Interval, Text, Timestamp};

const SECOND: i64 = 1_000_000;

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "age",
        overloads: &[
            strict(&[Timestamp, Timestamp], Interval, |v| {
                let (later, earlier) = (calendar::moment(&v[0])?, calendar::moment(&v[1])?);
                known(age(later, earlier))
            }),
            Overload {
                takes: &[Timestamp],
                rest: None,
                gives: Gives::Kind(Interval),
                nulls: Nulls::Pass,
                run: Run::Rewrite(until_today),
            },
        ],
    },
    Function {
        name: "justify_days",
        overloads: &[strict(&[Interval], Interval, |v| known(justified_days(span(v))))],
    },
    Function {
        name: "justify_hours",
        overloads: &[strict(&[Interval], Interval, |v| known(justified_hours(span(v))))],
    },
    Function {
        name: "justify_interval",
        overloads: &[strict(&[Interval], Interval, |v| known(justified(span(v))))],
    },
    Function {
        name: "make_interval",
        overloads: &[
            strict(&[], Interval, make),
            strict(&[Int32], Interval, make),
            strict(&[Int32; 2], Interval, make),
            strict(&[Int32; 3], Interval, make),
            strict(&[Int32; 4], Interval, make),
            strict(&[Int32; 5], Interval, make),
            strict(&[Int32; 6], Interval, make),
            strict(&[Int32, Int32, Int32, Int32, Int32, Int32, Float64], Interval, make),
        ],
    },
    Function {
        name: "date_trunc_interval",
        overloads: &[strict(&[Text, Interval], Interval, truncated)],
    },
    Function { name: "greatest_interval", overloads: &[of_several(greatest)] },
    Function { name: "least_interval", overloads: &[of_several(least)] },
];

const fn of_several(run: fn(&[Literal]) -> Result<Literal, SqlError>) -> Overload {
    Overload {
        takes: &[Interval],
        rest: Some(Interval),
        gives: Gives::Kind(Interval),
        nulls: Nulls::See,
        run: Run::Rows(run),
    }
}

/// The intervals among values; NULL does not count.
fn spans(values: &[Literal]) -> impl Iterator<Item = Span> {
    values.iter().filter_map(|value| match value {
        Literal::Interval(span) => Some(*span),
        _ => None,
    })
}

fn greatest(values: &[Literal]) -> Result<Literal, SqlError> {
    Ok(spans(values).max().map_or(Literal::Null, Literal::Interval))
}

fn least(values: &[Literal]) -> Result<Literal, SqlError> {
    Ok(spans(values).min().map_or(Literal::Null, Literal::Interval))
}

/// The first interval of a call.
fn span(values: &[Literal]) -> Span {
    spans(values).next().unwrap_or(Span { months: 0, days: 0, nanos: 0 })
}

fn known(span: Option<Span>) -> Result<Literal, SqlError> {
    span.map(Literal::Interval).ok_or_else(|| refused("22008", "interval out of range"))
}

/// A field of an interval; a day has no place in a week or in a month.
pub(super) fn extract(values: &[Literal]) -> Result<Literal, SqlError> {
    let name = text(values, 0);
    let span = spans(values).next().unwrap_or(Span { months: 0, days: 0, nanos: 0 });
    let (years, months, micros) = (span.months / 12, span.months % 12, span.nanos / 1000);
    let whole = |value: i64| Ok(Literal::Decimal(value.into(), 0));
    match Field::of(name) {
        Some(Field::Microsecond) => whole(micros % (60 * SECOND)),
        Some(Field::Millisecond) => Ok(Literal::Decimal((micros % (60 * SECOND)).into(), 3)),
        Some(Field::Second) => Ok(Literal::Decimal((micros % (60 * SECOND)).into(), 6)),
        Some(Field::Minute) => whole(micros / (60 * SECOND) % 60),
        Some(Field::Hour) => whole(micros / (3600 * SECOND)),
        Some(Field::Day) => whole(span.days.into()),
        Some(Field::Month) => whole(months.into()),
        Some(Field::Quarter) => whole(i64::from(months / 3 + 1)),
        Some(Field::Year) => whole(years.into()),
        Some(Field::Decade) => whole(i64::from(years / 10)),
        Some(Field::Century) => whole(i64::from(years / 100)),
        Some(Field::Millennium) => whole(i64::from(years / 1000)),
        Some(Field::Epoch) => {
            // A year has 365.25 days here.
            let quarters = i128::from(years) * 1461 + i128::from(months * 30 + span.days) * 4;
            let digits = quarters * i128::from(DAY_MICROS / 4) + i128::from(micros);
            Ok(Literal::Decimal(digits, 6))
        }
        Some(_) => {
            let message = format!("unit \"{name}\" not supported for type interval");
            Err(refused("0A000", message))
        }
        None => {
            let message = format!("unit \"{name}\" not recognized for type interval");
            Err(refused("22023", message))
        }
    }
}

/// `age(moment)`: from it to the midnight at which today began.
fn until_today(mut values: Vec<Typed>) -> datafusion::common::Result<datafusion::prelude::Expr> {
    let today = datafusion::functions::datetime::current_date().call(Vec::new());
    let today = Typed::of(today, arrow_schema::DataType::Date32).into_type(&TIMESTAMP)?;
    values.insert(0, today);
    call("age", values)
}

/// The years, months, days and the time between two moments of a calendar.
fn age(later: NaiveDateTime, earlier: NaiveDateTime) -> Option<Span> {
    if later < earlier {
        return interval::negated(forward(later, earlier, later)?);
    }
    forward(earlier, later, earlier)
}

/// The age at the later of two moments. A day is borrowed from the month of `borrowed`.
fn forward(earlier: NaiveDateTime, later: NaiveDateTime, borrowed: NaiveDateTime) -> Option<Span> {
    let of_day = |moment: NaiveDateTime| calendar::micros(moment).rem_euclid(DAY_MICROS);
    let month = |moment: NaiveDateTime| moment.year() * 12 + moment.month0().cast_signed();
    let day = |moment: NaiveDateTime| moment.day().cast_signed();
    let mut micros = of_day(later) - of_day(earlier);
    let mut days = day(later) - day(earlier);
    let mut months = month(later) - month(earlier);
    if micros < 0 {
        micros += DAY_MICROS;
        days -= 1;
    }
    while days < 0 {
        days += i32::from(borrowed.num_days_in_month());
        months -= 1;
    }
    interval::of(months.into(), days.into(), micros)
}

/// Parts with one sign: those of `low` take over one of `high`, which has `unit` of them.
fn with_one_sign(high: &mut i64, low: &mut i64, unit: i64) {
    if *high > 0 && *low < 0 {
        *low += unit;
        *high -= 1;
    } else if *high < 0 && *low > 0 {
        *low -= unit;
        *high += 1;
    }
}

fn parts(span: Span) -> (i64, i64, i64) {
    (span.months.into(), span.days.into(), span.nanos / 1000)
}

fn justified_days(span: Span) -> Option<Span> {
    let (mut months, mut days, micros) = parts(span);
    months += days / 30;
    days %= 30;
    with_one_sign(&mut months, &mut days, 30);
    interval::of(months, days, micros)
}

fn justified_hours(span: Span) -> Option<Span> {
    let (months, mut days, mut micros) = parts(span);
    days += micros / DAY_MICROS;
    micros %= DAY_MICROS;
    with_one_sign(&mut days, &mut micros, DAY_MICROS);
    interval::of(months, days, micros)
}

fn justified(span: Span) -> Option<Span> {
    let (mut months, mut days, mut micros) = parts(span);
    days += micros / DAY_MICROS;
    micros %= DAY_MICROS;
    months += days / 30;
    days %= 30;
    if months > 0 && (days < 0 || days == 0 && micros < 0) {
        days += 30;
        months -= 1;
    } else if months < 0 && (days > 0 || days == 0 && micros > 0) {
        days -= 30;
        months += 1;
    }
    with_one_sign(&mut days, &mut micros, DAY_MICROS);
    interval::of(months, days, micros)
}

/// `make_interval(years, months, weeks, days, hours, mins, secs)`.
fn make(values: &[Literal]) -> Result<Literal, SqlError> {
    let part = |at: usize| if at < values.len() { int(values, at) } else { 0 };
    let seconds = values.get(6).map_or(0.0, Literal::float);
    if !seconds.is_finite() || seconds.abs() > 9e12 {
        return known(None);
    }
    let micros = (seconds * 1e6).round_ties_even() as i64;
    let time = (part(4) * 3600 + part(5) * 60).checked_mul(SECOND);
    let time = time.and_then(|time| time.checked_add(micros));
    known(time.and_then(|time| interval::of(part(0) * 12 + part(1), part(2) * 7 + part(3), time)))
}

fn truncated(values: &[Literal]) -> Result<Literal, SqlError> {
    let name = text(values, 0);
    let Span { months, days, nanos } = span(values);
    let cut = |unit: i64| nanos / 1000 / unit * unit * 1000;
    let years = |unit: i32| Span { months: months / (12 * unit) * 12 * unit, days: 0, nanos: 0 };
    Ok(Literal::Interval(match Field::of(name) {
        Some(Field::Millennium) => years(1000),
        Some(Field::Century) => years(100),
        Some(Field::Decade) => years(10),
        Some(Field::Year) => years(1),
        Some(Field::Quarter) => Span { months: months / 3 * 3, days: 0, nanos: 0 },
        Some(Field::Month) => Span { months, days: 0, nanos: 0 },
        Some(Field::Day) => Span { months, days, nanos: 0 },
        Some(Field::Hour) => Span { months, days, nanos: cut(3600 * SECOND) },
        Some(Field::Minute) => Span { months, days, nanos: cut(60 * SECOND) },
        Some(Field::Second) => Span { months, days, nanos: cut(SECOND) },
        Some(Field::Millisecond) => Span { months, days, nanos: cut(1000) },
        Some(Field::Microsecond) => Span { months, days, nanos },
        Some(_) => {
            let message = format!("unit \"{name}\" not supported for type interval");
            return Err(refused("0A000", message));
        }
        None => {
            let message = format!("unit \"{name}\" not recognized for type interval");
            return Err(refused("22023", message));
        }
    }))
}
