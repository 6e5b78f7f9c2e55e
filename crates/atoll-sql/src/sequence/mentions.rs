//! The sequences that the defaults of columns ask.

use std::ops::ControlFlow;

use sqlparser::ast::{
    DataType as SqlType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident,
    ObjectName, Value, visit_expressions, visit_expressions_mut,
};

use super::context::{as_text, named};
use crate::declared::{Declared, expression};
use crate::error::SqlError;
use crate::names;

/// The functions with a sequence as their first argument.
const ASKING: [&str; 3] = ["nextval", "currval", "setval"];
/// Those that change a sequence.
const CHANGING: [&str; 2] = ["nextval", "setval"];

fn is_one_of(function: &Function, wanted: &[&str]) -> bool {
    match function.name.0.as_slice() {
        [name] => name.as_ident().is_some_and(|name| wanted.contains(&names::fold(name).as_str())),
        _ => false,
    }
}

/// The first argument of a call.
fn first(function: &mut Function) -> Option<&mut Expr> {
    match &mut function.args {
        FunctionArguments::List(list) => match list.args.first_mut()? {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
            _ => None,
        },
        _ => None,
    }
}

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

/// Takes `::regclass` from the first argument of a function that asks a sequence: names in texts
/// are what it has.
pub(crate) fn without_regclass(expr: &mut Expr) {
    let Expr::Function(function) = expr else { return };
    if !is_one_of(function, &ASKING) {
        return;
    }
    let Some(argument) = first(function) else { return };
    if let Expr::Cast { expr: inner, data_type, .. } = argument
        && is_regclass(data_type)
    {
        let inner = std::mem::replace(inner.as_mut(), Expr::Identifier(Ident::new("")));
        *argument = inner;
    }
}

fn is_regclass(data_type: &SqlType) -> bool {
    matches!(data_type, SqlType::Regclass)
        || matches!(data_type, SqlType::Custom(ObjectName(parts), _)
            if parts.last().and_then(|part| part.as_ident())
                .is_some_and(|name| names::fold(name) == "regclass"))
}

/// Calls `look` with each text that names a sequence.
fn each_name(expr: &mut Expr, look: &mut dyn FnMut(&mut String)) {
    let _ = visit_expressions_mut(expr, |inner| {
        without_regclass(inner);
        if let Expr::Function(function) = inner
            && is_one_of(function, &ASKING)
            && let Some(Expr::Value(value)) = first(function)
            && let Value::SingleQuotedString(text) = &mut value.value
        {
            look(text);
        }
        ControlFlow::<()>::Continue(())
    });
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
            *text = crate::quoted::quoted_if_needed(new).into_owned();
        }
    });
    expr
}
