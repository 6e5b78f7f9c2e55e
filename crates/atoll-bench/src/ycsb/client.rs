//! One thread's transactions: which rows it accesses, and how.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use atoll::{Index, Range, Row, Session, Table, Transaction, TransactionOptions, TxnResult, Value};

use super::args::{Plan, ReadColumns};
use super::choice::Choice;
use super::rows;
use crate::error::BenchError;
use crate::keys::{Random, Zipf};
use crate::oltp::{Client, Outcome};

/// What a transaction does with a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    Read,
    Update,
    Insert,
    Scan,
    ReadModifyWrite,
}

/// Names of [`Operation`]s, in order.
pub const OPERATIONS: &[&str] = &["read", "update", "insert", "scan", "read-modify-write"];

#[derive(Debug, Clone, Copy)]
struct Access {
    operation: Operation,
    column: usize,
    /// Most rows of a scan.
    rows: u64,
}

/// What all threads share.
pub struct Field {
    pub plan: Plan,
    pub table: Table,
    /// Positions of the columns beside the key.
    pub columns: Vec<usize>,
    /// The ordered index on the key, for scans.
    pub index: Option<Index>,
    /// The next key that is inserted.
    pub next: AtomicU64,
}

/// Transactions that are drawn before they are run again: a client that draws while it is measured
/// spends a fifth of its time on that. As many touch far more rows than caches hold.
const POOL: usize = 1 << 14;

/// A transaction as it was drawn.
#[derive(Default)]
struct Drawn {
    accesses: Vec<Access>,
    keys: Vec<Value>,
    options: TransactionOptions,
}

/// One thread's side.
pub struct YcsbClient {
    field: Arc<Field>,
    choice: Choice,
    /// Ranks counted from the newest row, for workload D.
    latest: Option<Zipf>,
    random: Random,
    accesses: Vec<Access>,
    keys: Vec<Value>,
    /// Random bytes that updates take their values from.
    source: Vec<u8>,
    /// Where reads put what they have read.
    target: Vec<u8>,
    /// The row that is inserted.
    row: Vec<Value>,
    options: TransactionOptions,
    /// Drawn during the warm-up; empty if keys depend on what has been inserted.
    pool: Vec<Drawn>,
    next: usize,
    /// Rows that it has inserted.
    pub inserted: u64,
    inserts: u64,
}

impl YcsbClient {
    pub fn new(field: Arc<Field>, choice: Choice, seed: u64, is_latest: bool) -> Self {
        let plan = &field.plan;
        let mut random = Random::new(seed);
        let bytes = plan.column_bytes as usize;
        let mut source = vec![0; bytes + 4096];
        rows::fill_bytes(&mut source, &mut random);
        Self {
            latest: is_latest.then(|| Zipf::new(plan.rows, plan.theta)),
            accesses: Vec::with_capacity(plan.accesses),
            keys: Vec::with_capacity(plan.accesses),
            source,
            target: vec![0; bytes * plan.columns],
            row: rows::empty_row(plan),
            options: TransactionOptions::default(),
            pool: Vec::new(),
            next: 0,
            inserted: 0,
            inserts: 0,
            choice,
            random,
            field,
        }
    }

    fn operation(&mut self) -> Operation {
        let mix = &self.field.plan.mix;
        let mut left = self.random.unit();
        let shares = [
            (Operation::Read, mix.reads),
            (Operation::Update, mix.updates),
            (Operation::Insert, mix.inserts),
            (Operation::Scan, mix.scans),
        ];
        for (operation, share) in shares {
            if left < share {
                return operation;
            }
            left -= share;
        }
        let last = [(Operation::ReadModifyWrite, mix.read_modify_writes)];
        let possible = last.into_iter().chain(shares.into_iter().rev());
        // A rounding error may lead beyond the last share.
        possible.into_iter().find(|(_, share)| *share > 0.0).map_or(Operation::Read, |(op, _)| op)
    }

    fn key(&mut self, operation: Operation, access: usize) -> u64 {
        if operation == Operation::Insert {
            return self.field.next.fetch_add(1, Ordering::Relaxed);
        }
        match &self.latest {
            None => self.choice.key(access, self.field.plan.accesses),
            Some(zipf) => {
                let newest = self.field.next.load(Ordering::Relaxed);
                newest.saturating_sub(zipf.rank(&mut self.random))
            }
        }
    }

    /// The partitions of the transaction, for a scheme that must know them; all for a scan.
    fn choose_partitions(&mut self) {
        self.options.partitions.clear();
        if self.accesses.iter().any(|access| access.operation == Operation::Scan) {
            return;
        }
        for key in self.keys.chunks(1) {
            let partition = self.field.table.partition(key);
            if !self.options.partitions.contains(&partition) {
                self.options.partitions.push(partition);
            }
        }
        self.options.partitions.sort_unstable();
    }
}

fn is_write(access: &Access) -> bool {
    matches!(access.operation, Operation::Update | Operation::Insert | Operation::ReadModifyWrite)
}

impl YcsbClient {
    /// Exchanges the transaction in hand for one of the pool, or the other way round.
    fn exchange(&mut self, at: usize) {
        let drawn = &mut self.pool[at];
        std::mem::swap(&mut self.accesses, &mut drawn.accesses);
        std::mem::swap(&mut self.keys, &mut drawn.keys);
        std::mem::swap(&mut self.options, &mut drawn.options);
    }

