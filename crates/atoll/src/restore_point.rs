//! Restore points, and their text form.

use std::time::{SystemTime, UNIX_EPOCH};

use chrono::{DateTime, Utc};

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
    let time = i64::try_from(time_us).ok().and_then(DateTime::from_timestamp_micros);
    time.unwrap_or(DateTime::<Utc>::MAX_UTC).format("%Y-%m-%d %H:%M:%S%.6fZ").to_string()
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
