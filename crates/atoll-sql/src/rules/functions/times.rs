//! Dates and timestamps: their fields, and how they are written and read.

use chrono::{NaiveDate, NaiveTime};

use super::calendar::{self, Field};
use super::pattern::{int, text};
use super::{Function, Gives, Kind, Nulls, Overload, Run, intervals, number_format};
use super::{refused, strict};
use super::{time_read, time_written};
use crate::error::SqlError;
use crate::literal::Literal;

use Kind::{Bool, Date, Float64, Int32, Int64, Interval, Numeric, Text, Timestamp};

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "extract",
        overloads: &[
            numeric(&[Text, Date], |v| extract(v, "date")),
            numeric(&[Text, Timestamp], |v| extract(v, "timestamp without time zone")),
            numeric(&[Text, Interval], intervals::extract),
        ],
    },
    Function {
        name: "date_part",
        overloads: &[
            strict(&[Text, Timestamp], Float64, |v| {
                let value = extract(v, "timestamp without time zone")?;
                Ok(Literal::Float(match (Field::of(text(v, 0)), &v[1]) {
                    // As in PostgreSQL the count is rounded before it is divided.
                    (Some(Field::Epoch), Literal::Timestamp(micros)) => *micros as f64 / 1e6,
                    _ => value.float(),
                }))
            }),
            strict(&[Text, Interval], Float64, |v| {
                Ok(Literal::Float(intervals::extract(v)?.float()))
            }),
        ],
    },
    Function {
        name: "to_char",
        overloads: &[
            strict(&[Timestamp, Text], Text, |v| {
                Ok(Literal::Text(time_written::to_char(calendar::moment(&v[0])?, text(v, 1))))
            }),
            strict(&[Int32, Text], Text, written_number),
            strict(&[Int64, Text], Text, written_number),
            strict(&[Numeric, Text], Text, written_number),
            strict(&[Float64, Text], Text, written_number),
        ],
    },
    Function {
        name: "to_date",
        overloads: &[strict(&[Text, Text], Date, |v| {
            let moment = time_read::read(text(v, 0), text(v, 1))?;
            Ok(Literal::Date(calendar::days(moment.date())))
        })],
    },
    Function {
        name: "to_timestamp",
        overloads: &[
            strict(&[Text, Text], Timestamp, |v| {
                let moment = time_read::read(text(v, 0), text(v, 1))?;
                Ok(Literal::Timestamp(calendar::micros(moment)))
            }),
            strict(&[Float64], Timestamp, |v| {
                let micros = (v[0].float() * 1e6).round_ties_even();
                let is_within = micros.abs() < 9e18;
                match is_within {
                    true => Ok(Literal::Timestamp(micros as i64)),
                    false => Err(refused("22008", "timestamp out of range")),
                }
            }),
        ],
    },
    Function {
        name: "make_date",
        overloads: &[strict(&[Int32, Int32, Int32], Date, |v| {
            Ok(Literal::Date(calendar::days(date(v)?)))
        })],
    },
    Function {
        name: "make_timestamp",
        overloads: &[strict(
            &[Int32, Int32, Int32, Int32, Int32, Float64],
            Timestamp,
            make_timestamp,
        )],
    },
    Function {
        name: "isfinite",
        overloads: &[
            strict(&[Date], Bool, |_| Ok(Literal::Bool(true))),
            strict(&[Timestamp], Bool, |_| Ok(Literal::Bool(true))),
            strict(&[Interval], Bool, |_| Ok(Literal::Bool(true))),
        ],
    },
    Function {
        name: "overlaps",
        overloads: &[Overload {
            takes: &[Timestamp, Timestamp, Timestamp, Timestamp],
            rest: None,
            gives: Gives::Kind(Bool),
            nulls: Nulls::See,
            run: Run::Rows(overlaps),
        }],
    },
];

const fn numeric(
    takes: &'static [Kind],
    run: fn(&[Literal]) -> Result<Literal, SqlError>,
) -> Overload {
    let gives = Gives::Field(|name| Field::of(name).map_or(0, Field::scale));
    Overload { takes, rest: None, gives, nulls: Nulls::Pass, run: Run::Rows(run) }
}

