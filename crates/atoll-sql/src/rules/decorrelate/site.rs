//! A node of a plan with subqueries in its expressions: each becomes a join of the node's input,
//! and the expression the column with its result.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchemaRef, ExprSchema, JoinType, Result};
use datafusion::functions_aggregate::count::count;
use datafusion::functions_aggregate::first_last::first_value_udaf;
use datafusion::logical_expr::expr::{Exists, FieldMetadata, InSubquery};
use datafusion::logical_expr::logical_plan::{Aggregate, Distinct, Filter, Subquery};
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, LogicalPlanBuilder, Operator, lit};

use super::domain::{Domain, Names, key_of};
use super::functions;
use super::native::{Kind, is_native, rows_of};
use super::outer::{self, Outer, columns, mentioned, subquery_of, with_subquery};
use super::shared::shared_if_needed;
use super::single::has_no_second_row;
use super::unnest::{Unnest, projected};
use super::unsupported;

/// Whether a subquery among these expressions needs a join of ours.
pub(super) fn is_needed(exprs: &[Expr], schema: &DFSchemaRef) -> Result<bool> {
    let mut found = false;
    for expr in exprs {
        expr.exists(|node| {
            found |= subquery_of(node).is_some() && how(node, schema)? == How::Join;
            Ok(found)
        })?;
    }
    Ok(found)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    /// DataFusion does it.
    Native,
    Join,
}

/// The subquery of an expression over the columns of a schema.
fn how(expr: &Expr, schema: &DFSchemaRef) -> Result<How> {
    let Some(subquery) = subquery_of(expr) else { return Ok(How::Native) };
    let used = mentioned(&subquery.subquery)?;
    if used.is_empty() {
        return Ok(How::Native);
    }
    let kind = match expr {
        Expr::ScalarSubquery(_) => Kind::Scalar,
        _ => Kind::Exists,
    };
    let is_near = used.iter().all(|(_, column)| schema.has_column(column));
    let is_native = is_near && is_native(&subquery.subquery, kind)?;
    Ok(if is_native { How::Native } else { How::Join })
}

/// See the module.
pub(super) struct Site<'n> {
    /// The input of the node, from which the domains are taken.
    rows: Arc<LogicalPlan>,
    schema: DFSchemaRef,
    /// The input with what was joined so far.
    joined: Option<LogicalPlan>,
    names: &'n mut Names,
}

impl<'n> Site<'n> {
    pub(super) fn new(rows: Arc<LogicalPlan>, names: &'n mut Names) -> Self {
        let schema = Arc::clone(rows.schema());
        Self { rows, schema, joined: None, names }
    }

    /// The input of the node now, and whether anything was joined.
    pub(super) fn into_plan(self) -> (LogicalPlan, bool) {
        match self.joined {
            Some(plan) => (plan, true),
            None => (Arc::unwrap_or_clone(self.rows), false),
        }
    }

    /// An expression with columns in the places of its subqueries.
    pub(super) fn rewritten(&mut self, expr: Expr) -> Result<Expr> {
        let rewritten = expr.transform_up(|node| {
            if subquery_of(&node).is_none() {
                return Ok(Transformed::no(node));
            }
            if how(&node, &self.schema)? == How::Native {
                let same = |found: Subquery| {
                    let plan = Arc::unwrap_or_clone(Arc::clone(&found.subquery));
                    outer::subquery(plan, &found)
                };
                return with_subquery(node, same).map(Transformed::yes);
            }
            match node {
                Expr::ScalarSubquery(subquery) => self.scalar(subquery),
                Expr::Exists(Exists { subquery, negated }) => {
                    self.exists(Arc::unwrap_or_clone(subquery.subquery), negated)
                }
                Expr::InSubquery(found) if !found.negated => self.among(found),
                _ => {
                    Err(unsupported("is compared in this way with columns of the query around it"))
                }
            }
            .map(Transformed::yes)
        })?;
        Ok(rewritten.data)
    }

    fn current(&mut self) -> LogicalPlan {
        self.joined.take().unwrap_or_else(|| self.rows.as_ref().clone())
    }

    /// The outer columns that are those of the node, of all that a subquery mentions.
    fn near(&self, plan: &LogicalPlan) -> Result<Vec<Outer>> {
        let used = mentioned(plan)?.into_iter();
        Ok(used.filter(|(_, column)| self.schema.has_column(column)).collect())
    }

    /// Makes the rows such that they may be read more than once.
    fn share(&mut self) -> Result<()> {
        if self.joined.is_none() {
            self.rows = shared_if_needed(Arc::clone(&self.rows))?;
        }
        Ok(())
    }

    /// The domain of a subquery.
    fn domain(&mut self, near: &[Outer]) -> Result<Domain> {
        self.share()?;
        Domain::of(&self.rows, near, self.names)
    }

