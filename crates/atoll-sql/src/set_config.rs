//! `SELECT set_config(name, value, is_local)`: a `SET` that is written as a query, as dumps have
//! it.

use sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Select, SelectItem, SetExpr, Statement,
    Value, ValueWithSpan,
};

use crate::names;

/// See the module.
pub(crate) struct SetConfig {
    pub(crate) name: String,
    /// `None` for NULL: the default.
    pub(crate) value: Option<String>,
    pub(crate) is_local: bool,
    /// The name of the column of the result.
    pub(crate) column: String,
}

impl SetConfig {
    /// The call that a statement consists of.
    pub(crate) fn of(statement: &Statement) -> Option<Self> {
        let Statement::Query(query) = statement else { return None };
        let SetExpr::Select(select) = query.body.as_ref() else { return None };
        let (call, column) = match select.projection.as_slice() {
            [SelectItem::UnnamedExpr(call)] => (call, "set_config".to_owned()),
            [SelectItem::ExprWithAlias { expr, alias }] => (expr, names::fold(alias)),
            _ => return None,
        };
        let has_more = query.with.is_some()
            || query.order_by.is_some()
            || query.limit_clause.is_some()
            || query.fetch.is_some();
        if has_more || !is_plain(select) {
            return None;
        }
        let Expr::Function(function) = call else { return None };
        if names::last(&function.name) != "set_config" || function.name.0.len() != 1 {
            return None;
        }
        let FunctionArguments::List(list) = &function.args else { return None };
        let mut constants = list.args.iter().map(|argument| match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(ValueWithSpan {
                value,
                ..
            }))) => Some(value),
            _ => None,
        });
        let mut next = || constants.next().flatten();
        let (name, value, is_local) = (next()?, next()?, next()?);
        let text = |value: &Value| match value {
            Value::SingleQuotedString(text) => Some(text.clone()),
            _ => None,
        };
        let value = match value {
            Value::Null => None,
            value => Some(text(value)?),
        };
        let Value::Boolean(is_local) = *is_local else { return None };
        let name = text(name)?.to_ascii_lowercase();
        (list.args.len() == 3).then_some(Self { name, value, is_local, column })
    }
}

/// Whether a `SELECT` has nothing but expressions.
fn is_plain(select: &Select) -> bool {
    select.from.is_empty()
        && select.selection.is_none()
        && select.having.is_none()
        && select.distinct.is_none()
        && select.into.is_none()
}
