//! `CREATE SCHEMA`, `ALTER SCHEMA` and `DROP SCHEMA`, comments on schemas, and relations that move
//! from one schema to another.

use atoll::{Catalog, Table, TableOptions, Transaction};
use sqlparser::ast::{
    AlterSchema, AlterSchemaOperation, Ident, ObjectName, SchemaName, Spanned, Statement,
};
use sqlparser::tokenizer::Span;

use super::alter::carry_out;
use super::asking::rename_in;
use super::domains::{become_domain, drop_domain};
use super::dropping::Dropping;
use super::user_types::{drop_type, rename_type};
use super::views::{become_all, drop_dependent};
use super::{Outcome, SqlSession};
use crate::alter::Alteration;
use crate::declared::domain::Domain;
use crate::error::{ApplyError, Cause, SqlError, SqlErrorKind};
use crate::interrupt::Interrupt;
use crate::notice::Notice;
use crate::parse::MARK;
use crate::prepared::query::Binder;
use crate::schemas::{self, Kept, PUBLIC, SYSTEM, flat};
use crate::scope::Scope;
use crate::sequence::definition::Definition;
use crate::sequence::owned::{is_sequence, owned};
use crate::short::scalar::Began;
use crate::user_types::UserType;
use crate::view::View;
use crate::view::follow::{self, Kept as KeptColumn, Reshaped};
use crate::{comments, names, needed};

impl SqlSession {
    /// Carries out `CREATE SCHEMA`.
    ///
    /// # Errors
    /// The schema exists; no schema can have the name.
    pub(super) fn create_schema(&mut self, statement: &Statement) -> Result<Outcome, SqlError> {
        const TAG: &str = "CREATE SCHEMA";
        let Statement::CreateSchema {
            schema_name,
            if_not_exists,
            with: None,
            options: None,
            default_collate_spec: None,
            clone: None,
        } = statement
        else {
            return Err(SqlError::unsupported("this form of CREATE SCHEMA is not supported"));
        };
        let name = match schema_name {
            SchemaName::Simple(name) => name,
            SchemaName::UnnamedAuthorization(role) | SchemaName::NamedAuthorization(_, role) => {
                let message = "AUTHORIZATION is not supported in CREATE SCHEMA";
                return Err(SqlError::unsupported(message)
                    .at(role.span)
                    .with_hint(Some("Atoll has no roles; leave it away".to_owned())));
            }
        };
        self.may_define(TAG)?;
        let ident = only(name)?;
        let schema = names::fold(ident);
        let scope = self.scope()?;
        if exists(&scope, &schema) {
            if *if_not_exists {
                let message = format!("schema \"{schema}\" already exists, skipping");
                self.tell(Notice::new("42P06", message));
                return Ok(Outcome::done(TAG, 0));
            }
            return Err(taken(&schema).at(ident.span));
        }
        check_name(&scope.catalog, ident)?;
        let made = self.define(&mut |transaction| match schema.as_str() {
            PUBLIC => schemas::set_public(transaction, true),
            _ => schemas::create(transaction, &schema, &Kept::default()),
        });
        made.map_err(|error| error.at(ident.span))?;
        Ok(Outcome::done(TAG, 0))
    }

    /// Carries out `ALTER SCHEMA`.
    ///
    /// # Errors
    /// The schema does not exist, or one of the new name does; others use its relations, and the
    /// statement does not wait for them, or not any longer.
    pub(super) fn alter_schema(&mut self, alter: &AlterSchema) -> Result<Outcome, SqlError> {
        const TAG: &str = "ALTER SCHEMA";
        let [AlterSchemaOperation::Rename { name: new }] = alter.operations.as_slice() else {
            let message = "this part of ALTER SCHEMA is not supported";
            return Err(SqlError::unsupported(message)
                .at(alter.span())
                .with_hint(Some("the part is RENAME TO".to_owned())));
        };
        self.may_define(TAG)?;
        let (old, new) = (only(&alter.name)?, only(new)?);
        let (from, to) = (names::fold(old), names::fold(new));
        let scope = self.scope()?;
        let Some(object) = own(&scope, &from).map_err(|error| error.at(old.span))? else {
            return Err(fixed("rename", &from).at(old.span));
        };
        if exists(&scope, &to) {
            return Err(taken(&to).at(new.span));
        }
        check_name(&scope.catalog, new)?;
        let (interrupt, began) = (self.interrupt(), self.began());
        let moving = Moving { scope: &scope, interrupt: &interrupt, began: &began };
        let kept = schemas::kept(&scope.catalog, &from)?;
        self.define(&mut |transaction| {
            transaction.lock_table(&object)?;
            schemas::create(transaction, &to, &kept)?;
            for relation in schemas::relations(&transaction.catalog(), &from) {
                // A sequence may have moved with its table.
                if transaction.catalog().get(&relation).is_some() {
                    let bare = relation[from.len() + 1..].to_owned();
                    moving.relation(transaction, &relation, &flat(&to, &bare))?;
                }
            }
            Ok(transaction.drop_table(&object)?)
        })?;
        Ok(Outcome::done(TAG, 0))
    }

