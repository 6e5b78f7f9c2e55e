//! Time zones, and the instants that they give to local times.
//!
//! `ZONE-1`: the zone of a session decides what a local time means and how an instant is written.
//! Each statement of a session sets it for its thread; what is planned or run on other threads
//! takes it along ([`with`]).
//! `ZONE-2`: as in PostgreSQL, a local time that a clock skips counts by the offset before the
//! change, and one that comes twice by the offset behind it.

use std::cell::Cell;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

use chrono::{DateTime, MappedLocalTime, NaiveDateTime, Offset, TimeZone};
use chrono_tz::{TZ_VARIANTS, Tz};

use crate::calendar::timestamp_and_zone;
use crate::show;
use crate::written::{digits, quote};

/// Largest offset from UTC, in seconds; that of PostgreSQL.
const OFFSET_MAX: i32 = 16 * 3600 - 1;
/// Seconds between two looks for the offset before a gap, and how often to look.
const STEP: i64 = 900;
const STEPS_MAX: i64 = 200;

/// A time zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Zone {
    /// One of the IANA database.
    Named(Tz),
    /// So many seconds east of UTC.
    Fixed(i32),
}

impl Default for Zone {
    fn default() -> Self {
        Self::Named(Tz::UTC)
    }
}

thread_local! {
    static CURRENT: Cell<Zone> = const { Cell::new(Zone::Named(Tz::UTC)) };
}

/// The zone of the statement that runs or is planned on this thread.
pub(crate) fn current() -> Zone {
    CURRENT.get()
}

/// Sets the zone of this thread.
pub(crate) fn set(zone: Zone) {
    CURRENT.set(zone);
}

/// Runs a step with a zone on this thread.
pub(crate) fn with<R>(zone: Zone, run: impl FnOnce() -> R) -> R {
    let before = CURRENT.replace(zone);
    let done = run();
    CURRENT.set(before);
    done
}

impl Zone {
    /// The zone of a name of the IANA database, whatever its case, or of an offset.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let name = name.trim();
        if name.eq_ignore_ascii_case("z") {
            return Some(Self::default());
        }
        if name.starts_with(['+', '-']) {
            return offset(name).map(Self::Fixed);
        }
        let is_it = |zone: &&Tz| zone.name().eq_ignore_ascii_case(name);
        let exact = name.parse().ok();
        exact.or_else(|| TZ_VARIANTS.iter().find(is_it).copied()).map(Self::Named)
    }

    /// The zone that a setting or `AT TIME ZONE` names. As in PostgreSQL, an offset with minutes
    /// has the sign of POSIX, where west is positive.
    pub(crate) fn specified(text: &str) -> Option<Self> {
        if let Ok(hours) = text.trim().parse::<f64>() {
            return Self::of_hours(hours);
        }
        Some(match Self::named(text)? {
            Self::Fixed(seconds) => Self::Fixed(-seconds),
            named => named,
        })
    }

    /// The zone so many hours east of UTC.
    fn of_hours(hours: f64) -> Option<Self> {
        let seconds = (hours * 3600.0).round();
        (seconds.abs() <= OFFSET_MAX.into()).then_some(Self::Fixed(seconds as i32))
    }

    /// A number that other zones are not likely to have; 0 for UTC.
    pub(crate) fn mark(self) -> u64 {
        if self == Self::default() {
            return 0;
        }
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }

    /// Seconds east of UTC at an instant.
    fn offset_at(self, micros: i64) -> i32 {
        match self {
            Self::Fixed(seconds) => seconds,
            Self::Named(Tz::UTC) => 0,
            Self::Named(zone) => match DateTime::from_timestamp_micros(micros) {
                Some(utc) => seconds_of(&zone.offset_from_utc_datetime(&utc.naive_utc())),
                None => 0,
            },
        }
    }

    /// The local time at an instant; `None` out of the range of timestamps.
    pub(crate) fn local(self, micros: i64) -> Option<i64> {
        micros.checked_add(i64::from(self.offset_at(micros)) * 1_000_000)
    }

    /// The instant of a local time; `None` out of the range of timestamps.
    pub(crate) fn instant(self, local: i64) -> Option<i64> {
        let seconds = match self {
            Self::Fixed(seconds) => seconds,
            Self::Named(Tz::UTC) => 0,
            Self::Named(zone) => match DateTime::from_timestamp_micros(local) {
                Some(naive) => offset_of_local(zone, naive.naive_utc()),
                None => 0,
            },
        };
        local.checked_sub(i64::from(seconds) * 1_000_000)
    }
}

fn seconds_of(offset: &impl Offset) -> i32 {
    offset.fix().local_minus_utc()
}

fn offset_of_local(zone: Tz, local: NaiveDateTime) -> i32 {
    for step in 0..STEPS_MAX {
        let before = local - chrono::TimeDelta::seconds(step * STEP);
        match zone.offset_from_local_datetime(&before) {
            MappedLocalTime::Single(offset) => return seconds_of(&offset),
            MappedLocalTime::Ambiguous(_, latest) => return seconds_of(&latest),
            MappedLocalTime::None => {}
        }
    }
    0
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(zone) => f.write_str(zone.name()),
            // As PostgreSQL shows one: the sign is that of POSIX.
            Self::Fixed(seconds) => {
                let (east, west) = (shown_offset(*seconds), shown_offset(-*seconds));
                write!(f, "<{east}>{west}")
            }
        }
    }
}

