//! A moment, taken apart.

use chrono::{DateTime, Datelike, NaiveDate, NaiveDateTime, Timelike};

use super::refused;
use crate::error::SqlError;
use crate::literal::Literal;
use crate::text::DAY_US;

/// The day that Julian days are counted from, before 1970-01-01.
const JULIAN: i64 = 2_440_588;
const SECOND_US: i64 = 1_000_000;

/// Years, of which there is none with the number 0.
pub(super) fn shown_year(year: i32) -> i64 {
    i64::from(if year > 0 { year } else { year - 1 })
}

/// A timestamp as a moment of a calendar.
///
/// # Errors
/// Its year has too many digits.
pub(super) fn moment(value: &Literal) -> Result<NaiveDateTime, SqlError> {
    let micros = match value {
        Literal::Timestamp(micros) => Some(*micros),
        Literal::Date(days) => i64::from(*days).checked_mul(DAY_US),
        _ => None,
    };
    micros
        .and_then(DateTime::from_timestamp_micros)
        .map(|moment| moment.naive_utc())
        .ok_or_else(|| refused("22008", "timestamp out of range"))
}

/// The days of a date since 1970-01-01.
pub(super) fn days(date: NaiveDate) -> i32 {
    date.to_epoch_days()
}

/// The microseconds of a moment since 1970-01-01.
pub(super) fn micros(moment: NaiveDateTime) -> i64 {
    moment.and_utc().timestamp_micros()
}

pub(super) fn julian(moment: NaiveDateTime) -> i64 {
    i64::from(days(moment.date())) + JULIAN
}

/// The day that has a Julian number.
pub(super) fn of_julian(number: i64) -> Option<NaiveDate> {
    NaiveDate::from_epoch_days(i32::try_from(number - JULIAN).ok()?)
}

pub(super) fn century(year: i32) -> i64 {
    let year = i64::from(year);
    if year > 0 { (year + 99) / 100 } else { -((99 - (year - 1)) / 100) }
}

/// Microseconds behind the minute.
pub(super) fn second_micros(moment: NaiveDateTime) -> i64 {
    i64::from(moment.second()) * SECOND_US + i64::from(moment.nanosecond() / 1000)
}

/// A field of a moment, with how many of its digits stand behind the point; `None` if there is no
/// such field.
pub(super) fn field(moment: NaiveDateTime, name: Field) -> (i128, u8) {
    let week = moment.iso_week();
    let year = i64::from(moment.year());
    let whole = |value: i64| (i128::from(value), 0);
    match name {
        Field::Microsecond => whole(second_micros(moment)),
        Field::Millisecond => (second_micros(moment).into(), 3),
        Field::Second => (second_micros(moment).into(), 6),
        Field::Minute => whole(moment.minute().into()),
        Field::Hour => whole(moment.hour().into()),
        Field::Day => whole(moment.day().into()),
        Field::Month => whole(moment.month().into()),
        Field::Quarter => whole((i64::from(moment.month()) + 2) / 3),
        Field::Week => whole(week.week().into()),
        Field::Year => whole(shown_year(moment.year())),
        Field::IsoYear => whole(shown_year(week.year())),
        Field::Decade => whole(year.div_euclid(10)),
        Field::Century => whole(century(moment.year())),
        Field::Millennium if year > 0 => whole((year + 999) / 1000),
        Field::Millennium => whole(-((999 - (year - 1)) / 1000)),
        Field::DayOfWeek => whole(moment.weekday().num_days_from_sunday().into()),
        Field::IsoDayOfWeek => whole(moment.weekday().number_from_monday().into()),
        Field::DayOfYear => whole(moment.ordinal().into()),
        Field::Epoch => (micros(moment).into(), 6),
        Field::Julian => {
            const UNIT: i128 = 10i128.pow(JULIAN_DIGITS as u32);
            let of_day = i128::from(micros(moment).rem_euclid(DAY_US));
            let part = (of_day * UNIT + i128::from(DAY_US) / 2) / i128::from(DAY_US);
            (i128::from(julian(moment)) * UNIT + part, JULIAN_DIGITS)
        }
    }
}

/// Digits behind the point of a Julian day.
const JULIAN_DIGITS: u8 = 20;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Field {
    Microsecond,
    Millisecond,
    Second,
    Minute,
    Hour,
    Day,
    Month,
    Quarter,
    Week,
    Year,
    IsoYear,
    Decade,
    Century,
    Millennium,
    DayOfWeek,
    IsoDayOfWeek,
    DayOfYear,
    Epoch,
    Julian,
}

impl Field {
    /// The field of a name, of which PostgreSQL knows several.
    pub(super) fn of(name: &str) -> Option<Self> {
        if name.bytes().any(|letter| letter.is_ascii_uppercase()) {
            return Self::of(&name.to_ascii_lowercase());
        }
        Some(match name {
            "microsecond" | "microseconds" | "us" | "usec" | "usecs" => Self::Microsecond,
            "millisecond" | "milliseconds" | "ms" | "msec" | "msecs" => Self::Millisecond,
            "second" | "seconds" | "s" | "sec" | "secs" => Self::Second,
            "minute" | "minutes" | "m" | "min" | "mins" => Self::Minute,
            "hour" | "hours" | "h" | "hr" | "hrs" => Self::Hour,
            "day" | "days" | "d" => Self::Day,
            "month" | "months" | "mon" | "mons" => Self::Month,
            "quarter" | "qtr" => Self::Quarter,
            "week" | "weeks" | "w" => Self::Week,
            "year" | "years" | "y" | "yr" | "yrs" => Self::Year,
            "isoyear" => Self::IsoYear,
            "decade" | "decades" | "dec" | "decs" => Self::Decade,
            "century" | "centuries" | "c" | "cent" => Self::Century,
            "millennium" | "millennia" | "mil" | "mils" => Self::Millennium,
            "dow" => Self::DayOfWeek,
            "isodow" => Self::IsoDayOfWeek,
            "doy" => Self::DayOfYear,
            "epoch" => Self::Epoch,
            "julian" | "jd" | "j" => Self::Julian,
            _ => return None,
        })
    }

    /// Its digits behind the point.
    pub(super) fn scale(self) -> u8 {
        match self {
            Self::Millisecond => 3,
            Self::Second | Self::Epoch => 6,
            Self::Julian => JULIAN_DIGITS,
            _ => 0,
        }
    }

    /// Whether it is a part of a time of day.
    pub(super) fn is_of_time(self) -> bool {
        use Field::{Hour, Microsecond, Millisecond, Minute, Second};
        matches!(self, Microsecond | Millisecond | Second | Minute | Hour)
    }
}
