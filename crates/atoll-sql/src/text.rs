//! Parsing of text to values: the meaning of a CSV field or a quoted literal in a column.
//!
//! `TEXT-1`: no digit of a number is lost. A decimal with more digits behind the point than its
//! column has, or a timestamp finer than a microsecond, is an error unless the digits are zeros.

use std::num::IntErrorKind;
use std::str::FromStr;

use atoll::{DataType, Value};

pub(crate) use crate::calendar::DAY_US;
use crate::calendar::{date_parts, endless, is_endless, is_zone, timestamp_and_zone};
use crate::json::Form;
pub(crate) use crate::written::quote;
use crate::{array_text, clock, enums, interval, lengths, uuid, zone};

/// Reads a value of a type.
///
/// # Errors
/// One clause that repeats the text and says why it is not a value of that type.
pub(crate) fn parse(text: &str, data_type: DataType) -> Result<Value, String> {
    match data_type {
        DataType::Int16 => integer(text, data_type).map(Value::Int16),
        DataType::Int32 => integer(text, data_type).map(Value::Int32),
        DataType::Int64 => integer(text, data_type).map(Value::Int64),
        DataType::Float32 => float::<f32>(text, data_type).map(Value::Float32),
        DataType::Float64 => float::<f64>(text, data_type).map(Value::Float64),
        DataType::Bool => boolean(text).map(Value::Bool),
        DataType::Date => date(text.trim()).map(Value::Date),
        DataType::Timestamp => timestamp(text.trim()).map(Value::Timestamp),
        DataType::Decimal { precision, scale } => {
            let (digits, from) = decimal(text.trim())
                .ok_or_else(|| format!("{} is not a decimal number", quote(text)))?;
            rescale(digits, from, precision, scale)
                .map(Value::Decimal)
                .map_err(|reason| format!("{} {reason}", quote(text)))
        }
        DataType::Text => Ok(Value::Text(text.to_owned())),
        DataType::Varchar(_) | DataType::Char(_) => {
            lengths::assigned(text, data_type).map(|kept| Value::Text(kept.to_owned()))
        }
        DataType::TimestampTz => zone::parse(text).map(Value::Timestamp),
        DataType::Time => time(text).map(Value::Int64),
        DataType::Interval => interval::parse(text).map(Value::Interval),
        DataType::Json => Form::Json.read(text).map(Value::Text).map_err(|fault| fault.message),
        DataType::Jsonb => Form::Jsonb.read(text).map(Value::Text).map_err(|fault| fault.message),
        DataType::Array(_) => {
            let element = data_type.element().ok_or("the array has no elements")?;
            let items = array_text::parse(text)?.into_iter().map(|item| match item {
                Some(item) => parse(&item, element),
                None => Ok(Value::Null),
            });
            let items = items.collect::<Result<Vec<_>, _>>()?;
            Ok(Value::Binary(atoll::encode_list(element, &items)))
        }
        DataType::Uuid => uuid::parse(text.trim()).map(|bytes| Value::Binary(bytes.to_vec())),
        DataType::Enum(labels) => enums::parse(text, labels).map(Value::Int32),
        DataType::Binary => bytes(text).map(Value::Binary),
        DataType::FixedBinary(width) => {
            let bytes = bytes(text)?;
            if bytes.len() == width as usize {
                return Ok(Value::Binary(bytes));
            }
            Err(format!("{} has {} bytes, not {width}", quote(text), bytes.len()))
        }
    }
}

/// A time of day; that of a timestamp will do.
pub(crate) fn time(text: &str) -> Result<i64, String> {
    clock::parse(text).or_else(|error| {
        let (micros, _) = timestamp_and_zone(text.trim(), "time").map_err(|_| error)?;
        Ok(micros.rem_euclid(DAY_US))
    })
}

/// The range of an integer type, for messages.
pub(crate) fn out_of_range(shown: &str, data_type: DataType) -> String {
    let (low, high) = match data_type {
        DataType::Int16 => (i64::from(i16::MIN), i64::from(i16::MAX)),
        DataType::Int32 => (i64::from(i32::MIN), i64::from(i32::MAX)),
        _ => (i64::MIN, i64::MAX),
    };
    format!("{shown} is out of range for {data_type} ({low} to {high})")
}

