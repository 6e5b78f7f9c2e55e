//! `to_char` of dates and timestamps.

use chrono::{Datelike, NaiveDateTime, Timelike};

use super::calendar::{century, julian, shown_year};
use super::number_format::ordinal;
use super::time_format::{DAYS, Letters, MONTHS, Part, ROMAN_MONTHS, Word, parts};

/// Blanks behind a name of a day or a month.
const NAME_WIDTH: usize = 9;

/// A moment in the form of a pattern.
pub(super) fn to_char(moment: NaiveDateTime, pattern: &str) -> String {
    let mut made = String::new();
    for part in parts(pattern) {
        match part {
            Part::Letter(letter) => made.push(letter),
            Part::Word { word, letters, has_points, is_filled, ending } => {
                if let Some(name) = of_names(moment, word, letters, has_points) {
                    made.push_str(&match word {
                        _ if is_filled => name,
                        Word::DayName | Word::MonthName => format!("{name:<NAME_WIDTH$}"),
                        Word::RomanMonth => format!("{name:<4}"),
                        _ => name,
                    });
                    continue;
                }
                let written = number(moment, word, is_filled);
                made.push_str(&written);
                if let Some(is_upper) = ending {
                    let ending = ordinal(&written);
                    made.push_str(&if is_upper {
                        ending.to_uppercase()
                    } else {
                        ending.to_owned()
                    });
                }
            }
        }
    }
    made
}

/// The words that are written in letters.
fn of_names(
    moment: NaiveDateTime,
    word: Word,
    letters: Letters,
    has_points: bool,
) -> Option<String> {
    let day = DAYS[moment.weekday().num_days_from_sunday() as usize];
    let month = moment.month0() as usize;
    let pair = |first: bool, a: &str, b: &str| {
        let letters: Vec<char> = if first { a.chars() } else { b.chars() }.collect();
        let between = if has_points { "." } else { "" };
        letters.iter().map(|letter| format!("{letter}{between}")).collect::<String>()
    };
    let name = match word {
        Word::DayName => day.to_owned(),
        Word::DayShort => day[..3].to_owned(),
        Word::MonthName => MONTHS[month].to_owned(),
        Word::MonthShort => MONTHS[month][..3].to_owned(),
        Word::RomanMonth => ROMAN_MONTHS[month].to_owned(),
        Word::Era => pair(moment.year() > 0, "AD", "BC"),
        Word::Half => pair(moment.hour() < 12, "AM", "PM"),
        Word::Zone => String::new(),
        _ => return None,
    };
    Some(match letters {
        Letters::Upper => name.to_uppercase(),
        Letters::Title => name,
        Letters::Lower => name.to_lowercase(),
    })
}

/// The words that are written in digits.
fn number(moment: NaiveDateTime, word: Word, is_filled: bool) -> String {
    let year = shown_year(moment.year()).abs();
    let week = moment.iso_week();
    let iso_year = shown_year(week.year()).abs();
    let micros = moment.nanosecond() / 1000;
    let last = |year: i64, digits: u8| match digits {
        4.. => (year, 4),
        digits => (year % 10i64.pow(digits.into()), usize::from(digits)),
    };
    let (value, width): (i64, usize) = match word {
        Word::Century => (century(moment.year()), 2),
        Word::DayOfYear => (moment.ordinal().into(), 3),
        Word::Day => (moment.day().into(), 2),
        Word::DayOfWeek => (i64::from(moment.weekday().num_days_from_sunday()) + 1, 1),
        Word::Fraction(digits) => {
            let value = micros / 10u32.pow(6 - u32::from(digits.min(6)));
            // These keep their zeros.
            return format!("{value:0width$}", width = usize::from(digits));
        }
        Word::Milli => return format!("{:03}", micros / 1000),
        Word::Micro => return format!("{micros:06}"),
        Word::Hour24 => (moment.hour().into(), 2),
        Word::Hour12 => (i64::from((moment.hour() + 11) % 12) + 1, 2),
        Word::IsoDayOfYear => {
            let of_week = moment.weekday().number_from_monday();
            (i64::from((week.week() - 1) * 7 + of_week), 3)
        }
        Word::IsoDayOfWeek => (moment.weekday().number_from_monday().into(), 1),
        Word::IsoWeek => (week.week().into(), 2),
        Word::IsoYear(digits) => last(iso_year, digits),
        Word::Julian => (julian(moment), 1),
        Word::Minute => (moment.minute().into(), 2),
        Word::Month => (moment.month().into(), 2),
        Word::Quarter => ((i64::from(moment.month()) + 2) / 3, 1),
        Word::SecondOfDay => (moment.num_seconds_from_midnight().into(), 1),
        Word::Second => (moment.second().into(), 2),
        Word::WeekOfYear => ((i64::from(moment.ordinal()) - 1) / 7 + 1, 2),
        Word::WeekOfMonth => ((i64::from(moment.day()) - 1) / 7 + 1, 1),
        Word::YearWithComma => return format!("{},{:03}", year / 1000, year % 1000),
        Word::Year(digits) => last(year, digits),
        _ => return String::new(),
    };
    if is_filled { value.to_string() } else { format!("{value:0width$}") }
}
