//! The rows of a dump, in the text format of `COPY`.

use std::io::Write;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, FixedSizeBinaryArray, RecordBatch, StringArray};
use arrow_cast::cast;
use arrow_schema::DataType as ArrowType;
use atoll::DataType;

use super::definitions::TableDump;
use super::{Dump, Result, unwritable};
use crate::copy_text::escaped;
use crate::quoted::{quoted_if_needed, quoted_list};
use crate::{SqlSession, show};

/// Writes the rows of a table, by its key or by all values (`DUMP-1`).
pub(super) fn copy(dump: &Dump<'_>, dumped: &TableDump, out: &mut dyn Write) -> Result<()> {
    let TableDump { table, declared, key, .. } = dumped;
    let stored = table.schema().visible().iter();
    let stored = stored.filter(|column| !declared.generated.contains_key(&column.name));
    let columns: Vec<&String> = stored.clone().map(|column| &column.name).collect();
    let name = dump.name(table.name());
    let given =
        if columns.is_empty() { String::new() } else { format!(" ({})", quoted_list(&columns)) };
    writeln!(out, "\nCOPY {name}{given} FROM stdin;")?;
    if columns.is_empty() {
        return Err(unwritable(format!("{name} has no column that COPY could fill")));
    }
    let texts = stored.map(|column| {
        let name = quoted_if_needed(&column.name);
        match column.data_type {
            // Which is made a text here.
            DataType::FixedBinary(_) => name.into_owned(),
            _ => format!("CAST({name} AS text)"),
        }
    });
    let texts: Vec<String> = texts.collect();
    let order = match key.is_empty() {
        true => (1..=texts.len()).map(|at| at.to_string()).collect::<Vec<_>>().join(", "),
        false => {
            let key = key.iter().map(|name| format!("t.{}", quoted_if_needed(name)));
            key.collect::<Vec<_>>().join(", ")
        }
    };
    let sql = format!("SELECT {} FROM {name} AS t ORDER BY {order}", texts.join(", "));
    let mut session = SqlSession::on_snapshot(dump.snapshot.clone());
    let mut stream = session.stream(&sql, ())?;
    let mut line = String::new();
    while let Some(batch) = stream.next_batch()? {
        lines(&batch, &mut line, out)?;
    }
    Ok(writeln!(out, "\\.")?)
}

/// Writes a line for each row of texts.
fn lines(batch: &RecordBatch, line: &mut String, out: &mut dyn Write) -> Result<()> {
    let text = |array: &dyn Array| match array.as_any().downcast_ref::<FixedSizeBinaryArray>() {
        Some(bytes) => {
            let shown = bytes.iter().map(|one| one.map(show::bytes));
            Ok(Arc::new(shown.collect::<StringArray>()) as ArrayRef)
        }
        None => cast(array, &ArrowType::Utf8).map_err(|error| unwritable(error.to_string())),
    };
    let columns = batch.columns().iter().map(|array| text(array.as_ref()));
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let texts: Vec<&StringArray> =
        columns.iter().filter_map(|array| array.as_any().downcast_ref()).collect();
    for row in 0..batch.num_rows() {
        line.clear();
        for (at, column) in texts.iter().enumerate() {
            if at > 0 {
                line.push('\t');
            }
            match column.is_null(row) {
                true => line.push_str("\\N"),
                false => escaped(column.value(row), line),
            }
        }
        line.push('\n');
        out.write_all(line.as_bytes())?;
    }
    Ok(())
}
