//! Types that statements define: enums and domains.
//!
//! - `TYPE-2`: a type is an object of the database (`Schema::of_object`) with a name among those of
//!   tables. A column has the definition of its type in its own (`DataType::Enum`), so that a
//!   snapshot and a log say all of it by themselves. A statement that changes a type changes the
//!   columns with it, in the same transaction.
//! - `TYPE-3`: where a statement names such a type, the definition takes the place of the name when
//!   the statement is bound ([`resolve`]): whatever comes behind that needs no catalog.

pub(crate) mod domain;
pub(crate) mod follow;
pub(crate) mod resolve;

use atoll::{Catalog, Column, DataType, Labels, Schema, Table, Transaction};
use serde::{Deserialize, Serialize};

use crate::declared;
use crate::declared::domain::Domain;
use crate::error::{ApplyError, Cause, SqlError, SqlErrorKind};

/// The kind of the object of an enum.
pub(crate) const ENUM: &str = "enum";

/// The definition of an enum, but for its name.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Declared {
    labels: Vec<String>,
}

/// A type that a statement has defined.
#[derive(Debug, Clone)]
pub enum UserType {
    /// One of some labels.
    Enum(Labels),
    /// A type with rules, and the type of its values.
    Domain(Domain, DataType),
}

impl UserType {
    /// The type that an object is, if it is one.
    ///
    /// # Errors
    /// A later version of Atoll has defined it.
    pub fn of(name: &str, schema: &Schema) -> Result<Option<Self>, SqlError> {
        let Some((ENUM, text)) = schema.object() else {
            let domain = Domain::of(name, schema)?;
            return Ok(domain.map(|(domain, data_type)| Self::Domain(domain, data_type)));
        };
        let declared: Declared =
            serde_json::from_str(text).map_err(|error| unreadable(name, &error.to_string()))?;
        let labels = Labels::new(name, &declared.labels);
        labels.map(|labels| Some(Self::Enum(labels))).map_err(|reason| unreadable(name, &reason))
    }

    /// The type of a name.
    ///
    /// # Errors
    /// As [`UserType::of`].
    pub(crate) fn find(catalog: &Catalog, name: &str) -> Result<Option<Self>, SqlError> {
        let object = catalog.object(name);
        object.map_or(Ok(None), |object| Self::of(name, object.schema()))
    }
}

/// The enum of a name.
///
/// # Errors
/// [`invalid_label`] and the like.
pub(crate) fn enum_of(name: &str, labels: &[String]) -> Result<Labels, SqlError> {
    Labels::new(name, labels).map_err(|reason| {
        let error = SqlError::new(SqlErrorKind::Schema, reason);
        match labels.iter().any(|label| label.len() > atoll::LABEL_BYTES_MAX) {
            true => error
                .with_cause(Cause::InvalidName)
                .with_detail(format!("Labels must be {} bytes or less.", atoll::LABEL_BYTES_MAX)),
            false => error.with_cause(Cause::ConstraintExists),
        }
    })
}

/// The schema of the object of an enum.
///
/// # Errors
/// The definition is too long.
pub(crate) fn schema_of(labels: Labels) -> Result<Schema, SqlError> {
    let declared = Declared { labels: labels.labels().to_vec() };
    let text = serde_json::to_string(&declared).expect("texts can be written as JSON");
    let column = Column::new(ENUM, DataType::Int64);
    Ok(Schema::new(vec![column], &[ENUM])?.of_object(ENUM, &text)?)
}

/// The enum of a column.
pub(crate) fn enum_in(data_type: DataType) -> Option<Labels> {
    match data_type {
        DataType::Enum(labels) => Some(labels),
        _ => None,
    }
}

/// The tables with columns of an enum, and the columns.
pub(crate) fn users(catalog: &Catalog, name: &str) -> Vec<(Table, Vec<String>)> {
    let is_of =
        |column: &&Column| enum_in(column.data_type).is_some_and(|labels| labels.name() == name);
    let users = catalog.tables().map(|table| {
        let columns = table.schema().columns().iter().filter(is_of);
        (table.clone(), columns.map(|column| column.name.clone()).collect::<Vec<_>>())
    });
    users.filter(|(_, columns)| !columns.is_empty()).collect()
}

/// Uses the types of the columns of a table, so that none is changed or dropped before the table is
/// there.
pub(crate) fn use_types(
    transaction: &mut Transaction,
    catalog: &Catalog,
    schema: &Schema,
) -> Result<(), ApplyError> {
    let enums = schema.columns().iter().filter_map(|column| enum_in(column.data_type));
    let domains = declared::Declared::of(schema)?.domains;
    let enums = enums.map(|labels| labels.name().to_owned());
    let names = enums.chain(domains.into_values().map(|one| one.name));
    for object in names.filter_map(|name| catalog.object(&name)) {
        transaction.use_table(object)?;
    }
    Ok(())
}

fn unreadable(name: &str, reason: &str) -> SqlError {
    let message = format!("the definition of type \"{name}\" cannot be read: {reason}");
    SqlError::new(SqlErrorKind::Database, message)
        .with_hint(Some("open the database with a newer version of Atoll".to_owned()))
}

/// The error for a type that does not exist.
pub(crate) fn unknown(name: &str) -> SqlError {
    let message = format!("type \"{name}\" does not exist");
    SqlError::new(SqlErrorKind::Schema, message).with_cause(Cause::UnknownObject)
}
