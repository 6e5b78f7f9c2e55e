//! The text format of PostgreSQL's `COPY`: a line for each row, its fields between tabs, and
//! backslashes before the characters that would end a field or a line.
//!
//! `COPYTEXT-1`: a field that is the NULL text as it is written is NULL; any other is read with its
//! backslashes, so the text `\N` itself is written `\\N`. A line that is `\.` ends the data.

use atoll::Value;
use memchr::memchr;

use crate::csv::{Shape, set_value};
use crate::error::{ApplyError, SqlError, SqlErrorKind};
use crate::input::Reader;
use crate::load::{Progress, ROWS_PER_REPORT, Source};
use crate::names;
use crate::records::Text;
use crate::sink::Sink;

/// Bytes that are read at once.
const CHUNK_BYTES: usize = 1 << 18;
/// Longest line.
const LINE_BYTES_MAX: usize = 1 << 30;

/// Passes every row of the data to a sink.
pub(crate) fn load(
    source: &Source,
    shape: Shape<'_>,
    sink: &mut dyn Sink,
    progress: &mut dyn FnMut(Progress),
) -> Result<(), ApplyError> {
    let bytes_total = source.input.bytes();
    let mut lines = Lines::new(source.input.reader()?, source.input.line());
    let schema = source.table.schema();
    if shape.header {
        lines.next()?;
    }
    let targets = match &source.columns {
        Some(columns) => columns.clone(),
        None => names::copied_columns(schema)?,
    };
    names::check_copied(schema, &targets)?;
    sink.columns(&targets);
    let mut row = vec![Value::Null; schema.columns().len()];
    let (mut rows, mut field) = (0, Vec::new());
    while let Some((line, number)) = lines.next()? {
        if line == b"\\." {
            break;
        }
        let mut rest = Some(line);
        for column in &targets {
            let Some(text) = rest else {
                let name = &schema.columns()[*column].name;
                return Err(at_line(number, format!("misses data for column \"{name}\"")).into());
            };
            let end = end_of_field(text, shape.delimiter);
            rest = end.map(|end| &text[end + 1..]);
            let text = &text[..end.unwrap_or(text.len())];
            let is_null = text == shape.null.as_bytes();
            let text = match is_null || memchr(b'\\', text).is_none() {
                true => text,
                false => {
                    field.clear();
                    unescape(text, &mut field);
                    &field
                }
            };
            let text = std::str::from_utf8(text)
                .map_err(|_| at_line(number, "has text that is not UTF-8".to_owned()))?;
            if text.contains('\0') {
                return Err(at_line(number, "has the character U+0000".to_owned()).into());
            }
            let field = Text { text, quoted: !is_null };
            set_value(source, *column, field, shape, number, &mut row[*column])?;
        }
        if rest.is_some_and(|rest| !targets.is_empty() || !rest.is_empty()) {
            let message = "has extra data after last expected column";
            return Err(at_line(number, message.to_owned()).into());
        }
        sink.row(&row, &|| format!("line {number}"))?;
        rows += 1;
        if rows % ROWS_PER_REPORT == 0 {
            let bytes_done = lines.reader.bytes_done().min(bytes_total);
            progress(Progress { bytes_done, bytes_total, rows });
        }
    }
    progress(Progress { bytes_done: bytes_total, bytes_total, rows });
    Ok(())
}

fn at_line(line: u64, what: String) -> SqlError {
    SqlError::new(SqlErrorKind::Input, format!("line {line} {what}")).with_state("22P04")
}

/// The place of the delimiter behind a field: the first without a backslash.
fn end_of_field(text: &[u8], delimiter: u8) -> Option<usize> {
    let mut at = 0;
    loop {
        let end = at + memchr(delimiter, &text[at..])?;
        let backslashes = text[..end].iter().rev().take_while(|byte| **byte == b'\\').count();
        if backslashes % 2 == 0 {
            return Some(end);
        }
        at = end + 1;
    }
}

