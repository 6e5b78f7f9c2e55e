//! Intervals as texts (PostgreSQL's manual, 8.5.4), and their arithmetic.
//!
//! `SPAN-1`: an interval is whole microseconds. As in PostgreSQL, a fraction of a unit that is
//! written goes on to the smaller units, in which a month has 30 days and a day 24 hours.

use atoll::{DAY_MICROS, Interval};

use crate::written::quote;

const SECOND: i64 = 1_000_000;
/// Months or microseconds that no interval has.
const OUT_OF_RANGE: i128 = i64::MAX as i128;

/// Months, days and microseconds that are added up, of whatever size.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Sum {
    months: i128,
    days: i128,
    micros: i128,
}

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Unit {
    Micros(i64),
    Days(i64),
    Months(i64),
}

impl Unit {
    fn of(name: &str) -> Option<Self> {
        Some(match name.to_ascii_lowercase().as_str() {
            "us" | "usec" | "usecs" | "usecond" | "useconds" | "microsecond" | "microseconds"
            | "microsecon" => Self::Micros(1),
            "ms" | "msec" | "msecs" | "mseconds" | "millisecond" | "milliseconds"
            | "millisecon" => Self::Micros(1000),
            "s" | "sec" | "secs" | "second" | "seconds" => Self::Micros(SECOND),
            "m" | "min" | "mins" | "minute" | "minutes" => Self::Micros(60 * SECOND),
            "h" | "hr" | "hrs" | "hour" | "hours" => Self::Micros(3600 * SECOND),
            "d" | "day" | "days" => Self::Days(1),
            "w" | "week" | "weeks" => Self::Days(7),
            "mon" | "mons" | "month" | "months" => Self::Months(1),
            "y" | "yr" | "yrs" | "year" | "years" => Self::Months(12),
            "dec" | "decs" | "decade" | "decades" => Self::Months(120),
            "c" | "cent" | "century" | "centuries" => Self::Months(1200),
            "mil" | "mils" | "millennium" | "millennia" => Self::Months(12_000),
            _ => return None,
        })
    }
}

impl Sum {
    /// Adds a number of units: a whole number, and a fraction of the same sign.
    fn add(&mut self, (whole, fraction): (i128, f64), unit: Unit) {
        let of_days = |sum: &mut Self, days: f64| {
            sum.days += days.trunc() as i128;
            sum.micros += (days.fract() * DAY_MICROS as f64).round_ties_even() as i128;
        };
        match unit {
            Unit::Micros(micros) => {
                self.micros += whole * i128::from(micros);
                self.micros += (fraction * micros as f64).round_ties_even() as i128;
            }
            Unit::Days(days) => {
                self.days += whole * i128::from(days);
                of_days(self, fraction * days as f64);
            }
            Unit::Months(1) => {
                self.months += whole;
                of_days(self, fraction * 30.0);
            }
            Unit::Months(months) => {
                self.months += whole * i128::from(months);
                self.months += (fraction * months as f64).round_ties_even() as i128;
            }
        }
    }

    fn interval(self) -> Option<Interval> {
        let nanos = i64::try_from(self.micros.checked_mul(1000)?).ok()?;
        let (months, days) = (i32::try_from(self.months).ok()?, i32::try_from(self.days).ok()?);
        Some(Interval { months, days, nanos })
    }
}

/// Reads an interval: in words, as a clock, in the form of the SQL standard or of ISO 8601.
///
/// # Errors
/// One clause that repeats the text: it is no interval, or out of range.
pub(crate) fn parse(text: &str) -> Result<Interval, String> {
    let trimmed = text.trim();
    if matches!(trimmed.trim_start_matches(['+', '-']), "infinity" | "Infinity") {
        return Err("an interval that has no end is not supported".to_owned());
    }
    let sum = match trimmed.strip_prefix(['P', 'p']) {
        Some(rest) => iso(rest),
        None => tokens(trimmed).and_then(|tokens| written(&tokens)),
    };
    let sum =
        sum.ok_or_else(|| format!("invalid input syntax for type interval: {}", quote(text)))?;
    sum.interval().ok_or_else(|| format!("interval field value out of range: {}", quote(text)))
}

