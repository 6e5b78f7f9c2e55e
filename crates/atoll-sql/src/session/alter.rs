//! `ALTER TABLE`, `CREATE INDEX`, `DROP INDEX`, `ALTER INDEX` and `TRUNCATE`.

use atoll::{Catalog, IndexSpec, Table, TableChange, TableOptions, Transaction, Value};
use sqlparser::ast::{
    AlterIndexOperation, AlterTable, AlterTableOperation, CascadeOption, CreateIndex, ObjectName,
    RenameTableNameKind, Statement, Truncate, TruncateIdentityOption,
};
use sqlparser::tokenizer::Span;

use super::over_rows::run_over_rows;
use super::views::become_all;
use super::{Outcome, SqlSession, Target, added};
use crate::alter::{Alteration, Altered, in_passes, index_name, unknown};
use crate::ddl::NewTable;
use crate::error::{ApplyError, Cause, SqlError, SqlErrorKind};
use crate::foreign::references;
use crate::notice::Notice;
use crate::prepared::query::Binder;
use crate::privileges::guard::rights;
use crate::rights::{Privileges, Rights};
use crate::scope::Scope;
use crate::sequence::owned::{change, create, owned, redefine, use_asked};
use crate::short::scalar::Began;
use crate::table_shape::NewSequence;
use crate::user_types::{UserType, resolve, use_types};
use crate::view::View;
use crate::view::follow::{self, Reshaped};
use crate::{comments, names};

impl SqlSession {
    /// Carries out `ALTER TABLE`.
    ///
    /// # Errors
    /// Those of the statement; a row that the new shape does not take; others use the table, and
    /// the statement does not wait for them, or not any longer.
    pub(super) fn alter_table(&mut self, alter: &AlterTable) -> Result<Outcome, SqlError> {
        const TAG: &str = "ALTER TABLE";
        self.may_define(TAG)?;
        if alter.location.is_some() || alter.on_cluster.is_some() || alter.table_type.is_some() {
            return Err(SqlError::unsupported("this form of ALTER TABLE is not supported"));
        }
        let scope = self.scope()?;
        let (name, span) = names::table_name(&alter.name)?;
        if View::find(&scope.catalog, &name)?.is_some() {
            return self.alter_view(alter, TAG);
        }
        let table = match names::find_table(&scope, &name, span) {
            Ok(table) => table,
            Err(error) if alter.if_exists && error.kind() == SqlErrorKind::UnknownTable => {
                self.tell(Notice::missing("relation", &names::last(&alter.name)));
                return Ok(Outcome::done(TAG, 0));
            }
            Err(error) => return Err(error),
        };
        if let [AlterTableOperation::RenameTable { table_name: RenameTableNameKind::To(new) }] =
            alter.operations.as_slice()
            && names::last(new) == names::last(&alter.name)
        {
            let (new, _) = names::table_name(new)?;
            if new != name {
                return self.set_schema(&name, &new, TAG);
            }
        }
        let find = |name: &str| UserType::find(&scope.catalog, name);
        let alter = &resolve::alter_table(alter, &find)?;
        let mut alteration = Alteration::of(&scope, table, span)?;
        in_passes(&alter.operations).try_for_each(|operation| alteration.apply(operation))?;
        alteration.take_notices().into_iter().for_each(|notice| self.tell(notice));
        self.alter(&scope, [alteration])?;
        Ok(Outcome::done(TAG, 0))
    }

