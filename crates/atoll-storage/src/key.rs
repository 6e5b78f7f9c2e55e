//! Hashes of primary keys, and their form in error messages.

use crate::types::{Column, DAY_MICROS, DataType, Interval, Schema, Value};

/// Hashes up to this one are reserved: a table of hashes may use them as special values.
pub const RESERVED_MAX: u64 = 2;

pub(crate) const SEED: u64 = 0x9e37_79b9_7f4a_7c15;

/// Mixes the bits of a word (the finaliser of splitmix64, Steele, Lea and Flood, "Fast splittable
/// pseudorandom number generators", 2014).
#[inline]
pub fn mix(word: u64) -> u64 {
    let word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}

/// The inverse of [`mix`]: each of its steps is invertible.
#[inline]
fn unmix(word: u64) -> u64 {
    let word = (word ^ word >> 31 ^ word >> 62).wrapping_mul(0x3196_42b2_d24d_8ec3);
    let word = (word ^ word >> 27 ^ word >> 54).wrapping_mul(0x96de_1b17_3f11_9089);
    word ^ word >> 30 ^ word >> 60
}

/// Hash of a key; equal keys have equal hashes.
pub fn hash(key: &[Value]) -> u64 {
    key.iter().fold(SEED, |state, value| {
        let word = match value {
            Value::Null => 0,
            Value::Int16(value) => *value as u64,
            Value::Int32(value) | Value::Date(value) => *value as u64,
            Value::Int64(value) | Value::Timestamp(value) => *value as u64,
            Value::Float32(value) => u64::from(value.to_bits()),
            Value::Float64(value) => value.to_bits(),
            Value::Bool(value) => u64::from(*value),
            Value::Decimal(value) => mix(*value as u64) ^ (*value >> 64) as u64,
            Value::Text(text) => bytes(text.as_bytes()),
            Value::Binary(value) => bytes(value),
            Value::Interval(value) => mix(value.span() as u64) ^ (value.span() >> 64) as u64,
        };
        mix(state ^ word)
    })
}

/// The type of a column of a primary key that fits in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// `smallint`
    Int16,
    /// `integer`
    Int32,
    /// `date`
    Date,
    /// `bigint`
    Int64,
    /// `timestamp`
    Timestamp,
}

/// Instructions per column of a hash, for [`atoll_machine::Machine::work`].
pub(crate) const HASH_WORK: usize = 10;

/// The parts of a key with columns of these types, if all are integers and fit in one word
/// together; empty otherwise.
pub fn parts(types: impl Iterator<Item = DataType>) -> Box<[Part]> {
    let mut bits = 0;
    let parts = types.map(|data_type| {
        let (part, width) = match data_type.stored_as() {
            DataType::Int16 => (Part::Int16, 16),
            DataType::Int32 => (Part::Int32, 32),
            DataType::Date => (Part::Date, 32),
            DataType::Int64 => (Part::Int64, 64),
            DataType::Timestamp => (Part::Timestamp, 64),
            _ => return None,
        };
        bits += width;
        (bits <= 64).then_some(part)
    });
    parts.collect::<Option<_>>().unwrap_or_default()
}

/// Whether the primary key is one column with the values of a `bigint`.
pub fn is_int64(schema: &Schema) -> bool {
    let [at] = schema.primary_key() else { return false };
    schema.columns()[*at].data_type.stored_as() == DataType::Int64
}

/// The word that holds the columns of a key side by side, if they fit in one ([`parts`]). `None`
/// for a key with values of other types.
#[inline]
pub fn word_of_key(key: &[Value], parts: &[Part]) -> Option<u64> {
    if parts.is_empty() || key.len() != parts.len() {
        return None;
    }
    let mut word = 0;
    for (value, part) in key.iter().zip(parts) {
        // The processor predicts the branches on the parts, which are the same for all keys of a
        // table; it would not predict a jump table over the types of values as well.
        word = match (part, value) {
            (Part::Int32, Value::Int32(value)) => word << 32 | u64::from(*value as u32),
            (Part::Int16, Value::Int16(value)) => word << 16 | u64::from(*value as u16),
            (Part::Date, Value::Date(value)) => word << 32 | u64::from(*value as u32),
            // The value fills the word, so there is nothing to shift.
            (Part::Int64, Value::Int64(value)) => *value as u64,
            (Part::Timestamp, Value::Timestamp(value)) => *value as u64,
            _ => return None,
        };
    }
    Some(word)
}

