//! The reasons why the body of a transaction ends early.
//!
//! Under a scheme that validates at commit, a transaction that will abort may read inconsistent
//! values: a row that must exist may be missing, an order number may be taken. So such a finding
//! counts only when the transaction has committed: the body returns as if all were well; either the
//! commit aborts the transaction and it is retried, or it commits, and then the database is wrong.

use std::fmt;

use atoll::{Error, TxnError, TxnResult, Value};

/// A finding that is impossible in a consistent database.
#[derive(Debug, Clone, PartialEq)]
pub enum Wrong {
    /// A row that must exist is missing.
    Missing {
        /// Its table.
        table: &'static str,
        /// Its key.
        key: Vec<Value>,
    },
    /// A row exists that must not.
    Duplicate {
        /// Its table.
        table: String,
        /// Its key as text.
        key: String,
    },
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { table, key } => {
                write!(f, "a transaction found no row of \"{table}\" with key {key:?}")
            }
            Self::Duplicate { table, key } => {
                write!(f, "a transaction was to insert {key} into \"{table}\", which had it")
            }
        }
    }
}

/// The reason why a body ended early.
#[derive(Debug)]
pub enum Stop {
    /// An abort or an error of the database.
    Txn(TxnError),
    /// An inconsistency.
    Wrong(Wrong),
}

impl From<TxnError> for Stop {
    fn from(error: TxnError) -> Self {
        match error {
            TxnError::Error(Error::DuplicateKey { table, key }) => {
                Self::Wrong(Wrong::Duplicate { table, key })
            }
            error => Self::Txn(error),
        }
    }
}

/// Result of a body.
pub type Ran<R> = Result<R, Stop>;

/// The row that was found, or the error that it is missing.
pub fn found<R>(row: Option<R>, table: &'static str, key: &[Value]) -> Ran<R> {
    row.ok_or_else(|| Stop::Wrong(Wrong::Missing { table, key: key.to_vec() }))
}

/// Lets a transaction that found an inconsistency go on to its commit.
pub fn settle(ran: Ran<()>) -> TxnResult<Option<Wrong>> {
    match ran {
        Ok(()) => Ok(None),
        Err(Stop::Wrong(wrong)) => Ok(Some(wrong)),
        Err(Stop::Txn(error)) => Err(error),
    }
}