    fn draw(&mut self) {
        let plan = &self.field.plan;
        let (count, columns, scan_max) = (plan.accesses, plan.columns, plan.scan_max);
        let (sort, partitioned) = (plan.sort_keys, plan.oltp.is_partitioned());
        self.accesses.clear();
        self.keys.clear();
        self.choice.begin();
        self.inserts = 0;
        for access in 0..count {
            let operation = self.operation();
            let key = self.key(operation, access);
            let column = 1 + self.random.below(columns as u64) as usize;
            let rows =
                if operation == Operation::Scan { 1 + self.random.below(scan_max) } else { 0 };
            self.inserts += u64::from(operation == Operation::Insert);
            self.accesses.push(Access { operation, column, rows });
            self.keys.push(Value::Int64(key.cast_signed()));
        }
        if sort {
            // Which access a key has is random already, so the keys alone are sorted; a new row
            // keeps its place only when there is no other access.
            sort_keys(&mut self.keys, &mut self.accesses);
        }
        if partitioned {
            self.choose_partitions();
        }
        self.options.read_only = !self.accesses.iter().any(is_write);
    }
}

impl Client for YcsbClient {
    fn prepare(&mut self) -> usize {
        let depends = self.latest.is_some() || self.field.plan.mix.inserts > 0.0;
        if self.pool.len() == POOL {
            // Back to its place, and the next one.
            self.exchange(self.next);
            self.next = (self.next + 1) % POOL;
            self.exchange(self.next);
        } else {
            self.draw();
            if !depends {
                let drawn = Drawn {
                    accesses: self.accesses.clone(),
                    keys: self.keys.clone(),
                    options: self.options.clone(),
                };
                self.pool.push(drawn);
                if self.pool.len() == POOL {
                    self.exchange(self.next);
                }
            }
        }
        if self.accesses.len() == 1 { self.accesses[0].operation as usize } else { 0 }
    }

    fn execute(&mut self, session: &mut Session) -> Result<Outcome, BenchError> {
        let Self { field, accesses, keys, source, target, row, options, random, .. } = self;
        let values = &source[random.below(4096) as usize..][..field.plan.column_bytes as usize];
        let outcome = Outcome::of(session.transaction_with(options, |tx| {
            if field.plan.batch {
                prefetch(tx, field, keys, accesses);
            }
            for (access, key) in accesses.iter().zip(keys.chunks(1)) {
                perform(tx, field, access, key, values, target, row)?;
            }
            Ok(())
        }))?;
        std::hint::black_box(&self.target);
        self.inserted += self.inserts;
        Ok(outcome)
    }
}

fn sort_keys(keys: &mut Vec<Value>, accesses: &mut Vec<Access>) {
    let number = |value: &Value| if let Value::Int64(key) = value { *key } else { 0 };
    let mut both: Vec<_> = keys.drain(..).zip(accesses.drain(..)).collect();
    both.sort_by_key(|(key, _)| number(key));
    (*keys, *accesses) = both.into_iter().unzip();
}

/// Tells the database the keys of the transaction together, with the columns of each, so that
/// looking for one does not wait for looking for another.
fn prefetch(tx: &mut Transaction, field: &Field, keys: &[Value], accesses: &[Access]) {
    let all = &field.columns[..];
    tx.prefetch_each(&field.table, keys, |at| match &accesses[at] {
        Access { operation: Operation::ReadModifyWrite, .. } => all,
        Access { operation: Operation::Read, .. }
            if field.plan.read_columns == ReadColumns::All =>
        {
            all
        }
        Access { operation: Operation::Insert | Operation::Scan, .. } => &[],
        Access { column, .. } => std::slice::from_ref(column),
    });
}

fn perform(
    tx: &mut Transaction,
    field: &Field,
    access: &Access,
    key: &[Value],
    value: &[u8],
    target: &mut [u8],
    row: &mut [Value],
) -> TxnResult<()> {
    let (table, bytes) = (&field.table, field.plan.column_bytes as usize);
    let column = access.column;
    match access.operation {
        Operation::Read => {
            let all = field.plan.read_columns == ReadColumns::All;
            let columns = if all { 1..field.plan.columns + 1 } else { column..column + 1 };
            tx.read_with(table, key, |row| {
                for (column, target) in columns.clone().zip(target.chunks_mut(bytes)) {
                    row.bytes(column, target);
                }
            })?;
        }
        Operation::Update => {
            tx.update_with(table, key, |row| row.set_bytes(column, value))?;
        }
        Operation::ReadModifyWrite => {
            tx.update_with(table, key, |row| {
                for (column, target) in (1..).zip(target.chunks_mut(bytes)) {
                    row.bytes(column, target);
                }
                let changed = &mut target[(column - 1) * bytes..][..bytes];
                changed.iter_mut().zip(value).for_each(|(old, new)| *old ^= new);
                row.set_bytes(column, changed);
            })?;
        }
        Operation::Insert => {
            rows::set_key(row, key);
            tx.insert(table, row)?;
        }
        Operation::Scan => {
            let Some(index) = &field.index else { return Ok(()) };
            let range =
                Range { from: Bound::Included(key), to: Bound::Unbounded, descending: false };
            let mut left = access.rows;
            let look = |row: &Row<'_>| {
                for (column, target) in (1..).zip(target.chunks_mut(bytes)) {
                    row.bytes(column, target);
                }
            };
            tx.scan(index, range, look, |()| {
                left -= 1;
                if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })?;
        }
    }
    Ok(())
}
