//! A subquery over its whole domain at once, instead of once for each row of the outer query
//! (Neumann and Kemper, "Unnesting Arbitrary Queries", BTW 2015).
//!
//! `UNNEST-1`: the plan that stands for a subquery has the columns of the subquery and those of the
//! domain, no others. The rows with one row of the domain are those that the subquery has for it.

mod aggregate;
mod ordered;
mod recursive;

use std::sync::Arc;

use datafusion::common::{Column, DFSchema, DFSchemaRef, JoinType, Result, TableReference};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::logical_plan::{
    Distinct, DistinctOn, Filter, Join, Projection, SubqueryAlias, Union, Values,
};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};

use super::domain::{Domain, Names};
use super::outer::{Binding, bind, columns, mentioned, scope_of};
use super::shared::Shared;
use super::unsupported;

/// Makes the plan for one domain.
pub(super) struct Unnest<'a> {
    domain: &'a Domain,
    names: &'a mut Names,
    /// The nodes that have copies, with what became of them.
    shared: Vec<(Shared, LogicalPlan)>,
    /// The names of the recursive queries around the plan, each of which has the domain.
    recursive: Vec<String>,
}

impl<'a> Unnest<'a> {
    pub(super) fn new(domain: &'a Domain, names: &'a mut Names) -> Self {
        Self { domain, names, shared: Vec::new(), recursive: Vec::new() }
    }

    /// Whether a plan mentions columns that the domain has values for, or reads a table that has
    /// them.
    fn depends(&self, plan: &LogicalPlan) -> Result<bool> {
        Ok(self.reads_itself(plan)
            || mentioned(plan)?.iter().any(|(_, column)| self.domain.bound(column).is_some()))
    }

    /// See `UNNEST-1`.
    pub(super) fn plan(&mut self, plan: LogicalPlan) -> Result<LogicalPlan> {
        if !self.depends(&plan)? {
            return self.beside(plan);
        }
        match plan {
            LogicalPlan::Projection(projection) => self.projection(projection),
            LogicalPlan::Filter(filter) => {
                let predicate = self.bound(filter.predicate, filter.input.schema())?;
                let input = self.plan(Arc::unwrap_or_clone(filter.input))?;
                Ok(LogicalPlan::Filter(Filter::try_new(predicate, Arc::new(input))?))
            }
            LogicalPlan::SubqueryAlias(alias) => {
                let renamed = renamed(&alias);
                let input = self.plan(Arc::unwrap_or_clone(alias.input))?;
                projected(input, renamed.into_iter().chain(self.domain.all()))
            }
            LogicalPlan::Subquery(inner) => self.plan(Arc::unwrap_or_clone(inner.subquery)),
            LogicalPlan::Join(join) => self.join(join),
            LogicalPlan::Aggregate(aggregate) => self.aggregate(aggregate),
            LogicalPlan::Distinct(Distinct::All(input)) => {
                let input = self.plan(Arc::unwrap_or_clone(input))?;
                Ok(LogicalPlan::Distinct(Distinct::All(Arc::new(input))))
            }
            LogicalPlan::Distinct(Distinct::On(on)) => self.distinct_on(on),
            LogicalPlan::Window(window) => self.window(window),
            // The order of a subquery counts below a limit only.
            LogicalPlan::Sort(sort) if sort.fetch.is_none() => {
                self.plan(Arc::unwrap_or_clone(sort.input))
            }
            LogicalPlan::Limit(limit) => self.limit(limit),
            LogicalPlan::Union(union) => self.union(union),
            LogicalPlan::Unnest(unnest) => {
                let input = self.plan(Arc::unwrap_or_clone(unnest.input))?;
                LogicalPlanBuilder::from(input)
                    .unnest_columns_with_options(unnest.exec_columns, unnest.options)?
                    .build()
            }
            LogicalPlan::Values(values) => self.values(values),
            LogicalPlan::Extension(extension) => match Shared::of(extension.node.as_ref()) {
                Some(shared) => self.shared(shared.clone()),
                None => Err(unsupported("has this form and uses columns of the query around it")),
            },
            LogicalPlan::RecursiveQuery(query) => self.recursive_query(query),
            LogicalPlan::TableScan(scan) => self.work_table(&scan),
            _ => Err(unsupported("has this form and uses columns of the query around it")),
        }
    }

