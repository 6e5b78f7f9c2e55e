//! Parameters of statements: `$1`, `$2`, … in the text, values beside it.
//!
//! A parameter takes the type of what it stands beside, as a quoted literal does. If a value is not
//! of that type, or there is nothing beside it, its own type is declared in the text and the
//! statement is bound again: `$1` becomes `CAST($1 AS double precision)`.

use std::ops::ControlFlow;

use atoll::DataType;
use sqlparser::ast::{
    CastKind, Expr, Statement, TypedString, Value as SqlValue, ValueWithSpan, Visit, VisitMut,
    Visitor, VisitorMut,
};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::Parser;

use crate::error::{Cause, SqlError, SqlErrorKind};
use crate::literal::Literal;
use crate::rules::number::{DIGITS_MAX, Number};
use crate::{clock, interval, parameter_name, show, types, uuid, zone};

/// Most parameters of a statement, as in PostgreSQL's protocol.
const PARAMETERS_MAX: usize = 65_535;

/// How many parameters a statement has: the highest number.
///
/// # Errors
/// A parameter without a number, or too many.
pub(crate) fn count(statement: &Statement) -> Result<usize, SqlError> {
    struct Count(usize);
    impl Visitor for Count {
        type Break = SqlError;
        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<SqlError> {
            let Expr::Value(ValueWithSpan { value: SqlValue::Placeholder(id), span }) = expr else {
                return ControlFlow::Continue(());
            };
            match parameter_name::number(id) {
                Some(number) if number < PARAMETERS_MAX => {
                    self.0 = self.0.max(number + 1);
                    ControlFlow::Continue(())
                }
                _ => {
                    let message = format!("{id} is no parameter; they are $1 to $65535");
                    let error = SqlError::new(SqlErrorKind::Syntax, message)
                        .with_cause(Cause::UnknownParameter);
                    ControlFlow::Break(error.at(*span))
                }
            }
        }
    }
    if matches!(statement, Statement::Prepare { .. }) {
        // They are those of the statement that it names.
        return Ok(0);
    }
    let mut count = Count(0);
    match statement.visit(&mut count) {
        ControlFlow::Continue(()) => Ok(count.0),
        ControlFlow::Break(error) => Err(error),
    }
}

/// Replaces each parameter for which `with` has an expression.
pub(crate) fn replace(statement: &mut Statement, with: impl Fn(usize) -> Option<Expr>) {
    struct Replace<F>(F);
    impl<F: Fn(usize) -> Option<Expr>> VisitorMut for Replace<F> {
        type Break = ();
        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            if let Some(at) = parameter(expr)
                && let Some(replacement) = (self.0)(at)
            {
                *expr = replacement;
            }
            ControlFlow::Continue(())
        }
    }
    // The visitor never breaks off.
    let _ = statement.visit(&mut Replace(with));
}

/// The number of the parameter that an expression is.
pub(crate) fn parameter(expr: &Expr) -> Option<usize> {
    match expr {
        Expr::Value(ValueWithSpan { value: SqlValue::Placeholder(id), .. }) => {
            parameter_name::number(id)
        }
        Expr::Nested(inner) => parameter(inner),
        _ => None,
    }
}

/// The type of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ParameterType {
    One(DataType),
    /// A list of elements of a type.
    List(DataType),
}

/// `CAST(expr AS data_type)`.
pub(crate) fn cast(expr: Expr, data_type: ParameterType) -> Option<Expr> {
    let dialect = PostgreSqlDialect {};
    let name = match data_type {
        ParameterType::One(one) => one.to_string(),
        ParameterType::List(element) => format!("{element}[]"),
    };
    let mut parser = Parser::new(&dialect).try_with_sql(&name).ok()?;
    let data_type = parser.parse_data_type().ok()?;
    let expr = Box::new(expr);
    Some(Expr::Cast { kind: CastKind::Cast, expr, data_type, array: false, format: None })
}

/// A parameter with a type of its own.
pub(crate) fn declared(at: usize, data_type: ParameterType) -> Option<Expr> {
    cast(Expr::value(SqlValue::Placeholder(format!("${}", at + 1))), data_type)
}

/// The type of a value by itself; `None` for NULL and for text, which may stand for any type.
pub(crate) fn own_type(value: &Literal) -> Option<ParameterType> {
    match value {
        Literal::List(items) => {
            let types = items.iter().filter_map(of_one);
            types.reduce(common).map(ParameterType::List)
        }
        one => of_one(one).map(ParameterType::One),
    }
}

/// The type of the elements of a list that has two.
fn common(a: DataType, b: DataType) -> DataType {
    let number = |one| Number::of(&types::to_arrow(one));
    let merged = number(a).zip(number(b)).map(|(a, b)| a.merged(b).arrow());
    merged.and_then(|arrow| types::of_arrow(&arrow)).unwrap_or(a)
}

