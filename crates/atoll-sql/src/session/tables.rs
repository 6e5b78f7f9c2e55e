//! `CREATE TABLE` and `DROP TABLE`: in the open transaction, or as transactions of their own.

use atoll::{Durability, Table, Transaction, TransactionOptions, TxnError};
use sqlparser::ast::{CreateTable, Statement};

use super::bound::{BINDINGS_MAX, is_of_an_older_table};
use super::dropping::Dropping;
use super::privileges::with_owner;
use super::{Outcome, SqlSession, Target};
use crate::ddl;
use crate::declared::Declared;
use crate::error::{ApplyError, SqlError, SqlErrorKind};
use crate::foreign::define;
use crate::notice::Notice;
use crate::prepared::query::Binder;
use crate::sequence::owned;
use crate::txn::read_only;
use crate::user_types::{UserType, resolve, use_types};
use crate::view::View;
use crate::{comments, names};

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
        self.check_table_options(&create.table_options)?;
        let (scope, interrupt) = (self.scope()?, self.interrupt());
        let (_, span) = names::table_name(&create.name)?;
        let binder = Binder { scope: &scope, interrupt: &interrupt };
        let find = |name: &str| UserType::find(&scope.catalog, name);
        let create = &resolve::create_table(create, &find)?;
        if let Some(new) = ddl::new_table(&binder, create)? {
            let keys = Declared::of(&new.schema)?.foreign_keys;
            let parents = define::parents(&scope, &new.name, &keys)?;
            let made = self.define(&mut |transaction| {
                // No statement may go on that knows nothing of the foreign keys (`FOREIGN-2`).
                parents.iter().try_for_each(|parent| transaction.lock_table(parent))?;
                owned::use_asked(transaction, &scope.catalog, &new.schema)?;
                use_types(transaction, &scope.catalog, &new.schema)?;
                transaction.create_table(&new.name, new.schema.clone(), &new.options)?;
                // A program may have dropped another of this name, without SQL.
                comments::dropped(transaction, &new.name)?;
                new.sequences
                    .iter()
                    .try_for_each(|one| owned::create(transaction, &one.name, &one.definition))
            });
            made.map_err(|error| error.at(span))?;
        } else {
            self.tell(Notice::exists(&names::last(&create.name)));
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
        for written in names {
            let (name, span) = names::table_name(written)?;
            match names::find_table(&scope, &name, span) {
                Ok(table) if tables.iter().any(|one| one.name() == table.name()) => {}
                Ok(table) => tables.push(table),
                Err(error) if View::find(&scope.catalog, &name)?.is_some() => {
                    let hint = "Use DROP VIEW to remove a view.".to_owned();
                    return Err(error.with_hint(Some(hint)));
                }
                Err(error) if *if_exists && error.kind() == SqlErrorKind::UnknownTable => {
                    self.tell_missing(&scope, "table", written);
                }
                Err(error) => return Err(error),
            }
        }
        if tables.is_empty() {
            return Ok(Outcome::done("DROP TABLE", 0));
        }
        tables.iter().try_for_each(|table| self.check_none_pending(table, "DROP TABLE"))?;
        let (interrupt, began) = (self.interrupt(), self.began());
        let dropping =
            Dropping { scope: &scope, interrupt: &interrupt, began: &began, cascades: *cascade };
        let mut gone = Vec::new();
        self.define(&mut |transaction| {
            gone = dropping.tables(transaction, &tables)?;
            Ok(())
        })?;
        self.tell_cascades(&gone);
        Ok(Outcome::done("DROP TABLE", 0))
    }

    /// Carries out a definition, and again where another session has altered one of its tables
    /// since their names were looked up. Within a transaction that is an error.
    pub(super) fn in_turn(
        &mut self,
        mut define: impl FnMut(&mut Self) -> Result<Outcome, SqlError>,
    ) -> Result<Outcome, SqlError> {
        let told = self.notices.len();
        for _ in 1..BINDINGS_MAX {
            self.notices.truncate(told);
            let done = define(self);
            if self.in_transaction() || !done.as_ref().is_err_and(is_of_an_older_table) {
                return done;
            }
            self.interrupt().check_now()?;
        }
        self.notices.truncate(told);
        define(self)
    }

    /// Checks that the session may make definitions, also where one would do nothing.
    pub(super) fn may_define(&self, what: &str) -> Result<(), SqlError> {
        self.writable(what)?;
        match &self.target {
            Target::Database { open: Some(open), .. } => open.check_may_write(true),
            Target::Database { .. } if self.settings.now().read_only => Err(read_only()),
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
        match self.owner() {
            Some(owner) => {
                let db = self.writable("a definition")?.clone();
                self.define_now(&mut |transaction| {
                    with_owner(&db, transaction, &owner, &mut |transaction| define(transaction))
                })
            }
            None => self.define_now(define),
        }
    }

    fn define_now(
        &mut self,
        define: &mut dyn FnMut(&mut Transaction) -> Result<(), ApplyError>,
    ) -> Result<(), SqlError> {
        let (interrupt, durability) = (self.interrupt(), self.settings.now().durability);
        let db = match &mut self.target {
            Target::Database { open: Some(open), .. } => return open.define(&interrupt, define),
            Target::Database { .. } if self.settings.now().read_only => return Err(read_only()),
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
