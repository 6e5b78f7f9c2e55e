//! `to_date` and `to_timestamp`: a text is read by a pattern.

use chrono::{Datelike, NaiveDate, NaiveDateTime, NaiveTime};

use super::calendar::of_julian;
use super::refused;
use super::time_format::{DAYS, MONTHS, Part, ROMAN_MONTHS, Word, parts};
use crate::error::SqlError;

/// What a text has said so far.
#[derive(Default)]
struct Known {
    year: Option<i64>,
    is_before: bool,
    month: Option<i64>,
    day: Option<i64>,
    day_of_year: Option<i64>,
    iso_year: Option<i64>,
    iso_week: Option<i64>,
    iso_day: Option<i64>,
    julian: Option<i64>,
    week: Option<i64>,
    hour: Option<i64>,
    is_afternoon: Option<bool>,
    minute: i64,
    second: i64,
    second_of_day: Option<i64>,
    micros: i64,
    century: Option<i64>,
}

/// The moment that a text says by a pattern.
///
/// # Errors
/// A text that is not of the form of the pattern; a field out of range.
pub(super) fn read(text: &str, pattern: &str) -> Result<NaiveDateTime, SqlError> {
    let out_of_range =
        || refused("22008", format!("date/time field value out of range: \"{text}\""));
    let parts = parts(pattern);
    let mut known = Known::default();
    let mut rest = text;
    for (at, part) in parts.iter().enumerate() {
        if rest.is_empty() {
            break;
        }
        match part {
            Part::Letter(letter) => {
                // Blanks and signs stand for each other; another letter is skipped.
                let is_separator = |c: char| !c.is_alphanumeric();
                if is_separator(*letter) {
                    let blanks = rest.trim_start();
                    let is_sign = |c: char| is_separator(c) && !matches!(c, '+' | '-');
                    rest = match blanks.chars().next() {
                        Some(next) if is_sign(next) || next == *letter => {
                            blanks[next.len_utf8()..].trim_start()
                        }
                        Some('-') if !letter.is_whitespace() => blanks[1..].trim_start(),
                        _ => blanks,
                    };
                } else {
                    let mut letters = rest.chars();
                    letters.next();
                    rest = letters.as_str();
                }
            }
            Part::Word { word, ending, .. } => {
                rest = rest.trim_start();
                // Digits end where the next word's begin.
                let is_bounded = matches!(parts.get(at + 1), Some(Part::Word { .. }));
                rest = known.word(*word, rest, is_bounded)?;
                if ending.is_some() && rest.len() >= 2 {
                    rest = rest.get(2..).unwrap_or(rest);
                }
            }
        }
    }
    known.moment().ok_or_else(out_of_range)
}

