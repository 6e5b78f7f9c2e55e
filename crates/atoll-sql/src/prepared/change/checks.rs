//! The conditions that a table has for its rows, bound with a change of them.

use std::ops::ControlFlow;

use arrow_schema::DataType as ArrowType;
use atoll::{DataType, Schema, Table, Value};
use datafusion::logical_expr::LogicalPlan;
use sqlparser::ast::{Expr, Ident, Query, Visit, Visitor};

use super::given_rows;
use super::target::{named, relation, select};
use crate::about::About;
use crate::declared::domain::Domain;
use crate::declared::{Declared, expression};
use crate::error::{Cause, SqlError, SqlErrorKind};
use crate::live::{self, FOUND, LiveCatalog, TARGET};
use crate::prepared::Unbound;
use crate::prepared::query::Binder;
use crate::prepared::wanted::Wanted;
use crate::short::compile::{Compiler, NotShort};
use crate::short::plan::Node;

/// See the module.
#[derive(Debug)]
pub(crate) struct Checks {
    /// The conditions over a row that the caller gives.
    pub(crate) node: Node,
    rules: Vec<Rule>,
    wanted: Wanted,
}

/// What a condition is of.
#[derive(Debug)]
enum Rule {
    /// A constraint of this name.
    Check(String),
    /// A rule of a domain, by its place.
    Domain(Domain, usize),
}

/// The condition of a load, over a row that the caller gives.
#[derive(Debug)]
pub(crate) struct Condition {
    pub(crate) node: Node,
}

impl Checks {
    /// Whether a change of these columns can make a condition false.
    pub(super) fn depend_on(&self, columns: &[(usize, DataType)]) -> bool {
        columns.iter().any(|(column, _)| self.columns().contains(column))
    }

    /// The columns that the conditions look at.
    pub(crate) fn columns(&self) -> &[usize] {
        self.wanted.columns()
    }

    /// Checks what the conditions are for a row: NULL is not false.
    ///
    /// # Errors
    /// One of them is false.
    pub(crate) fn hold(&self, table: &Table, found: &[Value]) -> Result<(), SqlError> {
        let Some(at) = found.iter().position(|value| *value == Value::Bool(false)) else {
            return Ok(());
        };
        let name = match &self.rules[at] {
            Rule::Check(name) => name,
            Rule::Domain(domain, at) => return Err(domain.violated(*at)),
        };
        let message = format!(
            "a row of table \"{}\" would violate the check constraint \"{name}\"",
            table.name()
        );
        Err(SqlError::new(SqlErrorKind::Constraint, message)
            .with_cause(Cause::CheckViolation)
            .with_about(About::table(table.name()).constraint(name)))
    }
}

