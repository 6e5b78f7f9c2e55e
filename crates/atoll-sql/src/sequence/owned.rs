//! The sequences that belong to columns.

use atoll::{Catalog, Table};

use super::definition::{Definition, KIND};
use crate::error::SqlError;

/// A sequence that becomes another one, or goes.
pub(crate) struct Changed {
    pub(crate) object: Table,
    /// Its name and its definition then; the state is that of the moment.
    pub(crate) new: Option<(String, Definition)>,
}

/// Whether an object is a sequence.
pub(crate) fn is_sequence(object: &Table) -> bool {
    object.schema().object().is_some_and(|(kind, _)| kind == KIND)
}

/// The sequences that belong to columns of a table.
///
/// # Errors
/// A later version of Atoll has defined one.
pub(crate) fn owned(catalog: &Catalog, table: &str) -> Result<Vec<(Table, Definition)>, SqlError> {
    let mut owned = Vec::new();
    for object in catalog.objects().filter(|object| is_sequence(object)) {
        let definition = Definition::of(object)?;
        if definition.owner.as_ref().is_some_and(|owner| owner.table == table) {
            owned.push((object.clone(), definition));
        }
    }
    Ok(owned)
}
