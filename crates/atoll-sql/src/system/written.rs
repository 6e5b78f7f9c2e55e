//! Definitions as SQL, in PostgreSQL's words.

use std::ops::ControlFlow;

use sqlparser::ast::{Expr, visit_expressions};

use super::definitions::{Definitions, IndexDefinition, Relation};
use crate::quoted::{quoted_if_needed, quoted_list};
use crate::{declared, names};

/// A kept expression.
pub(super) fn expression(kept: &str) -> String {
    // Names in it that have been resolved carry marks.
    declared::expression(kept).map_or_else(|_| kept.to_owned(), |expr| expr.to_string())
}

/// The columns that a kept expression names.
pub(super) fn columns_in(kept: &str) -> Vec<String> {
    let Ok(expr) = declared::expression(kept) else { return Vec::new() };
    let mut found = Vec::new();
    let _ = visit_expressions(&expr, |expr| {
        match expr {
            Expr::Identifier(ident) => found.push(names::fold(ident)),
            Expr::CompoundIdentifier(idents) => found.extend(idents.last().map(names::fold)),
            _ => {}
        }
        ControlFlow::<()>::Continue(())
    });
    found
}

/// A name with a schema.
pub(super) fn qualified(schema: &str, name: &str) -> String {
    format!("{}.{}", quoted_if_needed(schema), quoted_if_needed(name))
}

impl Definitions {
    /// Whether the search path finds a relation by its bare name.
    pub(super) fn is_visible(&self, relation: &Relation, path: &[String]) -> bool {
        let place = |one: &Relation| path.iter().position(|schema| *schema == one.schema);
        let same = self.relations.iter().filter(|one| one.name == relation.name);
        let first = same.filter_map(place).min();
        first.is_some() && place(relation) == first
    }

    /// A relation, with its schema if the search path does not find it.
    pub(super) fn visible(&self, relation: &Relation, path: &[String]) -> String {
        match self.is_visible(relation, path) {
            true => quoted_if_needed(&relation.name).into_owned(),
            false => qualified(&relation.schema, &relation.name),
        }
    }
}

/// The statement that makes an index.
pub(super) fn index(relation: &Relation, index: &IndexDefinition) -> String {
    let unique = if index.is_unique { "UNIQUE " } else { "" };
    let table = qualified(&relation.schema, &relation.name);
    let (name, columns) = (quoted_if_needed(&index.name), quoted_list(&index.columns));
    let nulls = if index.nulls_not_distinct { " NULLS NOT DISTINCT" } else { "" };
    format!("CREATE {unique}INDEX {name} ON {table} USING btree ({columns}){nulls}")
}
