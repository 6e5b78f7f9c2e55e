//! Sequences, and the defaults of columns that ask them.

use atoll::{Catalog, Table, Transaction};
use sqlparser::tokenizer::Span;

use super::alter::remake;
use crate::alter::Alteration;
use crate::declared::Declared;
use crate::error::{ApplyError, Cause, SqlError, SqlErrorKind};
use crate::interrupt::Interrupt;
use crate::names;
use crate::prepared::query::Binder;
use crate::scope::Scope;
use crate::sequence::definition::Definition;
use crate::sequence::mentions::columns_asking;
use crate::sequence::owned::{Changed, change};
use crate::short::scalar::Began;

/// Gives a sequence another flat name, and the defaults that ask it.
pub(super) fn rename_in(
    transaction: &mut Transaction,
    scope: &Scope,
    object: &Table,
    new: &str,
    (interrupt, began): (&Interrupt, &Began),
) -> Result<(), ApplyError> {
    let definition = Definition::of(object)?;
    let old = object.name();
    let asking = asking(&transaction.catalog(), old)?;
    lock_asking(transaction, &asking)?;
    let changed = Changed { object: object.clone(), new: Some((new.to_owned(), definition)) };
    change(transaction, &changed)?;
    each_asking(transaction, scope, &asking, interrupt, began, |alteration, _| {
        alteration.rename_sequence(old, new)
    })
}

/// Has the tables alone that ask a sequence, before the sequence: those that use them ask it, too.
pub(super) fn lock_asking(
    transaction: &mut Transaction,
    asking: &Asking,
) -> Result<(), ApplyError> {
    let catalog = transaction.catalog();
    let tables = asking.iter().filter_map(|(table, _)| catalog.table(table));
    Ok(tables.into_iter().try_for_each(|table| transaction.lock_table(table))?)
}

/// The columns with defaults that ask a sequence, by table.
pub(super) type Asking = Vec<(String, Vec<String>)>;

pub(super) fn asking(catalog: &Catalog, sequence: &str) -> Result<Asking, SqlError> {
    let mut asking = Vec::new();
    for table in catalog.tables() {
        let columns = columns_asking(&Declared::of(table.schema())?, sequence)?;
        if !columns.is_empty() {
            asking.push((table.name().to_owned(), columns));
        }
    }
    Ok(asking)
}

/// Checks that no default asks a sequence that is dropped, but those of tables that go with it.
///
/// # Errors
/// One does.
pub(super) fn check_not_asked(
    catalog: &Catalog,
    sequence: &str,
    dropped: &[&str],
) -> Result<(), SqlError> {
    let mut asking = asking(catalog, sequence)?;
    asking.retain(|(table, _)| !dropped.contains(&table.as_str()));
    still_needed(sequence, &asking)
}

pub(super) fn still_needed(sequence: &str, asking: &Asking) -> Result<(), SqlError> {
    if asking.is_empty() {
        return Ok(());
    }
    let message = format!("cannot drop sequence {sequence} because other objects depend on it");
    let line = |(table, column): (&String, &String)| {
        format!("default value for column {column} of table {table} depends on sequence {sequence}")
    };
    let each = asking.iter().flat_map(|(table, columns)| columns.iter().map(move |c| (table, c)));
    let detail: Vec<String> = each.map(line).collect();
    Err(SqlError::new(SqlErrorKind::Schema, message)
        .with_cause(Cause::Needed)
        .with_detail(detail.join("\n"))
        .with_hint(Some("Use DROP ... CASCADE to drop the dependent objects too.".to_owned())))
}

/// Alters the tables with defaults that ask a sequence.
pub(super) fn each_asking(
    transaction: &mut Transaction,
    scope: &Scope,
    asking: &Asking,
    interrupt: &Interrupt,
    began: &Began,
    mut alter: impl FnMut(&mut Alteration, &[String]) -> Result<(), SqlError>,
) -> Result<(), ApplyError> {
    for (table, columns) in asking {
        let version = transaction.committed_catalog_version();
        let scope = Scope::within(&scope.db, version, transaction.catalog());
        let binder = Binder { scope: &scope, interrupt };
        let table = names::find_table(&scope, table, Span::empty())?;
        transaction.lock_table(&table)?;
        let mut alteration = Alteration::of(&scope, table, Span::empty())?;
        alter(&mut alteration, columns)?;
        let altered = alteration.finish(&binder)?;
        remake(transaction, &binder, &altered, began)?;
    }
    Ok(())
}