impl Known {
    fn word<'t>(
        &mut self,
        word: Word,
        text: &'t str,
        is_bounded: bool,
    ) -> Result<&'t str, SqlError> {
        let digits = |width: usize, shown: &str| number(text, width, is_bounded, shown);
        let (value, rest) = match word {
            Word::MonthName | Word::MonthShort => {
                let names = if word == Word::MonthName { MONTHS } else { MONTHS.map(|m| &m[..3]) };
                let (at, rest) = name(text, &names, "month")?;
                self.month = Some(at + 1);
                return Ok(rest);
            }
            Word::RomanMonth => {
                let mut numerals: Vec<(usize, &str)> =
                    ROMAN_MONTHS.into_iter().enumerate().collect();
                numerals.sort_by_key(|(_, numeral)| std::cmp::Reverse(numeral.len()));
                let names: Vec<&str> = numerals.iter().map(|(_, numeral)| *numeral).collect();
                let (at, rest) = name(text, &names, "RM")?;
                self.month = Some(numerals[usize::try_from(at).unwrap_or(0)].0 as i64 + 1);
                return Ok(rest);
            }
            Word::DayName => return name(text, &DAYS, "day").map(|(_, rest)| rest),
            Word::DayShort => {
                return name(text, &DAYS.map(|day| &day[..3]), "day").map(|(_, rest)| rest);
            }
            Word::Era => {
                let (at, rest) = name(text, &["A.D.", "B.C.", "AD", "BC"], "BC")?;
                self.is_before = at % 2 == 1;
                return Ok(rest);
            }
            Word::Half => {
                let (at, rest) = name(text, &["A.M.", "P.M.", "AM", "PM"], "AM")?;
                self.is_afternoon = Some(at % 2 == 1);
                return Ok(rest);
            }
            Word::Milli | Word::Micro | Word::Fraction(_) => {
                let width = match word {
                    Word::Milli => 3,
                    Word::Micro => 6,
                    Word::Fraction(width) => usize::from(width),
                    _ => 0,
                };
                let (value, rest) = number(text, width, true, "MS")?;
                let count = text.len() - rest.len();
                self.micros = value * 10i64.pow(6u32.saturating_sub(count as u32));
                return Ok(rest);
            }
            Word::YearWithComma => {
                let (thousands, rest) = digits(6, "Y,YYY")?;
                let rest = rest.strip_prefix(',').unwrap_or(rest);
                let (ones, rest) = number(rest, 3, true, "Y,YYY")?;
                (thousands * 1000 + ones, rest)
            }
            Word::Year(width) | Word::IsoYear(width) => {
                let (value, rest) = digits(width.into(), "YYYY")?;
                let count = text.len() - rest.len();
                // Few digits are of the year that is nearest to 2020.
                let year = match count {
                    1 => value + if value < 0 { 0 } else { 2000 },
                    2 => value + if value < 70 { 2000 } else { 1900 },
                    3 => value + if value < 520 { 2000 } else { 1000 },
                    _ => value,
                };
                (if width < 4 { year } else { value }, rest)
            }
            Word::Day => digits(2, "DD")?,
            Word::Month => digits(2, "MM")?,
            Word::DayOfYear => digits(3, "DDD")?,
            Word::Hour24 | Word::Hour12 => digits(2, "HH")?,
            Word::Minute => digits(2, "MI")?,
            Word::Second => digits(2, "SS")?,
            Word::SecondOfDay => digits(5, "SSSSS")?,
            Word::Julian => digits(7, "J")?,
            Word::IsoWeek | Word::WeekOfYear => digits(2, "WW")?,
            Word::IsoDayOfWeek | Word::DayOfWeek | Word::Quarter | Word::WeekOfMonth => {
                digits(1, "D")?
            }
            Word::IsoDayOfYear => digits(3, "IDDD")?,
            Word::Century => digits(2, "CC")?,
            Word::Zone => {
                let message = "formatting codes for zones are only supported in to_char";
                return Err(refused("0A000", message));
            }
        };
        match word {
            Word::Year(_) | Word::YearWithComma => self.year = Some(value),
            Word::IsoYear(_) => self.iso_year = Some(value),
            Word::IsoWeek => self.iso_week = Some(value),
            Word::IsoDayOfWeek => self.iso_day = Some(value),
            Word::Month => self.month = Some(value),
            Word::Day => self.day = Some(value),
            Word::DayOfYear => self.day_of_year = Some(value),
            Word::WeekOfYear => self.week = Some(value),
            Word::Julian => self.julian = Some(value),
            Word::Century => self.century = Some(value),
            Word::Hour24 => self.hour = Some(value),
            Word::Hour12 => {
                if !(1..=12).contains(&value) {
                    let message = format!("hour \"{value}\" is invalid for the 12-hour clock");
                    return Err(refused("22007", message));
                }
                self.hour = Some(value);
                self.is_afternoon = self.is_afternoon.or(None);
            }
            Word::Minute => self.minute = value,
            Word::Second => self.second = value,
            Word::SecondOfDay => self.second_of_day = Some(value),
            _ => {}
        }
        Ok(rest)
    }

    fn date(&self) -> Option<NaiveDate> {
        if let Some(number) = self.julian {
            return of_julian(number);
        }
        let narrow = |value: i64| i32::try_from(value).ok();
        if let (Some(year), Some(week)) = (self.iso_year, self.iso_week) {
            let first = NaiveDate::from_ymd_opt(narrow(year)?, 1, 4)?;
            let monday = first - chrono::Days::new(first.weekday().num_days_from_monday().into());
            let days = (week - 1) * 7 + self.iso_day.unwrap_or(1) - 1;
            return monday.checked_add_days(chrono::Days::new(u64::try_from(days).ok()?));
        }
        // Without a year it is that before the year 1.
        let year = match self.year {
            Some(year) if self.is_before => 1 - year,
            Some(year) if year < 0 => year + 1,
            Some(year) => year,
            None => self.century.map_or(0, |century| (century - 1) * 100 + 1),
        };
        let year = narrow(year)?;
        let positive = |value: i64| u32::try_from(value).ok();
        if let Some(day) = self.day_of_year {
            return NaiveDate::from_yo_opt(year, positive(day)?);
        }
        if let (Some(week), None) = (self.week, self.day) {
            return NaiveDate::from_yo_opt(year, positive((week - 1) * 7 + 1)?);
        }
        let (month, day) = (self.month.unwrap_or(1), self.day.unwrap_or(1));
        NaiveDate::from_ymd_opt(year, positive(month)?, positive(day)?)
    }

    fn moment(&self) -> Option<NaiveDateTime> {
        let date = self.date()?;
        let hour = match (self.hour.unwrap_or(0), self.is_afternoon) {
            (12, Some(false)) => 0,
            (hour, Some(true)) if hour < 12 => hour + 12,
            (hour, _) => hour,
        };
        let mut seconds = hour * 3600 + self.minute * 60 + self.second;
        if let Some(of_day) = self.second_of_day {
            seconds = of_day;
        }
        let is_within = hour < 24 && self.minute < 60 && self.second < 60 && seconds < 86_400;
        if !is_within {
            return None;
        }
        let nanos = u32::try_from(self.micros * 1000).ok()?;
        let time =
            NaiveTime::from_num_seconds_from_midnight_opt(u32::try_from(seconds).ok()?, nanos)?;
        Some(date.and_time(time))
    }
}

/// A number at the begin of a text: of at most so many digits where another word follows.
fn number<'t>(
    text: &'t str,
    width: usize,
    is_bounded: bool,
    shown: &str,
) -> Result<(i64, &'t str), SqlError> {
    let (sign, unsigned) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let digits = unsigned.bytes().take_while(u8::is_ascii_digit).count();
    let length = if is_bounded { digits.min(width) } else { digits };
    let value = unsigned[..length].parse::<i64>().ok().filter(|value| *value <= i32::MAX.into());
    let value = value.ok_or_else(|| {
        let begin: String = text.chars().take(width).collect();
        refused("22007", format!("invalid value \"{begin}\" for \"{shown}\""))
    })?;
    Ok((sign * value, &unsigned[length..]))
}

/// Which of some names a text begins with.
fn name<'t>(text: &'t str, names: &[&str], shown: &str) -> Result<(i64, &'t str), SqlError> {
    let begins =
        |name: &&str| text.get(..name.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(name));
    match names.iter().position(begins) {
        Some(at) => Ok((at as i64, &text[names[at].len()..])),
        None => {
            let begin: String = text.chars().take(names[0].len()).collect();
            Err(refused("22007", format!("invalid value \"{begin}\" for \"{shown}\"")))
        }
    }
}
