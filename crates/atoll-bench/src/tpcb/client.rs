//! The client of one thread.

use std::time::{SystemTime, UNIX_EPOCH};

use atoll::{Session, Transaction, TransactionOptions, TxnResult, Value};

use super::args::{Operation, TpcbArgs};
use super::tables::{BALANCE, BRANCH_BALANCE, TELLERS, Tables};
use crate::error::BenchError;
use crate::keys::Random;
use crate::oltp::{Client, Outcome};

/// Share of the accounts that belong to the teller's own branch, in percent.
const LOCAL_PERCENT: u64 = 85;
/// Greatest change of a balance.
const DELTA_MAX: u64 = 999_999;

/// The part of one thread in the workload.
pub struct TpcbClient {
    tables: Tables,
    random: Random,
    branches: u64,
    accounts: u64,
    /// The branch of this thread's tellers; `None`: tellers are drawn from all branches.
    home: Option<i16>,
    operation: Operation,
    /// The next row of the history; the teller and account of the transaction.
    row: Vec<Value>,
    delta: i64,
    options: TransactionOptions,
    /// Sum of the changes that have committed.
    pub changed: i64,
    /// Transactions that have committed.
    pub committed: u64,
}

/// Positions in the history.
const BRANCH: usize = 0;
const NUMBER: usize = 2;
const TELLER: usize = 3;
const ACCOUNT_BRANCH: usize = 4;
const ACCOUNT: usize = 5;
const DELTA: usize = 6;
const TIME: usize = 7;

impl TpcbClient {
    pub fn new(tables: Tables, args: &TpcbArgs, worker: usize, home: Option<i16>) -> Self {
        let int = Value::Int32(0);
        let row = vec![
            Value::Int16(0),
            Value::Int16(worker as i16),
            int.clone(),
            int.clone(),
            Value::Int16(0),
            int,
            Value::Int64(0),
            Value::Timestamp(0),
            Value::Binary(vec![b' '; 16]),
        ];
        Self {
            tables,
            random: Random::new(args.oltp.seed.wrapping_add((worker as u64 + 1) << 32)),
            branches: args.scale.into(),
            accounts: args.accounts_per_branch.into(),
            home,
            operation: args.operation,
            row,
            delta: 0,
            options: TransactionOptions::default(),
            changed: 0,
            committed: 0,
        }
    }

    fn draw(&mut self, end: u64) -> u64 {
        1 + self.random.below(end)
    }

    /// The branch of the account: the teller's own, or, for 15 of 100, another.
    fn account_branch(&mut self, branch: i16) -> i16 {
        if self.branches == 1 || self.random.below(100) < LOCAL_PERCENT {
            return branch;
        }
        let other = self.draw(self.branches - 1) as i16;
        if other >= branch { other + 1 } else { other }
    }
}

impl Client for TpcbClient {
    fn prepare(&mut self, _: u64) -> usize {
        let branch = self.home.unwrap_or(0);
        let branch = if branch > 0 { branch } else { self.draw(self.branches) as i16 };
        let account_branch = self.account_branch(branch);
        self.delta = self.random.below(2 * DELTA_MAX + 1) as i64 - DELTA_MAX as i64;
        self.row[BRANCH] = Value::Int16(branch);
        if let Value::Int32(number) = &mut self.row[NUMBER] {
            *number += 1;
        }
        self.row[TELLER] = Value::Int32(self.draw(TELLERS.into()) as i32);
        self.row[ACCOUNT_BRANCH] = Value::Int16(account_branch);
        self.row[ACCOUNT] = Value::Int32(self.draw(self.accounts) as i32);
        self.row[DELTA] = Value::Int64(self.delta);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.row[TIME] = Value::Timestamp(now.as_micros() as i64);
        self.options.read_only = self.operation == Operation::Select;
        let (own, other) = match self.operation {
            Operation::Transfer => (BRANCH, ACCOUNT_BRANCH),
            Operation::Insert => (BRANCH, BRANCH),
            Operation::Select | Operation::Update => (ACCOUNT_BRANCH, ACCOUNT_BRANCH),
        };
        self.options.partitions.clear();
        for branch in [own, other] {
            let partition = self.tables.branches.partition(&self.row[branch..=branch]);
            if !self.options.partitions.contains(&partition) {
                self.options.partitions.push(partition);
            }
        }
        self.options.partitions.sort_unstable();
        0
    }

    fn execute(&mut self, session: &mut Session) -> Result<Outcome, BenchError> {
        let Self { tables, row, delta, operation, .. } = self;
        let outcome = Outcome::of(session.transaction_with(&self.options, |tx| match operation {
            Operation::Transfer => transfer(tx, tables, row, *delta),
            Operation::Select => select(tx, tables, row),
            Operation::Update => add(tx, tables, row, *delta),
            Operation::Insert => tx.insert(&tables.history, row),
        }))?;
        if outcome == Outcome::Committed {
            self.changed += self.delta;
            self.committed += 1;
        }
        Ok(outcome)
    }
}

fn select(tx: &mut Transaction, tables: &Tables, row: &[Value]) -> TxnResult<()> {
    let balance =
        tx.read_with(&tables.accounts, &row[ACCOUNT_BRANCH..=ACCOUNT], |row| row.i64(BALANCE))?;
    std::hint::black_box(balance);
    Ok(())
}

fn add(tx: &mut Transaction, tables: &Tables, row: &[Value], delta: i64) -> TxnResult<()> {
    let balance = tx.update_with(&tables.accounts, &row[ACCOUNT_BRANCH..=ACCOUNT], |row| {
        row.add_i64(BALANCE, delta)
    })?;
    // The standard transaction returns the account's new balance.
    std::hint::black_box(balance);
    Ok(())
}

fn transfer(tx: &mut Transaction, tables: &Tables, row: &[Value], delta: i64) -> TxnResult<()> {
    add(tx, tables, row, delta)?;
    let teller = [row[BRANCH].clone(), row[TELLER].clone()];
    tx.update_with(&tables.tellers, &teller, |row| {
        row.add_i64(BALANCE, delta);
    })?;
    tx.update_with(&tables.branches, &row[BRANCH..=BRANCH], |row| {
        row.add_i64(BRANCH_BALANCE, delta);
    })?;
    tx.insert(&tables.history, row)
}
