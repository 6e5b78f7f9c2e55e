//! Comparisons with the rows of a subquery, in SQL's logic of three values.
//!
//! DataFusion makes joins of `IN`, `ANY`, `ALL` and `EXISTS`. A join says whether there is a match
//! and never NULL, and it takes a column of the outer query for one of the subquery where both read
//! the same table. So a comparison becomes `EXISTS` over a filter of the subquery, once for TRUE
//! and once for NULL, and the column of the subquery gets a name of its own (ISO 9075-2, 8.4, 8.9):
//!
//! ```text
//! x op ANY (q)   CASE WHEN EXISTS (q: x op c) THEN TRUE
//!                     WHEN EXISTS (q: (x op c) IS NULL) THEN NULL ELSE FALSE END
//! x op ALL (q)   CASE WHEN EXISTS (q: NOT (x op c)) THEN FALSE
//!                     WHEN EXISTS (q: (x op c) IS NULL) THEN NULL ELSE TRUE END
//! ```
//! In a conjunct of a filter FALSE and NULL are the same, which leaves one `EXISTS`.
//!
//! - `SUBQUERY-1`: what stays an `IN` is a conjunct, where a semi-join, or an anti-join that knows
//!   NULL, answers it.
//! - `SUBQUERY-2`: a subquery in a list of expressions, where no join is made, counts its rows.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, ExprSchema, JoinType, Result, ScalarValue, Spans};
use datafusion::functions_aggregate::count::count;
use datafusion::logical_expr::expr::{Exists, InSubquery, SetComparison, SetQuantifier};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::logical_plan::{Filter, Join, Projection, Subquery};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{
    BinaryExpr, Case, Expr, LogicalPlan, LogicalPlanBuilder, Operator, binary_expr, lit,
};
use datafusion::optimizer::AnalyzerRule;

use super::array_query;
use super::hoist::{self, Hoisted};
use crate::error::SqlError;
use crate::query_error::external;

/// DataFusion's rule that rewrites them.
#[derive(Debug)]
pub(crate) struct Subqueries;

impl AnalyzerRule for Subqueries {
    fn name(&self) -> &str {
        "subqueries_in_three_values"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let mut names = 0;
        Ok(plan.transform_up_with_subqueries(|plan| node(plan, &mut names))?.data)
    }
}

fn node(plan: LogicalPlan, names: &mut usize) -> Result<Transformed<LogicalPlan>> {
    let plan = array_query::aggregated(plan)?;
    if !plan.expressions().iter().any(has_placed_subquery) {
        return Ok(Transformed::yes(plan));
    }
    let take_all = |hoisted: &mut Hoisted, expr: Expr, names: &mut usize| {
        hoisted.take(expr, is_placed_subquery, names)
    };
    let take_values = |hoisted: &mut Hoisted, expr: Expr, names: &mut usize| {
        hoisted.take_values(expr, is_any_subquery, names)
    };
    let rewritten = match plan {
        LogicalPlan::Filter(_) | LogicalPlan::Projection(_) => {
            let node = |plan, names: &mut usize| match plan {
                LogicalPlan::Filter(filter) => rewrite_filter(filter, names),
                LogicalPlan::Projection(projection) => selected(projection, names),
                other => Ok(other),
            };
            hoist::out_of(plan, take_values, names, selected, node)
        }
        LogicalPlan::Aggregate(_) | LogicalPlan::Sort(_) | LogicalPlan::Window(_) => {
            hoist::out_of(plan, take_all, names, selected, |plan, _| Ok(plan))
        }
        LogicalPlan::Join(join) if join.join_type == JoinType::Inner => rewrite_join(join, names),
        LogicalPlan::Join(join) => {
            let hoisted = hoist::out_of_join(join, is_placed_subquery, names, selected)?;
            hoisted.ok_or_else(|| unsupported("stands in the condition of an outer join"))
        }
        _ => Err(unsupported("stands where only columns and expressions of them may")),
    };
    rewritten.map(Transformed::yes)
}

