//! Parquet files into a table, columns matched by name.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{ArrowError, DataType, Field, TimeUnit};
use atoll::{Schema, Value};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, Length};

use crate::error::{ApplyError, Cause, SqlError, SqlErrorKind};
use crate::input::{Content, Input};
use crate::load::{Progress, Source};
use crate::sink::Sink;
use crate::{arrow_value, names};

/// Rows that are read from a file at once.
const BATCH_ROWS: usize = 8192;

/// Opens a file and reads its footer.
pub(crate) fn open(input: &Input) -> Result<ParquetRecordBatchReaderBuilder<Content>, SqlError> {
    let name = input.name();
    let fault = |message: String| SqlError::new(SqlErrorKind::Input, message);
    let content = input.unpacked()?;
    let bytes = content.len();
    let ending = bytes.checked_sub(4).and_then(|at| content.get_bytes(at, 4).ok());
    if ending.is_some_and(|ending| ending.as_ref() == b"PARE") {
        return Err(fault(format!("{name} is an encrypted Parquet file, which cannot be read")));
    }
    let builder = ParquetRecordBatchReaderBuilder::try_new(content)
        .map_err(|error| fault(format!("{name} is not a Parquet file: {}", reason(&error))))?;
    let groups = builder.metadata().row_groups().iter();
    if groups.flat_map(|group| group.columns()).any(|one| one.compression() == Compression::LZO) {
        let message = format!("{name} is compressed with LZO, which cannot be read");
        return Err(fault(message).with_hint(Some(
            "write it with another compression, such as zstd, lz4 or snappy".to_owned(),
        )));
    }
    Ok(builder)
}

/// Passes every row of a Parquet file to a sink.
pub(crate) fn load(
    source: &Source,
    sink: &mut dyn Sink,
    progress: &mut dyn FnMut(Progress),
) -> Result<(), ApplyError> {
    let builder = open(&source.input)?;
    let bytes_total = source.input.bytes();
    let schema = source.table.schema();
    let fields = builder.schema().fields().iter().map(|field| field.name().as_str());
    let fields = names::of_header(fields).names;
    let mut pairs = pair(schema, source, &fields)?;
    // The reader keeps the file's order of columns whatever order they were asked for in.
    pairs.sort_unstable();
    let columns: Vec<usize> = pairs.iter().map(|(_, column)| *column).collect();
    names::check_copied(schema, &columns)?;
    sink.columns(&columns);
    let rows_total = u64::try_from(builder.metadata().file_metadata().num_rows()).unwrap_or(0);
    let mask = ProjectionMask::roots(builder.parquet_schema(), pairs.iter().map(|(at, _)| *at));
    let fault = |error: String| SqlError::new(SqlErrorKind::Input, error);
    let reader = builder
        .with_projection(mask)
        .with_batch_size(BATCH_ROWS)
        .build()
        .map_err(|error| fault(reason(&error)))?;
    let mut rows = 0;
    for batch in reader {
        let batch = batch.map_err(|error| {
            let reason = error.to_string();
            let reason = reason.strip_prefix("Parquet argument error: ").unwrap_or(&reason);
            let reason = reason.strip_prefix("Parquet error: ").unwrap_or(reason);
            fault(format!("row {} or one of the next cannot be read: {reason}", rows + 1))
        })?;
        let batch = match source.options.truncate_timestamps {
            true => cut_to_micros(&batch).map_err(|error| fault(error.to_string()))?,
            false => batch,
        };
        if !sink.batch(&columns, &batch)? {
            for_each_row(schema, &columns, &batch, rows, |row, place| {
                sink.row(row, &|| place.to_owned())
            })?;
        }
        rows += batch.num_rows() as u64;
        let share = (u128::from(bytes_total) * u128::from(rows))
            .checked_div(u128::from(rows_total))
            .and_then(|done| u64::try_from(done).ok());
        let bytes_done = share.unwrap_or(bytes_total).min(bytes_total);
        progress(Progress { bytes_done, bytes_total, rows });
    }
    progress(Progress { bytes_done: bytes_total, bytes_total, rows });
    Ok(())
}

