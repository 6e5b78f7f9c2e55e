//! CSV files into a table.
//!
//! With a header and no column list the header's names decide which field goes where; otherwise
//! fields go to the columns in order. A field without quotes that equals the NULL text is NULL, as
//! in PostgreSQL; a quoted one is text, `""` the empty text.

use std::borrow::Cow;

use atoll::{DataType, Schema, Value};

use crate::error::{ApplyError, Cause, SqlError, SqlErrorKind};
use crate::load::{Progress, ROWS_PER_REPORT, Source};
use crate::records::{Record, Records, Text};
use crate::sink::Sink;
use crate::{names, text};

/// The dialect of a CSV file.
#[derive(Clone, Copy)]
pub(crate) struct Shape<'a> {
    /// Whether the first line names the columns.
    pub(crate) header: bool,
    /// The byte between two fields.
    pub(crate) delimiter: u8,
    /// The text of a field without a value.
    pub(crate) null: &'a str,
}

impl Shape<'_> {
    /// Whether a field stands for NULL.
    pub(crate) fn is_null(&self, field: Text<'_>) -> bool {
        !field.quoted && field.text == self.null
    }
}

/// Passes every row of a CSV file to a sink.
pub(crate) fn load(
    source: &Source,
    shape: Shape<'_>,
    sink: &mut dyn Sink,
    progress: &mut dyn FnMut(Progress),
) -> Result<(), ApplyError> {
    let bytes_total = source.input.bytes();
    let mut records = Records::new(source.input.reader()?, shape.delimiter);
    let schema = source.table.schema();
    let header = if shape.header { records.next()? } else { None };
    let targets: Vec<usize> = match (&source.columns, header) {
        (Some(columns), _) => columns.clone(),
        (None, Some(header)) => by_name(schema, source.table.name(), &header)?,
        (None, None) => names::copied_columns(schema)?,
    };
    names::check_copied(schema, &targets)?;
    sink.columns(&targets);
    let mut row = vec![Value::Null; schema.columns().len()];
    let mut rows = 0;
    while let Some(record) = records.next()? {
        let line = record.line;
        record.check_len(targets.len())?;
        check_blank(&record, schema, &targets)?;
        for (field, column) in record.iter().zip(&targets) {
            set_value(source, *column, field, shape, line, &mut row[*column])
                .map_err(|error| header_hint(error, line, shape))?;
        }
        sink.row(&row, &|| format!("line {line}"))?;
        rows += 1;
        if rows % ROWS_PER_REPORT == 0 {
            let bytes_done = records.bytes_done().min(bytes_total);
            progress(Progress { bytes_done, bytes_total, rows });
        }
    }
    progress(Progress { bytes_done: bytes_total, bytes_total, rows });
    Ok(())
}

/// In a file with one column a blank line before others is a row without a value.
fn check_blank(record: &Record<'_>, schema: &Schema, targets: &[usize]) -> Result<(), SqlError> {
    match (targets, record.blank_line) {
        ([column], Some(line)) => Err(null_in(&schema.columns()[*column].name, line)),
        _ => Ok(()),
    }
}

/// The error for a field without a value in a column that must have one.
pub(crate) fn null_in(column: &str, line: u64) -> SqlError {
    let message = format!("line {line}, column \"{column}\" must not be NULL");
    SqlError::new(SqlErrorKind::Constraint, message)
}

