//! Statements that define tables and other objects.

use sqlparser::ast::{ObjectType, Statement};

use super::{Outcome, SqlSession};
use crate::domain_syntax::ALTER_DOMAIN;
use crate::error::SqlError;
use crate::parse::ALTER_VIEW;

impl SqlSession {
    /// Carries out a statement that defines something.
    ///
    /// # Errors
    /// Those of the statement; it is of another kind.
    pub(super) fn define_object(&mut self, statement: Statement) -> Result<Outcome, SqlError> {
        if let Some(done) = self.name_owner(&statement)? {
            return Ok(done);
        }
        match statement {
            Statement::Grant(grant) => self.in_turn(|session| session.grant(&grant)),
            Statement::Revoke(revoke) => self.in_turn(|session| session.revoke(&revoke)),
            Statement::CreateExtension(_) => {
                let hint = "take the statement, and what needs the extension, out of the script";
                Err(unsupported(&statement).with_hint(Some(hint.to_owned())))
            }
            Statement::CreateTable(create) if create.iceberg => {
                self.in_turn(|session| session.create_domain(&create))
            }
            Statement::AlterTable(alter) if alter.table_type == Some(ALTER_DOMAIN) => {
                self.in_turn(|session| session.alter_domain(&alter))
            }
            Statement::DropDomain(drop) => self.in_turn(|session| session.drop_domain(&drop)),
            Statement::CreateTable(create) => match &create.query {
                Some(query) => self.in_turn(|session| session.create_table_as(&create, query)),
                None => self.in_turn(|session| session.create_table(&create)),
            },
            Statement::Drop { object_type: ObjectType::Table, .. } => {
                self.in_turn(|session| session.drop_tables(&statement))
            }
            Statement::CreateView(create) => self.in_turn(|session| session.create_view(&create)),
            Statement::Drop { object_type: ObjectType::View, .. } => {
                self.in_turn(|session| session.drop_views(&statement))
            }
            Statement::AlterTable(alter) if alter.table_type == Some(ALTER_VIEW) => {
                self.in_turn(|session| session.alter_view(&alter, "ALTER VIEW"))
            }
            Statement::AlterTable(alter) => self.in_turn(|session| session.alter_table(&alter)),
            Statement::Comment { object_type, object_name, comment, if_exists: false } => self
                .in_turn(|session| {
                    session.comment_on(object_type, &object_name, comment.as_deref())
                }),
            Statement::CreateIndex(create) => self.in_turn(|session| session.create_index(&create)),
            Statement::Drop { object_type: ObjectType::Index, .. } => {
                self.in_turn(|session| session.drop_indexes(&statement))
            }
            Statement::AlterIndex { name, operation } => {
                self.in_turn(|session| session.alter_index(&name, &operation))
            }
            Statement::CreateSequence { .. } => {
                self.in_turn(|session| session.define_sequence(&statement))
            }
            Statement::Drop { object_type: ObjectType::Sequence, .. } => {
                self.in_turn(|session| session.drop_sequences(&statement))
            }
            Statement::CreateSchema { .. } => self.in_turn(|one| one.create_schema(&statement)),
            Statement::AlterSchema(alter) => self.in_turn(|session| session.alter_schema(&alter)),
            Statement::Drop { object_type: ObjectType::Schema, .. } => {
                self.in_turn(|session| session.drop_schemas(&statement))
            }
            Statement::CreateType { name, representation } => {
                self.in_turn(|session| session.create_type(&name, representation.as_ref()))
            }
            Statement::AlterType(alter) => self.in_turn(|session| session.alter_type(&alter)),
            Statement::Drop { object_type: ObjectType::Type, .. } => {
                self.in_turn(|session| session.drop_types(&statement))
            }
            Statement::Truncate(truncate) => self.in_turn(|session| session.truncate(&truncate)),
            other => Err(unsupported(&other)),
        }
    }
}

/// The error for a statement that is not carried out.
fn unsupported(statement: &Statement) -> SqlError {
    let text = statement.to_string();
    let words: Vec<&str> = text
        .split_whitespace()
        .take_while(|word| word.chars().all(|c| c.is_ascii_uppercase()))
        .take(2)
        .collect();
    let what = if words.is_empty() { "this statement".to_owned() } else { words.join(" ") };
    SqlError::unsupported(format!("{what} is not supported")).with_hint(Some(
        "the statements are CREATE TABLE, ALTER TABLE, DROP TABLE, TRUNCATE, LOCK TABLE, CREATE \
         INDEX, ALTER INDEX, DROP INDEX, CREATE SEQUENCE, ALTER SEQUENCE, DROP SEQUENCE, CREATE \
         VIEW, ALTER VIEW, DROP VIEW, CREATE SCHEMA, ALTER SCHEMA, DROP SCHEMA, CREATE TYPE, ALTER \
         TYPE, DROP TYPE, CREATE DOMAIN, ALTER DOMAIN, DROP DOMAIN, COMMENT, INSERT, UPDATE, \
         DELETE, COPY, BEGIN, COMMIT, ROLLBACK, SAVEPOINT, RELEASE, SELECT, PREPARE, EXECUTE, \
         DEALLOCATE, EXPLAIN, LISTEN, NOTIFY, UNLISTEN, SHOW, SET and RESET"
            .to_owned(),
    ))
}
