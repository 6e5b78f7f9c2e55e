//! The rows of a Parquet file, read once and looked up at random.
//!
//! The file is loaded into a small database and read in place from a snapshot of it: the demo
//! itself uses the features that it shows.

use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Float64Type, Int16Type, Int32Type, Int64Type, TimestampMicrosecondType as Micros,
};
use arrow_array::{Array, ArrayRef};
use atoll::{DataType, Database, DatabaseOptions, Schema, Snapshot, Value};
use atoll_sql::{Format, Input, LoadOptions, Progress};

use crate::error::{CliError, Result};

/// Name of the one table of the small database.
const TABLE: &str = "file";

/// The rows of a file. Its arrays keep their memory.
pub struct Rows {
    schema: Schema,
    segments: Vec<Vec<ArrayRef>>,
    /// Segment and slot of each row.
    places: Vec<(u32, u32)>,
}

impl Rows {
    /// Reads a file with the primary key `key`.
    ///
    /// # Errors
    /// A file that cannot be read or has no such column.
    pub fn read(path: &Path, key: &str, progress: &mut dyn FnMut(Progress)) -> Result<Self> {
        let db = Database::create(DatabaseOptions::default())?;
        let input = Input::open(path)?;
        let (format, options) = (Format::Parquet, LoadOptions::default());
        atoll_sql::create_table_from(&db, TABLE, &input, &format, &options, &[key])?;
        atoll_sql::copy_from(&db, TABLE, &input, &format, &options, None, progress)?;
        Self::of(&db.snapshot()?)
    }

    fn of(snapshot: &Snapshot) -> Result<Self> {
        let table = snapshot.table(TABLE)?;
        let columns: Vec<usize> = (0..table.schema().columns().len()).collect();
        let (mut segments, mut places) = (Vec::new(), Vec::new());
        for at in 0..table.segment_count() {
            let segment = table.segment(at)?;
            for (first, len) in segment.runs() {
                places.extend((first..first + len).map(|slot| (at as u32, slot as u32)));
            }
            segments.push(segment.batch(&columns)?.columns().to_vec());
        }
        Ok(Self { schema: table.schema().clone(), segments, places })
    }

    /// Rows.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Position of a column.
    ///
    /// # Errors
    /// The file has no such column.
    pub fn column(&self, name: &str) -> Result<usize> {
        self.find(name).ok_or_else(|| CliError::new(format!("the file has no column \"{name}\"")))
    }

    /// Position of a column that the file may lack.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.schema.position(name)
    }

    /// A value.
    ///
    /// # Panics
    /// When there is no such row or column.
    pub fn value(&self, row: usize, column: usize) -> Value {
        let (segment, slot) = self.places[row];
        let array = &self.segments[segment as usize][column];
        value(array, slot as usize, self.schema.columns()[column].data_type)
    }

    /// A whole number or a timestamp; `None` for NULL and for anything else.
    ///
    /// # Panics
    /// As [`Rows::value`].
    pub fn number(&self, row: usize, column: usize) -> Option<i64> {
        match self.value(row, column) {
            Value::Int16(number) => Some(i64::from(number)),
            Value::Int32(number) => Some(i64::from(number)),
            Value::Int64(number) | Value::Timestamp(number) => Some(number),
            _ => None,
        }
    }
}

/// A value of an array. Types that none of the files has are read as NULL.
fn value(array: &ArrayRef, at: usize, data_type: DataType) -> Value {
    if array.is_null(at) {
        return Value::Null;
    }
    match data_type {
        DataType::Int16 => array.as_primitive::<Int16Type>().value(at).into(),
        DataType::Int32 => array.as_primitive::<Int32Type>().value(at).into(),
        DataType::Int64 => array.as_primitive::<Int64Type>().value(at).into(),
        DataType::Float64 => array.as_primitive::<Float64Type>().value(at).into(),
        DataType::Timestamp | DataType::TimestampTz => {
            Value::Timestamp(array.as_primitive::<Micros>().value(at))
        }
        DataType::Text => array.as_string_view().value(at).into(),
        _ => Value::Null,
    }
}