fn selected(projection: Projection, names: &mut usize) -> Result<LogicalPlan> {
    let kept = NamePreserver::new_for_projection();
    let input = Arc::clone(projection.input.schema());
    let mut scope = Scope { schema: &input, names, counts: true };
    let exprs = projection.expr.into_iter().map(|expr| {
        let name = kept.save(&expr);
        Ok(name.restore(scope.value(expr)?))
    });
    let exprs = exprs.collect::<Result<Vec<_>>>()?;
    Projection::try_new(exprs, projection.input).map(LogicalPlan::Projection)
}

fn rewrite_filter(filter: Filter, names: &mut usize) -> Result<LogicalPlan> {
    let mut scope = Scope { schema: filter.input.schema(), names, counts: false };
    let conjuncts = split_conjunction_owned(filter.predicate).into_iter();
    let conjuncts = conjuncts.map(|expr| scope.conjunct(expr)).collect::<Result<Vec<_>>>()?;
    let predicate = conjunction(conjuncts).unwrap_or_else(|| lit(true));
    Ok(LogicalPlan::Filter(Filter::try_new(predicate, filter.input)?))
}

/// Conditions of an inner join are as well conditions on its rows.
fn rewrite_join(mut join: Join, names: &mut usize) -> Result<LogicalPlan> {
    let conditions = join.filter.take().map(split_conjunction_owned).unwrap_or_default();
    let (apart, kept): (Vec<_>, Vec<_>) = conditions.into_iter().partition(has_placed_subquery);
    join.filter = conjunction(kept);
    let predicate = conjunction(apart).unwrap_or_else(|| lit(true));
    rewrite_filter(Filter::try_new(predicate, Arc::new(LogicalPlan::Join(join)))?, names)
}

fn unsupported(why: &str) -> datafusion::error::DataFusionError {
    let hint = "a join, or a subquery in FROM, does it as a rule";
    external(
        SqlError::unsupported(format!("a subquery that {why} is not supported"))
            .with_hint(Some(hint.to_owned())),
    )
}

fn is_predicate(expr: &Expr) -> bool {
    matches!(expr, Expr::InSubquery(_) | Expr::SetComparison(_) | Expr::Exists(_))
}

fn is_any_subquery(expr: &Expr) -> bool {
    is_predicate(expr) || matches!(expr, Expr::ScalarSubquery(_))
}

/// Whether a subquery cannot stand in each kind of node. A scalar one that uses nothing of the
/// query around it can.
fn is_placed_subquery(expr: &Expr) -> bool {
    match expr {
        Expr::ScalarSubquery(subquery) => !subquery.outer_ref_columns.is_empty(),
        other => is_predicate(other),
    }
}

fn has_placed_subquery(expr: &Expr) -> bool {
    expr.exists(|expr| Ok(is_placed_subquery(expr))).unwrap_or(true)
}

/// What an expression is in.
struct Scope<'s> {
    /// The columns that it sees.
    schema: &'s DFSchema,
    /// Names given so far.
    names: &'s mut usize,
    /// `SUBQUERY-2`.
    counts: bool,
}

/// `value op quantifier (subquery)`.
struct Comparison {
    value: Expr,
    op: Operator,
    is_all: bool,
    subquery: Subquery,
}

impl Comparison {
    fn of(expr: Expr) -> std::result::Result<Self, Expr> {
        match expr {
            Expr::InSubquery(InSubquery { expr, subquery, negated }) => {
                let (op, is_all) =
                    if negated { (Operator::NotEq, true) } else { (Operator::Eq, false) };
                Ok(Self { value: *expr, op, is_all, subquery })
            }
            Expr::SetComparison(SetComparison { expr, subquery, op, quantifier }) => {
                let is_all = matches!(quantifier, SetQuantifier::All);
                Ok(Self { value: *expr, op, is_all, subquery })
            }
            other => Err(other),
        }
    }

