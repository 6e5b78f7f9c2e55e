//! Sequences in transactions, and those that belong to columns.

use atoll::{Catalog, Schema, Table, TableOptions, Transaction};

use super::context;
use super::definition::Definition;
use super::mentions::columns_asking;
use crate::comments;
use crate::declared::Declared;
use crate::error::{ApplyError, SqlError};
pub(crate) use crate::sequence_names::is_sequence;

/// A sequence that becomes another one, or goes.
pub(crate) struct Changed {
    pub(crate) object: Table,
    /// Its name and its definition then; the state is that of the moment.
    pub(crate) new: Option<(String, Definition)>,
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

/// Creates a sequence.
///
/// # Errors
/// The name exists.
pub(crate) fn create(
    transaction: &mut Transaction,
    name: &str,
    definition: &Definition,
) -> Result<(), ApplyError> {
    transaction.create_table(name, definition.schema()?, &TableOptions::default())?;
    Ok(())
}

/// Gives a sequence another definition and state; its name, its comment and its rights stay.
///
/// # Errors
/// As [`change`].
pub(crate) fn redefine(
    transaction: &mut Transaction,
    object: &Table,
    definition: &Definition,
) -> Result<(), ApplyError> {
    transaction.lock_table(object)?;
    transaction.drop_table(object)?;
    create(transaction, object.name(), definition)
}

/// Makes a sequence another one, which goes on where it was, or drops it.
///
/// # Errors
/// Others use it, and the statement does not wait for them, or not any longer.
pub(crate) fn change(
    transaction: &mut Transaction,
    Changed { object, new }: &Changed,
) -> Result<(), ApplyError> {
    transaction.lock_table(object)?;
    let state = context::current().map(|context| context.state_of(object)).transpose()?;
    transaction.drop_table(object)?;
    let Some((name, definition)) = new else {
        return comments::dropped(transaction, object.name());
    };
    comments::follow(transaction, (object.name(), name), &[], |_| ())?;
    let mut definition = definition.clone();
    if let Some(state) = state {
        (definition.last, definition.called) = state;
    }
    create(transaction, name, &definition)
}

/// Uses the sequences that the defaults of a table ask, so that none is dropped or renamed before
/// the table is there.
pub(crate) fn use_asked(
    transaction: &mut Transaction,
    catalog: &Catalog,
    schema: &Schema,
) -> Result<(), ApplyError> {
    let declared = Declared::of(schema)?;
    for object in catalog.objects().filter(|object| is_sequence(object)) {
        if !columns_asking(&declared, object.name())?.is_empty() {
            transaction.use_table(object)?;
        }
    }
    Ok(())
}
