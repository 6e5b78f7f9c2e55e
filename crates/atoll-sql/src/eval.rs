//! Constant expressions: literals, casts and simple arithmetic.
//!
//! This module serves `INSERT … VALUES`, where a planner would cost more than the statement; all
//! other expressions are bound as those of queries are.

use sqlparser::ast::{BinaryOperator, CastKind, DataType as SqlType, Expr, Spanned, UnaryOperator};
use sqlparser::ast::{Value as SqlValue, ValueWithSpan};

use crate::error::{SqlError, SqlErrorKind};
use crate::literal::Literal;
use crate::rules::number::{self, Number, Operation};
use crate::rules::scalar::{self, DecimalShape};
use crate::{names, rules, text, types};

/// The value of an expression; `None` if it is not one of this module.
pub(crate) fn constant(expr: &Expr) -> Option<Result<Literal, SqlError>> {
    is_constant(expr).then(|| evaluate(expr))
}

fn is_constant(expr: &Expr) -> bool {
    match expr {
        Expr::Value(value) => !matches!(value.value, SqlValue::Placeholder(_)),
        Expr::Nested(inner) => is_constant(inner),
        // A name is refused here, in better words than a planner has.
        Expr::TypedString(_) | Expr::Identifier(_) => true,
        // Types of other names are looked up when the expression is bound (`TYPE-3`).
        Expr::Cast { data_type: SqlType::Custom(..), .. } => false,
        Expr::Cast { kind: CastKind::Cast | CastKind::DoubleColon, expr, .. } => is_constant(expr),
        Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, expr } => is_constant(expr),
        Expr::BinaryOp { left, op, right } => {
            use BinaryOperator as Op;
            let is_known = matches!(
                op,
                Op::Plus | Op::Minus | Op::Multiply | Op::Divide | Op::Modulo | Op::StringConcat
            );
            is_known && is_constant(left) && is_constant(right)
        }
        _ => false,
    }
}

/// Evaluates an expression.
///
/// # Errors
/// Anything but literals, casts, `+ - * / %` and `||`; overflow and division by zero.
fn evaluate(expr: &Expr) -> Result<Literal, SqlError> {
    match expr {
        Expr::Value(value) => literal(value),
        Expr::Nested(inner) => evaluate(inner),
        Expr::TypedString(typed) => {
            let text = literal(&typed.value)?;
            cast(text, &typed.data_type).map_err(|error| error.at(typed.value.span))
        }
        Expr::Cast { kind: CastKind::Cast | CastKind::DoubleColon, expr, data_type, .. } => {
            cast(evaluate(expr)?, data_type).map_err(|error| error.at(expr.span()))
        }
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => {
            negate(evaluate(expr)?).map_err(|error| error.at(expr.span()))
        }
        Expr::UnaryOp { op: UnaryOperator::Plus, expr } => evaluate(expr),
        Expr::BinaryOp { left, op, right } => {
            arithmetic(evaluate(left)?, op, evaluate(right)?).map_err(|error| error.at(expr.span()))
        }
        Expr::Identifier(ident) => {
            let message =
                format!("\"{}\" is a name, and a constant is expected here", names::fold(ident));
            Err(SqlError::new(SqlErrorKind::UnknownColumn, message)
                .with_hint(Some("text stands in single quotes".to_owned()))
                .at(ident.span))
        }
        _ => Err(SqlError::unsupported(format!("{expr} is not a constant")).at(expr.span())),
    }
}

fn literal(value: &ValueWithSpan) -> Result<Literal, SqlError> {
    match &value.value {
        SqlValue::Null => Ok(Literal::Null),
        SqlValue::Boolean(value) => Ok(Literal::Bool(*value)),
        SqlValue::Number(digits, _) => Literal::number(&digits.replace('_', "")).ok_or_else(|| {
            let message = format!("{digits} is out of range for every type of number");
            SqlError::new(SqlErrorKind::Type, message).at(value.span)
        }),
        SqlValue::SingleQuotedString(text) | SqlValue::EscapedStringLiteral(text) => {
            Ok(Literal::Text(text.clone()))
        }
        SqlValue::DollarQuotedString(quoted) => Ok(Literal::Text(quoted.value.clone())),
        SqlValue::HexStringLiteral(hex) => text::bytes(&format!("\\x{hex}"))
            .map(Literal::Bytes)
            .map_err(|reason| SqlError::new(SqlErrorKind::Type, reason).at(value.span)),
        other => Err(SqlError::unsupported(format!("{other} is not a literal that Atoll knows"))
            .at(value.span)),
    }
}

fn cast(value: Literal, to: &sqlparser::ast::DataType) -> Result<Literal, SqlError> {
    let data_type = types::column_type(to)?;
    rules::cast::convert(value, data_type)
        .map(|value| Literal::of(value, data_type))
        .map_err(|reason| SqlError::new(SqlErrorKind::Type, reason))
}

fn negate(value: Literal) -> Result<Literal, SqlError> {
    match value {
        Literal::Null => Ok(Literal::Null),
        Literal::Integer(value) => value.checked_neg().map(Literal::Integer).ok_or_else(overflow),
        Literal::Decimal(value, scale) => {
            value.checked_neg().map(|v| Literal::Decimal(v, scale)).ok_or_else(overflow)
        }
        Literal::Float(value) => Ok(Literal::Float(-value)),
        Literal::Real(value) => Ok(Literal::Real(-value)),
        other => Err(SqlError::new(
            SqlErrorKind::Type,
            format!("{} is not a number and has no negative", other.show()),
        )),
    }
}

fn overflow() -> SqlError {
    SqlError::new(SqlErrorKind::Type, "the result has more digits than any type of number holds")
}

