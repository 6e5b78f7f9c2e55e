//! Which tables refer to a table: a catalog read from the side of the parents.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use atoll::Catalog;

use crate::declared::Declared;
use crate::error::SqlError;
use crate::foreign_key::ForeignKey;
use crate::needed;

/// The foreign keys of a catalog by the tables that they refer to, each with the name of its own
/// table.
pub(crate) type References = HashMap<String, Vec<(String, ForeignKey)>>;

/// The references of the catalog that was asked for last.
#[derive(Default)]
pub(crate) struct Kept(Mutex<Option<(u64, Arc<References>)>>);

impl Kept {
    /// The references of a catalog.
    ///
    /// # Errors
    /// A table has declarations of a later version of Atoll.
    pub(crate) fn of(&self, catalog: &Catalog) -> Result<Arc<References>, SqlError> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((version, references)) = &*kept
            && *version == catalog.version()
        {
            return Ok(Arc::clone(references));
        }
        let references = Arc::new(of_catalog(catalog)?);
        *kept = Some((catalog.version(), Arc::clone(&references)));
        Ok(references)
    }
}

/// The references of a catalog.
///
/// # Errors
/// A table has declarations of a later version of Atoll.
pub(crate) fn of_catalog(catalog: &Catalog) -> Result<References, SqlError> {
    let mut references = References::new();
    for table in catalog.tables() {
        for key in Declared::of(table.schema())?.foreign_keys {
            let of_parent = references.entry(key.table.clone()).or_default();
            of_parent.push((table.name().to_owned(), key));
        }
    }
    Ok(references)
}

/// Foreign keys as a message names them.
pub(crate) fn described(keys: &[(String, ForeignKey)]) -> impl Iterator<Item = String> {
    keys.iter().map(|(table, key)| format!("constraint {} on table {table}", key.name))
}

/// The foreign keys of other tables that keep these from being dropped, by table.
///
/// # Errors
/// As [`of_catalog`].
pub(crate) fn dependent(
    catalog: &Catalog,
    dropped: &[&str],
) -> Result<Vec<(String, ForeignKey)>, SqlError> {
    let mut references = of_catalog(catalog)?;
    let of_dropped = dropped.iter().filter_map(|name| references.remove(*name)).flatten();
    Ok(of_dropped.filter(|(child, _)| !dropped.contains(&child.as_str())).collect())
}

/// A foreign key that depends on something.
pub(crate) struct DependsOn {
    pub(crate) constraint: String,
    pub(crate) child: String,
    /// As a message names it: `table p`.
    pub(crate) what: String,
}

/// The lines of an error that tell which foreign keys depend on tables.
pub(crate) fn lines(dependent: &[(String, ForeignKey)]) -> Vec<String> {
    let line = |(child, key): &(String, ForeignKey)| {
        let ForeignKey { name, table, .. } = key;
        format!("constraint {name} on table {child} depends on table {table}")
    };
    dependent.iter().map(line).collect()
}

/// The error of a part of a table that cannot be dropped because of these.
pub(crate) fn needed(table: &str, dependent: &[DependsOn]) -> SqlError {
    let object = dependent.first().map(|first| match first.what.strip_prefix("index ") {
        Some(index) => format!("constraint {index} on table {table}"),
        None => first.what.clone(),
    });
    let line = |DependsOn { constraint, child, what }: &DependsOn| {
        format!("constraint {constraint} on table {child} depends on {what}")
    };
    needed::cannot_drop(object.as_deref(), &dependent.iter().map(line).collect::<Vec<_>>())
}

/// The error of a table that cannot be emptied because of one of these.
pub(crate) fn cannot_truncate((child, key): &(String, ForeignKey)) -> SqlError {
    let message = "cannot truncate a table referenced in a foreign key constraint";
    let hint = format!("Truncate table \"{child}\" at the same time, or use TRUNCATE ... CASCADE.");
    let error = SqlError::unsupported(message).with_hint(Some(hint));
    error.with_detail(format!("Table \"{child}\" references \"{}\".", key.table))
}