    /// Moves a relation to another schema, under the same name.
    ///
    /// # Errors
    /// Something of the name is there; others use it, and the statement does not wait for them, or
    /// not any longer.
    pub(super) fn set_schema(
        &mut self,
        old: &str,
        new: &str,
        tag: &'static str,
    ) -> Result<Outcome, SqlError> {
        self.may_define(tag)?;
        if old == new {
            return Ok(Outcome::done(tag, 0));
        }
        self.check_creates_flat(new)?;
        let scope = self.scope()?;
        if scope.has(new) || scope.table(new).is_ok() {
            let message = format!("relation \"{new}\" already exists");
            return Err(SqlError::new(SqlErrorKind::Schema, message).with_cause(Cause::TableExists));
        }
        if let Some(table) = scope.catalog.table(old) {
            self.check_none_pending(table, tag)?;
        }
        let (interrupt, began) = (self.interrupt(), self.began());
        let moving = Moving { scope: &scope, interrupt: &interrupt, began: &began };
        self.define(&mut |transaction| moving.relation(transaction, old, new))?;
        Ok(Outcome::done(tag, 0))
    }

    /// Carries out `DROP SCHEMA`.
    ///
    /// # Errors
    /// The schema does not exist, or has relations that are not to go with it; others use them, and
    /// the statement does not wait for them, or not any longer.
    pub(super) fn drop_schemas(&mut self, statement: &Statement) -> Result<Outcome, SqlError> {
        const TAG: &str = "DROP SCHEMA";
        let Statement::Drop { if_exists, names, cascade, .. } = statement else {
            return Ok(Outcome::done(TAG, 0));
        };
        self.may_define(TAG)?;
        let scope = self.scope()?;
        let mut dropped: Vec<(String, Option<Table>)> = Vec::new();
        for name in names {
            let ident = only(name)?;
            let schema = names::fold(ident);
            match own(&scope, &schema) {
                Ok(_) if dropped.iter().any(|(one, _)| *one == schema) => {}
                Ok(Some(object)) => dropped.push((schema, Some(object))),
                Ok(None) if schema == PUBLIC => {
                    dropped.push((schema, schemas::object(&scope.catalog, PUBLIC).cloned()));
                }
                Ok(None) => return Err(fixed("drop", &schema).at(ident.span)),
                Err(_) if *if_exists && !exists(&scope, &schema) => {
                    self.tell(Notice::missing("schema", &schema));
                }
                Err(error) => return Err(error.at(ident.span)),
            }
        }
        let (interrupt, began) = (self.interrupt(), self.began());
        let dropping =
            Dropping { scope: &scope, interrupt: &interrupt, began: &began, cascades: true };
        for (schema, _) in &dropped {
            for relation in schemas::relations(&scope.catalog, schema) {
                if let Some(table) = scope.catalog.table(&relation) {
                    self.check_none_pending(table, TAG)?;
                }
            }
        }
        let mut gone: Vec<String> = Vec::new();
        self.define(&mut |transaction| {
            gone.clear();
            for (schema, object) in &dropped {
                if let Some(object) = object {
                    transaction.lock_table(object)?;
                }
                let catalog = transaction.catalog();
                let relations = schemas::relations(&catalog, schema);
                if !relations.is_empty() && !*cascade {
                    let line = |name: &String| {
                        format!("{} depends on schema {schema}", follow::described(&catalog, name))
                    };
                    let lines: Vec<_> = relations.iter().map(line).collect();
                    let object = format!("schema {schema}");
                    return Err(needed::cannot_drop(Some(&object), &lines).into());
                }
                for name in &relations {
                    if !is_owned(&catalog, name)? {
                        gone.push(follow::described(&catalog, name));
                    }
                }
                drop_all(transaction, &dropping, &relations)?;
                if let Some(object) = object {
                    transaction.drop_table(object)?;
                }
                if schema == PUBLIC {
                    schemas::set_public(transaction, false)?;
                }
            }
            Ok(())
        })?;
        self.tell_cascades(&gone);
        Ok(Outcome::done(TAG, 0))
    }

