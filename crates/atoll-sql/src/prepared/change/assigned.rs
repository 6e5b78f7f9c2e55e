//! The types of values that a statement assigns to columns.
//!
//! `ASSIGN-1`: a value of a type that its column does not take is refused when the statement is
//! bound, though it may touch no row. A quoted literal, NULL and a parameter have no type yet, so
//! the column decides what they are.

use atoll::{DataType, Schema};
use sqlparser::ast::{Expr, Query, SelectItem, SetExpr, Spanned, Value as SqlValue};

use crate::error::{Cause, SqlError, SqlErrorKind};
use crate::literal::Literal;
use crate::prepared::parameters::{self, ParameterType};
use crate::types;

/// Checks that a column takes a value of a type, which is perhaps written as this expression.
///
/// # Errors
/// It does not.
pub(super) fn check(
    schema: &Schema,
    column: usize,
    from: DataType,
    written: Option<&Expr>,
) -> Result<(), SqlError> {
    let definition = &schema.columns()[column];
    let to = definition.data_type;
    // An expression does not tell bytes of a width from a UUID.
    let is_bytes =
        |one| matches!(one, DataType::Binary | DataType::FixedBinary(_)) || one == DataType::Uuid;
    let takes = types::is_assignable(from, to) || is_bytes(from) && is_bytes(to);
    if takes || written.is_some_and(has_no_type) {
        return Ok(());
    }
    let message =
        format!("column \"{}\" is of type {to} but expression is of type {from}", definition.name);
    let error = SqlError::new(SqlErrorKind::Type, message)
        .with_cause(Cause::OtherType)
        .with_hint(Some("You will need to rewrite or cast the expression.".to_owned()));
    Err(match written {
        Some(written) => error.at(written.span()),
        None => error,
    })
}

/// Checks that a column takes a constant, which is written as this expression.
///
/// # Errors
/// It does not.
pub(super) fn check_constant(
    schema: &Schema,
    column: usize,
    constant: &Literal,
    written: &Expr,
) -> Result<(), SqlError> {
    match parameters::own_type(constant) {
        Some(ParameterType::One(from)) => check(schema, column, from, Some(written)),
        _ => Ok(()),
    }
}

/// Whether an expression has no type of its own.
fn has_no_type(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => has_no_type(inner),
        Expr::Value(value) => matches!(
            value.value,
            SqlValue::SingleQuotedString(_)
                | SqlValue::EscapedStringLiteral(_)
                | SqlValue::DollarQuotedString(_)
                | SqlValue::Placeholder(_)
                | SqlValue::Null
        ),
        // A parameter may be declared with the type of its value.
        Expr::Cast { expr, .. } => parameters::parameter(expr).is_some(),
        _ => false,
    }
}

/// The expression that a query has written for one of its columns, if it is one `SELECT`.
pub(super) fn written_item(query: &Query, at: usize, count: usize) -> Option<&Expr> {
    match query.body.as_ref() {
        SetExpr::Query(inner) => written_item(inner, at, count),
        SetExpr::Select(select) => {
            let items = &select.projection;
            let is_wild = |item: &SelectItem| {
                !matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. })
            };
            let from_end = (count - at).checked_sub(1)?;
            let before = items.iter().take(at + 1).all(|item| !is_wild(item));
            let behind = items.iter().rev().take(from_end + 1).all(|item| !is_wild(item));
            let item = match (before, behind) {
                (true, _) => items.get(at),
                (false, true) => items.iter().rev().nth(from_end),
                (false, false) => None,
            };
            match item? {
                SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
                    Some(expr)
                }
                _ => None,
            }
        }
        SetExpr::Values(values) => values.rows.first()?.content.get(at),
        _ => None,
    }
}