    /// Carries out `CREATE INDEX`.
    ///
    /// # Errors
    /// As [`SqlSession::alter_table`].
    pub(super) fn create_index(&mut self, create: &CreateIndex) -> Result<Outcome, SqlError> {
        const TAG: &str = "CREATE INDEX";
        self.may_define(TAG)?;
        self.check_index_options(&create.with)?;
        if create.concurrently && self.in_transaction() {
            let message = "CREATE INDEX CONCURRENTLY cannot be part of a transaction";
            return Err(
                SqlError::new(SqlErrorKind::Syntax, message).with_cause(Cause::OpenTransaction)
            );
        }
        let scope = self.scope()?;
        let (name, span) = names::table_name(&create.table_name)?;
        let table = names::find_table(&scope, &name, span)?;
        if let Some(name) = &create.name {
            let (name, span) = index_name(name)?;
            if scope.table_of_index(&name).is_some()
                || scope.has(&name)
                || scope.table(&name).is_ok()
            {
                if create.if_not_exists {
                    self.tell(Notice::exists(scope.bare(&name)));
                    return Ok(Outcome::done(TAG, 0));
                }
                let message = format!("an index or a table \"{name}\" exists already");
                return Err(SqlError::new(SqlErrorKind::Schema, message)
                    .with_cause(Cause::TableExists)
                    .at(span));
            }
        } else if create.if_not_exists {
            let message = "CREATE INDEX IF NOT EXISTS needs a name";
            return Err(SqlError::new(SqlErrorKind::Syntax, message));
        }
        let mut alteration = Alteration::of(&scope, table.clone(), span)?;
        alteration.create_index(create, &scope)?;
        if !self.in_transaction() {
            let interrupt = self.interrupt();
            let altered = alteration.finish(&Binder { scope: &scope, interrupt: &interrupt })?;
            let before = table.indexes();
            let mut added = altered.new.options.indexes.into_iter();
            let added = added.find(|spec| !before.contains(spec));
            if let Some(spec) = added
                && self.index_beside(&table, &spec)?
            {
                return Ok(Outcome::done(TAG, 0));
            }
            alteration = Alteration::of(&scope, table, span)?;
            alteration.create_index(create, &scope)?;
        }
        self.alter(&scope, [alteration])?;
        Ok(Outcome::done(TAG, 0))
    }

    /// Makes an index while other transactions use its table. Returns whether that can be done.
    fn index_beside(&mut self, table: &Table, spec: &IndexSpec) -> Result<bool, SqlError> {
        let interrupt = self.interrupt();
        let mut gives_up = || interrupt.check_now().is_err();
        let mut begun = None;
        self.define(&mut |transaction| {
            begun = transaction.begin_index(table, spec)?;
            Ok(())
        })?;
        let Some(mut build) = begun else { return Ok(false) };
        let filled = build.fill(&mut gives_up);
        interrupt.check_now()?;
        filled?;
        let checked = build.check(&mut gives_up);
        interrupt.check_now()?;
        checked?;
        self.define(&mut |transaction| Ok(transaction.end_index(&mut build).map(drop)?))?;
        Ok(true)
    }

    /// Carries out `DROP INDEX`.
    ///
    /// # Errors
    /// As [`SqlSession::alter_table`].
    pub(super) fn drop_indexes(&mut self, statement: &Statement) -> Result<Outcome, SqlError> {
        const TAG: &str = "DROP INDEX";
        let Statement::Drop { if_exists, names, purge, temporary, table, .. } = statement else {
            return Ok(Outcome::done(TAG, 0));
        };
        if *purge || *temporary || table.is_some() {
            return Err(SqlError::unsupported("this form of DROP INDEX is not supported"));
        }
        self.may_define(TAG)?;
        let scope = self.scope()?;
        let mut alterations: Vec<(String, Alteration)> = Vec::new();
        for written in names {
            let (name, span) = index_name(written)?;
            let Some(table) = scope.table_of_index(&name) else {
                if *if_exists {
                    self.tell_missing(&scope, "index", written);
                    continue;
                }
                return Err(unknown("index", &name).at(span));
            };
            let of = table.name().to_owned();
            let at = match alterations.iter().position(|(other, _)| *other == of) {
                Some(at) => at,
                None => {
                    alterations.push((of, Alteration::of(&scope, table, span)?));
                    alterations.len() - 1
                }
            };
            alterations[at].1.drop_index(scope.bare(&name))?;
        }
        self.alter(&scope, alterations.into_iter().map(|(_, alteration)| alteration))?;
        Ok(Outcome::done(TAG, 0))
    }

    /// Carries out `ALTER INDEX`.
    ///
    /// # Errors
    /// As [`SqlSession::alter_table`].
    pub(super) fn alter_index(
        &mut self,
        name: &ObjectName,
        operation: &AlterIndexOperation,
    ) -> Result<Outcome, SqlError> {
        const TAG: &str = "ALTER INDEX";
        self.may_define(TAG)?;
        let scope = self.scope()?;
        let AlterIndexOperation::RenameIndex { index_name: new } = operation;
        let ((name, span), (new, new_span)) = (index_name(name)?, index_name(new)?);
        if scope.table_of_index(&new).is_some() || scope.has(&new) || scope.table(&new).is_ok() {
            let message = format!("an index or a table \"{new}\" exists already");
            return Err(SqlError::new(SqlErrorKind::Schema, message)
                .with_cause(Cause::TableExists)
                .at(new_span));
        }
        let table = scope.table_of_index(&name).ok_or_else(|| {
            let message = format!("index \"{name}\" does not exist");
            SqlError::new(SqlErrorKind::UnknownTable, message).at(span)
        });
        let mut alteration = Alteration::of(&scope, table?, span)?;
        alteration.rename_index(scope.bare(&name), scope.bare(&new))?;
        self.alter(&scope, [alteration])?;
        Ok(Outcome::done(TAG, 0))
    }

