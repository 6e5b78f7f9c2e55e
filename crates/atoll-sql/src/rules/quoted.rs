//! Quoted literals while a statement is planned, before the analyzer sees the plan.

use arrow_schema::DataType as ArrowType;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::planner::{
    ExprPlanner, PlannerResult, RawAggregateExpr, RawBinaryExpr, RawFieldAccessExpr,
};
use datafusion::logical_expr::{
    BinaryExpr, Cast, Expr, ExprSchemable, GetFieldAccess, Operator, lit,
};
use sqlparser::ast::BinaryOperator;

use super::common_type::case;
use super::number::{Number, Operation};
use super::operands::{arithmetic, comparison};
use super::temporal;
use super::typed::{Typed, resolved};
use super::{enums, functions, lengths, moments, operands, plan_error};
use crate::error::{SqlError, SqlErrorKind};
use crate::json::Form;
use crate::query_error::external;

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
        if let Some(name) = functions::of_json_operator(&raw.op)
            && let (Ok(left), Ok(right)) =
                (Typed::new(raw.left.clone(), schema), Typed::new(raw.right.clone(), schema))
        {
            let is_whole = left.json.is_some() && right.json.is_none();
            let is_either = matches!(raw.op, Op::AtArrow | Op::ArrowAt | Op::StringConcat)
                && (left.json == Some(Form::Jsonb) || right.json == Some(Form::Jsonb));
            let called = match raw.op {
                Op::StringConcat if is_either => Some(operands::concat(left, right)?),
                Op::AtArrow | Op::ArrowAt if is_either => {
                    let (left, right) = resolved(left, right)?;
                    Some(functions::call(name, vec![left, right])?)
                }
                Op::StringConcat | Op::AtArrow | Op::ArrowAt => None,
                _ if is_whole => Some(functions::call(name, vec![left, right])?),
                _ => None,
            };
            if let Some(called) = called {
                return Ok(PlannerResult::Planned(called));
            }
        }
        if let Some(planned) = array_operator(&raw, schema)? {
            return Ok(PlannerResult::Planned(planned));
        }
        let arithmetic = match raw.op {
            Op::Plus => Some(Operation::Add),
            Op::Minus => Some(Operation::Subtract),
            Op::Multiply => Some(Operation::Multiply),
            Op::Divide => Some(Operation::Divide),
            Op::Modulo => Some(Operation::Modulo),
            Op::Eq | Op::NotEq | Op::Lt | Op::LtEq | Op::Gt | Op::GtEq | Op::And | Op::Or => None,
            Op::BitwiseAnd | Op::BitwiseOr | Op::BitwiseXor | Op::PGBitwiseXor => None,
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
        let is_new = |side: &Typed| {
            side.arrow == temporal::INTERVAL
                || side.json.is_some()
                || side.arrow == temporal::TIME
                || side.arrow == temporal::instant()
                || side.is_uuid()
                || enums::labels_of(side).is_some()
        };
        if let Some(op) = compared(&raw.op)
            && (is_new(&left) || is_new(&right))
        {
            // Refused in our words, too.
            comparison(left.clone(), op, right.clone())?;
        }
        let is_interval = |side: &Typed| side.arrow == temporal::INTERVAL;
        if let Some(operation) = arithmetic {
            let op = match operation {
                Operation::Add => Operator::Plus,
                Operation::Multiply => Operator::Multiply,
                Operation::Divide => Operator::Divide,
                _ => Operator::Minus,
            };
            enums::check_operator(&left, op, &right)?;
            let is_scaled = matches!(operation, Operation::Multiply | Operation::Divide);
            if is_scaled && (is_interval(&left) || is_interval(&right)) {
                return operands::arithmetic(left, op, right).map(PlannerResult::Planned);
            }
            let is_sum = matches!(operation, Operation::Add | Operation::Subtract);
            // The planner does not know them.
            if let Some(moved) = is_sum.then(|| moments::arithmetic(&left, op, &right)).flatten() {
                return Ok(PlannerResult::Planned(moved));
            }
        }
        let is_time = |side: &Typed| {
            moments::common(&side.arrow, &side.arrow).is_some() || side.arrow == temporal::TIME
        };
        // What is added to a date may be days or an interval; the planner decides.
        let is_open = arithmetic == Some(Operation::Add) && (is_time(&left) || is_time(&right));
        let (left, right) = if is_open { (left, right) } else { resolved(left, right)? };
        let (left, right) = (left.expr, right.expr);
        Ok(PlannerResult::Original(RawBinaryExpr { op: raw.op, left, right }))
    }

    fn plan_field_access(
        &self,
        raw: RawFieldAccessExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawFieldAccessExpr>> {
        let value = Typed::new(raw.expr.clone(), schema)?;
        if value.json == Some(Form::Jsonb) {
            return part_of_json(value, &raw.field_access, schema).map(PlannerResult::Planned);
        }
        if !matches!(value.arrow, ArrowType::List(_) | ArrowType::Null | ArrowType::Struct(_)) {
            let shown = value.type_name();
            let message =
                format!("cannot subscript type {shown} because it does not support subscripting");
            let error = SqlError::new(SqlErrorKind::Type, message).with_state("42804");
            return Err(external(error));
        }
        let (name, keys) = match &raw.field_access {
            GetFieldAccess::ListIndex { key } => ("array_element", vec![key]),
            GetFieldAccess::ListRange { start, stop, stride } if stride.as_ref() == &lit(1i64) => {
                ("array_slice", vec![start, stop])
            }
            _ => return Ok(PlannerResult::Original(raw)),
        };
        let array = value;
        if !matches!(array.arrow, ArrowType::List(_)) {
            return Ok(PlannerResult::Original(raw));
        }
        let keys = keys.into_iter().map(|key| Typed::new(key.as_ref().clone(), schema));
        let arguments = std::iter::once(Ok(array)).chain(keys).collect::<Result<Vec<_>>>()?;
        functions::call(name, arguments).map(PlannerResult::Planned)
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

/// What a subscript of a `jsonb` gives: the field of an object, or the element of an array.
fn part_of_json(value: Typed, access: &GetFieldAccess, schema: &DFSchema) -> Result<Expr> {
    let key = match access {
        GetFieldAccess::NamedStructField { name } => lit(name.clone()),
        GetFieldAccess::ListIndex { key } => key.as_ref().clone(),
        GetFieldAccess::ListRange { .. } => {
            let message = "jsonb subscript does not support slices";
            let error = SqlError::new(SqlErrorKind::Unsupported, message).with_state("42804");
            return Err(external(error));
        }
    };
    let key = Typed::new(key, schema)?;
    let is_whole = matches!(key.number(), Some(Number::Int16 | Number::Int32 | Number::Int64));
    if !is_whole && !key.is_text() && !key.arrow.is_null() && !key.is_open_parameter() {
        let message = format!("subscript type {} is not supported", key.type_name());
        let hint = "jsonb subscript must be coercible to either integer or text.".to_owned();
        let error = SqlError::new(SqlErrorKind::Type, message).with_state("42804");
        return Err(external(error.with_hint(Some(hint))));
    }
    let key = key.into_type(&ArrowType::Utf8View)?;
    functions::call("jsonb_extract_path", vec![value, key])
}

/// An operator of two arrays, or of an array and an element.
fn array_operator(raw: &RawBinaryExpr, schema: &DFSchema) -> Result<Option<Expr>> {
    let is_joined = raw.op == BinaryOperator::StringConcat;
    if functions::of_array_operator(&raw.op).is_none() && !is_joined {
        return Ok(None);
    }
    let typed = |expr: &Expr| Typed::new(expr.clone(), schema);
    let (Ok(left), Ok(right)) = (typed(&raw.left), typed(&raw.right)) else { return Ok(None) };
    let is_array = |side: &Typed| matches!(side.arrow, ArrowType::List(_));
    if !is_array(&left) && !is_array(&right) {
        return Ok(None);
    }
    let name = match functions::of_array_operator(&raw.op) {
        Some(name) => name,
        // A text beside an array is one, too.
        None => match (is_array(&left), is_array(&right)) {
            (true, false) if right.untyped().is_none() && !right.is_open_parameter() => {
                "array_append"
            }
            (false, true) if left.untyped().is_none() && !left.is_open_parameter() => {
                "array_prepend"
            }
            _ => "array_cat",
        },
    };
    functions::call(name, vec![left, right]).map(Some)
}

/// The operator that compares.
fn compared(op: &BinaryOperator) -> Option<Operator> {
    Some(match op {
        BinaryOperator::Eq => Operator::Eq,
        BinaryOperator::NotEq => Operator::NotEq,
        BinaryOperator::Lt => Operator::Lt,
        BinaryOperator::LtEq => Operator::LtEq,
        BinaryOperator::Gt => Operator::Gt,
        BinaryOperator::GtEq => Operator::GtEq,
        _ => return None,
    })
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
        Expr::Cast(Cast { expr, field }) if let Some(limit) = lengths::limit_of(&field) => {
            lengths::cast(Typed::new(*expr, schema)?, limit).map(Transformed::yes)
        }
        Expr::Cast(Cast { expr, field }) if let Some(form) = Form::of_field(&field) => {
            let json = Typed::new(*expr, schema)?.into_json(form)?;
            Ok(Transformed::yes(json.expr))
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
