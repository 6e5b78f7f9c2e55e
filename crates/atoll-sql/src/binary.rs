//! Values in the binary forms that PostgreSQL sends and receives, as its clients and its `COPY` in
//! binary format have them (the `…send` and `…recv` functions of its types).
//!
//! `BINARY-1`: whatever the bytes are, reading ends with a value or an error; a length is compared
//! with the bytes that are there before anything is done with it.

use atoll::{DataType, Interval};

use crate::error::{SqlError, SqlErrorKind};
use crate::literal::Literal;

/// Days and microseconds from 1970-01-01 to 2000-01-01, where PostgreSQL begins to count.
pub(crate) const EPOCH_DAYS: i32 = 10_957;
pub(crate) const EPOCH_MICROS: i64 = 946_684_800_000_000;
/// The sign of a negative number, and those of what is no finite number.
const NEGATIVE: u16 = 0x4000;
const NOT_FINITE: [u16; 3] = [0xc000, 0xd000, 0xf000];

fn error(state: &'static str, message: impl Into<String>) -> SqlError {
    SqlError::new(SqlErrorKind::Type, message).with_state(state)
}

fn malformed() -> SqlError {
    error("22P03", "incorrect binary data format")
}

fn not_utf8() -> SqlError {
    error("22021", "invalid byte sequence for encoding \"UTF8\"")
}

/// Reads numbers from bytes.
struct Bytes<'b>(&'b [u8]);

impl<'b> Bytes<'b> {
    fn take(&mut self, count: usize) -> Result<&'b [u8], SqlError> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or_else(malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], SqlError> {
        let (taken, rest) = self.0.split_first_chunk().ok_or_else(malformed)?;
        self.0 = rest;
        Ok(*taken)
    }

    fn i16(&mut self) -> Result<i16, SqlError> {
        self.array().map(i16::from_be_bytes)
    }

    fn i32(&mut self) -> Result<i32, SqlError> {
        self.array().map(i32::from_be_bytes)
    }

    fn i64(&mut self) -> Result<i64, SqlError> {
        self.array().map(i64::from_be_bytes)
    }
}

/// Reads the binary form of a value of a type.
///
/// # Errors
/// The bytes are no value of the type, or one that Atoll does not have.
pub fn from_binary(bytes: &[u8], data_type: DataType) -> Result<Literal, SqlError> {
    use DataType as T;
    let mut rest = Bytes(bytes);
    let value = match data_type {
        T::Bool => Literal::Bool(rest.array().map(|[byte]| byte != 0)?),
        T::Int16 => Literal::from(rest.i16()?),
        T::Int32 => Literal::from(rest.i32()?),
        T::Int64 => Literal::from(rest.i64()?),
        T::Float32 => Literal::Real(rest.array().map(f32::from_be_bytes)?),
        T::Float64 => Literal::Float(rest.array().map(f64::from_be_bytes)?),
        T::Decimal { .. } => numeric(&mut rest)?,
        T::Binary | T::FixedBinary(_) => return Ok(Literal::Bytes(bytes.to_vec())),
        T::Date => match rest.i32()? {
            i32::MIN | i32::MAX => return Err(infinite("dates")),
            days => {
                let days = days.checked_add(EPOCH_DAYS);
                Literal::Date(days.ok_or_else(|| error("22008", "date out of range"))?)
            }
        },
        T::Timestamp => Literal::Timestamp(moment(&mut rest)?),
        T::TimestampTz => Literal::Instant(moment(&mut rest)?),
        T::Time => Literal::Time(rest.i64()?),
        T::Interval => {
            let (micros, days, months) = (rest.i64()?, rest.i32()?, rest.i32()?);
            if matches!((micros, days), (i64::MIN, i32::MIN) | (i64::MAX, i32::MAX)) {
                return Err(infinite("intervals"));
            }
            let nanos = micros.checked_mul(1000);
            let nanos = nanos.ok_or_else(|| error("22008", "interval out of range"))?;
            Literal::Interval(Interval { months, days, nanos })
        }
        T::Uuid => Literal::Uuid(rest.array()?),
        T::Json => return text(bytes).map(Literal::Json),
        T::Jsonb => match rest.array::<1>()? {
            [1] => return text(rest.0).map(Literal::Json),
            [other] => {
                return Err(error("XX000", format!("unsupported jsonb version number {other}")));
            }
        },
        T::Array(_) => list(&mut rest, data_type.element().ok_or_else(malformed)?)?,
        T::Text | T::Varchar(_) | T::Char(_) | T::Enum(_) => return text(bytes).map(Literal::Text),
    };
    if rest.0.is_empty() { Ok(value) } else { Err(malformed()) }
}

fn infinite(what: &str) -> SqlError {
    error("0A000", format!("infinite {what} are not supported"))
}

fn moment(rest: &mut Bytes<'_>) -> Result<i64, SqlError> {
    match rest.i64()? {
        i64::MIN | i64::MAX => Err(infinite("timestamps")),
        micros => {
            micros.checked_add(EPOCH_MICROS).ok_or_else(|| error("22008", "timestamp out of range"))
        }
    }
}

fn text(bytes: &[u8]) -> Result<String, SqlError> {
    let text = std::str::from_utf8(bytes).map_err(|_| not_utf8())?;
    if text.contains('\0') {
        return Err(error("22021", "invalid byte sequence for encoding \"UTF8\": 0x00"));
    }
    Ok(text.to_owned())
}