    /// Carries out `TRUNCATE`: the tables are made anew.
    ///
    /// # Errors
    /// A table that does not exist; others use one, and the statement does not wait for them, or
    /// not any longer.
    pub(super) fn truncate(&mut self, truncate: &Truncate) -> Result<Outcome, SqlError> {
        const TAG: &str = "TRUNCATE TABLE";
        self.may_define(TAG)?;
        if truncate.partitions.is_some() || truncate.on_cluster.is_some() || truncate.if_exists {
            return Err(SqlError::unsupported("this form of TRUNCATE is not supported"));
        }
        let scope = self.scope()?;
        let mut tables: Vec<Table> = Vec::new();
        for target in &truncate.table_names {
            let (name, span) = names::table_name(&target.name)?;
            let table = names::find_table(&scope, &name, span)?;
            if !tables.iter().any(|one| one.name() == table.name()) {
                tables.push(table);
            }
        }
        let cascades = truncate.cascade == Some(CascadeOption::Cascade);
        while let Some(one) = references::dependent(&scope.catalog, &names_of(&tables))?.first() {
            if !cascades {
                return Err(references::cannot_truncate(one));
            }
            let name = one.0.clone();
            self.check_one(&name, Privileges::TRUNCATE)?;
            let bare = scope.bare(&name);
            self.tell(Notice::new("00000", format!("truncate cascades to table \"{bare}\"")));
            tables.push(names::find_table(&scope, &name, Span::empty())?);
        }
        tables.iter().try_for_each(|table| self.check_none_pending(table, "TRUNCATE"))?;
        let mut restarted = Vec::new();
        if truncate.identity == Some(TruncateIdentityOption::Restart) {
            for table in &tables {
                restarted.extend(owned(&scope.catalog, table.name())?);
            }
            for (sequence, _) in &restarted {
                self.check_owner_of_flat(sequence.name())?;
            }
        }
        let is_durable = scope.db.durability().is_some();
        self.define(&mut |transaction| {
            tables.iter().try_for_each(|table| transaction.lock_table(table))?;
            let dependent = references::dependent(&transaction.catalog(), &names_of(&tables))?;
            if let Some(one) = dependent.first() {
                return Err(references::cannot_truncate(one).into());
            }
            for old in &tables {
                let tablespace = Some(old.tablespace()).filter(|_| is_durable);
                let indexes = old.indexes();
                let options = TableOptions { tablespace, indexes, ..TableOptions::default() };
                transaction.drop_table(old)?;
                transaction.create_table(old.name(), old.schema().clone(), &options)?;
            }
            for (object, definition) in &restarted {
                let mut definition = definition.clone();
                definition.restart(definition.start);
                redefine(transaction, object, &definition)?;
            }
            Ok(())
        })?;
        Ok(Outcome::done(TAG, 0))
    }

    /// Makes tables anew in other shapes, with their rows.
    fn alter(
        &mut self,
        scope: &Scope,
        alterations: impl IntoIterator<Item = Alteration>,
    ) -> Result<(), SqlError> {
        let (interrupt, began) = (self.interrupt(), self.began());
        let binder = Binder { scope, interrupt: &interrupt };
        let mut altered = Vec::new();
        for alteration in alterations {
            altered.extend(alteration.finish_all(&binder)?);
        }
        if altered.is_empty() {
            return Ok(());
        }
        altered.iter().try_for_each(|one| self.check_none_pending(&one.old, "ALTER TABLE"))?;
        let mut gone = Vec::new();
        self.define(&mut |transaction| {
            gone = carry_out(transaction, &binder, &altered, &began)?;
            Ok(())
        })?;
        self.tell_cascades(&gone);
        Ok(())
    }

