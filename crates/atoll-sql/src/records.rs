//! The records of a CSV file: fields split at delimiters, each with a flag for quotes.
//!
//! The rules are those of RFC 4180, as PostgreSQL and the other common readers extend it:
//!
//! - A record ends at a line feed, a carriage return, or both. Blank lines are no records.
//! - A field that begins with a quote ends at the next quote that is not doubled. Delimiters and
//!   line breaks in it are text. Only blanks may follow its closing quote; they belong to it.
//! - In any other field a quote is a character like others.
//! - A byte-order mark at the start of the file is skipped.
//!
//! `CSV-1`: a quote that does not close, and text behind a closing quote, are errors with the line
//! where the quoted field begins: the following text would be misread.
//! `CSV-2`: at most [`RECORD_BYTES_MAX`] bytes are kept in memory, whatever the file holds.

use memchr::{memchr, memchr3};

use crate::error::{SqlError, SqlErrorKind};
use crate::input::Reader;

/// Bytes of the buffer as long as no record needs more.
const BUFFER_BYTES: usize = 1 << 18;
/// Longest record.
const RECORD_BYTES_MAX: usize = 1 << 30;
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();
const QUOTE: u8 = b'"';

/// Reads records one after the other.
pub(crate) struct Records {
    reader: Reader,
    delimiter: u8,
    buffer: Vec<u8>,
    /// The part of the buffer that has been read from the file and belongs to no record yet.
    start: usize,
    end: usize,
    /// The file has been read to its end.
    ended: bool,
    begun: bool,
    /// The line at `start`, from 1.
    line: u64,
    fields: Vec<Field>,
    /// Texts of fields that differ from the bytes in the buffer.
    copied: String,
}

/// Where the text of a field is.
#[derive(Clone, Copy)]
struct Field {
    start: usize,
    end: usize,
    /// The end of the bytes behind the closing quote, while the record is being read.
    tail: usize,
    quoted: bool,
    /// It is in [`Records::copied`], because it had doubled quotes or blanks behind the last one.
    copied: bool,
}

/// A record.
pub(crate) struct Record<'a> {
    /// The line on which it begins, from 1.
    pub(crate) line: u64,
    /// The first of the blank lines right before it.
    pub(crate) blank_line: Option<u64>,
    text: &'a str,
    copied: &'a str,
    fields: &'a [Field],
}

/// The text of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Text<'a> {
    /// Its text.
    pub(crate) text: &'a str,
    /// Whether it was quoted.
    pub(crate) quoted: bool,
}

impl<'a> Record<'a> {
    /// Number of its fields.
    pub(crate) fn len(&self) -> usize {
        self.fields.len()
    }

    /// Its fields in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Text<'a>> {
        let (text, copied) = (self.text, self.copied);
        self.fields.iter().map(move |field| {
            let from = if field.copied { copied } else { text };
            Text { text: &from[field.start..field.end], quoted: field.quoted }
        })
    }

    /// Checks the number of fields.
    ///
    /// # Errors
    /// Another number than this.
    pub(crate) fn check_len(&self, wanted: usize) -> Result<(), SqlError> {
        if self.len() == wanted {
            return Ok(());
        }
        let (line, given) = (self.line, self.len());
        Err(at_line(line, format!("has {given} fields, not {wanted}")))
    }
}

/// The item at the start of the unread bytes.
enum Found {
    /// A record, its bytes with and without its terminator, and the line breaks in it.
    Record { all: usize, text: usize, breaks: u64 },
    /// A blank line of so many bytes.
    Blank(usize),
    /// Something that goes on behind the bytes.
    More,
    /// Nothing.
    End,
}

impl Records {
    pub(crate) fn new(reader: Reader, delimiter: u8) -> Self {
        Self {
            reader,
            delimiter,
            buffer: vec![0; BUFFER_BYTES],
            start: 0,
            end: 0,
            ended: false,
            begun: false,
            line: 1,
            fields: Vec::new(),
            copied: String::new(),
        }
    }

    /// Bytes of the file that have been read.
    pub(crate) fn bytes_done(&self) -> u64 {
        self.reader.bytes_done()
    }