/// The batch with timestamps truncated to microseconds.
fn cut_to_micros(batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    // A dictionary of timestamps is taken apart later, and cannot be cut before.
    let plain = batch.columns().iter().map(|array| {
        let array = arrow_value::plain(array).map_err(ArrowError::CastError)?;
        Ok(arrow_value::cut_to_micros(&array))
    });
    let arrays = plain.collect::<Result<Vec<ArrayRef>, ArrowError>>()?;
    let fields = batch.schema();
    let fields = fields.fields().iter().zip(&arrays).map(|(field, array)| {
        Field::new(field.name(), array.data_type().clone(), field.is_nullable())
    });
    let schema = Arc::new(arrow_schema::Schema::new(fields.collect::<Vec<_>>()));
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(schema, arrays, &options)
}

/// Passes every row of a batch on as values of the table's columns; `columns` maps columns of the
/// batch to columns of the table, and `before` is the number of rows before.
pub(crate) fn for_each_row(
    schema: &Schema,
    columns: &[usize],
    batch: &RecordBatch,
    before: u64,
    mut each: impl FnMut(&[Value], &str) -> Result<(), ApplyError>,
) -> Result<(), ApplyError> {
    let place = |index: usize| format!("row {}", before + index as u64 + 1);
    let arrays: Vec<ArrayRef> = batch
        .columns()
        .iter()
        .map(arrow_value::plain)
        .collect::<Result<_, _>>()
        .map_err(|reason| SqlError::new(SqlErrorKind::Input, reason))?;
    let mut row = vec![Value::Null; schema.columns().len()];
    for index in 0..batch.num_rows() {
        for (array, column) in arrays.iter().zip(columns) {
            row[*column] = arrow_value::at(array, index)
                .map_err(|reason| {
                    let name = &schema.columns()[*column].name;
                    let message = format!("column \"{name}\": {reason}");
                    let error = SqlError::new(SqlErrorKind::Type, message);
                    match array.data_type() {
                        // It is the only thing that can be wrong with one.
                        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
                            error.with_cause(Cause::FineTimestamp)
                        }
                        _ => error,
                    }
                })
                .and_then(|literal| literal.into_column_exactly(schema, *column))
                .map_err(|error| error.within(&place(index)))?;
        }
        each(&row, &place(index))?;
    }
    Ok(())
}

/// Pairs of a column's position in the file and in the table.
fn pair(
    schema: &Schema,
    source: &Source,
    fields: &[String],
) -> Result<Vec<(usize, usize)>, SqlError> {
    let fault = |message: String| SqlError::new(SqlErrorKind::Input, message);
    let known = || schema.visible().iter().map(|column| column.name.as_str());
    let in_file = |name: &str| {
        let at = names::find(fields.iter().map(String::as_str), name)?;
        // Not a column of the file that is another column of the table.
        (names::find(known(), &fields[at]) == schema.position(name)).then_some(at)
    };
    let found = schema.visible().iter().enumerate();
    let found = found.filter(|(_, column)| in_file(&column.name).is_some());
    let found: Vec<usize> = found.map(|(at, _)| at).collect();
    let lacking = names::without_value(schema, &found)?.map(|column| &column.name);
    let mut pairs = Vec::new();
    for (column, definition) in schema.visible().iter().enumerate() {
        let asked = source.columns.as_ref().is_none_or(|columns| columns.contains(&column));
        match in_file(&definition.name) {
            Some(at) if asked => pairs.push((at, column)),
            None if source.columns.is_some() && asked || lacking == Some(&definition.name) => {
                let near = names::near(&definition.name, fields.iter().map(String::as_str));
                return Err(fault(format!("the file has no column \"{}\"", definition.name))
                    .with_hint(near.first().map(|name| format!("it has \"{name}\""))));
            }
            _ => {}
        }
    }
    if source.columns.is_none()
        && let Some(extra) = (0..fields.len()).find(|at| !pairs.iter().any(|(f, _)| f == at))
    {
        return Err(fault(format!(
            "the file has a column \"{}\", which table \"{}\" has not",
            fields[extra],
            source.table.name()
        ))
        .with_hint(Some("name the columns to load: COPY t (a, b) FROM …".to_owned())));
    }
    Ok(pairs)
}

/// The message of a Parquet error, without the name of its kind.
fn reason(error: &ParquetError) -> String {
    let text = error.to_string();
    let text = text.split_once(": ").map_or(text.as_str(), |(_, rest)| rest);
    text.to_owned()
}
