//! Subqueries of which DataFusion makes joins by itself, rightly and with less work: it moves the
//! conditions of a filter into the join.
//!
//! `NATIVE-1`: the columns of the subquery in these conditions go up to the join by their names
//! alone, so no two of them have one name, and no other column on their way has it.

use datafusion::common::Result;
use datafusion::logical_expr::logical_plan::{Distinct, FetchType, Filter};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, Operator};

use super::outer::mentioned;

/// What DataFusion makes of a subquery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A join with groups: it compares for equality only.
    Scalar,
    /// A semi-join, an anti-join or one that marks rows.
    Exists,
}

/// Whether DataFusion decorrelates a subquery, all outer columns of which are those of the query
/// right around it.
pub(super) fn is_native(plan: &LogicalPlan, kind: Kind) -> Result<bool> {
    match kind {
        Kind::Exists => is_filter(plan, kind, &mut Vec::new()),
        Kind::Scalar => is_aggregate(plan),
    }
}

/// What decides whether a subquery has rows.
pub(super) fn rows_of(plan: LogicalPlan) -> LogicalPlan {
    let inner = |input: std::sync::Arc<LogicalPlan>| std::sync::Arc::unwrap_or_clone(input);
    match plan {
        LogicalPlan::Projection(projection) => rows_of(inner(projection.input)),
        LogicalPlan::SubqueryAlias(alias) => rows_of(inner(alias.input)),
        LogicalPlan::Distinct(Distinct::All(input)) => rows_of(inner(input)),
        LogicalPlan::Sort(sort) if sort.fetch.is_none() => rows_of(inner(sort.input)),
        LogicalPlan::Limit(limit) => {
            let fetches = match limit.get_fetch_type() {
                Ok(FetchType::Literal(count)) => count.is_none_or(|count| count > 0),
                _ => false,
            };
            match fetches && limit.skip.is_none() {
                true => rows_of(inner(limit.input)),
                false => LogicalPlan::Limit(limit),
            }
        }
        other => other,
    }
}

fn is_aggregate(plan: &LogicalPlan) -> Result<bool> {
    let (mut inner, mut names) = (plan, Vec::new());
    loop {
        inner = match inner {
            LogicalPlan::Projection(projection)
                if !projection.expr.iter().any(Expr::contains_outer) =>
            {
                names.extend(projection.expr.iter().map(|expr| expr.schema_name().to_string()));
                &projection.input
            }
            LogicalPlan::SubqueryAlias(alias) => &alias.input,
            LogicalPlan::Aggregate(aggregate)
                if aggregate.group_expr.is_empty()
                    && !aggregate.aggr_expr.iter().any(Expr::contains_outer) =>
            {
                return is_filter(&aggregate.input, Kind::Scalar, &mut names);
            }
            _ => return Ok(false),
        }
    }
}

/// `above` has the names of the columns on the way up.
fn is_filter(plan: &LogicalPlan, kind: Kind, above: &mut Vec<String>) -> Result<bool> {
    match plan {
        LogicalPlan::Projection(projection)
            if kind == Kind::Exists && !projection.expr.iter().any(Expr::contains_outer) =>
        {
            let computed = projection.expr.iter().filter(|expr| !matches!(expr, Expr::Column(_)));
            above.extend(computed.map(|expr| expr.schema_name().to_string()));
            is_filter(&projection.input, kind, above)
        }
        LogicalPlan::Filter(filter) => is_condition(filter, kind, above),
        _ => Ok(false),
    }
}

fn is_condition(filter: &Filter, kind: Kind, above: &[String]) -> Result<bool> {
    if !mentioned(&filter.input)?.is_empty() {
        return Ok(false);
    }
    let schema = filter.input.schema();
    let is_unique = |name: &str| {
        let named = schema.fields().iter().filter(|field| field.name() == name);
        named.count() == 1 && !above.iter().any(|known| known == name)
    };
    let all = split_conjunction(&filter.predicate).into_iter().filter(|one| one.contains_outer());
    Ok(all.into_iter().all(|condition| {
        let columns = condition.column_refs();
        !columns.is_empty()
            && columns.iter().all(|column| is_unique(&column.name))
            && (kind == Kind::Exists || is_equality(condition))
    }))
}

/// Whether a condition compares a column of the subquery with the query around it.
fn is_equality(condition: &Expr) -> bool {
    let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = condition else {
        return false;
    };
    let is_inner = |side: &Expr| matches!(side, Expr::Column(_));
    let is_outer = |side: &Expr| side.contains_outer() && !side.any_column_refs();
    is_inner(left) && is_outer(right) || is_inner(right) && is_outer(left)
}
