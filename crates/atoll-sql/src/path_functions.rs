//! The functions that tell the search path: they get it as an argument where names are resolved.

use sqlparser::ast::{
    Array, ArrayElemTypeDef, CastKind, DataType as SqlType, Expr, Function, FunctionArg,
    FunctionArgExpr, FunctionArguments, Ident, ObjectName, Value,
};

use crate::rules::spelled::call;

/// Gives an expression the schemas of the path that exist, if it is one of these functions.
pub(crate) fn resolve(expr: &mut Expr, schemas: &[&str]) {
    if is_current_schema(expr) {
        let current = schemas.first().map(|schema| (*schema).to_owned());
        let value = current.map_or(Value::Null, Value::SingleQuotedString);
        *expr = call("current_schema", vec![Expr::value(value)]);
    }
    if let Some(list) = current_schemas(expr) {
        let path = schemas.iter().map(|one| (*one).to_owned());
        let path = path.map(|one| Expr::value(Value::SingleQuotedString(one))).collect();
        let path = Expr::Array(Array { elem: path, named: true });
        let element = ArrayElemTypeDef::SquareBracket(Box::new(SqlType::Text), None);
        let path = Expr::Cast {
            kind: CastKind::Cast,
            expr: Box::new(path),
            data_type: SqlType::Array(element),
            array: false,
            format: None,
        };
        list.push(FunctionArg::Unnamed(FunctionArgExpr::Expr(path)));
    }
}

/// The identifier of a name with one part.
fn only(name: &ObjectName) -> Option<&Ident> {
    match name.0.as_slice() {
        [part] => part.as_ident(),
        _ => None,
    }
}

/// The argument of `current_schemas(…)`.
fn current_schemas(expr: &mut Expr) -> Option<&mut Vec<FunctionArg>> {
    let Expr::Function(Function { name, args: FunctionArguments::List(list), .. }) = expr else {
        return None;
    };
    let is_it = only(name).is_some_and(|one| one.value.eq_ignore_ascii_case("current_schemas"));
    Some(&mut list.args).filter(|args| is_it && args.len() == 1)
}

fn is_current_schema(expr: &Expr) -> bool {
    let is = |ident: &Ident| {
        ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("current_schema")
    };
    match expr {
        Expr::Identifier(ident) => is(ident),
        Expr::Function(function) => {
            let has_none = match &function.args {
                FunctionArguments::None => true,
                FunctionArguments::List(list) => list.args.is_empty(),
                FunctionArguments::Subquery(_) => false,
            };
            has_none && only(&function.name).is_some_and(is)
        }
        _ => false,
    }
}
