//! Arrays as the bytes of one value.
//!
//! ```text
//! array    element × count
//! element  1, then the bytes that a key has for the value; 2 alone for NULL
//! ```
//!
//! `LIST-1`: the order of the bytes is the order of the arrays, as PostgreSQL has it: element by
//! element, NULL behind every value, a shorter array before a longer one that it begins. Keys and
//! comparisons need no other form. The form of the elements is that of [`crate::ordered::encode`],
//! so a zero has no sign and there is one NaN.

use crate::data_type::DataType;
use crate::ordered::encode::{KeyColumn, decode_value, encode_value};
use crate::types::Value;

/// The bytes of an array.
pub fn encode<'v>(element: DataType, items: impl IntoIterator<Item = &'v Value>) -> Vec<u8> {
    let column = KeyColumn { data_type: element, nullable: true };
    let mut out = Vec::new();
    items.into_iter().for_each(|item| encode_value(column, item, &mut out));
    out
}

/// The elements of an array; `None` for bytes that [`encode`] has not written for this type.
pub fn decode(element: DataType, mut bytes: &[u8]) -> Option<Vec<Value>> {
    let column = KeyColumn { data_type: element, nullable: true };
    let mut items = Vec::new();
    while !bytes.is_empty() {
        items.push(decode_value(column, &mut bytes)?);
    }
    Some(items)
}

#[cfg(test)]
mod tests {
    use super::{decode, encode};
    use crate::data_type::DataType;
    use crate::types::Value;

    #[test]
    fn arrays_come_back_and_are_ordered_element_by_element() {
        let of = |items: &[Option<i32>]| {
            let items: Vec<Value> =
                items.iter().map(|item| item.map_or(Value::Null, Value::Int32)).collect();
            let bytes = encode(DataType::Int32, &items);
            assert_eq!(decode(DataType::Int32, &bytes), Some(items));
            bytes
        };
        let rising = [
            of(&[]),
            of(&[Some(-5)]),
            of(&[Some(1)]),
            of(&[Some(1), Some(2)]),
            of(&[Some(1), None]),
            of(&[Some(2)]),
            of(&[None]),
        ];
        assert!(rising.is_sorted_by(|a, b| a < b));
        let texts = [Value::from("a\0b"), Value::from(""), Value::Null];
        let bytes = encode(DataType::Text, &texts);
        assert_eq!(decode(DataType::Text, &bytes), Some(texts.to_vec()));
        assert_eq!(decode(DataType::Text, &bytes[..bytes.len() - 2]), None);
        assert_eq!(decode(DataType::Int32, &[1, 0]), None);
    }
}
