//! `DEFAULT` and `CHECK` in definitions of tables.
//!
//! Both are checked when the table is defined: what could not be computed for a row is refused
//! then, and not when the first row comes.

use std::ops::ControlFlow;

use atoll::Schema;
use sqlparser::ast::{Expr, Ident, Spanned, visit_expressions};

use crate::declared::{Check, Declared};
use crate::error::{Cause, SqlError, SqlErrorKind};
use crate::literal::Literal;
use crate::prepared::query::Binder;
use crate::{eval, names};

/// What the definition of a table says about its rows.
#[derive(Default)]
pub(crate) struct Rules {
    defaults: Vec<(String, Expr)>,
    checks: Vec<(Option<String>, Expr)>,
}

impl Rules {
    /// Adds the default of a column.
    ///
    /// # Errors
    /// The column has one already; the expression has parts that no default has.
    pub(crate) fn add_default(&mut self, column: &str, expr: &Expr) -> Result<(), SqlError> {
        if self.defaults.iter().any(|(other, _)| other == column) {
            let message = format!("column \"{column}\" has two defaults");
            return Err(SqlError::new(SqlErrorKind::Syntax, message).at(expr.span()));
        }
        refuse_subqueries(expr, "DEFAULT")?;
        if let Some(name) = columns(expr).into_iter().next() {
            let message = format!("DEFAULT cannot use a column, here \"{}\"", name.value);
            return Err(SqlError::unsupported(message).at(name.span));
        }
        self.defaults.push((column.to_owned(), expr.clone()));
        Ok(())
    }

    /// Adds a condition, perhaps with a name.
    ///
    /// # Errors
    /// It has parts that no condition has.
    pub(crate) fn add_check(&mut self, name: Option<&Ident>, expr: &Expr) -> Result<(), SqlError> {
        refuse_subqueries(expr, "CHECK")?;
        self.checks.push((name.map(names::fold), expr.clone()));
        Ok(())
    }

    /// Checks everything against the columns of the table, which does not exist yet.
    ///
    /// # Errors
    /// Names that do not exist, types that do not fit, a name of a constraint that is used twice.
    pub(crate) fn declare(
        self,
        binder: &Binder<'_>,
        table: &str,
        schema: Schema,
    ) -> Result<Schema, SqlError> {
        let mut declared = Declared::default();
        for (column, expr) in self.defaults {
            let at = schema.position(&column).unwrap_or_default();
            match eval::constant(&expr) {
                Some(literal) => {
                    // A default of NULL is no error, even where NULL is none.
                    let literal = literal?;
                    if !matches!(literal, Literal::Null) {
                        literal.into_column(&schema, at).map_err(|e| e.at(expr.span()))?;
                    }
                }
                None => binder.check_default(&expr).map_err(|error| error.at(expr.span()))?,
            }
            declared.defaults.insert(column, expr.to_string());
        }
        for (name, expr) in self.checks {
            let name = match name {
                Some(name) if declared.checks.iter().any(|check| check.name == name) => {
                    let message = format!("two constraints have the name \"{name}\"");
                    return Err(SqlError::new(SqlErrorKind::Schema, message)
                        .with_cause(Cause::ConstraintExists)
                        .at(expr.span()));
                }
                Some(name) => name,
                None => unnamed(table, &columns(&expr), &declared),
            };
            let checked = binder.check_condition(&expr, table, &schema);
            checked.map_err(|error| error.at(expr.span()))?;
            declared.checks.push(Check { name, condition: expr.to_string() });
        }
        declared.on(schema)
    }
}

/// The name of a condition without one: PostgreSQL's.
fn unnamed(table: &str, columns: &[Ident], declared: &Declared) -> String {
    let mut names: Vec<String> = columns.iter().map(names::fold).collect();
    names.dedup();
    let usual = match names.as_slice() {
        [only] => format!("{table}_{only}_check"),
        _ => format!("{table}_check"),
    };
    let others = (1..).map(|number| format!("{usual}{number}"));
    let is_free = |name: &String| !declared.checks.iter().any(|check| check.name == *name);
    let free = std::iter::once(usual.clone()).chain(others).find(is_free);
    free.unwrap_or(usual)
}

/// The columns that an expression names.
fn columns(expr: &Expr) -> Vec<Ident> {
    let mut columns = Vec::new();
    let _ = visit_expressions(expr, |inner| {
        match inner {
            Expr::Identifier(ident) => columns.push(ident.clone()),
            Expr::CompoundIdentifier(idents) => columns.extend(idents.last().cloned()),
            _ => {}
        }
        ControlFlow::<()>::Continue(())
    });
    columns
}

fn refuse_subqueries(expr: &Expr, clause: &str) -> Result<(), SqlError> {
    let has_one = visit_expressions(expr, |inner| match inner {
        Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    if has_one.is_continue() {
        return Ok(());
    }
    let message = format!("{clause} cannot use a subquery");
    Err(SqlError::unsupported(message).at(expr.span()))
}
