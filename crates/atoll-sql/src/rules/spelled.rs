//! Expressions with a spelling of their own, as the plain operators and functions that they stand
//! for: `a LIKE b ESCAPE c`, `a SIMILAR TO b`, and the like.

use sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList,
    FunctionArguments, Ident, ObjectName, Value, ValueWithSpan,
};

use super::functions::like_escape;
use crate::error::SqlError;

/// Rewrites an expression whose parts are plain.
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
        _ => {}
    }
    Ok(())
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

/// A call of a function.
pub(super) fn call(name: &str, arguments: Vec<Expr>) -> Expr {
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
