//! Casts in GROUP BY beside what they cast: `GROUP BY CAST(a AS real), a`.
//!
//! DataFusion calls a cast by the name of its operand, and two keys of a group cannot have one
//! name. While a statement is planned, a function around such a cast gives it another name.

use arrow_schema::DataType as ArrowType;
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use sqlparser::ast::{Expr, GroupByExpr, Query, SelectItem, SetExpr, Value, VisitMut, VisitorMut};

use crate::parse::MARK;
use crate::quoted::written;

/// The function, which the analyzer removes.
pub(crate) fn function() -> ScalarUDF {
    let signature = Signature::any(1, Volatility::Immutable);
    ScalarUDF::from(OtherName { name: name(), signature })
}

/// No function that is written has this name (`NAME-1`).
fn name() -> String {
    format!("{MARK}cast")
}

/// See the module.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct OtherName {
    name: String,
    signature: Signature,
}

impl ScalarUDFImpl for OtherName {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[ArrowType]) -> Result<ArrowType> {
        Ok(arguments[0].clone())
    }

    fn schema_name(&self, arguments: &[datafusion::logical_expr::Expr]) -> Result<String> {
        // A cast by itself is called by the name of its operand.
        Ok(format!("{MARK}{}", arguments[0]))
    }

    fn display_name(&self, arguments: &[datafusion::logical_expr::Expr]) -> Result<String> {
        Ok(arguments[0].to_string())
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        internal_err!("the function around a cast is removed before it could be called")
    }
}

/// Puts the function around the casts of a query that need another name.
pub(crate) fn rename(query: &mut Query) {
    let SetExpr::Select(select) = query.body.as_mut() else { return };
    let GroupByExpr::Expressions(keys, _) = &select.group_by else { return };
    let keys: Vec<Expr> = keys.iter().map(|key| plain(named(key, &select.projection))).collect();
    let mut casts: Vec<Expr> = Vec::new();
    for key in keys.iter().filter(|key| is_cast(key)) {
        let meets = |other: &&Expr| *other != key && is_same(operand(other), operand(key));
        if !casts.contains(key) && keys.iter().any(|other| meets(&other)) {
            casts.push(key.clone());
        }
    }
    if casts.is_empty() {
        return;
    }
    let mut names = Names { casts };
    let _ = select.projection.visit(&mut names);
    let _ = select.group_by.visit(&mut names);
    let _ = select.having.visit(&mut names);
    let _ = query.order_by.visit(&mut names);
}

/// The key of a group that a number in GROUP BY stands for.
fn named<'e>(key: &'e Expr, columns: &'e [SelectItem]) -> &'e Expr {
    let Expr::Value(value) = key else { return key };
    let Value::Number(digits, _) = &value.value else { return key };
    let at = digits.parse::<usize>().ok().and_then(|at| at.checked_sub(1));
    match at.and_then(|at| columns.get(at)) {
        Some(SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) => expr,
        _ => key,
    }
}

fn plain(expr: &Expr) -> Expr {
    match expr {
        Expr::Nested(inner) => plain(inner),
        other => other.clone(),
    }
}

fn is_cast(expr: &Expr) -> bool {
    matches!(expr, Expr::Cast { .. })
}

/// What is cast, however often.
fn operand(expr: &Expr) -> &Expr {
    match expr {
        Expr::Cast { expr, .. } | Expr::Nested(expr) => operand(expr),
        other => other,
    }
}

/// Whether two operands may be one: a column is written with its table, or without it.
fn is_same(a: &Expr, b: &Expr) -> bool {
    let column = |expr: &Expr| match expr {
        Expr::Identifier(ident) => Some(ident.value.to_lowercase()),
        Expr::CompoundIdentifier(idents) => Some(idents.last()?.value.to_lowercase()),
        _ => None,
    };
    match (column(a), column(b)) {
        (Some(a), Some(b)) => a == b,
        _ => a == b,
    }
}

struct Names {
    casts: Vec<Expr>,
}

impl VisitorMut for Names {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> std::ops::ControlFlow<()> {
        if is_cast(expr) && self.casts.contains(expr) {
            let cast = std::mem::replace(expr, Expr::Value(Value::Null.into()));
            *expr = written(&name(), [cast]);
        }
        std::ops::ControlFlow::Continue(())
    }
}