#[derive(Debug, PartialEq)]
enum Token<'t> {
    /// With its sign.
    Number((i128, f64)),
    /// `1-2`, years and months.
    Years(i128),
    /// `4:05:06.7`, in microseconds.
    Clock(i128),
    Word(&'t str),
}

/// Digits with a point, unsigned.
fn number(text: &str) -> Option<(i128, f64)> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() && fraction.is_empty() || !is_digits(whole) || !is_digits(fraction) {
        return None;
    }
    let whole = if whole.is_empty() { 0 } else { i128::from(whole.parse::<i64>().ok()?) };
    Some((whole, format!("0.{fraction}0").parse().ok()?))
}

fn signed((whole, fraction): (i128, f64), negative: bool) -> (i128, f64) {
    if negative { (-whole, -fraction) } else { (whole, fraction) }
}

/// Microseconds of `HH:MM[:SS[.ffffff]]`, or of `MM:SS.ffffff`.
fn clock(text: &str) -> Option<i128> {
    let parts: Vec<&str> = text.split(':').collect();
    let mut sum = Sum::default();
    let (hours, minutes, seconds) = match parts[..] {
        [minutes, seconds] if seconds.contains('.') => ("0", minutes, seconds),
        [hours, minutes] => (hours, minutes, "0"),
        [hours, minutes, seconds] => {
            (hours, minutes, if seconds.is_empty() { "0" } else { seconds })
        }
        _ => return None,
    };
    let minutes = if minutes.is_empty() { "0" } else { minutes };
    let (hours, minutes, seconds) = (number(hours)?, number(minutes)?, number(seconds)?);
    if hours.1 != 0.0 || minutes.1 != 0.0 {
        return None;
    }
    if minutes.0 >= 60 || seconds.0 > 60 {
        return Some(OUT_OF_RANGE);
    }
    sum.add(hours, Unit::Micros(3600 * SECOND));
    sum.add(minutes, Unit::Micros(60 * SECOND));
    sum.add(seconds, Unit::Micros(SECOND));
    Some(sum.micros)
}

fn tokens(text: &str) -> Option<Vec<Token<'_>>> {
    let mut tokens = Vec::new();
    let mut rest = text.strip_prefix('@').unwrap_or(text).trim_start();
    while let Some(first) = rest.chars().next() {
        if first.is_ascii_whitespace() {
            rest = rest.trim_start();
            continue;
        }
        if first.is_ascii_alphabetic() {
            let end = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
            tokens.push(Token::Word(&rest[..end]));
            rest = &rest[end..];
            continue;
        }
        let negative = first == '-';
        let unsigned = rest.strip_prefix(['+', '-']).unwrap_or(rest).trim_start();
        let is_of_number = |c: char| c.is_ascii_digit() || matches!(c, '.' | ':');
        let mut end = unsigned.find(|c| !is_of_number(c)).unwrap_or(unsigned.len());
        let amount = &unsigned[..end];
        let months = unsigned[end..].strip_prefix('-').filter(|_| !amount.contains(':'));
        let months = months.map(|behind| {
            let end = behind.find(|c: char| !c.is_ascii_digit()).unwrap_or(behind.len());
            &behind[..end]
        });
        tokens.push(match months {
            Some(months) if !months.is_empty() => {
                end += 1 + months.len();
                let ((years, fraction), months) = (number(amount)?, number(months)?);
                if fraction != 0.0 {
                    return None;
                }
                let is_month = months.0 < 12;
                let months = if is_month { years * 12 + months.0 } else { OUT_OF_RANGE };
                Token::Years(if negative { -months } else { months })
            }
            _ if amount.contains(':') => {
                let micros = clock(amount)?;
                Token::Clock(if negative { -micros } else { micros })
            }
            _ => Token::Number(signed(number(amount)?, negative)),
        });
        rest = &unsigned[end..];
    }
    (!tokens.is_empty()).then_some(tokens)
}

