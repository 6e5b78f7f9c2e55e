//! The types of operands, and the common type of several values.
//!
//! PostgreSQL's rules (its manual, chapter 10): a quoted literal without a type takes the type of
//! the other operand; numbers take the types of [`Number`]; text is never converted to a number,
//! nor a number to text.

use arrow_schema::{DataType as ArrowType, IntervalUnit, TimeUnit};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::planner::{
    ExprPlanner, PlannerResult, RawAggregateExpr, RawBinaryExpr,
};
use datafusion::logical_expr::{
    BinaryExpr, Case, Cast, Expr, ExprSchemable, Operator, ScalarUDF, lit,
};
use sqlparser::ast::BinaryOperator;

use super::arith::Arithmetic;
use super::canonical::canonical;
use super::cast;
use super::number::{DIGITS_MAX, Number, Operation};
use super::{external, plan_error, temporal};
use crate::error::{SqlError, SqlErrorKind};
use crate::text;

/// Timestamps of columns and expressions.
pub(crate) const TIMESTAMP: ArrowType = ArrowType::Timestamp(TimeUnit::Microsecond, None);

/// An expression and its type.
#[derive(Debug, Clone)]
pub(crate) struct Typed {
    pub(crate) expr: Expr,
    pub(crate) arrow: ArrowType,
}

impl Typed {
    /// An expression over the columns of a schema.
    pub(crate) fn new(expr: Expr, schema: &DFSchema) -> Result<Self> {
        let arrow = expr.get_type(schema)?;
        Ok(Self { expr, arrow })
    }

    fn number(&self) -> Option<Number> {
        Number::of(&self.arrow)
    }

    fn is_text(&self) -> bool {
        matches!(self.arrow, ArrowType::Utf8 | ArrowType::LargeUtf8 | ArrowType::Utf8View)
    }

    /// The text of a quoted literal that has no type yet.
    fn untyped(&self) -> Option<&str> {
        match &self.expr {
            Expr::Literal(
                ScalarValue::Utf8(Some(text))
                | ScalarValue::Utf8View(Some(text))
                | ScalarValue::LargeUtf8(Some(text)),
                _,
            ) => Some(text),
            _ => None,
        }
    }

    /// Its type as SQL names it.
    fn type_name(&self) -> String {
        cast::column_type(&self.arrow).map_or_else(|| self.arrow.to_string(), |t| t.to_string())
    }

    /// The family of types that can be compared and merged with each other, where it is known.
    fn family(&self) -> Option<u8> {
        Some(match &self.arrow {
            _ if self.number().is_some() => 0,
            _ if self.is_text() => 1,
            ArrowType::Date32 | ArrowType::Timestamp(..) => 2,
            ArrowType::Boolean => 3,
            ArrowType::Binary | ArrowType::LargeBinary | ArrowType::BinaryView => 4,
            _ => return None,
        })
    }

    /// Whether no operator and no column takes both.
    fn is_apart_from(&self, other: &Self) -> bool {
        matches!((self.family(), other.family()), (Some(a), Some(b)) if a != b)
    }

    /// As a value of another type.
    pub(crate) fn into_type(self, to: &ArrowType) -> Result<Self> {
        Ok(Self { expr: cast::expression(self.expr, &self.arrow, to)?, arrow: to.clone() })
    }

    /// A whole number that is written without a type is an `integer` where it fits, as in
    /// PostgreSQL; the planner reads it as a `bigint`.
    pub(crate) fn narrowed(self) -> Result<Self> {
        match self.expr {
            Expr::Literal(ScalarValue::Int64(Some(value)), _) if i32::try_from(value).is_ok() => {
                self.into_type(&ArrowType::Int32)
            }
            _ => Ok(self),
        }
    }

    /// A quoted literal with the type of `other`; the digits of a number stay as they are written.
    fn beside(self, other: &Self) -> Result<Self> {
        let Some(written) = self.untyped() else { return Ok(self) };
        if other.untyped().is_some() || other.is_text() {
            return Ok(self);
        }
        let wanted = match other.number() {
            Some(Number::Decimal { .. }) => match text::decimal(written.trim()) {
                Some((_, scale)) => ArrowType::Decimal128(DIGITS_MAX, scale.cast_signed()),
                None => other.arrow.clone(),
            },
            _ => other.arrow.clone(),
        };
        match cast::column_type(&wanted) {
            Some(_) => self.into_type(&wanted),
            None => Ok(self),
        }
    }
}