    /// Reads the next record; `None` at the end of the file.
    ///
    /// # Errors
    /// `CSV-1`, text that is not UTF-8, and errors of the reader.
    pub(crate) fn next(&mut self) -> Result<Option<Record<'_>>, SqlError> {
        if !self.begun {
            self.begin()?;
        }
        let mut blank_line = None;
        let (all, text, breaks) = loop {
            match self.find()? {
                Found::Record { all, text, breaks } => break (all, text, breaks),
                Found::Blank(bytes) => {
                    blank_line.get_or_insert(self.line);
                    self.line += 1;
                    self.start += bytes;
                }
                Found::More => self.fill()?,
                Found::End => return Ok(None),
            }
        };
        let (line, from) = (self.line, self.start);
        self.start += all;
        self.line += breaks + 1;
        let bytes = &self.buffer[from..from + text];
        let text = std::str::from_utf8(bytes).map_err(|error| {
            let line = line + line_breaks(&bytes[..error.valid_up_to()]);
            SqlError::new(SqlErrorKind::Input, format!("line {line}: the text is not UTF-8"))
        })?;
        self.copied.clear();
        for field in self.fields.iter_mut().filter(|field| field.copied) {
            let start = self.copied.len();
            for (at, part) in text[field.start..field.end].split("\"\"").enumerate() {
                if at > 0 {
                    self.copied.push('"');
                }
                self.copied.push_str(part);
            }
            self.copied.push_str(&text[field.end + 1..field.tail]);
            (field.start, field.end) = (start, self.copied.len());
        }
        let (copied, fields) = (self.copied.as_str(), self.fields.as_slice());
        Ok(Some(Record { line, blank_line, text, copied, fields }))
    }

    /// Skips a byte-order mark.
    fn begin(&mut self) -> Result<(), SqlError> {
        while self.end < BYTE_ORDER_MARK.len() && !self.ended {
            self.fill()?;
        }
        let first = &self.buffer[..self.end];
        if first.starts_with(BYTE_ORDER_MARK) {
            self.start = BYTE_ORDER_MARK.len();
        } else if first.starts_with(&[0xff, 0xfe]) || first.starts_with(&[0xfe, 0xff]) {
            let message = "line 1: the text is UTF-16, and only UTF-8 can be read";
            return Err(SqlError::new(SqlErrorKind::Input, message)
                .with_hint(Some("iconv -f UTF-16 -t UTF-8 converts it".to_owned())));
        }
        self.begun = true;
        Ok(())
    }

    /// Finds the next record and its fields.
    fn find(&mut self) -> Result<Found, SqlError> {
        let bytes = &self.buffer[self.start..self.end];
        // The end of a line that may be a carriage return and a line feed; `None` if the feed may
        // still come.
        let line_end = |at: usize| match (bytes.get(at), bytes.get(at + 1)) {
            (Some(b'\r'), Some(b'\n')) => Some(at + 2),
            (Some(b'\r'), None) if !self.ended => None,
            _ => Some(at + 1),
        };
        match bytes.first() {
            None if self.ended => return Ok(Found::End),
            None => return Ok(Found::More),
            Some(b'\n' | b'\r') => return Ok(line_end(0).map_or(Found::More, Found::Blank)),
            Some(_) => {}
        }
        self.fields.clear();
        let (mut at, mut breaks) = (0, 0);
        loop {
            let field = if bytes.get(at) == Some(&QUOTE) {
                let fault = |what: &str| {
                    let line = self.line + line_breaks(&bytes[..at]);
                    at_line(line, format!("field {}: {what}", self.fields.len() + 1))
                };
                let Some((close, doubled)) = closing_quote(bytes, at + 1, self.ended) else {
                    if self.ended {
                        return Err(fault("the quote that opens here never closes"));
                    }
                    return Ok(Found::More);
                };
                let tail = match memchr3(self.delimiter, b'\n', b'\r', &bytes[close + 1..]) {
                    Some(length) => close + 1 + length,
                    None if self.ended => bytes.len(),
                    None => return Ok(Found::More),
                };
                let behind = &bytes[close + 1..tail];
                if !behind.iter().all(|byte| matches!(byte, b' ' | b'\t')) {
                    let hint = match behind[0] {
                        other @ (b',' | b';' | b'\t' | b'|') => format!(
                            "does '{}' stand between the fields? name it as the delimiter",
                            char::from(other).escape_default()
                        ),
                        _ => "a quote inside quotes is written twice, as in \"5\"\" pipe\""
                            .to_owned(),
                    };
                    return Err(fault("text follows the closing quote").with_hint(Some(hint)));
                }
                breaks += line_breaks(&bytes[at..close]);
                let copied = doubled || tail > close + 1;
                Field { start: at + 1, end: close, tail, quoted: true, copied }
            } else {
                let end = match memchr3(self.delimiter, b'\n', b'\r', &bytes[at..]) {
                    Some(length) => at + length,
                    None if self.ended => bytes.len(),
                    None => return Ok(Found::More),
                };
                Field { start: at, end, tail: end, quoted: false, copied: false }
            };
            self.fields.push(field);
            match bytes.get(field.tail) {
                Some(byte) if *byte == self.delimiter => at = field.tail + 1,
                Some(_) => {
                    let Some(all) = line_end(field.tail) else { return Ok(Found::More) };
                    return Ok(Found::Record { all, text: field.tail, breaks });
                }
                None => return Ok(Found::Record { all: field.tail, text: field.tail, breaks }),
            }
        }
    }

    /// Reads more of the file behind what is not read yet.
    fn fill(&mut self) -> Result<(), SqlError> {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.end == self.buffer.len() {
            if self.end >= RECORD_BYTES_MAX {
                let error = at_line(self.line, "begins a record of more than 1 GiB".to_owned());
                return Err(error.with_hint(Some("does a quote never close?".to_owned())));
            }
            self.buffer.resize(self.end * 2, 0);
        }
        let read = self.reader.read(&mut self.buffer[self.end..])?;
        self.ended = read == 0;
        self.end += read;
        Ok(())
    }
}

