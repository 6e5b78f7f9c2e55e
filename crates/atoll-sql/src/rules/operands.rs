//! The types of operands.
//!
//! PostgreSQL's rules (its manual, chapter 10): a quoted literal without a type takes the type of
//! the other operand; numbers take the types of [`Number`]; text is never converted to a number,
//! nor a number to text.

use arrow_schema::DataType as ArrowType;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{BinaryExpr, Cast, Expr, Operator, ScalarUDF, lit};

use super::arith::Arithmetic;
use super::canonical::{canonical, comparable};
use super::number::{DIGITS_MAX, Number, Operation};
use super::temporal::{self, INTERVAL, TIMESTAMP};
use super::typed::{Typed, resolved};
use super::{cast, enums, functions, moments, plan_error};
use crate::error::{Cause, SqlError, SqlErrorKind};
use crate::json::Form;
use crate::query_error::external;
use crate::{text, types};

fn plain(left: Typed, op: Operator, right: Typed) -> Expr {
    Expr::BinaryExpr(BinaryExpr::new(Box::new(left.expr), op, Box::new(right.expr)))
}

fn is_interval(arrow: &ArrowType) -> bool {
    *arrow == INTERVAL
}

fn operation(op: Operator) -> Operation {
    match op {
        Operator::Plus => Operation::Add,
        Operator::Minus => Operation::Subtract,
        Operator::Multiply => Operation::Multiply,
        Operator::Divide => Operation::Divide,
        _ => Operation::Modulo,
    }
}

fn is_open(side: &Typed) -> bool {
    side.is_open_parameter() || side.arrow.is_null()
}

fn is_sum(op: Operator) -> bool {
    matches!(op, Operator::Plus | Operator::Minus)
}

fn is_moment(side: &Typed) -> bool {
    moments::common(&side.arrow, &side.arrow).is_some() || side.arrow == temporal::TIME
}

/// An operator that was settled while the statement was planned: an operand may have got another
/// type since, as `GREATEST` of literals does.
pub(crate) fn again(settled: &Arithmetic, left: Typed, right: Typed) -> Result<Expr> {
    numeric(left, settled.operation(), right)
}

/// An arithmetic operator.
pub(crate) fn arithmetic(left: Typed, op: Operator, right: Typed) -> Result<Expr> {
    if left.json == Some(Form::Jsonb) && op == Operator::Minus {
        return functions::call("jsonb_delete", vec![left, right]);
    }
    enums::check_operator(&left, op, &right)?;
    let (left, right) = resolved(left, right)?;
    let operation = operation(op);
    if let (Some(_), Some(_)) = (left.number(), right.number()) {
        return numeric(left.narrowed()?, operation, right.narrowed()?);
    }
    if let Some(moved) = moments::arithmetic(&left, op, &right) {
        return Ok(moved);
    }
    let (a, b) = (is_interval(&left.arrow), is_interval(&right.arrow));
    if let Some(scaled) = moments::scaled(&left, op, &right)? {
        return Ok(scaled);
    }
    // An interval has no other operator.
    if (a || b) && !(is_moment(&left) || is_moment(&right)) && !(a && b && is_sum(op)) {
        return Err(meaningless(&left, op, &right));
    }
    let is_date = |side: &Typed| side.arrow == ArrowType::Date32;
    let is_integer =
        |side: &Typed| side.number().is_some_and(|n| n.operand(Number::Int64) == Number::Int64);
    match op {
        Operator::Plus | Operator::Minus if is_date(&left) && is_integer(&right) => {
            let days = right.into_type(&ArrowType::Int64)?;
            Ok(temporal::shift(operation).call(vec![left.expr, days.expr]))
        }
        Operator::Plus if is_integer(&left) && is_date(&right) => {
            let days = left.into_type(&ArrowType::Int64)?;
            Ok(temporal::shift(operation).call(vec![right.expr, days.expr]))
        }
        Operator::Minus if is_date(&left) && is_date(&right) => {
            Ok(temporal::difference().call(vec![left.expr, right.expr]))
        }
        Operator::Minus if let Some(common) = moments::common(&left.arrow, &right.arrow) => {
            let (left, right) = (left.into_type(&common)?, right.into_type(&common)?);
            Ok(moments::difference(left.expr, right.expr))
        }
        Operator::Plus | Operator::Minus if is_date(&left) && is_interval(&right.arrow) => {
            Ok(plain(left.into_type(&TIMESTAMP)?, op, right))
        }
        Operator::Plus if is_interval(&left.arrow) && is_date(&right) => {
            Ok(plain(left, op, right.into_type(&TIMESTAMP)?))
        }
        Operator::Plus | Operator::Minus if is_moment(&left) && b => Ok(plain(left, op, right)),
        Operator::Plus if a && is_moment(&right) => Ok(plain(left, op, right)),
        _ if left.is_apart_from(&right) => Err(meaningless(&left, op, &right)),
        _ => Ok(plain(left, op, right)),
    }
}

