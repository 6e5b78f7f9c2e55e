//! The tables of TPC-B and their initial rows.
//!
//! Accounts and tellers are numbered within their branch and have (branch, number) as their key, so
//! that a branch with all that belongs to it is one partition, and every key fits into 8 bytes.
//! Rows of the first three tables are filled up to 100 bytes, those of the history to 50, as the
//! standard demands. Balances are integers and start at 0.

use atoll::{Column, DataType, Database, Schema, Session, Table, TableOptions};
use atoll::{TransactionOptions, Value};

use super::args::TpcbArgs;
use crate::error::BenchError;
use crate::oltp::{LoadReport, load};
use crate::progress::Progress;

/// Tellers of a branch.
pub const TELLERS: u32 = 10;
/// Rows inserted by one transaction.
const BATCH: u64 = 1000;
/// Bytes of an account, including row state and index entry.
const ACCOUNT_BYTES: u64 = 200;
/// Position of the balance in a branch.
pub const BRANCH_BALANCE: usize = 1;
/// Position of the balance in a teller and an account.
pub const BALANCE: usize = 2;

/// The four tables.
#[derive(Clone)]
pub struct Tables {
    pub branches: Table,
    pub tellers: Table,
    pub accounts: Table,
    pub history: Table,
}

fn table(
    db: &Database,
    name: &str,
    columns: &[(&str, DataType)],
    key: &[&str],
) -> Result<Table, BenchError> {
    let columns = columns.iter().map(|(name, data_type)| Column::new(*name, *data_type)).collect();
    let schema = Schema::new(columns, key).map_err(atoll::Error::from)?;
    Ok(db.create_table_with(name, schema, &TableOptions::default())?)
}

impl Tables {
    /// Creates the tables.
    ///
    /// # Errors
    /// [`BenchError::Database`].
    pub fn create(db: &Database) -> Result<Self, BenchError> {
        use DataType::{FixedBinary, Int16, Int32, Int64, Timestamp};
        Ok(Self {
            branches: table(
                db,
                "branches",
                &[("b_id", Int16), ("b_balance", Int64), ("b_filler", FixedBinary(90))],
                &["b_id"],
            )?,
            tellers: table(
                db,
                "tellers",
                &[
                    ("t_b_id", Int16),
                    ("t_id", Int32),
                    ("t_balance", Int64),
                    ("t_filler", FixedBinary(86)),
                ],
                &["t_b_id", "t_id"],
            )?,
            accounts: table(
                db,
                "accounts",
                &[
                    ("a_b_id", Int16),
                    ("a_id", Int32),
                    ("a_balance", Int64),
                    ("a_filler", FixedBinary(86)),
                ],
                &["a_b_id", "a_id"],
            )?,
            history: table(
                db,
                "history",
                &[
                    ("h_b_id", Int16),
                    ("h_worker", Int16),
                    ("h_number", Int32),
                    ("h_t_id", Int32),
                    ("h_a_b_id", Int16),
                    ("h_a_id", Int32),
                    ("h_delta", Int64),
                    ("h_time", Timestamp),
                    ("h_filler", FixedBinary(16)),
                ],
                &["h_b_id", "h_worker", "h_number"],
            )?,
        })
    }

    /// Fills the first three tables.
    ///
    /// # Errors
    /// [`BenchError::TooLarge`] before anything is done; [`BenchError::Database`].
    pub fn fill(
        &self,
        db: &Database,
        args: &TpcbArgs,
        progress: Progress<'_>,
    ) -> Result<LoadReport, BenchError> {
        let accounts = u64::from(args.accounts_per_branch);
        load::check_room(u64::from(args.scale) * accounts * ACCOUNT_BYTES)?;
        let per_branch = accounts.div_ceil(BATCH);
        let insert = |session: &mut Session, number: u64| {
            let branch = Value::Int16((number / per_branch) as i16 + 1);
            let begin = number % per_branch * BATCH;
            let partition = self.branches.partition(std::slice::from_ref(&branch));
            let options =
                TransactionOptions { partitions: vec![partition], ..TransactionOptions::default() };
            let filler = |bytes| Value::Binary(vec![b' '; bytes]);
            let mut row = vec![branch.clone(), Value::Int32(0), Value::Int64(0), filler(86)];
            Ok(session.transaction_with(&options, |tx| {
                let mut rows = 0;
                if begin == 0 {
                    let branch = [branch.clone(), Value::Int64(0), filler(90)];
                    tx.insert(&self.branches, &branch)?;
                    for teller in 1..=TELLERS {
                        row[1] = Value::Int32(teller as i32);
                        tx.insert(&self.tellers, &row)?;
                    }
                    rows += 1 + u64::from(TELLERS);
                }
                for account in begin..accounts.min(begin + BATCH) {
                    row[1] = Value::Int32(account as i32 + 1);
                    tx.insert(&self.accounts, &row)?;
                    rows += 1;
                }
                Ok(rows)
            })?)
        };
        load::fill(db, u64::from(args.scale) * per_branch, "branches", progress, &insert)
    }
}
