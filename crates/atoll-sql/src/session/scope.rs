//! What names mean to the statements of a session.

use super::{SqlSession, Target};
use crate::error::{SqlError, SqlErrorKind};
use crate::scope::Scope;
use crate::zone;

impl SqlSession {
    /// What the names of tables mean.
    pub(super) fn scope(&self) -> Result<Scope, SqlError> {
        match &self.target {
            Target::Database { db, open: Some(open) } if open.has_definitions() => {
                let version = db.catalog_version();
                Ok(Scope::within(db, version, open.catalog()))
            }
            Target::Database { db, .. } => Ok(Scope::of(db)?),
            Target::Snapshot(_) => {
                Err(SqlError::new(SqlErrorKind::ReadOnly, "a snapshot never changes"))
            }
        }
    }

    /// As long as it stays the same, texts mean the same: names of tables, and also constants,
    /// which may depend on the zone (`ZONE-1`).
    pub(super) fn names_version(&self) -> u64 {
        self.catalog_version() ^ zone::current().mark()
    }

    fn catalog_version(&self) -> u64 {
        match &self.target {
            Target::Database { open: Some(open), .. } if open.has_definitions() => {
                open.catalog().version()
            }
            Target::Database { db, .. } => db.catalog_version(),
            Target::Snapshot(_) => 0,
        }
    }
}
