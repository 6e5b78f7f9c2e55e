//! Parquet files into a table, columns matched by name.

use arrow_array::{ArrayRef, RecordBatch};
use atoll::{Schema, Transaction, Value};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::errors::ParquetError;

use crate::copy::{self, Progress, Source};
use crate::error::{SqlError, SqlErrorKind};
use crate::txn::Stop;
use crate::{arrow_value, dml, names};

/// Rows that are read from a file at once.
const BATCH_ROWS: usize = 8192;

/// Opens a file and reads its footer.
pub(crate) fn open(
    path: &std::path::Path,
) -> Result<(ParquetRecordBatchReaderBuilder<std::fs::File>, u64), SqlError> {
    let (file, bytes) = copy::open(path)?;
    let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(|error| {
        let message = format!("{} is not a Parquet file: {}", path.display(), reason(&error));
        SqlError::new(SqlErrorKind::Input, message)
    })?;
    Ok((builder, bytes))
}

/// Inserts every row of a Parquet file and says how many there were.
pub(crate) fn load(
    source: &Source,
    transaction: &mut Transaction,
    progress: &mut dyn FnMut(Progress),
) -> Result<u64, Stop> {
    let (builder, bytes_total) = open(&source.path)?;
    let schema = source.table.schema();
    let fields: Vec<String> =
        builder.schema().fields().iter().map(|field| field.name().clone()).collect();
    let mut pairs = pair(schema, source, &fields)?;
    // The reader keeps the file's order of columns whatever order they were asked for in.
    pairs.sort_unstable();
    let columns: Vec<usize> = pairs.iter().map(|(_, column)| *column).collect();
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
            fault(format!("row {} or one of the next cannot be read: {error}", rows + 1))
        })?;
        for_each_row(schema, &columns, &batch, rows, |row, place| {
            source.insert(transaction, row, || place.to_owned())
        })?;
        rows += batch.num_rows() as u64;
        let share = (u128::from(bytes_total) * u128::from(rows))
            .checked_div(u128::from(rows_total))
            .and_then(|done| u64::try_from(done).ok());
        let bytes_done = share.unwrap_or(bytes_total).min(bytes_total);
        progress(Progress { bytes_done, bytes_total, rows });
    }
    progress(Progress { bytes_done: bytes_total, bytes_total, rows });
    Ok(rows)
}

/// Hands every row of a batch on as values of the table's columns; `columns` says which column of
/// the table each of the batch is, and `before` how many rows came before.
pub(crate) fn for_each_row(
    schema: &Schema,
    columns: &[usize],
    batch: &RecordBatch,
    before: u64,
    mut each: impl FnMut(&[Value], &str) -> Result<(), Stop>,
) -> Result<(), Stop> {
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
                    SqlError::new(SqlErrorKind::Type, format!("column \"{name}\": {reason}"))
                })
                .and_then(|literal| dml::column_value(schema, *column, literal))
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
    let in_file = |name: &str| {
        fields
            .iter()
            .position(|field| field == name)
            .or_else(|| fields.iter().position(|field| field.to_lowercase() == name))
    };
    let mut pairs = Vec::new();
    for (column, definition) in schema.columns().iter().enumerate() {
        let asked = source.columns.as_ref().is_none_or(|columns| columns.contains(&column));
        match in_file(&definition.name) {
            Some(at) if asked => pairs.push((at, column)),
            None if source.columns.is_some() && asked || !definition.nullable => {
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

/// What a Parquet error says, without the name of its kind.
fn reason(error: &ParquetError) -> String {
    let text = error.to_string();
    let text = text.split_once(": ").map_or(text.as_str(), |(_, rest)| rest);
    text.to_owned()
}