/// The values of a key that fits in a word ([`word_of_key`]), the last column first.
pub fn last_values(mut word: u64, parts: &[Part]) -> impl Iterator<Item = Value> {
    parts.iter().rev().map(move |part| {
        let (value, width) = match part {
            Part::Int16 => (Value::Int16(word as i16), 16),
            Part::Int32 => (Value::Int32(word as i32), 32),
            Part::Date => (Value::Date(word as i32), 32),
            Part::Int64 => (Value::Int64(word as i64), 64),
            Part::Timestamp => (Value::Timestamp(word as i64), 64),
        };
        word = word.checked_shr(width).unwrap_or(0);
        value
    })
}

/// Hash of a key that fits in a word ([`word_of_key`]). Different words have different hashes,
/// because each step is invertible.
#[inline]
pub fn hash_of_word(word: u64) -> u64 {
    mix(word ^ SEED)
}

/// The word that [`hash_of_word`] maps to this hash.
#[inline]
pub fn word_of(hash: u64) -> u64 {
    unmix(hash) ^ SEED
}

fn bytes(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let start = mix(bytes.len() as u64);
    let state = words.iter().fold(start, |state, word| mix(state ^ u64::from_le_bytes(*word)));
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    mix(state ^ u64::from_le_bytes(last))
}

/// The values of some columns as a user writes them, for error messages: `id = 7`, or `day =
/// '2024-05-01', name = 'it''s'`.
pub fn display(schema: &Schema, columns: &[usize], values: &[Value]) -> String {
    let shown = columns.iter().zip(values).map(|(column, value)| {
        let Column { name, data_type, .. } = &schema.columns()[*column];
        format!("{name} = {}", literal(value, *data_type))
    });
    shown.collect::<Vec<_>>().join(", ")
}

/// A value as SQL writes it.
fn literal(value: &Value, data_type: DataType) -> String {
    match value {
        Value::Int64(micros) if data_type == DataType::Time => format!("'{}'", clock(*micros)),
        Value::Timestamp(micros) if data_type == DataType::TimestampTz => {
            format!("'{}+00'", timestamp(*micros))
        }
        Value::Binary(bytes) if data_type == DataType::Uuid => format!("'{}'", uuid(bytes)),
        Value::Null => "NULL".into(),
        Value::Int16(value) => value.to_string(),
        Value::Int32(value) => value.to_string(),
        Value::Int64(value) => value.to_string(),
        Value::Float32(value) => value.to_string(),
        Value::Float64(value) => value.to_string(),
        Value::Bool(value) => value.to_string(),
        Value::Date(days) => format!("'{}'", date(i64::from(*days))),
        Value::Timestamp(micros) => format!("'{}'", timestamp(*micros)),
        Value::Decimal(value) => decimal(*value, data_type),
        Value::Text(text) => format!("'{}'", text.replace('\'', "''")),
        Value::Interval(value) => {
            let Interval { months, days, nanos } = *value;
            format!("'{months} mons {days} days {} us'", nanos / 1000)
        }
        Value::Binary(bytes) => {
            let digits = bytes.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
            format!("'\\x{digits}'")
        }
    }
}

/// `YYYY-MM-DD` of days since 1970-01-01, by the algorithm of Howard Hinnant ("chrono-compatible
/// low-level date algorithms", 2013): years begin in March, eras have 400 years.
fn date(days: i64) -> String {
    const DAYS_OF_ERA: i64 = 146_097;
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(DAYS_OF_ERA), days.rem_euclid(DAYS_OF_ERA));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

/// `YYYY-MM-DD HH:MM:SS[.ffffff]` of microseconds since 1970-01-01 00:00.
fn timestamp(micros: i64) -> String {
    const SECOND: i64 = 1_000_000;
    let (days, of_day) = (micros.div_euclid(86_400 * SECOND), micros.rem_euclid(86_400 * SECOND));
    let (seconds, fraction) = (of_day / SECOND, of_day % SECOND);
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let time = format!("{} {hours:02}:{minutes:02}:{seconds:02}", date(days));
    match fraction {
        0 => time,
        _ => format!("{time}.{fraction:06}").trim_end_matches('0').to_owned(),
    }
}

/// `HH:MM:SS[.ffffff]` of microseconds since midnight.
fn clock(micros: i64) -> String {
    if micros >= DAY_MICROS {
        return "24:00:00".to_owned();
    }
    timestamp(micros).split_off("1970-01-01 ".len())
}

fn uuid(bytes: &[u8]) -> String {
    let digits = bytes.iter().enumerate().map(|(at, byte)| match at {
        4 | 6 | 8 | 10 => format!("-{byte:02x}"),
        _ => format!("{byte:02x}"),
    });
    digits.collect()
}