/// The quote that closes a field with text from a place on, and whether there are doubled quotes
/// before it. A quote at the very end of the bytes may be the first of two unless they are all.
fn closing_quote(bytes: &[u8], from: usize, ended: bool) -> Option<(usize, bool)> {
    let (mut from, mut doubled) = (from, false);
    loop {
        let at = from + memchr(QUOTE, bytes.get(from..)?)?;
        match bytes.get(at + 1) {
            Some(&QUOTE) => (from, doubled) = (at + 2, true),
            None if !ended => return None,
            _ => return Some((at, doubled)),
        }
    }
}

/// Line breaks in a text.
fn line_breaks(bytes: &[u8]) -> u64 {
    if memchr::memchr2(b'\n', b'\r', bytes).is_none() {
        return 0;
    }
    let feeds = memchr::memchr_iter(b'\n', bytes).count();
    let returns = memchr::memchr_iter(b'\r', bytes)
        .filter(|at| bytes.get(at + 1).is_some_and(|next| *next != b'\n'))
        .count();
    (feeds + returns) as u64
}

fn at_line(line: u64, what: String) -> SqlError {
    let separator = if what.starts_with("field") { ", " } else { " " };
    SqlError::new(SqlErrorKind::Input, format!("line {line}{separator}{what}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::input::Input;

    /// The line of a record and its fields, each with whether it was quoted.
    type Read = (u64, Vec<(String, bool)>);

    /// Reads a text, the buffer being filled so many bytes at a time.
    fn read(text: &[u8], step: usize) -> Result<Vec<Read>, SqlError> {
        let input = Input::spool("s", text).unwrap();
        let mut records = Records::new(input.reader().unwrap(), b',');
        records.buffer.truncate(step);
        let mut all = Vec::new();
        while let Some(record) = records.next()? {
            let fields = record.iter().map(|field| (field.text.to_owned(), field.quoted));
            all.push((record.line, fields.collect()));
        }
        Ok(all)
    }

    /// The same with buffers of every size, from one byte on.
    fn all(text: &str) -> Vec<Read> {
        let whole = read(text.as_bytes(), 1 << 10).unwrap();
        for step in 1..40 {
            assert_eq!(read(text.as_bytes(), step).unwrap(), whole, "{text:?} by {step}");
        }
        whole
    }

    fn fields(text: &str) -> Vec<(String, bool)> {
        let mut records = all(text);
        assert_eq!(records.len(), 1, "{records:?}");
        records.remove(0).1
    }

    fn quoted(text: &str) -> (String, bool) {
        (text.to_owned(), true)
    }

    fn plain(text: &str) -> (String, bool) {
        (text.to_owned(), false)
    }

    #[test]
    fn quoted_fields_are_told_from_plain_ones() {
        assert_eq!(fields("\"\",,\"a\",a"), [quoted(""), plain(""), quoted("a"), plain("a")]);
        assert_eq!(fields("\"a, \"\"b\"\"\",\"\"\"\"\n"), [quoted("a, \"b\""), quoted("\"")]);
        assert_eq!(fields("\"a\" ,\"\"\t"), [quoted("a "), quoted("\t")]);
        assert_eq!(fields(",\n"), [plain(""), plain("")]);
    }

    #[test]
    fn a_quote_inside_a_plain_field_is_a_character() {
        assert_eq!(
            fields("5\" pipe,a\"\"b, \"c\"\n"),
            [plain("5\" pipe"), plain("a\"\"b"), plain(" \"c\"")]
        );
    }

    #[test]
    fn records_end_at_each_kind_of_line_break_and_know_their_line() {
        for end in ["\n", "\r\n", "\r"] {
            let text = ["a,1", "", "\"x", "y\",2", "b,3", ""].join(end);
            let records = all(&text);
            assert_eq!(records[0], (1, vec![plain("a"), plain("1")]));
            assert_eq!(records[1], (3, vec![quoted(&format!("x{end}y")), plain("2")]));
            assert_eq!(records[2], (5, vec![plain("b"), plain("3")]));
            assert_eq!(records.len(), 3);
        }
        assert_eq!(all("a"), [(1, vec![plain("a")])]);
        assert!(all("").is_empty() && all("\n\r\n\r\r").is_empty());
    }

    #[test]
    fn a_byte_order_mark_is_skipped_before_quotes_too() {
        assert_eq!(fields("\u{feff}\"id\",x"), [quoted("id"), plain("x")]);
        assert_eq!(fields("a\u{feff}"), [plain("a\u{feff}")]);
        assert!(all("\u{feff}").is_empty());
        let utf16 = read(&[0xff, 0xfe, b'a', 0], 9).unwrap_err();
        assert!(utf16.message().contains("UTF-16"), "{utf16}");
    }

    #[test]
    fn what_is_not_closed_names_the_line_where_it_opens() {
        for (text, wanted) in [
            ("a,b\n1,\"x\n2,y\n3,z\n", "line 2, field 2: the quote that opens here never closes"),
            ("\"a\r\nb\",\"c", "line 2, field 2: the quote that opens here never closes"),
            ("\"", "line 1, field 1: the quote that opens here never closes"),
            ("\"\"\"", "line 1, field 1: the quote that opens here never closes"),
            ("a\n\"5\" pipe\",x", "line 2, field 1: text follows the closing quote"),
        ] {
            for step in [1, 2, 3, 5, 100] {
                let error = read(text.as_bytes(), step).unwrap_err();
                assert_eq!(error.message(), wanted, "{text:?} by {step}");
            }
        }
    }

    #[test]
    fn text_that_is_not_utf8_names_its_line() {
        let error = read(b"a\n\"x\ny\xff\"\n", 100).unwrap_err();
        assert_eq!(error.message(), "line 3: the text is not UTF-8");
    }

    #[test]
    fn a_record_longer_than_the_buffer_is_whole() {
        let long = "x\n".repeat(BUFFER_BYTES);
        let records = read(format!("a,\"{long}\"\nb,c\n").as_bytes(), 64).unwrap();
        assert!(records[0].1[1] == quoted(&long));
        assert_eq!(records[1], (2 + long.len() as u64 / 2, vec![plain("b"), plain("c")]));
    }
}
