//! A table for a file: column names and types from what the file holds.
//!
//! Parquet files say their types. Of a CSV file every line is read, so that a table made for it
//! takes all of it: a column is the first of bigint, double precision, boolean, date, timestamp and
//! text that every field of it is.

use std::path::Path;

use arrow_schema::{DataType as ArrowType, TimeUnit};
use atoll::{Column, DataType, Database, Schema, Table};
use csv::StringRecord;

use crate::copy::Format;
use crate::error::{SqlError, SqlErrorKind};
use crate::{csv as lines, names, parquet, text};

/// Types of CSV columns, the one to prefer first.
const CANDIDATES: [DataType; 6] = [
    DataType::Int64,
    DataType::Float64,
    DataType::Bool,
    DataType::Date,
    DataType::Timestamp,
    DataType::Text,
];

/// Creates an empty table whose columns are those of a file; [`crate::copy_from`] then loads it.
///
/// Columns may be NULL unless they are in `key`, the primary key. Names are folded to lower case.
///
/// # Errors
/// A file that cannot be read, a CSV file without header, a column type that no table has, a key
/// that the file has not, and a table of the same name.
pub fn create_table_from(
    db: &Database,
    table: &str,
    path: &Path,
    format: &Format,
    key: &[&str],
) -> Result<Table, SqlError> {
    let mut columns = match format {
        Format::Parquet => parquet_columns(path)?,
        Format::Csv { header: true, delimiter, null } => {
            csv_columns(path, lines::Shape { header: true, delimiter: *delimiter, null })?
        }
        Format::Csv { .. } => {
            return Err(SqlError::new(
                SqlErrorKind::Input,
                "a CSV file without a header does not name its columns; create the table first",
            ));
        }
    };
    for name in key {
        let Some(column) = columns.iter_mut().find(|column| column.name == *name) else {
            let known = columns.iter().map(|column| column.name.as_str());
            return Err(names::unknown_column(name, Some(table), known));
        };
        column.nullable = false;
    }
    let schema = Schema::new(columns, key)?;
    db.create_table(table, schema).map_err(SqlError::from)
}

fn parquet_columns(path: &Path) -> Result<Vec<Column>, SqlError> {
    let (builder, _) = parquet::open(path)?;
    builder
        .schema()
        .fields()
        .iter()
        .map(|field| {
            let data_type = of_arrow(field.data_type()).ok_or_else(|| {
                SqlError::unsupported(format!(
                    "column \"{}\" of the file has the type {}, which no table has",
                    field.name(),
                    field.data_type()
                ))
            })?;
            Ok(Column::nullable(field.name().to_lowercase(), data_type))
        })
        .collect()
}

/// The narrowest type of a column that holds every value of an Arrow type.
fn of_arrow(arrow: &ArrowType) -> Option<DataType> {
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
        ArrowType::Date64 => DataType::Timestamp,
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
        ArrowType::Dictionary(_, values) => of_arrow(values)?,
        ArrowType::RunEndEncoded(_, values) => of_arrow(values.data_type())?,
        _ => return None,
    })
}

fn csv_columns(path: &Path, shape: lines::Shape<'_>) -> Result<Vec<Column>, SqlError> {
    let (file, _) = crate::copy::open(path)?;
    let mut reader = lines::reader(file, shape);
    let mut record = StringRecord::new();
    if !lines::read(&mut reader, &mut record)? {
        let message = format!("{} is empty; its first line must name columns", path.display());
        return Err(SqlError::new(SqlErrorKind::Input, message));
    }
    let names: Vec<String> = record
        .iter()
        .map(|name| name.trim_start_matches('\u{feff}').trim().to_lowercase())
        .collect();
    let mut found: Vec<Option<DataType>> = vec![None; names.len()];
    while lines::read(&mut reader, &mut record)? {
        lines::check_width(&record, names.len(), lines::line(&record))?;
        for (field, found) in record.iter().zip(&mut found) {
            if field != shape.null {
                *found = Some(widen(*found, field));
            }
        }
    }
    Ok(names
        .into_iter()
        .zip(found)
        .map(|(name, found)| Column::nullable(name, found.unwrap_or(DataType::Text)))
        .collect())
}

/// The type of a column that was of type `before` so far and has this field as well.
fn widen(before: Option<DataType>, field: &str) -> DataType {
    let is = |data_type| is_a(field, data_type);
    match before {
        None => CANDIDATES.into_iter().find(|candidate| is(*candidate)),
        Some(same) if is(same) => Some(same),
        Some(DataType::Int64) => Some(DataType::Float64).filter(|wider| is(*wider)),
        Some(DataType::Date) => Some(DataType::Timestamp).filter(|wider| is(*wider)),
        Some(_) => None,
    }
    .unwrap_or(DataType::Text)
}

/// Whether a field is surely of a type: a code with leading zeros is no number, and neither "t" nor
/// "no" need be a truth value.
fn is_a(field: &str, data_type: DataType) -> bool {
    let bare = field.trim().trim_start_matches(['-', '+']);
    let whole = bare.bytes().all(|byte| byte.is_ascii_digit());
    let code = bare.len() > 1 && bare.starts_with('0') && !bare.starts_with("0.");
    match data_type {
        DataType::Int64 if code => false,
        // A whole number too long for bigint would lose digits as a floating-point number.
        DataType::Float64 if code || whole && !is_a(field, DataType::Int64) => false,
        DataType::Bool => matches!(bare.to_ascii_lowercase().as_str(), "true" | "false"),
        _ => text::parse(field, data_type).is_ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(fields: &[&str]) -> DataType {
        fields.iter().fold(None, |before, field| Some(widen(before, field))).unwrap_or_else(|| {
            panic!("there are fields");
        })
    }

    #[test]
    fn a_column_has_the_first_type_that_all_its_fields_are() {
        assert_eq!(of(&["1", "-2"]), DataType::Int64);
        assert_eq!(of(&["1", "2.5"]), DataType::Float64);
        assert_eq!(of(&["true", "FALSE"]), DataType::Bool);
        assert_eq!(of(&["2013-01-01", "2013-01-02"]), DataType::Date);
        assert_eq!(of(&["2013-01-01", "2013-01-01T10:00:00Z"]), DataType::Timestamp);
        assert_eq!(of(&["1", "x", "2"]), DataType::Text);
        assert_eq!(of(&["2013-01-01", "5"]), DataType::Text);
    }

    #[test]
    fn codes_that_look_like_numbers_stay_text() {
        assert_eq!(of(&["007"]), DataType::Text);
        assert_eq!(of(&["7", "007"]), DataType::Text);
        assert_eq!(of(&["99999999999999999999"]), DataType::Text);
        assert_eq!(of(&["t", "f"]), DataType::Text);
    }
}
