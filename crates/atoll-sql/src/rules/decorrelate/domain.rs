//! The distinct values of the outer columns that a subquery mentions: its domain.

use std::sync::Arc;

use datafusion::common::{Column, ExprSchema, Result};
use datafusion::logical_expr::logical_plan::{Distinct, Projection};
use datafusion::logical_expr::{Expr, LogicalPlan};

use super::functions;
use super::outer::{Binding, Outer};

/// Gives names to columns. No column that is written has one of them (`NAME-1`).
#[derive(Debug, Default)]
pub(super) struct Names(usize);

impl Names {
    pub(super) fn next(&mut self, what: &str) -> Column {
        self.0 += 1;
        Column::new_unqualified(format!("{}{what}_{}", crate::parse::MARK, self.0))
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Domain {
    /// The values, with a key of all of them; no two rows are equal.
    pub(super) plan: LogicalPlan,
    /// The key, which is never NULL.
    pub(super) key: Column,
    /// The outer columns, and the columns of `plan` with their values.
    columns: Vec<(Column, Outer)>,
}

impl Binding for Domain {
    fn bound(&self, outer: &Column) -> Option<&Outer> {
        self.columns.iter().find(|(known, _)| known == outer).map(|(_, inner)| inner)
    }
}

impl Domain {
    /// The domain of a subquery that mentions these columns of `rows`.
    pub(super) fn of(rows: &LogicalPlan, outer: &[Outer], names: &mut Names) -> Result<Self> {
        let key = names.next("key");
        let mut exprs = vec![key_of(outer).alias(&key.name)];
        let mut columns = Vec::with_capacity(outer.len());
        for (_, column) in outer {
            let inner = names.next("outer");
            exprs.push(Expr::Column(column.clone()).alias(&inner.name));
            let field =
                rows.schema().field_from_column(column)?.as_ref().clone().with_name(&inner.name);
            columns.push((column.clone(), (Arc::new(field), inner)));
        }
        let values = Projection::try_new(exprs, Arc::new(rows.clone()))?;
        let values = Arc::new(LogicalPlan::Projection(values));
        Ok(Self { plan: LogicalPlan::Distinct(Distinct::All(values)), key, columns })
    }

    /// The columns of the domain.
    pub(super) fn all(&self) -> impl Iterator<Item = Expr> {
        let values = self.columns.iter().map(|(_, (_, inner))| inner);
        std::iter::once(&self.key).chain(values).cloned().map(Expr::Column)
    }
}

/// The key of a row of the outer query in the domain.
pub(super) fn key_of(outer: &[Outer]) -> Expr {
    functions::key(outer.iter().map(|(_, column)| Expr::Column(column.clone())).collect())
}
