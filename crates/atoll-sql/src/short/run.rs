//! What a plan runs with, and the rows that its nodes make.

use std::ops::Range;

use atoll::{Transaction, TxnError, Value};

use super::scalar::Surroundings;
use crate::error::SqlError;
use crate::interrupt::Interrupt;

/// Rows, one after the other.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Rows {
    pub(super) width: usize,
    pub(super) count: usize,
    pub(super) values: Vec<Value>,
}

impl Rows {
    /// No rows, of so many columns.
    pub(crate) fn new(width: usize) -> Self {
        Self { width, count: 0, values: Vec::new() }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// One row.
    pub(crate) fn row(&self, at: usize) -> &[Value] {
        &self.values[at * self.width..(at + 1) * self.width]
    }

    /// Changes the texts of a column.
    pub(crate) fn change(&mut self, column: usize, change: impl Fn(&str) -> String) {
        for value in self.values.iter_mut().skip(column).step_by(self.width) {
            if let Value::Text(text) = value {
                *text = change(text);
            }
        }
    }

    /// All rows.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &[Value]> {
        (0..self.count).map(|at| self.row(at))
    }

    /// Some rows, as far as there are so many, one behind the other.
    pub(crate) fn some(&self, rows: Range<usize>) -> &[Value] {
        &self.values[rows.start * self.width..rows.end.min(self.count) * self.width]
    }

    /// Adds a row.
    pub(crate) fn push(&mut self, row: impl IntoIterator<Item = Value>) {
        self.values.extend(row);
        self.count += 1;
        debug_assert_eq!(self.values.len(), self.count * self.width);
    }

    /// Keeps some rows, in the order of these positions.
    pub(super) fn take(&self, order: impl Iterator<Item = usize>) -> Self {
        let mut taken = Self::new(self.width);
        order.for_each(|at| taken.push(self.row(at).iter().cloned()));
        taken
    }
}

/// Why a plan stopped.
pub(crate) enum Stop {
    /// The transaction was aborted, or the database failed.
    Transaction(TxnError),
    /// The statement fails.
    Error(SqlError),
    /// It has looked at more rows than it may.
    TooManyRows,
    /// It has passed by rows that other transactions hold.
    Passed,
}

impl From<TxnError> for Stop {
    fn from(end: TxnError) -> Self {
        Self::Transaction(end)
    }
}

impl From<SqlError> for Stop {
    fn from(error: SqlError) -> Self {
        Self::Error(error)
    }
}

/// What a plan runs with.
pub(crate) struct Run<'r> {
    /// `None` for a plan that accesses no table.
    pub(crate) transaction: Option<&'r mut Transaction>,
    pub(crate) around: &'r Surroundings,
    /// The rows that the caller gives, see `Path::Given` of `access`.
    pub(crate) given: &'r [&'r [Value]],
    pub(crate) interrupt: &'r Interrupt,
    /// Rows that it may still look at.
    pub(crate) rows_left: u64,
    /// The cache lines of the next rows that are looked up have been fetched.
    pub(crate) has_prefetched: bool,
}

impl Run<'_> {
    /// Notes that the plan looks at one more row.
    pub(super) fn look(&mut self) -> Result<(), Stop> {
        self.interrupt.check_row()?;
        self.rows_left = self.rows_left.checked_sub(1).ok_or(Stop::TooManyRows)?;
        Ok(())
    }
}
