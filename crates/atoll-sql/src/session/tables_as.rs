//! `CREATE TABLE … AS`, and `SELECT … INTO`, which is parsed as one.

use arrow_schema::{DataType as ArrowType, Field};
use atoll::{Column, DataType, Schema, TableOptions};
use sqlparser::ast::{CreateTable, Ident, Query, Statement};

use super::{Outcome, SqlSession};
use crate::ddl;
use crate::error::{Cause, SqlError, SqlErrorKind};
use crate::lengths::NO_LIMIT;
use crate::notice::Notice;
use crate::{comments, names, types};

/// Rows that are stored in one call.
const ROWS_AT_ONCE: usize = 1024;

impl SqlSession {
    /// Carries out `CREATE TABLE … AS`: the query runs as any other, and its rows become those of a
    /// new table without a primary key.
    ///
    /// # Errors
    /// Those of the query; columns that no table can have; something has the name.
    pub(super) fn create_table_as(
        &mut self,
        create: &CreateTable,
        query: &Query,
    ) -> Result<Outcome, SqlError> {
        const TAG: &str = "CREATE TABLE AS";
        self.may_define(TAG)?;
        let (name, span) = names::table_name(&create.name)?;
        ddl::refuse_clauses_of_query(create, span)?;
        let scope = self.scope()?;
        if scope.has(&name) || scope.table(&name).is_ok() {
            if create.if_not_exists {
                self.tell(Notice::exists(scope.bare(&name)));
                return Ok(Outcome::done(TAG, 0));
            }
            let message = format!("relation \"{name}\" already exists");
            return Err(SqlError::new(SqlErrorKind::Schema, message)
                .with_cause(Cause::TableExists)
                .at(span));
        }
        // They are read here, whole.
        let streams = std::mem::take(&mut self.streams);
        let selected = self.run_parsed(None, Statement::Query(Box::new(query.clone())), &[]);
        self.streams = streams;
        let Outcome::Rows(selected) = selected? else {
            return Err(SqlError::new(SqlErrorKind::Query, "the query has returned no rows"));
        };
        let given: Vec<&Ident> = create.columns.iter().map(|column| &column.name).collect();
        let schema = selected.schema();
        let columns = columns(schema.fields().iter().map(AsRef::as_ref), &given)?;
        let all: Vec<usize> = (0..columns.len()).collect();
        let schema = Schema::keyless(columns).map_err(|error| SqlError::from(error).at(span))?;
        let rows = self.values_of(&selected, &schema, &all)?;
        let interrupt = self.interrupt();
        let made = self.define(&mut |transaction| {
            let table =
                transaction.create_table(&name, schema.clone(), &TableOptions::default())?;
            for some in rows.chunks(ROWS_AT_ONCE) {
                interrupt.check_now()?;
                transaction.insert(&table, &some.concat())?;
            }
            comments::dropped(transaction, &name)
        });
        made.map_err(|error| error.at(span))?;
        let count = rows.len() as u64;
        Ok(Outcome::done(format!("SELECT {count}"), count))
    }
}

/// The columns of a table for the columns of a result; some of them are given other names.
fn columns<'f>(
    fields: impl ExactSizeIterator<Item = &'f Field>,
    given: &[&Ident],
) -> Result<Vec<Column>, SqlError> {
    if let Some(first) = given.get(fields.len()) {
        let message = "too many column names were specified";
        return Err(SqlError::new(SqlErrorKind::Syntax, message).at(first.span));
    }
    let mut columns: Vec<Column> = Vec::with_capacity(fields.len());
    for (at, field) in fields.enumerate() {
        let name = given.get(at).map_or_else(|| field.name().clone(), |ident| names::fold(ident));
        if columns.iter().any(|other| other.name == name) {
            let message = format!("column \"{name}\" specified more than once");
            let error = SqlError::new(SqlErrorKind::Schema, message);
            return Err(error.with_cause(Cause::ColumnExists));
        }
        let data_type = match (types::of_field(field), field.data_type()) {
            (Some(DataType::Char(NO_LIMIT)), _) => DataType::Text,
            (Some(data_type), _) => data_type,
            // As in PostgreSQL.
            (None, ArrowType::Null) => DataType::Text,
            (None, _) => {
                let shown = types::shown(field);
                let message = format!("column \"{name}\" is of type {shown}, which no table has");
                return Err(SqlError::unsupported(message));
            }
        };
        columns.push(Column::nullable(name, data_type));
    }
    Ok(columns)
}