    /// NOT of it.
    fn negated(self) -> std::result::Result<Self, Box<Self>> {
        match self.op.negate() {
            Some(op) => Ok(Self { op, is_all: !self.is_all, ..self }),
            None => Err(Box::new(self)),
        }
    }

    /// `SUBQUERY-1`: as an IN or NOT IN that a join answers, if it is one.
    fn into_join(self) -> std::result::Result<Expr, Box<Self>> {
        let negated = match (self.op, self.is_all) {
            (Operator::Eq, false) => false,
            (Operator::NotEq, true) => true,
            _ => return Err(Box::new(self)),
        };
        // An anti-join knows NULL if it has one pair of keys and no other condition. A value that
        // turns out to be a constant is no key.
        let knows_null = self.subquery.outer_ref_columns.is_empty() && is_column(&self.value);
        let is_key = self.value.any_column_refs() && !has_any_subquery(&self.value);
        if !is_key || (negated && !knows_null) {
            return Err(Box::new(self));
        }
        let expr = Box::new(self.value);
        Ok(Expr::InSubquery(InSubquery { expr, subquery: self.subquery, negated }))
    }
}

/// Whether it is a column, perhaps of another type, which no rule makes a constant of.
fn is_column(expr: &Expr) -> bool {
    match expr {
        Expr::Cast(cast) => is_column(&cast.expr),
        other => matches!(other, Expr::Column(_)),
    }
}

fn has_any_subquery(expr: &Expr) -> bool {
    expr.exists(|expr| Ok(is_any_subquery(expr))).unwrap_or(true)
}

