//! Rows of a query as texts, column by column.

use arrow_array::RecordBatch;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{ArrowError, DataType, Field, Schema, TimeUnit};
use atoll::Labels;
use atoll_sql::show_moment;

use crate::error::CliError;
use crate::render::table::{Align, Grid};

/// Times as SQL writes them; fractions only where there are some.
const OPTIONS: FormatOptions<'static> = FormatOptions::new()
    .with_timestamp_format(Some("%Y-%m-%d %H:%M:%S%.f"))
    .with_datetime_format(Some("%Y-%m-%d %H:%M:%S%.f"))
    .with_timestamp_tz_format(Some("%Y-%m-%d %H:%M:%S%.f%:z"))
    .with_time_format(Some("%H:%M:%S%.f"));

/// The first `most` rows as a table.
///
/// # Errors
/// A type that cannot be shown.
pub fn grid(
    schema: &Schema,
    batches: &[RecordBatch],
    most: Option<usize>,
) -> Result<Grid, CliError> {
    let heads = schema.fields().iter().map(|field| (field.name(), align(field.data_type())));
    let mut grid = Grid::new(heads);
    for_each_row(batches, most, |row| {
        grid.push(row);
        Ok(())
    })?;
    Ok(grid)
}

/// Passes on the first `most` rows as texts, `None` for NULL.
///
/// # Errors
/// A type that cannot be shown, and what `each` returns.
pub fn for_each_row(
    batches: &[RecordBatch],
    most: Option<usize>,
    mut each: impl FnMut(Vec<Option<String>>) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let mut left = most.unwrap_or(usize::MAX);
    for batch in batches {
        // Not the physical ones: a column of the type of NULL itself has none of those.
        let schema = batch.schema_ref();
        let nulls: Vec<_> = batch.columns().iter().map(|column| column.logical_nulls()).collect();
        let formatters = batch
            .columns()
            .iter()
            .map(|column| ArrayFormatter::try_new(column.as_ref(), &OPTIONS))
            .collect::<Result<Vec<_>, _>>()
            .map_err(cannot_show)?;
        for row in 0..batch.num_rows().min(left) {
            let cells = (0..formatters.len()).map(|at| {
                if nulls[at].as_ref().is_some_and(|nulls| nulls.is_null(row)) {
                    return Ok(None);
                }
                match show_moment(batch.column(at), schema.field(at), row) {
                    Some(text) => Ok(Some(text)),
                    None => formatters[at].value(row).try_to_string().map(Some),
                }
            });
            each(cells.collect::<Result<_, _>>().map_err(cannot_show)?)?;
        }
        left = left.saturating_sub(batch.num_rows());
        if left == 0 {
            break;
        }
    }
    Ok(())
}

fn cannot_show(error: ArrowError) -> CliError {
    CliError::with_hint(
        format!("the result cannot be shown: {error}"),
        "convert the column, for example with CAST(column AS text)",
    )
}

/// The alignment of values of a type.
fn align(data_type: &DataType) -> Align {
    match data_type {
        numeric if numeric.is_numeric() => Align::Right,
        temporal if temporal.is_temporal() => Align::LeftWhole,
        DataType::Boolean => Align::LeftWhole,
        _ => Align::Left,
    }
}

