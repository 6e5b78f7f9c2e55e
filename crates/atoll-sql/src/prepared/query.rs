//! Binding of queries, and the parts of them that changes have.

use std::sync::Arc;

use atoll::{DataType, Table};
use datafusion::logical_expr::LogicalPlan;
use sqlparser::ast::Statement;

use super::parameters::ParameterType;
use super::wanted::Wanted;
use super::{Body, Described, Prepared, Reason, Unbound, parameters};
use crate::interrupt::Interrupt;
use crate::literal::Literal;
use crate::live::LiveCatalog;
use crate::output_names;
use crate::scope::Scope;
use crate::short::columns::Columns;
use crate::short::compile::Compiler;
use crate::short::plan::Node;
use crate::types;
use crate::{parameter_name, query};

/// Rows of a table that is scanned in place.
const SMALL_TABLE_ROWS: u64 = 1024;

/// A query of the short executor.
#[derive(Debug)]
pub(crate) struct ShortQuery {
    pub(crate) node: Node,
    pub(crate) columns: Arc<Columns>,
    /// Set for FOR UPDATE; the node then finds the primary keys of the rows.
    pub(crate) lock: Option<Lock>,
    /// The tables of which it visits all rows.
    scanned: Vec<Table>,
}

impl ShortQuery {
    /// A query.
    pub(super) fn new(node: Node, columns: Arc<Columns>, lock: Option<Lock>) -> Self {
        let mut scanned = Vec::new();
        node.accesses(&mut |access| {
            if access.visits_all() {
                scanned.push(access.table.clone());
            }
        });
        Self { node, columns, lock, scanned }
    }

    /// Whether it visits all rows of a table that is not small. Writers would have to wait for it,
    /// and on a snapshot it is faster.
    pub(crate) fn scans_a_large_table(&self) -> bool {
        self.scanned.iter().any(|table| table.has_more_rows_than(SMALL_TABLE_ROWS))
    }
}

/// The rows that a query locks.
#[derive(Debug)]
pub(crate) struct Lock {
    pub(crate) table: Table,
    /// The result for a row that the caller gives, or no row if it does not belong to it.
    pub(crate) again: Node,
    pub(crate) wanted: Wanted,
    pub(crate) held: Held,
}

/// What becomes of a row that another transaction holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Held {
    Wait,
    /// NOWAIT: the statement fails.
    Fail,
    /// SKIP LOCKED: it is left out.
    Skip,
}

/// Binds statements to the tables of a database.
pub(crate) struct Binder<'b> {
    pub(crate) scope: &'b Scope,
    pub(crate) interrupt: &'b Interrupt,
}

impl Binder<'_> {
    /// The plan of a query, which may name the target of a change.
    ///
    /// # Errors
    /// Those of the query.
    pub(super) fn plan(
        &self,
        query: Statement,
        target: Option<&Table>,
    ) -> Result<LogicalPlan, Unbound> {
        self.plan_over(LiveCatalog::new(self.scope.clone(), target.cloned()), query)
    }

    /// The plan of a query over the tables of a catalog.
    ///
    /// # Errors
    /// Those of the query.
    pub(super) fn plan_over(
        &self,
        catalog: LiveCatalog,
        query: Statement,
    ) -> Result<LogicalPlan, Unbound> {
        Ok(query::bind(catalog, query, self.interrupt)?)
    }

    /// Binds a query or a change.
    ///
    /// # Errors
    /// It is not short, or wrong.
    pub(crate) fn bind(&self, statement: &Statement) -> Result<Arc<Prepared>, Unbound> {
        let prepared = match statement {
            Statement::Query(query) if !query.locks.is_empty() => self.locking(query),
            Statement::Query(_) => self.query(statement.clone()),
            change => self.change(change),
        };
        prepared.map(Arc::new)
    }

    fn query(&self, query: Statement) -> Result<Prepared, Unbound> {
        let plan = self.plan(query, None)?;
        let mut compiler = Compiler::default();
        let short = compiler.plan(&plan).and_then(|node| Ok((node, Columns::of(&plan)?)));
        Ok(match short {
            Ok((node, columns)) => {
                Prepared::new(Body::Query(ShortQuery::new(node, columns, None)), compiler)
            }
            Err(reason) => {
                let reason = Reason::NotShort(reason.0);
                Prepared::not_short(reason, Some(described(&plan)?))
            }
        })
    }
}

/// What a client may ask about a query that runs on a snapshot.
fn described(plan: &LogicalPlan) -> Result<Described, Unbound> {
    let mut parameters = Vec::new();
    for (id, data_type) in plan.get_parameter_types()? {
        // `now()` is none of the client's.
        if let Some(number) = parameter_name::number(&id) {
            if parameters.len() <= number {
                parameters.resize(number + 1, None);
            }
            parameters[number] = data_type.as_ref().and_then(types::of_arrow);
        }
    }
    let columns = output_names::shown_schema(&Arc::new(plan.schema().as_arrow().clone()));
    Ok(Described::new(parameters, columns))
}

/// The statement with the types of these values declared for its parameters; a text, which may
/// stand for any type, is declared if `with_text`.
pub(crate) fn declared(statement: &Statement, values: &[Literal], with_text: bool) -> Statement {
    let mut declared = statement.clone();
    parameters::replace(&mut declared, |at| {
        let own = values.get(at).and_then(|value| match value {
            Literal::Null | Literal::Text(_) if with_text => {
                Some(ParameterType::One(DataType::Text))
            }
            value => match parameters::own_type(value) {
                None if with_text => Some(ParameterType::List(DataType::Text)),
                own => own,
            },
        })?;
        parameters::declared(at, own)
    });
    declared
}