    /// Checks that no check of the rows of a table is still to be made.
    ///
    /// # Errors
    /// Some are.
    pub(super) fn check_none_pending(&self, table: &Table, what: &str) -> Result<(), SqlError> {
        match &self.target {
            Target::Database { open: Some(open), .. } if open.has_checks_of(table.name()) => {
                let name = table.name();
                let message =
                    format!("cannot {what} \"{name}\" because it has pending trigger events");
                Err(SqlError::new(SqlErrorKind::Schema, message).with_cause(Cause::PendingChecks))
            }
            _ => Ok(()),
        }
    }
}

/// Makes tables what they become, and what depends on them. Returns the views that are gone.
pub(super) fn carry_out(
    transaction: &mut Transaction,
    binder: &Binder<'_>,
    altered: &[Altered],
    began: &Began,
) -> Result<Vec<String>, ApplyError> {
    let mut gone = Vec::new();
    let before = &binder.scope.catalog;
    let mut parents = altered.iter().flat_map(|one| &one.parents);
    parents.try_for_each(|parent| transaction.lock_table(parent))?;
    altered.iter().try_for_each(|one| transaction.lock_table(&one.old))?;
    altered.iter().try_for_each(|one| use_asked(transaction, before, &one.new.schema))?;
    altered
        .iter()
        .try_for_each(|one| same_references(before, &transaction.catalog(), one.old.name()))?;
    altered.iter().try_for_each(|one| use_types(transaction, before, &one.new.schema))?;
    for one in altered {
        let (old, new) = (one.old.name(), one.new.name.as_str());
        let Altered { columns, cascades, .. } = one;
        let to = Reshaped { old, new, columns, cascades: *cascades };
        let views = follow::reshaped(&transaction.catalog(), &to)?;
        remake(transaction, binder, one, began)?;
        let dropped = views.iter().filter(|one| one.view.is_none());
        gone.extend(dropped.map(|one| format!("view {}", one.name)));
        become_all(transaction, views)?;
        comments::follow(transaction, (old, new), columns, |all| one.name_parts(all))?;
    }
    Ok(gone)
}

/// Gives a table another definition, and makes it anew with its rows where that needs it.
pub(super) fn remake(
    transaction: &mut Transaction,
    binder: &Binder<'_>,
    altered: &Altered,
    began: &Began,
) -> Result<(), ApplyError> {
    let Altered { old, new, values, unchecked, sequences, .. } = altered;
    sequences.iter().try_for_each(|one| change(transaction, one))?;
    for NewSequence { name, definition } in &new.sequences {
        create(transaction, name, definition)?;
        let Rights { owner, .. } = rights(&transaction.catalog(), old.name())?;
        comments::change(transaction, name, |beside| beside.rights.owner = owner)?;
    }
    if altered.keeps_rows
        && let Some(added) = added::constants(altered, binder, transaction, began)?
        && let Some(table) = transaction.alter_table(old, &table_change(new, &added))?
    {
        let unchecked = added::unchecked(altered, &added)?;
        if !altered.adds_check && unchecked.is_empty() {
            return Ok(());
        }
        let check = binder.check_rows(old, &table, values.clone(), &unchecked)?;
        return run_over_rows(&check, binder, transaction, began).map(drop);
    }
    transaction.drop_table(old)?;
    let table = transaction.create_table(&new.name, new.schema.clone(), &new.options)?;
    let copy = binder.copy(old, &table, values.clone(), unchecked)?;
    run_over_rows(&copy, binder, transaction, began).map(drop)
}

/// What a table with the same rows becomes.
fn table_change(new: &NewTable, added: &[Value]) -> TableChange {
    let NewTable { name, schema, options, .. } = new;
    let (name, schema, indexes) = (name.clone(), schema.clone(), options.indexes.clone());
    TableChange { name, schema, added: added.to_vec(), indexes }
}

/// Checks that the same foreign keys refer to a table as before it was locked.
fn same_references(before: &Catalog, now: &Catalog, table: &str) -> Result<(), ApplyError> {
    let of = |catalog: &Catalog| -> Result<_, SqlError> {
        Ok(references::of_catalog(catalog)?.remove(table))
    };
    if of(before)? == of(now)? {
        return Ok(());
    }
    let changed = atoll::Error::TableChanged(table.to_owned());
    Err(ApplyError::Error(changed.into()))
}

fn names_of(tables: &[Table]) -> Vec<&str> {
    tables.iter().map(Table::name).collect()
}