    /// A plan that is the same for the whole domain.
    fn beside(&self, plan: LogicalPlan) -> Result<LogicalPlan> {
        match plan {
            LogicalPlan::EmptyRelation(empty)
                if empty.produce_one_row && empty.schema.fields().is_empty() =>
            {
                Ok(self.domain.plan.clone())
            }
            plan => LogicalPlanBuilder::from(plan).cross_join(self.domain.plan.clone())?.build(),
        }
    }

    /// The copies of a node stay copies of one.
    fn shared(&mut self, node: Shared) -> Result<LogicalPlan> {
        if let Some((_, known)) = self.shared.iter().find(|(known, _)| known.is_copy_of(&node)) {
            return Ok(known.clone());
        }
        let plan = Shared::around(self.plan(node.input().clone())?);
        self.shared.push((node, plan.clone()));
        Ok(plan)
    }

    /// An expression over the columns of a plan that becomes one with the domain.
    fn bound(&self, expr: Expr, scope: &DFSchemaRef) -> Result<Expr> {
        bind(expr, scope, self.domain)
    }

    /// The same with the name that it had.
    fn named(&self, expr: Expr, scope: &DFSchemaRef) -> Result<Expr> {
        let name = NamePreserver::new_for_projection().save(&expr);
        Ok(name.restore(self.bound(expr, scope)?))
    }

    fn projection(&mut self, projection: Projection) -> Result<LogicalPlan> {
        let scope = Arc::clone(projection.input.schema());
        let exprs = projection.expr.into_iter().map(|expr| self.named(expr, &scope));
        let mut exprs = exprs.collect::<Result<Vec<_>>>()?;
        exprs.extend(self.domain.all());
        projected(self.plan(Arc::unwrap_or_clone(projection.input))?, exprs)
    }

    /// A plan with a key of another name for the domain, and without its values.
    fn keyed(&mut self, plan: LogicalPlan) -> Result<(LogicalPlan, Column)> {
        let schema = Arc::clone(plan.schema());
        let key = self.names.next("key");
        let of_domain = Expr::Column(self.domain.key.clone()).alias(&key.name);
        let input = self.plan(plan)?;
        Ok((projected(input, columns(&schema).into_iter().chain([of_domain]))?, key))
    }

    fn join(&mut self, join: Join) -> Result<LogicalPlan> {
        let scope = scope_of(&LogicalPlan::Join(join.clone()));
        let filter = join.filter.map(|filter| self.bound(filter, &scope)).transpose()?;
        let mut on = Vec::with_capacity(join.on.len() + 1);
        for (left, right) in join.on {
            on.push((self.bound(left, &scope)?, self.bound(right, &scope)?));
        }
        let (in_left, in_right) = (self.depends(&join.left)?, self.depends(&join.right)?);
        let (left, right) = (Arc::unwrap_or_clone(join.left), Arc::unwrap_or_clone(join.right));
        let key = Expr::Column(self.domain.key.clone());
        let (left, right) = match join.join_type {
            JoinType::Inner if in_right && !in_left => (left, self.plan(right)?),
            JoinType::Inner | JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti => {
                let left = self.plan(left)?;
                let right = match in_right {
                    true => {
                        let (right, other) = self.keyed(right)?;
                        on.push((key, Expr::Column(other)));
                        right
                    }
                    false => right,
                };
                (left, right)
            }
            JoinType::Right => {
                let right = self.plan(right)?;
                let left = match in_left {
                    true => {
                        let (left, other) = self.keyed(left)?;
                        on.push((Expr::Column(other), key));
                        left
                    }
                    false => left,
                };
                (left, right)
            }
            other => {
                let what = format!("has a {other} join and uses columns of the query around it");
                return Err(unsupported(&what));
            }
        };
        let joined = Join::try_new(
            Arc::new(left),
            Arc::new(right),
            on,
            filter,
            join.join_type,
            join.join_constraint,
            join.null_equality,
            join.null_aware,
        )?;
        // `UNNEST-1`: without the second key.
        let plan = LogicalPlan::Join(joined);
        projected(plan, columns(&join.schema).into_iter().chain(self.domain.all()))
    }

