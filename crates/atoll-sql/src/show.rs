//! Values as text, as PostgreSQL writes them in its ISO style.

use crate::calendar::DAY_US;

/// A number's shortest digits that read back as the same number, with an exponent where PostgreSQL
/// writes one: below -4, and from 15 digits (`real`: 6) on.
fn float(shortest: &str, digits_max: i32) -> String {
    // `{:e}` gives the shortest digits as `d.ddde±x`.
    let (mantissa, exponent) = shortest.split_once('e').unwrap_or((shortest, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let (sign, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", mantissa),
    };
    if exponent < -4 || exponent >= digits_max {
        let sign_of_exponent = if exponent < 0 { '-' } else { '+' };
        return format!("{sign}{mantissa}e{sign_of_exponent}{:02}", exponent.unsigned_abs());
    }
    let digits: String = mantissa.chars().filter(|c| *c != '.').collect();
    if exponent < 0 {
        let zeros = "0".repeat(exponent.unsigned_abs() as usize - 1);
        return format!("{sign}0.{zeros}{digits}");
    }
    let whole = exponent as usize + 1;
    if digits.len() <= whole {
        format!("{sign}{digits:0<whole$}")
    } else {
        let (before, behind) = digits.split_at(whole);
        format!("{sign}{before}.{behind}")
    }
}

fn special(value: f64) -> Option<&'static str> {
    match value {
        _ if value.is_nan() => Some("NaN"),
        f64::INFINITY => Some("Infinity"),
        f64::NEG_INFINITY => Some("-Infinity"),
        _ => None,
    }
}

/// A `double precision`.
pub fn double(value: f64) -> String {
    special(value).map_or_else(|| float(&format!("{value:e}"), 15), str::to_owned)
}

/// A `real`.
pub fn real(value: f32) -> String {
    special(value.into()).map_or_else(|| float(&format!("{value:e}"), 6), str::to_owned)
}

/// A decimal that is stored as its digits, with as many of them behind the point as the scale says.
pub fn decimal(digits: i128, scale: u8) -> String {
    if scale == 0 {
        return digits.to_string();
    }
    let scale = usize::from(scale);
    let sign = if digits < 0 { "-" } else { "" };
    let shown = format!("{:0>width$}", digits.unsigned_abs(), width = scale + 1);
    let (whole, fraction) = shown.split_at(shown.len() - scale);
    format!("{sign}{whole}.{fraction}")
}

/// Year, month and day of a day since 1970-01-01 in the Gregorian calendar, of any year; year 0 is
/// 1 BC. By counting eras of 400 years, which begin on March 1.
fn civil(days: i64) -> (i64, i64, i64) {
    const DAYS_OF_ERA: i64 = 146_097;
    // March 1 of year 0.
    let days = days + 719_468;
    let (era, day) = (days.div_euclid(DAYS_OF_ERA), days.rem_euclid(DAYS_OF_ERA));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year + i64::from(month <= 2);
    (year, month, day)
}

/// A day as `YYYY-MM-DD`, and what stands behind the years before 1.
fn day(days: i64) -> (String, &'static str) {
    let (year, month, day) = civil(days);
    let (year, era) = if year > 0 { (year, "") } else { (1 - year, " BC") };
    (format!("{year:04}-{month:02}-{day:02}"), era)
}

/// A date as `YYYY-MM-DD`, with `BC` behind the years before 1.
pub fn date(days: i32) -> String {
    let (shown, era) = day(days.into());
    format!("{shown}{era}")
}

/// A timestamp as `YYYY-MM-DD HH:MM:SS[.ffffff]`.
pub fn timestamp(micros: i64) -> String {
    let (shown, era) = day(micros.div_euclid(DAY_US));
    let of_day = micros.rem_euclid(DAY_US);
    let (seconds, fraction) = (of_day / 1_000_000, of_day % 1_000_000);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let fraction = match fraction {
        0 => String::new(),
        _ => format!(".{fraction:06}").trim_end_matches('0').to_owned(),
    };
    format!("{shown} {hour:02}:{minute:02}:{second:02}{fraction}{era}")
}

/// Bytes as `\x` and hexadecimal digits.
pub fn bytes(bytes: &[u8]) -> String {
    bytes.iter().fold("\\x".to_owned(), |text, byte| text + &format!("{byte:02x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_written_as_postgresql_writes_them() {
        for (value, wanted) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (0.1, "0.1"),
            (123.456, "123.456"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (1e14, "100000000000000"),
            (1e15, "1e+15"),
            (1.5e300, "1.5e+300"),
            (123456789012345680.0, "1.2345678901234568e+17"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(double(value), wanted);
        }
        assert_eq!(real(0.1), "0.1");
        assert_eq!(real(1e6), "1e+06");
        assert_eq!(real(16777216.0), "1.6777216e+07");
        assert_eq!(real(99999.0), "99999");
    }

    #[test]
    fn dates_and_timestamps_of_all_years_are_written() {
        assert_eq!(date(0), "1970-01-01");
        assert_eq!(date(-719_163), "0001-12-31 BC");
        assert_eq!(date(2_932_897), "10000-01-01");
        assert_eq!(timestamp(-1), "1969-12-31 23:59:59.999999");
        assert_eq!(timestamp(1_500_000), "1970-01-01 00:00:01.5");
        assert_eq!(date(i32::MAX), "5881580-07-11");
        assert_eq!(timestamp(i64::MAX), "294247-01-10 04:00:54.775807");
        // The calendar of another library, day by day over some centuries and era by era.
        for days in (-800_000..900_000).step_by(7).chain((-90_000_000..90_000_000).step_by(146_097))
        {
            let known = chrono::NaiveDate::from_epoch_days(days).map(|d| {
                use chrono::Datelike;
                (i64::from(d.year()), i64::from(d.month()), i64::from(d.day()))
            });
            assert_eq!(Some(civil(days.into())), known, "day {days}");
        }
    }
}