fn decimal(digits: i128, data_type: DataType) -> String {
    let DataType::Decimal { scale, .. } = data_type else { return digits.to_string() };
    if scale == 0 {
        return digits.to_string();
    }
    let unit = 10u128.pow(scale.into());
    let (whole, part) = (digits.unsigned_abs() / unit, digits.unsigned_abs() % unit);
    let sign = if digits < 0 { "-" } else { "" };
    format!("{sign}{whole}.{part:0width$}", width = usize::from(scale))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::{display, hash_of_word, last_values, parts, word_of_key};
    use crate::types::{Column, DAY_MICROS, DataType, Schema, Value};

    #[test]
    fn values_are_shown_as_a_user_writes_them() {
        let of = |data_type, value: Value| {
            let columns = vec![Column::new("id", DataType::Int32), Column::new("c", data_type)];
            let schema = Schema::new(columns, &["id"]).expect("it is a schema");
            display(&schema, &[1], &[value])
        };
        for (days, wanted) in [
            (0, "1970-01-01"),
            (-1, "1969-12-31"),
            (11_016, "2000-02-29"),
            (15_706, "2013-01-01"),
            (-719_468, "0000-03-01"),
            (2_932_896, "9999-12-31"),
        ] {
            assert_eq!(of(DataType::Date, Value::Date(days)), format!("c = '{wanted}'"));
        }
        for (micros, wanted) in [
            (1_357_034_400_000_000, "2013-01-01 10:00:00"),
            (-1, "1969-12-31 23:59:59.999999"),
            (1_500_000, "1970-01-01 00:00:01.5"),
        ] {
            let shown = of(DataType::Timestamp, Value::Timestamp(micros));
            assert_eq!(shown, format!("c = '{wanted}'"));
        }
        let money = DataType::Decimal { precision: 9, scale: 2 };
        assert_eq!(of(money, Value::Decimal(-5)), "c = -0.05");
        assert_eq!(of(DataType::Binary, Value::Binary(vec![0, 255])), "c = '\\x00ff'");
        let uuid = Value::Binary((0..16).collect());
        assert_eq!(of(DataType::Uuid, uuid), "c = '00010203-0405-0607-0809-0a0b0c0d0e0f'");
        assert_eq!(of(DataType::Time, Value::Int64(3_661_500_000)), "c = '01:01:01.5'");
        assert_eq!(of(DataType::Time, Value::Int64(DAY_MICROS)), "c = '24:00:00'");
        let instant = Value::Timestamp(0);
        assert_eq!(of(DataType::TimestampTz, instant), "c = '1970-01-01 00:00:00+00'");
        let columns = [("id", DataType::Int32), ("name", DataType::Text)];
        let columns = columns.map(|(name, data_type)| Column::new(name, data_type));
        let schema = Schema::new(columns.to_vec(), &["id"]).expect("it is a schema");
        let values = [Value::from("it's"), Value::Int32(7)];
        assert_eq!(display(&schema, &[1, 0], &values), "name = 'it''s', id = 7");
    }

    #[test]
    fn different_words_have_different_hashes() {
        let types = [DataType::Int16, DataType::Int16, DataType::Date];
        let parts = parts(types.into_iter());
        let small = [0, 1, 2, 255, 256, -1, -256, i16::MIN, i16::MAX];
        let wide = [0, 1, 255, 256, 65_535, 65_536, -1, -65_536, i32::MIN, i32::MAX];
        let mut seen = HashSet::new();
        for one in small {
            for two in small {
                for three in wide {
                    let key = [Value::Int16(one), Value::Int16(two), Value::Date(three)];
                    let word = word_of_key(&key, &parts);
                    assert!(word.is_some_and(|word| seen.insert(hash_of_word(word))), "{key:?}");
                    let mut values: Vec<Value> =
                        last_values(word.unwrap_or_default(), &parts).collect();
                    values.reverse();
                    assert_eq!(values, key);
                }
            }
        }
        for value in [Value::Int64(i64::MIN + 7), Value::Timestamp(-1)] {
            let part = super::parts(std::iter::once(match value {
                Value::Int64(_) => DataType::Int64,
                _ => DataType::Timestamp,
            }));
            let word = word_of_key(std::slice::from_ref(&value), &part);
            assert!(last_values(word.unwrap_or_default(), &part).eq([value]));
        }
        // A value of another type, or too few values.
        let other = [Value::Int16(0), Value::Int16(0), Value::Int32(0)];
        assert_eq!(word_of_key(&other, &parts), None);
        assert_eq!(word_of_key(&other[..2], &parts), None);
        assert_eq!(word_of_key(&[], &[]), None);
    }
}
