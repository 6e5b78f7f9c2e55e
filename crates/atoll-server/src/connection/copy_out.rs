//! `COPY … TO STDOUT`: the rows of a query as lines or in binary form.

use std::sync::Arc;

use atoll_sql::{CopyFormat, CopyOut, Outcome};

use super::Connection;
use super::report::{of_error, report};
use super::rows::Rows;
use crate::link::Fault;
use crate::values::{Cell, Column, put_text, put_value};
use crate::wire::out::Out;

/// What data in binary form begin with: a signature, no flags, nothing more in the head.
const HEAD: &[u8; 19] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";

impl Connection {
    /// Carries out a `COPY … TO STDOUT`, and returns its command tag.
    pub(super) fn copy_out(&mut self, sql: &str, before: usize) -> Result<String, Fault> {
        let failed = |error| of_error(&error, sql, before);
        self.client.begin();
        let CopyOut { format, rows } = self.session.copy_out(sql).map_err(failed)?;
        let mut rows = match rows {
            Outcome::Rows(rows) => Rows::of_result(rows, "COPY"),
            Outcome::Stream(rows) => Rows::of_stream(rows, "COPY"),
            other => return Ok(other.tag().unwrap_or_default().to_owned()),
        };
        let columns = rows.columns(&self.session);
        let out = &mut self.wire.out;
        let open = out.begin(b'H');
        let code = i16::from(format == CopyFormat::Binary);
        out.raw().push(code as u8);
        out.i16(columns.len() as i16);
        columns.iter().for_each(|_| out.i16(code));
        out.end(open);
        put_head(&format, &columns, out);
        // Clients expect it in one message with the first row, or with the end.
        let mut head = (format == CopyFormat::Binary).then_some(HEAD);
        let client = Arc::clone(&self.client);
        let goes_on = || !client.is_terminated();
        let mut fields = Vec::new();
        rows.each(&columns, &mut |cells| {
            let before = self.wire.out.len();
            let open = self.wire.out.begin(b'd');
            self.wire.out.raw().extend_from_slice(head.take().map_or(&[], <[u8; 19]>::as_slice));
            let put = put_row(cells, &columns, &format, &mut fields, &mut self.wire.out);
            if let Err(why) = put {
                self.wire.out.cut(before);
                return Err(report("22P03", why).into());
            }
            self.wire.out.end(open);
            Ok(self.wire.flush_if_full(&goes_on)?)
        })?;
        let out = &mut self.wire.out;
        if format == CopyFormat::Binary {
            let open = out.begin(b'd');
            out.raw().extend_from_slice(head.take().map_or(&[], <[u8; 19]>::as_slice));
            out.i16(-1);
            out.end(open);
        }
        out.bare(b'c');
        Ok(format!("COPY {}", rows.sent()))
    }
}

/// What stands before the rows.
fn put_head(format: &CopyFormat, columns: &[Column], out: &mut Out) {
    match format {
        CopyFormat::Text { header: true, delimiter, .. } => {
            let open = out.begin(b'd');
            for (at, column) in columns.iter().enumerate() {
                separate(at, *delimiter, out.raw());
                escape(column.name.as_bytes(), *delimiter, out.raw());
            }
            out.raw().push(b'\n');
            out.end(open);
        }
        CopyFormat::Csv { header: true, delimiter, null, quote, escape, .. } => {
            let csv = Csv { delimiter: *delimiter, null, quote: *quote, escape: *escape };
            let open = out.begin(b'd');
            for (at, column) in columns.iter().enumerate() {
                separate(at, *delimiter, out.raw());
                csv.put(column.name.as_bytes(), false, columns.len() == 1, out.raw());
            }
            out.raw().push(b'\n');
            out.end(open);
        }
        _ => {}
    }
}

fn separate(at: usize, delimiter: u8, out: &mut Vec<u8>) {
    if at > 0 {
        out.push(delimiter);
    }
}

/// Writes a row.
fn put_row(
    cells: &mut dyn Iterator<Item = Result<Cell<'_>, String>>,
    columns: &[Column],
    format: &CopyFormat,
    field: &mut Vec<u8>,
    out: &mut Out,
) -> Result<(), String> {
    if *format == CopyFormat::Binary {
        out.i16(columns.len() as i16);
        for (cell, column) in cells.zip(columns) {
            put_value(&cell?, column.oid, 1, out)
                .map_err(|why| format!("column \"{}\": {why}", column.name))?;
        }
        return Ok(());
    }
    for (at, cell) in cells.enumerate() {
        let cell = cell?;
        field.clear();
        put_text(&cell, field);
        let out = out.raw();
        match format {
            CopyFormat::Text { delimiter, null, .. } => {
                separate(at, *delimiter, out);
                match cell {
                    Cell::Null => out.extend_from_slice(null.as_bytes()),
                    _ => escape(field, *delimiter, out),
                }
            }
            CopyFormat::Csv { delimiter, null, quote, escape, forced, .. } => {
                separate(at, *delimiter, out);
                let csv = Csv { delimiter: *delimiter, null, quote: *quote, escape: *escape };
                match cell {
                    Cell::Null => out.extend_from_slice(null.as_bytes()),
                    _ => csv.put(
                        field,
                        forced.get(at).copied().unwrap_or(false),
                        columns.len() == 1,
                        out,
                    ),
                }
            }
            CopyFormat::Binary => {}
        }
    }
    out.raw().push(b'\n');
    Ok(())
}

/// Writes a field of the text format.
fn escape(field: &[u8], delimiter: u8, out: &mut Vec<u8>) {
    for byte in field {
        let letter = match byte {
            b'\\' => b'\\',
            8 => b'b',
            12 => b'f',
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            11 => b'v',
            other if *other == delimiter => delimiter,
            other => {
                out.push(*other);
                continue;
            }
        };
        out.extend_from_slice(&[b'\\', letter]);
    }
}

/// How fields of comma-separated values are written.
struct Csv<'c> {
    delimiter: u8,
    null: &'c str,
    quote: u8,
    escape: u8,
}

impl Csv<'_> {
    fn put(&self, field: &[u8], is_forced: bool, is_only: bool, out: &mut Vec<u8>) {
        let is_special = |byte: &u8| [self.delimiter, self.quote, b'\n', b'\r'].contains(byte);
        let needs_quotes = is_forced
            || field == self.null.as_bytes()
            || is_only && field == b"\\."
            || field.iter().any(is_special);
        if !needs_quotes {
            out.extend_from_slice(field);
            return;
        }
        out.push(self.quote);
        for byte in field {
            if [self.quote, self.escape].contains(byte) {
                out.push(self.escape);
            }
            out.push(*byte);
        }
        out.push(self.quote);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn fields_are_quoted_where_they_would_be_misread() {
        let csv = Csv { delimiter: b',', null: "", quote: b'"', escape: b'"' };
        for (field, wanted) in [
            ("a", "a"),
            ("", "\"\""),
            ("a,b", "\"a,b\""),
            ("say \"x\"", "\"say \"\"x\"\"\""),
            ("\\.", "\"\\.\""),
            ("two\nlines", "\"two\nlines\""),
        ] {
            let mut out = Vec::new();
            csv.put(field.as_bytes(), false, true, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), wanted);
        }
        let mut out = Vec::new();
        escape(b"a\tb\\c\nd|", b'|', &mut out);
        assert_eq!(out, b"a\\tb\\\\c\\nd\\|");
    }
}
