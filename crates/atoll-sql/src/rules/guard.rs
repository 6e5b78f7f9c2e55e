//! Evaluation of operands only for the rows for which they count.
//!
//! In PostgreSQL `x <> 0 AND 10 / x > 1` never divides by zero. DataFusion evaluates both sides of
//! AND and OR for whole batches, and turns a CASE of truth values into AND and OR. That is faster
//! and gives the same result, unless a side fails for a row that the other side excludes. So a
//! query runs as it is first, and a second time with guards if it fails: each AND, OR and CASE with
//! an operand that can fail then becomes a CASE of numbers. DataFusion evaluates the branches of
//! such a CASE only for the rows that reach them. The conditions of an AND that cannot fail stand
//! beside it as well, because the planner does not look into a CASE.

use arrow_schema::DataType as ArrowType;
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{Case, Cast as ArrowCast, Expr, ExprSchemable, Operator, lit};

use super::absolute::Absolute;
use super::arith::Arithmetic;
use super::cast::Cast;
use super::functions::Call;

const TRUE: i8 = 1;
const FALSE: i8 = 0;

/// Whether evaluating an expression can fail for some values.
fn can_fail(expr: &Expr) -> bool {
    expr.exists(|node| {
        Ok(match node {
            Expr::ScalarFunction(function) => {
                let inner = function.func.inner();
                inner.is::<Arithmetic>()
                    || inner.is::<Cast>()
                    || inner.is::<Absolute>()
                    || inner.downcast_ref::<Call>().is_some_and(Call::can_fail)
            }
            _ => false,
        })
    })
    .unwrap_or(true)
}

/// Subqueries are turned into joins, which they cannot be inside CASE.
fn has_subquery(expr: &Expr) -> bool {
    expr.exists(|node| {
        Ok(matches!(
            node,
            Expr::InSubquery(_)
                | Expr::Exists(_)
                | Expr::SetComparison(_)
                | Expr::ScalarSubquery(_)
        ))
    })
    .unwrap_or(true)
}

fn unknown() -> Expr {
    lit(ScalarValue::Boolean(None))
}

fn number(truth: Expr) -> Box<Expr> {
    Box::new(Expr::Cast(ArrowCast::new(Box::new(truth), ArrowType::Int8)))
}

/// `left AND right` or `left OR right` with the right side guarded, or `None` if it need not be.
pub(crate) fn logical(left: &Expr, op: Operator, right: &Expr) -> Option<Expr> {
    if !can_fail(right) || has_subquery(left) || has_subquery(right) {
        return None;
    }
    let not_left = Expr::Not(Box::new(left.clone()));
    // The side that decides by itself, the one that leaves it to the right side, and the rest:
    // where the left side is NULL, the right side decides if it is the deciding value.
    let (decided, verdict, open, rest) = match op {
        Operator::And => (not_left, FALSE, left.clone(), unknown().and(right.clone())),
        _ => (left.clone(), TRUE, not_left, unknown().or(right.clone())),
    };
    let when_then_expr =
        vec![(Box::new(decided), Box::new(lit(verdict))), (Box::new(open), number(right.clone()))];
    let case = Case { expr: None, when_then_expr, else_expr: Some(number(rest)) };
    let guarded = Expr::Case(case).eq(lit(TRUE));
    if op != Operator::And {
        return Some(guarded);
    }
    // What cannot fail stands beside the CASE too: tables are joined and read by such conditions.
    let plain = split_conjunction(left).into_iter().filter(|one| !can_fail(one)).cloned();
    conjunction(plain.chain([guarded]))
}

/// Arguments of an aggregate that are computed only for the rows that its filter lets through.
pub(crate) fn filtered(arguments: Vec<Expr>, filter: &Expr) -> Vec<Expr> {
    let guarded = |argument: Expr| match can_fail(&argument) {
        true => Expr::Case(Case {
            expr: None,
            when_then_expr: vec![(Box::new(filter.clone()), Box::new(argument))],
            else_expr: None,
        }),
        false => argument,
    };
    arguments.into_iter().map(guarded).collect()
}

/// A CASE of truth values with guarded branches; any other CASE unchanged.
///
/// # Errors
/// An expression without a type.
pub(crate) fn case(case: Case, schema: &DFSchema) -> Result<Expr> {
    let branches = || case.when_then_expr.iter().flat_map(|(when, then)| [when, then]);
    let first = &case.when_then_expr[0].1;
    let is_truth = first.get_type(schema)? == ArrowType::Boolean;
    if !is_truth || !branches().chain(&case.else_expr).any(|branch| can_fail(branch)) {
        return Ok(Expr::Case(case));
    }
    let when_then_expr =
        case.when_then_expr.into_iter().map(|(when, then)| (when, number(*then))).collect();
    let else_expr = case.else_expr.map(|truth| number(*truth));
    Ok(Expr::Case(Case { expr: case.expr, when_then_expr, else_expr }).eq(lit(TRUE)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use datafusion::logical_expr::{ScalarUDF, col};

    use super::*;

    fn failing() -> Expr {
        ScalarUDF::from(Cast::new(ArrowType::Int32)).call(vec![col("x")]).gt(lit(1))
    }

    #[test]
    fn conditions_that_cannot_fail_are_not_hidden() {
        let (join, filter) = (col("a.id").eq(col("b.a")), col("a.c").eq(lit(5)));
        let left = join.clone().and(failing()).and(filter.clone());
        let guarded = logical(&left, Operator::And, &failing()).unwrap();
        let parts = split_conjunction(&guarded);
        assert_eq!(parts[..2], [&join, &filter]);
        assert!(parts.len() == 3 && can_fail(parts[2]));
        // Of an OR no side holds by itself.
        let either = logical(&join, Operator::Or, &failing()).unwrap();
        assert_eq!(split_conjunction(&either).len(), 1);
        assert_eq!(logical(&failing(), Operator::And, &join), None);
    }
}
