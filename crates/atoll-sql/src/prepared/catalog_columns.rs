//! Arrays of types that only the system catalogs have, among the columns of a result: a plan
//! forgets the type where an aggregate makes an array of a column of the catalogs. Clients that ask
//! for the parts of types read such arrays.

use sqlparser::ast::{
    Cte, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Query, Select, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, TableAlias, TableFactor,
};

use crate::names;
use crate::system;

/// Deepest nesting of queries that is looked through.
const DEPTH_MAX: usize = 16;

/// A column with its name, and its type if it is one of the catalogs alone.
type Column = (String, Option<&'static str>);

/// The columns of a query; `None` if not all of them are known.
pub(super) fn of_query(query: &Query) -> Option<Vec<Column>> {
    Look { queries: Vec::new(), depth: 0 }.query(query)
}

/// The queries that `WITH` has named around an expression.
#[derive(Clone)]
struct Look<'q> {
    queries: Vec<&'q Cte>,
    depth: usize,
}

/// A relation by its name in a query.
type Relation = (String, Option<Vec<Column>>);

impl<'q> Look<'q> {
    fn query(&self, query: &'q Query) -> Option<Vec<Column>> {
        let mut inner = self.clone();
        inner.depth += 1;
        if inner.depth > DEPTH_MAX {
            return None;
        }
        inner.queries.extend(query.with.iter().flat_map(|with| &with.cte_tables));
        inner.body(&query.body)
    }

    fn body(&self, body: &'q SetExpr) -> Option<Vec<Column>> {
        match body {
            SetExpr::Select(select) => self.select(select),
            SetExpr::Query(query) => self.query(query),
            SetExpr::SetOperation { left, .. } => self.body(left),
            _ => None,
        }
    }

    fn select(&self, select: &'q Select) -> Option<Vec<Column>> {
        let joined = select.from.iter().flat_map(|from| {
            std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation))
        });
        let relations: Vec<Relation> = joined.map(|relation| self.relation(relation)).collect();
        let mut columns = Vec::new();
        for item in &select.projection {
            match item {
                SelectItem::Wildcard(_) => {
                    for (_, all) in &relations {
                        columns.extend(all.clone()?);
                    }
                }
                SelectItem::QualifiedWildcard(
                    SelectItemQualifiedWildcardKind::ObjectName(name),
                    _,
                ) => {
                    let name = names::last(name);
                    let (_, all) = relations.iter().find(|(known, _)| *known == name)?;
                    columns.extend(all.clone()?);
                }
                SelectItem::ExprWithAlias { expr, alias } => {
                    columns.push((names::fold(alias), self.expr(expr, &relations)));
                }
                SelectItem::UnnamedExpr(expr) => {
                    let name = match expr {
                        Expr::Identifier(name) => names::fold(name),
                        Expr::CompoundIdentifier(names) => {
                            names.last().map(names::fold).unwrap_or_default()
                        }
                        _ => String::new(),
                    };
                    columns.push((name, self.expr(expr, &relations)));
                }
                _ => return None,
            }
        }
        Some(columns)
    }

    fn relation(&self, relation: &'q TableFactor) -> Relation {
        let alias_of =
            |alias: &Option<TableAlias>| alias.as_ref().map(|one| names::fold(&one.name));
        match relation {
            TableFactor::Table { name, alias, args: None, .. } => {
                let name = names::last(name);
                let named =
                    self.queries.iter().rposition(|cte| names::fold(&cte.alias.name) == name);
                let columns = match named {
                    Some(at) => self.named(at),
                    None => system::columns_of(&name),
                };
                (alias_of(alias).unwrap_or(name), columns)
            }
            TableFactor::Derived { subquery, alias, .. } => {
                (alias_of(alias).unwrap_or_default(), self.query(subquery))
            }
            _ => (String::new(), None),
        }
    }

    /// The columns of a query that `WITH` has named.
    fn named(&self, at: usize) -> Option<Vec<Column>> {
        let cte = self.queries[at];
        let before = Self { queries: self.queries[..at].to_vec(), depth: self.depth };
        let mut columns = before.query(&cte.query)?;
        for (column, given) in columns.iter_mut().zip(&cte.alias.columns) {
            column.0 = names::fold(&given.name);
        }
        Some(columns)
    }

    fn expr(&self, expr: &'q Expr, relations: &[Relation]) -> Option<&'static str> {
        let column = |relation: Option<String>, name: String| {
            let of = relations
                .iter()
                .filter(|(known, _)| relation.as_ref().is_none_or(|relation| relation == known));
            let mut columns = of.filter_map(|(_, columns)| columns.as_ref()).flatten();
            columns.find(|(known, _)| *known == name).and_then(|(_, of)| *of)
        };
        match expr {
            Expr::Nested(inner) => self.expr(inner, relations),
            Expr::Identifier(name) => column(None, names::fold(name)),
            Expr::CompoundIdentifier(parts) => match parts.as_slice() {
                [.., relation, name] => column(Some(names::fold(relation)), names::fold(name)),
                _ => None,
            },
            Expr::Case { conditions, else_result, .. } => {
                let results =
                    conditions.iter().map(|one| &one.result).chain(else_result.as_deref());
                results.filter_map(|result| self.expr(result, relations)).next()
            }
            Expr::Subquery(query) => self.query(query)?.first()?.1,
            Expr::Function(function) if names::last(&function.name) == "array_agg" => {
                let FunctionArguments::List(list) = &function.args else { return None };
                match list.args.first() {
                    Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(element))) => {
                        match self.expr(element, relations)? {
                            "oid" => Some("oid[]"),
                            "name" => Some("name[]"),
                            "char" => Some("char[]"),
                            _ => None,
                        }
                    }
                    _ => None,
                }
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use sqlparser::ast::Statement;

    use super::*;

    #[test]
    fn arrays_of_the_catalogs_are_found_wherever_they_are_made() {
        for (sql, wanted) in [
            ("SELECT array_agg(atttypid), 1 FROM pg_attribute", Some(vec![Some("oid[]"), None])),
            (
                "WITH RECURSIVE w(a, b) AS (SELECT x.n, 1 FROM (SELECT CASE WHEN true THEN \
                 (SELECT array_agg(c.relname ORDER BY 1) FROM pg_catalog.pg_class c) END AS n) x \
                 UNION ALL SELECT w.a, w.b + 1 FROM w) SELECT *, b FROM w",
                Some(vec![Some("name[]"), None, None]),
            ),
            ("SELECT array_agg(t.oid) FROM t, pg_class", Some(vec![None])),
            ("SELECT *, array_agg(oid) FROM t", None),
        ] {
            let Statement::Query(query) = crate::parse::one(sql).unwrap() else { panic!("{sql}") };
            let found = of_query(&query);
            let types = found.map(|all| all.into_iter().map(|(_, of)| of).collect::<Vec<_>>());
            assert_eq!(types, wanted, "{sql}");
        }
    }
}
