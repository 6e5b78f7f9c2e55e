//! Plans with at most one row.

use datafusion::logical_expr::LogicalPlan;
use datafusion::logical_expr::logical_plan::{Distinct, FetchType};

/// Whether a plan has no second row, whatever the rows of the tables are.
pub(super) fn has_no_second_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => has_no_second_row(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => has_no_second_row(&alias.input),
        LogicalPlan::Filter(filter) => has_no_second_row(&filter.input),
        LogicalPlan::Window(window) => has_no_second_row(&window.input),
        LogicalPlan::Sort(sort) => has_no_second_row(&sort.input),
        LogicalPlan::Distinct(Distinct::All(input)) => has_no_second_row(input),
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        LogicalPlan::Limit(limit) => match limit.get_fetch_type() {
            Ok(FetchType::Literal(Some(count))) => count <= 1,
            _ => has_no_second_row(&limit.input),
        },
        LogicalPlan::Values(values) => values.values.len() <= 1,
        LogicalPlan::EmptyRelation(_) => true,
        _ => false,
    }
}
