//! The tables of `UPDATE … FROM` and `DELETE … USING` in `RETURNING`.
//!
//! The search for the rows of the target delivers, beside their keys, the columns of the other
//! tables that RETURNING names. RETURNING itself is bound over two rows that the caller gives: the
//! changed one, and one that has all columns of the other tables ([`FOUND`]). A relation for each
//! of these tables shows its part of that row under the names that it has in the statement.

use std::sync::Arc;

use arrow_schema::{Field, Schema, SchemaRef};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::logical_expr::LogicalPlan;
use sqlparser::ast::{
    Expr, Ident, SelectItem, Statement, TableAlias, TableFactor, TableWithJoins,
    WildcardAdditionalOptions,
};

use super::target::{Target, relation, select};
use crate::live::{FOUND, TARGET};
use crate::prepared::Unbound;
use crate::prepared::query::Binder;

/// The other tables of a change.
#[derive(Debug)]
pub(super) struct Beside {
    /// Each column with the table that it belongs to.
    columns: Vec<(Option<String>, String)>,
    /// Their types, under the names that [`FOUND`] gives them.
    pub(super) schema: SchemaRef,
}

impl Beside {
    /// The tables that stand behind the target in `from`.
    ///
    /// # Errors
    /// Those of the tables.
    pub(super) fn of(
        binder: &Binder<'_>,
        target: &Target,
        from: &[TableWithJoins],
    ) -> Result<Self, Unbound> {
        let all = SelectItem::Wildcard(WildcardAdditionalOptions::default());
        let query = select(vec![all], from.to_vec(), None);
        let plan = binder.plan(query, Some(&target.table))?;
        let own = target.table.schema().visible().len();
        let (mut columns, mut fields) = (Vec::new(), Vec::new());
        for (at, (table, field)) in plan.schema().iter().skip(own).enumerate() {
            let table = table.map(|table| table.table().to_owned());
            columns.push((table, field.name().clone()));
            fields.push(Field::new(place(at), field.data_type().clone(), field.is_nullable()));
        }
        Ok(Self { columns, schema: Arc::new(Schema::new(fields)) })
    }

    /// The relations that RETURNING is bound over.
    pub(super) fn relations(&self, target: &Target) -> Vec<TableWithJoins> {
        let mut relations = vec![target.relation(TARGET)];
        let mut shown: Vec<&Option<String>> = Vec::new();
        for (table, _) in &self.columns {
            if shown.contains(&table) {
                continue;
            }
            shown.push(table);
            let own = self.columns.iter().enumerate().filter(|(_, (other, _))| other == table);
            let items = own.map(|(at, (_, name))| SelectItem::ExprWithAlias {
                expr: Expr::Identifier(Ident::with_quote('"', place(at))),
                alias: Ident::with_quote('"', name.clone()),
            });
            let found = relation(FOUND, Ident::with_quote('"', FOUND));
            let Statement::Query(subquery) = select(items.collect(), vec![found], None) else {
                continue;
            };
            let name = Ident::with_quote('"', table.clone().unwrap_or_default());
            let alias = TableAlias { explicit: true, name, columns: Vec::new(), at: None };
            let alias = Some(alias);
            let relation = TableFactor::Derived { lateral: false, subquery, alias, sample: None };
            relations.push(TableWithJoins { relation, joins: Vec::new() });
        }
        relations
    }

    /// The columns that a plan of RETURNING reads.
    ///
    /// # Errors
    /// None that a plan can have.
    pub(super) fn used(&self, plan: &LogicalPlan) -> Result<Vec<usize>, Unbound> {
        let mut used = Vec::new();
        plan.apply_with_subqueries(|node| {
            if let LogicalPlan::TableScan(scan) = node
                && scan.table_name.table() == FOUND
            {
                let all = || (0..self.columns.len()).collect();
                used.extend(scan.projection.clone().unwrap_or_else(all));
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        used.sort_unstable();
        used.dedup();
        Ok(used)
    }

    /// Some of the columns as the search for the rows names them.
    pub(super) fn items(&self, columns: &[usize]) -> Vec<Expr> {
        let item = |at: &usize| {
            let (table, name) = &self.columns[*at];
            let idents = table.iter().chain([name]);
            Expr::CompoundIdentifier(idents.map(|one| Ident::with_quote('"', one)).collect())
        };
        columns.iter().map(item).collect()
    }
}

/// The name of a column of [`FOUND`].
fn place(at: usize) -> String {
    format!("\u{1}{at}")
}
