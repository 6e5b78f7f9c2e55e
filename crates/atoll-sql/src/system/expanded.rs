//! `information_schema._pg_expandarray`, by which clients take the columns of keys and indexes
//! apart: a function of rows with the two parts `x`, an element of an array, and `n`, its number.
//!
//! No value here has parts. So a part that is selected becomes rows of the array or of its
//! numbers, and a whole row in a subquery becomes two columns, which the query around it names.

use std::ops::ControlFlow;

use sqlparser::ast::{
    AccessExpr, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, Select, SelectItem,
    Statement, Value, VisitMut, VisitorMut,
};

use crate::mark::MARK;
use crate::names;
use crate::rules::spelled::call;

const NAME: &str = "_pg_expandarray";
const PARTS: [&str; 2] = ["x", "n"];

/// Rewrites the calls of a statement.
pub(super) fn rewrite(statement: &mut Statement) {
    // The visitors never break off.
    let mut whole = Whole(Vec::new());
    let _ = statement.visit(&mut whole);
    let _ = statement.visit(&mut Parts(whole.0));
}

/// Makes two columns of a row that a subquery selects, and keeps its name.
struct Whole(Vec<String>);

impl VisitorMut for Whole {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let is_whole = |item: &SelectItem| match item {
            SelectItem::ExprWithAlias { expr, .. } => array_of(expr).is_some(),
            _ => false,
        };
        if !select.projection.iter().any(is_whole) {
            return ControlFlow::Continue(());
        }
        let mut items = Vec::with_capacity(select.projection.len() + 1);
        for item in std::mem::take(&mut select.projection) {
            match &item {
                SelectItem::ExprWithAlias { expr, alias } if let Some(array) = array_of(expr) => {
                    let name = names::fold(alias);
                    items.extend(PARTS.map(|part| SelectItem::ExprWithAlias {
                        expr: rows_of(part, array.clone()),
                        alias: part_of(&name, part),
                    }));
                    self.0.push(name);
                }
                _ => items.push(item),
            }
        }
        select.projection = items;
        ControlFlow::Continue(())
    }
}

/// Takes parts of rows, of those with these names too.
struct Parts(Vec<String>);

impl VisitorMut for Parts {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let Expr::CompoundFieldAccess { root, access_chain } = &*expr else {
            return ControlFlow::Continue(());
        };
        let [AccessExpr::Dot(Expr::Identifier(part))] = access_chain.as_slice() else {
            return ControlFlow::Continue(());
        };
        let Some(part) = PARTS.into_iter().find(|known| *known == names::fold(part)) else {
            return ControlFlow::Continue(());
        };
        let mut root = &**root;
        while let Expr::Nested(inner) = root {
            root = inner;
        }
        let taken = match root {
            Expr::Identifier(column) => {
                let name = names::fold(column);
                self.0.contains(&name).then(|| Expr::Identifier(part_of(&name, part)))
            }
            Expr::CompoundIdentifier(idents) => idents.split_last().and_then(|(column, before)| {
                let name = names::fold(column);
                let column = self.0.contains(&name).then(|| part_of(&name, part))?;
                let idents = before.iter().cloned().chain([column]);
                Some(Expr::CompoundIdentifier(idents.collect()))
            }),
            other => array_of(other).map(|array| rows_of(part, array.clone())),
        };
        if let Some(taken) = taken {
            *expr = taken;
        }
        ControlFlow::Continue(())
    }
}

/// The array of which a call makes rows.
fn array_of(expr: &Expr) -> Option<&Expr> {
    let Expr::Function(function) = expr else { return None };
    let FunctionArguments::List(list) = &function.args else { return None };
    match list.args.as_slice() {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(array))]
            if names::last(&function.name) == NAME =>
        {
            Some(array)
        }
        _ => None,
    }
}

/// The rows of a part.
fn rows_of(part: &str, array: Expr) -> Expr {
    match part {
        "x" => call("unnest", vec![array]),
        _ => {
            let first = Expr::value(Value::Number("1".to_owned(), false));
            call("generate_subscripts", vec![array, first])
        }
    }
}

fn part_of(row: &str, part: &str) -> Ident {
    Ident::with_quote('"', format!("{row}{MARK}{part}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn parts_of_rows_become_rows_of_arrays() {
        for (sql, wanted) in [
            (
                "SELECT (information_schema._pg_expandarray(i.k)).n FROM i",
                "SELECT generate_subscripts(i.k, 1) FROM i",
            ),
            (
                "SELECT (r.keys).x FROM (SELECT _pg_expandarray(k) AS keys FROM i) AS r",
                "SELECT r.\"keys\u{1}x\" FROM (SELECT unnest(k) AS \"keys\u{1}x\", \
                 generate_subscripts(k, 1) AS \"keys\u{1}n\" FROM i) AS r",
            ),
            ("SELECT (r.other).x FROM r", "SELECT (r.other).x FROM r"),
        ] {
            let mut statement = crate::parse::one(sql).unwrap();
            rewrite(&mut statement);
            assert_eq!(statement.to_string(), wanted);
        }
    }
}
