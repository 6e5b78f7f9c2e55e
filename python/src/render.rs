//! A result as a small table, for terminals and notebooks.

use arrow_array::{Array, RecordBatch};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{ArrowError, DataType, Schema};
use atoll_sql::show_moment;

/// Rows that are shown; the caption has the number of all rows.
const ROWS_SHOWN: usize = 20;
/// Characters of a value that are shown.
const WIDTH_MAX: usize = 32;

/// The cells of the first rows.
fn cells(schema: &Schema, batches: &[RecordBatch]) -> Result<Vec<Vec<String>>, ArrowError> {
    let options = FormatOptions::default().with_null("NULL").with_display_error(true);
    let mut rows = Vec::new();
    for batch in batches {
        let shown = batch.num_rows().min(ROWS_SHOWN - rows.len());
        let columns = batch
            .columns()
            .iter()
            .map(|column| ArrayFormatter::try_new(column.as_ref(), &options))
            .collect::<Result<Vec<_>, _>>()?;
        for at in 0..shown {
            let cell =
                |column: usize| match show_moment(batch.column(column), schema.field(column), at) {
                    Some(moment) if batch.column(column).is_valid(at) => clip(&moment),
                    _ => clip(&columns[column].value(at).to_string()),
                };
            rows.push((0..columns.len()).map(cell).collect());
        }
        if rows.len() == ROWS_SHOWN {
            break;
        }
    }
    debug_assert!(rows.iter().all(|row: &Vec<String>| row.len() == schema.fields().len()));
    Ok(rows)
}

/// A value on one line, and not too long.
fn clip(value: &str) -> String {
    let flat = value.replace(['\n', '\r', '\t'], " ");
    if flat.chars().count() <= WIDTH_MAX {
        return flat;
    }
    flat.chars().take(WIDTH_MAX - 1).chain(['…']).collect()
}

fn is_number(data_type: &DataType) -> bool {
    data_type.is_numeric()
}

/// `(336,776 rows)`, with the number of rows shown.
fn count(rows: usize) -> String {
    let digits = rows.to_string();
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    let noun = if rows == 1 { "row" } else { "rows" };
    let shown = if rows > ROWS_SHOWN { format!(", {ROWS_SHOWN} shown") } else { String::new() };
    format!("({grouped} {noun}{shown})")
}

fn rows_of(batches: &[RecordBatch]) -> usize {
    batches.iter().map(RecordBatch::num_rows).sum()
}

/// Aligned columns under their names.
pub(crate) fn text(schema: &Schema, batches: &[RecordBatch]) -> Result<String, ArrowError> {
    let rows = cells(schema, batches)?;
    let names: Vec<String> = schema.fields().iter().map(|field| clip(field.name())).collect();
    let width = |at: usize, name: &str| {
        let values = rows.iter().map(|row| row[at].chars().count());
        values.chain([name.chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = names.iter().enumerate().map(|(at, name)| width(at, name)).collect();
    let line = |row: &[String]| {
        let cell = |(at, value): (usize, &String)| {
            let pad = " ".repeat(widths[at] - value.chars().count());
            match is_number(schema.field(at).data_type()) {
                true => format!("{pad}{value}"),
                false => format!("{value}{pad}"),
            }
        };
        let cells: Vec<String> = row.iter().enumerate().map(cell).collect();
        cells.join("  ").trim_end().to_owned()
    };
    let rule: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
    let mut lines = vec![line(&names), rule.join("  ")];
    lines.extend(rows.iter().map(|row| line(row)));
    lines.push(count(rows_of(batches)));
    Ok(lines.join("\n"))
}

/// The table in HTML.
pub(crate) fn html(schema: &Schema, batches: &[RecordBatch]) -> Result<String, ArrowError> {
    let align = |at: usize| match is_number(schema.field(at).data_type()) {
        true => "right",
        false => "left",
    };
    let row = |tag: &str, cells: &[String]| {
        let cell = |(at, value): (usize, &String)| {
            format!("<{tag} style=\"text-align: {}\">{}</{tag}>", align(at), escape(value))
        };
        let cells: String = cells.iter().enumerate().map(cell).collect();
        format!("<tr>{cells}</tr>")
    };
    let names: Vec<String> = schema.fields().iter().map(|field| clip(field.name())).collect();
    let body: String = cells(schema, batches)?.iter().map(|cells| row("td", cells)).collect();
    Ok(format!(
        "<table><thead>{}</thead><tbody>{body}</tbody></table><p>{}</p>",
        row("th", &names),
        count(rows_of(batches))
    ))
}

fn escape(value: &str) -> String {
    value.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