/// Adds up what is written, each unit once.
fn written(tokens: &[Token<'_>]) -> Option<Sum> {
    let (tokens, is_ago) = match tokens {
        [before @ .., Token::Word(word)] if word.eq_ignore_ascii_case("ago") => (before, true),
        _ => (tokens, false),
    };
    let mut sum = Sum::default();
    let mut seen: Vec<Unit> = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let (amount, unit) = match (&tokens[at], tokens.get(at + 1)) {
            (Token::Number(amount), Some(Token::Word(word))) => {
                at += 1;
                (*amount, Unit::of(word)?)
            }
            // Before a clock a number counts days, and at the end seconds.
            (Token::Number(amount), Some(Token::Clock(_))) => (*amount, Unit::Days(1)),
            (Token::Number(amount), None) => (*amount, Unit::Micros(SECOND)),
            (Token::Years(months), _) => ((*months, 0.0), Unit::Months(1)),
            (Token::Clock(micros), _) => {
                if seen.iter().any(|unit| matches!(unit, Unit::Micros(SECOND..))) {
                    return None;
                }
                seen.extend([1, 60, 3600].map(|seconds| Unit::Micros(seconds * SECOND)));
                sum.micros += micros;
                at += 1;
                continue;
            }
            _ => return None,
        };
        if seen.contains(&unit) {
            return None;
        }
        seen.push(unit);
        sum.add(amount, unit);
        at += 1;
    }
    if seen.is_empty() {
        return None;
    }
    if is_ago {
        sum = Sum { months: -sum.months, days: -sum.days, micros: -sum.micros };
    }
    Some(sum)
}

/// What stands behind the `P` of ISO 8601: numbers with letters, or dates and times in full.
fn iso(text: &str) -> Option<Sum> {
    let (date, time) = match text.split_once(['T', 't']) {
        Some((date, time)) => (date, Some(time)),
        None => (text, None),
    };
    let mut sum = Sum::default();
    let is_full = |part: &str| !part.is_empty() && !part.contains(|c: char| c.is_alphabetic());
    match is_full(date) {
        true => {
            let mut parts = date.splitn(3, '-');
            let units = [Unit::Months(12), Unit::Months(1), Unit::Days(1)];
            for (part, unit) in parts.by_ref().zip(units) {
                sum.add(number(part)?, unit);
            }
        }
        false => designated(date, &mut sum, |letter| {
            Some(match letter.to_ascii_uppercase() {
                'Y' => Unit::Months(12),
                'M' => Unit::Months(1),
                'W' => Unit::Days(7),
                'D' => Unit::Days(1),
                _ => return None,
            })
        })?,
    }
    match time {
        None if date.is_empty() => return None,
        None => {}
        Some(time) if is_full(time) => sum.micros += clock(time)?,
        Some(time) => designated(time, &mut sum, |letter| {
            Some(match letter.to_ascii_uppercase() {
                'H' => Unit::Micros(3600 * SECOND),
                'M' => Unit::Micros(60 * SECOND),
                'S' => Unit::Micros(SECOND),
                _ => return None,
            })
        })?,
    }
    Some(sum)
}

/// Numbers with a letter behind each.
fn designated(mut text: &str, sum: &mut Sum, unit: impl Fn(char) -> Option<Unit>) -> Option<()> {
    while let Some(end) = text.find(|c: char| c.is_ascii_alphabetic()) {
        let (amount, behind) = text.split_at(end);
        let negative = amount.starts_with('-');
        let amount = number(amount.strip_prefix(['-', '+']).unwrap_or(amount))?;
        let mut letters = behind.chars();
        sum.add(signed(amount, negative), unit(letters.next()?)?);
        text = letters.as_str();
    }
    text.is_empty().then_some(())
}

