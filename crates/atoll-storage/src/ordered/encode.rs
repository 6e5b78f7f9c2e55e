//! Encoding of values as key bytes: the order of the bytes is the order of the values.
//!
//! ```text
//! integers, dates, times  big-endian, sign bit flipped
//! decimal                 the digits as a 64-bit integer up to 18 digits, else 128-bit
//! real, double            bits of the number: all flipped if negative, else the sign bit
//! interval                its length in nanoseconds (`INTERVAL-1`) as a 128-bit integer
//! bool                    one byte
//! binary(n)               the bytes
//! text, bytea             the bytes, 0 as 0 255, then 0 0
//! nullable column         1 before the value; 2 alone for NULL, which therefore is last
//! ```
//!
//! A key is the concatenation of its columns' bytes. No value's bytes are a prefix of another
//! value's, so the bytes of the first columns are a prefix of exactly those keys that agree in
//! these columns.
//!
//! Floating-point numbers are in numeric order; both zeros are equal, and all NaNs are equal and
//! greater than infinity.

use std::ops::Bound;

use crate::image::{Plain, plain};
use crate::types::{Column, DataType, Interval, Value};

const VALUE: u8 = 1;
const NULL: u8 = 2;

/// A column of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyColumn {
    /// Type of its values.
    pub data_type: DataType,
    /// Whether the column can hold NULL.
    pub nullable: bool,
}

impl From<&Column> for KeyColumn {
    fn from(column: &Column) -> Self {
        Self { data_type: column.data_type, nullable: column.nullable }
    }
}

/// Appends the bytes of the first columns of a key. The caller has checked that the values fit the
/// columns ([`crate::Schema::check_value`]); a value that does not fit is encoded to bytes of
/// unspecified order.
pub fn encode(columns: &[KeyColumn], values: &[Value], out: &mut Vec<u8>) {
    for (column, value) in columns.iter().zip(values) {
        encode_value(*column, value, out);
    }
}

/// Appends the bytes of one value.
pub fn encode_value(column: KeyColumn, value: &Value, out: &mut Vec<u8>) {
    let mut room = [0; 16];
    encode_plain(column, plain(value, &mut room), out);
}

/// Appends the bytes of one value, given as plain bytes.
#[inline]
pub fn encode_plain(column: KeyColumn, plain: Plain<'_>, out: &mut Vec<u8>) {
    let Some(bytes) = plain else { return out.push(NULL) };
    if column.nullable {
        out.push(VALUE);
    }
    match column.data_type.stored_as() {
        DataType::Int16 | DataType::Int32 | DataType::Date => integer(bytes, out),
        DataType::Int64 | DataType::Timestamp => integer(bytes, out),
        DataType::Decimal { precision, .. } => {
            integer(if precision <= 18 { &bytes[..bytes.len().min(8)] } else { bytes }, out);
        }
        DataType::Float32 => {
            let value = f32::from_le_bytes(bytes.try_into().unwrap_or_default());
            let value = if value.is_nan() { f32::NAN.abs() } else { value + 0.0 };
            let bits = value.to_bits();
            let flip = if bits >> 31 == 1 { u32::MAX } else { 1 << 31 };
            out.extend((bits ^ flip).to_be_bytes());
        }
        DataType::Float64 => {
            let value = f64::from_le_bytes(bytes.try_into().unwrap_or_default());
            let value = if value.is_nan() { f64::NAN.abs() } else { value + 0.0 };
            let bits = value.to_bits();
            let flip = if bits >> 63 == 1 { u64::MAX } else { 1 << 63 };
            out.extend((bits ^ flip).to_be_bytes());
        }
        DataType::Interval => {
            let value = Interval::from_le_bytes(bytes.try_into().unwrap_or_default());
            integer(&value.span().to_le_bytes(), out);
        }
        DataType::Bool | DataType::FixedBinary(_) => out.extend_from_slice(bytes),
        _ => escape(bytes, out),
    }
}

/// Turns a little-endian integer into a big-endian one with the sign bit flipped.
#[inline]
fn integer(bytes: &[u8], out: &mut Vec<u8>) {
    // The widths that there are: a copy of a known width is one instruction.
    if let Ok(bytes) = <[u8; 8]>::try_from(bytes) {
        return out.extend_from_slice(&(u64::from_le_bytes(bytes) ^ 1 << 63).to_be_bytes());
    }
    if let Ok(bytes) = <[u8; 4]>::try_from(bytes) {
        return out.extend_from_slice(&(u32::from_le_bytes(bytes) ^ 1 << 31).to_be_bytes());
    }
    let from = out.len();
    out.extend(bytes.iter().rev());
    if let Some(first) = out.get_mut(from) {
        *first ^= 1 << 7;
    }
}

fn escape(bytes: &[u8], out: &mut Vec<u8>) {
    for part in bytes.split_inclusive(|byte| *byte == 0) {
        out.extend_from_slice(part);
        if part.ends_with(&[0]) {
            out.push(u8::MAX);
        }
    }
    out.extend_from_slice(&[0, 0]);
}

/// The values of a key that [`encode`] has made for these columns, for error messages; fewer values
/// if the bytes are not such a key. Zeros, NaNs and equal intervals decode to one value each.
pub fn decode(columns: &[KeyColumn], mut key: &[u8]) -> Vec<Value> {
    columns.iter().map_while(|column| decode_value(*column, &mut key)).collect()
}

