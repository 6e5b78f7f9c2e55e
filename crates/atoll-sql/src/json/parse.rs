//! Reading JSON.

use super::{Json, Node};
use crate::written::quote;

/// Deepest nesting: each level takes a call of the reader.
const DEPTH_MAX: usize = 1000;

/// Why a text is no JSON: the message, which begins like PostgreSQL's, and its SQLSTATE.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Fault {
    pub(crate) message: String,
    pub(crate) state: &'static str,
}

impl Fault {
    /// A text of a `jsonb` has no character U+0000.
    pub(super) fn of_zero() -> Self {
        Self { message: "unsupported Unicode escape sequence: \\u0000".to_owned(), state: "22P05" }
    }

    /// A number has more digits than are kept.
    pub(super) fn of_digits() -> Self {
        Self { message: "value overflows numeric format".to_owned(), state: "22003" }
    }
}

/// Reads a value, with the place of each part.
///
/// # Errors
/// The text is no JSON.
pub(crate) fn parse(text: &str) -> Result<Node, Fault> {
    let mut reader = Reader { text, at: 0, depth: 0 };
    let node = reader.value()?;
    reader.space();
    if reader.at < text.len() {
        return Err(reader.unexpected("end of input"));
    }
    Ok(node)
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
    depth: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn unexpected(&self, wanted: &str) -> Fault {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
        let token = match end {
            Some(0) => rest.chars().next().map_or(rest, |first| &rest[..first.len_utf8()]),
            Some(end) => &rest[..end],
            None => rest,
        };
        let found = match token {
            "" => "the input string ended unexpectedly".to_owned(),
            token => format!("expected {wanted}, but found {}", quote(token)),
        };
        self.fault(&found)
    }

    fn fault(&self, what: &str) -> Fault {
        let message = format!("invalid input syntax for type json: {what}");
        Fault { message, state: "22P02" }
    }

    fn eat(&mut self, byte: u8) -> bool {
        let is_it = self.peek() == Some(byte);
        self.at += usize::from(is_it);
        is_it
    }

    fn value(&mut self) -> Result<Node, Fault> {
        self.space();
        let from = self.at;
        let value = match self.peek() {
            Some(b'{') => self.nested(Self::object)?,
            Some(b'[') => self.nested(Self::array)?,
            Some(b'"') => Json::Text(self.string()?),
            Some(b'-' | b'0'..=b'9') => self.number()?,
            _ => self.word()?,
        };
        Ok(Node { value, place: from..self.at })
    }

    fn nested(&mut self, read: fn(&mut Self) -> Result<Json, Fault>) -> Result<Json, Fault> {
        if self.depth == DEPTH_MAX {
            let message = format!("a JSON value has {DEPTH_MAX} levels at most");
            return Err(Fault { message, state: "54001" });
        }
        self.depth += 1;
        self.at += 1;
        let value = read(self)?;
        self.depth -= 1;
        Ok(value)
    }

    fn object(&mut self) -> Result<Json, Fault> {
        let mut pairs = Vec::new();
        self.space();
        if self.eat(b'}') {
            return Ok(Json::Object(pairs));
        }
        loop {
            self.space();
            if self.peek() != Some(b'"') {
                return Err(self.unexpected("string"));
            }
            let name = self.string()?;
            self.space();
            if !self.eat(b':') {
                return Err(self.unexpected("\":\""));
            }
            pairs.push((name, self.value()?));
            self.space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(Json::Object(pairs));
                }
                _ => return Err(self.unexpected("\",\" or \"}\"")),
            }
        }
    }

    fn array(&mut self) -> Result<Json, Fault> {
        let mut items = Vec::new();
        self.space();
        if self.eat(b']') {
            return Ok(Json::Array(items));
        }
        loop {
            items.push(self.value()?);
            self.space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return Ok(Json::Array(items));
                }
                _ => return Err(self.unexpected("\",\" or \"]\"")),
            }
        }
    }

    fn word(&mut self) -> Result<Json, Fault> {
        let words =
            [("null", Json::Null), ("true", Json::Bool(true)), ("false", Json::Bool(false))];
        for (word, value) in words {
            let rest = &self.text[self.at..];
            let is_whole = |behind: &str| !behind.starts_with(|c: char| c.is_alphanumeric());
            if rest.strip_prefix(word).is_some_and(is_whole) {
                self.at += word.len();
                return Ok(value);
            }
        }
        Err(self.unexpected("JSON value"))
    }

    fn digits(&mut self) -> Result<(), Fault> {
        let from = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        if from == self.at { Err(self.fault_at(from)) } else { Ok(()) }
    }

    fn fault_at(&mut self, from: usize) -> Fault {
        self.at = from;
        self.fault(&format!("token {} is invalid", quote(&self.text[from..])))
    }

    fn number(&mut self) -> Result<Json, Fault> {
        let from = self.at;
        self.eat(b'-');
        if !self.eat(b'0') {
            self.digits()?;
        }
        if self.eat(b'.') {
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            let _ = self.eat(b'-') || self.eat(b'+');
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'_')) {
            return Err(self.fault_at(from));
        }
        Ok(Json::Number(self.text[from..self.at].to_owned()))
    }

    fn string(&mut self) -> Result<String, Fault> {
        self.at += 1;
        let mut out = String::new();
        loop {
            let rest = &self.text[self.at..];
            let end = rest.find(|c: char| matches!(c, '"' | '\\') || c < ' ');
            let Some(end) = end else { return Err(self.fault("a string has no end")) };
            out.push_str(&rest[..end]);
            self.at += end + 1;
            match rest.as_bytes()[end] {
                b'"' => return Ok(out),
                b'\\' => out.push(self.escaped()?),
                control => {
                    let what = format!("character with value 0x{control:02x} must be escaped");
                    return Err(self.fault(&what));
                }
            }
        }
    }

    fn escaped(&mut self) -> Result<char, Fault> {
        let letter = self.text[self.at..].chars().next();
        self.at += letter.map_or(0, char::len_utf8);
        Ok(match letter {
            Some(same @ ('"' | '\\' | '/')) => same,
            Some('b') => '\u{8}',
            Some('f') => '\u{c}',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some('u') => self.unicode()?,
            Some(other) => {
                return Err(self.fault(&format!("escape sequence \"\\{other}\" is invalid")));
            }
            None => return Err(self.fault("a string has no end")),
        })
    }

    fn four(&mut self) -> Result<u32, Fault> {
        let digits = self.text.get(self.at..self.at + 4);
        let digits = digits.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let value = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
        self.at += 4;
        value.ok_or_else(|| self.fault("\"\\u\" must be followed by four hexadecimal digits"))
    }

    fn unicode(&mut self) -> Result<char, Fault> {
        let first = self.four()?;
        let code = match first {
            0xd800..0xdc00 => {
                let has_second = self.text.get(self.at..).is_some_and(|r| r.starts_with("\\u"));
                if has_second {
                    self.at += 2;
                    let second = self.four()?;
                    0x10000 + ((first - 0xd800) << 10) + second.wrapping_sub(0xdc00)
                } else {
                    first
                }
            }
            other => other,
        };
        let surrogate = "a Unicode high surrogate must be followed by a low surrogate";
        char::from_u32(code).ok_or_else(|| self.fault(surrogate))
    }
}
