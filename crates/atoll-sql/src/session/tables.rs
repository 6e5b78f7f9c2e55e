//! `CREATE TABLE` and `DROP TABLE`: in the open transaction, or as transactions of their own.

use atoll::{Durability, Table, Transaction, TransactionOptions, TxnError};
use sqlparser::ast::{CreateTable, Statement};
use sqlparser::tokenizer::Span;

use super::alter::remake;
use super::bound::{BINDINGS_MAX, is_of_an_older_table};
use super::views::drop_dependent;
use super::{Outcome, SqlSession, Target, sequences};
use crate::alter::{Alteration, Altered};
use crate::ddl;
use crate::declared::Declared;
use crate::error::{ApplyError, SqlError, SqlErrorKind};
use crate::foreign::{define, references};
use crate::foreign_key::ForeignKey;
use crate::prepared::query::Binder;
use crate::scope::Scope;
use crate::sequence::owned::{self, Changed};
use crate::txn::read_only;
use crate::view::{View, follow};
use crate::{comments, names, needed};

/// Attempts of a definition that conflicts with others.
const ATTEMPTS_MAX: u32 = 1000;

impl SqlSession {
    /// Carries out `CREATE TABLE`.
    ///
    /// # Errors
    /// Those of the statement; a table of the name exists; others create or drop one, and the
    /// statement does not wait for them, or not any longer.
    pub(super) fn create_table(&mut self, create: &CreateTable) -> Result<Outcome, SqlError> {
        self.may_define("CREATE TABLE")?;
        let (scope, interrupt) = (self.scope()?, self.interrupt());
        let (_, span) = names::table_name(&create.name)?;
        let binder = Binder { scope: &scope, interrupt: &interrupt };
        if let Some(new) = ddl::new_table(&binder, create)? {
            let keys = Declared::of(&new.schema)?.foreign_keys;
            let parents = define::parents(&scope, &new.name, &keys)?;
            let made = self.define(&mut |transaction| {
                // No statement may go on that knows nothing of the foreign keys (`FOREIGN-2`).
                parents.iter().try_for_each(|parent| transaction.lock_table(parent))?;
                owned::use_asked(transaction, &scope.catalog, &new.schema)?;
                transaction.create_table(&new.name, new.schema.clone(), &new.options)?;
                // A program may have dropped another of this name, without SQL.
                comments::dropped(transaction, &new.name)?;
                new.sequences
                    .iter()
                    .try_for_each(|one| owned::create(transaction, &one.name, &one.definition))
            });
            made.map_err(|error| error.at(span))?;
        }
        Ok(Outcome::done("CREATE TABLE", 0))
    }

    /// Carries out `DROP TABLE`.
    ///
    /// # Errors
    /// A table that does not exist, or that another one refers to; others use one, and the
    /// statement does not wait for them, or not any longer.
    pub(super) fn drop_tables(&mut self, statement: &Statement) -> Result<Outcome, SqlError> {
        let Statement::Drop { if_exists, names, cascade, purge, temporary, table, .. } = statement
        else {
            return Ok(Outcome::done("DROP TABLE", 0));
        };
        if *purge || *temporary || table.is_some() {
            return Err(SqlError::unsupported("this form of DROP TABLE is not supported"));
        }
        self.may_define("DROP TABLE")?;
        let scope = self.scope()?;
        let mut tables: Vec<Table> = Vec::new();
        for name in names {
            let (name, span) = names::table_name(name)?;
            match names::find_table(&scope, &name, span) {
                Ok(table) if tables.iter().any(|one| one.name() == table.name()) => {}
                Ok(table) => tables.push(table),
                Err(error) if *if_exists && error.kind() == SqlErrorKind::UnknownTable => {}
                Err(error) if View::find(&scope.catalog, &name)?.is_some() => {
                    let hint = "Use DROP VIEW to remove a view.".to_owned();
                    return Err(error.with_hint(Some(hint)));
                }
                Err(error) => return Err(error),
            }
        }
        if tables.is_empty() {
            return Ok(Outcome::done("DROP TABLE", 0));
        }
        tables.iter().try_for_each(|table| self.check_none_pending(table, "DROP TABLE"))?;
        let names: Vec<&str> = tables.iter().map(Table::name).collect();
        let (interrupt, began) = (self.interrupt(), self.began());
        self.define(&mut |transaction| {
            tables.iter().try_for_each(|table| transaction.lock_table(table))?;
            let dependent = references::dependent(&transaction.catalog(), &names)?;
            let views = follow::dependent(&transaction.catalog(), &names)?;
            let is_needed = !dependent.is_empty() || !views.is_empty();
            if !*cascade && is_needed {
                let object = (names.len() == 1).then(|| format!("table {}", names[0]));
                let mut lines = references::lines(&dependent);
                lines.extend(views.iter().map(follow::Dependent::line));
                return Err(needed::cannot_drop(object.as_deref(), &lines).into());
            }
            drop_dependent(transaction, &views)?;
            let version = transaction.committed_catalog_version();
            let scope = Scope::within(&scope.db, version, transaction.catalog());
            let binder = Binder { scope: &scope, interrupt: &interrupt };
            for altered in without_foreign_keys(&binder, &dependent)? {
                remake(transaction, &binder, &altered, &began)?;
                let name = altered.old.name();
                let parts = |all: &mut _| altered.name_parts(all);
                comments::follow(transaction, (name, name), &altered.columns, parts)?;
            }
            for table in &tables {
                for (object, _) in owned::owned(&transaction.catalog(), table.name())? {
                    sequences::check_not_asked(&transaction.catalog(), object.name(), &names)?;
                    owned::change(transaction, &Changed { object, new: None })?;
                }
            }
            for table in &tables {
                transaction.drop_table(table)?;
                comments::dropped(transaction, table.name())?;
            }
            Ok(())
        })?;
        Ok(Outcome::done("DROP TABLE", 0))
    }

