//! Zones: the smallest and the greatest value that a column of a segment has ever held.
//!
//! A zone encodes values as 64-bit words in such a way that the unsigned order of the words is the
//! order of the values, so one atomic minimum and one atomic maximum widen a zone of any type. A
//! zone only widens: after an update or a delete it may be wider than the values, but never
//! narrower. So a scan may skip a segment if the zone excludes the predicate. NULL does not widen a
//! zone; NaN sets the maximum to unknown.

use crate::types::DataType;
use crate::types::Value;

/// Minimum of an empty zone.
pub const EMPTY_MIN: u64 = u64::MAX;
/// Maximum of an empty zone.
pub const EMPTY_MAX: u64 = 0;

const SIGN: u64 = 1 << 63;

/// The word of an integer.
#[inline]
pub fn of_i64(value: i64) -> u64 {
    value as u64 ^ SIGN
}

/// The integer of a word.
#[inline]
pub fn as_i64(word: u64) -> i64 {
    (word ^ SIGN).cast_signed()
}

fn of_f64(value: f64) -> u64 {
    if value.is_nan() {
        return u64::MAX;
    }
    // -0 and 0 are equal as values, so both must have the same word; `+ 0.0` turns -0 into 0.
    let bits = (value + 0.0).to_bits();
    if bits & SIGN == 0 { bits | SIGN } else { !bits }
}

/// The word of a value's image; `None` for types without zones.
#[inline]
pub fn word(data_type: DataType, image: &[u8]) -> Option<u64> {
    fn array<const N: usize>(image: &[u8]) -> Option<[u8; N]> {
        image.try_into().ok()
    }
    Some(match data_type.stored_as() {
        DataType::Int16 => of_i64(i16::from_le_bytes(array(image)?).into()),
        DataType::Int32 | DataType::Date => of_i64(i32::from_le_bytes(array(image)?).into()),
        DataType::Int64 | DataType::Timestamp => of_i64(i64::from_le_bytes(array(image)?)),
        DataType::Float32 => of_f64(f32::from_le_bytes(array(image)?).into()),
        DataType::Float64 => of_f64(f64::from_le_bytes(array(image)?)),
        DataType::Decimal { precision, .. } if precision <= 18 => {
            of_i64(i128::from_le_bytes(array(image)?) as i64)
        }
        _ => return None,
    })
}

/// The value of a word; `None` where the zone is unknown.
pub fn value(data_type: DataType, word: u64) -> Option<Value> {
    let integer = as_i64(word);
    let float = || {
        let value = f64::from_bits(if word & SIGN == 0 { !word } else { word ^ SIGN });
        (!value.is_nan()).then_some(value)
    };
    Some(match data_type.stored_as() {
        DataType::Int16 => Value::Int16(integer as i16),
        DataType::Int32 => Value::Int32(integer as i32),
        DataType::Date => Value::Date(integer as i32),
        DataType::Int64 => Value::Int64(integer),
        DataType::Timestamp => Value::Timestamp(integer),
        DataType::Float32 => Value::Float32(float()? as f32),
        DataType::Float64 => Value::Float64(float()?),
        DataType::Decimal { precision, .. } if precision <= 18 => Value::Decimal(integer.into()),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn words_order_as_their_values_do() {
        let floats = [f64::NEG_INFINITY, -1e300, -1.5, -0.0, 0.0, 1e-300, 2.0, f64::INFINITY];
        for pair in floats.windows(2) {
            assert!(of_f64(pair[0]) <= of_f64(pair[1]), "{pair:?}");
        }
        assert_eq!(of_f64(-0.0), of_f64(0.0));
        for pair in [i64::MIN, -1, 0, 1, i64::MAX].windows(2) {
            assert!(of_i64(pair[0]) < of_i64(pair[1]), "{pair:?}");
        }
    }

    #[test]
    fn a_word_gives_its_value_back() {
        for (data_type, expected, image) in [
            (DataType::Int16, Value::Int16(-7), (-7i16).to_le_bytes().to_vec()),
            (DataType::Float64, Value::Float64(-2.5), (-2.5f64).to_le_bytes().to_vec()),
            (DataType::Date, Value::Date(19_000), 19_000i32.to_le_bytes().to_vec()),
        ] {
            let word = word(data_type, &image).unwrap();
            assert_eq!(value(data_type, word), Some(expected));
        }
    }

    #[test]
    fn nan_makes_the_maximum_unknown() {
        let word = word(DataType::Float64, &f64::NAN.to_le_bytes()).unwrap();
        assert_eq!(word, u64::MAX);
        assert_eq!(value(DataType::Float64, word), None);
    }
}
