//! A text that is read statement by statement.

use std::io::{self, BufRead, Read};
use std::path::Path;

use atoll_sql::StatementScanner;

use crate::error::{CliError, Origin, Result};
use crate::shell::meta;

/// The next item of a script.
pub enum Item {
    /// A line that is a command of the shell.
    Command(String),
    /// A statement.
    Statement(Piece),
}

/// A script that is being read.
pub struct Script<'n, R> {
    reader: R,
    /// What it is called in errors; `None` for the command line.
    name: Option<&'n str>,
    /// Lines that were read.
    lines: u64,
    bytes: Vec<u8>,
    pending: Pending,
}

impl<'n, R: BufRead> Script<'n, R> {
    /// A script; its errors report `name`.
    pub fn new(reader: R, name: Option<&'n str>) -> Self {
        let (bytes, pending) = (Vec::new(), Pending::default());
        Self { reader, name, lines: 0, bytes, pending }
    }

    /// The next statement or command; `None` at the end.
    ///
    /// # Errors
    /// A script that cannot be read, and text that is not UTF-8.
    pub fn next(&mut self) -> Result<Option<Item>> {
        let shown = self.name.unwrap_or("(command line)");
        loop {
            while let Some(piece) = self.pending.next() {
                if !piece.is_empty() {
                    return Ok(Some(Item::Statement(piece)));
                }
            }
            self.bytes.clear();
            let read = self.reader.read_until(b'\n', &mut self.bytes);
            if read.map_err(CliError::reading(Path::new(shown)))? == 0 {
                return Ok(std::mem::take(&mut self.pending).rest().map(Item::Statement));
            }
            self.lines += 1;
            let line = std::str::from_utf8(&self.bytes).map_err(|_| {
                CliError::new(format!("line {} of {shown} is not UTF-8 text", self.lines))
            })?;
            // Some editors put a byte-order mark before the first line.
            let line = if self.lines == 1 { line.trim_start_matches('\u{feff}') } else { line };
            if self.pending.is_blank() {
                self.pending = Pending::at_line(self.lines);
                if meta::is_command(line) {
                    return Ok(Some(Item::Command(line.to_owned())));
                }
            }
            self.pending.push(line);
        }
    }

    /// The lines of data behind a `COPY … FROM STDIN`, up to one that is `\\.`, and the number of
    /// the first.
    pub fn data(&mut self) -> (Data<'_, R>, u64) {
        let first = self.lines + 1;
        let Self { reader, lines, .. } = self;
        (Data { reader, lines, line: Vec::new(), given: 0, has_ended: false }, first)
    }

    /// The error of a script with a closed output: that it has not run to its end, if statements
    /// are left.
    pub fn cut(&mut self) -> CliError {
        match self.next() {
            Ok(Some(Item::Command(line))) if meta::is_quit(&line) => CliError::OutputClosed,
            Ok(Some(_)) => CliError::ScriptCut,
            Ok(None) => CliError::OutputClosed,
            Err(error) => error,
        }
    }
}

/// See [`Script::data`].
pub struct Data<'s, R> {
    reader: &'s mut R,
    lines: &'s mut u64,
    line: Vec<u8>,
    /// Bytes of the line that were given out.
    given: usize,
    has_ended: bool,
}

impl<R: BufRead> Read for Data<'_, R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.given == self.line.len() && !self.has_ended {
            (self.given, self.has_ended) = (0, true);
            self.line.clear();
            if self.reader.read_until(b'\n', &mut self.line)? > 0 {
                *self.lines += 1;
                self.has_ended = matches!(self.line.as_slice(), b"\\.\n" | b"\\.\r\n" | b"\\.");
            }
            if self.has_ended {
                self.line.clear();
            }
        }
        let rest = &self.line[self.given..];
        let length = rest.len().min(into.len());
        into[..length].copy_from_slice(&rest[..length]);
        self.given += length;
        Ok(length)
    }
}

/// The part of a text that was read and not yet carried out. Each byte is looked at once, however
/// the text comes.
#[derive(Default)]
pub struct Pending {
    text: String,
    /// Bytes of `text` that belong to statements which were given out.
    given: usize,
    /// Bytes of `text` in which the scanner has looked.
    scanned: usize,
    scanner: StatementScanner,
    /// Line on which what is left of `text` starts, from 1.
    line: u64,
    /// Characters of that line before it.
    column: u64,
}

