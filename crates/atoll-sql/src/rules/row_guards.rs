//! Conditions that rows of a function in FROM need not be made for.
//!
//! `FROM t, jsonb_array_elements(t.doc) AS e WHERE jsonb_typeof(t.doc) = 'array'` asks the function
//! for no other document in PostgreSQL, which filters `t` before. The planner here makes the rows
//! of all documents, and would meet one that is no array. So the part of WHERE that concerns no
//! column of the function stands around its argument, too: NULL makes no rows, and the condition
//! would have left them out.

use std::ops::ControlFlow;

use sqlparser::ast::helpers::attached_token::AttachedToken;
use sqlparser::ast::{
    BinaryOperator, CaseWhen, Expr, FunctionArg, FunctionArgExpr, Select, TableAlias, TableFactor,
    Visit, Visitor,
};

use super::{json_rows, row_functions};
use crate::names;

/// Puts the conditions of a query around the arguments of its functions.
pub(super) fn guard(select: &mut Select) {
    let Some(condition) = &select.selection else { return };
    let mut parts = Vec::new();
    conjuncts(condition, &mut parts);
    let parts: Vec<Expr> = parts.into_iter().cloned().collect();
    let factors = select.from.iter_mut().flat_map(|table| {
        let joined = table.joins.iter_mut().map(|join| &mut join.relation);
        std::iter::once(&mut table.relation).chain(joined)
    });
    // From the last one on, as long as all columns behind are known.
    let mut own: Vec<String> = Vec::new();
    for factor in factors.collect::<Vec<_>>().into_iter().rev() {
        let Some((name, arguments, alias)) = call(factor) else { return };
        own.extend(columns(&name, alias));
        let guards = parts.iter().filter(|part| is_of_others(part, &own)).cloned();
        let Some(guard) = guards.reduce(and) else { continue };
        if let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(argument))) = arguments.first_mut()
            && !row_functions::is_constant(argument)
        {
            let result = std::mem::replace(argument, Expr::value(sqlparser::ast::Value::Null));
            *argument = Expr::Case {
                case_token: AttachedToken::empty(),
                end_token: AttachedToken::empty(),
                operand: None,
                conditions: vec![CaseWhen { condition: guard, result }],
                else_result: None,
            };
        }
    }
}

fn and(left: Expr, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op: BinaryOperator::And, right: Box::new(right) }
}

fn conjuncts<'e>(condition: &'e Expr, parts: &mut Vec<&'e Expr>) {
    match condition {
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
            conjuncts(left, parts);
            conjuncts(right, parts);
        }
        Expr::Nested(inner) if matches!(**inner, Expr::BinaryOp { .. }) => conjuncts(inner, parts),
        other => parts.push(other),
    }
}

/// The call of a function that makes rows of JSON or texts.
fn call(factor: &mut TableFactor) -> Option<(String, &mut Vec<FunctionArg>, Option<&TableAlias>)> {
    let (name, arguments, alias) = match factor {
        TableFactor::Table { name, args: Some(args), alias, .. } => (name, &mut args.args, alias),
        TableFactor::Function { name, args, alias, .. } => (name, args, alias),
        _ => return None,
    };
    let name = row_functions::bare(name)?;
    let is_it = json_rows::of(&name).is_some() || json_rows::defines_columns(&name).is_some();
    is_it.then_some((name, arguments, alias.as_ref()))
}

/// All names that its columns may have.
fn columns(name: &str, alias: Option<&TableAlias>) -> Vec<String> {
    let mut all = vec![name.to_owned()];
    all.extend(["key", "value", "ordinality"].map(str::to_owned));
    if let Some(alias) = alias {
        all.push(names::fold(&alias.name));
        all.extend(alias.columns.iter().map(|column| names::fold(&column.name)));
    }
    all
}

/// Whether an expression names none of these, and asks no other query.
fn is_of_others(expr: &Expr, own: &[String]) -> bool {
    struct Names<'n>(&'n [String]);
    impl Visitor for Names<'_> {
        type Break = ();
        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            let is_own = match expr {
                Expr::Identifier(name) => self.0.contains(&names::fold(name)),
                Expr::CompoundIdentifier(parts) => {
                    parts.first().is_none_or(|first| self.0.contains(&names::fold(first)))
                }
                Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } => true,
                _ => false,
            };
            if is_own { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }
    }
    expr.visit(&mut Names(own)).is_continue()
}
