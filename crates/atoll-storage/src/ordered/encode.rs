//! Key bytes of values, so that comparing the bytes compares the values.
//!
//! ```text
//! integers, dates, times  big-endian, sign bit flipped
//! decimal                 the digits as a 64-bit integer up to 18 digits, else 128-bit
//! real, double            bits of the number: all flipped if negative, else the sign bit
//! bool                    one byte
//! binary(n)               the bytes
//! text, bytea             the bytes, 0 as 0 255, then 0 0
//! nullable column         1 before the value; 2 alone for NULL, which so comes last
//! ```
//!
//! A key is the bytes of its columns in order. No value's bytes are the beginning of another's, so
//! the bytes of the first columns are a prefix of exactly those keys that agree in them.
//!
//! Floating-point numbers come in numeric order, both zeros as one, NaN (any) behind infinity.

use std::ops::Bound;

use crate::image::{Plain, plain};
use crate::types::{Column, DataType, Value};

const VALUE: u8 = 1;
const NULL: u8 = 2;

/// A column of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyColumn {
    /// Type of its values.
    pub data_type: DataType,
    /// Whether NULL may stand in it.
    pub nullable: bool,
}

impl From<&Column> for KeyColumn {
    fn from(column: &Column) -> Self {
        Self { data_type: column.data_type, nullable: column.nullable }
    }
}

/// Appends the bytes of the first columns of a key. The caller has checked that values and columns
/// fit ([`crate::Schema::check_value`]); what does not has some bytes, but no order.
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

/// Appends the bytes of one value that is given as plain bytes.
#[inline]
pub fn encode_plain(column: KeyColumn, plain: Plain<'_>, out: &mut Vec<u8>) {
    let Some(bytes) = plain else { return out.push(NULL) };
    if column.nullable {
        out.push(VALUE);
    }
    match column.data_type {
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
        DataType::Bool | DataType::FixedBinary(_) => out.extend_from_slice(bytes),
        DataType::Text | DataType::Binary => escape(bytes, out),
    }
}

/// A little-endian integer: big-endian, with its sign bit flipped.
#[inline]
fn integer(bytes: &[u8], out: &mut Vec<u8>) {
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

/// Turns a prefix into the smallest key that is greater than all keys that begin with it. False if
/// there is none (the prefix is empty or all 255); the prefix is then empty.
pub fn successor(prefix: &mut Vec<u8>) -> bool {
    while let Some(last) = prefix.pop() {
        if last < u8::MAX {
            prefix.push(last + 1);
            return true;
        }
    }
    false
}

/// The upper bound that goes with [`successor`]: excludes what it made, or nothing.
pub fn below(successor: &[u8]) -> Bound<&[u8]> {
    if successor.is_empty() { Bound::Unbounded } else { Bound::Excluded(successor) }
}
