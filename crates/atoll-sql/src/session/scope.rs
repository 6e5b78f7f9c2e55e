//! What names mean to the statements of a session.

use atoll::Database;
use sqlparser::ast::Statement;

use super::{SqlSession, Target};
use crate::error::{SqlError, SqlErrorKind};
use crate::resolve::Sight;
use crate::scope::Scope;
use crate::txn::OpenTransaction;
use crate::{resolve, zone};

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

    /// Gives the names of a statement that has been parsed their meaning (`RESOLVE-1`).
    ///
    /// # Errors
    /// As [`resolve::statement`].
    pub(super) fn resolved(&self, mut statement: Statement) -> Result<Statement, SqlError> {
        let path = self.settings.now().search_path();
        let changes_rows = matches!(
            statement,
            Statement::Query(_)
                | Statement::Insert(_)
                | Statement::Update(_)
                | Statement::Delete(_)
                | Statement::Set(_)
                | Statement::Commit { .. }
                | Statement::Rollback { .. }
        );
        if path.is_usual() && changes_rows {
            return Ok(statement);
        }
        match &self.target {
            Target::Snapshot(snapshot) => {
                resolve::statement(&mut statement, path, &Sight::Snapshot(snapshot))?;
            }
            Target::Database { .. } => {
                resolve::statement(&mut statement, path, &Sight::Database(&self.scope()?))?;
            }
        }
        Ok(statement)
    }

    /// As long as it stays the same, texts mean the same: names of tables, and also constants,
    /// which may depend on the zone (`ZONE-1`).
    pub(super) fn names_version(&self) -> u64 {
        self.catalog_version()
            ^ zone::current().mark()
            ^ self.settings.now().path.as_ref().map_or(0, |path| path.mark())
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

    /// The database, for a statement that changes it.
    pub(super) fn writable(&self, what: &str) -> Result<&Database, SqlError> {
        self.check_not_reading(what)?;
        self.database(what)
    }

    /// The database, for a statement that changes nothing in it.
    pub(super) fn database(&self, what: &str) -> Result<&Database, SqlError> {
        match &self.target {
            Target::Database { db, open } => {
                open.as_ref().map_or(Ok(()), OpenTransaction::check)?;
                Ok(db)
            }
            Target::Snapshot(_) => Err(SqlError::new(
                SqlErrorKind::ReadOnly,
                format!("{what} is refused: this session reads a snapshot, which never changes"),
            )
            .with_hint(Some("change the database in the process that owns it".to_owned()))),
        }
    }

    /// The database, for a statement that cannot be part of a transaction.
    pub(super) fn outside_transaction(&self, what: &str) -> Result<&Database, SqlError> {
        let db = self.writable(what)?;
        if self.in_transaction() {
            return Err(SqlError::unsupported(format!(
                "{what} is not supported inside a transaction; COMMIT or ROLLBACK first"
            )));
        }
        Ok(db)
    }
}
