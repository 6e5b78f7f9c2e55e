//! The sequences that the defaults of columns ask.

use std::ops::ControlFlow;

use sqlparser::ast::{Expr, visit_expressions};

use super::context::{as_text, named};
use crate::declared::{Declared, expression};
use crate::error::SqlError;
use crate::schemas;
use crate::sequence_names::{each_name, is_one_of};

/// Those that change a sequence.
const CHANGING: [&str; 2] = ["nextval", "setval"];

/// Whether an expression changes a sequence.
pub(crate) fn changes_sequence(expr: &Expr) -> bool {
    visit_expressions(expr, |inner| match inner {
        Expr::Function(function) if is_one_of(function, &CHANGING) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    })
    .is_break()
}

/// `nextval('name')`.
pub(crate) fn next_of(sequence: &str) -> Result<Expr, SqlError> {
    expression(&format!("nextval('{}')", as_text(sequence)))
}

/// The sequences that an expression names.
pub(crate) fn of(expr: &Expr) -> Vec<String> {
    let mut found = Vec::new();
    each_name(&mut expr.clone(), &mut |text| found.extend(named(text)));
    found
}

/// The columns of a table with a default that asks a sequence.
///
/// # Errors
/// A default cannot be parsed.
pub(crate) fn columns_asking(declared: &Declared, sequence: &str) -> Result<Vec<String>, SqlError> {
    let mut columns = Vec::new();
    for (column, text) in &declared.defaults {
        // Most defaults ask none.
        if text.contains("val") && of(&expression(text)?).iter().any(|name| name == sequence) {
            columns.push(column.clone());
        }
    }
    Ok(columns)
}

/// The expression, in which a sequence has another name.
pub(crate) fn renamed(expr: &Expr, old: &str, new: &str) -> Expr {
    let mut expr = expr.clone();
    each_name(&mut expr, &mut |text| {
        if named(text).is_ok_and(|name| name == old) {
            *text = schemas::as_path(new);
        }
    });
    expr
}