    /// Carries out `COMMENT ON SCHEMA`.
    ///
    /// # Errors
    /// The schema does not exist.
    pub(super) fn comment_on_schema(
        &mut self,
        name: &ObjectName,
        comment: Option<&str>,
    ) -> Result<Outcome, SqlError> {
        let ident = only(name)?;
        let schema = names::fold(ident);
        let scope = self.scope()?;
        own(&scope, &schema).map_err(|error| error.at(ident.span))?;
        let comment = comment.filter(|comment| !comment.is_empty()).map(str::to_owned);
        self.define(&mut |transaction| {
            schemas::change(transaction, &schema, |kept| kept.comment.clone_from(&comment))
        })?;
        Ok(Outcome::done("COMMENT", 0))
    }
}

/// Drops relations, and what depends on them.
fn drop_all(
    transaction: &mut Transaction,
    dropping: &Dropping<'_>,
    relations: &[String],
) -> Result<(), ApplyError> {
    let names: Vec<&str> = relations.iter().map(String::as_str).collect();
    let dependent = follow::dependent(&transaction.catalog(), &names)?;
    drop_dependent(transaction, &dependent)?;
    // One by one, since the views of the schema may be among those that depend on others.
    for name in &names {
        let Some(object) = transaction.catalog().object(name).cloned() else { continue };
        if View::of(object.schema())?.is_some() {
            transaction.drop_table(&object)?;
            comments::dropped(transaction, name)?;
        }
    }
    let catalog = transaction.catalog();
    let tables: Vec<Table> = names.iter().filter_map(|name| catalog.table(name)).cloned().collect();
    dropping.tables(transaction, &tables)?;
    // Those of the tables have gone with them.
    for name in &names {
        let Some(object) = transaction.catalog().object(name).cloned() else { continue };
        match UserType::find(&transaction.catalog(), name)? {
            Some(UserType::Enum(_)) => drop(drop_type(transaction, &object, dropping)?),
            Some(UserType::Domain(..)) => drop(drop_domain(transaction, &object, dropping)?),
            None => {}
        }
        if transaction.catalog().object(name).is_none() {
            continue;
        }
        if !is_sequence(&object) {
            let message = format!("\"{name}\" is of a kind that cannot be dropped with its schema");
            return Err(SqlError::unsupported(message).into());
        }
        dropping.sequences(transaction, &[object])?;
    }
    Ok(())
}

/// Whether something is a sequence that goes with its table.
fn is_owned(catalog: &Catalog, name: &str) -> Result<bool, SqlError> {
    match catalog.object(name).filter(|object| is_sequence(object)) {
        Some(sequence) => Ok(Definition::of(sequence)?.owner.is_some()),
        None => Ok(false),
    }
}

/// How relations move.
struct Moving<'m> {
    scope: &'m Scope,
    interrupt: &'m Interrupt,
    began: &'m Began,
}

impl Moving<'_> {
    /// Gives a relation another flat name. Sequences of its columns move with a table.
    fn relation(
        &self,
        transaction: &mut Transaction,
        old: &str,
        new: &str,
    ) -> Result<(), ApplyError> {
        let catalog = transaction.catalog();
        let Some(object) = catalog.get(old).cloned() else { return Ok(()) };
        let version = transaction.committed_catalog_version();
        let scope = Scope::within(&self.scope.db, version, catalog.clone());
        let binder = Binder { scope: &scope, interrupt: self.interrupt };
        if object.schema().object().is_none() {
            let of_columns = owned(&catalog, old)?;
            let mut alteration = Alteration::of(&scope, object, Span::empty())?;
            alteration.move_to(&scope, new);
            let altered = alteration.finish_all(&binder)?;
            carry_out(transaction, &binder, &altered, self.began)?;
            for (sequence, _) in of_columns {
                let (of_table, of_sequence) =
                    (schema_of(&scope, old), schema_of(&scope, sequence.name()));
                if of_table == of_sequence {
                    let bare = scope.bare(sequence.name());
                    let beside = scope.beside(new, bare);
                    self.relation(transaction, sequence.name(), &beside)?;
                }
            }
            return Ok(());
        }
        if is_sequence(&object) {
            return rename_in(transaction, &scope, &object, new, (self.interrupt, self.began));
        }
        let by = (&scope, self.interrupt, self.began);
        match UserType::find(&catalog, old)? {
            Some(UserType::Enum(labels)) => {
                return rename_type(transaction, (&object, labels), new, by);
            }
            Some(UserType::Domain(domain, of)) => {
                let to = Domain { name: new.to_owned(), ..domain.clone() };
                return become_domain(transaction, &object, (&domain, &to, of, false), by);
            }
            None => {}
        }
        let Some(view) = View::of(object.schema())? else {
            let message = format!("\"{old}\" is of a kind that cannot get another schema");
            return Err(SqlError::unsupported(message).into());
        };
        transaction.lock_table(&object)?;
        let columns: Vec<KeptColumn> = view
            .columns
            .iter()
            .map(|column| KeptColumn {
                old: column.name.clone(),
                new: column.name.clone(),
                has_other_type: false,
            })
            .collect();
        let to = Reshaped { old, new, columns: &columns, cascades: false };
        let others = follow::reshaped(&transaction.catalog(), &to)?;
        transaction.drop_table(&object)?;
        transaction.create_table(new, object.schema().clone(), &TableOptions::default())?;
        comments::follow(transaction, (old, new), &columns, |_| ())?;
        become_all(transaction, others)
    }
}