fn integer<T: FromStr<Err = std::num::ParseIntError>>(
    text: &str,
    data_type: DataType,
) -> Result<T, String> {
    text.trim().parse().map_err(|error: std::num::ParseIntError| match error.kind() {
        IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => {
            out_of_range(&quote(text), data_type)
        }
        _ => format!("{} is not an integer", quote(text)),
    })
}

fn float<T: FromStr + Copy + Into<f64>>(text: &str, data_type: DataType) -> Result<T, String> {
    let trimmed = text.trim();
    let value: T = trimmed.parse().map_err(|_| format!("{} is not a number", quote(text)))?;
    let named = trimmed.contains(['n', 'N']);
    let mantissa = trimmed.split(['e', 'E']).next().unwrap_or(trimmed);
    let vanished = value.into() == 0.0 && mantissa.contains(|c: char| ('1'..='9').contains(&c));
    if value.into().is_infinite() && !named || vanished {
        return Err(format!("{} is out of range for {data_type}", quote(text)));
    }
    // "-NaN" is the NaN that there is (`COMPARE-1`).
    if value.into().is_nan() { "NaN".parse().map_err(|_| quote(text)) } else { Ok(value) }
}

fn boolean(text: &str) -> Result<bool, String> {
    // As in PostgreSQL, the beginning of a word will do where it is no other's.
    match text.trim().to_ascii_lowercase().as_str() {
        "t" | "tr" | "tru" | "true" | "y" | "ye" | "yes" | "on" | "1" => Ok(true),
        "f" | "fa" | "fal" | "fals" | "false" | "n" | "no" | "of" | "off" | "0" => Ok(false),
        _ => Err(format!("{} is neither true nor false", quote(text))),
    }
}

/// Days since 1970-01-01 of `YYYY-MM-DD`, with ` BC` behind the years before 1, or of a timestamp:
/// as in PostgreSQL its time of day, and a zone, are left out.
pub(crate) fn date(text: &str) -> Result<i32, String> {
    let fault = |what| format!("{} {what}; write YYYY-MM-DD", quote(text));
    if let Some(days) = date_parts(text) {
        return Ok(days);
    }
    if is_endless(text) {
        return Err(endless(text, "dates"));
    }
    let micros = timestamp(text).map_err(|_| fault("is not a date"))?;
    i32::try_from(micros.div_euclid(DAY_US)).map_err(|_| fault("is not a date"))
}

/// Microseconds since 1970-01-01 00:00 of `YYYY-MM-DD[ HH:MM[:SS[.ffffff]]]`, with `T` for the
/// space if one likes. As in PostgreSQL a zone behind it is read, and says nothing about a time
/// without one.
pub(crate) fn timestamp(text: &str) -> Result<i64, String> {
    let (micros, zone) = timestamp_and_zone(text, "timestamp")?;
    match is_zone(zone) {
        true => Ok(micros),
        false => Err(format!("{} is not a timestamp; write YYYY-MM-DD HH:MM:SS", quote(text))),
    }
}

/// Bytes: `\x` and hexadecimal digits, or the text's own bytes, in which `\\` is a backslash and
/// `\ooo` the byte with this octal number (PostgreSQL's manual, chapter 8.4).
pub(crate) fn bytes(text: &str) -> Result<Vec<u8>, String> {
    let Some(hex) = text.strip_prefix("\\x").or_else(|| text.strip_prefix("\\X")) else {
        return escaped(text);
    };
    hexadecimal(hex)
}

/// Pairs of hexadecimal digits, between which there may be spaces.
pub(crate) fn hexadecimal(text: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(text.len() / 2);
    let mut first = None;
    for letter in text.chars() {
        if first.is_none() && matches!(letter, ' ' | '\n' | '\t' | '\r') {
            continue;
        }
        let Some(digit) = letter.to_digit(16) else {
            return Err(format!("invalid hexadecimal digit: \"{letter}\""));
        };
        match first.take() {
            Some(high) => bytes.push((high * 16 + digit) as u8),
            None => first = Some(digit),
        }
    }
    match first {
        Some(_) => Err("invalid hexadecimal data: odd number of digits".to_owned()),
        None => Ok(bytes),
    }
}