/// Two operands, quoted literals with the type of the other side.
fn resolved(left: Typed, right: Typed) -> Result<(Typed, Typed)> {
    let (beside_right, beside_left) = (left.clone().beside(&right)?, right.beside(&left)?);
    Ok((beside_right, beside_left))
}

fn plain(left: Typed, op: Operator, right: Typed) -> Expr {
    Expr::BinaryExpr(BinaryExpr::new(Box::new(left.expr), op, Box::new(right.expr)))
}

fn is_interval(arrow: &ArrowType) -> bool {
    matches!(arrow, ArrowType::Interval(IntervalUnit::MonthDayNano))
}

/// Gives quoted literals the type of the other side while a statement is planned: the planner would
/// refuse arithmetic with text before the analyzer sees it.
#[derive(Debug)]
pub(crate) struct QuotedLiterals;

impl ExprPlanner for QuotedLiterals {
    fn plan_binary_op(
        &self,
        raw: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        use BinaryOperator as Op;
        let arithmetic = match raw.op {
            Op::Plus => Some(Operation::Add),
            Op::Minus => Some(Operation::Subtract),
            Op::Multiply => Some(Operation::Multiply),
            Op::Divide => Some(Operation::Divide),
            Op::Modulo => Some(Operation::Modulo),
            Op::Eq | Op::NotEq | Op::Lt | Op::LtEq | Op::Gt | Op::GtEq | Op::And | Op::Or => None,
            _ => return Ok(PlannerResult::Original(raw)),
        };
        if [&raw.left, &raw.right].iter().any(|side| side.get_type(schema).is_err()) {
            // The planner says which column is not there, and where.
            return Ok(PlannerResult::Original(raw));
        }
        let is_quoted =
            |expr: &Expr| matches!(expr, Expr::Literal(value, _) if value.try_as_str().is_some());
        let one_is_quoted = is_quoted(&raw.left) || is_quoted(&raw.right);
        let side = |expr| {
            let value = Typed::new(expr, schema)?;
            // Only where it decides what a quoted literal is: the analyzer sees the final types.
            if value.is_text() || one_is_quoted { settled(value.expr, schema) } else { Ok(value) }
        };
        let (left, right) = (side(raw.left)?, side(raw.right)?);
        if let (Some(operation), Some(a), Some(b)) = (arithmetic, left.number(), right.number()) {
            // Refused in our words, before the planner does it in its own.
            a.result(operation, b).map_err(|reason| plan_error(SqlErrorKind::Type, reason))?;
        }
        let is_time = |side: &Typed| side.arrow == ArrowType::Date32 || side.arrow == TIMESTAMP;
        // What is added to a date may be days or an interval; the planner decides.
        let is_open = arithmetic == Some(Operation::Add) && (is_time(&left) || is_time(&right));
        let (left, right) = if is_open { (left, right) } else { resolved(left, right)? };
        let (left, right) = (left.expr, right.expr);
        Ok(PlannerResult::Original(RawBinaryExpr { op: raw.op, left, right }))
    }

    fn plan_aggregate(&self, mut raw: RawAggregateExpr) -> Result<PlannerResult<RawAggregateExpr>> {
        // The columns are not known here; a CASE of literals is what would be refused.
        let nothing = DFSchema::empty();
        for argument in &mut raw.args {
            if !argument.any_column_refs() {
                *argument = settled(std::mem::take(argument), &nothing)?.expr;
            }
        }
        Ok(PlannerResult::Original(raw))
    }
}

