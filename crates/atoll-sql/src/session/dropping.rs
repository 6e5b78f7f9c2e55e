//! Tables and sequences that are dropped, with what depends on them.

use atoll::{Table, Transaction};
use sqlparser::tokenizer::Span;

use super::alter::remake;
use super::asking::{asking, check_not_asked, each_asking, lock_asking, still_needed};
use super::views::drop_dependent;
use crate::alter::{Alteration, Altered};
use crate::error::{ApplyError, SqlError};
use crate::foreign::references;
use crate::foreign_key::ForeignKey;
use crate::interrupt::Interrupt;
use crate::prepared::query::Binder;
use crate::scope::Scope;
use crate::sequence::owned::{self, Changed};
use crate::short::scalar::Began;
use crate::view::follow;
use crate::{comments, names, needed};

/// How tables and sequences are dropped.
#[derive(Clone, Copy)]
pub(super) struct Dropping<'d> {
    pub(super) scope: &'d Scope,
    pub(super) interrupt: &'d Interrupt,
    pub(super) began: &'d Began,
    /// What depends on them is dropped, too.
    pub(super) cascades: bool,
}

impl Dropping<'_> {
    /// Drops tables, and the sequences of their columns. Returns what else is gone.
    ///
    /// # Errors
    /// Something depends on them that is not to go; others use one, and the statement does not wait
    /// for them, or not any longer.
    pub(super) fn tables(
        &self,
        transaction: &mut Transaction,
        tables: &[Table],
    ) -> Result<Vec<String>, ApplyError> {
        let names: Vec<&str> = tables.iter().map(Table::name).collect();
        tables.iter().try_for_each(|table| transaction.lock_table(table))?;
        let dependent = references::dependent(&transaction.catalog(), &names)?;
        let views = follow::dependent(&transaction.catalog(), &names)?;
        let is_needed = !dependent.is_empty() || !views.is_empty();
        if !self.cascades && is_needed {
            let object = (names.len() == 1).then(|| format!("table {}", names[0]));
            let mut lines = references::lines(&dependent);
            lines.extend(views.iter().map(follow::Dependent::line));
            return Err(needed::cannot_drop(object.as_deref(), &lines).into());
        }
        let mut gone: Vec<String> = views.iter().map(|one| format!("view {}", one.view)).collect();
        gone.extend(references::described(&dependent));
        drop_dependent(transaction, &views)?;
        let version = transaction.committed_catalog_version();
        let scope = Scope::within(&self.scope.db, version, transaction.catalog());
        let binder = Binder { scope: &scope, interrupt: self.interrupt };
        for altered in without_foreign_keys(&binder, &dependent)? {
            remake(transaction, &binder, &altered, self.began)?;
            let name = altered.old.name();
            let parts = |all: &mut _| altered.name_parts(all);
            comments::follow(transaction, (name, name), &altered.columns, parts)?;
        }
        for table in tables {
            for (object, _) in owned::owned(&transaction.catalog(), table.name())? {
                check_not_asked(&transaction.catalog(), object.name(), &names)?;
                owned::change(transaction, &Changed { object, new: None })?;
            }
        }
        for table in tables {
            transaction.drop_table(table)?;
            comments::dropped(transaction, table.name())?;
        }
        Ok(gone)
    }

    /// Drops sequences. Returns what else is gone.
    ///
    /// # Errors
    /// A default asks one, and is not to go; others use one, and the statement does not wait for
    /// them, or not any longer.
    pub(super) fn sequences(
        &self,
        transaction: &mut Transaction,
        objects: &[Table],
    ) -> Result<Vec<String>, ApplyError> {
        let mut gone = Vec::new();
        let Self { scope, interrupt, began, cascades } = *self;
        for object in objects {
            lock_asking(transaction, &asking(&transaction.catalog(), object.name())?)?;
            transaction.lock_table(object)?;
            let asking = asking(&transaction.catalog(), object.name())?;
            if !cascades {
                still_needed(object.name(), &asking)?;
            }
            each_asking(transaction, scope, &asking, interrupt, began, |one, columns| {
                columns.iter().for_each(|column| one.drop_default(column));
                Ok(())
            })?;
            for (table, columns) in &asking {
                let of =
                    |column: &String| format!("default value for column {column} of table {table}");
                gone.extend(columns.iter().map(of));
            }
            transaction.drop_table(object)?;
            comments::dropped(transaction, object.name())?;
        }
        Ok(gone)
    }
}

/// Tables as they are without these of their foreign keys.
fn without_foreign_keys(
    binder: &Binder<'_>,
    dropped: &[(String, ForeignKey)],
) -> Result<Vec<Altered>, SqlError> {
    let mut children: Vec<&String> = dropped.iter().map(|(child, _)| child).collect();
    children.sort_unstable();
    children.dedup();
    let without = |child: &String| {
        let of_child = dropped.iter().filter(|(other, _)| other == child);
        let names: Vec<String> = of_child.map(|(_, key)| key.name.clone()).collect();
        let table = names::find_table(binder.scope, child, Span::empty())?;
        let mut alteration = Alteration::of(binder.scope, table, Span::empty())?;
        alteration.drop_foreign_keys(&names);
        alteration.finish(binder)
    };
    children.into_iter().map(without).collect()
}
