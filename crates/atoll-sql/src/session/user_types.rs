//! `CREATE TYPE`, `ALTER TYPE` and `DROP TYPE`.

use atoll::{Labels, Table, TableOptions, Transaction};
use sqlparser::ast::{
    AlterType, AlterTypeAddValue, AlterTypeAddValuePosition, AlterTypeOperation, Ident, ObjectName,
    Statement, UserDefinedTypeRepresentation,
};
use sqlparser::tokenizer::Span;

use super::alter::carry_out;
use super::dropping::Dropping;
use super::{Outcome, SqlSession};
use crate::alter::Alteration;
use crate::error::{ApplyError, Cause, SqlError, SqlErrorKind};
use crate::interrupt::Interrupt;
use crate::notice::Notice;
use crate::prepared::query::Binder;
use crate::scope::Scope;
use crate::short::scalar::Began;
use crate::user_types::follow::{self, Mention};
use crate::user_types::{UserType, enum_in, enum_of, schema_of, unknown, users};
use crate::{comments, names, needed};

/// The label that is written in a statement.
fn label(ident: &Ident) -> Result<String, SqlError> {
    match ident.quote_style {
        Some('\'') => Ok(ident.value.clone()),
        _ => {
            let message = format!("a label stands in single quotes, here {ident}");
            Err(SqlError::new(SqlErrorKind::Syntax, message).at(ident.span))
        }
    }
}

fn invalid(message: String) -> SqlError {
    SqlError::new(SqlErrorKind::Schema, message).with_cause(Cause::InvalidParameter)
}

fn exists(label: &str) -> SqlError {
    let message = format!("enum label \"{label}\" already exists");
    SqlError::new(SqlErrorKind::Schema, message).with_cause(Cause::ConstraintExists)
}

/// The labels of a type with one more; `None` if it is there and may be.
fn with_label(
    labels: Labels,
    AlterTypeAddValue { if_not_exists, value, position }: &AlterTypeAddValue,
) -> Result<Option<Vec<String>>, SqlError> {
    let new = label(value)?;
    let mut all = labels.labels().to_vec();
    if all.contains(&new) {
        return if *if_not_exists { Ok(None) } else { Err(exists(&new).at(value.span)) };
    }
    let place = |neighbor: &Ident| {
        let name = label(neighbor)?;
        let at = labels.labels().iter().position(|one| *one == name);
        at.ok_or_else(|| {
            invalid(format!("\"{name}\" is not an existing enum label")).at(neighbor.span)
        })
    };
    let at = match position {
        None => all.len(),
        Some(AlterTypeAddValuePosition::Before(neighbor)) => place(neighbor)?,
        Some(AlterTypeAddValuePosition::After(neighbor)) => place(neighbor)? + 1,
    };
    all.insert(at, new);
    Ok(Some(all))
}

/// A type that becomes another one.
struct Change<'c> {
    object: &'c Table,
    old: Labels,
    new: Labels,
    /// The label that gets another name.
    renamed: Option<(String, String)>,
}

impl SqlSession {
    /// Carries out `CREATE TYPE`.
    ///
    /// # Errors
    /// A type that is no enum; a label that is none, or is there twice; the name exists.
    pub(super) fn create_type(
        &mut self,
        name: &ObjectName,
        representation: Option<&UserDefinedTypeRepresentation>,
    ) -> Result<Outcome, SqlError> {
        const TAG: &str = "CREATE TYPE";
        self.may_define(TAG)?;
        let (name, span) = names::table_name(name)?;
        let Some(UserDefinedTypeRepresentation::Enum { labels }) = representation else {
            let message = "CREATE TYPE makes enums: CREATE TYPE name AS ENUM ('label', …)";
            return Err(SqlError::unsupported(message).at(span));
        };
        let labels = labels.iter().map(label).collect::<Result<Vec<_>, _>>()?;
        let labels = enum_of(&name, &labels).map_err(|error| error.at(span))?;
        if self.scope()?.has(&name) {
            return Err(type_exists(&name).at(span));
        }
        let schema = schema_of(labels).map_err(|error| error.at(span))?;
        let made = self.define(&mut |transaction| {
            transaction.create_table(&name, schema.clone(), &TableOptions::default())?;
            comments::dropped(transaction, &name)
        });
        made.map_err(|error| error.at(span))?;
        Ok(Outcome::done(TAG, 0))
    }