/// The text of an interval in PostgreSQL's own style: `1 year 2 mons -3 days 04:05:06.7`.
pub(crate) fn show(interval: Interval) -> String {
    let Interval { months, days, nanos } = interval;
    let mut parts: Vec<String> = Vec::new();
    let mut is_behind_negative = false;
    for (count, name) in [(months / 12, "year"), (months % 12, "mon"), (days, "day")] {
        if count == 0 {
            continue;
        }
        let plus = if is_behind_negative && count > 0 { "+" } else { "" };
        let plural = if count == 1 { "" } else { "s" };
        parts.push(format!("{plus}{count} {name}{plural}"));
        is_behind_negative = count < 0;
    }
    let micros = nanos / 1000;
    if micros != 0 || parts.is_empty() {
        let sign = match () {
            () if micros < 0 => "-",
            () if is_behind_negative => "+",
            () => "",
        };
        let micros = micros.unsigned_abs();
        let (seconds, fraction) = (micros / 1_000_000, micros % 1_000_000);
        let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        let shown = format!("{sign}{hour:02}:{minute:02}:{second:02}");
        parts.push(match fraction {
            0 => shown,
            _ => format!("{shown}.{fraction:06}").trim_end_matches('0').to_owned(),
        });
    }
    parts.join(" ")
}

/// The interval in words and whole numbers, which other readers of intervals understand.
pub(crate) fn in_words(interval: Interval) -> String {
    let Interval { months, days, nanos } = interval;
    let (micros, sign) = ((nanos / 1000).unsigned_abs(), if nanos < 0 { "-" } else { "" });
    let (seconds, fraction) = (micros / 1_000_000, micros % 1_000_000);
    format!("{months} months {days} days {sign}{seconds}.{fraction:06} seconds")
}

/// An interval of whole numbers of months, days and microseconds; `None` if it is out of range.
pub(crate) fn of(months: i64, days: i64, micros: i64) -> Option<Interval> {
    let sum = Sum { months: months.into(), days: days.into(), micros: micros.into() };
    sum.interval()
}

/// The sum of two; `None` if it is out of range.
pub(crate) fn plus(a: Interval, b: Interval) -> Option<Interval> {
    Some(Interval {
        months: a.months.checked_add(b.months)?,
        days: a.days.checked_add(b.days)?,
        nanos: a.nanos.checked_add(b.nanos)?,
    })
}

/// The interval in the other direction; `None` if it is out of range.
pub(crate) fn negated(a: Interval) -> Option<Interval> {
    let (months, days) = (a.months.checked_neg()?, a.days.checked_neg()?);
    Some(Interval { months, days, nanos: a.nanos.checked_neg()? })
}

/// The interval `by` times, by PostgreSQL's `interval_mul`; `None` if it is out of range. To
/// divide, `by` is the divisor.
pub(crate) fn scaled(a: Interval, by: f64, divides: bool) -> Option<Interval> {
    let times = |value: f64| if divides { value / by } else { value * by };
    let whole = |value: f64| {
        let fits = value.abs() < f64::from(i32::MAX) + 1.0;
        fits.then_some(value as i32)
    };
    let to_micros = |value: f64| (value * 1e6).round_ties_even() / 1e6;
    let months = times(a.months.into());
    let days = times(a.days.into());
    let (whole_months, mut whole_days) = (whole(months)?, whole(days)?);
    let left_days = to_micros((months - f64::from(whole_months)) * 30.0);
    let left = days - f64::from(whole_days) + left_days.fract();
    let mut seconds = to_micros(left * 86_400.0);
    if seconds.abs() >= 86_400.0 {
        let more = (seconds / 86_400.0).trunc();
        whole_days = whole_days.checked_add(more as i32)?;
        seconds -= more * 86_400.0;
    }
    whole_days = whole_days.checked_add(left_days as i32)?;
    let micros = (times((a.nanos / 1000) as f64) + seconds * 1e6).round_ties_even();
    if !micros.is_finite() || micros.abs() >= 9.2e15 {
        return None;
    }
    Some(Interval { months: whole_months, days: whole_days, nanos: micros as i64 * 1000 })
}

