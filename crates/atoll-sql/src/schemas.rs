//! Schemas: groups of tables, views and sequences with names of their own.
//!
//! - `SCHEMA-1`: below SQL a relation has one flat name. That of a relation in `public` is its
//!   name, and that of one in another schema begins with the name of the schema and a dot.
//! - `SCHEMA-2`: a flat name with a dot belongs to the schema before the first dot if that exists,
//!   and to `public` otherwise. The name of a schema has no dot. So a schema is not created as long
//!   as a relation of `public` would become one of it, and no relation is created in `public` that
//!   would be one of another schema.
//!
//! A schema is an object that is no table, with a hidden name. The schema `public` is there from
//! the beginning; it has an object only if it has a comment. Where it was dropped, another object
//! says so.

use std::collections::BTreeSet;

use atoll::{Catalog, Column, DataType, Schema, Snapshot, Table, TableOptions, Transaction};
use serde::{Deserialize, Serialize};

use crate::error::{ApplyError, SqlError, SqlErrorKind};
use crate::mark::MARK;
use crate::rights::{self, Privileges, Rights};

/// The schema that every database begins with.
pub(crate) const PUBLIC: &str = "public";
/// The schemas of the system, which are none of the database's.
pub(crate) const SYSTEM: [&str; 2] = ["pg_catalog", "information_schema"];
const KIND: &str = "schema";
/// The kind of the object that says that there is no schema `public`.
const NO_PUBLIC: &str = "no schema public";

/// What is kept of a schema.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Kept {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) comment: Option<String>,
    /// Those of `public` are [`usual`] where nothing else is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rights: Option<Rights>,
}

impl Kept {
    fn of(schema: &Schema) -> Result<Option<Self>, SqlError> {
        let Some((KIND, text)) = schema.object() else { return Ok(None) };
        serde_json::from_str(text).map(Some).map_err(|error| {
            let message = format!("the definition of a schema cannot be read: {error}");
            SqlError::new(SqlErrorKind::Database, message)
                .with_hint(Some("open the database with a newer version of Atoll".to_owned()))
        })
    }
}

/// The flat name of a relation of a schema (`SCHEMA-1`).
pub fn flat(schema: &str, name: &str) -> String {
    match schema {
        PUBLIC => name.to_owned(),
        _ => format!("{schema}.{name}"),
    }
}

/// The name of the object of a schema: that of a relation without a name.
pub(crate) fn hidden(schema: &str) -> String {
    format!("{MARK}{schema}.")
}

/// The schema and the name that a flat name stands for (`SCHEMA-2`), if `has` tells whether an
/// object has a name.
pub fn split<'n>(flat: &'n str, has: &dyn Fn(&str) -> bool) -> (&'n str, &'n str) {
    match flat.split_once('.') {
        Some((schema, name)) if schema != PUBLIC && has(&hidden(schema)) => (schema, name),
        _ => (PUBLIC, flat),
    }
}

/// The flat name of something beside a relation, in its schema.
pub(crate) fn beside(relation: &str, name: &str, has: &dyn Fn(&str) -> bool) -> String {
    flat(split(relation, has).0, name)
}

/// The name that a relation has in its schema.
pub(crate) fn bare<'n>(flat: &'n str, has: &dyn Fn(&str) -> bool) -> &'n str {
    split(flat, has).1
}

/// The name that a flat name has as SQL writes it, in quotes where that needs them.
pub fn relation_name(flat: &str, has: &dyn Fn(&str) -> bool) -> String {
    let quoted = crate::quoted::quoted_if_needed;
    match split(flat, has) {
        (PUBLIC, name) => quoted(name).into_owned(),
        (schema, name) => format!("{}.{}", quoted(schema), quoted(name)),
    }
}

/// The name in a form that has this flat name again, whether the schema exists or not.
pub(crate) fn as_path(flat: &str) -> String {
    let quoted = crate::quoted::quoted_if_needed;
    match flat.split_once('.') {
        Some((schema, name)) if schema != PUBLIC && !schema.is_empty() && !name.is_empty() => {
            format!("{}.{}", quoted(schema), quoted(name))
        }
        _ => quoted(flat).into_owned(),
    }
}

