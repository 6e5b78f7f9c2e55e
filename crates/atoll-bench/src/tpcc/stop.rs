//! How the body of a transaction can end other than well.
//!
//! A scheme that validates at the end lets a transaction that it is going to abort run on what is
//! no longer true: a row that must be there may be missing, an order number may be taken. So
//! neither is believed before the transaction has committed: the body ends as if all were well, the
//! commit aborts it and it runs again, or it does commit, and then the database is wrong.

use std::fmt;

use atoll::{Error, TxnError, TxnResult, Value};

/// Something that cannot be in a database that is right.
#[derive(Debug, Clone, PartialEq)]
pub enum Wrong {
    /// A row that must be there was not.
    Missing {
        /// Its table.
        table: &'static str,
        /// Its key.
        key: Vec<Value>,
    },
    /// A row that must not be there was.
    Duplicate {
        /// Its table.
        table: String,
        /// Its key as people write it.
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

/// Why a body went no further.
#[derive(Debug)]
pub enum Stop {
    /// The database said so.
    Txn(TxnError),
    /// It has found what cannot be.
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

/// The row that was found, or that it is missing.
pub fn found<R>(row: Option<R>, table: &'static str, key: &[Value]) -> Ran<R> {
    row.ok_or_else(|| Stop::Wrong(Wrong::Missing { table, key: key.to_vec() }))
}

/// Lets a transaction that found what cannot be go on to its commit.
pub fn settle(ran: Ran<()>) -> TxnResult<Option<Wrong>> {
    match ran {
        Ok(()) => Ok(None),
        Err(Stop::Wrong(wrong)) => Ok(Some(wrong)),
        Err(Stop::Txn(error)) => Err(error),
    }
}