/// The time between two moments in microseconds: days, and the rest.
pub(crate) fn between(later: i64, earlier: i64) -> Option<Interval> {
    let micros = later.checked_sub(earlier)?;
    of(0, micros / DAY_MICROS, micros % DAY_MICROS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_read_and_written_as_in_postgresql() {
        for (text, wanted) in [
            ("1 year 2 mons 3 days 04:05:06.7", "1 year 2 mons 3 days 04:05:06.7"),
            ("1-2", "1 year 2 mons"),
            ("P1Y2M3DT4H5M6S", "1 year 2 mons 3 days 04:05:06"),
            ("P0001-02-03T04:05:06", "1 year 2 mons 3 days 04:05:06"),
            ("P1W", "7 days"),
            ("PT-1.5H", "-01:30:00"),
            ("@ 1 day ago", "-1 days"),
            ("-1 day", "-1 days"),
            ("-1 day +02:03", "-1 days +02:03:00"),
            ("-1-2 +3 -4:05:06", "-1 years -2 mons +3 days -04:05:06"),
            ("1 day -00:00:01", "1 day -00:00:01"),
            ("5", "00:00:05"),
            ("1.5 days", "1 day 12:00:00"),
            ("1.5 months", "1 mon 15 days"),
            ("1.5 years", "1 year 6 mons"),
            ("1.5 weeks", "10 days 12:00:00"),
            ("3 4:05:06", "3 days 04:05:06"),
            ("100:00:00", "100:00:00"),
            ("04:05", "04:05:00"),
            ("05:06.5", "00:05:06.5"),
            ("1y2mon3d4h5m6s", "1 year 2 mons 3 days 04:05:06"),
            ("2 decades 1 century 1 millennium", "1120 years"),
            ("1 msec 1 usec", "00:00:00.001001"),
            ("0", "00:00:00"),
            ("- 1 day", "-1 days"),
            ("1 month -1 day", "1 mon -1 days"),
        ] {
            assert_eq!(parse(text).map(show).as_deref(), Ok(wanted), "{text}");
            let shown = parse(wanted).map(show);
            assert_eq!(shown.as_deref(), Ok(wanted));
            let words = parse(text).map(in_words).and_then(|words| parse(&words)).map(show);
            assert_eq!(words.as_deref(), Ok(wanted), "{text}");
        }
        for text in ["", "x", "1 foo", "1 day 2 days", "1:2:3:4", "day", "P", "1 2", "ago"] {
            let error = parse(text).expect_err(text);
            assert!(error.contains("invalid input syntax for type interval"), "{error}");
        }
        for text in ["3000000000 days", "200000000 years", "300000000 hours", "1-13", "1:60"] {
            assert!(parse(text).is_err_and(|error| error.contains("out of range")), "{text}");
        }
    }

    #[test]
    fn intervals_are_scaled_as_in_postgresql() {
        let of = |text: &str| parse(text).expect(text);
        for (text, by, divides, wanted) in [
            ("1 month", 1.5, false, "1 mon 15 days"),
            ("1 day", 0.5, false, "12:00:00"),
            ("1 year 2 mons 3 days", 2.0, true, "7 mons 1 day 12:00:00"),
            ("3 hours", -1.0, false, "-03:00:00"),
            ("1 mon", 7.0, true, "4 days 06:51:25.6896"),
            ("41 mon", 10.0, true, "4 mons 3 days"),
        ] {
            let scaled = scaled(of(text), by, divides).map(show);
            assert_eq!(scaled.as_deref(), Some(wanted), "{text}");
        }
        assert_eq!(scaled(of("1 day"), 1e300, false), None);
        assert_eq!(scaled(of("1 day"), f64::NAN, false), None);
    }
}
