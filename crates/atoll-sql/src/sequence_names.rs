//! Texts in expressions that name sequences: `nextval('q')`.

use std::ops::ControlFlow;

use atoll::{Schema, Table};
use sqlparser::ast::{
    DataType as SqlType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident,
    ObjectName, Value, VisitMut, visit_expressions_mut,
};
use sqlparser::parser::Parser;
use sqlparser::tokenizer::Token;

use crate::dialect::AtollDialect;
use crate::error::{SqlError, SqlErrorKind};
use crate::fold::fold;
use crate::schemas::PUBLIC;

/// The kind of the objects that are sequences.
pub(crate) const KIND: &str = "sequence";
/// The functions with a sequence as their first argument.
const ASKING: [&str; 3] = ["nextval", "currval", "setval"];
pub(crate) fn is_one_of(function: &Function, wanted: &[&str]) -> bool {
    match function.name.0.as_slice() {
        [name] => name.as_ident().is_some_and(|name| wanted.contains(&fold(name).as_str())),
        _ => false,
    }
}

/// Whether an object is a sequence.
pub(crate) fn is_sequence(object: &Table) -> bool {
    is_of_sequence(object.schema())
}

/// Whether a schema is that of a sequence.
pub(crate) fn is_of_sequence(schema: &Schema) -> bool {
    schema.object().is_some_and(|(kind, _)| kind == KIND)
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

/// The same everywhere in a statement.
pub(crate) fn without_regclasses<V: VisitMut>(within: &mut V) {
    let _ = visit_expressions_mut(within, |expr| {
        without_regclass(expr);
        ControlFlow::<()>::Continue(())
    });
}

fn is_regclass(data_type: &SqlType) -> bool {
    matches!(data_type, SqlType::Regclass)
        || matches!(data_type, SqlType::Custom(ObjectName(parts), _)
            if parts.last().and_then(|part| part.as_ident())
                .is_some_and(|name| fold(name) == "regclass"))
}

/// Calls `look` with each text that names a sequence.
pub(crate) fn each_name<V: VisitMut>(within: &mut V, look: &mut dyn FnMut(&mut String)) {
    let _ = visit_expressions_mut(within, |inner| {
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

/// Gives the sequences that a kept expression names their schema, since the search path does not
/// count for it.
pub(crate) fn with_schemas<V: VisitMut>(kept: &mut V) {
    each_name(kept, &mut |text| {
        if object_name(text).is_ok_and(|name| name.0.len() == 1) {
            *text = format!("{PUBLIC}.{text}");
        }
    });
}

/// The name in a text.
///
/// # Errors
/// The text is no name.
pub(crate) fn object_name(text: &str) -> Result<ObjectName, SqlError> {
    let invalid = || {
        let message = format!("invalid name syntax: \"{text}\"");
        SqlError::new(SqlErrorKind::Syntax, message).with_state("42602")
    };
    let dialect = AtollDialect;
    let mut parser = Parser::new(&dialect).try_with_sql(text).map_err(|_| invalid())?;
    let name = parser.parse_object_name(false).map_err(|_| invalid())?;
    if parser.peek_token().token != Token::EOF {
        return Err(invalid());
    }
    Ok(name)
}