/// Takes the value of one column off the bytes of a key.
pub(crate) fn decode_value(column: KeyColumn, key: &mut &[u8]) -> Option<Value> {
    if column.nullable {
        match take(key)? {
            [NULL] => return Some(Value::Null),
            [VALUE] => {}
            _ => return None,
        }
    }
    Some(match column.data_type.stored_as() {
        DataType::Int16 => Value::Int16(i16::from_be_bytes(take(key)?) ^ i16::MIN),
        DataType::Int32 => Value::Int32(i32::from_be_bytes(take(key)?) ^ i32::MIN),
        DataType::Date => Value::Date(i32::from_be_bytes(take(key)?) ^ i32::MIN),
        DataType::Int64 => Value::Int64(i64::from_be_bytes(take(key)?) ^ i64::MIN),
        DataType::Timestamp => Value::Timestamp(i64::from_be_bytes(take(key)?) ^ i64::MIN),
        DataType::Decimal { precision, .. } if precision <= 18 => {
            Value::Decimal(i128::from(i64::from_be_bytes(take(key)?) ^ i64::MIN))
        }
        DataType::Decimal { .. } => Value::Decimal(i128::from_be_bytes(take(key)?) ^ i128::MIN),
        DataType::Float32 => {
            let bits = u32::from_be_bytes(take(key)?);
            let flip = if bits >> 31 == 1 { 1 << 31 } else { u32::MAX };
            Value::Float32(f32::from_bits(bits ^ flip))
        }
        DataType::Float64 => {
            let bits = u64::from_be_bytes(take(key)?);
            let flip = if bits >> 63 == 1 { 1 << 63 } else { u64::MAX };
            Value::Float64(f64::from_bits(bits ^ flip))
        }
        DataType::Interval => {
            Value::Interval(Interval::of_span(i128::from_be_bytes(take(key)?) ^ i128::MIN)?)
        }
        DataType::Bool => Value::Bool(take::<1>(key)? != [0]),
        DataType::FixedBinary(width) => {
            let (bytes, rest) = key.split_at_checked(width as usize)?;
            *key = rest;
            Value::Binary(bytes.to_vec())
        }
        DataType::Text => Value::Text(String::from_utf8(unescape(key)?).ok()?),
        _ => Value::Binary(unescape(key)?),
    })
}

fn take<const N: usize>(key: &mut &[u8]) -> Option<[u8; N]> {
    let (bytes, rest) = key.split_first_chunk()?;
    *key = rest;
    Some(*bytes)
}

/// The inverse of [`escape`].
fn unescape(key: &mut &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    loop {
        match key.split_first()? {
            (0, [0, rest @ ..]) => {
                *key = rest;
                return Some(bytes);
            }
            (0, [_, rest @ ..]) => {
                bytes.push(0);
                *key = rest;
            }
            (byte, rest) => {
                bytes.push(*byte);
                *key = rest;
            }
        }
    }
}

/// Turns a prefix into the smallest key that is greater than all keys with this prefix. Returns
/// false if there is none (the prefix is empty or all 255); the prefix is empty then.
pub fn successor(prefix: &mut Vec<u8>) -> bool {
    while let Some(last) = prefix.pop() {
        if last < u8::MAX {
            prefix.push(last + 1);
            return true;
        }
    }
    false
}

/// The upper bound for a key from [`successor`]: excludes the key; unbounded for an empty one.
pub fn below(successor: &[u8]) -> Bound<&[u8]> {
    if successor.is_empty() { Bound::Unbounded } else { Bound::Excluded(successor) }
}

#[cfg(test)]
mod tests {
    use super::{KeyColumn, decode, encode};
    use crate::types::{DataType, Value};

    #[test]
    fn values_come_back_from_their_key() {
        let long = DataType::Decimal { precision: 30, scale: 2 };
        let columns: Vec<(DataType, Vec<Value>)> = vec![
            (DataType::Int16, vec![Value::Int16(i16::MIN), Value::Int16(-1), Value::Int16(7)]),
            (DataType::Int32, vec![Value::Int32(i32::MAX), Value::Int32(-5)]),
            (DataType::Int64, vec![Value::Int64(i64::MIN), Value::Int64(12)]),
            (DataType::Date, vec![Value::Date(-1)]),
            (DataType::Timestamp, vec![Value::Timestamp(-1), Value::Timestamp(1)]),
            (DataType::Decimal { precision: 9, scale: 2 }, vec![Value::Decimal(-150)]),
            (long, vec![Value::Decimal(-(1 << 90)), Value::Decimal(1 << 90)]),
            (DataType::Float32, vec![Value::Float32(-1.5), Value::Float32(2.0)]),
            (DataType::Float64, vec![Value::Float64(-1e300), Value::Float64(0.1)]),
            (DataType::Bool, vec![Value::Bool(false), Value::Bool(true)]),
            (DataType::FixedBinary(2), vec![Value::Binary(vec![0, 255])]),
            (DataType::Text, vec![Value::from(""), Value::from("a\0b"), Value::from("\0\0")]),
            (DataType::Binary, vec![Value::Binary(vec![0, 255, 0, 0]), Value::Null]),
        ];
        for (data_type, values) in columns {
            // The value follows a text of varying length; the column is nullable or not.
            for nullable in [false, true] {
                let text = KeyColumn { data_type: DataType::Text, nullable: false };
                let key_columns = [text, KeyColumn { data_type, nullable }, text];
                for value in values.iter().chain(nullable.then_some(&Value::Null)) {
                    if *value == Value::Null && !nullable {
                        continue;
                    }
                    let row = [Value::from("x\0"), value.clone(), Value::from("end")];
                    let mut key = Vec::new();
                    encode(&key_columns, &row, &mut key);
                    assert_eq!(decode(&key_columns, &key), row);
                    assert!(decode(&key_columns, &key[..key.len() - 1]).len() < row.len());
                }
            }
        }
    }
}