/// Adds the bytes that a field with backslashes stands for.
fn unescape(mut text: &[u8], into: &mut Vec<u8>) {
    while let Some(at) = memchr(b'\\', text) {
        into.extend_from_slice(&text[..at]);
        let behind = &text[at + 1..];
        let (byte, used) = match behind {
            [] => (b'\\', 0),
            [b'b', ..] => (8, 1),
            [b'f', ..] => (12, 1),
            [b'n', ..] => (b'\n', 1),
            [b'r', ..] => (b'\r', 1),
            [b't', ..] => (b'\t', 1),
            [b'v', ..] => (11, 1),
            [b'x', rest @ ..] => match number(rest, 16, 2) {
                (_, 0) => (b'x', 1),
                (byte, digits) => (byte, 1 + digits),
            },
            [b'0'..=b'7', ..] => number(behind, 8, 3),
            [other, ..] => (*other, 1),
        };
        into.push(byte);
        text = &behind[used..];
    }
    into.extend_from_slice(text);
}

/// The number that text begins with, in so many digits at most.
fn number(text: &[u8], base: u32, digits: usize) -> (u8, usize) {
    let values = text.iter().take(digits).map_while(|byte| char::from(*byte).to_digit(base));
    values.fold((0, 0), |(number, used), digit| {
        (u32::from(number).wrapping_mul(base).wrapping_add(digit) as u8, used + 1)
    })
}

/// Reads lines one after the other.
struct Lines {
    reader: Reader,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    has_ended: bool,
    /// The number of the next line.
    line: u64,
}

impl Lines {
    fn new(reader: Reader, line: u64) -> Self {
        let buffer = vec![0; CHUNK_BYTES];
        Self { reader, buffer, start: 0, end: 0, has_ended: false, line }
    }

    /// The next line, without its end, and its number.
    fn next(&mut self) -> Result<Option<(&[u8], u64)>, SqlError> {
        let mut looked = 0;
        let length = loop {
            let unread = &self.buffer[self.start..self.end];
            if let Some(at) = memchr(b'\n', &unread[looked..]) {
                break looked + at + 1;
            }
            looked = unread.len();
            if self.has_ended {
                break looked;
            }
            self.fill()?;
        };
        if length == 0 {
            return Ok(None);
        }
        let (from, number) = (self.start, self.line);
        self.start += length;
        self.line += 1;
        let line = &self.buffer[from..from + length];
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        Ok(Some((line.strip_suffix(b"\r").unwrap_or(line), number)))
    }

    /// Reads more behind what is unread.
    fn fill(&mut self) -> Result<(), SqlError> {
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        if self.end == self.buffer.len() {
            if self.end >= LINE_BYTES_MAX {
                let message = format!("is longer than {LINE_BYTES_MAX} bytes");
                return Err(at_line(self.line, message));
            }
            self.buffer.resize(self.end * 2, 0);
        }
        match self.reader.read(&mut self.buffer[self.end..])? {
            0 => self.has_ended = true,
            read => self.end += read,
        }
        Ok(())
    }
}

/// A text as a field of the format.
pub(crate) fn escaped(text: &str, into: &mut String) {
    for character in text.chars() {
        match character {
            '\\' => into.push_str("\\\\"),
            '\u{8}' => into.push_str("\\b"),
            '\u{c}' => into.push_str("\\f"),
            '\n' => into.push_str("\\n"),
            '\r' => into.push_str("\\r"),
            '\t' => into.push_str("\\t"),
            '\u{b}' => into.push_str("\\v"),
            other => into.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn backslashes_are_read_as_postgresql_reads_them() {
        for (given, wanted) in [
            (r"a\tb\nc\\", "a\tb\nc\\"),
            (r"\b\f\v\r", "\u{8}\u{c}\u{b}\r"),
            (r"\x41\x4g\xg\101\60z\.", "A\u{4}gxgA0z."),
            (r"\\N", r"\N"),
            ("a\\", "a\\"),
        ] {
            let mut found = Vec::new();
            unescape(given.as_bytes(), &mut found);
            assert_eq!(String::from_utf8(found).unwrap(), wanted, "{given}");
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        for text in ["", "a\tb", "\\N", "\\.", "line\r\nbreak", "\u{b}\u{8}\u{c}", "\\t", "é\\"] {
            let (mut written, mut read) = (String::new(), Vec::new());
            escaped(text, &mut written);
            assert_eq!(end_of_field(written.as_bytes(), b'\t'), None, "{text}");
            unescape(written.as_bytes(), &mut read);
            assert_eq!(String::from_utf8(read).unwrap(), text);
        }
        assert_eq!(end_of_field(br"a\	b	c", b'\t'), Some(4));
    }
}