    /// Carries out `ALTER TYPE`.
    ///
    /// # Errors
    /// A type that does not exist, or is no enum; labels that do not exist, or exist already;
    /// others use a table with a column of the type, and the statement does not wait for them.
    pub(super) fn alter_type(&mut self, alter: &AlterType) -> Result<Outcome, SqlError> {
        const TAG: &str = "ALTER TYPE";
        self.may_define(TAG)?;
        let scope = self.scope()?;
        let (name, span) = names::table_name(&alter.name)?;
        let (object, old) = find(&scope, &name).map_err(|error| error.at(span))?;
        let mut renamed = None;
        let (name, labels) = match &alter.operation {
            AlterTypeOperation::Rename(rename) => {
                (scope.beside(&name, &names::fold(&rename.new_name)), old.labels().to_vec())
            }
            AlterTypeOperation::AddValue(add) => match with_label(old, add)? {
                Some(labels) => (name, labels),
                None => {
                    let label = label(&add.value)?;
                    let message = format!("enum label \"{label}\" already exists, skipping");
                    self.tell(Notice::new("42710", message));
                    return Ok(Outcome::done(TAG, 0));
                }
            },
            AlterTypeOperation::RenameValue(rename) => {
                let (from, to) = (label(&rename.from)?, label(&rename.to)?);
                let Some(at) = old.labels().iter().position(|one| *one == from) else {
                    let message = format!("\"{from}\" is not an existing enum label");
                    return Err(invalid(message).at(rename.from.span));
                };
                if old.code(&to).is_some() {
                    return Err(exists(&to).at(rename.to.span));
                }
                let mut labels = old.labels().to_vec();
                labels[at].clone_from(&to);
                renamed = Some((from, to));
                (name, labels)
            }
        };
        let new = enum_of(&name, &labels).map_err(|error| error.at(span))?;
        if new.name() != old.name() && scope.has(new.name()) {
            return Err(type_exists(new.name()).at(span));
        }
        for (table, _) in users(&scope.catalog, old.name()) {
            self.check_none_pending(&table, TAG)?;
        }
        let change = Change { object: &object, old, new, renamed };
        let (interrupt, began) = (self.interrupt(), self.began());
        self.define(&mut |transaction| change.carry_out(transaction, &scope, &interrupt, &began))?;
        Ok(Outcome::done(TAG, 0))
    }

    /// Carries out `DROP TYPE`.
    ///
    /// # Errors
    /// A type that does not exist, or that something depends on; others use a table with a column
    /// of the type, and the statement does not wait for them.
    pub(super) fn drop_types(&mut self, statement: &Statement) -> Result<Outcome, SqlError> {
        const TAG: &str = "DROP TYPE";
        let Statement::Drop { if_exists, names, cascade, .. } = statement else {
            return Ok(Outcome::done(TAG, 0));
        };
        self.may_define(TAG)?;
        let scope = self.scope()?;
        let mut types: Vec<(Table, Labels)> = Vec::new();
        for written in names {
            let (name, span) = names::table_name(written)?;
            match find(&scope, &name) {
                Ok(found) if types.iter().any(|(one, _)| one.name() == found.0.name()) => {}
                Ok(found) => types.push(found),
                Err(error) if *if_exists && error.cause() == Some(Cause::UnknownObject) => {
                    self.tell_missing(&scope, "type", written);
                }
                Err(error) => return Err(error.at(span)),
            }
        }
        for (_, labels) in &types {
            for (table, _) in users(&scope.catalog, labels.name()) {
                self.check_none_pending(&table, TAG)?;
            }
        }
        let (interrupt, began) = (self.interrupt(), self.began());
        let dropping =
            Dropping { scope: &scope, interrupt: &interrupt, began: &began, cascades: *cascade };
        let mut gone = Vec::new();
        self.define(&mut |transaction| {
            gone.clear();
            for (object, _) in &types {
                gone.extend(drop_type(transaction, object, &dropping)?);
            }
            Ok(())
        })?;
        self.tell_cascades(&gone);
        Ok(Outcome::done(TAG, 0))
    }
}

