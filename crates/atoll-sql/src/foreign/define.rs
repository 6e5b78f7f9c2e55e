//! Foreign keys in definitions of tables.

use atoll::{DataType, IndexSpec, Schema, Table};
use sqlparser::ast::{
    ConstraintCharacteristics, ConstraintReferenceMatchKind, DeferrableInitial,
    ForeignKeyConstraint, Ident, ReferentialAction, Spanned,
};
use sqlparser::tokenizer::Span;

use super::find::{are_comparable, are_unique};
use crate::declared::Declared;
use crate::error::{Cause, SqlError, SqlErrorKind};
use crate::foreign_key::{Action, ForeignKey, Timing};
use crate::scope::Scope;
use crate::{foreign_syntax, names, types};

/// A foreign key as it is written.
pub(crate) struct Written {
    name: Option<Ident>,
    /// The column that it stands behind.
    column: Option<String>,
    clause: ForeignKeyConstraint,
}

/// The table that has the foreign keys, which may not exist yet.
#[derive(Clone, Copy)]
pub(crate) struct Child<'c> {
    pub(crate) name: &'c str,
    pub(crate) schema: &'c Schema,
    pub(crate) indexes: &'c [IndexSpec],
}

impl Written {
    /// Behind a column, perhaps with a name.
    pub(crate) fn of_column(
        column: &str,
        name: Option<&Ident>,
        clause: &ForeignKeyConstraint,
    ) -> Self {
        let name = name.or(clause.name.as_ref()).cloned();
        Self { name, column: Some(column.to_owned()), clause: clause.clone() }
    }

    /// Beside the columns.
    pub(crate) fn of_table(clause: &ForeignKeyConstraint) -> Self {
        Self { name: clause.name.clone(), column: None, clause: clause.clone() }
    }

    /// The foreign key, checked against both tables. Others of the table are declared already.
    ///
    /// # Errors
    /// A table or a column that does not exist, columns that are not unique or of another type; a
    /// clause that is not supported.
    pub(crate) fn define(
        &self,
        scope: &Scope,
        child: Child<'_>,
        declared: &Declared,
    ) -> Result<ForeignKey, SqlError> {
        let clause = &self.clause;
        let span = clause.foreign_table.span();
        let placed = |error: SqlError| error.at(span);
        let columns = match &self.column {
            Some(column) => vec![column.clone()],
            None => columns(child.schema, &clause.columns)?,
        };
        let (table, _) = names::table_name(&clause.foreign_table)?;
        let parent = (table != child.name).then(|| names::find_table(scope, &table, span));
        let parent = parent.transpose()?;
        let of_parent = parent.as_ref().map(Table::indexes);
        let (schema, indexes) = match (&parent, &of_parent) {
            (Some(parent), Some(indexes)) => (parent.schema(), indexes.as_slice()),
            _ => (child.schema, child.indexes),
        };
        let referenced = match clause.referred_columns.as_slice() {
            [] => primary_key(schema, &table).map_err(placed)?,
            named => self::columns(schema, named)?,
        };
        if referenced.len() != columns.len() {
            let message = "number of referencing and referenced columns for foreign key disagree";
            return Err(invalid(message.to_owned()).at(span));
        }
        if !are_unique(schema, indexes, &referenced) {
            let message = format!(
                "there is no unique constraint matching given keys for referenced table \
                 \"{table}\""
            );
            return Err(invalid(message).at(span));
        }
        let name = match &self.name {
            Some(name) => names::fold(name),
            None => unnamed(scope.bare(child.name), &columns, declared),
        };
        if declared.has_constraint(&name) {
            let message =
                format!("constraint \"{name}\" for relation \"{}\" already exists", child.name);
            let error = SqlError::new(SqlErrorKind::Schema, message);
            return Err(error.with_cause(Cause::ConstraintExists).at(span));
        }
        check_pairs(&name, (child.schema, &columns), (schema, &referenced)).map_err(placed)?;
        let match_full = match clause.match_kind {
            None | Some(ConstraintReferenceMatchKind::Simple) => false,
            Some(ConstraintReferenceMatchKind::Full) => true,
            Some(ConstraintReferenceMatchKind::Partial) => {
                return Err(SqlError::unsupported("MATCH PARTIAL is not supported").at(span));
            }
        };
        let on_delete_columns = self.set_columns(&columns)?;
        Ok(ForeignKey {
            name,
            columns,
            table,
            referenced,
            match_full,
            on_delete: action(clause.on_delete),
            on_delete_columns,
            on_update: action(clause.on_update),
            timing: timing(clause.characteristics.as_ref()).map_err(placed)?,
        })
    }

    /// The columns behind `ON DELETE SET NULL` or `SET DEFAULT`.
    fn set_columns(&self, columns: &[String]) -> Result<Vec<String>, SqlError> {
        let mut named = Vec::new();
        for ident in foreign_syntax::set_columns(&self.clause)? {
            let name = names::fold(&ident);
            if !columns.contains(&name) {
                let message = format!(
                    "column \"{name}\" referenced in ON DELETE SET action must be part of \
                     foreign key"
                );
                let error = SqlError::new(SqlErrorKind::Schema, message);
                return Err(error.with_cause(Cause::InvalidReference).at(ident.span));
            }
            named.push(name);
        }
        Ok(named)
    }
}

