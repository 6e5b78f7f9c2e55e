//! Quoted literals while a statement is planned, before the analyzer sees the plan.

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::planner::{
    ExprPlanner, PlannerResult, RawAggregateExpr, RawBinaryExpr,
};
use datafusion::logical_expr::{BinaryExpr, Cast, Expr, ExprSchemable, Operator};
use sqlparser::ast::BinaryOperator;

use super::common_type::case;
use super::number::Operation;
use super::operands::{arithmetic, comparison};
use super::temporal;
use super::typed::{Typed, resolved};
use super::{enums, lengths, moments, plan_error};
use crate::error::SqlErrorKind;

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
            side.arrow == temporal::TIME
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
        if let Some(operation) = arithmetic {
            let op = match operation {
                Operation::Add => Operator::Plus,
                _ => Operator::Minus,
            };
            enums::check_operator(&left, op, &right)?;
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
        Expr::Cast(Cast { expr, field }) => {
            let to = temporal::wanted_type(&field, &expr.get_type(schema)?);
            Ok(Transformed::yes(Expr::Cast(Cast::new(expr, to))))
        }
        Expr::Case(inner) => case(inner, schema).map(|case| Transformed::yes(Expr::Case(case))),
        other => Ok(Transformed::no(other)),
    };
    Typed::new(expr.transform_up(settle)?.data, schema)
}
