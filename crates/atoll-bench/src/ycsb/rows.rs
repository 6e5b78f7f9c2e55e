//! The table of YCSB and its rows.

use atoll::{Column, DataType, Database, IndexSpec, Schema, Session, Table, TableOptions};
use atoll::{TransactionOptions, Value};

use super::args::Plan;
use super::choice::Layout;
use crate::error::BenchError;
use crate::keys::Random;
use crate::oltp::{LoadReport, load};
use crate::progress::Progress;

/// Name of the table.
pub const TABLE: &str = "usertable";
/// Name of the ordered index on its key.
pub const BY_KEY: &str = "usertable_by_key";
/// Name of the key.
const KEY: &str = "ycsb_key";
/// Rows inserted by one transaction: one block of the table's key predictor, so that no two threads
/// insert parts of the same block.
const BATCH: u64 = 1024;
/// Bytes for a row beside its values: its row state, and its entry in the index at half load, in
/// the old and the new index while it grows.
const BESIDE_BYTES: u64 = 48;

/// Creates the table.
///
/// # Errors
/// [`BenchError::Database`].
pub fn create(db: &Database, plan: &Plan) -> Result<Table, BenchError> {
    let mut columns = vec![Column::new(KEY, DataType::Int64)];
    let field = |n| Column::new(format!("field{n}"), DataType::FixedBinary(plan.column_bytes));
    columns.extend((0..plan.columns).map(field));
    let schema = Schema::new(columns, &[KEY]).map_err(atoll::Error::from)?;
    let index = IndexSpec {
        name: BY_KEY.into(),
        columns: vec![KEY.into()],
        unique: false,
        nulls_not_distinct: false,
    };
    let indexes = if plan.has_scans() { vec![index] } else { Vec::new() };
    Ok(db.create_table_with(TABLE, schema, &TableOptions { indexes, ..TableOptions::default() })?)
}

/// A row with all columns zero.
pub fn empty_row(plan: &Plan) -> Vec<Value> {
    let field = || Value::Binary(vec![0; plan.column_bytes as usize]);
    std::iter::once(Value::Int64(0)).chain((0..plan.columns).map(|_| field())).collect()
}

/// Sets the key of a row.
pub fn set_key(row: &mut [Value], key: &[Value]) {
    if let (Some(place), Some(Value::Int64(key))) = (row.first_mut(), key.first()) {
        *place = Value::Int64(*key);
    }
}

/// Fills `bytes` with random bytes.
pub fn fill_bytes(bytes: &mut [u8], random: &mut Random) {
    for chunk in bytes.chunks_mut(8) {
        chunk.copy_from_slice(&random.word().to_le_bytes()[..chunk.len()]);
    }
}

/// Fills the table with the keys from 0 on.
///
/// # Errors
/// [`BenchError::TooLarge`] before anything is done; [`BenchError::Database`].
pub fn fill(
    db: &Database,
    table: &Table,
    plan: &Plan,
    layout: Layout,
    progress: Progress<'_>,
) -> Result<LoadReport, BenchError> {
    let row_bytes =
        load::value_bytes(8) + plan.columns as u64 * load::value_bytes(plan.column_bytes);
    load::check_room(plan.rows * (row_bytes + BESIDE_BYTES))?;
    let insert = |session: &mut Session, number: u64| {
        let keys = layout.batch(BATCH, number);
        let mut options = TransactionOptions::default();
        let first = keys.clone().next().map(|key| [Value::Int64(key.cast_signed())]);
        options.partitions.extend(first.map(|key| table.partition(&key)));
        let mut row = empty_row(plan);
        session.transaction_with(&options, |tx| {
            keys.clone().try_for_each(|key| {
                let mut random = Random::new(plan.oltp.seed ^ key << 8);
                row[0] = Value::Int64(key.cast_signed());
                for value in &mut row[1..] {
                    if let Value::Binary(bytes) = value {
                        fill_bytes(bytes, &mut random);
                    }
                }
                tx.insert(table, &row)
            })
        })?;
        Ok(keys.count() as u64)
    };
    load::fill(db, layout.batches(BATCH), TABLE, progress, &insert)
}