fn of_one(value: &Literal) -> Option<DataType> {
    Some(match value {
        Literal::List(_) => return None,
        Literal::Null | Literal::Text(_) => return None,
        Literal::Bool(_) => DataType::Bool,
        Literal::Integer(value) if i64::try_from(*value).is_ok() => DataType::Int64,
        Literal::Integer(_) => DataType::Decimal { precision: 38, scale: 0 },
        Literal::Decimal(_, scale) => DataType::Decimal { precision: 38, scale: *scale },
        Literal::Float(_) => DataType::Float64,
        Literal::Real(_) => DataType::Float32,
        Literal::Date(_) => DataType::Date,
        Literal::Timestamp(_) => DataType::Timestamp,
        Literal::Instant(_) => DataType::TimestampTz,
        Literal::Time(_) => DataType::Time,
        Literal::Interval(_) => DataType::Interval,
        Literal::Uuid(_) => DataType::Uuid,
        Literal::Json(_) => DataType::Jsonb,
        Literal::Bytes(_) => DataType::Binary,
    })
}

/// Whether a value means the same as a value of this type, whatever stands beside it: an operator
/// gives other results for a fraction than for a whole number, and a `real` is compared with other
/// numbers as a `double precision`.
pub(crate) fn is_of(value: &Literal, data_type: DataType) -> bool {
    use DataType as T;
    match value {
        Literal::Null | Literal::Text(_) => true,
        Literal::Bool(_) => data_type == T::Bool,
        Literal::Integer(_) => {
            matches!(data_type, T::Int16 | T::Int32 | T::Int64 | T::Decimal { .. } | T::Float64)
        }
        Literal::Decimal(..) => matches!(data_type, T::Decimal { .. } | T::Float64),
        Literal::Float(_) => data_type == T::Float64,
        Literal::Real(_) => data_type == T::Float32,
        Literal::Date(_) => matches!(data_type, T::Date | T::Timestamp | T::TimestampTz),
        Literal::Timestamp(_) => matches!(data_type, T::Timestamp | T::TimestampTz),
        Literal::Instant(_) => data_type == T::TimestampTz,
        Literal::Time(_) => data_type == T::Time,
        Literal::Interval(_) => data_type == T::Interval,
        Literal::Uuid(_) => data_type == T::Uuid,
        Literal::Json(_) => matches!(data_type, T::Json | T::Jsonb | T::Text),
        Literal::Bytes(_) => matches!(data_type, T::Binary | T::FixedBinary(_)),
        Literal::List(items) => {
            data_type.element().is_some_and(|element| items.iter().all(|item| is_of(item, element)))
        }
    }
}

/// The value as it is written in a statement.
pub(crate) fn written(value: &Literal) -> Expr {
    let quoted = |text: String| Expr::value(SqlValue::SingleQuotedString(text));
    let typed = |text: String, data_type: sqlparser::ast::DataType| {
        let value = SqlValue::SingleQuotedString(text).into();
        Expr::TypedString(TypedString { data_type, value, uses_odbc_syntax: false })
    };
    use sqlparser::ast::{DataType as SqlType, ExactNumberInfo, TimezoneInfo};
    match value {
        Literal::Null => Expr::value(SqlValue::Null),
        Literal::Bool(truth) => Expr::value(SqlValue::Boolean(*truth)),
        // Its digits alone are those of an integer.
        Literal::Decimal(digits, 0) => {
            let number = written(&Literal::Integer(*digits));
            let data_type = DataType::Decimal { precision: DIGITS_MAX, scale: 0 };
            cast(number.clone(), ParameterType::One(data_type)).unwrap_or(number)
        }
        Literal::Integer(_) | Literal::Decimal(..) => {
            let shown = value.show();
            let number = |digits: &str| Expr::value(SqlValue::Number(digits.to_owned(), false));
            match shown.strip_prefix('-') {
                Some(digits) => Expr::Nested(Box::new(Expr::UnaryOp {
                    op: sqlparser::ast::UnaryOperator::Minus,
                    expr: Box::new(number(digits)),
                })),
                None => number(&shown),
            }
        }
        Literal::Float(number) => {
            typed(show::double(*number), SqlType::Double(ExactNumberInfo::None))
        }
        Literal::Real(number) => typed(show::real(*number), SqlType::Real),
        Literal::Text(text) => quoted(text.clone()),
        Literal::Date(days) => typed(show::date(*days), SqlType::Date),
        Literal::Timestamp(micros) => {
            typed(show::timestamp(*micros), SqlType::Timestamp(None, TimezoneInfo::None))
        }
        Literal::Instant(micros) => {
            let utc = zone::show_in(*micros, zone::Zone::default());
            typed(utc, SqlType::Timestamp(None, TimezoneInfo::WithTimeZone))
        }
        Literal::Time(micros) => {
            typed(clock::show(*micros), SqlType::Time(None, TimezoneInfo::None))
        }
        Literal::Interval(value) => {
            let data_type = SqlType::Interval { fields: None, precision: None };
            typed(interval::show(*value), data_type)
        }
        Literal::Uuid(bytes) => typed(uuid::show(bytes), SqlType::Uuid),
        Literal::Json(text) => typed(text.clone(), SqlType::JSONB),
        Literal::Bytes(bytes) => typed(show::bytes(bytes), SqlType::Bytea),
        // Quoted, so that only its elements are planned and not their expressions.
        list @ Literal::List(_) => {
            let written = quoted(list.to_text().unwrap_or_default());
            let data_type = own_type(list);
            data_type.and_then(|own| cast(written.clone(), own)).unwrap_or(written)
        }
    }
}
