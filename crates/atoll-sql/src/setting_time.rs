//! Times as settings have them: a number of milliseconds, or one with a unit.

use std::time::Duration;

use crate::error::{SqlError, SqlErrorKind};

/// Units of time, the longest first, with their microseconds.
const UNITS: [(&str, u64); 6] = [
    ("d", 86_400_000_000),
    ("h", 3_600_000_000),
    ("min", 60_000_000),
    ("s", 1_000_000),
    ("ms", 1000),
    ("us", 1),
];

/// Longest limit, as in PostgreSQL.
const MILLIS_MAX: u64 = i32::MAX as u64;

/// The time that a text says for a setting; `None` for 0.
///
/// # Errors
/// It says none, or one that is too long.
pub(crate) fn read(name: &str, text: &str) -> Result<Option<Duration>, SqlError> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = (&text[..digits], text[digits..].trim());
    let unit = match unit {
        "" => Some(1000),
        unit => UNITS.iter().find(|(name, _)| *name == unit).map(|(_, micros)| *micros),
    };
    let (Ok(number), Some(unit)) = (number.parse::<f64>(), unit) else {
        let message = format!(
            "\"{text}\" is no time for {}; write a number of milliseconds, or one with a unit \
                 such as '2s' or '5min'",
            name
        );
        return Err(SqlError::new(SqlErrorKind::Type, message));
    };
    let millis = (number * unit as f64 / 1000.0).round();
    if millis > MILLIS_MAX as f64 {
        let message = format!("{text} is out of range for {}", name);
        return Err(SqlError::new(SqlErrorKind::Type, message));
    }
    Ok(Some(Duration::from_millis(millis as u64)).filter(|time| !time.is_zero()))
}

/// A time in its longest unit.
pub(crate) fn show(time: Option<Duration>) -> String {
    let micros = time.map_or(0, |time| time.as_micros() as u64);
    let whole = UNITS.iter().find(|(_, unit)| micros > 0 && micros.is_multiple_of(*unit));
    whole.map_or("0".to_owned(), |(name, unit)| format!("{}{name}", micros / unit))
}