fn extract(values: &[Literal], of: &str) -> Result<Literal, SqlError> {
    let name = text(values, 0);
    let unsupported = || refused("0A000", format!("unit \"{name}\" not supported for type {of}"));
    let is_zone = ["timezone", "timezone_hour", "timezone_minute", "timezone_h", "timezone_m"];
    let Some(field) = Field::of(name) else {
        return Err(match is_zone.contains(&name.to_ascii_lowercase().as_str()) {
            true => unsupported(),
            false => refused("22023", format!("unit \"{name}\" not recognized for type {of}")),
        });
    };
    if of == "date" && field.is_of_time() {
        return Err(unsupported());
    }
    let moment = calendar::moment(&values[1])?;
    if of == "date" && field == Field::Julian {
        return Ok(Literal::Integer(calendar::julian(moment).into()));
    }
    let (digits, scale) = calendar::field(moment, field);
    Ok(Literal::Decimal(digits, scale))
}

fn written_number(values: &[Literal]) -> Result<Literal, SqlError> {
    number_format::to_char(&values[0], text(values, 1)).map(Literal::Text)
}

fn date(values: &[Literal]) -> Result<NaiveDate, SqlError> {
    let [year, month, day] = [0, 1, 2].map(|at| int(values, at));
    // Years before 1 are negative, and there is no year 0.
    let shown = if year < 0 { year + 1 } else { year };
    i32::try_from(shown)
        .ok()
        .filter(|_| year != 0)
        .zip(u32::try_from(month).ok())
        .zip(u32::try_from(day).ok())
        .and_then(|((year, month), day)| NaiveDate::from_ymd_opt(year, month, day))
        .ok_or_else(|| {
            let message = format!("date field value out of range: {year}-{month:02}-{day:02}");
            refused("22008", message)
        })
}

fn make_timestamp(values: &[Literal]) -> Result<Literal, SqlError> {
    let [hour, minute] = [3, 4].map(|at| int(values, at));
    let seconds = values[5].float();
    let out_of_range = || {
        let message = format!("time field value out of range: {hour}:{minute:02}:{seconds:02}");
        refused("22008", message)
    };
    let micros = (seconds * 1e6).round();
    let is_end = hour == 24 && minute == 0 && micros == 0.0;
    let is_within = (0..24).contains(&hour) && (0..60).contains(&minute);
    if !(is_end || is_within) || !(0.0..=60e6).contains(&micros) {
        return Err(out_of_range());
    }
    let of_day = (hour * 3600 + minute * 60) * 1_000_000 + micros as i64;
    let midnight = calendar::micros(date(values)?.and_time(NaiveTime::MIN));
    Ok(Literal::Timestamp(midnight + of_day))
}

/// Whether two spans of time have a moment in common; the end of one is not a part of it, unless it
/// is its begin too. As in PostgreSQL, one end may be NULL where the others decide.
fn overlaps(values: &[Literal]) -> Result<Literal, SqlError> {
    let place = |at: usize| match values[at] {
        Literal::Timestamp(micros) => Some(micros),
        _ => None,
    };
    let span = |first: Option<i64>, second: Option<i64>| match (first, second) {
        (None, None) => None,
        (None, Some(one)) | (Some(one), None) => Some((one, None)),
        (Some(first), Some(second)) => Some((first.min(second), Some(first.max(second)))),
    };
    let (Some(a), Some(b)) = (span(place(0), place(1)), span(place(2), place(3))) else {
        return Ok(Literal::Null);
    };
    let (earlier, later) = if a.0 > b.0 { (b, a) } else { (a, b) };
    if earlier.0 == later.0 {
        return Ok(match (earlier.1, later.1) {
            (Some(_), Some(_)) => Literal::Bool(true),
            _ => Literal::Null,
        });
    }
    Ok(match (earlier.1, later.1) {
        (None, _) => Literal::Null,
        (Some(end), _) if later.0 < end => Literal::Bool(true),
        (Some(_), None) => Literal::Null,
        (Some(_), Some(_)) => Literal::Bool(false),
    })
}