fn numeric(left: Typed, operation: Operation, right: Typed) -> Result<Expr> {
    let (Some(a), Some(b)) = (left.number(), right.number()) else {
        return Ok(plain(left, Operator::Plus, right));
    };
    let operand = a.operand(b);
    let side = |side: Typed, number: Number| match operand {
        // Decimals keep the digits that they have; the operator aligns them.
        Number::Decimal { .. } => {
            let own = match number {
                Number::Decimal { .. } => number,
                integer => integer.operand(Number::Decimal { precision: 1, scale: 0 }),
            };
            side.into_type(&own.arrow())
        }
        other => side.into_type(&other.arrow()),
    };
    let (left, right) = (side(left, a)?, side(right, b)?);
    Ok(ScalarUDF::from(Arithmetic::new(operation)).call(vec![left.expr, right.expr]))
}

/// An operator on the bits of whole numbers. What is shifted keeps its type.
pub(crate) fn bitwise(left: Typed, op: Operator, right: Typed) -> Result<Expr> {
    let (left, right) = resolved(left.narrowed()?, right.narrowed()?)?;
    let whole = |side: &Typed| side.number().filter(|n| n.operand(Number::Int64) == Number::Int64);
    let (Some(a), Some(b)) = (whole(&left), whole(&right)) else {
        return Ok(plain(left, op, right));
    };
    let wanted = match op {
        Operator::BitwiseShiftLeft | Operator::BitwiseShiftRight => a.arrow(),
        _ => a.operand(b).arrow(),
    };
    if op == Operator::BitwiseXor && left.expr == right.expr {
        // The optimizer takes it for zero, of NULL too.
        return numeric(left, Operation::Subtract, right);
    }
    Ok(plain(left.into_type(&wanted)?, op, right.into_type(&wanted)?))
}

/// The negative of a number; that of the smallest integer is out of range.
pub(crate) fn negative(side: Typed) -> Result<Expr> {
    let side = side.narrowed()?;
    match side.number() {
        _ if enums::labels_of(&side).is_some() => {
            Err(enums::no_operator(format!("- {} has no meaning", side.type_name())))
        }
        Some(number @ (Number::Int16 | Number::Int32 | Number::Int64)) => {
            let zero = Typed::of(lit(0i64), ArrowType::Int64);
            numeric(zero.into_type(&number.arrow())?, Operation::Subtract, side)
        }
        Some(number) if number.is_float() => {
            // Not by turning the sign bit, which would make a NaN below all numbers (`COMPARE-1`).
            let zero = Typed::of(lit(-0.0f64), ArrowType::Float64);
            numeric(zero.into_type(&number.arrow())?, Operation::Subtract, side)
        }
        None if is_interval(&side.arrow) => {
            let none = Typed::of(lit(ScalarValue::new_interval_mdn(0, 0, 0)), INTERVAL);
            Ok(moments::arithmetic(&none, Operator::Minus, &side).unwrap_or(side.expr))
        }
        None if matches!(side.family(), Some(1..)) => {
            let message = format!("- {} has no meaning", side.type_name());
            Err(plan_error(SqlErrorKind::Type, message))
        }
        _ => Ok(Expr::Negative(Box::new(side.expr))),
    }
}

/// A condition.
///
/// # Errors
/// Anything but a truth value.
pub(crate) fn truth(value: Typed) -> Result<Expr> {
    match &value.arrow {
        ArrowType::Boolean | ArrowType::Null => Ok(value.expr),
        _ if value.untyped().is_some() => {
            value.into_type(&ArrowType::Boolean).map(|value| value.expr)
        }
        _ => {
            let message = format!("a condition is true or false, not {}", value.type_name());
            Err(plan_error(SqlErrorKind::Type, message))
        }
    }
}

/// The error for two types that have no operator.
fn meaningless(left: &Typed, op: Operator, right: &Typed) -> datafusion::error::DataFusionError {
    let message = format!("{} {op} {} has no meaning", left.type_name(), right.type_name());
    external(
        SqlError::new(SqlErrorKind::Type, message)
            .with_cause(Cause::NoSuchOperator)
            .with_hint(Some("cast one side, as in CAST(x AS integer)".to_owned())),
    )
}

