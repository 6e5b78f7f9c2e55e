//! Bytes: their texts in other encodings, and the functions of texts that they have too.

use super::pattern::{int, text};
use super::{Function, Kind, Overload, builtin, digest, refused, strict};
use crate::error::SqlError;
use crate::literal::Literal;
use crate::text;

use Kind::{Bytes, Int32, Int64, Text};

/// Letters in a line of base64.
const LINE: usize = 76;

const LETTERS_OF_TEXT: &[Overload] =
    &[builtin(&[Text], Int32, datafusion::functions::unicode::character_length)];

pub(super) const FUNCTIONS: &[Function] = &[
    Function { name: "encode", overloads: &[strict(&[Bytes, Text], Text, encode)] },
    Function { name: "decode", overloads: &[strict(&[Text, Text], Bytes, decode)] },
    Function {
        name: "octet_length",
        overloads: &[
            builtin(&[Text], Int32, datafusion::functions::string::octet_length),
            strict(&[Bytes], Int32, |v| count(bytes(v, 0).len())),
        ],
    },
    Function {
        name: "length",
        overloads: &[
            builtin(&[Text], Int32, datafusion::functions::unicode::character_length),
            strict(&[Bytes], Int32, |v| count(bytes(v, 0).len())),
        ],
    },
    Function { name: "char_length", overloads: LETTERS_OF_TEXT },
    Function { name: "character_length", overloads: LETTERS_OF_TEXT },
    Function {
        name: "bit_length",
        overloads: &[
            builtin(&[Text], Int32, datafusion::functions::string::bit_length),
            strict(&[Bytes], Int32, |v| count(bytes(v, 0).len() * 8)),
        ],
    },
    Function {
        name: "get_byte",
        overloads: &[strict(&[Bytes, Int32], Int32, |v| {
            let at = place(int(v, 1), bytes(v, 0).len())?;
            count(bytes(v, 0)[at].into())
        })],
    },
    Function {
        name: "set_byte",
        overloads: &[strict(&[Bytes, Int32, Int32], Bytes, |v| {
            let mut bytes = bytes(v, 0).to_vec();
            let at = place(int(v, 1), bytes.len())?;
            bytes[at] = (int(v, 2) & 0xff) as u8;
            Ok(Literal::Bytes(bytes))
        })],
    },
    Function {
        name: "get_bit",
        overloads: &[strict(&[Bytes, Int64], Int32, |v| {
            let at = place(int(v, 1), bytes(v, 0).len() * 8)?;
            count((bytes(v, 0)[at / 8] >> (at % 8) & 1).into())
        })],
    },
    Function {
        name: "set_bit",
        overloads: &[strict(&[Bytes, Int64, Int32], Bytes, |v| {
            let mut bytes = bytes(v, 0).to_vec();
            let at = place(int(v, 1), bytes.len() * 8)?;
            let bit = int(v, 2);
            if !(0..=1).contains(&bit) {
                return Err(refused("22023", "new bit must be 0 or 1"));
            }
            bytes[at / 8] = bytes[at / 8] & !(1 << (at % 8)) | (bit as u8) << (at % 8);
            Ok(Literal::Bytes(bytes))
        })],
    },
    Function {
        name: "md5",
        overloads: &[
            strict(&[Text], Text, |v| Ok(Literal::Text(hex(&digest::md5(text(v, 0).as_bytes()))))),
            strict(&[Bytes], Text, |v| Ok(Literal::Text(hex(&digest::md5(bytes(v, 0)))))),
        ],
    },
    Function {
        name: "sha256",
        overloads: &[strict(&[Bytes], Bytes, |v| {
            Ok(Literal::Bytes(digest::sha256(bytes(v, 0)).to_vec()))
        })],
    },
    Function {
        name: "convert_from",
        overloads: &[strict(&[Bytes, Text], Text, |v| {
            utf8(text(v, 1))?;
            String::from_utf8(bytes(v, 0).to_vec())
                .map(Literal::Text)
                .map_err(|_| refused("22021", "invalid byte sequence for encoding \"UTF8\""))
        })],
    },
    Function {
        name: "convert_to",
        overloads: &[strict(&[Text, Text], Bytes, |v| {
            utf8(text(v, 1))?;
            Ok(Literal::Bytes(text(v, 0).as_bytes().to_vec()))
        })],
    },
];

