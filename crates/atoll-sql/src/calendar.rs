//! Days and timestamps as texts, without a zone.

use chrono::{NaiveDate, NaiveTime, Timelike};

use crate::written::{digits, quote};

/// Microseconds of a day.
pub(crate) const DAY_US: i64 = atoll::DAY_MICROS;

/// Days since 1970-01-01 of `YYYY-MM-DD`, with ` BC` behind the years before 1, or of `YYYYMMDD`.
pub(crate) fn date_parts(text: &str) -> Option<i32> {
    if text.len() == 8 && digits(text).is_some() {
        let part = |from: usize, to: usize| digits(&text[from..to]);
        let date = NaiveDate::from_ymd_opt(part(0, 4)? as i32, part(4, 6)?, part(6, 8)?)?;
        return Some(date.to_epoch_days());
    }
    let mut parts = text.splitn(3, '-');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    if year.len() != 4 {
        return None;
    }
    let (day, is_before) = match day.strip_suffix(" BC") {
        Some(day) => (day, true),
        None => (day, false),
    };
    let year = digits(year)? as i32;
    let year = if is_before { 1 - year } else { year };
    let date = NaiveDate::from_ymd_opt(year, digits(month)?, digits(day)?)?;
    Some(date.to_epoch_days())
}

/// Whether a text says a time before or behind all others, which PostgreSQL has.
pub(crate) fn is_endless(text: &str) -> bool {
    let bare = text.trim().trim_start_matches(['-', '+']);
    bare.eq_ignore_ascii_case("infinity")
}

/// Why such a text is refused.
pub(crate) fn endless(text: &str, what: &str) -> String {
    format!("{} is not supported: {what} have an end here", quote(text))
}

/// A timestamp, and the zone that is written behind it.
pub(crate) fn timestamp_and_zone<'t>(text: &'t str, what: &str) -> Result<(i64, &'t str), String> {
    let fault = || format!("{} is not a {what}; write YYYY-MM-DD HH:MM:SS", quote(text));
    if is_endless(text) {
        return Err(endless(text, "timestamps"));
    }
    // As it is written: behind the time and the zone.
    let (text, era) = match text.strip_suffix(" BC") {
        Some(before) => (before.trim_end(), " BC"),
        None => (text, ""),
    };
    let (day, rest) = match text.find([' ', 'T', 't']) {
        Some(at) => (&text[..at], text[at + 1..].trim_start()),
        None => (text, ""),
    };
    let days = match era {
        "" => date_parts(day),
        era => date_parts(&format!("{day}{era}")),
    };
    let days = i64::from(days.ok_or_else(fault)?);
    if rest.is_empty() {
        return if day.len() == text.len() { Ok((days * DAY_US, "")) } else { Err(fault()) };
    }
    let is_zone = |c: char| c.is_ascii_alphabetic() || matches!(c, '+' | '-');
    let (time, zone) = match rest.find(is_zone) {
        Some(at) => rest.split_at(at),
        None => (rest, ""),
    };
    let time = match time.trim_end() {
        // A day in a zone.
        "" if !zone.is_empty() => 0,
        time => time_of_day(time).ok_or_else(fault)??,
    };
    Ok((days * DAY_US + time, zone))
}

/// Whether a text is nothing, `Z`, or hours and minutes from UTC.
pub(crate) fn is_zone(text: &str) -> bool {
    let Some(offset) = text.strip_prefix(['+', '-']) else {
        return matches!(text, "" | "Z" | "z");
    };
    let (hours, minutes) = match offset.split_once(':') {
        Some((hours, minutes)) => (hours, minutes),
        None if offset.len() == 4 => offset.split_at(2),
        None => (offset, "0"),
    };
    let is_below = |text: &str, limit| text.len() < 3 && digits(text).is_some_and(|n| n < limit);
    is_below(hours, 16) && is_below(minutes, 60)
}

/// Microseconds of a day of `HH:MM[:SS[.ffffff]]`; the inner error is for lost digits.
fn time_of_day(text: &str) -> Option<Result<i64, String>> {
    let (clock, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let mut parts = clock.splitn(3, ':');
    let hour = digits(parts.next()?)?;
    let minute = digits(parts.next()?)?;
    let second = parts.next().map_or(Some(0), digits)?;
    // The end of a day is the begin of the next one.
    let is_end = (hour, minute, second) == (24, 0, 0) && fraction.bytes().all(|b| b == b'0');
    let time = NaiveTime::from_hms_opt(if is_end { 0 } else { hour }, minute, second)?;
    digits(fraction.get(..1)?)?;
    if !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (kept, lost) = fraction.split_at(fraction.len().min(6));
    if lost.bytes().any(|byte| byte != b'0') {
        return Some(Err(format!("{} is finer than a microsecond", quote(text))));
    }
    let micros = digits(&format!("{kept:0<6}"))?;
    let of_day = i64::from(time.num_seconds_from_midnight()) * 1_000_000 + i64::from(micros);
    Some(Ok(if is_end { DAY_US } else { of_day }))
}
