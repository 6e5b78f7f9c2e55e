//! Creation of a table for a file: column names and types from its contents.
//!
//! Parquet files have types. Every line of a CSV file is read, so that the table can hold all of it
//! ([`crate::guess`]). All errors of columns are found before the table is created.

use arrow_schema::{DataType as ArrowType, FieldRef, TimeUnit};
use atoll::{COLUMNS_MAX, Column, DataType, Database, Schema, Table};

use crate::csv::{self as lines, Shape};
use crate::error::{SqlError, SqlErrorKind};
use crate::guess::Guess;
use crate::input::Input;
use crate::load::{Format, LoadOptions};
use crate::records::Records;
use crate::{names, parquet};

/// A table that was made for a file.
#[non_exhaustive]
pub struct Created {
    /// The table, empty.
    pub table: Table,
    /// Columns that have no name in the file and were given this one.
    pub named: Vec<String>,
    /// Columns without any value in the file, which are text.
    pub untyped: Vec<String>,
}

/// Creates an empty table with the columns of a file; [`crate::copy_from`] then loads it.
///
/// Columns may be NULL unless they are in `key`, the primary key. They keep their names in the
/// file; `key` may differ in capitals where that is not ambiguous.
///
/// # Errors
/// A file that cannot be read, a CSV file without header, more columns than a table may have, an
/// unsupported column type, a key that the file lacks or that is NULL in it, and a table of the
/// same name.
pub fn create_table_from(
    db: &Database,
    table: &str,
    input: &Input,
    format: &Format,
    options: &LoadOptions,
    key: &[&str],
) -> Result<Created, SqlError> {
    let Columns { mut columns, key, named, untyped } = match format {
        Format::Parquet => parquet_columns(input, table, key)?,
        Format::Csv { header: true, delimiter, null } => {
            let shape = Shape { header: true, delimiter: *delimiter, null };
            csv_columns(input, shape, options, table, key)?
        }
        Format::Csv { .. } | Format::Text { .. } | Format::Binary => {
            return Err(SqlError::new(
                SqlErrorKind::Input,
                "a CSV file without a header does not name its columns; create the table first",
            ));
        }
    };
    for at in &key {
        columns[*at].nullable = false;
    }
    let key: Vec<String> = key.iter().map(|at| columns[*at].name.clone()).collect();
    let key: Vec<&str> = key.iter().map(String::as_str).collect();
    let schema = Schema::new(columns, &key)?;
    let table = db.create_table(table, schema)?;
    Ok(Created { table, named, untyped })
}

/// The columns of a file.
struct Columns {
    columns: Vec<Column>,
    /// Positions of those in the primary key.
    key: Vec<usize>,
    /// Names that were given.
    named: Vec<String>,
    /// Names of those without any value.
    untyped: Vec<String>,
}

/// Positions of the columns of a primary key, once the number of columns is known to be permitted.
fn check_columns(names: &[String], table: &str, key: &[&str]) -> Result<Vec<usize>, SqlError> {
    if let Some(first) = names.get(COLUMNS_MAX) {
        let count = names.len();
        return Err(SqlError::new(
            SqlErrorKind::Schema,
            format!(
                "the file has {count} columns and a table at most {COLUMNS_MAX}; the first too \
                 many is \"{first}\""
            ),
        ));
    }
    let known = || names.iter().map(String::as_str);
    key.iter()
        .map(|name| {
            names::find(known(), name)
                .ok_or_else(|| names::unknown_column(name, Some(table), known()))
        })
        .collect()
}

fn parquet_columns(input: &Input, table: &str, key: &[&str]) -> Result<Columns, SqlError> {
    let builder = parquet::open(input)?;
    let fields = builder.schema().fields();
    let names = names::of_header(fields.iter().map(|field| field.name().as_str()));
    let key = check_columns(&names.names, table, key)?;
    let is_untyped = |(field, name): (&FieldRef, &String)| {
        (*field.data_type() == ArrowType::Null).then(|| name.clone())
    };
    let untyped = fields.iter().zip(&names.names).filter_map(is_untyped).collect();
    let columns = fields.iter().zip(names.names).map(|(field, name)| {
        let data_type = narrowest_column_type(field.data_type()).ok_or_else(|| {
            SqlError::unsupported(format!(
                "column \"{name}\" of the file has the type {}, which no table has",
                field.data_type()
            ))
        })?;
        Ok(Column::nullable(name, data_type))
    });
    let columns = columns.collect::<Result<_, SqlError>>()?;
    Ok(Columns { columns, key, named: names.given, untyped })
}