/// The bytes at a place of a row.
pub(super) fn bytes(values: &[Literal], at: usize) -> &[u8] {
    match values.get(at) {
        Some(Literal::Bytes(bytes)) => bytes,
        _ => &[],
    }
}

pub(super) fn count(value: usize) -> Result<Literal, SqlError> {
    Ok(Literal::Integer(value as i128))
}

fn utf8(encoding: &str) -> Result<(), SqlError> {
    let plain: String = encoding.chars().filter(char::is_ascii_alphanumeric).collect();
    match plain.to_ascii_lowercase().as_str() {
        "utf8" | "unicode" => Ok(()),
        _ => Err(SqlError::unsupported(format!("the encoding \"{encoding}\" is not supported"))),
    }
}

fn place(at: i64, length: usize) -> Result<usize, SqlError> {
    usize::try_from(at).ok().filter(|at| *at < length).ok_or_else(|| {
        let last = length as i64 - 1;
        refused("2202E", format!("index {at} out of valid range, 0..{last}"))
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unknown(encoding: &str) -> SqlError {
    refused("22023", format!("unrecognized encoding: \"{encoding}\""))
        .with_hint(Some("there are hex, base64 and escape".to_owned()))
}

fn encode(values: &[Literal]) -> Result<Literal, SqlError> {
    let bytes = bytes(values, 0);
    let encoding = text(values, 1);
    Ok(Literal::Text(match encoding.to_ascii_lowercase().as_str() {
        "hex" => hex(bytes),
        "base64" => to_base64(bytes),
        "escape" => {
            let mut made = String::new();
            for byte in bytes {
                match byte {
                    0 | 0x80.. => made.push_str(&format!("\\{byte:03o}")),
                    b'\\' => made.push_str("\\\\"),
                    byte => made.push(char::from(*byte)),
                }
            }
            made
        }
        _ => return Err(unknown(encoding)),
    }))
}

fn decode(values: &[Literal]) -> Result<Literal, SqlError> {
    let (written, encoding) = (text(values, 0), text(values, 1));
    let decoded = match encoding.to_ascii_lowercase().as_str() {
        "hex" => text::hexadecimal(written).map_err(|reason| refused("22023", reason)),
        "base64" => of_base64(written),
        "escape" => text::escaped(written).map_err(|reason| refused("22P02", reason)),
        _ => Err(unknown(encoding)),
    };
    decoded.map(Literal::Bytes)
}

const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn to_base64(bytes: &[u8]) -> String {
    let mut made = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for (at, three) in bytes.chunks(3).enumerate() {
        if at > 0 && (at * 4) % LINE == 0 {
            made.push('\n');
        }
        let byte = |at: usize| u32::from(three.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for letter in 0..4 {
            made.push(match letter <= three.len() {
                true => char::from(LETTERS[(bits >> (18 - 6 * letter) & 63) as usize]),
                false => '=',
            });
        }
    }
    made
}

fn of_base64(written: &str) -> Result<Vec<u8>, SqlError> {
    let mut made = Vec::new();
    let (mut bits, mut count, mut ends) = (0u32, 0, 0);
    for letter in written.chars() {
        if matches!(letter, ' ' | '\t' | '\n' | '\r') {
            continue;
        }
        let value = match letter {
            '=' => {
                // Only behind two letters of four, and to their end.
                if ends == 0 && count < 2 {
                    let message = "unexpected \"=\" while decoding base64 sequence";
                    return Err(refused("22023", message));
                }
                ends += 1;
                0
            }
            letter => {
                let known = LETTERS.iter().position(|known| char::from(*known) == letter);
                known.ok_or_else(|| {
                    let message =
                        format!("invalid symbol \"{letter}\" found while decoding base64 sequence");
                    refused("22023", message)
                })?
            }
        };
        bits = bits << 6 | value as u32;
        count += 1;
        if count == 4 {
            let three = [(bits >> 16) as u8, (bits >> 8) as u8, bits as u8];
            made.extend_from_slice(&three[..3usize.saturating_sub(ends)]);
            (bits, count) = (0, 0);
        }
    }
    match count {
        0 => Ok(made),
        _ => Err(refused("22023", "invalid base64 end sequence").with_hint(Some(
            "the text is cut short, or its end is not padded with \"=\"".to_owned(),
        ))),
    }
}
