//! Sizes and times as people write and read them.
//!
//! Sizes have binary units (`4GiB`) or decimal ones (`4GB`); a bare `K`, `M`, `G` or `T` is binary,
//! as memory is meant. Times are numbers with units, added up (`1h30m`). What is printed here can
//! be read back.

use std::time::Duration;

use bytesize::ByteSize;
use indicatif::HumanCount;

/// Reads a number of bytes: `4GiB`, `1.5 GiB`, `500MB`, `64M`, `4096`.
///
/// # Errors
/// A sentence that says what is wrong and how a size looks.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let trimmed = text.trim();
    // A letter alone is a decimal unit to the library.
    let is_bare = trimmed.ends_with(|last: char| "kmgtpe".contains(last.to_ascii_lowercase()));
    match format!("{trimmed}{}", if is_bare { "iB" } else { "" }).parse::<ByteSize>() {
        // The library answers the greatest number where a size is greater than that.
        Ok(size) if size.as_u64() < u64::MAX => Ok(size.as_u64()),
        _ => Err(format!("\"{text}\" is not a size; write it like 4GiB, 512MiB or 1073741824")),
    }
}

/// Writes a number of bytes with three or four digits: `1.50 GiB`, `512 MiB`, `17 B`.
pub fn bytes(count: u64) -> String {
    const NAMES: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if count < 1024 {
        return format!("{count} B");
    }
    let mut value = count as f64 / 1024.0;
    let mut unit = 0;
    // What would be printed as 1024 is 1.00 of the next unit.
    while value >= 1023.5 && unit + 1 < NAMES.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{} {}", three_digits(value), NAMES[unit])
}

/// A value below 1024 with about three digits, without a fraction that says nothing.
fn three_digits(value: f64) -> String {
    let text = match value {
        v if v < 9.995 => format!("{v:.2}"),
        v if v < 99.95 => format!("{v:.1}"),
        v => format!("{v:.0}"),
    };
    match text.split_once('.') {
        Some((whole, zeros)) if zeros.bytes().all(|b| b == b'0') => whole.to_owned(),
        _ => text,
    }
}

/// Reads a time: `10m`, `90s`, `1h30m`, `500ms`, `2d`. A number alone is seconds.
///
/// # Errors
/// A sentence that says what is wrong and how a time looks.
pub fn parse_time(text: &str) -> Result<Duration, String> {
    let trimmed = text.trim().to_lowercase(); // "M" is a month to the library.
    let seconds = trimmed.parse().map(Duration::from_secs);
    seconds
        .or_else(|_| humantime::parse_duration(&trimmed))
        .map_err(|_| format!("\"{text}\" is not a time; write it like 10m, 90s or 1h30m"))
}

/// Writes how long something took: `18 µs`, `4.25 ms`, `1.5 s`, `3m 20s`.
pub fn elapsed(time: Duration) -> String {
    let micros = time.as_secs_f64() * 1e6;
    match micros {
        m if m < 0.9995 => format!("{} ns", time.as_nanos()),
        m if m < 999.5 => format!("{} µs", three_digits(m)),
        m if m < 999.5e3 => format!("{} ms", three_digits(m / 1e3)),
        m if m < 99.95e6 => format!("{} s", three_digits(m / 1e6)),
        _ => age(time),
    }
}

/// Writes an age in the two largest units that it has: `4s`, `3m 20s`, `2h 5m`, `3d 4h`.
pub fn age(time: Duration) -> String {
    let seconds = time.as_secs();
    let (large, small) = match seconds {
        0..60 => return format!("{seconds}s"),
        60..3_600 => ((seconds / 60, "m"), (seconds % 60, "s")),
        3_600..86_400 => ((seconds / 3_600, "h"), (seconds % 3_600 / 60, "m")),
        _ => ((seconds / 86_400, "d"), (seconds % 86_400 / 3_600, "h")),
    };
    match small.0 {
        0 => format!("{}{}", large.0, large.1),
        _ => format!("{}{} {}{}", large.0, large.1, small.0, small.1),
    }
}

/// Writes a count with its thousands apart: `336,776`.
pub fn count(number: u64) -> String {
    HumanCount(number).to_string()
}

/// A count and what is counted: `1 row`, `336,776 rows`.
pub fn counted(number: u64, what: &str) -> String {
    format!("{} {what}{}", count(number), if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_binary_and_decimal_units() {
        for (text, wanted) in [
            ("4GiB", 4 << 30),
            ("4 gib", 4 << 30),
            ("4G", 4 << 30),
            ("1.5GiB", 3 << 29),
            ("500MB", 500_000_000),
            ("4096", 4096),
            ("0", 0),
            ("17 B", 17),
            ("1T", 1 << 40),
        ] {
            assert_eq!(parse_bytes(text), Ok(wanted), "{text}");
        }
    }

    #[test]
    fn what_is_not_a_size_is_refused_with_an_example() {
        for text in ["", "GiB", "4 gigs", "-1", "1e9", "1.2.3M", "99999999999T", "NaN", "1.9e30"] {
            assert!(parse_bytes(text).is_err(), "{text}");
        }
        let error = parse_bytes("many").expect_err("a word is no size");
        assert!(error.contains("\"many\"") && error.contains("4GiB"), "{error}");
    }

    #[test]
    fn printed_sizes_keep_three_digits_and_never_say_1024() {
        for (count, wanted) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1 KiB"),
            (1536, "1.50 KiB"),
            ((1 << 20) - 1, "1 MiB"),
            (10 << 20, "10 MiB"),
            (3 << 29, "1.50 GiB"),
            (u64::MAX, "16 EiB"),
        ] {
            assert_eq!(bytes(count), wanted, "{count}");
        }
    }

    #[test]
    fn printed_sizes_read_back_within_their_three_digits() {
        for count in [17, 4096, 123_456_789, 5 << 40] {
            let back = parse_bytes(&bytes(count)).expect("printed sizes can be read");
            assert!(back.abs_diff(count) <= count / 100, "{count} became {back}");
        }
    }

    #[test]
    fn times_are_read_and_added_up() {
        for (text, wanted_ms) in [
            ("10m", 600_000),
            ("90s", 90_000),
            ("90", 90_000),
            ("1h30m", 5_400_000),
            ("1h 30m", 5_400_000),
            ("500ms", 500),
            ("0.5s", 500),
            ("2d", 172_800_000),
        ] {
            assert_eq!(parse_time(text), Ok(Duration::from_millis(wanted_ms)), "{text}");
        }
        for text in ["", "m", "10 x", "1h30", "-5s", "99999999999999999999d"] {
            assert!(parse_time(text).is_err(), "{text}");
        }
    }

    #[test]
    fn elapsed_times_change_their_unit_where_people_would() {
        for (nanos, wanted) in [
            (900, "900 ns"),
            (18_000, "18 µs"),
            (4_250_000, "4.25 ms"),
            (999_600_000, "1 s"),
            (1_500_000_000, "1.50 s"),
            (200_000_000_000, "3m 20s"),
        ] {
            assert_eq!(elapsed(Duration::from_nanos(nanos)), wanted);
        }
        assert_eq!(age(Duration::from_secs(7_200)), "2h");
        assert_eq!(age(Duration::from_secs(273_600)), "3d 4h");
    }

    #[test]
    fn counts_have_their_thousands_apart() {
        assert_eq!(count(0), "0");
        assert_eq!(count(336_776), "336,776");
        assert_eq!(counted(1, "row"), "1 row");
        assert_eq!(counted(1_000, "row"), "1,000 rows");
    }
}