    /// Carries out a definition, and again where another session has altered one of its tables
    /// since their names were looked up. Within a transaction that is an error.
    pub(super) fn in_turn(
        &mut self,
        mut define: impl FnMut(&mut Self) -> Result<Outcome, SqlError>,
    ) -> Result<Outcome, SqlError> {
        for _ in 1..BINDINGS_MAX {
            let done = define(self);
            if self.in_transaction() || !done.as_ref().is_err_and(is_of_an_older_table) {
                return done;
            }
            self.interrupt().check_now()?;
        }
        define(self)
    }

    /// Checks that the session may make definitions, also where one would do nothing.
    pub(super) fn may_define(&self, what: &str) -> Result<(), SqlError> {
        self.writable(what)?;
        match &self.target {
            Target::Database { open: Some(open), .. } => open.check_may_write(true),
            Target::Database { .. } if self.read_only => Err(read_only()),
            _ => Ok(()),
        }
    }

    /// Makes a definition, in the open transaction or in one of its own.
    ///
    /// # Errors
    /// Those of the definition.
    pub(super) fn define(
        &mut self,
        define: &mut dyn FnMut(&mut Transaction) -> Result<(), ApplyError>,
    ) -> Result<(), SqlError> {
        let (interrupt, durability) = (self.interrupt(), self.settings.now().durability);
        let db = match &mut self.target {
            Target::Database { open: Some(open), .. } => return open.define(&interrupt, define),
            Target::Database { .. } if self.read_only => return Err(read_only()),
            Target::Database { db, .. } => db.clone(),
            Target::Snapshot(_) => return Ok(()),
        };
        let options = TransactionOptions { durability, ..TransactionOptions::default() };
        for _ in 0..ATTEMPTS_MAX {
            let mut transaction = db.begin_with(&options)?;
            transaction.set_patience(interrupt.patience()).map_err(atoll::Error::from)?;
            let done =
                define(&mut transaction).and_then(|()| transaction.commit().map_err(Into::into));
            interrupt.check_now()?;
            match done {
                Ok(()) => {
                    // It survives what the database's commits do, and no less than this session's.
                    if durability.is_some_and(|wanted| wanted != Durability::None) {
                        db.flush()?;
                    }
                    return Ok(());
                }
                Err(ApplyError::Abort(reason)) if reason.is_conflict() => {}
                Err(ApplyError::Abort(reason)) => {
                    return Err(atoll::Error::from(TxnError::Abort(reason)).into());
                }
                Err(ApplyError::Error(error)) => return Err(error),
            }
        }
        let message = format!("the statement was aborted {ATTEMPTS_MAX} times by others");
        Err(SqlError::new(SqlErrorKind::Aborted, message))
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
        let mut alteration = Alteration::of(table, Span::empty())?;
        alteration.drop_foreign_keys(&names);
        alteration.finish(binder)
    };
    children.into_iter().map(without).collect()
}
