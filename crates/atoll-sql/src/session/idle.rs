//! An open transaction is rolled back if no statement comes for too long: between two statements it
//! rests where [`crate::idle`] ends it.

use std::sync::{Arc, Mutex};

use super::{SqlSession, Target};
use crate::error::{Cause, SqlError, SqlErrorKind};
use crate::idle::{lock, take};
use crate::prepared::cache::Shared;

impl SqlSession {
    /// Checks that idle transactions can be ended.
    ///
    /// # Errors
    /// The thread for it cannot be started.
    pub(super) fn check_idle_watch(&self) -> Result<(), SqlError> {
        match &self.target {
            Target::Database { db, .. } if Shared::of(db).idle_watch().is_none() => {
                let message = "no thread could be started that ends idle transactions";
                Err(SqlError::new(SqlErrorKind::Database, message))
            }
            _ => Ok(()),
        }
    }

    /// A statement ends: the open transaction waits for the next one.
    pub(super) fn rest(&mut self) {
        let Some(limit) = self.settings.now().idle else { return };
        let waker = self.context.member.as_ref().and_then(|member| member.mailbox().waker());
        let Target::Database { db, open } = &mut self.target else { return };
        if open.is_some()
            && let Some(idle) = Shared::of(db).idle_watch()
        {
            let slot = Arc::new(Mutex::new(open.take()));
            idle.watch(&slot, limit, waker);
            self.resting = Some(slot);
        }
    }

    /// Whether the open transaction was rolled back because no statement came for too long. The
    /// waker of the session is called when that happens ([`SqlSession::set_waker`]).
    pub fn has_timed_out(&self) -> bool {
        self.resting.as_ref().is_some_and(|slot| lock(slot).is_none())
    }

    /// A statement begins.
    ///
    /// # Errors
    /// The transaction was idle for too long.
    pub(super) fn wake(&mut self) -> Result<(), SqlError> {
        let Some(slot) = self.resting.take() else { return Ok(()) };
        if let Target::Database { open, .. } = &mut self.target {
            *open = take(&slot);
            if open.is_some() {
                return Ok(());
            }
        }
        self.settings.end(false);
        self.end_pending(false);
        let message = "the transaction was rolled back: it was idle for longer than \
                       idle_in_transaction_session_timeout";
        Err(SqlError::new(SqlErrorKind::Aborted, message).with_cause(Cause::IdleTimeout))
    }
}
