//! `CREATE SEQUENCE`, `ALTER SEQUENCE` and `DROP SEQUENCE`, and the sequences of columns.

use std::sync::Arc;

use atoll::{Catalog, Table, Transaction};
use sqlparser::ast::{ObjectName, Spanned, Statement};

use super::asking::rename_in;
use super::dropping::Dropping;
use super::{Outcome, SqlSession, Target};
use crate::error::{ApplyError, Cause, SqlError, SqlErrorKind};
use crate::names;
use crate::notice::Notice;
use crate::prepared::cache::Shared;
use crate::scope::Scope;
use crate::sequence::context::{self, Context, Limits, Own};
use crate::sequence::definition::{Definition, Options, Owner, not_a_sequence, unknown};
use crate::sequence::owned::{create, is_sequence, redefine};
use crate::sequence_syntax as syntax;

/// What a session on a target asks sequences with.
pub(super) fn context_of(target: &Target) -> Arc<Context> {
    match target {
        Target::Database { db, .. } => {
            let shared = Shared::of(db);
            let (sequences, together) = (Arc::clone(&shared.sequences), shared.together.clone());
            Context::on_database(db.clone(), sequences, together)
        }
        Target::Snapshot(_) => Context::on_snapshot(),
    }
}

impl SqlSession {
    /// A statement begins, which may ask sequences.
    pub(super) fn begin_numbers(&self) {
        let own = match &self.target {
            Target::Database { open: Some(open), .. } => open.own(),
            _ => Own::default(),
        };
        let (question, lock) = (self.question.clone(), self.settings.now().lock);
        let limits = Limits { question, deadline: self.deadline, lock };
        let path = self.settings.now().path.clone();
        self.context.begin(own, self.shown_modes(), limits, path);
        self.context.settings.refresh(&self.settings, || self.default_durability());
        context::set(Some(&self.context));
    }

    /// Writes the rows of sequences that a query has left (`SEQUENCE-2`).
    pub(super) fn keep_numbers(&mut self) -> Result<(), SqlError> {
        if !self.context.has_pending() {
            return Ok(());
        }
        match &mut self.target {
            Target::Database { open: Some(open), .. } => open.write_sequences(&self.context),
            _ => self.context.store_pending(),
        }
    }

    /// Carries out `CREATE SEQUENCE` or `ALTER SEQUENCE`.
    ///
    /// # Errors
    /// Those of the statement; others use the sequence, and the statement does not wait for them,
    /// or not any longer.
    pub(super) fn define_sequence(&mut self, statement: &Statement) -> Result<Outcome, SqlError> {
        let Statement::CreateSequence {
            temporary: alters,
            if_not_exists: if_there,
            name,
            data_type,
            sequence_options,
            owned_by,
        } = statement
        else {
            return Ok(Outcome::done("CREATE SEQUENCE", 0));
        };
        if *alters {
            if let Some(new) = syntax::new_name(data_type.as_ref()) {
                let (new, _) = names::table_name(new)?;
                return self.rename_sequence(name, &new, *if_there);
            }
            let options = Options::of(data_type.as_ref(), sequence_options, owned_by.as_ref())?;
            return self.alter_sequence(name, &options, *if_there);
        }
        let tag = "CREATE SEQUENCE";
        self.may_define(tag)?;
        let scope = self.scope()?;
        let (name, span) = names::table_name(name)?;
        let options = Options::of(data_type.as_ref(), sequence_options, owned_by.as_ref())?;
        let mut definition = Definition::new(&options)?;
        if scope.catalog.get(&name).is_some() {
            if *if_there {
                self.tell(Notice::exists(scope.bare(&name)));
                return Ok(Outcome::done(tag, 0));
            }
            let message = format!("relation \"{name}\" already exists");
            return Err(SqlError::new(SqlErrorKind::Schema, message)
                .with_cause(Cause::TableExists)
                .at(span));
        }
        definition.owner = owner(&scope, &options)?;
        let made = self.define(&mut |transaction| {
            use_owner(transaction, &scope, definition.owner.as_ref())?;
            create(transaction, &name, &definition)
        });
        made.map_err(|error| error.at(span))?;
        Ok(Outcome::done(tag, 0))
    }

    fn alter_sequence(
        &mut self,
        name: &ObjectName,
        options: &Options<'_>,
        if_exists: bool,
    ) -> Result<Outcome, SqlError> {
        let tag = "ALTER SEQUENCE";
        self.may_define(tag)?;
        let scope = self.scope()?;
        let Some(object) = find(&scope.catalog, name, if_exists)? else {
            self.tell(Notice::missing("relation", &names::last(name)));
            return Ok(Outcome::done(tag, 0));
        };
        let before = Definition::of(&object)?;
        let owner = owner(&scope, options)?;
        if options.owner.is_some()
            && let Some(identity) = before.owner.as_ref().filter(|owner| owner.is_identity)
        {
            let message = "cannot change ownership of identity sequence";
            let table = &identity.table;
            let detail = format!("Sequence \"{}\" is linked to table \"{table}\".", object.name());
            return Err(SqlError::unsupported(message).with_detail(detail));
        }
        let context = self.context.clone();
        self.define(&mut |transaction| {
            use_owner(transaction, &scope, owner.as_ref())?;
            transaction.lock_table(&object)?;
            let mut definition = before.clone();
            (definition.last, definition.called) = context.state_of(&object)?;
            definition.alter(options)?;
            if options.owner.is_some() {
                definition.owner.clone_from(&owner);
            }
            redefine(transaction, &object, &definition)
        })?;
        Ok(Outcome::done(tag, 0))
    }

