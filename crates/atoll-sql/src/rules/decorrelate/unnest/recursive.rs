//! Recursive queries over a domain: the table that the recursive part reads has the columns of the
//! domain too, so each of its rows goes on with the row of the domain that it began with.

use std::any::Any;
use std::sync::Arc;

use arrow_schema::Schema;
use datafusion::catalog::cte_worktable::CteWorkTable;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, Result};
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::logical_expr::logical_plan::{RecursiveQuery, TableScan};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};

use super::super::outer::{columns, subquery_of};
use super::super::unsupported;
use super::{Unnest, projected};

/// The name and the columns of the recursive query that a scan reads.
fn work_table(scan: &TableScan) -> Option<(String, Arc<Schema>)> {
    let provider = source_as_provider(&scan.source).ok()?;
    let table: &dyn Any = provider.as_ref();
    let table: &CteWorkTable = table.downcast_ref()?;
    Some((table.name().to_owned(), table.schema()))
}

impl Unnest<'_> {
    /// Whether a plan reads the table of a recursive query that is around it.
    pub(super) fn reads_itself(&self, plan: &LogicalPlan) -> bool {
        if self.recursive.is_empty() {
            return false;
        }
        match plan {
            LogicalPlan::TableScan(scan) => {
                work_table(scan).is_some_and(|(name, _)| self.recursive.contains(&name))
            }
            LogicalPlan::RecursiveQuery(query) if self.recursive.contains(&query.name) => {
                self.reads_itself(&query.static_term)
            }
            other => other.inputs().into_iter().any(|input| self.reads_itself(input)),
        }
    }

    pub(super) fn recursive_query(&mut self, query: RecursiveQuery) -> Result<LogicalPlan> {
        let RecursiveQuery { name, static_term, recursive_term, is_distinct, .. } = query;
        if self.recursive.contains(&name) || has_it_in_a_subquery(&recursive_term, &name)? {
            return Err(unsupported("is recursive in this form and uses columns around it"));
        }
        let first = self.with_domain(&static_term)?;
        self.recursive.push(name.clone());
        let others = self.with_domain(&recursive_term);
        self.recursive.pop();
        let query = RecursiveQuery::try_new(name, Arc::new(first), Arc::new(others?), is_distinct)?;
        Ok(LogicalPlan::RecursiveQuery(query))
    }

    /// A plan with its columns and those of the domain, in this order.
    fn with_domain(&mut self, plan: &Arc<LogicalPlan>) -> Result<LogicalPlan> {
        let own = columns(plan.schema());
        let plan = self.plan(plan.as_ref().clone())?;
        projected(plan, own.into_iter().chain(self.domain.all()))
    }

    /// The table that the recursive part reads.
    pub(super) fn work_table(&self, scan: &TableScan) -> Result<LogicalPlan> {
        let Some((name, schema)) = work_table(scan) else {
            return Err(unsupported("has this form and uses columns of the query around it"));
        };
        let of_domain = self.domain.plan.schema().fields().iter();
        let of_domain = of_domain.map(|field| Arc::new(field.as_ref().clone().with_nullable(true)));
        let fields: Vec<_> = schema.fields().iter().cloned().chain(of_domain).collect();
        let table = CteWorkTable::new(&name, Arc::new(Schema::new(fields)));
        let source = provider_as_source(Arc::new(table));
        let own = columns(&scan.projected_schema);
        let keys = self.domain.plan.schema().fields().iter().map(|field| {
            let column = Column::new(Some(scan.table_name.clone()), field.name());
            Expr::Column(column).alias(field.name())
        });
        let rows = LogicalPlanBuilder::scan(scan.table_name.clone(), source, None)?.build()?;
        projected(rows, own.into_iter().chain(keys))
    }
}

/// Whether a subquery of a plan reads the table of a recursive query.
fn has_it_in_a_subquery(plan: &LogicalPlan, name: &str) -> Result<bool> {
    let mut found = false;
    plan.apply(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                if let Some(subquery) = subquery_of(expr) {
                    subquery.subquery.apply_with_subqueries(|inner| {
                        found |= matches!(inner, LogicalPlan::TableScan(scan)
                            if work_table(scan).is_some_and(|(other, _)| other == name));
                        Ok(TreeNodeRecursion::Continue)
                    })?;
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(found)
}