impl Scope<'_> {
    /// A conjunct of a filter, which keeps the rows for which it is TRUE.
    fn conjunct(&mut self, expr: Expr) -> Result<Expr> {
        let comparison = match expr {
            Expr::Not(inner) => match Comparison::of(*inner).map(Comparison::negated) {
                Ok(Ok(negated)) => Ok(negated),
                Ok(Err(same)) => {
                    return Ok(Expr::Not(Box::new(self.three_valued(*same)?)));
                }
                Err(inner) => Err(Expr::Not(Box::new(inner))),
            },
            other => Comparison::of(other),
        };
        match comparison.map(Comparison::into_join) {
            Ok(Ok(join)) => self.with_own_name(join),
            Ok(Err(comparison)) if comparison.is_all => {
                let (plan, compared) = self.compared(*comparison)?;
                self.exists(plan, Some(Expr::IsNotTrue(Box::new(compared))), true)
            }
            Ok(Err(comparison)) => {
                let (plan, compared) = self.compared(*comparison)?;
                self.exists(plan, Some(compared), false)
            }
            Err(other) => self.value(other),
        }
    }

    /// An expression, which may be NULL.
    fn value(&mut self, expr: Expr) -> Result<Expr> {
        let rewritten = expr.transform_up(|expr| match Comparison::of(expr) {
            Ok(comparison) => self.three_valued(comparison).map(Transformed::yes),
            Err(Expr::Exists(Exists { subquery, negated })) if self.counts => {
                let plan = Arc::unwrap_or_clone(subquery.subquery);
                self.exists(plan, None, negated).map(Transformed::yes)
            }
            Err(other) => Ok(Transformed::no(other)),
        })?;
        Ok(rewritten.data)
    }

    fn three_valued(&mut self, comparison: Comparison) -> Result<Expr> {
        let is_all = comparison.is_all;
        let is_equality = matches!(comparison.op, Operator::Eq | Operator::NotEq);
        let value = self.outer(comparison.value.clone())?;
        let (plan, compared) = self.compared(comparison)?;
        let decided = if is_all { Expr::Not(Box::new(compared.clone())) } else { compared.clone() };
        let decides = self.exists(plan.clone(), Some(decided), false)?;
        // Of an equality, apart: so each part has an equality, or nothing, of the query around.
        let unknown = if is_equality {
            let (inner, around) = (only_column(&plan), value.1);
            let some_null = self.exists(plan.clone(), Some(inner.is_null()), false)?;
            let none = around.is_null().and(self.exists(plan, None, false)?);
            none.or(some_null)
        } else {
            self.exists(plan, Some(compared.is_null()), false)?
        };
        let null = Expr::Literal(ScalarValue::Boolean(None), None);
        let when = |condition, value| (Box::new(condition), Box::new(value));
        Ok(Expr::Case(Case::new(
            None,
            vec![when(decides, lit(!is_all)), when(unknown, null)],
            Some(Box::new(lit(is_all))),
        )))
    }

    /// The subquery with a name of its own for its column, and the comparison with its rows.
    fn compared(&mut self, comparison: Comparison) -> Result<(LogicalPlan, Expr)> {
        let Comparison { value, op, subquery, .. } = comparison;
        let (outer, _) = self.outer(value)?;
        let plan = self.named(Arc::unwrap_or_clone(subquery.subquery))?;
        let compared = binary_expr(outer, op, only_column(&plan));
        Ok((plan, compared))
    }

    /// A subquery with a name of its own for its column.
    fn named(&mut self, plan: LogicalPlan) -> Result<LogicalPlan> {
        *self.names += 1;
        let column = only_column(&plan).alias(format!("__subquery_{}", self.names));
        LogicalPlanBuilder::from(plan).project([column])?.build()
    }

    /// An `IN` as it is, or, if its subquery reads columns of the query around, with a name of its
    /// own for the column: the join takes what the subquery compares with those columns as well,
    /// and a cast of a column has the name of the column.
    fn with_own_name(&mut self, join: Expr) -> Result<Expr> {
        match join {
            Expr::InSubquery(mut join) if !join.subquery.outer_ref_columns.is_empty() => {
                let plan = self.named(Arc::unwrap_or_clone(join.subquery.subquery))?;
                join.subquery = subquery(plan);
                Ok(Expr::InSubquery(join))
            }
            other => Ok(other),
        }
    }

    /// A value as a subquery sees it, and as it is here.
    fn outer(&self, value: Expr) -> Result<(Expr, Expr)> {
        if has_any_subquery(&value) {
            return Err(unsupported("is compared with another subquery"));
        }
        let here = value.clone();
        let outer = value.transform_up(|expr| match expr {
            Expr::Column(column) => {
                let field = Arc::clone(self.schema.field_from_column(&column)?);
                Ok(Transformed::yes(Expr::OuterReferenceColumn(field, column)))
            }
            other => Ok(Transformed::no(other)),
        })?;
        Ok((outer.data, here))
    }

    /// Whether a subquery has rows that a condition keeps.
    fn exists(&self, plan: LogicalPlan, kept: Option<Expr>, negated: bool) -> Result<Expr> {
        let mut plan = LogicalPlanBuilder::from(plan);
        if let Some(kept) = kept {
            plan = plan.filter(kept)?;
        }
        if !self.counts {
            let subquery = subquery(plan.build()?);
            return Ok(Expr::Exists(Exists { subquery, negated }));
        }
        let none: [Expr; 0] = [];
        let counted = plan.aggregate(none, [count(lit(1))])?.build()?;
        let op = if negated { Operator::Eq } else { Operator::Gt };
        let (left, right) = (Expr::ScalarSubquery(subquery(counted)), lit(0_i64));
        Ok(Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right))))
    }
}

fn subquery(plan: LogicalPlan) -> Subquery {
    let outer_ref_columns = plan.all_out_ref_exprs();
    Subquery { subquery: Arc::new(plan), outer_ref_columns, spans: Spans::new() }
}

/// The one column of a subquery.
fn only_column(plan: &LogicalPlan) -> Expr {
    Expr::Column(Column::from(plan.schema().qualified_field(0)))
}