    fn distinct_on(&mut self, on: DistinctOn) -> Result<LogicalPlan> {
        let scope = Arc::clone(on.input.schema());
        let bound = |exprs: Vec<Expr>| -> Result<Vec<Expr>> {
            exprs.into_iter().map(|expr| self.named(expr, &scope)).collect()
        };
        let keys = self.domain.all().chain(bound(on.on_expr)?).collect();
        let select = bound(on.select_expr)?.into_iter().chain(self.domain.all()).collect();
        let order = match on.sort_expr {
            Some(order) => {
                let first = self.domain.all().map(|column| column.sort(true, false));
                let bound = order.into_iter().map(|key| {
                    let expr = self.bound(key.expr.clone(), &scope)?;
                    Ok(key.with_expr(expr))
                });
                Some(first.map(Ok).chain(bound).collect::<Result<_>>()?)
            }
            None => None,
        };
        let input = Arc::new(self.plan(Arc::unwrap_or_clone(on.input))?);
        let on = DistinctOn::try_new(keys, select, order, input)?;
        Ok(LogicalPlan::Distinct(Distinct::On(on)))
    }

    fn union(&mut self, union: Union) -> Result<LogicalPlan> {
        let mut inputs = Vec::with_capacity(union.inputs.len());
        for input in union.inputs {
            let schema = Arc::clone(input.schema());
            let input = self.plan(Arc::unwrap_or_clone(input))?;
            let arranged = columns(&schema).into_iter().chain(self.domain.all());
            inputs.push(Arc::new(projected(input, arranged)?));
        }
        self.united(inputs, &union.schema)
    }

    /// A union of inputs that have the columns of a schema and those of the domain.
    fn united(&self, inputs: Vec<Arc<LogicalPlan>>, schema: &DFSchema) -> Result<LogicalPlan> {
        let of_domain = self.domain.plan.schema().iter();
        let fields = schema.iter().chain(of_domain);
        let fields = fields.map(|(qualifier, field)| (qualifier.cloned(), Arc::clone(field)));
        let fields: Vec<(Option<TableReference>, _)> = fields.collect();
        let metadata = schema.as_arrow().metadata().clone();
        let schema = Arc::new(DFSchema::new_with_metadata(fields, metadata)?);
        Ok(LogicalPlan::Union(Union { inputs, schema }))
    }

    /// Rows that are written out, each of which is one for each row of the domain.
    fn values(&mut self, values: Values) -> Result<LogicalPlan> {
        let nothing = Arc::new(DFSchema::empty());
        let mut inputs = Vec::with_capacity(values.values.len());
        for row in values.values {
            let cells = row.into_iter().zip(values.schema.iter());
            let cells = cells.map(|(expr, (qualifier, field))| {
                let bound = self.bound(expr, &nothing)?;
                Ok(bound.alias_qualified(qualifier.cloned(), field.name()))
            });
            let mut exprs = cells.collect::<Result<Vec<_>>>()?;
            exprs.extend(self.domain.all());
            inputs.push(Arc::new(projected(self.domain.plan.clone(), exprs)?));
        }
        match inputs.len() {
            1 => Ok(Arc::unwrap_or_clone(inputs.remove(0))),
            _ => self.united(inputs, &values.schema),
        }
    }
}

/// The columns of an alias, as expressions over those of its input.
fn renamed(alias: &SubqueryAlias) -> Vec<Expr> {
    let inner = columns(alias.input.schema()).into_iter();
    let pairs = inner.zip(alias.schema.iter());
    let named = pairs.map(|(column, (qualifier, field))| {
        column.alias_qualified(qualifier.cloned(), field.name())
    });
    named.collect()
}

/// A projection.
pub(super) fn projected(
    input: LogicalPlan,
    exprs: impl IntoIterator<Item = Expr>,
) -> Result<LogicalPlan> {
    let exprs = exprs.into_iter().collect();
    Ok(LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(input))?))
}
