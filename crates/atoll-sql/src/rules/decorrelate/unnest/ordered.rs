//! Windows and limits over a domain: each row of the domain is a partition.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, Result, ScalarValue};
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::expr::Sort as SortKey;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::logical_plan::{Filter, Limit, Window};
use datafusion::logical_expr::{Cast, Expr, ExprFunctionExt, LogicalPlan, lit};

use arrow_schema::DataType as ArrowType;

use super::super::outer::columns;
use super::{Unnest, projected, renamed};

impl Unnest<'_> {
    pub(super) fn window(&mut self, window: Window) -> Result<LogicalPlan> {
        let scope = Arc::clone(window.input.schema());
        let key = Expr::Column(self.domain.key.clone());
        let mut exprs = Vec::with_capacity(window.window_expr.len());
        for expr in window.window_expr {
            let name = NamePreserver::new_for_projection().save(&expr);
            let parted = self.bound(expr, &scope)?.transform_up(|mut node| {
                if let Expr::WindowFunction(function) = &mut node {
                    function.params.partition_by.push(key.clone());
                    return Ok(Transformed::yes(node));
                }
                Ok(Transformed::no(node))
            })?;
            exprs.push(name.restore(parted.data));
        }
        let input = self.plan(Arc::unwrap_or_clone(window.input))?;
        Ok(LogicalPlan::Window(Window::try_new(exprs, Arc::new(input))?))
    }

    pub(super) fn limit(&mut self, limit: Limit) -> Result<LogicalPlan> {
        let schema = Arc::clone(limit.input.schema());
        let nothing = Arc::new(DFSchema::empty());
        let bound = |count: Option<Box<Expr>>| match count {
            Some(count) if !is_null(&count) => self.bound(*count, &nothing).map(Some),
            _ => Ok(None),
        };
        let (skip, fetch) = (bound(limit.skip)?, bound(limit.fetch)?);
        let (input, number) = self.numbered(Arc::unwrap_or_clone(limit.input))?;
        let number = Expr::Cast(Cast::new(Box::new(Expr::Column(number)), ArrowType::Int64));
        let skip = skip.unwrap_or_else(|| lit(0_i64));
        let behind = number.clone().gt(skip.clone());
        let kept = match fetch {
            Some(fetch) => behind.and((number - skip).lt_eq(fetch)),
            None => behind,
        };
        let kept = LogicalPlan::Filter(Filter::try_new(kept, Arc::new(input))?);
        projected(kept, columns(&schema).into_iter().chain(self.domain.all()))
    }

    /// The plan over the domain with a column that numbers the rows in their order.
    fn numbered(&mut self, plan: LogicalPlan) -> Result<(LogicalPlan, Column)> {
        let number = match plan {
            LogicalPlan::Sort(sort) if sort.fetch.is_none() => {
                let scope = Arc::clone(sort.input.schema());
                let order = sort.expr.into_iter().map(|key| {
                    let expr = self.bound(key.expr.clone(), &scope)?;
                    Ok(key.with_expr(expr))
                });
                let order = order.collect::<Result<Vec<_>>>()?;
                let input = self.plan(Arc::unwrap_or_clone(sort.input))?;
                return self.with_number(input, order);
            }
            LogicalPlan::Projection(projection) if is_ordered(&projection.input) => {
                let scope = Arc::clone(projection.input.schema());
                let exprs = projection.expr.into_iter().map(|expr| self.named(expr, &scope));
                let mut exprs = exprs.collect::<Result<Vec<_>>>()?;
                let (input, number) = self.numbered(Arc::unwrap_or_clone(projection.input))?;
                exprs.extend(self.domain.all());
                exprs.push(Expr::Column(number.clone()));
                (projected(input, exprs)?, number)
            }
            LogicalPlan::SubqueryAlias(alias) if is_ordered(&alias.input) => {
                let mut exprs = renamed(&alias);
                let (input, number) = self.numbered(Arc::unwrap_or_clone(alias.input))?;
                exprs.extend(self.domain.all());
                exprs.push(Expr::Column(number.clone()));
                (projected(input, exprs)?, number)
            }
            other => {
                let input = self.plan(other)?;
                return self.with_number(input, Vec::new());
            }
        };
        Ok(number)
    }

    fn with_number(
        &mut self,
        input: LogicalPlan,
        order: Vec<SortKey>,
    ) -> Result<(LogicalPlan, Column)> {
        let number = self.names.next("number");
        let key = Expr::Column(self.domain.key.clone());
        let numbered = row_number().partition_by(vec![key]).order_by(order).build()?;
        let window = Window::try_new(vec![numbered.alias(&number.name)], Arc::new(input))?;
        Ok((LogicalPlan::Window(window), number))
    }
}

/// Whether the rows of a plan have the order of a sort in it.
fn is_ordered(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Sort(sort) => sort.fetch.is_none(),
        LogicalPlan::Projection(projection) => is_ordered(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => is_ordered(&alias.input),
        _ => false,
    }
}

fn is_null(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(value, _) => *value == ScalarValue::Null || value.is_null(),
        Expr::Cast(cast) => is_null(&cast.expr),
        _ => false,
    }
}
