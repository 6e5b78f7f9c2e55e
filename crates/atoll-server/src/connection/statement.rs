//! Prepared statements and portals.

use std::sync::{Arc, OnceLock};

use atoll_sql::{Literal, PreparedStatement};

use super::kind::Kind;
use super::rows::Rows;
use crate::statements::Totals;
use crate::values::Column;

/// A statement that a client has prepared.
pub(crate) struct Statement {
    pub(crate) text: Arc<str>,
    pub(crate) kind: Kind,
    /// Of one that may have parameters and return rows.
    pub(crate) prepared: Option<PreparedStatement>,
    /// The types of its parameters.
    pub(crate) parameters: Vec<u32>,
    /// The columns of its result as the client was told, once it was.
    pub(crate) columns: OnceLock<Arc<[Column]>>,
    /// What its runs came to, once it has run.
    pub(crate) totals: OnceLock<Arc<Totals>>,
}

/// A statement with values for its parameters.
pub(crate) struct Portal {
    pub(crate) statement: Arc<Statement>,
    pub(crate) values: Vec<Literal>,
    pub(crate) formats: Vec<i16>,
    pub(crate) progress: Progress,
    pub(crate) life: Life,
}

/// How long a portal lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Life {
    /// Until its transaction ends.
    Transaction,
    /// Beyond its transaction, if that commits.
    Hold,
    /// Until it is closed.
    Held,
}

/// How far a portal has come.
pub(crate) enum Progress {
    Ready,
    /// It has run, and has rows left.
    Open {
        rows: Box<Rows>,
        columns: Arc<[Column]>,
    },
    /// It has run, and all of its rows have been sent.
    Done,
}

impl Portal {
    pub(crate) fn new(statement: Arc<Statement>, values: Vec<Literal>, formats: Vec<i16>) -> Self {
        let (progress, life) = (Progress::Ready, Life::Transaction);
        Self { statement, values, formats, progress, life }
    }
}
