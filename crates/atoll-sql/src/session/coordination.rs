//! `LISTEN`, `UNLISTEN` and `NOTIFY`, and what the end of a statement or of a transaction means to
//! other sessions (`coordination`).

use std::sync::Arc;

use sqlparser::ast::Ident;

use super::{Outcome, SqlSession};
use crate::coordination::{Mark, Member, Notification, Waker};
use crate::error::SqlError;
use crate::names;
use crate::sequence::context::Context;

/// Releases what a session has when it ends (`COORDINATION-3`).
pub(super) struct Leaving(pub(super) Arc<Context>);

impl Drop for Leaving {
    fn drop(&mut self) {
        self.0.leave();
    }
}

impl SqlSession {
    /// Sets the number of this session that others see: that of the server for its client.
    pub fn set_number(&mut self, number: i32) {
        self.context.member.iter().for_each(|member| member.set_number(number));
    }

    /// Sets what is called when [`SqlSession::has_notifications`] or [`SqlSession::has_timed_out`]
    /// becomes true, on another thread. It must not use this session, nor wait for anything.
    pub fn set_waker(&mut self, waker: Option<Arc<Waker>>) {
        if let Some(member) = &self.context.member {
            member.mailbox().set_waker(waker);
        }
    }

    /// Whether there are notifications of channels to which the session listens.
    pub fn has_notifications(&self) -> bool {
        self.context.member.as_ref().is_some_and(|member| !member.mailbox().is_empty())
    }

    /// Takes the notifications that have come, in the order in which their transactions have
    /// committed.
    pub fn take_notifications(&mut self) -> Vec<Notification> {
        self.context.member.as_ref().map_or_else(Vec::new, Member::take)
    }

    /// A statement begins.
    pub(super) fn begin_among_others(&mut self) {
        let Some(member) = &self.context.member else { return };
        // What rows have done that were read behind the end of their statement.
        if member.has_pending() && !self.in_transaction() {
            // They have told nothing more than the next statement may.
            self.settle(true);
        }
        if let Some(member) = &self.context.member {
            member.begin_statement();
        }
    }

    /// A statement, or the reading of its rows, has ended: if it was a transaction by itself, that
    /// has ended, too.
    pub fn settle(&mut self, is_done: bool) {
        let pending = self.context.member.as_ref().filter(|member| member.has_pending());
        if let Some(member) = pending.filter(|_| !self.in_transaction()) {
            member.end(is_done);
        }
    }

    /// The open transaction has ended.
    pub(super) fn end_pending(&self, committed: bool) {
        self.context.member.iter().for_each(|member| member.end(committed));
    }

    /// What the session has, for a savepoint.
    pub(super) fn mark(&self) -> Mark {
        self.context.member.as_ref().map(Member::mark).unwrap_or_default()
    }

    /// A part of the transaction is rolled back.
    pub(super) fn roll_back_to(&self, mark: Mark) {
        self.context.member.iter().for_each(|member| member.roll_back_to_savepoint(mark));
    }

    pub(super) fn listen(&self, channel: &Ident) -> Result<Outcome, SqlError> {
        self.database("LISTEN")?;
        let channel = names::fold(channel);
        self.context.member.iter().for_each(|member| member.listen(&channel));
        Ok(Outcome::done("LISTEN", 0))
    }

    pub(super) fn unlisten(&self, channel: &Ident) -> Result<Outcome, SqlError> {
        self.database("UNLISTEN")?;
        let is_all = channel.quote_style.is_none() && channel.value == "*";
        let channel = Some(names::fold(channel)).filter(|_| !is_all);
        self.context.member.iter().for_each(|member| member.unlisten(channel.as_deref()));
        Ok(Outcome::done("UNLISTEN", 0))
    }

    pub(super) fn notify(
        &self,
        channel: &Ident,
        payload: Option<&str>,
    ) -> Result<Outcome, SqlError> {
        self.database("NOTIFY")?;
        if let Some(member) = &self.context.member {
            member.notify(&names::fold(channel), payload.unwrap_or_default())?;
        }
        Ok(Outcome::done("NOTIFY", 0))
    }
}
