//! The columns of outer queries that a plan mentions.
//!
//! `OUTER-1`: a name is that of the nearest query around it that has such a column. The planner
//! looks for names in this order and records no depth, so a search has to stop in the same place.

use std::sync::Arc;

use arrow_schema::FieldRef;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, DFSchemaRef, Result, Spans};
use datafusion::logical_expr::expr::{Exists, InSubquery, SetComparison};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::logical_plan::{Join, Subquery, SubqueryAlias};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, LogicalPlan};

/// A column of an outer query.
pub(super) type Outer = (FieldRef, Column);

/// The columns that the expressions of a node see.
pub(super) fn scope_of(plan: &LogicalPlan) -> DFSchemaRef {
    match plan {
        LogicalPlan::TableScan(scan) => Arc::clone(&scan.projected_schema),
        other => Arc::new(merge_schema(&other.inputs())),
    }
}

/// The subquery of an expression.
pub(in crate::rules) fn subquery_of(expr: &Expr) -> Option<&Subquery> {
    match expr {
        Expr::ScalarSubquery(subquery)
        | Expr::Exists(Exists { subquery, .. })
        | Expr::InSubquery(InSubquery { subquery, .. })
        | Expr::SetComparison(SetComparison { subquery, .. }) => Some(subquery),
        _ => None,
    }
}

/// The right side of a join, if it may mention columns of the left side.
pub(super) fn lateral(join: &Join) -> Option<&Subquery> {
    match join.right.as_ref() {
        LogicalPlan::Subquery(subquery) => Some(subquery),
        LogicalPlan::SubqueryAlias(SubqueryAlias { input, .. }) => match input.as_ref() {
            LogicalPlan::Subquery(subquery) => Some(subquery),
            _ => None,
        },
        _ => None,
    }
}

/// A join with the node that says that its right side may use columns of the left one. The planner
/// leaves it out where only subqueries of the right side do.
pub(super) fn marked(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Join(mut join) = plan else { return Ok(Transformed::no(plan)) };
    if lateral(&join).is_some() || !join.right.all_out_ref_exprs().is_empty() {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    }
    let used = mentioned(&join.right)?;
    if used.iter().any(|(_, column)| join.left.schema().has_column(column)) {
        let nothing = Subquery {
            subquery: Arc::clone(&join.right),
            outer_ref_columns: Vec::new(),
            spans: Spans::new(),
        };
        let marked = subquery(Arc::unwrap_or_clone(join.right), &nothing)?;
        join.right = Arc::new(LogicalPlan::Subquery(marked));
    }
    Ok(Transformed::yes(LogicalPlan::Join(join)))
}

/// The columns of outer queries that a plan mentions, each once.
pub(super) fn mentioned(plan: &LogicalPlan) -> Result<Vec<Outer>> {
    let mut found = Vec::new();
    collect(plan, &mut Vec::new(), &mut found)?;
    Ok(found)
}