/// A statement of a script.
pub struct Piece {
    /// The statement with its semicolon and what stands before it.
    pub text: String,
    /// The line where it starts, and the characters before it there.
    place: (u64, u64),
}

impl Piece {
    /// Where the statement starts in a script with a name.
    pub fn origin(&self, script: Option<&str>) -> Option<Origin> {
        let (line, column) = self.place;
        script.map(|script| Origin { script: script.to_owned(), line, column })
    }

    /// Whether there is nothing to carry out before the semicolon.
    pub fn is_empty(&self) -> bool {
        let mut scanner = StatementScanner::new();
        let before = self.text.strip_suffix(';').unwrap_or(&self.text);
        scanner.advance(before).is_none() && scanner.is_blank()
    }
}

impl Pending {
    /// Nothing yet; what comes starts on a line.
    pub fn at_line(line: u64) -> Self {
        Self { line, ..Self::default() }
    }

    /// Whether there is nothing but space and comments.
    pub fn is_blank(&self) -> bool {
        self.scanner.is_blank()
    }

    /// Adds text at the end. [`Self::next`] has given out what ended before.
    pub fn push(&mut self, text: &str) {
        self.text.drain(..self.given);
        self.scanned -= self.given;
        self.given = 0;
        self.text.push_str(text);
    }

    /// The next statement that has ended.
    pub fn next(&mut self) -> Option<Piece> {
        match self.scanner.advance(&self.text[self.scanned..]) {
            Some(length) => {
                self.scanned += length;
                Some(self.give(self.scanned))
            }
            None => {
                self.scanned = self.text.len();
                None
            }
        }
    }

    /// What is left at the end of the text, unless it is blank.
    pub fn rest(mut self) -> Option<Piece> {
        (!self.is_blank()).then(|| self.give(self.text.len()))
    }

    fn give(&mut self, end: usize) -> Piece {
        let text = self.text[self.given..end].to_owned();
        let place = (self.line, self.column);
        self.given = end;
        let breaks = text.bytes().filter(|byte| *byte == b'\n').count() as u64;
        self.line += breaks;
        if breaks > 0 {
            self.column = 0;
        }
        let last = text.rsplit('\n').next().unwrap_or(&text);
        self.column += last.chars().count() as u64;
        Piece { text, place }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// The statements of a text that comes in these pieces, with their places.
    fn all(pieces: &[&str]) -> Vec<(String, (u64, u64))> {
        let mut pending = Pending::at_line(1);
        let mut found = Vec::new();
        for piece in pieces {
            pending.push(piece);
            while let Some(Piece { text, place }) = pending.next() {
                found.push((text, place));
            }
        }
        found.extend(pending.rest().map(|Piece { text, place }| (text, place)));
        found
    }

    #[test]
    fn statements_end_at_semicolons_that_are_not_quoted() {
        let texts = |pieces: &[&str]| -> Vec<String> {
            all(pieces).into_iter().map(|(text, _)| text).collect()
        };
        assert_eq!(texts(&["SELECT ';' ; SELECT 2;"]), ["SELECT ';' ;", " SELECT 2;"]);
        assert_eq!(texts(&["SELECT 1 -- a; b\n", ";x"]), ["SELECT 1 -- a; b\n;", "x"]);
        assert_eq!(texts(&["SELECT 1"]), ["SELECT 1"]);
        assert_eq!(texts(&["SELECT ';\n", "';", " -- x"]), ["SELECT ';\n';"]);
    }

    #[test]
    fn statements_know_their_places() {
        let found = all(&["SELECT 1; SELECT\n", "2;é;\n", "SELECT 3"]);
        let places: Vec<_> = found.into_iter().map(|(_, place)| place).collect();
        assert_eq!(places, [(1, 0), (1, 9), (2, 2), (2, 4)]);
    }

    #[test]
    fn a_semicolon_alone_is_no_statement() {
        for (text, is_empty) in
            [(";", true), (" -- x\n ;", true), ("/* ; */;", true), ("a;", false), ("';';", false)]
        {
            let mut pending = Pending::at_line(1);
            pending.push(text);
            assert_eq!(pending.next().unwrap().is_empty(), is_empty, "{text}");
        }
    }
}
