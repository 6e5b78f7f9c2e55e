//! Restore points, and their text form.

use std::time::{SystemTime, UNIX_EPOCH};

/// A moment in the history of a database that its logs record; it is displayed in UTC, as in
/// `2026-11-21 10:00:00.000000Z`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct RestorePoint {
    /// Its global sequence number: commits before it have a smaller one, later commits a greater
    /// one.
    pub gsn: u64,
    /// Microseconds since 1970, UTC, by the machine's clock at that moment.
    pub time_us: u64,
}

impl std::fmt::Display for RestorePoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (GSN {})", utc(self.time_us), self.gsn)
    }
}

/// Microseconds since 1970.
pub(crate) fn now_us() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.as_micros().try_into().unwrap_or(u64::MAX)
}

/// A time as text, in UTC.
pub(crate) fn utc(time_us: u64) -> String {
    let (seconds, micros) = (time_us / 1_000_000, time_us % 1_000_000);
    let (year, month, day) = date(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{micros:06}Z")
}

/// Year, month and day of a day since 1970. Years begin in March here, so that a leap day is the
/// last day of a year; 400 years have 146,097 days.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468; // from the 1st of March of the year 0
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let march = (5 * day + 2) / 153;
    let month = if march < 10 { march + 3 } else { march - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    (year, month, day - (153 * march + 2) / 5 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00:00.000007Z"),
            (951_782_399, "2000-02-28 23:59:59.000007Z"),
            (951_782_400, "2000-02-29 00:00:00.000007Z"),
            (1_709_251_200, "2024-03-01 00:00:00.000007Z"),
            (1_795_255_200, "2026-11-21 10:00:00.000007Z"),
            (4_107_542_400, "2100-03-01 00:00:00.000007Z"),
        ] {
            assert_eq!(utc(seconds * 1_000_000 + 7), text);
        }
    }
}