fn schema_of<'n>(scope: &Scope, name: &'n str) -> &'n str {
    schemas::split(name, &|name| scope.has(name)).0
}

fn exists(scope: &Scope, schema: &str) -> bool {
    SYSTEM.contains(&schema) || schemas::exists(schema, &|name| scope.has(name))
}

/// The object of a schema; `None` for one of the system, and for `public`.
fn own(scope: &Scope, schema: &str) -> Result<Option<Table>, SqlError> {
    match schemas::object(&scope.catalog, schema) {
        _ if schema == PUBLIC && !exists(scope, schema) => Err(schemas::unknown(schema)),
        _ if schema == PUBLIC || SYSTEM.contains(&schema) => Ok(None),
        Some(object) => Ok(Some(object.clone())),
        None => Err(schemas::unknown(schema)),
    }
}

/// The one part of the name of a schema.
fn only(name: &ObjectName) -> Result<&Ident, SqlError> {
    let ident = match name.0.as_slice() {
        [part] => part.as_ident(),
        _ => None,
    };
    ident.ok_or_else(|| {
        let message = format!("{name} is not the name of a schema");
        SqlError::new(SqlErrorKind::Syntax, message).at(name.span())
    })
}

/// Checks that a new schema may have a name (`SCHEMA-2`).
fn check_name(catalog: &Catalog, ident: &Ident) -> Result<(), SqlError> {
    let schema = names::fold(ident);
    let wrong = |message: String| SqlError::new(SqlErrorKind::Schema, message).at(ident.span);
    if schema.starts_with("pg_") {
        let detail = "The prefix \"pg_\" is reserved for system schemas.".to_owned();
        let error = wrong(format!("unacceptable schema name \"{schema}\""));
        return Err(error.with_state("42939").with_detail(detail));
    }
    if schema.contains('.') || schema.is_empty() {
        let message = format!("a schema cannot have the name \"{schema}\"");
        let hint = "its name has at least one character, and no dot".to_owned();
        return Err(wrong(message).with_cause(Cause::InvalidName).with_hint(Some(hint)));
    }
    let relations = catalog.tables().chain(catalog.objects()).map(Table::name);
    let mut relations = relations.filter(|name| !name.starts_with(MARK));
    let would_move = |name: &&str| name.strip_prefix(&schema).is_some_and(|n| n.starts_with('.'));
    match relations.find(would_move) {
        None => Ok(()),
        Some(name) => {
            let message =
                format!("\"{name}\" in the schema \"public\" would be one of schema \"{schema}\"");
            let hint = format!("ALTER TABLE \"{name}\" RENAME TO a name without a dot first");
            Err(wrong(message).with_cause(Cause::TableExists).with_hint(Some(hint)))
        }
    }
}

fn taken(schema: &str) -> SqlError {
    let message = format!("schema \"{schema}\" already exists");
    SqlError::new(SqlErrorKind::Schema, message).with_state("42P06")
}

/// The error for a schema that is always there.
fn fixed(what: &str, schema: &str) -> SqlError {
    let message = format!("cannot {what} schema {schema}");
    SqlError::new(SqlErrorKind::Schema, message).with_cause(Cause::Needed)
}
