//! Times of day as text: `HH:MM:SS[.ffffff]`, from 00:00 to 24:00.

use atoll::DAY_MICROS;

use crate::calendar::{date_parts, is_zone};
use crate::written::{digits, quote};

const SECOND: i64 = 1_000_000;

/// Reads `HH:MM[:SS[.ffffff]]`, with `AM` or `PM` behind it, or `HHMM[SS]`. Minutes and seconds may
/// be left out behind their colon. An offset from UTC may stand behind it.
///
/// # Errors
/// One clause that repeats the text: it is no time, or finer than a microsecond.
pub(crate) fn parse(text: &str) -> Result<i64, String> {
    let fault = || format!("{} is not a time; write HH:MM:SS", quote(text));
    let trimmed = text.trim();
    let upper = without_zone(&trimmed.to_ascii_uppercase()).to_owned();
    let (clock, noon) = match (upper.strip_suffix("AM"), upper.strip_suffix("PM")) {
        (Some(clock), _) => (clock.trim_end(), Some(false)),
        (_, Some(clock)) => (clock.trim_end(), Some(true)),
        _ => (upper.as_str(), None),
    };
    let (whole, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
    let is_packed = matches!(whole.len(), 4 | 6) && digits(whole).is_some();
    let parts: Vec<&str> = match is_packed {
        true => (0..whole.len()).step_by(2).map(|at| &whole[at..at + 2]).collect(),
        false => whole.split(':').collect(),
    };
    let has_seconds = parts.len() == 3;
    if !matches!(parts.len(), 2 | 3) || clock.contains('.') && !has_seconds {
        return Err(fault());
    }
    let mut numbers = [0; 3];
    for (at, (number, part)) in numbers.iter_mut().zip(&parts).enumerate() {
        let is_left_out = at > 0 && part.is_empty();
        let known = if is_left_out { Some(0) } else { digits(part) };
        *number = i64::from(known.filter(|_| part.len() <= 2).ok_or_else(fault)?);
    }
    let [mut hour, minute, second] = numbers;
    let range = || format!("{} is out of range for a time", quote(text));
    if let Some(is_afternoon) = noon {
        if !(1..=12).contains(&hour) {
            return Err(range());
        }
        hour = hour % 12 + if is_afternoon { 12 } else { 0 };
    }
    let micros = micros(fraction).ok_or_else(fault)?.map_err(|()| too_fine(text))?;
    let time = ((hour * 60 + minute) * 60 + second) * SECOND + micros;
    let is_time = minute < 60 && (second < 60 || second == 60 && micros == 0);
    if is_time && time <= DAY_MICROS { Ok(time) } else { Err(range()) }
}

/// A time without the offset from UTC behind it, which says nothing about a time without a zone,
/// and without the date before it.
fn without_zone(text: &str) -> &str {
    let text = match text.split_once(' ') {
        Some((date, time)) if date_parts(date).is_some() => time.trim_start(),
        _ => text,
    };
    let Some(at) = text.find(['+', '-']).filter(|at| *at > 0) else {
        return text.strip_suffix('Z').map_or(text, str::trim_end);
    };
    let is_offset = is_zone(&text[at..]);
    if is_offset { text[..at].trim_end() } else { text }
}

fn too_fine(text: &str) -> String {
    format!("{} is finer than a microsecond", quote(text))
}

/// Microseconds of the digits behind a point; the inner error is for lost digits.
fn micros(fraction: &str) -> Option<Result<i64, ()>> {
    if !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (kept, lost) = fraction.split_at(fraction.len().min(6));
    if lost.bytes().any(|byte| byte != b'0') {
        return Some(Err(()));
    }
    digits(&format!("{kept:0<6}")).map(|micros| Ok(micros.into()))
}

/// The text of a time.
pub(crate) fn show(micros: i64) -> String {
    let (seconds, fraction) = (micros / SECOND, micros % SECOND);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let shown = format!("{hour:02}:{minute:02}:{second:02}");
    match fraction {
        0 => shown,
        _ => format!("{shown}.{fraction:06}").trim_end_matches('0').to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_postgresql_reads_them() {
        for (text, wanted) in [
            ("00:00", "00:00:00"),
            ("1:2", "01:02:00"),
            ("10:20:30.5", "10:20:30.5"),
            (" 10:20:30.1234560 ", "10:20:30.123456"),
            ("24:00", "24:00:00"),
            ("24:00:00", "24:00:00"),
            ("23:59:60", "24:00:00"),
            ("12:00 AM", "00:00:00"),
            ("12:30 pm", "12:30:00"),
            ("1:30PM", "13:30:00"),
            ("040506", "04:05:06"),
            ("0405", "04:05:00"),
            ("10:", "10:00:00"),
            ("10::30.", "10:00:30"),
            ("12:34:56+00", "12:34:56"),
            ("12:34:56.5-03:30", "12:34:56.5"),
            ("12:34:56Z", "12:34:56"),
            ("12:34 +1", "12:34:00"),
            ("1:30PM -0530", "13:30:00"),
            ("2024-01-01 12:34:56", "12:34:56"),
            ("2024-01-01 12:34:56.5+02", "12:34:56.5"),
        ] {
            assert_eq!(parse(text).map(show).as_deref(), Ok(wanted), "{text}");
        }
        for text in ["24:00:01", "25:00", "10:60", "10:20:61", "13:00 PM", "0:30 AM"] {
            assert!(parse(text).is_err_and(|error| error.contains("out of range")), "{text}");
        }
        for text in
            ["", "x", "10", ":20", "10:20.5", "10:20:30:40", "10:x", "-1:00", "1:00+x", "1:00+99"]
        {
            assert!(parse(text).is_err_and(|error| error.contains("is not a time")), "{text}");
        }
        assert!(parse("10:20:30.1234567").is_err_and(|error| error.contains("finer")));
    }

    #[test]
    fn every_time_is_read_back() {
        for micros in (0..=DAY_MICROS).step_by(7_654_321).chain([DAY_MICROS - 1, DAY_MICROS]) {
            assert_eq!(parse(&show(micros)), Ok(micros));
        }
    }
}