/// Whether there is a schema of this name.
pub(crate) fn exists(schema: &str, has: &dyn Fn(&str) -> bool) -> bool {
    match schema {
        PUBLIC => !has(&hidden("")),
        _ => has(&hidden(schema)),
    }
}

/// The schemas of these objects, and `public` if it is there, in the order of their names.
pub(crate) fn named<'o>(objects: impl Iterator<Item = (&'o str, &'o Schema)>) -> Vec<String> {
    let mut names = BTreeSet::from([PUBLIC.to_owned()]);
    let mut has_public = true;
    for (name, schema) in objects {
        match schema.object() {
            Some((KIND, _)) => {
                let inner = name.strip_prefix(MARK).and_then(|name| name.strip_suffix('.'));
                names.extend(inner.map(str::to_owned));
            }
            Some((NO_PUBLIC, _)) => has_public = false,
            _ => {}
        }
    }
    if !has_public {
        names.remove(PUBLIC);
    }
    names.into_iter().collect()
}

/// The schemas of a database, in the order of their names.
pub fn schemas_of(catalog: &Catalog) -> Vec<String> {
    named(catalog.objects().map(|object| (object.name(), object.schema())))
}

/// The schemas of a snapshot, in the order of their names.
pub fn schemas_in(snapshot: &Snapshot) -> Vec<String> {
    let objects: Vec<_> = snapshot.objects().collect();
    named(objects.iter().map(|object| (object.name(), object.schema())))
}

/// Whether a name is that of a schema of snapshots that a database is built on.
pub(crate) fn is_inherited(bases: &[Snapshot], name: &str) -> bool {
    name.starts_with(MARK)
        && name.ends_with('.')
        && bases.iter().any(|base| base.object(name).is_some() || is_inherited(base.bases(), name))
}

/// The object of a schema.
pub(crate) fn object<'c>(catalog: &'c Catalog, schema: &str) -> Option<&'c Table> {
    catalog.object(&hidden(schema))
}

/// What is kept of a schema of a database.
///
/// # Errors
/// A later version of Atoll has written something that this one does not know.
pub(crate) fn kept(catalog: &Catalog, schema: &str) -> Result<Kept, SqlError> {
    let kept = object(catalog, schema).map_or(Ok(None), |object| Kept::of(object.schema()))?;
    Ok(kept.unwrap_or_default())
}

/// The comment on a schema of a database.
///
/// # Errors
/// As [`kept`].
pub fn comment_on_schema(catalog: &Catalog, schema: &str) -> Result<Option<String>, SqlError> {
    Ok(kept(catalog, schema)?.comment)
}

/// The comment on the schema that an object is.
///
/// # Errors
/// As [`comment_on_schema`].
pub(crate) fn comment_of(object: &Schema) -> Result<Option<String>, SqlError> {
    Ok(Kept::of(object)?.and_then(|kept| kept.comment))
}

/// The comment on a schema of a snapshot.
///
/// # Errors
/// As [`comment_on_schema`].
pub fn comment_in_snapshot(snapshot: &Snapshot, schema: &str) -> Result<Option<String>, SqlError> {
    let object = snapshot.object(&hidden(schema));
    let kept = object.map_or(Ok(None), |object| Kept::of(object.schema()))?;
    Ok(kept.and_then(|kept| kept.comment))
}

/// Creates a schema.
///
/// # Errors
/// The name exists, or is too long.
pub(crate) fn create(
    transaction: &mut Transaction,
    schema: &str,
    kept: &Kept,
) -> Result<(), ApplyError> {
    let text = serde_json::to_string(kept).expect("a text can be written as JSON");
    create_object(transaction, schema, KIND, &text)
}

