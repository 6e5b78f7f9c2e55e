//! `FETCH FIRST n ROWS WITH TIES`: also the rows that stand beside the last one.
//!
//! The planner has no such clause. A row is among them if its rank is at most `n`, behind the rows
//! that OFFSET leaves out, so the query gets these as conditions on its windows (QUALIFY).

use sqlparser::ast::{
    BinaryOperator, Expr, LimitClause, Offset, OrderByExpr, OrderByKind, Query, Select, SelectItem,
    SetExpr, Value, WindowSpec, WindowType,
};

use crate::error::{SqlError, SqlErrorKind};
use crate::names;
use crate::rules::spelled::call;

/// Gives a query the conditions for its first rows.
///
/// # Errors
/// It has no order, or a form that the conditions cannot be given.
pub(crate) fn with_ties(query: &mut Query, count: Expr) -> Result<(), SqlError> {
    let keys = match query.order_by.as_ref().map(|order| &order.kind) {
        Some(OrderByKind::Expressions(keys)) => keys.clone(),
        _ => {
            let message = "WITH TIES cannot be specified without ORDER BY clause";
            return Err(SqlError::new(SqlErrorKind::Syntax, message));
        }
    };
    let offset = match query.limit_clause.take() {
        None => None,
        Some(LimitClause::LimitOffset { limit: None, offset, .. }) => offset,
        Some(_) => return Err(SqlError::new(SqlErrorKind::Syntax, "multiple LIMIT clauses")),
    };
    let SetExpr::Select(select) = query.body.as_mut() else { return Err(refused()) };
    if select.distinct.is_some() || select.qualify.is_some() {
        return Err(refused());
    }
    let keys: Vec<OrderByExpr> = keys.into_iter().map(|key| resolved(key, select)).collect();
    let one = |op, left, right| Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) };
    let rank = over("rank", keys.clone());
    select.qualify = Some(match offset {
        None => one(BinaryOperator::LtEq, rank, nested(count)),
        Some(Offset { value, .. }) => {
            let last = one(BinaryOperator::Plus, nested(count), nested(value.clone()));
            let is_before = one(BinaryOperator::LtEq, rank, last);
            let number = over("row_number", keys);
            let is_behind = one(BinaryOperator::Gt, number, nested(value));
            one(BinaryOperator::And, is_before, is_behind)
        }
    });
    Ok(())
}

fn refused() -> SqlError {
    let message = "WITH TIES is not supported behind DISTINCT and set operations";
    let hint = "put the query in parentheses into FROM, and write WITH TIES behind that".to_owned();
    SqlError::unsupported(message).with_hint(Some(hint))
}

fn nested(expr: Expr) -> Expr {
    Expr::Nested(Box::new(expr))
}

/// A key of ORDER BY without the names and numbers that a window does not know.
fn resolved(mut key: OrderByExpr, select: &Select) -> OrderByExpr {
    let item = match &key.expr {
        Expr::Value(value) => match &value.value {
            Value::Number(number, _) => {
                let at = number.parse::<usize>().ok().and_then(|at| at.checked_sub(1));
                at.and_then(|at| select.projection.get(at))
            }
            _ => None,
        },
        Expr::Identifier(name) => {
            let name = names::fold(name);
            select.projection.iter().find(|item| match item {
                SelectItem::ExprWithAlias { alias, .. } => names::fold(alias) == name,
                _ => false,
            })
        }
        _ => None,
    };
    if let Some(SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item {
        key.expr = expr.clone();
    }
    key
}

/// The call of a window function in this order.
fn over(name: &str, keys: Vec<OrderByExpr>) -> Expr {
    let mut call = call(name, Vec::new());
    if let Expr::Function(function) = &mut call {
        function.over = Some(WindowType::WindowSpec(WindowSpec {
            window_name: None,
            partition_by: Vec::new(),
            order_by: keys,
            window_frame: None,
        }));
    }
    call
}