/// Sets a value from a field.
pub(crate) fn set_value(
    source: &Source,
    column: usize,
    field: Text<'_>,
    shape: Shape<'_>,
    line: u64,
    value: &mut Value,
) -> Result<(), SqlError> {
    let definition = &source.table.schema().columns()[column];
    let (name, data_type) = (&definition.name, definition.data_type);
    if shape.is_null(field) {
        if definition.nullable {
            *value = Value::Null;
            return Ok(());
        }
        let is_text = data_type == DataType::Text && shape.null.is_empty();
        let hint = is_text.then(|| "an empty text is written as \"\"".to_owned());
        return Err(null_in(name, line).with_hint(hint));
    }
    // The text of the row before gives its memory.
    if let (Value::Text(text), DataType::Text) = (&mut *value, data_type) {
        text.clear();
        text.push_str(field.text);
        return Ok(());
    }
    let is_cut = data_type == DataType::Timestamp && source.options.truncate_timestamps;
    let given = if is_cut { cut_to_micros(field.text) } else { Cow::Borrowed(field.text) };
    *value = text::parse(&given, data_type).map_err(|reason| {
        let message = format!("line {line}, column \"{name}\": {reason}");
        let state = SqlError::new(SqlErrorKind::Type, reason).sqlstate();
        let error = SqlError::new(SqlErrorKind::Input, message).with_state(state);
        let is_fine = data_type == DataType::Timestamp
            && text::parse(&cut_to_micros(field.text), data_type).is_ok();
        if is_fine { error.with_cause(Cause::FineTimestamp) } else { error }
    })?;
    Ok(())
}

/// A timestamp truncated to microseconds.
pub(crate) fn cut_to_micros(timestamp: &str) -> Cow<'_, str> {
    let Some(point) = timestamp.find('.') else { return Cow::Borrowed(timestamp) };
    let digits = timestamp[point + 1..].bytes().take_while(u8::is_ascii_digit).count();
    if digits <= 6 {
        return Cow::Borrowed(timestamp);
    }
    let (kept, rest) = (&timestamp[..point + 7], &timestamp[point + 1 + digits..]);
    Cow::Owned(format!("{kept}{rest}"))
}

/// An error on the first line of a file without header may mean that it has one.
fn header_hint(error: SqlError, line: u64, shape: Shape<'_>) -> SqlError {
    let suspect = line == 1 && !shape.header && error.hint().is_none();
    error.with_hint(
        suspect.then(|| "if the first line names the columns, add WITH (HEADER)".to_owned()),
    )
}

/// Positions of the columns that a header names.
fn by_name(schema: &Schema, table: &str, header: &Record<'_>) -> Result<Vec<usize>, SqlError> {
    let line = header.line;
    let known = || schema.visible().iter().map(|column| column.name.as_str());
    let mut targets = Vec::with_capacity(header.len());
    for name in names::of_header(header.iter().map(|field| field.text)).names {
        let at = names::find(known(), &name).ok_or_else(|| {
            let error = names::unknown_column(&name, Some(table), known());
            SqlError::new(SqlErrorKind::Input, format!("line {line}: {}", error.message()))
                .with_hint(error.hint().map(str::to_owned))
        })?;
        if targets.contains(&at) {
            return Err(named_twice(&name, line));
        }
        targets.push(at);
    }
    match names::without_value(schema, &targets)? {
        None => Ok(targets),
        Some(missing) => Err(SqlError::new(
            SqlErrorKind::Input,
            format!("the file has no column \"{}\", which must not be NULL", missing.name),
        )),
    }
}

/// The error for a header that names a column twice.
pub(crate) fn named_twice(name: &str, line: u64) -> SqlError {
    let message = format!("line {line} names column \"{name}\" twice");
    SqlError::new(SqlErrorKind::Input, message)
}

#[cfg(test)]
mod tests {
    use super::cut_to_micros;

    #[test]
    fn timestamps_are_cut_behind_six_digits() {
        for (given, wanted) in [
            ("2024-01-01 10:00:00.123456789", "2024-01-01 10:00:00.123456"),
            ("2024-01-01T10:00:00.1234567Z", "2024-01-01T10:00:00.123456Z"),
            ("2024-01-01 10:00:00.123", "2024-01-01 10:00:00.123"),
            ("2024-01-01", "2024-01-01"),
            ("a.b", "a.b"),
        ] {
            assert_eq!(cut_to_micros(given), wanted);
        }
    }
}
