//! `WITH` before a change: `WITH q AS (…) INSERT`, `UPDATE` and `DELETE`.
//!
//! The parser makes a query of such a statement, with the change as its body. Here it becomes the
//! change alone: each query in it gets the `WITH`, and where a name of it stands among the
//! relations of the change itself, a query over it stands instead. A query of a `WITH` reads only,
//! so it does not matter how often it is planned; the planner does the same to those of a `SELECT`.

use std::ops::ControlFlow;

use sqlparser::ast::{
    Delete, Ident, Insert, ObjectName, Query, SetExpr, Spanned, Statement, TableAlias, TableFactor,
    Update, UpdateTableFromKind, VisitMut, VisitorMut, With,
};
use sqlparser::parser::Parser;

use crate::dialect::AtollDialect;
use crate::error::{SqlError, SqlErrorKind};
use crate::fold::fold;

/// Makes changes of statements that begin with `WITH` and go on with a change.
///
/// # Errors
/// A name of the `WITH` stands for the table that is changed.
pub(crate) fn rewrite(statement: &mut Statement) -> Result<(), SqlError> {
    match statement {
        Statement::Query(query) => {
            if !is_change(query) {
                return Ok(());
            }
            if let Some(changed) = change(query)? {
                *statement = changed;
            }
            Ok(())
        }
        Statement::Explain { statement, .. } | Statement::Prepare { statement, .. } => {
            rewrite(statement)
        }
        _ => Ok(()),
    }
}

fn is_change(query: &Query) -> bool {
    matches!(query.body.as_ref(), SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_))
}

/// The change that a query is, without the `WITH` before it.
fn change(query: &mut Query) -> Result<Option<Statement>, SqlError> {
    let (SetExpr::Insert(change) | SetExpr::Update(change) | SetExpr::Delete(change)) =
        query.body.as_mut()
    else {
        return Ok(None);
    };
    let mut change = change.clone();
    let Some(with) = query.with.take() else { return Ok(Some(change)) };
    let names = with.cte_tables.iter().map(|one| fold(&one.alias.name)).collect();
    let mut spread = Spread { with, names, depth: 0 };
    match &mut change {
        Statement::Insert(insert) => spread.insert(insert),
        Statement::Update(update) => spread.update(update)?,
        Statement::Delete(delete) => spread.delete(delete)?,
        _ => {}
    }
    Ok(Some(change))
}

struct Spread {
    with: With,
    names: Vec<String>,
    /// In how many queries the visit is.
    depth: usize,
}

impl Spread {
    fn visit(&mut self, node: &mut impl VisitMut) {
        let _: ControlFlow<()> = node.visit(self);
    }

    fn insert(&mut self, insert: &mut Insert) {
        self.visit(&mut insert.source);
        self.visit(&mut insert.on);
        self.visit(&mut insert.returning);
    }

    fn update(&mut self, update: &mut Update) -> Result<(), SqlError> {
        self.check_target(&update.table.relation)?;
        match &mut update.from {
            Some(UpdateTableFromKind::BeforeSet(from) | UpdateTableFromKind::AfterSet(from)) => {
                self.visit(from);
            }
            None => {}
        }
        self.visit(&mut update.assignments);
        self.visit(&mut update.selection);
        self.visit(&mut update.returning);
        Ok(())
    }

    fn delete(&mut self, delete: &mut Delete) -> Result<(), SqlError> {
        use sqlparser::ast::FromTable::{WithFromKeyword, WithoutKeyword};
        let (WithFromKeyword(from) | WithoutKeyword(from)) = &delete.from;
        from.iter().try_for_each(|table| self.check_target(&table.relation))?;
        self.visit(&mut delete.using);
        self.visit(&mut delete.selection);
        self.visit(&mut delete.returning);
        Ok(())
    }

    fn names(&self, name: &ObjectName) -> Option<Ident> {
        let [part] = name.0.as_slice() else { return None };
        part.as_ident().filter(|ident| self.names.contains(&fold(ident))).cloned()
    }

    fn check_target(&self, target: &TableFactor) -> Result<(), SqlError> {
        let TableFactor::Table { name, .. } = target else { return Ok(()) };
        let Some(ident) = self.names(name) else { return Ok(()) };
        let name = fold(&ident);
        let message = format!("relation \"{name}\" cannot be the target of a modifying statement");
        Err(SqlError::new(SqlErrorKind::Syntax, message).at(target.span()))
    }
}

impl VisitorMut for Spread {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        if self.depth == 1 {
            if query.with.is_some() {
                let inner = std::mem::replace(query, everything());
                *query.body = SetExpr::Query(Box::new(inner));
            }
            query.with = Some(self.with.clone());
        }
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if self.depth > 0 {
            return ControlFlow::Continue(());
        }
        let TableFactor::Table { name, alias, args: None, .. } = factor else {
            return ControlFlow::Continue(());
        };
        if let Some(ident) = self.names(name) {
            let (columns, at) = (Vec::new(), None);
            let own = TableAlias { explicit: true, name: ident, columns, at };
            let alias = Some(alias.take().unwrap_or(own));
            let mut query = everything();
            if let SetExpr::Select(select) = query.body.as_mut()
                && let Some(table) = select.from.first_mut()
                && let TableFactor::Table { name: read, .. } = &mut table.relation
            {
                *read = name.clone();
            }
            let (lateral, sample) = (false, None);
            *factor = TableFactor::Derived { lateral, subquery: Box::new(query), alias, sample };
        }
        ControlFlow::Continue(())
    }
}

/// `SELECT * FROM` a table, of which the name is to be set.
fn everything() -> Query {
    let parsed = Parser::new(&AtollDialect).try_with_sql("SELECT * FROM one");
    let parsed = parsed.and_then(|mut parser| parser.parse_query());
    *parsed.expect("it is a query")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use crate::parse;

    #[test]
    fn a_change_takes_the_with_before_it() {
        for (sql, read) in [
            (
                "WITH q AS (SELECT 1) INSERT INTO t SELECT * FROM q",
                "INSERT INTO t WITH q AS (SELECT 1) SELECT * FROM q",
            ),
            (
                "WITH q AS (SELECT 1) INSERT INTO t WITH r AS (SELECT 2) SELECT * FROM q, r",
                "INSERT INTO t WITH q AS (SELECT 1) \
                 (WITH r AS (SELECT 2) SELECT * FROM q, r)",
            ),
            (
                "WITH q (x) AS (SELECT 1) UPDATE t SET a = (SELECT x FROM q) FROM q z, u \
                 WHERE t.a = z.x",
                "UPDATE t SET a = (WITH q (x) AS (SELECT 1) SELECT x FROM q) \
                 FROM (WITH q (x) AS (SELECT 1) SELECT * FROM q) z, u WHERE t.a = z.x",
            ),
            (
                "WITH q AS (SELECT 1 AS x) DELETE FROM t USING q WHERE t.a = q.x",
                "DELETE FROM t USING (WITH q AS (SELECT 1 AS x) SELECT * FROM q) AS q \
                 WHERE t.a = q.x",
            ),
            (
                "EXPLAIN WITH q AS (SELECT 1) DELETE FROM t WHERE a IN (SELECT * FROM q)",
                "EXPLAIN DELETE FROM t WHERE a IN (WITH q AS (SELECT 1) SELECT * FROM q)",
            ),
        ] {
            assert_eq!(parse::one(sql).unwrap().to_string(), read, "{sql}");
        }
        let error = parse::one("WITH q AS (SELECT 1) DELETE FROM q").unwrap_err();
        assert!(error.message().contains("cannot be the target"), "{error:?}");
    }
}