/// A number by its groups of four decimal digits.
fn numeric(rest: &mut Bytes<'_>) -> Result<Literal, SqlError> {
    let count = rest.i16()?;
    let weight = i32::from(rest.i16()?);
    let sign = rest.i16()? as u16;
    let scale = rest.i16()?;
    if NOT_FINITE.contains(&sign) {
        return Err(error("0A000", "numbers of type numeric are finite here"));
    }
    if !matches!(sign, 0 | NEGATIVE) {
        return Err(error("22P03", "invalid sign in external \"numeric\" value"));
    }
    let too_large = || error("22003", "the number has more than 38 digits");
    let scale = u8::try_from(scale).ok().filter(|scale| *scale <= 38).ok_or_else(too_large)?;
    let mut digits: i128 = 0;
    for at in 0..i32::from(count) {
        let group = rest.i16()?;
        if !(0..10_000).contains(&group) {
            return Err(error("22P03", "invalid digit in external \"numeric\" value"));
        }
        // Where the last digit of the group is, counted from that of the number.
        let power = 4 * (weight - at) + i32::from(scale);
        let group = i128::from(group);
        let part = match u32::try_from(power) {
            _ if group == 0 => Some(0),
            Ok(power) => 10i128.checked_pow(power).and_then(|power| power.checked_mul(group)),
            // Digits behind the last one that counts.
            Err(_) => {
                Some(10i128.checked_pow(power.unsigned_abs()).map_or(0, |power| group / power))
            }
        };
        digits = part.and_then(|part| digits.checked_add(part)).ok_or_else(too_large)?;
    }
    let digits = if sign == NEGATIVE { -digits } else { digits };
    Ok(if scale == 0 { Literal::Integer(digits) } else { Literal::Decimal(digits, scale) })
}

/// An array of one dimension.
fn list(rest: &mut Bytes<'_>, element: DataType) -> Result<Literal, SqlError> {
    let dimensions = rest.i32()?;
    // Whether there are NULLs, which the lengths tell, and the type of the elements.
    rest.take(8)?;
    match dimensions {
        0 => return Ok(Literal::List(Vec::new())),
        1 => {}
        _ => return Err(error("0A000", "arrays have one dimension here")),
    }
    let length = rest.i32()?;
    let _first = rest.i32()?;
    let mut items = Vec::new();
    for _ in 0..length {
        items.push(match rest.i32()? {
            -1 => Literal::Null,
            bytes => {
                let bytes = usize::try_from(bytes).map_err(|_| malformed())?;
                from_binary(rest.take(bytes)?, element)?
            }
        });
    }
    Ok(Literal::List(items))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn numbers_are_read_from_their_groups() {
        let number = |words: &[u16]| {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
            from_binary(&bytes, DataType::Decimal { precision: 38, scale: 2 })
        };
        let weight = |weight: i16| weight as u16;
        assert_eq!(number(&[0, 0, 0, 0]), Ok(Literal::Integer(0)));
        assert_eq!(number(&[3, 1, 0, 2, 12, 3456, 7800]), Ok(Literal::Decimal(12_345_678, 2)));
        assert_eq!(number(&[1, weight(-2), 0, 5, 1000]), Ok(Literal::Decimal(1, 5)));
        assert_eq!(number(&[1, 1, 0x4000, 0, 1]), Ok(Literal::Integer(-10_000)));
        assert_eq!(number(&[1, 7, 0, 0, 1]).unwrap(), Literal::Integer(10i128.pow(28)));
        assert_eq!(number(&[1, 100, 0, 0, 1]).unwrap_err().sqlstate(), "22003");
        assert_eq!(number(&[0, 0, 0xc000, 0]).unwrap_err().sqlstate(), "0A000");
        assert_eq!(number(&[1, 0, 0, 0, 10_000]).unwrap_err().sqlstate(), "22P03");
        assert_eq!(number(&[2, 0, 0, 0, 1]).unwrap_err().sqlstate(), "22P03");
    }

    #[test]
    fn bytes_that_are_no_value_are_refused() {
        for (bytes, data_type, state) in [
            (&[1][..], DataType::Int32, "22P03"),
            (&[0; 5], DataType::Int32, "22P03"),
            (&[255], DataType::Text, "22021"),
            (&[97, 0], DataType::Text, "22021"),
            (&[2, 123, 125], DataType::Jsonb, "XX000"),
            (&[127, 255, 255, 255, 255, 255, 255, 255], DataType::Timestamp, "0A000"),
            (
                &[0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 23, 127, 255, 255, 255, 0, 0, 0, 1],
                DataType::Int32.array().unwrap(),
                "22P03",
            ),
        ] {
            let error = from_binary(bytes, data_type).unwrap_err();
            assert_eq!(error.sqlstate(), state, "{error}");
        }
    }

    #[test]
    fn moments_count_from_the_year_2000() {
        assert_eq!(from_binary(&[0, 0, 0, 1], DataType::Date), Ok(Literal::Date(10_958)));
        let micro = [0, 0, 0, 0, 0, 0, 0, 1];
        assert_eq!(
            from_binary(&micro, DataType::TimestampTz),
            Ok(Literal::Instant(946_684_800_000_001))
        );
    }
}
