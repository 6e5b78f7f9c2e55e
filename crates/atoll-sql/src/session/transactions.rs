//! Statements that begin, end and shape transactions.

use std::sync::Arc;

use sqlparser::ast::Ident;

use super::{Outcome, SqlSession, Target};
use crate::error::{Cause, SqlError, SqlErrorKind};
use crate::isolation::{Isolation, Modes, ShownModes};
use crate::literal::Literal;
use crate::names;
use crate::result::QueryResult;
use crate::short::scalar::now;
use crate::txn::OpenTransaction;

/// Attempts of [`SqlSession::execute_many`] that begins its own transaction.
const ATTEMPTS_MAX: u32 = 100;

impl SqlSession {
    /// Runs a statement once for each list of values, all of them or none, and returns the number
    /// of rows that they changed: in the open transaction, or in one of their own.
    ///
    /// # Errors
    /// That of the first list for which the statement fails, with its number. An open transaction
    /// takes no further statement then.
    pub fn execute_many(&mut self, sql: &str, lists: &[Vec<Literal>]) -> Result<u64, SqlError> {
        if self.in_transaction() {
            return self.each(sql, lists);
        }
        let mut attempt = 0;
        loop {
            self.execute("BEGIN")?;
            let done = self.each(sql, lists).and_then(|rows| {
                self.execute("COMMIT")?;
                Ok(rows)
            });
            if self.in_transaction() {
                self.execute("ROLLBACK")?;
            }
            match done {
                Err(error) if error.kind() == SqlErrorKind::Aborted && attempt < ATTEMPTS_MAX => {
                    attempt += 1;
                }
                done => return done,
            }
        }
    }

    fn each(&mut self, sql: &str, lists: &[Vec<Literal>]) -> Result<u64, SqlError> {
        let mut rows = 0;
        for (at, values) in lists.iter().enumerate() {
            let outcome = self.execute_with(sql, values);
            let outcome = outcome.map_err(|error| match lists.len() {
                1 => error,
                _ => error.within(&format!("values {}", at + 1)),
            })?;
            rows += match outcome {
                Outcome::Rows(result) => result.change().map_or(0, |(_, rows)| rows),
                other => other.row_count(),
            };
        }
        Ok(rows)
    }

    pub(super) fn begin(&mut self, modes: Modes) -> Result<Outcome, SqlError> {
        self.database("BEGIN")?;
        let (isolation, read_only) = self.modes(modes);
        let Target::Database { db, open } = &mut self.target else {
            return Err(SqlError::new(SqlErrorKind::ReadOnly, "a snapshot never changes"));
        };
        if open.is_some() {
            return Err(SqlError::new(SqlErrorKind::Syntax, "a transaction is open already")
                .with_cause(Cause::OpenTransaction));
        }
        let context = &self.context;
        *open = Some(OpenTransaction::begin(db, now(), isolation, read_only, context)?);
        Ok(Outcome::done("BEGIN", 0))
    }

    /// The isolation level that a transaction gets, and whether it only reads.
    pub(super) fn modes(&self, said: Modes) -> (Isolation, bool) {
        let wanted = said.isolation.unwrap_or(self.settings.now().isolation);
        let isolation = match &self.target {
            Target::Database { db, .. } => wanted.under(db.scheme()),
            Target::Snapshot(_) => Isolation::Serializable,
        };
        (isolation, said.read_only.unwrap_or(self.settings.now().read_only))
    }

    /// Sets the modes of the open transaction; without one they would end with this statement.
    pub(super) fn set_modes(&mut self, said: Modes) -> Result<(), SqlError> {
        let (isolation, read_only) = self.modes(said);
        let Target::Database { db, open: Some(open) } = &mut self.target else { return Ok(()) };
        open.check()?;
        if let Some(asked) = said.isolation {
            open.set_isolation(asked, isolation)?;
        }
        if said.read_only.is_some() {
            open.set_read_only(db, read_only)?;
        }
        Ok(())
    }

    /// The modes of the session and of its transaction.
    pub(super) fn shown_modes(&self) -> ShownModes {
        let (default_isolation, default_read_only) = self.modes(Modes::default());
        let modes = ShownModes {
            is_open: false,
            is_snapshot: false,
            isolation: default_isolation,
            read_only: default_read_only,
            default_isolation,
            default_read_only,
        };
        match &self.target {
            Target::Database { open: Some(open), .. } => ShownModes {
                is_open: true,
                isolation: open.isolation(),
                read_only: open.is_read_only(),
                ..modes
            },
            Target::Database { open: None, .. } => modes,
            Target::Snapshot(_) => ShownModes { is_snapshot: true, read_only: true, ..modes },
        }
    }

    /// What `SHOW` says of the modes of transactions; `None` for another setting.
    pub(super) fn show_mode(&self, variable: &[Ident]) -> Option<QueryResult> {
        let name: Vec<String> = variable.iter().map(names::fold).collect();
        let name = match name.join(" ").as_str() {
            "transaction isolation level" => "transaction_isolation".to_owned(),
            name => name.to_owned(),
        };
        let shown = self.shown_modes().show(&name)?;
        Some(QueryResult::of_text(&name, shown))
    }

    /// The open transaction, for a statement that needs one.
    pub(super) fn open(&mut self, what: &str) -> Result<&mut OpenTransaction, SqlError> {
        match &mut self.target {
            Target::Database { open: Some(open), .. } => Ok(open),
            _ => {
                let message = format!("{what} needs an open transaction");
                Err(SqlError::new(SqlErrorKind::Syntax, message)
                    .with_cause(Cause::NoTransaction)
                    .with_hint(Some("BEGIN one".to_owned())))
            }
        }
    }

    pub(super) fn take_open(&mut self) -> Result<OpenTransaction, SqlError> {
        match &mut self.target {
            Target::Database { open, .. } => open.take(),
            Target::Snapshot(_) => None,
        }
        .ok_or_else(|| {
            SqlError::new(SqlErrorKind::Syntax, "no transaction is open")
                .with_cause(Cause::NoTransaction)
                .with_hint(Some("each statement outside BEGIN … COMMIT is one by itself".into()))
        })
    }

    pub(super) fn commit(&mut self) -> Result<Outcome, SqlError> {
        let (interrupt, durability) = (self.interrupt(), self.settings.now().durability);
        let mut open = self.take_open()?;
        let context = Arc::clone(&self.context);
        // Checks may wait for other transactions, which may have the order of the commits.
        let checked = open.make_all_checks(&interrupt);
        let before_commit =
            || context.member.as_ref().map_or(Ok(None), |member| member.before_commit(&interrupt));
        let order = checked.and_then(|()| before_commit());
        let (order, committed) = match order {
            Ok(order) => (order, open.commit(durability, &interrupt)),
            Err(error) => {
                drop(open);
                (None, Err(error))
            }
        };
        let has_committed = matches!(committed, Ok(true));
        self.settings.end(has_committed);
        self.end_pending(has_committed);
        drop(order);
        Ok(Outcome::done(if committed? { "COMMIT" } else { "ROLLBACK" }, 0))
    }

    pub(super) fn rollback(&mut self) -> Result<Outcome, SqlError> {
        drop(self.take_open()?);
        self.settings.end(false);
        self.end_pending(false);
        Ok(Outcome::done("ROLLBACK", 0))
    }
}
