//! Casts to domains in queries: their rules are bound over a row of one value.

use std::sync::Arc;

use atoll::{Column, DataType, Schema};
use datafusion::logical_expr::{LogicalPlan, ScalarUDF};
use sqlparser::ast::{Ident, Select, SelectItem, SetExpr, Statement, TableFactor};

use super::checked::{self, Rule};
use super::{check, logical};
use crate::declared::domain::Domain;
use crate::domain_syntax::VALUE;
use crate::engine::{Guards, NowIsAParameter, engine};
use crate::error::SqlError;
use crate::interrupt::Interrupt;
use crate::live::{self, FOUND, OnlyFound};
use crate::parse;
use crate::short::compile::Compiler;
use crate::short::plan::Node;
use crate::user_types::resolve::{self, Cast, Find};

/// Puts the definitions of types into a statement; returns the rules of domains that it casts to.
pub(super) fn resolved(
    statement: &mut Statement,
    (find, interrupt): (Find<'_>, &Interrupt),
) -> Result<Vec<ScalarUDF>, SqlError> {
    let rule = |Cast { name, domain, data_type }| {
        let conditions = bind_domain(&domain, data_type, (find, interrupt))?;
        Ok(checked::function(Rule { domain, data_type, conditions, name }))
    };
    resolve::statement(statement, find)?.into_iter().map(rule).collect()
}

/// The rules of a domain over a row of one value, which the caller gives.
fn bind_domain(
    domain: &Domain,
    data_type: DataType,
    (find, interrupt): (Find<'_>, &Interrupt),
) -> Result<Node, SqlError> {
    let mut statement = parse::one("SELECT 1 FROM found")?;
    if let Some(select) = select(&mut statement) {
        let rules = domain.conditions(VALUE)?.into_iter().enumerate();
        let named = rules.map(|(at, expr)| SelectItem::ExprWithAlias {
            expr,
            alias: Ident::with_quote('"', format!("{FOUND}{at}")),
        });
        select.projection = named.collect();
        for from in &mut select.from {
            if let TableFactor::Table { name, .. } = &mut from.relation {
                *name = vec![Ident::with_quote('"', FOUND)].into();
            }
        }
    }
    let schema = Schema::keyless(vec![Column::nullable(VALUE, data_type)])?;
    let plan = bind_found(&schema, statement, (find, interrupt))?;
    let mut compiler = Compiler::default();
    compiler.gives_rows = true;
    compiler
        .plan(&plan)
        .map_err(|reason| SqlError::unsupported(format!("{} is not supported in CHECK", reason.0)))
}

fn select(statement: &mut Statement) -> Option<&mut Select> {
    match statement {
        Statement::Query(query) => match query.body.as_mut() {
            SetExpr::Select(select) => Some(select),
            _ => None,
        },
        _ => None,
    }
}

/// Plans and optimizes a query over one row that is given ([`FOUND`]).
fn bind_found(
    found: &Schema,
    mut statement: Statement,
    (find, interrupt): (Find<'_>, &Interrupt),
) -> Result<LogicalPlan, SqlError> {
    let engine = engine()?;
    check(&engine, &mut statement, &[FOUND.to_owned()])?;
    if !resolve::statement(&mut statement, find)?.is_empty() {
        let message = "a cast to a domain is not supported in the rule of a domain";
        return Err(SqlError::unsupported(message));
    }
    let catalog = Arc::new(OnlyFound(live::arrow_schema(found)));
    let mut settings = engine.settings(catalog, Guards::Without);
    settings.add_analyzer_rule(Arc::new(NowIsAParameter));
    let plan = async move { Ok(settings.optimize(&logical(&settings, statement).await?)?) };
    engine.plan(plan, interrupt)
}