/// The narrowest type of a column that holds every value of an Arrow type.
pub fn narrowest_column_type(arrow: &ArrowType) -> Option<DataType> {
    Some(match arrow {
        ArrowType::Boolean => DataType::Bool,
        ArrowType::Int8 | ArrowType::UInt8 | ArrowType::Int16 => DataType::Int16,
        ArrowType::UInt16 | ArrowType::Int32 => DataType::Int32,
        ArrowType::UInt32 | ArrowType::Int64 => DataType::Int64,
        ArrowType::UInt64 => DataType::Decimal { precision: 20, scale: 0 },
        ArrowType::Float16 | ArrowType::Float32 => DataType::Float32,
        ArrowType::Float64 => DataType::Float64,
        ArrowType::Utf8 | ArrowType::LargeUtf8 | ArrowType::Utf8View => DataType::Text,
        ArrowType::Binary | ArrowType::LargeBinary | ArrowType::BinaryView => DataType::Binary,
        ArrowType::FixedSizeBinary(width) => DataType::FixedBinary(u32::try_from(*width).ok()?),
        ArrowType::Date32 => DataType::Date,
        ArrowType::List(item) => narrowest_column_type(item.data_type())?.array()?,
        ArrowType::Interval(_) | ArrowType::Duration(_) => DataType::Interval,
        ArrowType::Date64 => DataType::Timestamp,
        ArrowType::Timestamp(_, Some(_)) => DataType::TimestampTz,
        ArrowType::Time32(_) | ArrowType::Time64(_) => DataType::Time,
        ArrowType::Timestamp(
            TimeUnit::Second | TimeUnit::Millisecond | TimeUnit::Microsecond | TimeUnit::Nanosecond,
            _,
        ) => DataType::Timestamp,
        ArrowType::Decimal32(precision, scale)
        | ArrowType::Decimal64(precision, scale)
        | ArrowType::Decimal128(precision, scale)
        | ArrowType::Decimal256(precision, scale)
            if *precision <= 38 && *scale >= 0 =>
        {
            DataType::Decimal { precision: *precision, scale: u8::try_from(*scale).ok()? }
        }
        // A column without any value.
        ArrowType::Null => DataType::Text,
        ArrowType::Dictionary(_, values) => narrowest_column_type(values)?,
        ArrowType::RunEndEncoded(_, values) => narrowest_column_type(values.data_type())?,
        _ => return None,
    })
}

fn csv_columns(
    input: &Input,
    shape: Shape<'_>,
    options: &LoadOptions,
    table: &str,
    key: &[&str],
) -> Result<Columns, SqlError> {
    let mut records = Records::new(input.reader()?, shape.delimiter);
    let Some(header) = records.next()? else {
        let message = format!("{} is empty; its first line must name columns", input.name());
        return Err(SqlError::new(SqlErrorKind::Input, message));
    };
    let names = names::of_header(header.iter().map(|field| field.text));
    let line = header.line;
    let (names, named) = (names.names, names.given);
    let key = check_columns(&names, table, key)?;
    let twice = names.iter().enumerate().find(|(at, name)| names[..*at].contains(*name));
    if let Some((_, name)) = twice {
        return Err(lines::named_twice(name, line).with_hint(Some(
            "give the columns different names in the first line of the file".to_owned(),
        )));
    }
    let mut guesses = vec![Guess::new(); names.len()];
    while let Some(record) = records.next()? {
        let line = record.line;
        record.check_len(names.len())?;
        if let ([name], Some(line)) = (names.as_slice(), record.blank_line) {
            return Err(lines::null_in(name, line));
        }
        for (at, (field, guess)) in record.iter().zip(&mut guesses).enumerate() {
            if !shape.is_null(field) {
                guess.add(field, options.truncate_timestamps);
            } else if key.contains(&at) {
                let error = lines::null_in(&names[at], line);
                return Err(error.with_hint(Some("it is in the primary key".to_owned())));
            }
        }
    }
    let untyped = names.iter().zip(&guesses).filter(|(_, guess)| guess.is_blank());
    let untyped = untyped.map(|(name, _)| name.clone()).collect();
    let columns = names.into_iter().zip(guesses);
    let columns = columns.map(|(name, guess)| Column::nullable(name, guess.data_type())).collect();
    Ok(Columns { columns, key, named, untyped })
}
