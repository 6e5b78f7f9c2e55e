//! The rows of the tables of `pg_catalog` as Arrow data.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};

use super::definitions::Definitions;
use super::tables::SystemTable;
use super::{Around, rows};
use crate::error::{SqlError, SqlErrorKind};
use crate::literal::Literal;
use crate::rules::functions::column_of;

/// The value of a column that a row leaves out.
fn absent(of: &str) -> Literal {
    match of {
        "boolean" => Literal::Bool(false),
        "smallint" | "integer" | "bigint" | "oid" | "regproc" | "xid" => Literal::Integer(0),
        "real" | "float8" => Literal::Float(0.0),
        "name" | "char" => Literal::Text(String::new()),
        _ => Literal::Null,
    }
}

impl SystemTable {
    /// These columns of its rows.
    ///
    /// # Errors
    /// A value that is none of its column, which is a fault of this crate.
    pub(super) fn batch(
        &self,
        definitions: &Definitions,
        around: &Around,
        wanted: &[usize],
    ) -> Result<RecordBatch, SqlError> {
        let rows = rows::of(self.name, definitions, around);
        let mut places: HashMap<&str, Option<usize>> =
            self.columns.iter().map(|(name, _)| (*name, None)).collect();
        for (place, at) in wanted.iter().enumerate() {
            places.insert(self.columns[*at].0, Some(place));
        }
        let mut values: Vec<Vec<Literal>> =
            wanted.iter().map(|at| vec![absent(self.columns[*at].1); rows.len()]).collect();
        let count = rows.len();
        for (number, row) in rows.into_iter().enumerate() {
            for (column, value) in row {
                match places.get(column) {
                    Some(Some(place)) => values[*place][number] = value,
                    Some(None) => {}
                    None => return Err(fault(format!("{} has no column {column}", self.name))),
                }
            }
        }
        let schema = self.schema().project(wanted).map_err(|error| fault(error.to_string()))?;
        let fields = values.into_iter().zip(schema.fields());
        let arrays = fields.map(|(values, field)| column_of(values, field.data_type()));
        let arrays = arrays.collect::<Result<Vec<_>, _>>()?;
        // Of a query that only counts rows no column is wanted.
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        RecordBatch::try_new_with_options(Arc::new(schema), arrays, &options)
            .map_err(|error| fault(error.to_string()))
    }
}

fn fault(message: String) -> SqlError {
    SqlError::new(SqlErrorKind::Database, message)
}
