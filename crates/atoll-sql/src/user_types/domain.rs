//! Domains as objects, and their rules as conditions.
//!
//! A column of a domain has the type below it, and beside it the whole definition
//! (`Declared::domains`), as it has that of an enum (`TYPE-2`).

use atoll::{Catalog, Column, DataType, Schema, Table};
use sqlparser::ast::{Expr, Ident, visit_expressions_mut};
use std::ops::ControlFlow;

use super::unreadable;
use crate::declared::domain::Domain;
use crate::declared::{Check, Declared, expression};
use crate::domain_syntax::VALUE;
use crate::error::{Cause, SqlError, SqlErrorKind};
use crate::fold::fold;

/// The kind of the object of a domain.
pub(crate) const KIND: &str = "domain";
impl Domain {
    /// The domain that an object is, and the type of its values.
    ///
    /// # Errors
    /// A later version of Atoll has defined it.
    pub(super) fn of(name: &str, schema: &Schema) -> Result<Option<(Self, DataType)>, SqlError> {
        let Some((KIND, text)) = schema.object() else { return Ok(None) };
        let domain: Self =
            serde_json::from_str(text).map_err(|error| unreadable(name, &error.to_string()))?;
        let value = schema.position(VALUE).map(|at| schema.columns()[at].data_type);
        let data_type = value.ok_or_else(|| unreadable(name, "it has no type"))?;
        Ok(Some((domain, data_type)))
    }

    /// The schema of its object.
    ///
    /// # Errors
    /// The definition is too long.
    pub(crate) fn schema(&self, data_type: DataType) -> Result<Schema, SqlError> {
        let text = serde_json::to_string(self).expect("texts can be written as JSON");
        let columns = vec![Column::new(KIND, DataType::Int64), Column::nullable(VALUE, data_type)];
        Ok(Schema::new(columns, &[KIND])?.of_object(KIND, &text)?)
    }

    /// Its rules as conditions for a column: that it is not NULL, and the others.
    ///
    /// # Errors
    /// One cannot be parsed.
    pub(crate) fn conditions(&self, column: &str) -> Result<Vec<Expr>, SqlError> {
        let value = Ident::with_quote('"', column);
        let mut conditions = Vec::with_capacity(self.checks.len() + 1);
        if self.not_null {
            conditions.push(Expr::IsNotNull(Box::new(Expr::Identifier(value.clone()))));
        }
        for check in &self.checks {
            let mut condition = expression(&check.condition)?;
            let _ = visit_expressions_mut(&mut condition, |one| {
                if let Expr::Identifier(ident) = one
                    && fold(ident) == VALUE
                {
                    *ident = value.clone();
                }
                ControlFlow::<()>::Continue(())
            });
            conditions.push(condition);
        }
        Ok(conditions)
    }

    /// What is wrong where one of [`Domain::conditions`] is false.
    pub(crate) fn violated(&self, at: usize) -> SqlError {
        let of_check = at.checked_sub(usize::from(self.not_null));
        match of_check.and_then(|at| self.checks.get(at)) {
            Some(Check { name, .. }) => {
                let domain = &self.name;
                let message =
                    format!("value for domain {domain} violates check constraint \"{name}\"");
                SqlError::new(SqlErrorKind::Constraint, message).with_cause(Cause::CheckViolation)
            }
            None => {
                let message = format!("domain {} does not allow null values", self.name);
                SqlError::new(SqlErrorKind::Constraint, message).with_cause(Cause::NullValue)
            }
        }
    }
}

/// The tables with columns of a domain, and the columns.
///
/// # Errors
/// What is declared cannot be read.
pub(crate) fn users(catalog: &Catalog, name: &str) -> Result<Vec<(Table, Vec<String>)>, SqlError> {
    let mut users = Vec::new();
    for table in catalog.tables() {
        let domains = Declared::of(table.schema())?.domains;
        let of = domains.into_iter().filter(|(_, domain)| domain.name == name);
        let columns: Vec<String> = of.map(|(column, _)| column).collect();
        if !columns.is_empty() {
            users.push((table.clone(), columns));
        }
    }
    Ok(users)
}