pub(crate) fn escaped(text: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        bytes.push(match (first, after) {
            (b'\\', [b'\\', after @ ..]) => {
                rest = after;
                b'\\'
            }
            (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', after @ ..]) => {
                rest = after;
                (a - b'0') * 64 + (b - b'0') * 8 + (c - b'0')
            }
            (b'\\', _) => {
                return Err(format!(
                    "{} has a backslash that begins neither \\\\ nor \\ooo in octal digits",
                    quote(text)
                ));
            }
            (byte, _) => *byte,
        });
    }
    Ok(bytes)
}

/// The digits of a number and how many of them stand behind the point; `None` if the text is not
/// a number or has more digits than 128 bits hold.
pub(crate) fn decimal(text: &str) -> Option<(i128, u8)> {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (negative, unsigned) = match mantissa.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, mantissa.strip_prefix('+').unwrap_or(mantissa)),
    };
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let mut value: i128 = 0;
    for byte in whole.bytes().chain(fraction.bytes()) {
        if !byte.is_ascii_digit() {
            return None;
        }
        value = value.checked_mul(10)?.checked_add(i128::from(byte - b'0'))?;
    }
    let mut scale = i32::try_from(fraction.len()).ok()?.checked_sub(exponent)?;
    while scale < 0 {
        if value == 0 {
            scale = 0;
            break;
        }
        value = value.checked_mul(10)?;
        scale += 1;
    }
    Some((if negative { -value } else { value }, u8::try_from(scale).ok()?))
}