    /// A left join with a plan that has one row, at most, for each value of a key.
    fn join(&mut self, near: &[Outer], right: LogicalPlan, key: &Expr) -> Result<()> {
        let own = self.names.next("key");
        let left = self.current();
        let keyed = columns(left.schema()).into_iter().chain([key_of(near).alias(&own.name)]);
        let left = projected(left, keyed)?;
        let on = (vec![Expr::Column(own)], vec![key.clone()]);
        let joined = LogicalPlanBuilder::from(left);
        let joined = joined.join_with_expr_keys(right, JoinType::Left, on, None)?;
        self.joined = Some(joined.build()?);
        Ok(())
    }

    /// A join with a plan that depends on no column of the node, but on those further out.
    fn beside(&mut self, right: LogicalPlan, join_type: JoinType) -> Result<()> {
        self.share()?;
        let joined = LogicalPlanBuilder::from(self.current());
        self.joined = Some(joined.join_on(right, join_type, [lit(true)])?.build()?);
        Ok(())
    }

    fn scalar(&mut self, subquery: Subquery) -> Result<Expr> {
        let plan = Arc::unwrap_or_clone(subquery.subquery);
        let near = self.near(&plan)?;
        let is_single = has_no_second_row(&plan);
        let field = Arc::clone(plan.schema().field(0));
        let value = Expr::from(plan.schema().qualified_field(0));
        let (own, count_of) = (self.names.next("value"), self.names.next("count"));
        let domain = match near.is_empty() {
            true => None,
            false => Some(self.domain(&near)?),
        };
        let key = domain.as_ref().map(|domain| Expr::Column(domain.key.clone()));
        let plan = match &domain {
            Some(domain) => Unnest::new(domain, self.names).plan(plan)?,
            None => plan,
        };
        let right = match is_single {
            true => projected(plan, [value.alias(&own.name)].into_iter().chain(key.clone()))?,
            false => {
                let first = first_value_udaf().call(vec![value]).alias(&own.name);
                let counted = count(lit(1_i64)).alias(&count_of.name);
                let groups = key.clone().into_iter().collect();
                let plan = Aggregate::try_new(Arc::new(plan), groups, vec![first, counted])?;
                LogicalPlan::Aggregate(plan)
            }
        };
        match key {
            Some(key) => self.join(&near, right, &key)?,
            None => self.beside(right, JoinType::Left)?,
        }
        let column = Expr::Column(own);
        let value = match is_single {
            true => column,
            false => functions::only(column, Expr::Column(count_of)),
        };
        Ok(match field.metadata().is_empty() {
            true => value,
            // An aggregate forgets what is said about a column.
            false => {
                let metadata = FieldMetadata::from(field.metadata());
                value.alias_with_metadata(field.name(), Some(metadata))
            }
        })
    }

    fn exists(&mut self, plan: LogicalPlan, negated: bool) -> Result<Expr> {
        let plan = rows_of(plan);
        let near = self.near(&plan)?;
        if near.is_empty() {
            let count_of = self.names.next("count");
            let counted = count(lit(1_i64)).alias(&count_of.name);
            let right = Aggregate::try_new(Arc::new(plan), Vec::new(), vec![counted])?;
            self.beside(LogicalPlan::Aggregate(right), JoinType::Inner)?;
            let op = if negated { Operator::Eq } else { Operator::Gt };
            let sides = [Expr::Column(count_of), lit(0_i64)].map(Box::new);
            let [left, right] = sides;
            return Ok(Expr::BinaryExpr(BinaryExpr::new(left, op, right)));
        }
        let domain = self.domain(&near)?;
        let key = Expr::Column(domain.key.clone());
        let right = Unnest::new(&domain, self.names).plan(plan)?;
        let keys = LogicalPlan::Distinct(Distinct::All(Arc::new(projected(right, [key.clone()])?)));
        self.join(&near, keys, &key)?;
        Ok(if negated { key.is_null() } else { key.is_not_null() })
    }

    /// `IN` where FALSE and NULL are the same (`SUBQUERY-1`).
    fn among(&mut self, found: InSubquery) -> Result<Expr> {
        let plan = Arc::unwrap_or_clone(found.subquery.subquery);
        let column = Expr::from(plan.schema().qualified_field(0));
        let schema = Arc::clone(&self.schema);
        let value = (*found.expr).transform_up(|node| match node {
            Expr::Column(column) => {
                let field = Arc::clone(schema.field_from_column(&column)?);
                Ok(Transformed::yes(Expr::OuterReferenceColumn(field, column)))
            }
            node => Ok(Transformed::no(node)),
        })?;
        let filter = Filter::try_new(value.data.eq(column), Arc::new(plan))?;
        self.exists(LogicalPlan::Filter(filter), false)
    }
}
