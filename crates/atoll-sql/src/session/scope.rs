//! What names mean to the statements of a session.

use super::{SqlSession, Target};
use crate::error::{SqlError, SqlErrorKind};
use crate::scope::Scope;

impl SqlSession {
    /// What the names of tables mean.
    pub(super) fn scope(&self) -> Result<Scope, SqlError> {
        match &self.target {
            Target::Database { db, open: Some(open) } if open.has_definitions() => {
                Ok(Scope::within(db, open.catalog()))
            }
            Target::Database { db, .. } => Ok(Scope::of(db)?),
            Target::Snapshot(_) => {
                Err(SqlError::new(SqlErrorKind::ReadOnly, "a snapshot never changes"))
            }
        }
    }

    /// As long as it stays the same, names mean the same.
    pub(super) fn names_version(&self) -> u64 {
        match &self.target {
            Target::Database { open: Some(open), .. } if open.has_definitions() => {
                open.catalog().version()
            }
            Target::Database { db, .. } => db.catalog_version(),
            Target::Snapshot(_) => 0,
        }
    }
}
