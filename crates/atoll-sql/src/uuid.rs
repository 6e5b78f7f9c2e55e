//! UUIDs as text.

use crate::written::quote;

/// Bytes of one.
pub(crate) type Bytes = [u8; 16];

/// Reads 32 hexadecimal digits in upper or lower case, with a hyphen behind any group of four, in
/// braces if one likes; or `\x` and the digits, since an expression cannot tell a `binary(16)` from
/// a UUID.
///
/// # Errors
/// One clause that repeats the text.
pub(crate) fn parse(text: &str) -> Result<Bytes, String> {
    read(text).ok_or_else(|| format!("{} is not a uuid", quote(text)))
}

fn read(text: &str) -> Option<Bytes> {
    let inner = match (text.strip_prefix('{'), text.strip_prefix("\\x")) {
        (Some(rest), _) => rest.strip_suffix('}')?,
        (None, Some(digits)) => digits,
        (None, None) => text,
    };
    let mut rest = inner.as_bytes();
    let mut bytes = [0; 16];
    for (at, byte) in bytes.iter_mut().enumerate() {
        if let (2.., 0, [b'-', behind @ ..]) = (at, at % 2, rest) {
            rest = behind;
        }
        let (pair, behind) = rest.split_first_chunk::<2>()?;
        let digit = |digit: u8| char::from(digit).to_digit(16);
        *byte = u8::try_from(digit(pair[0])? * 16 + digit(pair[1])?).ok()?;
        rest = behind;
    }
    rest.is_empty().then_some(bytes)
}

/// The text of a UUID, in groups of 8, 4, 4, 4 and 12 digits.
pub fn show(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(36);
    for (at, byte) in bytes.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.extend(
            [byte >> 4, byte & 15].map(|digit| char::from(b"0123456789abcdef"[usize::from(digit)])),
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_write_one_is_read() {
        let wanted = parse("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11");
        assert!(wanted.is_ok());
        for text in [
            "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11",
            "{a0eebc99-9c0b4ef8-bb6d6bb9-bd380a11}",
            "a0eebc999c0b4ef8bb6d6bb9bd380a11",
            "\\xa0eebc999c0b4ef8bb6d6bb9bd380a11",
            "a0ee-bc99-9c0b-4ef8-bb6d-6bb9-bd38-0a11",
        ] {
            assert_eq!(parse(text), wanted, "{text}");
        }
        let shown = wanted.map(|bytes| show(&bytes));
        assert_eq!(shown.as_deref(), Ok("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"));
        for text in [
            "",
            "a0eebc99",
            "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a1",
            "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a112",
            "a0eebc99--9c0b-4ef8-bb6d-6bb9bd380a11",
            "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11-",
            "{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
            "g0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
            "a-0eebc99-9c0b-4ef8-bb6d-6bb9bd380a1",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn every_uuid_is_read_back() {
        let mut word = 1u128;
        for _ in 0..10_000 {
            word = word.wrapping_mul(0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645).wrapping_add(1);
            let bytes = word.to_be_bytes();
            assert_eq!(parse(&show(&bytes)), Ok(bytes));
        }
    }
}
