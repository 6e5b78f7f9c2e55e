//! Expressions with a spelling of their own, as the plain operators and functions that they stand
//! for: `a LIKE b ESCAPE c`, `a SIMILAR TO b`, and the like.

use sqlparser::ast::{
    AccessExpr, BinaryOperator, CastKind, DataType, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArgumentList, FunctionArguments, Ident, ObjectName, Subscript, TableAlias,
    TableAliasColumnDef, TableFactor, UnaryOperator, Value, ValueWithSpan,
};

use super::functions::like_escape;
use crate::error::SqlError;
use crate::names;

/// Rewrites an expression with parts that are plain already.
///
/// # Errors
/// What escapes in a pattern is no character.
pub(super) fn plain(expr: &mut Expr) -> Result<(), SqlError> {
    match expr {
        Expr::Like { pattern, escape_char, .. } | Expr::ILike { pattern, escape_char, .. } => {
            if let Some(escape) = escape_char.take() {
                escaped(pattern, escape)?;
            }
        }
        Expr::Function(function) if is_random_uuid(function) => {
            *expr = Expr::Cast {
                kind: CastKind::Cast,
                expr: Box::new(call("uuid", Vec::new())),
                data_type: DataType::Uuid,
                array: false,
                format: None,
            };
        }
        // It makes rows; the function that makes an array of them is not PostgreSQL's.
        Expr::Function(function) if is_series(&function.name) => {
            let array = take(expr);
            *expr = call("unnest", vec![array]);
        }
        Expr::SimilarTo { negated, expr: text, pattern, escape_char } => {
            let op = match negated {
                false => BinaryOperator::PGRegexMatch,
                true => BinaryOperator::PGRegexNotMatch,
            };
            let escape = escape_char.take().map(Expr::Value);
            let pattern = [take(pattern)].into_iter().chain(escape).collect();
            let right = Box::new(call("similar_to_escape", pattern));
            *expr = Expr::BinaryOp { left: Box::new(take(text)), op, right };
        }
        Expr::Substring { expr: text, substring_from, substring_for, shorthand, .. } => {
            let from = match substring_from.take() {
                Some(from) => *from,
                None => number("1"),
            };
            let mut arguments = vec![take(text), from];
            arguments.extend(substring_for.take().map(|length| *length));
            *expr = call(if *shorthand { "substr" } else { "substring" }, arguments);
        }
        Expr::Extract { field, expr: moment, .. } => {
            let field = field.to_string();
            let field = field.trim_matches(['\'', '"']).to_lowercase();
            let field = Expr::Value(Value::SingleQuotedString(field).into());
            *expr = call("extract", vec![field, take(moment)]);
        }
        Expr::Position { expr: part, r#in: all } => {
            *expr = call("position", vec![take(all), take(part)]);
        }
        Expr::Overlay { expr: text, overlay_what, overlay_from, overlay_for } => {
            let mut arguments = vec![take(text), take(overlay_what), take(overlay_from)];
            arguments.extend(overlay_for.take().map(|length| *length));
            *expr = call("overlay", arguments);
        }
        Expr::Identifier(name)
            if name.quote_style.is_none() && name.value.eq_ignore_ascii_case("current_schema") =>
        {
            *expr = call("current_schema", Vec::new());
        }
        Expr::UnaryOp { op, expr: value } => {
            use UnaryOperator as Op;
            *expr = match op {
                Op::PGAbs => call("abs", vec![take(value)]),
                Op::PGSquareRoot => call("sqrt", vec![double(take(value))]),
                Op::PGCubeRoot => call("cbrt", vec![double(take(value))]),
                Op::BitwiseNot => Expr::BinaryOp {
                    left: Box::new(take(value)),
                    op: BinaryOperator::PGBitwiseXor,
                    right: Box::new(Expr::UnaryOp { op: Op::Minus, expr: Box::new(number("1")) }),
                },
                _ => return Ok(()),
            };
        }
        Expr::BinaryOp { left, op: BinaryOperator::PGExp, right } => {
            *expr = call("power", vec![take(left), take(right)]);
        }
        Expr::Function(function) if let Some(made) = json_aggregate(function) => *expr = made,
        Expr::CompoundFieldAccess { access_chain, .. } => {
            for access in access_chain {
                let AccessExpr::Subscript(Subscript::Slice { lower_bound, upper_bound, .. }) =
                    access
                else {
                    continue;
                };
                // Arrays begin with 1 and have no more elements than this.
                lower_bound.get_or_insert_with(|| number("1"));
                upper_bound.get_or_insert_with(|| number(&i32::MAX.to_string()));
            }
        }
        Expr::Ceil { expr: value, .. } => *expr = call("ceil", vec![take(value)]),
        Expr::Floor { expr: value, .. } => *expr = call("floor", vec![take(value)]),
        _ => {}
    }
    Ok(())
}