/// Moves the point of a decimal to where its column has it.
///
/// # Errors
/// The rest of a sentence that began with the value: digits would be lost, or there are too many.
pub(crate) fn rescale(digits: i128, from: u8, precision: u8, to: u8) -> Result<i128, String> {
    let mut digits = digits;
    for _ in to..from {
        if digits % 10 != 0 {
            return Err(format!(
                "has more digits behind the point than decimal({precision},{to}) keeps"
            ));
        }
        digits /= 10;
    }
    let mut fits = true;
    for _ in from..to {
        match digits.checked_mul(10) {
            Some(more) => digits = more,
            None => fits = false,
        }
    }
    let limit = 10u128.checked_pow(u32::from(precision)).unwrap_or(u128::MAX);
    if !fits || digits.unsigned_abs() >= limit {
        return Err(format!("has more digits than decimal({precision},{to}) holds"));
    }
    Ok(digits)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const D2: DataType = DataType::Decimal { precision: 9, scale: 2 };

    #[test]
    fn integers_are_checked_against_their_range() {
        assert_eq!(parse(" -32768 ", DataType::Int16), Ok(Value::Int16(i16::MIN)));
        assert_eq!(
            parse("300000", DataType::Int16).unwrap_err(),
            "\"300000\" is out of range for smallint (-32768 to 32767)"
        );
        assert_eq!(parse("1.5", DataType::Int32).unwrap_err(), "\"1.5\" is not an integer");
        assert_eq!(parse("9223372036854775807", DataType::Int64), Ok(Value::Int64(i64::MAX)));
        assert!(parse("9223372036854775808", DataType::Int64).is_err());
    }

    #[test]
    fn decimals_keep_every_digit_or_fail() {
        assert_eq!(parse("12.3", D2), Ok(Value::Decimal(1230)));
        assert_eq!(parse("12.300", D2), Ok(Value::Decimal(1230)));
        assert_eq!(parse("-0.01", D2), Ok(Value::Decimal(-1)));
        assert_eq!(parse("1e3", D2), Ok(Value::Decimal(100_000)));
        assert_eq!(parse(".5", D2), Ok(Value::Decimal(50)));
        assert!(parse("12.345", D2).unwrap_err().contains("more digits behind the point"));
        assert!(parse("12345678", D2).unwrap_err().contains("more digits than"));
        assert!(parse("-", D2).is_err());
        assert!(parse("1.2.3", D2).is_err());
        assert!(parse("1e999999999", D2).is_err());
        assert_eq!(parse("0e99", D2), Ok(Value::Decimal(0)));
    }

    #[test]
    fn dates_and_timestamps_are_read_and_checked() {
        assert_eq!(date("1970-01-02"), Ok(1));
        assert_eq!(date("2000-02-29"), Ok(11_016));
        assert!(date("2001-02-29").is_err());
        assert_eq!(date("0001-12-31 BC").map(crate::show::date), Ok("0001-12-31 BC".into()));
        assert!(date("2001-2-").is_err());
        assert_eq!(date("2000-02-29 00:00:00"), Ok(11_016));
        assert_eq!(date("1969-12-31T00:00Z"), Ok(-1));
        assert_eq!(date("2000-02-29 23:59:59.5+02"), Ok(11_016));
        assert_eq!(date("1969-12-31T10:20:30Z"), Ok(-1));
        assert!(date("2000-02-29 25:00:00").is_err());
        for text in ["infinity", "-Infinity", " infinity "] {
            assert!(date(text).unwrap_err().contains("have an end"), "{text}");
            assert!(timestamp(text).unwrap_err().contains("have an end"), "{text}");
        }
        assert!(date("01-02-03").is_err());
        assert_eq!(timestamp("1970-01-01 00:00:01.5"), Ok(1_500_000));
        assert_eq!(timestamp("1970-01-02T01:02Z"), Ok(DAY_US + 3_720_000_000));
        assert_eq!(timestamp("1970-01-02"), Ok(DAY_US));
        for text in ["0044-03-15 BC", "0044-03-15 00:00:00 BC"] {
            assert_eq!(
                timestamp(text).map(crate::show::timestamp).unwrap(),
                "0044-03-15 00:00:00 BC"
            );
        }
        assert_eq!(timestamp("1969-12-31 23:59:59"), Ok(-1_000_000));
        assert_eq!(timestamp("1970-01-01 00:00:00.0000010"), Ok(1));
        assert!(timestamp("1970-01-01 00:00:00.0000001").unwrap_err().contains("finer"));
        assert_eq!(timestamp("1970-01-01 10:00:00+02"), timestamp("1970-01-01 10:00:00"));
        assert_eq!(timestamp("1970-01-01 24:00:00"), Ok(DAY_US));
        assert_eq!(date("19700102"), Ok(1));
        assert!(timestamp("1970-01-01 10:00:00+99").is_err());
        assert!(timestamp("1970-01-01 25:00:00").is_err());
        assert!(timestamp("1970-01-01 ").is_err());
        assert!(timestamp("1970-01-01 10:00:00.").is_err());
        assert!(timestamp("ärger").is_err());
    }

    #[test]
    fn floats_overflow_only_when_they_say_so() {
        assert_eq!(parse("1e3", DataType::Float64), Ok(Value::Float64(1000.0)));
        assert!(parse("1e400", DataType::Float64).unwrap_err().contains("out of range"));
        assert!(parse("1e39", DataType::Float32).unwrap_err().contains("out of range"));
        assert!(parse("1e-46", DataType::Float32).unwrap_err().contains("out of range"));
        assert!(parse("1e-400", DataType::Float64).unwrap_err().contains("out of range"));
        assert_eq!(parse("0e-400", DataType::Float64), Ok(Value::Float64(0.0)));
        assert_eq!(parse("-Infinity", DataType::Float64), Ok(Value::Float64(f64::NEG_INFINITY)));
    }

    #[test]
    fn bytes_are_hexadecimal_behind_their_mark() {
        assert_eq!(bytes("\\x0aFF"), Ok(vec![10, 255]));
        assert_eq!(bytes("abc"), Ok(b"abc".to_vec()));
        assert_eq!(bytes("a\\\\b\\001"), Ok(b"a\\b\x01".to_vec()));
        assert!(bytes("\\").is_err());
        assert!(bytes("\\x0").is_err());
        assert!(bytes("\\xzz").is_err());
        assert!(parse("\\x00", DataType::FixedBinary(2)).unwrap_err().contains("1 bytes, not 2"));
    }

    #[test]
    fn a_long_bad_value_is_shortened_in_the_message() {
        let message = parse(&"x".repeat(1000), DataType::Int32).unwrap_err();
        assert!(message.len() < 120, "{message}");
    }
}
