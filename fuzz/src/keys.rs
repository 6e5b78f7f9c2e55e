//! Keys as bytes (`atoll_storage::ordered::encode`) and as hashes (`atoll_storage::key`).
//!
//! The order of encoded keys is that of the values, in every column, ascending or descending; equal
//! keys have equal hashes, and different keys that fit into a word have different hashes.

use std::cmp::Ordering;

use atoll_storage::ordered::encode::{KeyColumn, encode, successor};
use atoll_storage::{DataType, Value, key};

use super::input::Input;

const TYPES: [DataType; 13] = [
    DataType::Int16,
    DataType::Int32,
    DataType::Int64,
    DataType::Float32,
    DataType::Float64,
    DataType::Bool,
    DataType::Date,
    DataType::Timestamp,
    DataType::Decimal { precision: 18, scale: 2 },
    DataType::Decimal { precision: 38, scale: 2 },
    DataType::Text,
    DataType::Binary,
    DataType::FixedBinary(3),
];

/// See the module.
pub fn run(bytes: &[u8]) {
    let mut input = Input(bytes);
    let column = |input: &mut Input<'_>| {
        let byte = usize::from(input.byte());
        KeyColumn { data_type: TYPES[byte % TYPES.len()], nullable: byte >= 128 }
    };
    let columns: Vec<KeyColumn> = (0..1 + input.below(4)).map(|_| column(&mut input)).collect();
    let left: Vec<Value> = columns.iter().map(|column| value(&mut input, *column)).collect();
    // Keys that differ only in late columns are the critical ones.
    let same = input.below(columns.len() + 1);
    let right: Vec<Value> = columns
        .iter()
        .enumerate()
        .map(|(at, column)| if at < same { left[at].clone() } else { value(&mut input, *column) })
        .collect();
    let mut orders = left.iter().zip(&right).map(|(left, right)| compare(left, right));
    let order = orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal);
    let key = |values: &[Value]| {
        let mut out = Vec::new();
        encode(&columns, values, &mut out);
        out
    };
    let (one, two) = (key(&left), key(&right));
    assert_eq!(one.cmp(&two), order, "{columns:?} {left:?} {right:?}");
    assert!(order.is_eq() || !one.starts_with(&two) && !two.starts_with(&one));
    // A prefix covers exactly the keys that agree in its columns.
    let prefix = input.below(columns.len() + 1);
    let from = key(&left[..prefix]);
    let mut to = from.clone();
    let has_end = successor(&mut to);
    let is_between = two >= from && (!has_end || two < to);
    let agrees = left.iter().zip(&right).take(prefix).all(|(l, r)| compare(l, r).is_eq());
    assert_eq!(is_between, agrees, "{columns:?} {left:?} {right:?}");
    hashes(&columns, (&left, &right), order);
}

fn hashes(columns: &[KeyColumn], (left, right): (&[Value], &[Value]), order: Ordering) {
    let is_key = |column: &KeyColumn| {
        !column.nullable && !matches!(column.data_type, DataType::Float32 | DataType::Float64)
    };
    if !columns.iter().all(is_key) {
        return;
    }
    assert!(order.is_ne() || key::hash(left) == key::hash(right));
    let bits = |column: &KeyColumn| match column.data_type {
        DataType::Int16 => 16,
        DataType::Int32 | DataType::Date => 32,
        DataType::Int64 | DataType::Timestamp => 64,
        _ => 65,
    };
    let parts = key::parts(columns.iter().map(|column| column.data_type));
    assert_eq!(parts.is_empty(), columns.iter().map(bits).sum::<u32>() > 64, "{columns:?}");
    let [one, other] =
        [left, right].map(|key| key::word_of_key(key, &parts).map(key::hash_of_word));
    if parts.is_empty() {
        assert_eq!((one, other), (None, None), "{left:?} {right:?}");
    } else {
        assert!(one.is_some() && other.is_some(), "{left:?} {right:?}");
        assert_eq!(one == other, order.is_eq(), "{left:?} {right:?}");
    }
}

fn value(input: &mut Input<'_>, column: KeyColumn) -> Value {
    if column.nullable && input.below(4) == 0 {
        return Value::Null;
    }
    let digits = |input: &mut Input<'_>, most: i128| {
        let wide = i128::from(input.number()) << 64 | i128::from(input.number());
        Value::Decimal(wide % most)
    };
    match column.data_type.stored_as() {
        DataType::Int16 => Value::Int16(input.number() as i16),
        DataType::Int32 => Value::Int32(input.number() as i32),
        DataType::Int64 => Value::Int64(input.number() as i64),
        DataType::Float32 => Value::Float32(f32::from_bits(input.number() as u32)),
        DataType::Float64 => Value::Float64(f64::from_bits(input.number())),
        DataType::Bool => Value::Bool(input.flag()),
        DataType::Date => Value::Date(input.number() as i32),
        DataType::Timestamp => Value::Timestamp(input.number() as i64),
        DataType::Decimal { precision: 38, .. } => digits(input, 10i128.pow(38)),
        DataType::Decimal { .. } => digits(input, 10i128.pow(18)),
        DataType::Text => Value::Text(String::from_utf8_lossy(input.bytes(8)).into_owned()),
        DataType::Binary => Value::Binary(input.bytes(8).to_vec()),
        DataType::FixedBinary(width) => {
            let mut bytes = input.take(width as usize).to_vec();
            bytes.resize(width as usize, 0);
            Value::Binary(bytes)
        }
        other => unreachable!("no type is stored as {other}"),
    }
}

/// The order of values as SQL has it, NULL last.
fn compare(left: &Value, right: &Value) -> Ordering {
    let float = |left: f64, right: f64| {
        left.partial_cmp(&right).unwrap_or_else(|| left.is_nan().cmp(&right.is_nan()))
    };
    match (left, right) {
        (Value::Null, Value::Null) => Ordering::Equal,
        (Value::Null, _) => Ordering::Greater,
        (_, Value::Null) => Ordering::Less,
        (Value::Int16(left), Value::Int16(right)) => left.cmp(right),
        (Value::Int32(left), Value::Int32(right)) | (Value::Date(left), Value::Date(right)) => {
            left.cmp(right)
        }
        (Value::Int64(left), Value::Int64(right))
        | (Value::Timestamp(left), Value::Timestamp(right)) => left.cmp(right),
        (Value::Float32(left), Value::Float32(right)) => float((*left).into(), (*right).into()),
        (Value::Float64(left), Value::Float64(right)) => float(*left, *right),
        (Value::Bool(left), Value::Bool(right)) => left.cmp(right),
        (Value::Decimal(left), Value::Decimal(right)) => left.cmp(right),
        (Value::Text(left), Value::Text(right)) => left.as_bytes().cmp(right.as_bytes()),
        (Value::Binary(left), Value::Binary(right)) => left.cmp(right),
        other => panic!("{other:?}"),
    }
}
