//! The views of the system: a query that names one has its text in the place of the name.

use std::sync::LazyLock;

use sqlparser::ast::{Ident, Query, Statement, TableAlias, TableFactor};

use crate::error::{SqlError, SqlErrorKind};
use crate::parse;

/// A view.
struct SystemView {
    schema: &'static str,
    name: &'static str,
    query: String,
}

/// In the order of the file.
static VIEWS: LazyLock<Vec<SystemView>> = LazyLock::new(|| {
    let mut views: Vec<SystemView> = Vec::new();
    for line in include_str!("views.sql").lines() {
        let head = line.strip_prefix("-- ").and_then(|name| name.split_once('.'));
        match (head, views.last_mut()) {
            (Some((schema, name)), _) if !schema.contains(' ') => {
                views.push(SystemView { schema, name, query: String::new() });
            }
            (_, Some(view)) => {
                view.query.push_str(line);
                view.query.push('\n');
            }
            _ => {}
        }
    }
    views
});

/// Their schemas and names.
pub(super) fn all() -> impl Iterator<Item = (&'static str, &'static str)> {
    VIEWS.iter().map(|view| (view.schema, view.name))
}

/// Whether there is a view of this name.
pub(super) fn exists(schema: &str, name: &str) -> bool {
    all().any(|one| one == (schema, name))
}

/// The query of a view in parentheses, under a name.
///
/// # Errors
/// None that a text of the file has.
pub(super) fn expanded(
    schema: &str,
    name: &str,
    alias: Option<TableAlias>,
) -> Result<TableFactor, SqlError> {
    let view = VIEWS.iter().find(|view| (view.schema, view.name) == (schema, name));
    let text = view.map(|view| view.query.as_str()).unwrap_or_default();
    let subquery: Box<Query> = match parse::one(text)? {
        Statement::Query(query) => query,
        _ => return Err(SqlError::new(SqlErrorKind::Database, format!("{name} is no query"))),
    };
    let own = || TableAlias {
        explicit: true,
        name: Ident::with_quote('"', name),
        columns: Vec::new(),
        at: None,
    };
    let alias = Some(alias.unwrap_or_else(own));
    Ok(TableFactor::Derived { lateral: false, subquery, alias, sample: None })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn every_view_is_a_query() {
        assert!(all().count() > 15);
        for (schema, name) in all() {
            expanded(schema, name, None).unwrap();
        }
    }
}