/// A type as SQL names it.
pub fn sql_type(field: &Field) -> String {
    let data_type = field.data_type();
    if field.extension_type_name() == Some(atoll::CHARACTER) {
        return format!("character({})", field.extension_type_metadata().unwrap_or_default());
    }
    if field.extension_type_name() == Some(atoll::ENUM)
        && let Some(labels) = field.extension_type_metadata().and_then(Labels::of_text)
    {
        return labels.shown();
    }
    let is_json = field.extension_type_name() == Some(atoll::JSON);
    let name = match data_type {
        _ if is_json && field.metadata().contains_key(atoll::JSONB) => "jsonb",
        _ if is_json => "json",
        DataType::List(item) => return format!("{}[]", sql_type(item)),
        DataType::Null => "unknown",
        DataType::Boolean => "boolean",
        DataType::Int8 | DataType::Int16 => "smallint",
        DataType::Int32 => "integer",
        DataType::Int64 => "bigint",
        DataType::UInt8 | DataType::UInt16 | DataType::UInt32 | DataType::UInt64 => "unsigned",
        DataType::Float16 | DataType::Float32 => "real",
        DataType::Float64 => "double precision",
        DataType::FixedSizeBinary(16) if field.extension_type_name() == Some(atoll::UUID) => "uuid",
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "text",
        DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_) => "bytea",
        DataType::Date32 | DataType::Date64 => "date",
        DataType::Time32(_) | DataType::Time64(_) => "time",
        DataType::Timestamp(
            TimeUnit::Second | TimeUnit::Millisecond | TimeUnit::Microsecond | TimeUnit::Nanosecond,
            None,
        ) => "timestamp",
        DataType::Timestamp(..) => "timestamp with time zone",
        DataType::Interval(_) | DataType::Duration(_) => "interval",
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => {
            return format!("decimal({precision},{scale})");
        }
        other => return other.to_string(),
    };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::output::Style;
    use arrow_array::{
        ArrayRef, Decimal128Array, Float64Array, Int64Array, StringViewArray,
        TimestampMicrosecondArray,
    };
    use std::sync::Arc;

    fn batch() -> RecordBatch {
        let decimals = Decimal128Array::from(vec![1234]).with_precision_and_scale(10, 2).unwrap();
        RecordBatch::try_from_iter_with_nullable([
            ("n", Arc::new(Int64Array::from(vec![None::<i64>])) as ArrayRef, true),
            ("f", Arc::new(Float64Array::from(vec![0.1])) as ArrayRef, true),
            ("d", Arc::new(decimals) as ArrayRef, true),
            ("t", Arc::new(StringViewArray::from(vec!["déjà"])) as ArrayRef, true),
            ("at", Arc::new(TimestampMicrosecondArray::from(vec![1_500_000])) as ArrayRef, true),
        ])
        .unwrap()
    }

    #[test]
    fn values_are_written_as_sql_writes_them() {
        let mut rows = Vec::new();
        for_each_row(&[batch()], None, |row| {
            rows.push(row);
            Ok(())
        })
        .unwrap();
        let row: Vec<Option<&str>> = rows[0].iter().map(Option::as_deref).collect();
        let wanted =
            [None, Some("0.1"), Some("12.34"), Some("déjà"), Some("1970-01-01 00:00:01.5")];
        assert_eq!(row, wanted);
    }

    #[test]
    fn null_is_told_from_the_empty_text_in_every_type() {
        let nothing: ArrayRef = Arc::new(arrow_array::NullArray::new(1));
        let empty: ArrayRef = Arc::new(StringViewArray::from(vec![""]));
        let columns = [("nothing", nothing), ("empty", empty)];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let mut rows = Vec::new();
        for_each_row(&[batch], None, |row| {
            rows.push(row);
            Ok(())
        })
        .unwrap();
        assert_eq!(rows, [vec![None, Some(String::new())]]);
    }

    #[test]
    fn only_the_rows_asked_for_are_converted() {
        let batches = vec![batch(); 5];
        let mut out = Vec::new();
        let grid = grid(&batches[0].schema(), &batches, Some(2)).unwrap();
        grid.write(&mut out, None, Style::plain()).unwrap();
        assert_eq!(String::from_utf8(out).unwrap().lines().count(), 4 + 2);
    }

    #[test]
    fn types_have_their_sql_names() {
        let of = |data_type| sql_type(&Field::new("", data_type, true));
        assert_eq!(of(DataType::Utf8View), "text");
        assert_eq!(of(DataType::Decimal128(15, 2)), "decimal(15,2)");
    }
}
