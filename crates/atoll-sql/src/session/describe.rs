//! What a statement takes and returns, without running it.

use std::sync::Arc;

use arrow_schema::{Schema, SchemaRef};
use atoll::DataType;
use sqlparser::ast::{Delete, Expr, Insert, LimitClause, Statement, Update, Value};

use super::ready::not_in_a_change;
use super::{Outcome, PreparedStatement, SqlSession, Target};
use crate::error::SqlError;
use crate::frame_offsets;
use crate::literal::Literal;
use crate::parse;
use crate::prepared::Unbound;
use crate::prepared::parameters::{self, ParameterType};
use crate::prepared::query::{Binder, declared};
use crate::prepared::written_types::ANY_NUMBER;
use crate::query::{self, Reading, Source};
use crate::system;

/// What a statement takes and returns.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Description {
    /// The types that the places of its parameters give them; `None` for one that takes the type of
    /// its value.
    pub parameters: Vec<Option<DataType>>,
    /// The columns of its result, none for a statement that returns no rows. Where they depend on
    /// the values of its parameters, they are those for NULL.
    pub columns: SchemaRef,
}

impl SqlSession {
    /// Describes exactly one statement. Nothing is changed, and an open transaction goes on even
    /// after an error. Unlike [`SqlSession::prepare`] it knows all columns; for some statements it
    /// runs a query on a snapshot, cut to no rows.
    ///
    /// # Errors
    /// Those that the statement has before it reads or changes a row.
    pub fn describe(&mut self, sql: &str) -> Result<Description, SqlError> {
        self.begin_statement()?;
        let described = self.described(sql);
        self.rest();
        described
    }

    fn described(&mut self, sql: &str) -> Result<Description, SqlError> {
        let statement = self.resolved(parse::statement(parse::only_tokens(sql)?)?)?;
        let (parameters, columns) = match self.prepared(sql).map(PreparedStatement::new) {
            Ok(prepared) => (prepared.parameter_types(), prepared.columns()),
            // A query that cannot be bound may run on a snapshot.
            Err(_) if matches!(statement, Statement::Query(_)) => {
                (vec![None; parameters::count(&statement)?], None)
            }
            Err(error) => return Err(error),
        };
        let columns = columns.map_or_else(|| self.columns_of(statement, &|_| false), Ok)?;
        Ok(Description { parameters, columns })
    }

    /// The columns of what has shown none when it was prepared: a query runs on a snapshot, cut to
    /// no rows. Some parameters are numbers of any digits.
    pub(super) fn columns_of(
        &mut self,
        mut statement: Statement,
        is_number: &dyn Fn(usize) -> bool,
    ) -> Result<SchemaRef, SqlError> {
        self.check_allowed(&statement)?;
        frame_offsets::settle(&mut statement);
        let as_text = match returns_rows(&statement) {
            true => {
                let values = vec![Literal::Null; parameters::count(&statement)?];
                Some(declared(&statement, &values, true))
            }
            false => None,
        };
        parameters::replace(&mut statement, |at| {
            let null = parameters::written(&Literal::Null);
            match is_number(at) {
                true => parameters::cast(null, ParameterType::One(ANY_NUMBER)),
                false => Some(null),
            }
        });
        // Tables that the open transaction has created are in no snapshot.
        if matches!(&statement, Statement::Query(_))
            && matches!(&self.target, Target::Database { open: Some(_), .. })
            && let Ok(Some(columns)) = self.columns_bound(&statement)
        {
            return Ok(columns);
        }
        match &mut statement {
            Statement::Query(query) => {
                let none = Expr::value(Value::Number("0".to_owned(), false));
                let (limit, offset, limit_by) = (Some(none), None, Vec::new());
                query.limit_clause = Some(LimitClause::LimitOffset { limit, offset, limit_by });
                query.fetch = None;
            }
            Statement::Explain { analyze, options, .. } => {
                // It is described and not run.
                *analyze = false;
                let is_analyze = |name: &str| name.eq_ignore_ascii_case("analyze");
                options.iter_mut().for_each(|all| all.retain(|one| !is_analyze(&one.name.value)));
                return Ok(match self.dispatch(statement)? {
                    Outcome::Rows(rows) => rows.schema(),
                    _ => Arc::new(Schema::empty()),
                });
            }
            Statement::ShowVariable { .. }
            | Statement::ShowTables { .. }
            | Statement::ShowColumns { .. }
            | Statement::ExplainTable { .. } => {
                return Ok(match self.dispatch(statement)? {
                    Outcome::Rows(rows) => rows.schema(),
                    _ => Arc::new(Schema::empty()),
                });
            }
            Statement::Execute { name, .. } => {
                let prepared = self.named(name.as_ref())?;
                let columns = prepared.columns();
                return columns
                    .map_or_else(|| self.columns_of(prepared.statement(), &|_| false), Ok);
            }
            _ => {
                return match &as_text {
                    Some(as_text) => self.columns_of_change(&statement, as_text),
                    None => Ok(Arc::new(Schema::empty())),
                };
            }
        }
        let source = match &self.target {
            Target::Snapshot(snapshot) => Source::Snapshot(snapshot.clone()),
            Target::Database { .. } if system::reads_no_table(&statement) => {
                Source::System(self.scope()?)
            }
            Target::Database { db, .. } => Source::Snapshot(db.snapshot()?),
        };
        let interrupt = self.interrupt();
        let reading = Reading { source, around: &|| self.around() };
        let rows = query::run(&reading, statement, &interrupt)?;
        Ok(rows.schema())
    }

    /// The columns of the rows that a change returns.
    fn columns_of_change(
        &self,
        written: &Statement,
        as_text: &Statement,
    ) -> Result<SchemaRef, SqlError> {
        // A column of nothing but parameters has no type with NULL for them, and is a text.
        let bound = self.columns_bound(written).or_else(|_| self.columns_bound(as_text));
        match bound {
            Ok(columns) => Ok(columns.unwrap_or_else(|| Arc::new(Schema::empty()))),
            Err(Unbound::Error(error)) => Err(error),
            Err(Unbound::NotShort(reason)) => Err(not_in_a_change(&reason)),
        }
    }

    /// The columns of a statement as it is bound.
    fn columns_bound(&self, statement: &Statement) -> Result<Option<SchemaRef>, Unbound> {
        let scope = self.scope()?;
        let prepared = Binder { scope: &scope, interrupt: &self.interrupt() }.bind(statement)?;
        let count = parameters::count(statement)?;
        Ok(prepared.describe(count).and_then(|described| described.columns))
    }
}

/// Whether a statement is a change that returns rows.
fn returns_rows(statement: &Statement) -> bool {
    matches!(
        statement,
        Statement::Insert(Insert { returning: Some(_), .. })
            | Statement::Update(Update { returning: Some(_), .. })
            | Statement::Delete(Delete { returning: Some(_), .. })
    )
}
