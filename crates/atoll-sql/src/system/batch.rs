//! The rows of the tables of `pg_catalog` as Arrow data.

use std::collections::HashMap;

use arrow_array::RecordBatch;

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
    /// Its rows.
    ///
    /// # Errors
    /// A value that is none of its column, which is a fault of this crate.
    pub(super) fn batch(
        &self,
        definitions: &Definitions,
        around: &Around,
    ) -> Result<RecordBatch, SqlError> {
        let rows = rows::of(self.name, definitions, around);
        let at: HashMap<&str, usize> =
            self.columns.iter().enumerate().map(|(at, (name, _))| (*name, at)).collect();
        let mut values: Vec<Vec<Literal>> =
            self.columns.iter().map(|(_, of)| vec![absent(of); rows.len()]).collect();
        for (number, row) in rows.into_iter().enumerate() {
            for (column, value) in row {
                let Some(at) = at.get(column) else {
                    return Err(fault(format!("{} has no column {column}", self.name)));
                };
                values[*at][number] = value;
            }
        }
        let schema = self.schema();
        let fields = values.into_iter().zip(schema.fields());
        let arrays = fields.map(|(values, field)| column_of(values, field.data_type()));
        let arrays = arrays.collect::<Result<Vec<_>, _>>()?;
        RecordBatch::try_new(schema, arrays).map_err(|error| fault(error.to_string()))
    }
}

fn fault(message: String) -> SqlError {
    SqlError::new(SqlErrorKind::Database, message)
}
