//! Parts of statements that have no effect here, and are told in notices: owners, where there are
//! no roles, and storage parameters.

use sqlparser::ast::{
    AlterSchemaOperation, AlterTableOperation, CreateTableOptions, Expr, ObjectName, SqlOption,
    Statement,
};

use super::{Outcome, SqlSession};
use crate::error::{Cause, SqlError, SqlErrorKind};
use crate::notice::Notice;
use crate::{names, schemas};

/// The storage parameters of PostgreSQL, but those of vacuuming.
const PARAMETERS: [&str; 8] = [
    "fillfactor",
    "parallel_workers",
    "toast_tuple_target",
    "vacuum_truncate",
    "vacuum_index_cleanup",
    "deduplicate_items",
    "buffering",
    "log_autovacuum_min_duration",
];

impl SqlSession {
    /// Tells something of the running statement, once.
    fn notice(&mut self, text: &str) {
        let notice = Notice::warning(text);
        if !self.notices.contains(&notice) {
            self.tell(notice);
        }
    }

    /// Carries out a statement that does nothing but name the owner of something.
    ///
    /// # Errors
    /// What it names does not exist.
    pub(super) fn name_owner(
        &mut self,
        statement: &Statement,
    ) -> Result<Option<Outcome>, SqlError> {
        let (name, is_schema, if_exists, tag) = match statement {
            Statement::AlterTable(alter)
                if matches!(alter.operations.as_slice(), [AlterTableOperation::OwnerTo { .. }]) =>
            {
                (&alter.name, false, alter.if_exists, "ALTER TABLE")
            }
            Statement::AlterSchema(alter)
                if matches!(
                    alter.operations.as_slice(),
                    [AlterSchemaOperation::OwnerTo { .. }]
                ) =>
            {
                (&alter.name, true, alter.if_exists, "ALTER SCHEMA")
            }
            _ => return Ok(None),
        };
        self.may_define(tag)?;
        if !self.exists(name, is_schema)? {
            let shown = names::last(name);
            return match (if_exists, is_schema) {
                (true, _) => {
                    self.tell(Notice::missing("relation", &shown));
                    Ok(Some(Outcome::done(tag, 0)))
                }
                (false, true) => Err(schemas::unknown(&shown)),
                (false, false) => {
                    let message = format!("relation \"{name}\" does not exist");
                    Err(SqlError::new(SqlErrorKind::UnknownTable, message))
                }
            };
        }
        if !self.give(statement)? {
            self.notice("OWNER TO has no effect: this program has no roles");
        }
        Ok(Some(Outcome::done(tag, 0)))
    }

    fn exists(&self, name: &ObjectName, is_schema: bool) -> Result<bool, SqlError> {
        let scope = self.scope()?;
        if is_schema {
            return Ok(schemas::exists(&names::last(name), &|name| scope.has(name)));
        }
        let (flat, _) = names::table_name(name)?;
        Ok(scope.has(&flat) || scope.table_of_index(&flat).is_some())
    }

    /// Tells that the storage parameters of a table have no effect.
    ///
    /// # Errors
    /// Another parameter is among them.
    pub(super) fn check_table_options(
        &mut self,
        options: &CreateTableOptions,
    ) -> Result<(), SqlError> {
        let CreateTableOptions::With(options) = options else { return Ok(()) };
        for option in options {
            match option {
                SqlOption::KeyValue { key, .. } => self.check_parameter(&names::fold(key))?,
                other => self.check_parameter(&other.to_string())?,
            }
        }
        Ok(())
    }

    /// The same for an index.
    ///
    /// # Errors
    /// As [`SqlSession::check_table_options`].
    pub(super) fn check_index_options(&mut self, options: &[Expr]) -> Result<(), SqlError> {
        for option in options {
            let name = match option {
                Expr::BinaryOp { left, .. } => left.to_string(),
                other => other.to_string(),
            };
            self.check_parameter(&name.to_ascii_lowercase())?;
        }
        Ok(())
    }

    fn check_parameter(&mut self, name: &str) -> Result<(), SqlError> {
        let bare = name.strip_prefix("toast.").unwrap_or(name);
        if !PARAMETERS.contains(&bare) && !bare.starts_with("autovacuum_") {
            let message = format!("unrecognized parameter \"{name}\"");
            return Err(SqlError::new(SqlErrorKind::Unsupported, message)
                .with_cause(Cause::InvalidParameter));
        }
        self.notice("storage parameters have no effect: tables are not stored in pages");
        Ok(())
    }
}
