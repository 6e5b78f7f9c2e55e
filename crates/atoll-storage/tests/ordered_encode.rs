//! Key bytes: their order is the order of the values.
#![allow(clippy::unwrap_used)]

use std::cmp::Ordering;

use atoll_storage::key::mix;
use atoll_storage::ordered::encode::{KeyColumn, encode, successor};
use atoll_storage::{DataType, Value};

const TYPES: [DataType; 18] = [
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
    DataType::Varchar(40),
    DataType::Char(40),
    DataType::TimestampTz,
    DataType::Time,
    DataType::Uuid,
];

struct Random(u64);

impl Random {
    /// Numbers of all magnitudes and both signs.
    fn number(&mut self) -> i64 {
        self.0 += 1;
        let bits = mix(self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let shift = mix(bits) % 64;
        match mix(bits + 1) % 16 {
            0 => i64::MIN,
            1 => i64::MAX,
            2 => 0,
            3 => -1,
            _ => bits as i64 >> shift,
        }
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| [0, 1, 2, b'a', 254, 255][self.number() as usize % 6]).collect()
    }

    fn value(&mut self, column: KeyColumn) -> Value {
        if column.nullable && self.number() % 4 == 0 {
            return Value::Null;
        }
        let number = self.number();
        let len = number as usize % 5;
        match column.data_type.stored_as() {
            _ if column.data_type == DataType::Time => {
                Value::Int64(number.rem_euclid(86_400_000_001))
            }
            DataType::Int16 => Value::Int16(number as i16),
            DataType::Int32 => Value::Int32(number as i32),
            DataType::Int64 => Value::Int64(number),
            DataType::Float32 => Value::Float32(f32::from_bits(number as u32)),
            DataType::Float64 if number % 5 == 0 => {
                Value::Float64([0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY][len % 4])
            }
            DataType::Float64 => Value::Float64(f64::from_bits(number as u64)),
            DataType::Bool => Value::Bool(number % 2 == 0),
            DataType::Date => Value::Date(number as i32),
            DataType::Timestamp => Value::Timestamp(number),
            DataType::Decimal { precision: 38, .. } => {
                Value::Decimal(i128::from(number) * i128::from(self.number() >> 3))
            }
            DataType::Decimal { .. } => Value::Decimal((number % 10i64.pow(18)).into()),
            DataType::Text => {
                let text = self.bytes(len);
                let text: String = text.iter().map(|byte| char::from(byte & 127)).collect();
                Value::Text(match column.data_type {
                    DataType::Char(_) => text.trim_end_matches(' ').to_owned(),
                    _ => text,
                })
            }
            DataType::Binary => Value::Binary(self.bytes(len)),
            DataType::FixedBinary(width) => Value::Binary(self.bytes(width as usize)),
            other => unreachable!("no type is stored as {other}"),
        }
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

fn bytes(columns: &[KeyColumn], values: &[Value]) -> Vec<u8> {
    let mut out = Vec::new();
    encode(columns, values, &mut out);
    out
}

#[test]
fn bytes_of_keys_are_ordered_as_their_values() {
    let mut random = Random(1);
    let mut seen = [0; 3];
    for round in 0..60_000usize {
        let column = |at: usize| KeyColumn {
            data_type: TYPES[at % TYPES.len()],
            nullable: at / TYPES.len() % 2 == 1,
        };
        let columns = [column(round), column(round / 7), column(round / 31)];
        let left = columns.map(|column| random.value(column));
        let mut right = columns.map(|column| random.value(column));
        // Keys that differ late are the ones that matter.
        let alike = round % 4;
        right[..alike.min(3)].clone_from_slice(&left[..alike.min(3)]);
        let mut order = left.iter().zip(&right).map(|(left, right)| compare(left, right));
        let order = order.find(|order| order.is_ne()).unwrap_or(Ordering::Equal);
        let found = bytes(&columns, &left).cmp(&bytes(&columns, &right));
        assert_eq!(found, order, "{columns:?} {left:?} {right:?}");
        seen[(order as i8 + 1) as usize] += 1;
    }
    assert!(seen.iter().all(|times| *times > 5000), "{seen:?}");
}

#[test]
fn keys_that_agree_in_their_first_columns_are_between_a_prefix_and_its_successor() {
    let mut random = Random(2);
    for round in 0..20_000usize {
        let column = |at: usize| KeyColumn {
            data_type: TYPES[at % TYPES.len()],
            nullable: at / TYPES.len() % 2 == 1,
        };
        let columns = [column(round), column(round / 13)];
        let prefix = [random.value(columns[0])];
        let mut key = columns.map(|column| random.value(column));
        if round % 2 == 0 {
            key[0] = prefix[0].clone();
        }
        let from = bytes(&columns, &prefix);
        let mut to = from.clone();
        let has_end = successor(&mut to);
        let bytes = bytes(&columns, &key);
        let is_between = bytes >= from && (!has_end || bytes < to);
        assert_eq!(is_between, compare(&key[0], &prefix[0]).is_eq(), "{prefix:?} {key:?}");
        assert_eq!(bytes.starts_with(&from), is_between);
    }
}

#[test]
fn the_successor_of_a_prefix_is_the_least_key_behind_all_that_begin_with_it() {
    let successor = |prefix: &[u8]| {
        let mut key = prefix.to_vec();
        successor(&mut key).then_some(key)
    };
    assert_eq!(successor(b"ab"), Some(b"ac".to_vec()));
    assert_eq!(successor(&[1, 255, 255]), Some(vec![2]));
    assert_eq!(successor(&[255, 255]), None);
    assert_eq!(successor(&[]), None);
}