/// Drops a type. Returns what is gone with it.
///
/// # Errors
/// As `DROP TYPE`.
pub(super) fn drop_type(
    transaction: &mut Transaction,
    object: &Table,
    dropping: &Dropping<'_>,
) -> Result<Vec<String>, ApplyError> {
    let name = object.name();
    transaction.lock_table(object)?;
    if let Some(UserType::Enum(labels)) = UserType::of(name, object.schema())? {
        check_no_domain(transaction, labels)?;
    }
    let users = users(&transaction.catalog(), name);
    drop_with_columns(transaction, object, &users, dropping)
}

/// Drops the object of a type, and the columns that have the type. Returns what is gone with it.
///
/// # Errors
/// There are such columns, or expressions that mention the type, and they are not to go with it;
/// an expression is left.
pub(super) fn drop_with_columns(
    transaction: &mut Transaction,
    object: &Table,
    users: &[(Table, Vec<String>)],
    dropping: &Dropping<'_>,
) -> Result<Vec<String>, ApplyError> {
    let name = object.name();
    let mut gone = Vec::new();
    let mentions = mentions(transaction, Mention::Type(name))?;
    if !(dropping.cascades || users.is_empty() && mentions.is_empty()) {
        return Err(still_needed(name, users, mentions).into());
    }
    for (table, columns) in users {
        let scope = within(dropping.scope, transaction);
        let binder = Binder { scope: &scope, interrupt: dropping.interrupt };
        let table = names::find_table(&scope, table.name(), Span::empty())?;
        transaction.lock_table(&table)?;
        let mut alteration = Alteration::of(&scope, table, Span::empty())?;
        alteration.drop_columns(columns)?;
        let altered = alteration.finish_all(&binder)?;
        let name = altered.first().map_or("", |one| one.old.name());
        gone.extend(columns.iter().map(|column| format!("column {column} of table {name}")));
        gone.extend(carry_out(transaction, &binder, &altered, dropping.began)?);
    }
    if let Some(left) = mentions_left(transaction, name)? {
        return Err(left.into());
    }
    transaction.drop_table(object)?;
    comments::dropped(transaction, name)?;
    Ok(gone)
}

/// Gives a type another name.
///
/// # Errors
/// As `ALTER TYPE … RENAME TO`.
pub(super) fn rename_type(
    transaction: &mut Transaction,
    (object, old): (&Table, Labels),
    new: &str,
    (scope, interrupt, began): (&Scope, &Interrupt, &Began),
) -> Result<(), ApplyError> {
    let new = enum_of(new, old.labels())?;
    Change { object, old, new, renamed: None }.carry_out(transaction, scope, interrupt, began)
}