/// Whether the canonical form must be computed: a column's values are canonical, and so are the
/// results of the functions of this module.
fn compared(side: Typed) -> Expr {
    let computes = match &side.expr {
        Expr::ScalarFunction(function) => {
            let inner = function.func.inner();
            !inner.is::<Arithmetic>() && !inner.is::<cast::Cast>()
        }
        Expr::Column(_) | Expr::Literal(..) | Expr::Cast(_) => false,
        _ => true,
    };
    if computes { canonical(side.expr, &side.arrow) } else { side.expr }
}

/// The bytes that have the order of a `jsonb`.
pub(crate) fn order_of_json(value: Typed) -> Result<Expr> {
    functions::call("jsonb_order", vec![value])
}

/// A text that is JSON of a form, marked as such.
pub(crate) fn as_json(text: Expr, form: Option<Form>) -> Result<Expr> {
    let name = match form {
        None => return Ok(text),
        Some(Form::Json) => "json_as",
        Some(Form::Jsonb) => "jsonb_as",
    };
    functions::call(name, vec![Typed::of(text, ArrowType::Utf8View)])
}

/// A numeric constant with no more digits than it needs, so that what it is compared with need not
/// get more of them than a type has.
fn without_zeros(value: Typed) -> Typed {
    let Expr::Literal(ScalarValue::Decimal128(Some(digits), _, scale), _) = value.expr else {
        return value;
    };
    let (mut digits, mut scale) = (digits, scale);
    while scale > 0 && digits % 10 == 0 {
        (digits, scale) = (digits / 10, scale - 1);
    }
    let count = digits.unsigned_abs().checked_ilog10().map_or(1, |log| log as u8 + 1);
    let precision = count.max(scale.unsigned_abs());
    let number = ScalarValue::Decimal128(Some(digits), precision, scale);
    Typed::of(lit(number), ArrowType::Decimal128(precision, scale))
}

/// Both sides of a comparison, with types that can be compared.
///
/// # Errors
/// Text beside a number or a time, and a quoted literal that is no value of the other type.
pub(crate) fn comparison(left: Typed, op: Operator, right: Typed) -> Result<(Expr, Expr)> {
    let (left, right) = resolved(left, right)?;
    if let (Some(a), Some(b)) = (left.number(), right.number()) {
        if a != b {
            let (left, right) = (without_zeros(left), without_zeros(right));
            let common = match (left.number(), right.number()) {
                (Some(a), Some(b)) => a.comparison(b),
                _ => a.comparison(b),
            };
            let (left, right) = (left.into_type(&common)?, right.into_type(&common)?);
            return Ok((compared(left), compared(right)));
        }
        return Ok((compared(left), compared(right)));
    }
    if let Some(common) = moments::common(&left.arrow, &right.arrow) {
        return Ok((left.into_type(&common)?.expr, right.into_type(&common)?.expr));
    }
    if left.is_apart_from(&right) {
        return Err(meaningless(&left, op, &right));
    }
    if left.json == Some(Form::Json) && right.json == Some(Form::Json) {
        // As in PostgreSQL, two texts may differ and mean the same.
        return Err(meaningless(&left, op, &right));
    }
    if left.json.is_some() && right.json.is_some() {
        return Ok((order_of_json(left)?, order_of_json(right)?));
    }
    if left.arrow == INTERVAL && right.arrow == INTERVAL {
        return Ok((comparable(left.expr, &INTERVAL), comparable(right.expr, &INTERVAL)));
    }
    Ok((left.expr, right.expr))
}

/// A comparison as an expression.
pub(crate) fn compare(left: Typed, op: Operator, right: Typed) -> Result<Expr> {
    use Operator::{Gt, GtEq, Lt, LtEq};
    let is_array = |side: &Typed| matches!(side.arrow, ArrowType::List(_));
    let is_ordered = matches!(op, Lt | LtEq | Gt | GtEq) && (is_array(&left) || is_array(&right));
    let (left, right) = if is_ordered { resolved(left, right)? } else { (left, right) };
    if is_ordered && is_array(&left) && is_array(&right) {
        let order = functions::call("array_compare", vec![left, right])?;
        return Ok(Expr::BinaryExpr(BinaryExpr::new(Box::new(order), op, Box::new(lit(0i32)))));
    }
    let (left, right) = comparison(left, op, right)?;
    Ok(Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right))))
}

