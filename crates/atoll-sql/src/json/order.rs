//! The order of `jsonb` values.
//!
//! ```text
//! null 1 | string 2, bytes | number 3, sign, exponent, digits | boolean 4, 0 or 1
//! array 5, u32 count, elements | object 6, u32 count, (name, value) × count
//! ```
//!
//! `ORDER-1`: the order of the bytes of two keys is PostgreSQL's order of the values (its manual,
//! 8.14.4), but that strings are ordered by their bytes; equal values have one key.

use super::Json;

/// The key of a value that is [settled](Json::settled).
pub(crate) fn key(value: &Json) -> Vec<u8> {
    let mut out = Vec::new();
    write(value, &mut out);
    out
}

fn text(text: &str, out: &mut Vec<u8>) {
    // No settled text has a zero.
    out.extend_from_slice(text.as_bytes());
    out.push(0);
}

fn write(value: &Json, out: &mut Vec<u8>) {
    let count = |len: usize| u32::try_from(len).unwrap_or(u32::MAX).to_be_bytes();
    match value {
        Json::Null => out.push(1),
        Json::Text(value) => {
            out.push(2);
            text(value, out);
        }
        Json::Number(digits) => {
            out.push(3);
            number(digits, out);
        }
        Json::Bool(truth) => out.extend([4, u8::from(*truth)]),
        Json::Array(items) => {
            out.push(5);
            out.extend(count(items.len()));
            items.iter().for_each(|item| write(&item.value, out));
        }
        Json::Object(pairs) => {
            out.push(6);
            out.extend(count(pairs.len()));
            for (name, item) in pairs {
                text(name, out);
                write(&item.value, out);
            }
        }
    }
}

/// A sign, the number of digits before the point, and the digits without zeros at their ends. Of a
/// negative number all bits are turned.
fn number(shown: &str, out: &mut Vec<u8>) {
    let unsigned = shown.strip_prefix('-').unwrap_or(shown);
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let digits = format!("{whole}{fraction}");
    let leading = digits.len() - digits.trim_start_matches('0').len();
    let kept = digits.trim_matches('0');
    if kept.is_empty() {
        return out.push(1);
    }
    let exponent = whole.len() as i64 - leading as i64;
    let from = out.len();
    out.push(2);
    out.extend((exponent as u64 ^ 1 << 63).to_be_bytes());
    out.extend(kept.bytes());
    out.push(0);
    if shown.starts_with('-') {
        out[from..].iter_mut().for_each(|byte| *byte = !*byte);
        out[from] = 0;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::key;
    use crate::json::parse;

    #[test]
    fn keys_have_the_order_of_the_values() {
        let of = |text: &str| key(&parse(text).unwrap().value.settled().unwrap());
        let rising = [
            "null",
            "\"\"",
            "\"a\"",
            "\"ab\"",
            "\"b\"",
            "-100",
            "-10.5",
            "-10",
            "-0.02",
            "-0.01",
            "0",
            "0.001",
            "0.01",
            "0.1",
            "0.11",
            "1",
            "1.5",
            "9",
            "10",
            "1e30",
            "false",
            "true",
            "[]",
            "[1]",
            "[2]",
            "[1,1]",
            "{}",
            "{\"a\":1}",
            "{\"a\":2}",
            "{\"b\":1}",
            "{\"a\":1,\"b\":1}",
        ];
        for pair in rising.windows(2) {
            assert!(of(pair[0]) < of(pair[1]), "{pair:?}");
        }
        assert_eq!(of("1"), of("1.00"));
        assert_eq!(of("[10, {\"a\": 0.0}]"), of("[1e1, {\"a\": -0}]"));
    }
}
