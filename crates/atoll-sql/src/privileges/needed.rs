//! The privileges that a query or a change of rows needs, by relation.

use std::ops::ControlFlow;

use sqlparser::ast::{
    AssignmentTarget, Expr, FromTable, Insert, ObjectName, OnConflictAction, OnInsert, Statement,
    TableFactor, TableObject, TableWithJoins, visit_expressions,
};

use crate::error::SqlError;
use crate::names;
use crate::rights::Privileges;
use crate::view::relations::{self, Found};

/// What is needed of a relation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Needed {
    /// Its flat name.
    pub(crate) relation: String,
    pub(crate) privileges: Privileges,
}

/// What a statement needs that has been resolved.
///
/// # Errors
/// A name that is none of a relation.
pub(crate) fn of(statement: &Statement) -> Result<Vec<Needed>, SqlError> {
    let mut needed = Vec::new();
    // The target of a change stands among the relations, but is not read for that.
    let mut target = None;
    match statement {
        Statement::Insert(insert) => {
            if let TableObject::TableName(name) = &insert.table {
                add(&mut needed, &flat(name)?, of_insert(insert));
            }
        }
        Statement::Update(update) => {
            let reads = update.from.is_some()
                || update.selection.is_some()
                || update.returning.is_some()
                || update.assignments.iter().any(|one| {
                    mentions_column(&one.value) || matches!(one.target, AssignmentTarget::Tuple(_))
                });
            let privileges = changing(Privileges::UPDATE, reads);
            target = relation_of(&update.table)?;
            target.iter().for_each(|name| add(&mut needed, name, privileges));
        }
        Statement::Delete(delete) => {
            let reads =
                delete.using.is_some() || delete.selection.is_some() || delete.returning.is_some();
            let privileges = changing(Privileges::DELETE, reads);
            let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
            target = from.first().map(relation_of).transpose()?.flatten();
            target.iter().for_each(|name| add(&mut needed, name, privileges));
        }
        Statement::Query(query) if !query.locks.is_empty() => {
            // Locks are for roles that could change the rows.
            let mut locked = Vec::new();
            each(statement, &mut |name| locked.push(name))?;
            locked.iter().for_each(|name| add(&mut needed, name, Privileges::UPDATE));
        }
        _ => {}
    }
    let mut sources = Vec::new();
    each(statement, &mut |name| sources.push(name))?;
    for name in sources {
        if target.as_ref() == Some(&name) {
            target = None;
            continue;
        }
        add(&mut needed, &name, Privileges::SELECT);
    }
    Ok(needed)
}

fn of_insert(insert: &Insert) -> Privileges {
    let conflict = match &insert.on {
        Some(OnInsert::OnConflict(on)) => match &on.action {
            OnConflictAction::DoNothing => Privileges::SELECT,
            OnConflictAction::DoUpdate(_) => Privileges::SELECT | Privileges::UPDATE,
        },
        _ => Privileges::NONE,
    };
    changing(Privileges::INSERT | conflict, insert.returning.is_some())
}

fn changing(privileges: Privileges, reads: bool) -> Privileges {
    if reads { privileges | Privileges::SELECT } else { privileges }
}

fn mentions_column(expr: &Expr) -> bool {
    let found = visit_expressions(expr, |inner| match inner {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}

fn flat(name: &ObjectName) -> Result<String, SqlError> {
    names::table_name(name).map(|(name, _)| name)
}

fn relation_of(table: &TableWithJoins) -> Result<Option<String>, SqlError> {
    match &table.relation {
        TableFactor::Table { name, .. } => flat(name).map(Some),
        _ => Ok(None),
    }
}

/// Calls `found` with each relation that is named, as often as it is.
fn each(statement: &Statement, found: &mut dyn FnMut(String)) -> Result<(), SqlError> {
    relations::each(&mut statement.clone(), &mut |Found { factor, .. }| {
        if let TableFactor::Table { name, .. } = factor {
            found(flat(name)?);
        }
        Ok(())
    })
}

fn add(needed: &mut Vec<Needed>, relation: &str, privileges: Privileges) {
    match needed.iter_mut().find(|one| one.relation == relation) {
        Some(known) => known.privileges |= privileges,
        None => needed.push(Needed { relation: relation.to_owned(), privileges }),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn each_relation_is_needed_for_what_is_done_with_it() {
        use Privileges as P;
        let both = |one, other| one | other;
        for (sql, wanted) in [
            ("SELECT * FROM a, s.b", vec![("a", P::SELECT), ("s.b", P::SELECT)]),
            ("WITH a AS (SELECT 1 FROM b) SELECT * FROM a", vec![("b", P::SELECT)]),
            (
                "SELECT (SELECT 1 FROM b) FROM a WHERE EXISTS (SELECT FROM c)",
                vec![("b", P::SELECT), ("a", P::SELECT), ("c", P::SELECT)],
            ),
            ("SELECT 1 FROM a FOR UPDATE", vec![("a", both(P::UPDATE, P::SELECT))]),
            ("INSERT INTO a VALUES (1)", vec![("a", P::INSERT)]),
            ("INSERT INTO a SELECT * FROM a", vec![("a", both(P::INSERT, P::SELECT))]),
            ("INSERT INTO a VALUES (1) RETURNING x", vec![("a", both(P::INSERT, P::SELECT))]),
            ("UPDATE a SET x = 1", vec![("a", P::UPDATE)]),
            ("UPDATE a SET x = x + 1", vec![("a", both(P::UPDATE, P::SELECT))]),
            (
                "UPDATE a SET x = 1 FROM b",
                vec![("a", both(P::UPDATE, P::SELECT)), ("b", P::SELECT)],
            ),
            ("DELETE FROM a", vec![("a", P::DELETE)]),
            ("DELETE FROM a WHERE x = 1", vec![("a", both(P::DELETE, P::SELECT))]),
            ("SELECT 1", vec![]),
        ] {
            let mut found = of(&crate::parse::one(sql).unwrap()).unwrap();
            found.sort_by(|a, b| a.relation.cmp(&b.relation));
            let mut wanted: Vec<Needed> = wanted
                .into_iter()
                .map(|(relation, privileges)| Needed { relation: relation.to_owned(), privileges })
                .collect();
            wanted.sort_by(|a, b| a.relation.cmp(&b.relation));
            assert_eq!(found, wanted, "{sql}");
        }
    }
}
