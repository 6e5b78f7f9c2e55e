//! What a statement returns.

use crate::result::QueryResult;
use crate::stream::QueryStream;

/// The outcome of a statement.
#[derive(Debug)]
#[non_exhaustive]
pub enum Outcome {
    /// A query returned rows.
    Rows(QueryResult),
    /// Any other statement was carried out.
    Done {
        /// The command tag, as in PostgreSQL: `CREATE TABLE`, `INSERT 0 3`, `UPDATE 1`.
        tag: String,
        /// Rows that it touched.
        rows: u64,
    },
    /// A query returns rows as they are read; of [`crate::SqlSession::stream`] only.
    Stream(QueryStream),
}

impl Outcome {
    pub(super) fn done(tag: impl Into<String>, rows: u64) -> Self {
        Self::Done { tag: tag.into(), rows }
    }

    /// The command tag, of a statement that changes something.
    pub fn tag(&self) -> Option<&str> {
        match self {
            Self::Rows(result) => result.change().map(|(tag, _)| tag),
            Self::Done { tag, .. } => Some(tag),
            Self::Stream(stream) => stream.change().map(|(tag, _)| tag),
        }
    }

    /// Rows returned, or rows touched; 0 where the rows are yet to be read.
    pub fn row_count(&self) -> u64 {
        match self {
            Self::Rows(result) => {
                result.change().map_or(result.row_count() as u64, |(_, rows)| rows)
            }
            Self::Done { rows, .. } => *rows,
            Self::Stream(_) => 0,
        }
    }
}