/// `left || right`: the texts of both, as a cast to text writes them.
pub(crate) fn concat(left: Typed, right: Typed) -> Result<Expr> {
    let is_json = |side: &Typed| side.json == Some(Form::Jsonb);
    let takes = |side: &Typed| is_json(side) || side.untyped().is_some() || is_open(side);
    if is_json(&left) && takes(&right) || is_json(&right) && takes(&left) {
        let (left, right) = resolved(left, right)?;
        return functions::call("jsonb_concat", vec![left, right]);
    }
    let is_scalar = |side: &Typed| types::of_arrow(&side.arrow).is_some();
    let is_bytes = |side: &Typed| {
        matches!(side.arrow, ArrowType::Binary | ArrowType::LargeBinary | ArrowType::BinaryView)
    };
    if is_bytes(&left) && right.untyped().is_some() || is_bytes(&right) && left.untyped().is_some()
    {
        let (left, right) = resolved(left, right)?;
        return Ok(plain(left, Operator::StringConcat, right));
    }
    if !(left.is_text() || right.is_text()) || is_bytes(&left) && is_bytes(&right) {
        return Ok(plain(left, Operator::StringConcat, right));
    }
    let text = |side: Typed| match side.is_text() || !is_scalar(&side) {
        true => Ok(side),
        false => side.into_type(&ArrowType::Utf8View),
    };
    Ok(plain(text(left)?, Operator::StringConcat, text(right)?))
}

/// A number by which the frame of a window is measured, in a type that holds it with the distance
/// added: DataFusion takes the distance for a value of the key's type, and what overflows for NULL.
pub(crate) fn distance_key(value: Typed, distances: &[&ScalarValue]) -> Result<Expr> {
    let scale = distances.iter().filter_map(|distance| {
        let (_, scale) = text::decimal(distance.try_as_str().flatten()?.trim())?;
        Some(scale)
    });
    let scale = scale.max().unwrap_or(0);
    match value.number() {
        Some(number) if number.is_float() => value.into_type(&ArrowType::Float64),
        Some(number) => {
            let wide = Number::Decimal { precision: DIGITS_MAX, scale };
            value.into_type(&number.merged(wide).arrow())
        }
        None => Ok(value),
    }
    .map(|value| value.expr)
}

/// What `NULLIF(value, other)` gives where the two differ. PostgreSQL has operators for two types
/// of integers, of floating-point numbers and of times; for any others the value is converted
/// first.
pub(crate) fn kept_by_nullif(value: Typed, other: &Typed) -> Result<Typed> {
    let value = value.beside(other)?;
    let wanted = match (value.number(), other.number()) {
        (Some(a), Some(b)) if a.is_float() == b.is_float() => match (a, b) {
            (Number::Decimal { .. }, _) | (_, Number::Decimal { .. }) if !a.is_float() => {
                a.operand(Number::Decimal { precision: 1, scale: 0 })
            }
            _ => a,
        },
        (Some(a), Some(_)) if a.is_float() => a,
        (Some(a), Some(b)) => a.operand(b),
        _ => return Ok(value),
    };
    value.into_type(&wanted.arrow())
}

/// A key of an order: DataFusion cannot keep a frame over bytes and times of day, but over the text
/// or the number that stands for them, which has the same order.
pub(crate) fn frame_key(value: Typed) -> Result<Expr> {
    match value.arrow {
        ArrowType::Binary
        | ArrowType::LargeBinary
        | ArrowType::BinaryView
        | ArrowType::FixedSizeBinary(_) => {
            value.into_type(&ArrowType::Utf8View).map(|value| value.expr)
        }
        ArrowType::Time64(_) => Ok(Expr::Cast(Cast::new(Box::new(value.expr), ArrowType::Int64))),
        _ => Ok(value.expr),
    }
}

/// A date or a quoted literal as a timestamp; anything else as it is.
pub(crate) fn as_moment(value: Typed) -> Result<Typed> {
    match value.untyped().is_some() || value.arrow == ArrowType::Date32 {
        true => value.into_type(&TIMESTAMP),
        false => Ok(value),
    }
}

/// Arguments of a function: where one is a floating-point number, a decimal becomes one too.
pub(crate) fn as_arguments(arguments: Vec<Typed>) -> Result<Vec<Expr>> {
    let has_float = arguments.iter().any(|one| one.number().is_some_and(Number::is_float));
    arguments
        .into_iter()
        .map(|one| match one.number() {
            Some(Number::Decimal { .. }) if has_float => {
                one.into_type(&ArrowType::Float64).map(|one| one.expr)
            }
            _ => Ok(one.expr),
        })
        .collect()
}