fn collect(
    plan: &LogicalPlan,
    scopes: &mut Vec<DFSchemaRef>,
    found: &mut Vec<Outer>,
) -> Result<()> {
    let scope = scope_of(plan);
    plan.apply_expressions(|expr| {
        collect_expr(expr, &scope, scopes, found)?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    if let LogicalPlan::Join(join) = plan
        && lateral(join).is_some()
    {
        collect(&join.left, scopes, found)?;
        scopes.push(Arc::clone(join.left.schema()));
        collect(&join.right, scopes, found)?;
        scopes.pop();
        return Ok(());
    }
    plan.inputs().into_iter().try_for_each(|input| collect(input, scopes, found))
}

/// `scopes` are those between the expression and the plan that was asked about, without its own.
fn collect_expr(
    expr: &Expr,
    scope: &DFSchemaRef,
    scopes: &mut Vec<DFSchemaRef>,
    found: &mut Vec<Outer>,
) -> Result<()> {
    expr.apply(|node| {
        if let Expr::OuterReferenceColumn(field, column) = node {
            let is_between = scopes.iter().any(|scope| scope.has_column(column));
            if !is_between && !found.iter().any(|(_, known)| known == column) {
                found.push((Arc::clone(field), column.clone()));
            }
        }
        if let Some(subquery) = subquery_of(node) {
            scopes.push(Arc::clone(scope));
            collect(&subquery.subquery, scopes, found)?;
            scopes.pop();
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

/// A subquery with the outer columns that its plan mentions now.
pub(super) fn subquery(plan: LogicalPlan, spans: &Subquery) -> Result<Subquery> {
    let outer = mentioned(&plan)?.into_iter();
    let outer = outer.map(|(field, column)| Expr::OuterReferenceColumn(field, column));
    let (subquery, spans) = (Arc::new(plan), spans.spans.clone());
    Ok(Subquery { subquery, outer_ref_columns: outer.collect(), spans })
}

/// An expression with another subquery at its root, or the expression itself.
pub(super) fn with_subquery(
    expr: Expr,
    change: impl FnOnce(Subquery) -> Result<Subquery>,
) -> Result<Expr> {
    Ok(match expr {
        Expr::ScalarSubquery(subquery) => Expr::ScalarSubquery(change(subquery)?),
        Expr::Exists(exists) => {
            Expr::Exists(Exists { subquery: change(exists.subquery)?, negated: exists.negated })
        }
        Expr::InSubquery(found) => {
            Expr::InSubquery(InSubquery { subquery: change(found.subquery)?, ..found })
        }
        Expr::SetComparison(found) => {
            Expr::SetComparison(SetComparison { subquery: change(found.subquery)?, ..found })
        }
        other => other,
    })
}

/// What takes the place of a column of an outer query.
pub(super) trait Binding {
    /// The column of the plan itself for a column of an outer query.
    fn bound(&self, outer: &Column) -> Option<&Outer>;
}

/// An expression over the columns of a schema, with bound columns in the places of outer ones. In
/// a subquery of the expression they are outer columns still.
pub(super) fn bind(expr: Expr, scope: &DFSchemaRef, binding: &impl Binding) -> Result<Expr> {
    let bound = expr.transform_up(|node| match node {
        Expr::OuterReferenceColumn(_, ref column) => match binding.bound(column) {
            Some((_, inner)) => Ok(Transformed::yes(Expr::Column(inner.clone()))),
            None => Ok(Transformed::no(node)),
        },
        node if subquery_of(&node).is_some() => {
            let mut scopes = vec![Arc::clone(scope)];
            let inside = |found: Subquery| {
                let plan = Arc::unwrap_or_clone(Arc::clone(&found.subquery));
                subquery(bind_inside(plan, &mut scopes, binding)?, &found)
            };
            with_subquery(node, inside).map(Transformed::yes)
        }
        node => Ok(Transformed::no(node)),
    })?;
    Ok(bound.data)
}

fn bind_inside(
    plan: LogicalPlan,
    scopes: &mut Vec<DFSchemaRef>,
    binding: &impl Binding,
) -> Result<LogicalPlan> {
    let scope = scope_of(&plan);
    let plan = match plan {
        LogicalPlan::Join(mut join) if lateral(&join).is_some() => {
            let left = bind_inside(Arc::unwrap_or_clone(join.left), scopes, binding)?;
            join.left = Arc::new(left);
            scopes.push(Arc::clone(join.left.schema()));
            let right = bind_inside(Arc::unwrap_or_clone(join.right), scopes, binding);
            scopes.pop();
            join.right = Arc::new(right?);
            LogicalPlan::Join(join)
        }
        plan => {
            plan.map_children(|child| bind_inside(child, scopes, binding).map(Transformed::yes))?
                .data
        }
    };
    let names = NamePreserver::new(&plan);
    let plan = plan.map_expressions(|expr| {
        let name = names.save(&expr);
        let bound = expr.transform_up(|node| match node {
            Expr::OuterReferenceColumn(_, ref column) => {
                let is_between = scopes.iter().any(|scope| scope.has_column(column));
                match binding.bound(column).filter(|_| !is_between) {
                    Some((field, inner)) => Ok(Transformed::yes(Expr::OuterReferenceColumn(
                        Arc::clone(field),
                        inner.clone(),
                    ))),
                    None => Ok(Transformed::no(node)),
                }
            }
            node if subquery_of(&node).is_some() => {
                scopes.push(Arc::clone(&scope));
                let inside = |found: Subquery| {
                    let plan = Arc::unwrap_or_clone(Arc::clone(&found.subquery));
                    subquery(bind_inside(plan, scopes, binding)?, &found)
                };
                let bound = with_subquery(node, inside);
                scopes.pop();
                bound.map(Transformed::yes)
            }
            node => Ok(Transformed::no(node)),
        })?;
        Ok(Transformed::yes(name.restore(bound.data)))
    })?;
    Ok(plan.data)
}

/// The columns that a node has, as expressions.
pub(super) fn columns(schema: &DFSchema) -> Vec<Expr> {
    schema.iter().map(Expr::from).collect()
}