impl Change<'_> {
    fn carry_out(
        &self,
        transaction: &mut Transaction,
        scope: &Scope,
        interrupt: &Interrupt,
        began: &Began,
    ) -> Result<(), ApplyError> {
        let Self { object, old, new, renamed } = self;
        transaction.lock_table(object)?;
        self.check_texts(transaction)?;
        let users = users(&transaction.catalog(), old.name());
        transaction.drop_table(object)?;
        transaction.create_table(new.name(), schema_of(*new)?, &TableOptions::default())?;
        comments::follow(transaction, (old.name(), new.name()), &[], |_| ())?;
        for (table, _) in &users {
            let scope = within(scope, transaction);
            let binder = Binder { scope: &scope, interrupt };
            let table = names::find_table(&scope, table.name(), Span::empty())?;
            transaction.lock_table(&table)?;
            let mut alteration = Alteration::of(&scope, table, Span::empty())?;
            alteration.change_enum(*old, *new, renamed.as_ref());
            let altered = alteration.finish(&binder)?;
            carry_out(transaction, &binder, &[altered], began)?;
        }
        Ok(())
    }

    /// Checks that no text which stays mentions what gets another name.
    fn check_texts(&self, transaction: &Transaction) -> Result<(), SqlError> {
        check_no_domain(transaction, self.old)?;
        let mention = match &self.renamed {
            Some((label, _)) => Mention::Text(label),
            None if self.old.name() != self.new.name() => Mention::Type(self.old.name()),
            None => return Ok(()),
        };
        let catalog = transaction.catalog();
        let users = users(&catalog, self.old.name());
        let is_user = |name: &str| users.iter().any(|(table, _)| table.name() == name);
        let is_type = matches!(mention, Mention::Type(_));
        let found =
            follow::mentioning(&catalog, mention, (&|name| is_type || is_user(name), is_type))?;
        let Some(first) = found.first() else { return Ok(()) };
        let message = format!("the name cannot be changed: {first} mentions it");
        Err(SqlError::unsupported(message)
            .with_hint(Some("drop it first, and make it anew".into())))
    }
}

/// Checks that no domain has the values of an enum.
fn check_no_domain(transaction: &Transaction, labels: Labels) -> Result<(), SqlError> {
    let catalog = transaction.catalog();
    for object in catalog.objects() {
        if let Some(UserType::Domain(domain, of)) = UserType::of(object.name(), object.schema())?
            && enum_in(of) == Some(labels)
        {
            let message = format!(
                "cannot change type {} because domain {} depends on it",
                labels.shown(),
                domain.name
            );
            return Err(SqlError::new(SqlErrorKind::Schema, message).with_cause(Cause::Needed));
        }
    }
    Ok(())
}

/// The scope as a transaction sees it.
pub(super) fn within(scope: &Scope, transaction: &Transaction) -> Scope {
    let version = transaction.committed_catalog_version();
    Scope::within(&scope.db, version, transaction.catalog())
}

/// The enum of a name, and its object.
fn find(scope: &Scope, name: &str) -> Result<(Table, Labels), SqlError> {
    let object = scope.catalog.get(name).ok_or_else(|| unknown(name))?;
    match UserType::find(&scope.catalog, name)? {
        Some(UserType::Enum(labels)) => Ok((object.clone(), labels)),
        Some(UserType::Domain(..)) | None => {
            let message = format!("\"{name}\" is not an enum");
            Err(SqlError::new(SqlErrorKind::Schema, message).with_cause(Cause::OtherObject))
        }
    }
}

pub(super) fn type_exists(name: &str) -> SqlError {
    let message = format!("type \"{name}\" already exists");
    SqlError::new(SqlErrorKind::Schema, message).with_cause(Cause::ConstraintExists)
}

fn mentions(transaction: &Transaction, mention: Mention<'_>) -> Result<Vec<String>, SqlError> {
    follow::mentioning(&transaction.catalog(), mention, (&|_| true, true))
}

/// The error of a type that something depends on.
fn still_needed(name: &str, users: &[(Table, Vec<String>)], mentions: Vec<String>) -> SqlError {
    let columns = users.iter().flat_map(|(table, columns)| {
        columns.iter().map(move |column| format!("column {column} of table {}", table.name()))
    });
    let lines = columns.chain(mentions).map(|part| format!("{part} depends on type {name}"));
    needed::cannot_drop(Some(&format!("type {name}")), &lines.collect::<Vec<_>>())
}

/// The error of what still mentions a type when its columns are gone.
fn mentions_left(transaction: &Transaction, name: &str) -> Result<Option<SqlError>, SqlError> {
    let left = mentions(transaction, Mention::Type(name))?;
    Ok(left.first().map(|first| {
        let message = format!("DROP TYPE … CASCADE does not drop {first}, which mentions the type");
        SqlError::unsupported(message).with_hint(Some("drop it first".to_owned()))
    }))
}
