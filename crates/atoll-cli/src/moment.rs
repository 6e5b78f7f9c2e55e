//! Moments as people write them: `2026-11-21 10:00:00`, by the clock of this machine, or with an
//! offset from UTC (`2026-11-21 10:00:00+01:00`, `2026-11-21T09:00:00Z`).

use chrono::{DateTime, Local, LocalResult, NaiveDateTime, TimeZone};

/// Microseconds since 1970, UTC.
///
/// # Errors
/// A sentence that says what is wrong and how a moment looks.
pub fn parse(text: &str) -> Result<u64, String> {
    let wrong = || {
        format!(
            "\"{text}\" is no moment; write it like \"2026-11-21 10:00:00\", or with an offset \
             from UTC like \"2026-11-21 10:00:00+01:00\""
        )
    };
    let plain = text.trim().replacen('T', " ", 1);
    let plain = plain.strip_suffix('Z').map_or(plain.clone(), |rest| format!("{rest}+00:00"));
    let with_offset = ["%Y-%m-%d %H:%M:%S%.f%#z", "%Y-%m-%d %H:%M:%S%.f %#z", "%Y-%m-%d %H:%M%#z"];
    let micros = with_offset
        .iter()
        .find_map(|format| DateTime::parse_from_str(&plain, format).ok())
        .map(|time| time.timestamp_micros());
    let micros = match micros {
        Some(micros) => micros,
        None => {
            let local = ["%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%d %H:%M"];
            let local =
                local.iter().find_map(|format| NaiveDateTime::parse_from_str(&plain, format).ok());
            match Local.from_local_datetime(&local.ok_or_else(wrong)?) {
                LocalResult::Single(time) => time.timestamp_micros(),
                _ => {
                    return Err(format!(
                        "on \"{text}\" the clocks here were changed, so it is no moment or two; \
                         write it with its offset from UTC"
                    ));
                }
            }
        }
    };
    micros.try_into().map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn moments_are_read_with_an_offset_and_by_the_clock_here() {
        let ten = 1_795_255_200_000_000;
        for text in [
            "2026-11-21 10:00:00Z",
            "2026-11-21T10:00:00.000000Z",
            "2026-11-21 11:00:00+01:00",
            "2026-11-21 11:00:00 +0100",
            "2026-11-21 05:30-04:30",
        ] {
            assert_eq!(parse(text), Ok(ten), "{text}");
        }
        assert_eq!(parse("2026-11-21 10:00:00.25Z"), Ok(ten + 250_000));
        let here = Local.timestamp_micros(ten as i64).unwrap();
        let local = here.format("%Y-%m-%d %H:%M:%S").to_string();
        assert_eq!(parse(&local), Ok(ten), "{local}");
        for text in ["", "yesterday", "2026-13-21 10:00:00", "2026-11-21", "1969-12-31 00:00:00Z"] {
            assert!(parse(text).unwrap_err().contains("2026-11-21 10:00:00"), "{text}");
        }
    }
}
