//! Subqueries in nodes of which no joins are made: groups, aggregates, windows and sorts. They are
//! computed as columns below the node.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::expr::{InSubquery, SetComparison};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::logical_plan::{Join, Projection};
use datafusion::logical_expr::{Expr, LogicalPlan};

use crate::parse::MARK;

/// Subqueries that were taken out of expressions.
#[derive(Debug, Default)]
pub(super) struct Hoisted {
    columns: Vec<Expr>,
}

impl Hoisted {
    /// An expression with columns in the places of the subqueries that `is_taken` names.
    pub(super) fn take(
        &mut self,
        expr: Expr,
        is_taken: impl Fn(&Expr) -> bool,
        names: &mut usize,
    ) -> Result<Expr> {
        let taken = expr.transform_down(|node| {
            if !is_taken(&node) {
                return Ok(Transformed::no(node));
            }
            *names += 1;
            let name = format!("{MARK}hoisted_{names}");
            self.columns.push(node.alias(&name));
            let column = Expr::Column(Column::new_unqualified(name));
            Ok(Transformed::new(column, true, TreeNodeRecursion::Jump))
        })?;
        Ok(taken.data)
    }

    /// An expression with columns in the places of the values that are compared with a subquery
    /// and have one themselves.
    pub(super) fn take_values(
        &mut self,
        expr: Expr,
        is_taken: impl Fn(&Expr) -> bool,
        names: &mut usize,
    ) -> Result<Expr> {
        let taken = expr.transform_down(|mut node| {
            let (Expr::InSubquery(InSubquery { expr: value, .. })
            | Expr::SetComparison(SetComparison { expr: value, .. })) = &mut node
            else {
                return Ok(Transformed::no(node));
            };
            if !value.exists(|part| Ok(is_taken(part)))? {
                return Ok(Transformed::no(node));
            }
            let all = std::mem::take(value.as_mut());
            *value.as_mut() = self.take(all, |_| true, names)?;
            Ok(Transformed::yes(node))
        })?;
        Ok(taken.data)
    }

    /// The columns of a plan and those that were taken, if any was.
    pub(super) fn over(&self, plan: Arc<LogicalPlan>) -> Result<Option<Projection>> {
        if self.columns.is_empty() {
            return Ok(None);
        }
        let own = plan.schema().iter().map(Expr::from);
        let exprs = own.chain(self.columns.iter().cloned()).collect();
        Projection::try_new(exprs, plan).map(Some)
    }
}

/// A node with columns in the places of what is taken, and what computes them: its new input.
/// `below` and `node` rewrite both further.
pub(super) fn out_of(
    plan: LogicalPlan,
    take: impl Fn(&mut Hoisted, Expr, &mut usize) -> Result<Expr>,
    names: &mut usize,
    below: impl FnOnce(Projection, &mut usize) -> Result<LogicalPlan>,
    node: impl FnOnce(LogicalPlan, &mut usize) -> Result<LogicalPlan>,
) -> Result<LogicalPlan> {
    let schema = Arc::clone(plan.schema());
    let mut hoisted = Hoisted::default();
    let preserver = NamePreserver::new(&plan);
    let plan = plan.map_expressions(|expr| {
        let name = preserver.save(&expr);
        let expr = take(&mut hoisted, expr, names)?;
        Ok(Transformed::yes(name.restore(expr)))
    })?;
    let plan = plan.data;
    let [input] = plan.inputs()[..] else { return node(plan, names) };
    let Some(computed) = hoisted.over(Arc::new(input.clone()))? else { return node(plan, names) };
    let input = below(computed, names)?;
    let exprs = plan.expressions();
    let plan = node(plan.with_new_exprs(exprs, vec![input])?, names)?;
    without_hoisted(plan, &schema)
}

/// The condition of an outer join, with its subqueries as columns of the side that they use.
pub(super) fn out_of_join(
    mut join: Join,
    is_taken: impl Fn(&Expr) -> bool,
    names: &mut usize,
    below: impl Fn(Projection, &mut usize) -> Result<LogicalPlan>,
) -> Result<Option<LogicalPlan>> {
    let schema = Arc::clone(&join.schema);
    let sees = |side: &LogicalPlan, expr: &Expr| {
        let near = |column: &&Column| join.schema.has_column(column);
        let mut used: Vec<Column> = expr.column_refs().into_iter().cloned().collect();
        expr.apply(|node| {
            if let Some(subquery) = subquery_of(node) {
                let outer = subquery.outer_ref_columns.iter();
                let outer = outer.filter_map(|outer| match outer {
                    Expr::OuterReferenceColumn(_, column) => Some(column.clone()),
                    _ => None,
                });
                used.extend(outer);
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        let has = |column: &Column| side.schema().has_column(column);
        Ok::<bool, DataFusionError>(used.iter().filter(near).all(has))
    };
    let (mut of_left, mut of_right) = (Hoisted::default(), Hoisted::default());
    let mut is_split = false;
    let Some(filter) = join.filter.clone() else { return Ok(None) };
    filter.apply(|node| {
        if !is_taken(node) {
            return Ok(TreeNodeRecursion::Continue);
        }
        is_split |= !sees(&join.left, node)? && !sees(&join.right, node)?;
        Ok(TreeNodeRecursion::Jump)
    })?;
    if is_split {
        return Ok(None);
    }
    let in_left = |node: &Expr| is_taken(node) && sees(&join.left, node).unwrap_or(false);
    let filter = of_left.take(filter, in_left, names)?;
    let filter = of_right.take(filter, &is_taken, names)?;
    join.filter = Some(filter);
    if let Some(computed) = of_left.over(Arc::clone(&join.left))? {
        join.left = Arc::new(below(computed, names)?);
    }
    if let Some(computed) = of_right.over(Arc::clone(&join.right))? {
        join.right = Arc::new(below(computed, names)?);
    }
    let joined = LogicalPlan::Join(join).recompute_schema()?;
    without_hoisted(joined, &schema).map(Some)
}

fn subquery_of(expr: &Expr) -> Option<&datafusion::logical_expr::Subquery> {
    super::decorrelate::subquery_of(expr)
}

/// A plan with the columns of a schema.
fn without_hoisted(plan: LogicalPlan, schema: &DFSchema) -> Result<LogicalPlan> {
    if plan.schema().fields().len() == schema.fields().len() {
        return Ok(plan);
    }
    let exprs = schema.iter().map(Expr::from).collect();
    Ok(LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(plan))?))
}
