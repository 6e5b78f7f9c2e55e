//! Aggregates over a domain.
//!
//! `UNNEST-2`: an aggregate without groups has a row where its input has none, so each row of the
//! domain has to reach it. A left join brings them, and the filter of each function keeps the rows
//! of the join that have none of the input.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{JoinType, NullEquality, Result};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::logical_plan::{Aggregate, Join, JoinConstraint};
use datafusion::logical_expr::{Expr, LogicalPlan, lit};

use super::super::outer::columns;
use super::super::{has_subquery, unsupported};
use super::{Unnest, projected};

impl Unnest<'_> {
    pub(super) fn aggregate(&mut self, aggregate: Aggregate) -> Result<LogicalPlan> {
        let scope = Arc::clone(aggregate.input.schema());
        let bound = |exprs: Vec<Expr>| -> Result<Vec<Expr>> {
            exprs.into_iter().map(|expr| self.named(expr, &scope)).collect()
        };
        let (mut groups, mut functions) =
            (bound(aggregate.group_expr)?, bound(aggregate.aggr_expr)?);
        if groups.iter().any(|group| matches!(group, Expr::GroupingSet(_))) {
            return Err(unsupported("has grouping sets and uses columns of the query around it"));
        }
        let input = match groups.is_empty() {
            true => {
                let (input, is_there) = self.with_all_rows(aggregate.input)?;
                let each = functions.into_iter().map(|function| filtered(function, &is_there));
                functions = each.collect::<Result<_>>()?;
                input
            }
            false => self.plan(Arc::unwrap_or_clone(aggregate.input))?,
        };
        groups.extend(self.domain.all());
        let aggregate = Aggregate::try_new(Arc::new(input), groups, functions)?;
        Ok(LogicalPlan::Aggregate(aggregate))
    }

    /// All rows of the domain with those of a plan, and a condition that is true for the latter
    /// (`UNNEST-2`).
    fn with_all_rows(&mut self, plan: Arc<LogicalPlan>) -> Result<(LogicalPlan, Expr)> {
        let is_there = self.names.next("there");
        let marked = |plan: LogicalPlan| {
            let columns = columns(plan.schema()).into_iter();
            projected(plan, columns.chain([lit(true).alias(&is_there.name)]))
        };
        let plan = Arc::unwrap_or_clone(plan);
        let (right, on, filter) = match plan {
            // The join selects the rows itself. Its condition has no subqueries.
            LogicalPlan::Filter(filter)
                if !self.depends(&filter.input)? && !has_subquery(&filter.predicate) =>
            {
                let predicate = self.bound(filter.predicate, filter.input.schema())?;
                let right = marked(Arc::unwrap_or_clone(filter.input))?;
                (right, Vec::new(), Some(predicate))
            }
            plan => {
                let (right, key) = self.keyed(plan)?;
                let on = (Expr::Column(self.domain.key.clone()), Expr::Column(key));
                (marked(right)?, vec![on], None)
            }
        };
        let joined = Join::try_new(
            Arc::new(self.domain.plan.clone()),
            Arc::new(right),
            on,
            filter,
            JoinType::Left,
            JoinConstraint::On,
            NullEquality::NullEqualsNothing,
            false,
        )?;
        Ok((LogicalPlan::Join(joined), Expr::Column(is_there).is_not_null()))
    }
}

/// An aggregate function over the rows for which a condition is true as well.
fn filtered(function: Expr, condition: &Expr) -> Result<Expr> {
    let name = NamePreserver::new_for_projection().save(&function);
    let filtered = function.transform_up(|mut node| {
        if let Expr::AggregateFunction(function) = &mut node {
            let filter = match function.params.filter.take() {
                Some(filter) => condition.clone().and(*filter),
                None => condition.clone(),
            };
            function.params.filter = Some(Box::new(filter));
            return Ok(Transformed::yes(node));
        }
        Ok(Transformed::no(node))
    })?;
    Ok(name.restore(filtered.data))
}
