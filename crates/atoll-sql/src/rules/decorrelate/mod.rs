//! Subqueries and lateral tables that use columns of the query around them, as joins.
//!
//! DataFusion decorrelates some of them; [`native`] says which. For each other subquery, this rule
//! takes the distinct values of the outer columns that it uses, its [`domain`], computes it for the
//! whole domain at once ([`unnest`]), and joins the result with the rows of the outer query:
//!
//! 1. The walk goes from the leaves up, so what is inside a subquery is decorrelated before it. A
//!    subquery that uses columns of a query two levels up leaves them to the next level.
//! 2. A scalar subquery becomes a left join with one row for each row of the domain. The second row
//!    of a subquery is an error, which is raised where the value is used ([`functions::only`]).
//! 3. `EXISTS` becomes a left join with the rows of the domain for which the subquery has rows.
//! 4. A lateral table becomes a join with the rows that it has for each row of the domain.
//!
//! The types of all expressions are final before this rule, and it changes none.

mod domain;
mod functions;
mod native;
mod outer;
mod repeatable;
mod shared;
mod single;
mod site;
mod unnest;

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{JoinType, Result};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::logical_plan::{Filter, Join, JoinConstraint, Projection};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;

use crate::error::SqlError;
use crate::query_error::external;
use domain::{Domain, Names, key_of};
pub(super) use outer::subquery_of;
use outer::{columns, mentioned};
pub(crate) use shared::Planner;
use shared::shared_if_needed;
use site::Site;
use unnest::{Unnest, projected};

/// DataFusion's rule that decorrelates.
#[derive(Debug)]
pub(crate) struct Decorrelate;

impl AnalyzerRule for Decorrelate {
    fn name(&self) -> &str {
        "decorrelate"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        if !is_correlated(&plan)? {
            return Ok(plan);
        }
        let mut names = Names::default();
        let plan = plan.transform_up_with_subqueries(outer::marked)?.data;
        Ok(plan.transform_up_with_subqueries(|plan| node(plan, &mut names))?.data)
    }
}

/// An error for a subquery that cannot be decorrelated.
fn unsupported(what: &str) -> DataFusionError {
    external(SqlError::unsupported(format!("a subquery that {what} is not supported")))
}

/// Whether any part of a statement uses columns of a query around it.
fn is_correlated(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|plan| {
        found |= plan.contains_outer_reference();
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

fn node(plan: LogicalPlan, names: &mut Names) -> Result<Transformed<LogicalPlan>> {
    match plan {
        LogicalPlan::Join(join) if outer::lateral(&join).is_some() => {
            lateral(join, names).map(Transformed::yes)
        }
        LogicalPlan::Filter(filter) if has_subquery(&filter.predicate) => {
            filtered(filter, names).map(Transformed::yes)
        }
        LogicalPlan::Projection(projection) if projection.expr.iter().any(has_subquery) => {
            selected(projection, names).map(Transformed::yes)
        }
        other => Ok(Transformed::no(other)),
    }
}

fn has_subquery(expr: &Expr) -> bool {
    expr.exists(|node| Ok(subquery_of(node).is_some())).unwrap_or(true)
}

/// A filter. Its plain conditions go below the joins.
fn filtered(filter: Filter, names: &mut Names) -> Result<LogicalPlan> {
    let schema = Arc::clone(filter.input.schema());
    let conditions = split_conjunction_owned(filter.predicate);
    let (mut conditions, plain): (Vec<Expr>, Vec<Expr>) =
        conditions.into_iter().partition(has_subquery);
    let mut input = filter.input;
    if site::is_needed(&conditions, &schema)? {
        if let Some(plain) = conjunction(plain) {
            input = Arc::new(LogicalPlan::Filter(Filter::try_new(plain, input)?));
        }
    } else {
        conditions.splice(0..0, plain);
    }
    let mut site = Site::new(input, names);
    let conditions = conditions.into_iter().map(|condition| site.rewritten(condition));
    let predicate = conjunction(conditions.collect::<Result<Vec<_>>>()?);
    let (input, is_joined) = site.into_plan();
    let mut plan = input;
    if let Some(predicate) = predicate {
        plan = LogicalPlan::Filter(Filter::try_new(predicate, Arc::new(plan))?);
    }
    if is_joined { projected(plan, columns(&schema)) } else { Ok(plan) }
}

fn selected(projection: Projection, names: &mut Names) -> Result<LogicalPlan> {
    let mut site = Site::new(projection.input, names);
    let preserver = NamePreserver::new_for_projection();
    let mut exprs = Vec::with_capacity(projection.expr.len());
    for expr in projection.expr {
        let name = preserver.save(&expr);
        exprs.push(name.restore(site.rewritten(expr)?));
    }
    projected(site.into_plan().0, exprs)
}

/// A join with a table that uses columns of the left side.
fn lateral(join: Join, names: &mut Names) -> Result<LogicalPlan> {
    let (right, left) = (Arc::unwrap_or_clone(join.right), join.left);
    let used = mentioned(&right)?;
    let used: Vec<_> =
        used.into_iter().filter(|(_, column)| left.schema().has_column(column)).collect();
    let (left, right, on) = match used.is_empty() {
        true => (left, without_marker(right)?, join.on),
        false => {
            let left = shared_if_needed(left)?;
            let domain = Domain::of(&left, &used, names)?;
            let schema = Arc::clone(right.schema());
            let right = Unnest::new(&domain, names).plan(right)?;
            let key = Expr::Column(domain.key.clone());
            let right = projected(right, columns(&schema).into_iter().chain([key.clone()]))?;
            let own = names.next("key");
            let keyed = columns(left.schema()).into_iter().chain([key_of(&used).alias(&own.name)]);
            let left = Arc::new(projected(Arc::unwrap_or_clone(left), keyed)?);
            let mut on = join.on;
            on.push((Expr::Column(own), key));
            (left, right, on)
        }
    };
    if !matches!(join.join_type, JoinType::Inner | JoinType::Left) {
        let what = format!("stands behind LATERAL on the right of a {} join", join.join_type);
        return Err(unsupported(&what));
    }
    let joined = Join::try_new(
        left,
        Arc::new(right),
        on,
        join.filter,
        join.join_type,
        JoinConstraint::On,
        join.null_equality,
        join.null_aware,
    )?;
    projected(LogicalPlan::Join(joined), columns(&join.schema))
}

/// A table without the node that says that it may use columns of the left side.
fn without_marker(plan: LogicalPlan) -> Result<LogicalPlan> {
    let inner = plan.transform_down(|node| match node {
        LogicalPlan::Subquery(inner) => {
            let plan = Arc::unwrap_or_clone(inner.subquery);
            Ok(Transformed::new(plan, true, TreeNodeRecursion::Jump))
        }
        LogicalPlan::SubqueryAlias(_) => Ok(Transformed::no(node)),
        node => Ok(Transformed::new(node, false, TreeNodeRecursion::Jump)),
    })?;
    Ok(inner.data)
}
