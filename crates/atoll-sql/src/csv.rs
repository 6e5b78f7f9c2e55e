//! CSV files into a table.
//!
//! With a header and no column list the header's names decide which field goes where; otherwise
//! fields go to the columns in order. A field that equals the NULL text is NULL in a column that
//! may be NULL; in any other it is taken as it stands. Quoted and plain fields are not told apart.

use atoll::{Schema, Transaction, Value};
use csv::{Position, Reader, ReaderBuilder, StringRecord};

use crate::copy::{Progress, ROWS_PER_REPORT, Source};
use crate::error::{SqlError, SqlErrorKind};
use crate::txn::Stop;
use crate::{names, text};

/// Bytes that are read from a file at once.
const BUFFER_BYTES: usize = 1 << 18;

/// How a CSV file is written.
#[derive(Clone, Copy)]
pub(crate) struct Shape<'a> {
    /// Whether the first line names the columns.
    pub(crate) header: bool,
    /// The byte between two fields.
    pub(crate) delimiter: u8,
    /// What a field without a value holds.
    pub(crate) null: &'a str,
}

/// A reader of records, which checks the length of each itself so that it can say where it is.
pub(crate) fn reader(file: std::fs::File, shape: Shape<'_>) -> Reader<std::fs::File> {
    ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .delimiter(shape.delimiter)
        .buffer_capacity(BUFFER_BYTES)
        .from_reader(file)
}

/// Inserts every row of a CSV file and says how many there were.
pub(crate) fn load(
    source: &Source,
    shape: Shape<'_>,
    transaction: &mut Transaction,
    progress: &mut dyn FnMut(Progress),
) -> Result<u64, Stop> {
    let (file, bytes_total) = source.open()?;
    let mut reader = reader(file, shape);
    let schema = source.table.schema();
    let mut record = StringRecord::new();
    let header = shape.header && read(&mut reader, &mut record)?;
    let targets = match &source.columns {
        Some(columns) => columns.clone(),
        None if header => by_name(schema, source.table.name(), &record)?,
        None => (0..schema.columns().len()).collect(),
    };
    let mut row = vec![Value::Null; schema.columns().len()];
    let mut rows = 0;
    while read(&mut reader, &mut record)? {
        let line = line(&record);
        check_width(&record, targets.len(), line)?;
        for (field, column) in record.iter().zip(&targets) {
            row[*column] = value(schema, *column, field, shape.null, line)
                .map_err(|error| header_hint(error, line, shape))?;
        }
        source.insert(transaction, &row, || format!("line {line}"))?;
        rows += 1;
        if rows % ROWS_PER_REPORT == 0 {
            let bytes_done = reader.position().byte();
            progress(Progress { bytes_done, bytes_total, rows });
        }
    }
    progress(Progress { bytes_done: bytes_total, bytes_total, rows });
    Ok(rows)
}

/// Reads the next record; `false` at the end of the file.
pub(crate) fn read(
    reader: &mut Reader<std::fs::File>,
    record: &mut StringRecord,
) -> Result<bool, SqlError> {
    reader.read_record(record).map_err(|error| {
        let place = error
            .position()
            .map(Position::line)
            .map_or(String::new(), |line| format!("line {line}: "));
        let what = match error.kind() {
            csv::ErrorKind::Utf8 { .. } => "the text is not UTF-8".to_owned(),
            csv::ErrorKind::Io(io) => format!("the file cannot be read: {io}"),
            _ => error.to_string(),
        };
        SqlError::new(SqlErrorKind::Input, format!("{place}{what}"))
    })
}

/// The line on which a record begins, from 1.
pub(crate) fn line(record: &StringRecord) -> u64 {
    record.position().map_or(0, Position::line)
}

/// Checks the number of fields of a record.
pub(crate) fn check_width(record: &StringRecord, width: usize, line: u64) -> Result<(), SqlError> {
    if record.len() == width {
        return Ok(());
    }
    Err(SqlError::new(
        SqlErrorKind::Input,
        format!("line {line} has {} fields, not {width}", record.len()),
    ))
}

fn value(
    schema: &Schema,
    column: usize,
    field: &str,
    null: &str,
    line: u64,
) -> Result<Value, SqlError> {
    let definition = &schema.columns()[column];
    if definition.nullable && field == null {
        return Ok(Value::Null);
    }
    text::parse(field, definition.data_type).map_err(|reason| {
        let name = &definition.name;
        SqlError::new(SqlErrorKind::Input, format!("line {line}, column \"{name}\": {reason}"))
    })
}

/// An error on the first line of a file without header may mean that it has one.
fn header_hint(error: SqlError, line: u64, shape: Shape<'_>) -> SqlError {
    let suspect = line == 1 && !shape.header;
    error.with_hint(
        suspect.then(|| "if the first line names the columns, add WITH (HEADER)".to_owned()),
    )
}

/// Positions of the columns that a header names.
fn by_name(schema: &Schema, table: &str, header: &StringRecord) -> Result<Vec<usize>, SqlError> {
    let mut targets = Vec::with_capacity(header.len());
    for name in header {
        // Some programs put a byte-order mark before the first name.
        let name = name.trim_start_matches('\u{feff}').trim();
        let at = schema
            .position(name)
            .or_else(|| schema.position(&name.to_lowercase()))
            .ok_or_else(|| {
                let known = schema.columns().iter().map(|column| column.name.as_str());
                let error = names::unknown_column(name, Some(table), known).within("line 1");
                SqlError::new(SqlErrorKind::Input, error.message())
                    .with_hint(error.hint().map(str::to_owned))
            })?;
        if targets.contains(&at) {
            let message = format!("line 1 names column \"{name}\" twice");
            return Err(SqlError::new(SqlErrorKind::Input, message));
        }
        targets.push(at);
    }
    let mut columns = schema.columns().iter().enumerate();
    match columns.find(|(at, column)| !column.nullable && !targets.contains(at)) {
        None => Ok(targets),
        Some((_, missing)) => Err(SqlError::new(
            SqlErrorKind::Input,
            format!("the file has no column \"{}\", which must not be NULL", missing.name),
        )),
    }
}