impl Binder<'_> {
    /// The conditions of a table, if it has some.
    pub(super) fn checks(
        &self,
        table: &Table,
        declared: &Declared,
        compiler: &mut Compiler,
    ) -> Result<Option<Checks>, Unbound> {
        let mut conditions = Vec::new();
        let mut rules = Vec::new();
        for check in &declared.checks {
            conditions.push(expression(&check.condition)?);
            rules.push(Rule::Check(check.name.clone()));
        }
        for (column, domain) in &declared.domains {
            for (at, condition) in domain.conditions(column)?.into_iter().enumerate() {
                conditions.push(condition);
                rules.push(Rule::Domain(domain.clone(), at));
            }
        }
        if conditions.is_empty() {
            return Ok(None);
        }
        let alias = Ident::with_quote('"', self.scope.bare(table.name()));
        let from = vec![relation(TARGET, alias)];
        let plan = self.plan(select(named(conditions).collect(), from, None), Some(table))?;
        let node = given_rows(&plan, compiler)?;
        if node.reads_a_table() {
            return Err(NotShort::new("a subquery in CHECK").into());
        }
        let wanted = Wanted::of(table, std::iter::once(&node));
        Ok(Some(Checks { node, rules, wanted }))
    }

    /// The condition of a load into a table.
    ///
    /// # Errors
    /// It is none, or not about a row by itself.
    pub(crate) fn load_condition(&self, table: &Table, text: &str) -> Result<Condition, SqlError> {
        const WHERE: &str = "COPY … WHERE";
        let alias = Ident::with_quote('"', self.scope.bare(table.name()));
        let condition = expression(&format!("({text})"))?;
        if has_subquery(&condition) {
            return Err(SqlError::unsupported(format!("a subquery is not supported in {WHERE}")));
        }
        let query = select(named([condition]).collect(), vec![relation(TARGET, alias)], None);
        let plan = declarable(self.plan(query, Some(table)), WHERE)?;
        check_plain(&plan, WHERE)?;
        check_condition(&plan, WHERE)?;
        let node = given_rows(&plan, &mut Compiler::default());
        let node = declarable(node.map_err(Unbound::from), WHERE)?;
        Ok(Condition { node })
    }

    /// Checks that a condition could be bound with a change of a table, which does not exist yet.
    ///
    /// # Errors
    /// It could not, or is no condition.
    pub(crate) fn check_condition(
        &self,
        condition: &Expr,
        table: &str,
        schema: &Schema,
    ) -> Result<(), SqlError> {
        let from = vec![relation(FOUND, Ident::with_quote('"', table))];
        let query = select(named([condition.clone()]).collect(), from, None);
        let catalog = LiveCatalog::new(self.scope.clone(), None);
        let catalog = catalog.with_found(live::arrow_schema(schema));
        let plan = declarable(self.plan_over(catalog, query), "CHECK")?;
        check_plain(&plan, "CHECK")?;
        check_condition(&plan, "CHECK")?;
        let compiled = given_rows(&plan, &mut Compiler::default());
        declarable(compiled.map_err(Unbound::from), "CHECK").map(drop)
    }

    /// Checks that a default could be bound with an `INSERT`.
    ///
    /// # Errors
    /// It could not.
    pub(crate) fn check_default(&self, expr: &Expr) -> Result<(), SqlError> {
        let query = select(named([expr.clone()]).collect(), Vec::new(), None);
        let plan = declarable(self.plan(query, None), "DEFAULT")?;
        check_plain(&plan, "DEFAULT")?;
        let compiled = Compiler::default().plan(&plan);
        declarable(compiled.map_err(Unbound::from), "DEFAULT").map(drop)
    }
}

fn has_subquery(condition: &Expr) -> bool {
    struct Find;
    impl Visitor for Find {
        type Break = ();
        fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
            ControlFlow::Break(())
        }
    }
    condition.visit(&mut Find).is_break()
}

/// Refuses anything but a condition.
fn check_condition(plan: &LogicalPlan, clause: &str) -> Result<(), SqlError> {
    if matches!(plan.schema().field(0).data_type(), ArrowType::Boolean | ArrowType::Null) {
        return Ok(());
    }
    let message = format!("{clause} needs a condition, which is true or false");
    Err(SqlError::new(SqlErrorKind::Type, message).with_cause(Cause::OtherType))
}

/// Refuses functions over many rows.
pub(super) fn check_plain(plan: &LogicalPlan, clause: &str) -> Result<(), SqlError> {
    let (what, state) = match plan {
        LogicalPlan::Aggregate(_) => ("an aggregate", "42803"),
        LogicalPlan::Window(_) => ("a window function", "42P20"),
        _ => return plan.inputs().into_iter().try_for_each(|input| check_plain(input, clause)),
    };
    let message = format!("{clause} cannot use {what}");
    let error = SqlError::new(SqlErrorKind::Syntax, message).with_cause(Cause::Grouping);
    Err(error.with_state(state))
}

pub(super) fn declarable<T>(bound: Result<T, Unbound>, clause: &str) -> Result<T, SqlError> {
    bound.map_err(|unbound| match unbound {
        Unbound::Error(error) => error,
        Unbound::NotShort(reason) => {
            SqlError::unsupported(format!("{} is not supported in {clause}", reason.0))
        }
    })
}
