//! What an error is about, completed by the definitions of the database.

use std::sync::Arc;

use atoll::{Catalog, IndexSpec};

use crate::about::About;
use crate::error::{Cause, SqlError};
use crate::schemas;

/// Completes what was told by the flat name of a table alone.
fn complete(about: &mut About, cause: Option<Cause>, catalog: &Catalog) {
    let Some(flat) = about.table.take_if(|_| about.schema.is_none()) else { return };
    let has = |name: &str| catalog.object(name).is_some();
    let (schema, name) = schemas::split(&flat, &has);
    if about.constraint.is_none() && cause == Some(Cause::DuplicateKey) {
        let order = catalog.table(&flat).and_then(|table| {
            let schema = table.schema();
            let key = schema.visible_key().iter().map(|at| &schema.columns()[*at].name);
            let key: Vec<&String> = key.collect();
            // The order of the primary key, if there is one, has its name.
            let is_it =
                |index: &IndexSpec| !index.unique && index.columns.iter().eq(key.iter().copied());
            table.indexes().into_iter().find(is_it)
        });
        about.constraint = Some(order.map_or_else(|| format!("{name}_pkey"), |index| index.name));
    }
    (about.schema, about.table) = (Some(schema.to_owned()), Some(name.to_owned()));
}

/// The same error, with the schema and the constraint that it is about.
pub(super) fn completed(
    mut error: SqlError,
    catalog: impl FnOnce() -> Result<Arc<Catalog>, SqlError>,
) -> SqlError {
    let cause = error.cause();
    if let Some(about) = error.about_mut()
        && let Ok(catalog) = catalog()
    {
        complete(about, cause, &catalog);
    }
    error
}