fn arithmetic(left: Literal, op: &BinaryOperator, right: Literal) -> Result<Literal, SqlError> {
    use BinaryOperator as Op;
    if left == Literal::Null || right == Literal::Null {
        return Ok(Literal::Null);
    }
    match (left, op, right) {
        (Literal::Text(left), Op::StringConcat, Literal::Text(right)) => {
            Ok(Literal::Text(left + &right))
        }
        (Literal::Date(day), Op::Plus, Literal::Integer(days)) => shift(day, Some(days)),
        (Literal::Date(day), Op::Minus, Literal::Integer(days)) => shift(day, days.checked_neg()),
        (left, Op::Plus | Op::Minus | Op::Multiply | Op::Divide | Op::Modulo, right)
            if left.kind() == "number" && right.kind() == "number" =>
        {
            numbers(&left, operation(op), &right)
        }
        (left, op, right) => Err(SqlError::new(
            SqlErrorKind::Type,
            format!("{} {op} {} has no meaning", left.show(), right.show()),
        )),
    }
}

fn shift(day: i32, days: Option<i128>) -> Result<Literal, SqlError> {
    days.and_then(|days| i128::from(day).checked_add(days))
        .and_then(|day| i32::try_from(day).ok())
        .map(Literal::Date)
        .ok_or_else(|| SqlError::new(SqlErrorKind::Type, "the date is out of range"))
}

fn operation(op: &BinaryOperator) -> Operation {
    match op {
        BinaryOperator::Plus => Operation::Add,
        BinaryOperator::Minus => Operation::Subtract,
        BinaryOperator::Multiply => Operation::Multiply,
        BinaryOperator::Divide => Operation::Divide,
        _ => Operation::Modulo,
    }
}

/// Arithmetic by the rules of [`rules::scalar`], but with integers of 128 bits: the column of the
/// result checks its range.
fn numbers(left: &Literal, operation: Operation, right: &Literal) -> Result<Literal, SqlError> {
    let (result, number) = match (left, right) {
        (Literal::Integer(a), Literal::Integer(b)) => {
            (scalar::integer(operation, *a, *b).map(Literal::Integer), number::decimal(38, 0))
        }
        (Literal::Real(a), Literal::Real(b)) => {
            (scalar::real(operation, *a, *b).map(Literal::Real), Number::Float32)
        }
        (Literal::Float(_) | Literal::Real(_), _) | (_, Literal::Float(_) | Literal::Real(_)) => {
            let result = scalar::float(operation, left.float(), right.float());
            (result.map(Literal::Float), Number::Float64)
        }
        _ => {
            let ((a, scale_a), (b, scale_b)) = (parts(left), parts(right));
            let [typed_a, typed_b] = [scale_a, scale_b].map(|scale| number::decimal(38, scale));
            let result = typed_a
                .result(operation, typed_b)
                .map_err(|reason| SqlError::new(SqlErrorKind::Type, reason))?;
            let Number::Decimal { precision, scale } = result else { return Ok(Literal::Null) };
            let shape = DecimalShape::new(scale_a, scale_b, precision, scale);
            (shape.exact(operation, a, b).map(|digits| Literal::Decimal(digits, scale)), result)
        }
    };
    result.map_err(|fault| fault.error(operation, left, right, number))
}

fn parts(number: &Literal) -> (i128, u8) {
    match *number {
        Literal::Decimal(digits, scale) => (digits, scale),
        Literal::Integer(digits) => (digits, 0),
        _ => (0, 0),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use sqlparser::dialect::PostgreSqlDialect;
    use sqlparser::parser::Parser;

    use super::*;

    fn of(text: &str) -> Result<Literal, SqlError> {
        let dialect = PostgreSqlDialect {};
        let mut parser = Parser::new(&dialect).try_with_sql(text).unwrap();
        evaluate(&parser.parse_expr().unwrap())
    }

    #[test]
    fn constants_are_folded_exactly() {
        assert_eq!(of("-(2 + 3) * 4").unwrap(), Literal::Integer(-20));
        assert_eq!(of("0.1 + 0.2").unwrap(), Literal::Decimal(3, 1));
        assert_eq!(of("1.5 * 1.5").unwrap(), Literal::Decimal(225, 2));
        assert_eq!(of("7 / 2").unwrap(), Literal::Integer(3));
        assert_eq!(of("1 + NULL").unwrap(), Literal::Null);
        assert_eq!(of("'a' || 'b'").unwrap(), Literal::Text("ab".into()));
        assert_eq!(of("DATE '1970-01-02' + 3").unwrap(), Literal::Date(4));
    }

    #[test]
    fn casts_and_typed_strings_have_their_type() {
        assert_eq!(of("DATE '1970-01-02'").unwrap(), Literal::Date(1));
        assert_eq!(of("TIMESTAMP '1970-01-01 00:00:01'").unwrap(), Literal::Timestamp(1_000_000));
        assert_eq!(of("'12'::smallint").unwrap(), Literal::Integer(12));
        assert_eq!(of("CAST('1.50' AS decimal(5,2))").unwrap(), Literal::Decimal(150, 2));
        let error = of("CAST(300000 AS smallint)").unwrap_err();
        assert_eq!(error.kind(), SqlErrorKind::Type);
        assert_eq!(error.position(), Some((1, 6)));
    }

    #[test]
    fn what_is_no_constant_says_so() {
        assert_eq!(of("now()").unwrap_err().kind(), SqlErrorKind::Unsupported);
        assert!(of("abc").unwrap_err().hint().unwrap().contains("single quotes"));
        assert!(of("1 / 0").unwrap_err().message().contains("division by zero"));
        assert!(of("'a' + 1").unwrap_err().message().contains("no meaning"));
        let huge = "9".repeat(38);
        assert!(of(&format!("{huge} * {huge}")).is_err());
    }
}
