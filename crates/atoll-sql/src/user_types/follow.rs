//! What names a type, or a label of one, in the texts of tables and views: they are expressions of
//! SQL that are bound again and again.

use std::ops::ControlFlow;

use atoll::Catalog;
use sqlparser::ast::{Expr, Value as SqlValue, Visit, Visitor, visit_expressions_mut};

use super::resolve;
use crate::declared::{Declared, expression};
use crate::error::SqlError;
use crate::names;
use crate::view::View;

/// What a search looks for.
#[derive(Clone, Copy)]
pub(crate) enum Mention<'m> {
    /// A cast to the type of this name.
    Type(&'m str),
    /// A quoted text.
    Text(&'m str),
}

impl Visitor for Mention<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        let is_it = match (*self, expr) {
            (Self::Type(wanted), Expr::Cast { data_type, .. }) => resolve::named(data_type)
                .and_then(|name| names::table_name(name).ok())
                .is_some_and(|(name, _)| name == wanted),
            (Self::Text(wanted), expr) => quoted(expr) == Some(wanted),
            _ => false,
        };
        if is_it { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

impl Mention<'_> {
    fn is_in(mut self, part: &impl Visit) -> bool {
        Visit::visit(part, &mut self).is_break()
    }
}

/// The text of a quoted literal.
fn quoted(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Value(value) => match &value.value {
            SqlValue::SingleQuotedString(text) | SqlValue::EscapedStringLiteral(text) => Some(text),
            _ => None,
        },
        _ => None,
    }
}

/// Puts a text in the place of a quoted one.
pub(crate) fn replace_text(expr: &mut Expr, old: &str, new: &str) {
    // The visitor never breaks off.
    let _ = visit_expressions_mut(expr, |one: &mut Expr| {
        if quoted(one) == Some(old) {
            *one = Expr::value(SqlValue::SingleQuotedString(new.to_owned()));
        }
        ControlFlow::<()>::Continue(())
    });
}

/// The parts of tables, and the views, that mention something, as messages name them. Of tables
/// that are not `wanted` nothing is told, and of defaults only if `with_defaults`.
///
/// # Errors
/// What is declared cannot be read.
pub(crate) fn mentioning(
    catalog: &Catalog,
    mention: Mention<'_>,
    (wanted, with_defaults): (&dyn Fn(&str) -> bool, bool),
) -> Result<Vec<String>, SqlError> {
    let mut found = Vec::new();
    for table in catalog.tables().filter(|table| wanted(table.name())) {
        let (name, declared) = (table.name(), Declared::of(table.schema())?);
        let defaults = declared.defaults.iter().filter(|_| with_defaults);
        let computed = declared.generated.iter().chain(defaults);
        let of_columns = computed.map(|(column, text)| {
            (format!("default value for column {column} of table {name}"), text)
        });
        let checks = declared
            .checks
            .iter()
            .map(|check| (format!("constraint {} on table {name}", check.name), &check.condition));
        for (part, text) in of_columns.chain(checks) {
            if mention.is_in(&expression(text)?) {
                found.push(part);
            }
        }
    }
    for (object, view) in View::all(catalog)? {
        let is_of_type = |name: &str| view.columns.iter().any(|column| column.data_type == name);
        if matches!(mention, Mention::Type(name) if is_of_type(name))
            || mention.is_in(&view.parsed()?.0)
        {
            found.push(format!("view {}", object.name()));
        }
    }
    Ok(found)
}
