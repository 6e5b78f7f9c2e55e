//! Results as JSON: one document on one line for each statement.
//!
//! A query gives `{"columns": [{"name", "type"}], "rows": [[…]]}`, anything else `{"done",
//! "rows"}`. Rows are arrays, not objects, because a query may give two columns the same name.
//! Numbers and truth values are JSON's own; decimals are texts, so that no digit is lost, and so is
//! all else.

use std::io::Write;

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Schema};
use serde::Serialize;

use crate::error::Result;
use crate::render::rows;

#[derive(Serialize)]
struct Column<'a> {
    name: &'a str,
    r#type: String,
}

#[derive(Serialize)]
struct Done<'a> {
    done: &'a str,
    rows: u64,
}

/// Writes the rows of a query.
///
/// # Errors
/// Those of writing, and a type that cannot be shown.
pub fn write_rows(out: &mut impl Write, schema: &Schema, batches: &[RecordBatch]) -> Result<()> {
    let fields = schema.fields();
    let columns: Vec<Column<'_>> = fields
        .iter()
        .map(|field| Column { name: field.name(), r#type: rows::sql_type(field) })
        .collect();
    let bare: Vec<bool> = fields.iter().map(|field| is_bare(field.data_type())).collect();
    write!(out, "{{\"columns\":{},\"rows\":[", text(&columns)?)?;
    let mut first = true;
    rows::for_each_row(batches, None, |row| {
        let cells = row.iter().zip(&bare).map(|(cell, bare)| match cell {
            None => Ok("null".to_owned()),
            // Infinities and NaN have no form in JSON.
            Some(value) if *bare && !value.contains(['n', 'N']) => Ok(value.clone()),
            Some(value) if *bare && matches!(value.as_str(), "true" | "false") => Ok(value.clone()),
            Some(value) => text(value),
        });
        let cells = cells.collect::<Result<Vec<String>>>()?;
        let comma = if std::mem::take(&mut first) { "" } else { "," };
        Ok(write!(out, "{comma}[{}]", cells.join(","))?)
    })?;
    Ok(writeln!(out, "]}}")?)
}

/// Writes the outcome of a statement without rows.
///
/// # Errors
/// Those of writing.
pub fn write_done(out: &mut impl Write, tag: &str, rows: u64) -> Result<()> {
    Ok(writeln!(out, "{}", text(&Done { done: tag, rows })?)?)
}

/// Whether values of a type are written without quotes.
fn is_bare(data_type: &DataType) -> bool {
    data_type.is_integer() || data_type.is_floating() || matches!(data_type, DataType::Boolean)
}

fn text(value: &(impl Serialize + ?Sized)) -> Result<String> {
    Ok(serde_json::to_string(value).map_err(std::io::Error::from)?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use arrow_array::{ArrayRef, BooleanArray, Decimal128Array, Float64Array, StringArray};
    use std::sync::Arc;

    #[test]
    fn every_value_is_json_and_no_digit_is_lost() {
        let decimals = Decimal128Array::from(vec![10, 20, 30]).with_precision_and_scale(9, 1);
        let batch = RecordBatch::try_from_iter_with_nullable([
            ("f", Arc::new(Float64Array::from(vec![0.5, f64::NAN, 1e300])) as ArrayRef, true),
            ("b", Arc::new(BooleanArray::from(vec![Some(false), None, Some(true)])) as _, true),
            ("f", Arc::new(StringArray::from(vec!["a\"b", "null", "\n"])) as _, true),
            ("d", Arc::new(decimals.unwrap()) as _, true),
        ])
        .unwrap();
        let mut out = Vec::new();
        write_rows(&mut out, &batch.schema(), &[batch]).unwrap();
        assert_eq!(out.iter().filter(|byte| **byte == b'\n').count(), 1, "one line");
        let json: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(json["rows"][0], serde_json::json!([0.5, false, "a\"b", "1.0"]));
        assert_eq!(json["rows"][1], serde_json::json!(["NaN", null, "null", "2.0"]));
        assert_eq!(json["rows"][2], serde_json::json!([1e300, true, "\n", "3.0"]));
        assert_eq!(json["columns"][3]["type"], "decimal(9,1)");
    }

    #[test]
    fn a_query_without_rows_still_has_its_columns() {
        let schema = Schema::new(vec![arrow_schema::Field::new("id", DataType::Int64, false)]);
        let mut out = Vec::new();
        write_rows(&mut out, &schema, &[]).unwrap();
        let wanted = "{\"columns\":[{\"name\":\"id\",\"type\":\"bigint\"}],\"rows\":[]}\n";
        assert_eq!(String::from_utf8(out).unwrap(), wanted);
    }
}
