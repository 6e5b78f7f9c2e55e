//! Constant expressions: literals, casts and simple arithmetic, over one row's columns or none.
//!
//! This module serves `INSERT … VALUES`, `UPDATE … SET` and conditions on keys, where a planner
//! would cost more than the statement. An unsupported expression is an error that recommends
//! `INSERT … SELECT`, which supports all of them.

use atoll::{Schema, Value};
use sqlparser::ast::{BinaryOperator, CastKind, Expr, Ident, Spanned, UnaryOperator};
use sqlparser::ast::{Value as SqlValue, ValueWithSpan};

use crate::error::{SqlError, SqlErrorKind};
use crate::literal::Literal;
use crate::rules::number::{self, Number, Operation};
use crate::rules::scalar::{self, DecimalShape};
use crate::{names, rules, text, types};

/// The row to which names in an expression refer.
#[derive(Clone, Copy)]
pub(crate) struct Row<'a> {
    /// Name of the table.
    pub(crate) table: &'a str,
    /// Its columns.
    pub(crate) schema: &'a Schema,
    /// The row's values, one for each column; `None` to check names only.
    pub(crate) values: Option<&'a [Value]>,
}

/// Evaluates an expression; without a row, a name in it is an error.
///
/// # Errors
/// Anything but literals, casts, `+ - * / %`, `||` and names; overflow and division by zero.
pub(crate) fn evaluate(expr: &Expr, row: Option<Row<'_>>) -> Result<Literal, SqlError> {
    match expr {
        Expr::Value(value) => literal(value),
        Expr::Nested(inner) => evaluate(inner, row),
        Expr::TypedString(typed) => {
            let text = literal(&typed.value)?;
            cast(text, &typed.data_type).map_err(|error| error.at(typed.value.span))
        }
        Expr::Cast { kind: CastKind::Cast | CastKind::DoubleColon, expr, data_type, .. } => {
            cast(evaluate(expr, row)?, data_type).map_err(|error| error.at(expr.span()))
        }
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => {
            negate(evaluate(expr, row)?).map_err(|error| error.at(expr.span()))
        }
        Expr::UnaryOp { op: UnaryOperator::Plus, expr } => evaluate(expr, row),
        Expr::BinaryOp { left, op, right } => {
            arithmetic(evaluate(left, row)?, op, evaluate(right, row)?)
                .map_err(|error| error.at(expr.span()))
        }
        Expr::Identifier(ident) => column(ident, row),
        Expr::CompoundIdentifier(parts) => match (parts.as_slice(), row) {
            ([table, ident], Some(known)) if names::fold(table) == known.table => {
                column(ident, row)
            }
            _ => Err(not_constant(expr)),
        },
        _ => Err(not_constant(expr)),
    }
}

/// Whether an expression names a column.
pub(crate) fn names_a_column(expr: &Expr) -> bool {
    match expr {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => true,
        Expr::Nested(inner) | Expr::UnaryOp { expr: inner, .. } => names_a_column(inner),
        Expr::Cast { expr: inner, .. } => names_a_column(inner),
        Expr::BinaryOp { left, right, .. } => names_a_column(left) || names_a_column(right),
        _ => false,
    }
}

fn not_constant(expr: &Expr) -> SqlError {
    SqlError::unsupported(format!("{expr} is not a constant"))
        .at(expr.span())
        .with_hint(Some("expressions of every kind can stand in INSERT INTO … SELECT".to_owned()))
}

fn literal(value: &ValueWithSpan) -> Result<Literal, SqlError> {
    match &value.value {
        SqlValue::Null => Ok(Literal::Null),
        SqlValue::Boolean(value) => Ok(Literal::Bool(*value)),
        SqlValue::Number(digits, _) => Literal::number(digits).ok_or_else(|| {
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

fn column(ident: &Ident, row: Option<Row<'_>>) -> Result<Literal, SqlError> {
    let name = names::fold(ident);
    let Some(row) = row else {
        return Err(SqlError::new(
            SqlErrorKind::UnknownColumn,
            format!("\"{name}\" is a name, and a constant is expected here"),
        )
        .with_hint(Some("text stands in single quotes".to_owned()))
        .at(ident.span));
    };
    let at = names::position(row.schema, row.table, ident)?;
    Ok(match row.values {
        Some(values) => Literal::of(values[at].clone(), row.schema.columns()[at].data_type),
        None => Literal::Null,
    })
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
        evaluate(&parser.parse_expr().unwrap(), None)
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