/// Checks that the columns of a foreign key still have types that go together.
///
/// # Errors
/// They have not.
pub(crate) fn check_types(
    scope: &Scope,
    child: Child<'_>,
    key: &ForeignKey,
) -> Result<(), SqlError> {
    let other = (key.table != child.name)
        .then(|| names::find_table(scope, &key.table, Span::empty()))
        .transpose()?;
    let parent = other.as_ref().map_or(child.schema, Table::schema);
    check_pairs(&key.name, (child.schema, &key.columns), (parent, &key.referenced))
}

fn check_pairs(
    name: &str,
    (child, columns): (&Schema, &[String]),
    (parent, referenced): (&Schema, &[String]),
) -> Result<(), SqlError> {
    for (column, referred) in columns.iter().zip(referenced) {
        let types = (type_of(child, column), type_of(parent, referred));
        if !are_comparable(types.0, types.1) {
            return Err(incomparable(name, (column, referred), types));
        }
    }
    Ok(())
}

/// The names of columns in a list, each of them there.
fn columns(schema: &Schema, list: &[Ident]) -> Result<Vec<String>, SqlError> {
    let mut columns: Vec<String> = Vec::with_capacity(list.len());
    for ident in list {
        let name = names::fold(ident);
        if schema.position(&name).is_none() {
            let message =
                format!("column \"{name}\" referenced in foreign key constraint does not exist");
            return Err(SqlError::new(SqlErrorKind::UnknownColumn, message).at(ident.span));
        }
        if columns.contains(&name) {
            let message = format!("column \"{name}\" is named twice in a foreign key");
            return Err(invalid(message).at(ident.span));
        }
        columns.push(name);
    }
    Ok(columns)
}

fn primary_key(schema: &Schema, table: &str) -> Result<Vec<String>, SqlError> {
    let key: Vec<String> =
        schema.visible_key().iter().map(|at| schema.columns()[*at].name.clone()).collect();
    if key.is_empty() {
        let message = format!("there is no primary key for referenced table \"{table}\"");
        let error = SqlError::new(SqlErrorKind::Schema, message);
        return Err(error.with_cause(Cause::UnknownObject));
    }
    Ok(key)
}

/// The name of a foreign key without one: PostgreSQL's.
fn unnamed(table: &str, columns: &[String], declared: &Declared) -> String {
    let usual = format!("{table}_{}_fkey", columns.join("_"));
    let others = (1..).map(|number| format!("{usual}{number}"));
    let mut names = std::iter::once(usual.clone()).chain(others);
    names.find(|name| !declared.has_constraint(name)).unwrap_or(usual)
}

fn type_of(schema: &Schema, column: &str) -> DataType {
    let at = schema.position(column).unwrap_or_default();
    schema.columns()[at].data_type
}

fn incomparable(
    name: &str,
    (column, referred): (&str, &str),
    (child, parent): (DataType, DataType),
) -> SqlError {
    let message = format!("foreign key constraint \"{name}\" cannot be implemented");
    let detail = format!(
        "Key columns \"{column}\" and \"{referred}\" are of incompatible types: {} and {}.",
        types::assigned(child),
        types::assigned(parent)
    );
    let error = SqlError::new(SqlErrorKind::Type, message).with_cause(Cause::OtherType);
    error.with_detail(detail)
}

fn invalid(message: String) -> SqlError {
    SqlError::new(SqlErrorKind::Schema, message).with_cause(Cause::InvalidForeignKey)
}

fn action(written: Option<ReferentialAction>) -> Action {
    match written {
        None | Some(ReferentialAction::NoAction) => Action::NoAction,
        Some(ReferentialAction::Restrict) => Action::Restrict,
        Some(ReferentialAction::Cascade) => Action::Cascade,
        Some(ReferentialAction::SetNull) => Action::SetNull,
        Some(ReferentialAction::SetDefault) => Action::SetDefault,
    }
}

fn timing(written: Option<&ConstraintCharacteristics>) -> Result<Timing, SqlError> {
    let Some(written) = written else { return Ok(Timing::Immediate) };
    if written.enforced.is_some() {
        return Err(SqlError::unsupported("ENFORCED is not supported for a foreign key"));
    }
    let is_deferred = written.initially == Some(DeferrableInitial::Deferred);
    match written.deferrable {
        Some(false) if is_deferred => {
            let message = "constraint declared INITIALLY DEFERRED must be DEFERRABLE";
            Err(SqlError::new(SqlErrorKind::Syntax, message))
        }
        _ if is_deferred => Ok(Timing::Deferred),
        Some(true) => Ok(Timing::Deferrable),
        _ => Ok(Timing::Immediate),
    }
}

/// The tables that foreign keys of a table refer to, without itself.
///
/// # Errors
/// One does not exist.
pub(crate) fn parents(
    scope: &Scope,
    child: &str,
    keys: &[ForeignKey],
) -> Result<Vec<Table>, SqlError> {
    let mut names: Vec<&str> = keys.iter().map(|key| key.table.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let others = names.into_iter().filter(|name| *name != child);
    others.map(|name| names::find_table(scope, name, Span::empty())).collect()
}
