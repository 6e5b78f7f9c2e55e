//! Errors of alterations.

use atoll::{Column, DataType};

use crate::error::{Cause, SqlError, SqlErrorKind};
use crate::quoted::quoted_if_needed;

pub(super) fn is_identity(column: &str, table: &str) -> SqlError {
    let message = format!("column \"{column}\" of relation \"{table}\" is an identity column");
    SqlError::new(SqlErrorKind::Syntax, message)
}

/// The error of a column from which another one is computed.
pub(super) fn needed_by_generated(column: &str, generated: &[String], table: &str) -> SqlError {
    let message =
        format!("cannot drop column {column} of table {table} because other objects depend on it");
    let depends = |one: &String| {
        format!("column {one} of table {table} depends on column {column} of table {table}")
    };
    let detail = generated.iter().map(depends).collect::<Vec<_>>().join("\n");
    SqlError::new(SqlErrorKind::Schema, message)
        .with_cause(Cause::Needed)
        .with_detail(detail)
        .with_hint(Some("Use DROP ... CASCADE to drop the dependent objects too.".to_owned()))
}

pub(super) fn not_by_itself(column: &Column, wanted: DataType) -> SqlError {
    let Column { name, data_type, .. } = column;
    let message =
        format!("column \"{name}\" of type {data_type} does not become {wanted} by itself");
    SqlError::new(SqlErrorKind::Type, message)
        .with_cause(Cause::OtherType)
        .with_hint(Some(format!("say how: USING {}::{wanted}", quoted_if_needed(name))))
}