/// `json_agg` and its kin as a text that is put together of the texts of all rows.
fn json_aggregate(function: &Function) -> Option<Expr> {
    let [name] = function.name.0.as_slice() else { return None };
    let name = names::fold(name.as_ident()?);
    let (read, item, begin, end, count) = match name.as_str() {
        "json_agg" => ("json_as", "json_item", "[", "]", 1),
        "jsonb_agg" => ("jsonb_in", "json_item", "[", "]", 1),
        "json_object_agg" => ("json_as", "json_pair", "{ ", " }", 2),
        "jsonb_object_agg" => ("jsonb_in", "json_pair", "{", "}", 2),
        _ => return None,
    };
    let FunctionArguments::List(list) = &function.args else { return None };
    let arguments = list.args.iter().map(|argument| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => Some(value.clone()),
        _ => None,
    });
    let arguments = arguments.collect::<Option<Vec<_>>>().filter(|all| all.len() == count)?;
    let quoted = |text: &str| Expr::Value(Value::SingleQuotedString(text.to_owned()).into());
    let unnamed = |value| FunctionArg::Unnamed(FunctionArgExpr::Expr(value));
    let mut texts = function.clone();
    let mut list = list.clone();
    list.args = vec![unnamed(call(item, arguments)), unnamed(quoted(", "))];
    texts.args = FunctionArguments::List(list);
    texts.name = ObjectName::from(vec![Ident::new("string_agg")]);
    let joined = |left, right| Expr::BinaryOp {
        left: Box::new(left),
        op: BinaryOperator::StringConcat,
        right: Box::new(right),
    };
    let items = Expr::Function(texts);
    let text = joined(joined(quoted(begin), items), quoted(end));
    Some(call(read, vec![Expr::Nested(Box::new(text))]))
}

fn double(expr: Expr) -> Expr {
    let (kind, data_type) = (CastKind::Cast, DataType::DoublePrecision);
    Expr::Cast { kind, expr: Box::new(expr), data_type, array: false, format: None }
}

fn number(digits: &str) -> Expr {
    Expr::Value(Value::Number(digits.to_owned(), false).into())
}

fn take(expr: &mut Expr) -> Expr {
    std::mem::replace(expr, Expr::Value(Value::Null.into()))
}

/// A pattern with backslashes as what escapes, known or computed.
fn escaped(pattern: &mut Expr, escape: ValueWithSpan) -> Result<(), SqlError> {
    let quoted = |expr: &Expr| match expr {
        Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), span }) => {
            Some((text.clone(), *span))
        }
        _ => None,
    };
    let escape = Expr::Value(escape);
    *pattern = match (quoted(pattern), quoted(&escape)) {
        (Some((written, span)), Some((escape, _))) => {
            let written = like_escape(&written, &escape)?;
            Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(written), span })
        }
        _ => call("like_escape", vec![take(pattern), escape]),
    };
    Ok(())
}

/// The one column of `generate_series` has the name of the table, which is that of the function.
///
/// # Errors
/// An argument that is no moment.
pub(super) fn series(table: &mut TableFactor) -> Result<(), SqlError> {
    let TableFactor::Table { name, alias, args: Some(arguments), .. } = table else {
        return Ok(());
    };
    if !is_series(name) {
        return Ok(());
    }
    for argument in &mut arguments.args {
        if let FunctionArg::Unnamed(FunctionArgExpr::Expr(argument)) = argument {
            super::series::plain_moment(argument)?;
        }
    }
    let given = alias.take();
    let name = given.as_ref().map_or_else(|| Ident::new("generate_series"), |a| a.name.clone());
    let mut columns = given.map(|alias| alias.columns).unwrap_or_default();
    if columns.is_empty() {
        columns.push(TableAliasColumnDef { name: name.clone(), data_type: None });
    }
    *alias = Some(TableAlias { explicit: true, name, columns, at: None });
    Ok(())
}

/// Whether a call is `gen_random_uuid()`.
fn is_random_uuid(function: &Function) -> bool {
    let has_none = matches!(&function.args, FunctionArguments::List(list) if list.args.is_empty());
    has_none && names::last(&function.name) == "gen_random_uuid"
}
fn is_series(name: &ObjectName) -> bool {
    let [only] = name.0.as_slice() else { return false };
    only.as_ident().is_some_and(|function| function.value.eq_ignore_ascii_case("generate_series"))
}

/// A call of a function.
pub(crate) fn call(name: &str, arguments: Vec<Expr>) -> Expr {
    let args = arguments.into_iter().map(|one| FunctionArg::Unnamed(FunctionArgExpr::Expr(one)));
    let list = FunctionArgumentList {
        duplicate_treatment: None,
        args: args.collect(),
        clauses: Vec::new(),
    };
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new(name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(list),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}
