//! The table of the durability benchmarks: a key, a balance, and a text of 100 bytes.

use atoll::{Column, DataType, Database, Schema, Table, Value};

use crate::error::BenchError;

/// Rows inserted by one transaction.
const ROWS_AT_ONCE: u64 = 2000;

/// Bytes of the text.
pub const FILLER_BYTES: u32 = 100;

/// Creates the table and fills it.
///
/// # Errors
/// [`BenchError::Database`].
pub fn load(db: &Database, rows: u64) -> Result<Table, BenchError> {
    let columns = vec![
        Column::new("id", DataType::Int64),
        Column::new("balance", DataType::Int64),
        Column::new("filler", DataType::FixedBinary(FILLER_BYTES)),
    ];
    let table = db.create_table("accounts", Schema::new(columns, &["id"])?)?;
    let filler = Value::Binary(vec![b'x'; FILLER_BYTES as usize]);
    let mut session = db.session()?;
    for first in (0..rows).step_by(ROWS_AT_ONCE as usize) {
        session.transaction(|tx| {
            (first..rows.min(first + ROWS_AT_ONCE)).try_for_each(|id| {
                tx.insert(&table, &[Value::Int64(id as i64), Value::Int64(0), filler.clone()])
            })
        })?;
    }
    Ok(table)
}

impl From<atoll::StorageError> for BenchError {
    fn from(error: atoll::StorageError) -> Self {
        Self::Database(error.into())
    }
}