/// An expression with the type that it will have: the planner takes that of CASE from its first
/// branch, which may be a quoted literal.
fn settled(expr: Expr, schema: &DFSchema) -> Result<Typed> {
    let settle = |node: Expr| match node {
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if matches!(op, Operator::Plus | Operator::Minus) =>
        {
            let (left, right) = (Typed::new(*left, schema)?, Typed::new(*right, schema)?);
            arithmetic(left, op, right).map(Transformed::yes)
        }
        Expr::Cast(Cast { expr, field }) => {
            let to = temporal::wanted_type(&field, &expr.get_type(schema)?);
            Ok(Transformed::yes(Expr::Cast(Cast::new(expr, to))))
        }
        Expr::Case(inner) => case(inner, schema).map(|case| Transformed::yes(Expr::Case(case))),
        other => Ok(Transformed::no(other)),
    };
    Typed::new(expr.transform_up(settle)?.data, schema)
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

/// An arithmetic operator.
pub(crate) fn arithmetic(left: Typed, op: Operator, right: Typed) -> Result<Expr> {
    let (left, right) = resolved(left, right)?;
    let operation = operation(op);
    if let (Some(_), Some(_)) = (left.number(), right.number()) {
        return numeric(left.narrowed()?, operation, right.narrowed()?);
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
        Operator::Minus if is_date(&left) && right.arrow == TIMESTAMP => {
            Ok(plain(left.into_type(&TIMESTAMP)?, op, right))
        }
        Operator::Minus if is_date(&right) && left.arrow == TIMESTAMP => {
            Ok(plain(left, op, right.into_type(&TIMESTAMP)?))
        }
        Operator::Plus | Operator::Minus if is_date(&left) && is_interval(&right.arrow) => {
            Ok(plain(left.into_type(&TIMESTAMP)?, op, right))
        }
        Operator::Plus if is_interval(&left.arrow) && is_date(&right) => {
            Ok(plain(left, op, right.into_type(&TIMESTAMP)?))
        }
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

/// The negative of a number; that of the smallest integer is out of range.
pub(crate) fn negative(side: Typed) -> Result<Expr> {
    let side = side.narrowed()?;
    match side.number() {
        Some(number @ (Number::Int16 | Number::Int32 | Number::Int64)) => {
            let zero = Typed { expr: lit(0i64), arrow: ArrowType::Int64 };
            numeric(zero.into_type(&number.arrow())?, Operation::Subtract, side)
        }
        Some(number) if number.is_float() => {
            // Not by turning the sign bit, which would make a NaN below all numbers (`COMPARE-1`).
            let zero = Typed { expr: lit(-0.0f64), arrow: ArrowType::Float64 };
            numeric(zero.into_type(&number.arrow())?, Operation::Subtract, side)
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

/// Both sides of a comparison, with types that can be compared.
///
/// # Errors
/// Text beside a number or a time, and a quoted literal that is no value of the other type.
pub(crate) fn comparison(left: Typed, op: Operator, right: Typed) -> Result<(Expr, Expr)> {
    let (left, right) = resolved(left, right)?;
    if let (Some(a), Some(b)) = (left.number(), right.number()) {
        if a != b {
            let common = a.comparison(b);
            let (left, right) = (left.into_type(&common)?, right.into_type(&common)?);
            return Ok((compared(left), compared(right)));
        }
        return Ok((compared(left), compared(right)));
    }
    let is_date = |side: &Typed| side.arrow == ArrowType::Date32;
    if is_date(&left) && right.arrow == TIMESTAMP {
        return Ok((left.into_type(&TIMESTAMP)?.expr, right.expr));
    }
    if left.arrow == TIMESTAMP && is_date(&right) {
        return Ok((left.expr, right.into_type(&TIMESTAMP)?.expr));
    }
    if left.is_apart_from(&right) {
        return Err(meaningless(&left, op, &right));
    }
    Ok((left.expr, right.expr))
}

/// A comparison as an expression.
pub(crate) fn compare(left: Typed, op: Operator, right: Typed) -> Result<Expr> {
    let (left, right) = comparison(left, op, right)?;
    Ok(Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right))))
}

/// The type that values of these types merge into, where it is for this module to say.
pub(crate) fn merged<'a>(types: impl Iterator<Item = &'a ArrowType> + Clone) -> Option<ArrowType> {
    let mut typed = types.filter(|arrow| !arrow.is_null());
    let numbers: Option<Vec<Number>> = typed.clone().map(Number::of).collect();
    if let Some(numbers) = numbers {
        return numbers.into_iter().reduce(Number::merged).map(Number::arrow);
    }
    let is_time = |arrow: &&ArrowType| **arrow == ArrowType::Date32 || **arrow == TIMESTAMP;
    let first = typed.clone().next()?;
    if typed.clone().all(|arrow| is_time(&arrow)) && !typed.all(|arrow| arrow == first) {
        return Some(TIMESTAMP);
    }
    None
}

/// Values that one column or result is to hold, all of one type.
///
/// # Errors
/// Text beside a number or a time, and a quoted literal that is no value of the type of the others.
pub(crate) fn merge(values: Vec<Typed>) -> Result<Vec<Expr>> {
    let values = values.into_iter().map(Typed::narrowed).collect::<Result<Vec<_>>>()?;
    let is_typed = |value: &&Typed| value.untyped().is_none() && !value.arrow.is_null();
    let typed: Vec<&Typed> = values.iter().filter(is_typed).collect();
    let Some(first) = typed.first() else {
        return Ok(values.into_iter().map(|value| value.expr).collect());
    };
    if let Some(other) = typed.iter().find(|other| first.is_apart_from(other)) {
        let message =
            format!("{} and {} have no type in common", first.type_name(), other.type_name());
        return Err(plan_error(SqlErrorKind::Type, message));
    }
    let merged = merged(typed.iter().map(|value| &value.arrow));
    let mut common = merged.unwrap_or_else(|| first.arrow.clone());
    if let ArrowType::Decimal128(..) = common {
        // The digits of quoted numbers stay as they are written.
        for (_, scale) in values.iter().filter_map(|value| text::decimal(value.untyped()?.trim())) {
            let quoted = Number::Decimal { precision: DIGITS_MAX, scale };
            common = Number::of(&common).map_or(quoted, |number| number.merged(quoted)).arrow();
        }
    }
    let is_ours = cast::column_type(&common).is_some();
    values
        .into_iter()
        .map(|value| {
            if value.arrow.is_null() && is_ours {
                return Ok(lit(ScalarValue::try_from(&common)?));
            }
            let is_number = value.number().is_some() || value.untyped().is_some();
            let is_time = value.arrow == ArrowType::Date32;
            match is_ours && (is_number || is_time) {
                true => value.into_type(&common).map(|value| value.expr),
                false => Ok(value.expr),
            }
        })
        .collect()
}

/// Numbers that are compared with each other, all of one type.
fn aligned(values: Vec<Typed>, join: fn(Number, Number) -> Number) -> Result<Vec<Typed>> {
    let typed = |value: &&Typed| !value.arrow.is_null();
    let numbers: Option<Vec<Number>> = values.iter().filter(typed).map(Typed::number).collect();
    let Some(common) = numbers.as_ref().and_then(|all| all.iter().copied().reduce(join)) else {
        return Ok(values);
    };
    let wide = numbers
        .unwrap_or_default()
        .into_iter()
        .map(|number| number.comparison(common))
        .find(|arrow| matches!(arrow, ArrowType::Decimal256(..)));
    let common = wide.unwrap_or_else(|| common.arrow());
    values
        .into_iter()
        .map(|value| if value.arrow.is_null() { Ok(value) } else { value.into_type(&common) })
        .collect()
}

/// `value IN (…)`. As in PostgreSQL, several constants merge into one type, and anything else is
/// compared by itself.
///
/// `join` makes one condition of two.
pub(crate) fn in_list(
    value: Typed,
    list: Vec<Typed>,
    negated: bool,
    join: impl Fn(Expr, Operator, Expr) -> Expr,
) -> Result<Expr> {
    let mut items = Vec::with_capacity(list.len());
    for item in list {
        items.push(item.beside(&value)?);
    }
    let (constants, others): (Vec<_>, Vec<_>) =
        items.into_iter().partition(|item| !item.expr.any_column_refs());
    let (constants, singles) = match constants.len() {
        0 | 1 => (Vec::new(), constants.into_iter().chain(others).collect::<Vec<_>>()),
        _ => (constants, others),
    };
    let (op, both) = match negated {
        false => (Operator::Eq, Operator::Or),
        true => (Operator::NotEq, Operator::And),
    };
    let mut found = None;
    if !constants.is_empty() {
        let mut all = vec![value.clone()];
        all.extend(constants);
        for item in &all[1..] {
            // Only to refuse what cannot be compared.
            comparison(value.clone(), op, item.clone())?;
        }
        // The constants become the type into which all merge, which is compared with the value's.
        let value = all[0].clone();
        let mut all = aligned(all, Number::merged)?;
        all.remove(0);
        let common = all[0].number().zip(value.number()).map(|(a, b)| a.comparison(b));
        let in_common = |item: Typed| match &common {
            Some(common) if !item.arrow.is_null() => item.into_type(common),
            _ => Ok(item),
        };
        all = all.into_iter().map(in_common).collect::<Result<_>>()?;
        let first = in_common(value)?;
        // Constants are looked up by their bits.
        let list = all.into_iter().map(|item| canonical(item.expr, &item.arrow)).collect();
        let value = Box::new(canonical(first.expr, &first.arrow));
        found = Some(Expr::InList(InList::new(value, list, negated)));
    }
    for item in singles {
        let one = compare(value.clone(), op, item)?;
        found = Some(match found {
            Some(before) => join(before, both, one),
            None => one,
        });
    }
    Ok(found.unwrap_or_else(|| lit(negated)))
}

/// `CASE`, with one type for what is compared and one for what results.
pub(crate) fn case(case: Case, schema: &DFSchema) -> Result<Case> {
    let (whens, thens): (Vec<_>, Vec<_>) = case.when_then_expr.into_iter().unzip();
    let typed = |expr: Box<Expr>| Typed::new(*expr, schema);
    let mut results: Vec<Typed> = thens.into_iter().map(typed).collect::<Result<_>>()?;
    let has_else = case.else_expr.is_some();
    results.extend(case.else_expr.map(typed).transpose()?);
    let mut results = merge(results)?;
    let else_expr = if has_else { results.pop().map(Box::new) } else { None };
    let mut whens: Vec<Typed> = whens.into_iter().map(typed).collect::<Result<_>>()?;
    let (mut expr, mut compared_whens) = (None, Vec::new());
    if case.expr.is_none() {
        for when in &mut whens {
            when.expr = truth(when.clone())?;
        }
    }
    if let Some(value) = case.expr {
        let value = typed(value)?;
        let mut all = vec![value.clone()];
        for when in whens {
            // Only to refuse what cannot be compared.
            comparison(value.clone(), Operator::Eq, when.clone())?;
            all.push(when.beside(&value)?);
        }
        let mut aligned = aligned(all, Number::operand)?.into_iter();
        let value = aligned.next().unwrap_or(value);
        if value.number().is_some_and(Number::is_float) {
            // DataFusion looks for the value by its bits.
            for when in aligned.by_ref() {
                compared_whens.push(Typed {
                    expr: compare(value.clone(), Operator::Eq, when)?,
                    arrow: ArrowType::Boolean,
                });
            }
            whens = compared_whens;
        } else {
            expr = Some(Box::new(value.expr));
            whens = aligned.collect();
        }
    }
    let when_then_expr = whens
        .into_iter()
        .zip(results)
        .map(|(when, then)| (Box::new(when.expr), Box::new(then)))
        .collect();
    Ok(Case { expr, when_then_expr, else_expr })
}

/// `left || right`: the texts of both, as a cast to text writes them.
pub(crate) fn concat(left: Typed, right: Typed) -> Result<Expr> {
    let is_scalar = |side: &Typed| cast::column_type(&side.arrow).is_some();
    let is_bytes = |side: &Typed| {
        matches!(side.arrow, ArrowType::Binary | ArrowType::LargeBinary | ArrowType::BinaryView)
    };
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

/// A key of an order: DataFusion cannot keep a frame over bytes, but over the text that stands for
/// them, which has the same order.
pub(crate) fn frame_key(value: Typed) -> Result<Expr> {
    match value.arrow {
        ArrowType::Binary | ArrowType::LargeBinary | ArrowType::BinaryView => {
            value.into_type(&ArrowType::Utf8View).map(|value| value.expr)
        }
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
