//! The values that rows get in columns which `ALTER TABLE` adds: one for all rows, where the
//! default says the same for each.

use std::ops::ControlFlow;

use atoll::{Transaction, Value};
use sqlparser::ast::{Expr, Statement, visit_expressions};

use super::over_rows::run_over_rows;
use crate::alter::{Altered, cast};
use crate::declared::Declared;
use crate::error::{ApplyError, SqlError};
use crate::eval;
use crate::literal::Literal;
use crate::prepared::query::Binder;
use crate::prepared::{Body, Unbound};
use crate::short::scalar::Began;
use crate::{names, parse};

/// Functions with the same result for all rows of a statement.
const STABLE: [&str; 5] =
    ["now", "transaction_timestamp", "current_timestamp", "localtimestamp", "current_date"];

/// The values of the columns that a table gets; `None` if they take a copy of the table.
pub(super) fn constants(
    altered: &Altered,
    binder: &Binder<'_>,
    transaction: &mut Transaction,
    began: &Began,
) -> Result<Option<Vec<Value>>, ApplyError> {
    let schema = &altered.new.schema;
    let first = altered.old.schema().visible().len();
    let mut values = Vec::new();
    for (at, expr) in altered.values.iter().enumerate().skip(first) {
        let data_type = schema.columns()[at].data_type;
        let literal = match eval::constant(expr) {
            Some(literal) => literal?,
            None if is_stable(expr) => {
                let query = format!("SELECT {}", cast(expr.clone(), data_type));
                match of_query(&parse::one(&query)?, binder, transaction, began)? {
                    Some(value) => Literal::of(value, data_type),
                    None => return Ok(None),
                }
            }
            None => return Ok(None),
        };
        // That a column cannot be NULL is of no importance to a table without rows.
        values.push(match literal {
            Literal::Null => Value::Null,
            literal => literal.into_column(schema, at)?,
        });
    }
    Ok(Some(values))
}

/// The foreign keys that rows have to be checked for. A key with an added column that is NULL in
/// all rows refers to nothing.
pub(super) fn unchecked(altered: &Altered, added: &[Value]) -> Result<Vec<String>, SqlError> {
    let schema = &altered.new.schema;
    let nulls = added.iter().rev().zip(schema.columns().iter().rev());
    let nulls: Vec<&String> =
        nulls.filter(|(value, _)| **value == Value::Null).map(|(_, column)| &column.name).collect();
    let keys = Declared::of(schema)?.foreign_keys;
    let refers_to_nothing = |name: &String| {
        let key = keys.iter().find(|key| key.name == *name);
        key.is_some_and(|key| key.columns.iter().any(|column| nulls.contains(&column)))
    };
    let unchecked = altered.unchecked.iter().filter(|name| !refers_to_nothing(name));
    Ok(unchecked.cloned().collect())
}

/// The only value of a query.
fn of_query(
    query: &Statement,
    binder: &Binder<'_>,
    transaction: &mut Transaction,
    began: &Began,
) -> Result<Option<Value>, ApplyError> {
    let prepared = match binder.bind(query) {
        Ok(prepared) => prepared,
        Err(Unbound::NotShort(_)) => return Ok(None),
        Err(Unbound::Error(error)) => return Err(error.into()),
    };
    if matches!(prepared.body, Body::NotShort(_)) {
        return Ok(None);
    }
    let rows = run_over_rows(&prepared, binder, transaction, began)?.rows;
    Ok(rows.and_then(|rows| rows.iter().next()?.first().cloned()))
}

/// Whether an expression asks no function but those that have one result for all rows.
fn is_stable(expr: &Expr) -> bool {
    let is_other = |inner: &Expr| match inner {
        Expr::Function(call) => {
            let name = call.name.0.last().and_then(|part| part.as_ident()).map(names::fold);
            let is_stable = name.is_some_and(|name| STABLE.contains(&name.as_str()));
            if is_stable { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        }
        Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    visit_expressions(expr, is_other).is_continue()
}
