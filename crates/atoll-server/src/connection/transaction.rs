//! Transactions as the protocol has them: `BEGIN` and its like, and those that messages begin.

use atoll_sql::{NoticeLevel, TransactionStatus};

use super::Connection;
use super::kind::Kind;
use super::report::{of_error, report};
use super::statement::Life;
use crate::link::Fault;
use crate::wire::out::Severity;

impl Connection {
    /// Checks that the transaction takes a statement.
    pub(super) fn check_failed(&self, kind: Kind) -> Result<(), Fault> {
        let is_failed = self.session.transaction_status() == TransactionStatus::Failed;
        if is_failed && !kind.ends_failed() && kind != Kind::Empty {
            let message = "current transaction is aborted, commands ignored until end of \
                           transaction block";
            return Err(report("25P02", message).into());
        }
        Ok(())
    }

    /// Begins a transaction for statements that belong together, if none is open.
    pub(super) fn begin_implicit(&mut self) -> Result<(), Fault> {
        if self.session.transaction_status() != TransactionStatus::Idle {
            return Ok(());
        }
        self.client.begin();
        self.session.execute("BEGIN").map_err(|error| of_error(&error, "", 0))?;
        self.is_implicit = true;
        Ok(())
    }

    /// Ends such a transaction.
    pub(super) fn end_implicit(&mut self) -> Result<(), Fault> {
        if !std::mem::take(&mut self.is_implicit)
            || self.session.transaction_status() == TransactionStatus::Idle
        {
            return Ok(());
        }
        self.end_portals();
        self.client.begin();
        let ended = self.session.execute("COMMIT").map_err(|error| of_error(&error, "", 0));
        self.hold(ended.as_ref().is_ok_and(|done| done.tag() == Some("COMMIT")));
        self.notices();
        Ok(ended.map(drop)?)
    }

    /// Ends the portals that do not outlive the transaction: what they read would keep it open.
    fn end_portals(&mut self) {
        self.portals.retain(|_, portal| portal.life != Life::Transaction);
    }

    /// The transaction has ended: what was to be held then is held, or is gone.
    fn hold(&mut self, committed: bool) {
        self.portals.retain(|_, portal| {
            if committed && portal.life == Life::Hold {
                portal.life = Life::Held;
            }
            portal.life == Life::Held
        });
    }

    /// Carries out a statement that begins or ends a transaction, and returns its command tag.
    pub(super) fn transact(&mut self, kind: Kind, sql: &str) -> Result<String, Fault> {
        let is_open = self.session.transaction_status() != TransactionStatus::Idle;
        let run = |connection: &mut Self| {
            connection.client.begin();
            let done = connection.session.execute(sql).map_err(|error| of_error(&error, sql, 0))?;
            Ok::<_, Fault>(done.tag().unwrap_or_default().to_owned())
        };
        match kind {
            // What messages have begun is the transaction now.
            Kind::Begin if std::mem::take(&mut self.is_implicit) => Ok("BEGIN".to_owned()),
            Kind::Begin if is_open => {
                self.warn("25001", "there is already a transaction in progress");
                Ok("BEGIN".to_owned())
            }
            Kind::Begin => run(self),
            Kind::Commit | Kind::Rollback => {
                let was_implicit = std::mem::take(&mut self.is_implicit);
                if was_implicit || !is_open {
                    self.warn("25P01", "there is no transaction in progress");
                }
                self.end_portals();
                if is_open {
                    let ended = run(self);
                    self.hold(ended.as_ref().is_ok_and(|tag| tag == "COMMIT"));
                    return ended;
                }
                Ok(if kind == Kind::Commit { "COMMIT" } else { "ROLLBACK" }.to_owned())
            }
            _ => run(self),
        }
    }

    pub(super) fn warn(&mut self, state: &'static str, message: &str) {
        if self.session.tells(NoticeLevel::Warning) {
            self.wire.out.report(Severity::Warning, &report(state, message));
        }
    }
}