fn create_object(
    transaction: &mut Transaction,
    schema: &str,
    kind: &'static str,
    text: &str,
) -> Result<(), ApplyError> {
    let column = Column::new(KIND, DataType::Int64);
    let definition = Schema::new(vec![column], &[KIND]).map_err(SqlError::from)?;
    let definition = definition.of_object(kind, text).map_err(SqlError::from)?;
    transaction.create_table(&hidden(schema), definition, &TableOptions::default())?;
    Ok(())
}

/// Says that there is no schema `public`, or that there is one again.
///
/// # Errors
/// Those of the definition.
pub(crate) fn set_public(transaction: &mut Transaction, is_there: bool) -> Result<(), ApplyError> {
    match (object(&transaction.catalog(), "").cloned(), is_there) {
        (Some(object), true) => {
            transaction.lock_table(&object)?;
            Ok(transaction.drop_table(&object)?)
        }
        (None, false) => create_object(transaction, "", NO_PUBLIC, "{}"),
        _ => Ok(()),
    }
}

/// Changes what is kept of a schema.
///
/// # Errors
/// Those of the definition.
pub(crate) fn change(
    transaction: &mut Transaction,
    schema: &str,
    change: impl FnOnce(&mut Kept),
) -> Result<(), ApplyError> {
    let old = object(&transaction.catalog(), schema).cloned();
    let mut kept = Kept::default();
    if let Some(old) = old {
        transaction.lock_table(&old)?;
        kept = Kept::of(old.schema())?.unwrap_or_default();
        transaction.drop_table(&old)?;
    }
    change(&mut kept);
    if schema == PUBLIC && kept == Kept::default() {
        return Ok(());
    }
    create(transaction, schema, &kept)
}

/// The rights of a schema where nothing else is said: all roles may use `public`.
fn usual(schema: &str) -> Rights {
    let mut usual = Rights::default();
    if schema == PUBLIC {
        usual.grant(rights::PUBLIC, Privileges::USAGE);
    }
    usual
}

/// The owner of a schema, and what others may do with it.
///
/// # Errors
/// A later version of Atoll has written something that this one does not know.
pub(crate) fn rights(catalog: &Catalog, schema: &str) -> Result<Rights, SqlError> {
    Ok(kept(catalog, schema)?.rights.unwrap_or_else(|| usual(schema)))
}

/// Changes the rights of a schema.
///
/// # Errors
/// Those of the definition.
pub(crate) fn change_rights(
    transaction: &mut Transaction,
    schema: &str,
    change_them: impl FnOnce(&mut Rights),
) -> Result<(), ApplyError> {
    change(transaction, schema, |kept| {
        let rights = kept.rights.get_or_insert_with(|| usual(schema));
        change_them(rights);
    })
}

/// The flat names of the relations of a schema, in the order of creation.
pub(crate) fn relations(catalog: &Catalog, schema: &str) -> Vec<String> {
    let has = |name: &str| catalog.get(name).is_some();
    let all = catalog.tables().chain(catalog.objects()).map(Table::name);
    let named = all.filter(|name| !name.starts_with(MARK));
    named.filter(|name| split(name, &has).0 == schema).map(str::to_owned).collect()
}

/// The error for a schema that does not exist.
pub(crate) fn unknown(schema: &str) -> SqlError {
    let message = format!("schema \"{schema}\" does not exist");
    SqlError::new(SqlErrorKind::Schema, message).with_state("3F000")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flat_name_belongs_to_the_schema_before_its_first_dot() {
        let has = |name: &str| name == "\u{1}sales.";
        assert_eq!(split("sales.orders", &has), ("sales", "orders"));
        assert_eq!(split("sales.a.b", &has), ("sales", "a.b"));
        assert_eq!(split("other.orders", &has), (PUBLIC, "other.orders"));
        assert_eq!(split("orders", &has), (PUBLIC, "orders"));
        assert_eq!(relation_name("sales.Orders", &has), "sales.\"Orders\"");
        assert_eq!(relation_name("other.orders", &has), "\"other.orders\"");
        for (schema, name) in [("sales", "orders"), (PUBLIC, "orders")] {
            assert_eq!(split(&flat(schema, name), &has), (schema, name));
        }
    }
}
