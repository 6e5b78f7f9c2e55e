//! Whether a plan has the same rows each time it runs on the same tables (`SHARED-1`).

use datafusion::common::Result;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::logical_plan::Distinct;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};

use super::outer::{scope_of, subquery_of};

/// Whether it is known to have them.
pub(super) fn is_repeatable(plan: &LogicalPlan) -> Result<bool> {
    let is_known = match plan {
        LogicalPlan::TableScan(scan) => scan.fetch.is_none(),
        LogicalPlan::Sort(sort) => sort.fetch.is_none(),
        LogicalPlan::Projection(_)
        | LogicalPlan::Filter(_)
        | LogicalPlan::Join(_)
        | LogicalPlan::Union(_)
        | LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::Subquery(_)
        | LogicalPlan::Unnest(_)
        | LogicalPlan::EmptyRelation(_)
        | LogicalPlan::Values(_)
        | LogicalPlan::Aggregate(_)
        | LogicalPlan::Distinct(Distinct::All(_)) => true,
        // It is computed once already.
        LogicalPlan::Extension(_) => return Ok(true),
        _ => false,
    };
    if !is_known {
        return Ok(false);
    }
    let schema = scope_of(plan);
    let mut is_repeatable = true;
    plan.apply_expressions(|expr| {
        expr.apply(|node| {
            is_repeatable &= match node {
                Expr::ScalarFunction(_) => !node.is_volatile_node(),
                Expr::AggregateFunction(function) => is_exact(function, &schema)?,
                node => match subquery_of(node) {
                    Some(subquery) => self::is_repeatable(&subquery.subquery)?,
                    None => true,
                },
            };
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    for input in plan.inputs() {
        is_repeatable = is_repeatable && self::is_repeatable(input)?;
    }
    Ok(is_repeatable)
}

/// Whether an aggregate is the same in any order of its rows.
fn is_exact(function: &AggregateFunction, schema: &datafusion::common::DFSchema) -> Result<bool> {
    let name = function.func.name();
    if matches!(name, "count" | "min" | "max" | "bool_and" | "bool_or") {
        return Ok(true);
    }
    let mut is_exact = matches!(name, "sum" | "avg");
    for argument in &function.params.args {
        is_exact = is_exact && !argument.get_type(schema)?.is_floating();
    }
    Ok(is_exact)
}
