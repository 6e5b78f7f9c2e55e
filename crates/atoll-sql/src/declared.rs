//! What SQL declares of a table beyond its columns and keys: the values of columns that an `INSERT`
//! does not name, columns that are computed, domains, conditions for rows, and foreign keys.
//!
//! The storage keeps it with the schema as a text that it does not read: JSON, in which expressions
//! are SQL. `DECLARED-1`: a text with a part that this version does not know is refused, so that no
//! constraint is ever passed over.

pub mod domain;

use std::collections::BTreeMap;

use atoll::Schema;
use serde::{Deserialize, Serialize};
use sqlparser::ast::{Expr, SelectItem, SetExpr, Statement};

use self::domain::Domain;
use crate::error::{SqlError, SqlErrorKind};
use crate::foreign_key::ForeignKey;
use crate::parse;
use crate::sequence_names;

/// See the module.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Declared {
    /// The expressions of defaults, by column.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub defaults: BTreeMap<String, String>,
    /// The expressions of columns that are computed from others, by column.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub generated: BTreeMap<String, String>,
    /// The columns that are numbered (`GENERATED … AS IDENTITY`), with defaults that ask their
    /// sequences; whether they always are.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub identities: BTreeMap<String, bool>,
    /// The domains of columns, each with all of its definition.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub domains: BTreeMap<String, Domain>,
    /// Conditions of which none may be false for a row.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<Check>,
    /// Columns that refer to rows of other tables.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub foreign_keys: Vec<ForeignKey>,
}

/// A condition for rows.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// The name of the constraint, unique in its table.
    pub name: String,
    /// The condition.
    pub condition: String,
}

impl Declared {
    /// What was declared of a table with this schema.
    ///
    /// # Errors
    /// A later version of Atoll has declared something that this one does not know.
    pub fn of(schema: &Schema) -> Result<Self, SqlError> {
        match schema.declared() {
            "" => Ok(Self::default()),
            text => serde_json::from_str(text).map_err(|error| {
                let message = format!("the declarations of a table cannot be read: {error}");
                SqlError::new(SqlErrorKind::Database, message)
                    .with_hint(Some("open the database with a newer version of Atoll".to_owned()))
            }),
        }
    }

    /// The schema with these declarations.
    ///
    /// # Errors
    /// They are too long.
    pub(crate) fn on(&self, schema: Schema) -> Result<Schema, SqlError> {
        if *self == Self::default() {
            return Ok(schema);
        }
        let text = serde_json::to_string(self).expect("maps and texts can be written as JSON");
        Ok(schema.with_declared(text)?)
    }

    /// Whether a column has a value where none is given.
    pub fn has_value(&self, column: &str) -> bool {
        self.default_text(column).is_some() || self.generated.contains_key(column)
    }

    /// Whether a constraint has this name.
    pub(crate) fn has_constraint(&self, name: &str) -> bool {
        self.checks.iter().any(|check| check.name == name)
            || self.foreign_keys.iter().any(|key| key.name == name)
    }

    /// The default of a column, perhaps that of its domain.
    fn default_text(&self, column: &str) -> Option<&String> {
        let of_domain = || self.domains.get(column)?.default.as_ref();
        self.defaults.get(column).or_else(of_domain)
    }

    /// The same as an expression.
    ///
    /// # Errors
    /// It cannot be parsed.
    pub(crate) fn default_of(&self, column: &str) -> Result<Option<Expr>, SqlError> {
        let default = self.default_text(column).map(|text| expression(text)).transpose()?;
        Ok(default.map(|mut default| {
            sequence_names::with_schemas(&mut default);
            default
        }))
    }
}

/// An expression that was written as a text.
///
/// # Errors
/// It cannot be parsed.
pub(crate) fn expression(text: &str) -> Result<Expr, SqlError> {
    if let Statement::Query(query) = parse::one(&format!("SELECT {text}"))?
        && let SetExpr::Select(mut select) = *query.body
        && let Some(SelectItem::UnnamedExpr(expr)) = select.projection.pop()
    {
        return Ok(expr);
    }
    let message = format!("\"{text}\" is not an expression");
    Err(SqlError::new(SqlErrorKind::Syntax, message))
}
