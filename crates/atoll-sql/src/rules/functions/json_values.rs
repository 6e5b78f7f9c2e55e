//! The arguments of functions of JSON, and their results.

use super::refused;
use crate::error::SqlError;
use crate::json::{self, Json, Node};
use crate::literal::Literal;

pub(super) fn failed(fault: json::Fault) -> SqlError {
    refused(fault.state, fault.message)
}

pub(super) fn text(values: &[Literal], at: usize) -> &str {
    match values.get(at) {
        Some(Literal::Text(text) | Literal::Json(text)) => text,
        _ => "",
    }
}

/// A value as it was written.
pub(super) fn read(values: &[Literal], at: usize) -> Result<Node, SqlError> {
    json::parse(text(values, at)).map_err(failed)
}

/// A value of a `jsonb`.
pub(super) fn value(values: &[Literal], at: usize) -> Result<Json, SqlError> {
    read(values, at)?.value.settled().map_err(failed)
}

/// A value that was made of settled ones.
pub(super) fn made(value: Json) -> Result<Literal, SqlError> {
    value.settled().map(|value| Literal::Json(json::of_jsonb(&value))).map_err(failed)
}

/// The elements of a text array; those that are NULL are left out.
pub(super) fn path(values: &[Literal], at: usize) -> Vec<String> {
    match values.get(at) {
        Some(Literal::List(items)) => items.iter().filter_map(Literal::to_text).collect(),
        _ => Vec::new(),
    }
}