    fn rename_sequence(
        &mut self,
        name: &ObjectName,
        new: &str,
        if_exists: bool,
    ) -> Result<Outcome, SqlError> {
        let tag = "ALTER SEQUENCE";
        self.may_define(tag)?;
        let scope = self.scope()?;
        let Some(object) = find(&scope.catalog, name, if_exists)? else {
            self.tell(Notice::missing("relation", &names::last(name)));
            return Ok(Outcome::done(tag, 0));
        };
        if scope.catalog.get(new).is_some() {
            let message = format!("relation \"{new}\" already exists");
            return Err(SqlError::new(SqlErrorKind::Schema, message).with_cause(Cause::TableExists));
        }
        let (interrupt, began) = (self.interrupt(), self.began());
        self.define(&mut |transaction| {
            rename_in(transaction, &scope, &object, new, (&interrupt, &began))
        })?;
        Ok(Outcome::done(tag, 0))
    }

    /// Carries out `DROP SEQUENCE`.
    ///
    /// # Errors
    /// A sequence that does not exist, or that a default asks; others use one, and the statement
    /// does not wait for them, or not any longer.
    pub(super) fn drop_sequences(&mut self, statement: &Statement) -> Result<Outcome, SqlError> {
        let tag = "DROP SEQUENCE";
        let Statement::Drop { if_exists, names, cascade, .. } = statement else {
            return Ok(Outcome::done(tag, 0));
        };
        self.may_define(tag)?;
        let scope = self.scope()?;
        let mut objects: Vec<Table> = Vec::new();
        for name in names {
            let Some(object) = find(&scope.catalog, name, *if_exists)? else {
                self.tell_missing(&scope, "sequence", name);
                continue;
            };
            let owner = Definition::of(&object)?.owner;
            if let Some(Owner { table, column, is_identity: true }) = owner {
                let name = object.name();
                let message = format!(
                    "cannot drop sequence {name} because column {column} of table {table} requires \
                     it"
                );
                let hint = format!("You can drop column {column} of table {table} instead.");
                return Err(SqlError::new(SqlErrorKind::Schema, message)
                    .with_cause(Cause::Needed)
                    .with_hint(Some(hint)));
            }
            if !objects.iter().any(|one| one.name() == object.name()) {
                objects.push(object);
            }
        }
        let (interrupt, began) = (self.interrupt(), self.began());
        let dropping =
            Dropping { scope: &scope, interrupt: &interrupt, began: &began, cascades: *cascade };
        let mut gone = Vec::new();
        self.define(&mut |transaction| {
            gone = dropping.sequences(transaction, &objects)?;
            Ok(())
        })?;
        self.tell_cascades(&gone);
        Ok(Outcome::done(tag, 0))
    }
}

/// Uses the table that a sequence is going to belong to.
fn use_owner(
    transaction: &mut Transaction,
    scope: &Scope,
    owner: Option<&Owner>,
) -> Result<(), ApplyError> {
    let table = owner.and_then(|owner| scope.catalog.table(&owner.table));
    Ok(table.into_iter().try_for_each(|table| transaction.use_table(table))?)
}

/// The sequence that a statement names.
fn find(catalog: &Catalog, name: &ObjectName, if_exists: bool) -> Result<Option<Table>, SqlError> {
    let (name, span) = names::table_name(name)?;
    match catalog.get(&name) {
        Some(object) if is_sequence(object) => Ok(Some(object.clone())),
        Some(_) => Err(not_a_sequence(&name).at(span)),
        None if if_exists => Ok(None),
        None => Err(unknown(&name).at(span)),
    }
}

/// The column that `OWNED BY` names.
fn owner(scope: &Scope, options: &Options<'_>) -> Result<Option<Owner>, SqlError> {
    let Some(Some(name)) = options.owner else { return Ok(None) };
    let (table, column) = match name.0.as_slice() {
        [rest @ .., column] if !rest.is_empty() => (ObjectName(rest.to_vec()), column.as_ident()),
        _ => (name.clone(), None),
    };
    let Some(column) = column else {
        let hint = "Specify OWNED BY table.column or OWNED BY NONE.".to_owned();
        return Err(SqlError::new(SqlErrorKind::Syntax, "invalid OWNED BY option")
            .with_hint(Some(hint))
            .at(name.span()));
    };
    let (table, span) = names::table_name(&table)?;
    let table = names::find_table(scope, &table, span)?;
    let at = names::position(table.schema(), table.name(), column)?;
    let column = table.schema().columns()[at].name.clone();
    Ok(Some(Owner { table: table.name().to_owned(), column, is_identity: false }))
}