/// Seconds of `+HH`, `+HHMM`, `+HH:MM` or `+HH:MM:SS`.
fn offset(text: &str) -> Option<i32> {
    let (sign, rest) = match text.split_at_checked(1)? {
        ("+", rest) => (1, rest),
        ("-", rest) => (-1, rest),
        _ => return None,
    };
    let parts: Vec<&str> = match (rest.contains(':'), rest.len()) {
        (false, 1 | 2) => vec![rest],
        (false, 3 | 4) => {
            let (hours, minutes) = rest.split_at_checked(rest.len() - 2)?;
            vec![hours, minutes]
        }
        (true, _) => rest.split(':').collect(),
        _ => return None,
    };
    if parts.len() > 3 || parts.iter().any(|part| part.len() > 2) {
        return None;
    }
    let mut seconds = 0;
    for (part, unit) in parts.iter().zip([3600, 60, 1]) {
        let number = i32::try_from(digits(part)?).ok()?;
        if unit < 3600 && number > 59 {
            return None;
        }
        seconds += number * unit;
    }
    (seconds <= OFFSET_MAX).then_some(sign * seconds)
}

/// `+HH[:MM[:SS]]`.
fn shown_offset(seconds: i32) -> String {
    let sign = if seconds < 0 { '-' } else { '+' };
    let of = seconds.abs();
    let (hours, minutes, rest) = (of / 3600, of / 60 % 60, of % 60);
    match (minutes, rest) {
        (0, 0) => format!("{sign}{hours:02}"),
        (_, 0) => format!("{sign}{hours:02}:{minutes:02}"),
        _ => format!("{sign}{hours:02}:{minutes:02}:{rest:02}"),
    }
}

/// Reads an instant: a timestamp with an offset or the name of a zone behind it, or a local time of
/// the current zone.
///
/// # Errors
/// One clause that repeats the text and says why it is not an instant.
pub(crate) fn parse(text: &str) -> Result<i64, String> {
    let (local, written) = timestamp_and_zone(text.trim(), "timestamp with time zone")?;
    let zone = match written {
        "" => current(),
        name => Zone::named(name)
            .ok_or_else(|| format!("{} has a time zone that is not known", quote(text)))?,
    };
    zone.instant(local).ok_or_else(|| format!("{} is out of range for a timestamp", quote(text)))
}

/// An instant as the local time of a zone, with the zone's offset behind it.
pub(crate) fn show_in(micros: i64, zone: Zone) -> String {
    let offset = zone.offset_at(micros);
    let local = zone.local(micros).unwrap_or(micros);
    let shown = show::timestamp(local);
    let (time, era) = match shown.strip_suffix(" BC") {
        Some(time) => (time, " BC"),
        None => (shown.as_str(), ""),
    };
    format!("{time}{}{era}", shown_offset(offset))
}

/// An instant in the current zone.
pub fn show(micros: i64) -> String {
    show_in(micros, current())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn instants_before_christ_are_read_as_they_are_written() {
        let written = "0044-03-15 12:00:00+00 BC";
        assert_eq!(with(Zone::default(), || parse(written).map(show)), Ok(written.to_owned()));
    }

    fn read(text: &str, zone: &str) -> String {
        let zone = Zone::named(zone).unwrap();
        with(zone, || parse(text).map(show).unwrap())
    }

    #[test]
    fn instants_are_read_and_written_as_postgresql_does() {
        // The answers are those of PostgreSQL 15.
        for (zone, text, wanted) in [
            ("UTC", "2024-01-01 10:00:00", "2024-01-01 10:00:00+00"),
            ("UTC", "2024-01-01 10:00:00+02", "2024-01-01 08:00:00+00"),
            ("UTC", "2024-01-01T10:00:00.5-0330", "2024-01-01 13:30:00.5+00"),
            ("UTC", "2024-01-01 10:00 America/New_York", "2024-01-01 15:00:00+00"),
            ("UTC", "2024-07-01 10:00 america/new_york", "2024-07-01 14:00:00+00"),
            ("Asia/Kolkata", "2024-01-01", "2024-01-01 00:00:00+05:30"),
            ("America/New_York", "2024-03-10 01:59:59", "2024-03-10 01:59:59-05"),
            ("America/New_York", "2024-03-10 02:30:00", "2024-03-10 03:30:00-04"),
            ("America/New_York", "2024-03-10 03:00:00", "2024-03-10 03:00:00-04"),
            ("America/New_York", "2024-11-03 01:30:00", "2024-11-03 01:30:00-05"),
            ("America/New_York", "2024-11-03 00:30:00", "2024-11-03 00:30:00-04"),
            ("Europe/Berlin", "2024-03-31 02:30:00", "2024-03-31 03:30:00+02"),
            ("Europe/Berlin", "1880-01-01 00:00:00", "1880-01-01 00:00:00+00:53:28"),
            ("+02:00", "2024-01-01 00:00", "2024-01-01 00:00:00+02"),
        ] {
            assert_eq!(read(text, zone), wanted, "{text} in {zone}");
        }
        for text in ["", "x", "2024-13-01", "2024-01-01 10:00 Nowhere", "2024-01-01 10:00+17"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn every_instant_is_read_back() {
        for zone in ["UTC", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "-03:30"] {
            let zone = Zone::named(zone).unwrap();
            for micros in (-5_000_000_000_000_000..9_000_000_000_000_000).step_by(1_234_567_891_011)
            {
                with(zone, || assert_eq!(parse(&show(micros)), Ok(micros), "{zone}"));
            }
        }
    }
}
