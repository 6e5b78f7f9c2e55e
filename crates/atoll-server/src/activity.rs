//! What each client does, for `pg_stat_activity`.
//!
//! A statement costs its client two looks at the clock and a lock that only readers of the view
//! contend for. `ACTIVITY-1`: no text is shown with a password in it.

use std::sync::{Arc, OnceLock};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use atoll_sql::{ClientState, SystemClient, TransactionStatus};

use crate::log::redact::Redacted;

/// Bytes of a statement that are kept.
const TEXT_BYTES_MAX: usize = 1024;

/// The time, in microseconds since 1970-01-01 00:00 UTC.
pub(crate) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

/// The role of a client and its connection, which do not change.
#[derive(Debug)]
pub(crate) struct Identity {
    pub(crate) role: String,
    pub(crate) is_encrypted: bool,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Activity {
    began: i64,
    identity: OnceLock<Identity>,
    now: Mutex<Now>,
}

#[derive(Debug, Default)]
struct Now {
    application: String,
    transaction_began: Option<i64>,
    statement_began: Option<i64>,
    changed: i64,
    state: ClientState,
    statement: Option<Arc<str>>,
}

impl Default for Activity {
    fn default() -> Self {
        let began = now();
        let now = Mutex::new(Now { changed: began, ..Now::default() });
        Self { began, identity: OnceLock::new(), now }
    }
}

impl Activity {
    fn now(&self) -> MutexGuard<'_, Now> {
        // Nothing under the lock panics halfway through a change.
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the identity of the client, once.
    pub(crate) fn identify(&self, identity: Identity) {
        // It is known once.
        let _ = self.identity.set(identity);
    }

    pub(crate) fn set_application(&self, name: &str) {
        name.clone_into(&mut self.now().application);
    }

    /// A statement begins.
    pub(crate) fn begin(&self, statement: &Arc<str>) {
        let time = now();
        let statement = match statement.len() {
            0..=TEXT_BYTES_MAX => Arc::clone(statement),
            _ => Arc::from(&statement[..statement.floor_char_boundary(TEXT_BYTES_MAX)]),
        };
        let mut now = self.now();
        now.transaction_began.get_or_insert(time);
        now.statement_began = Some(time);
        now.changed = time;
        now.state = ClientState::Active;
        now.statement = Some(statement);
    }

    /// The client may send the next statement.
    pub(crate) fn end(&self, status: TransactionStatus) {
        let state = match status {
            TransactionStatus::Idle => ClientState::Idle,
            TransactionStatus::Open => ClientState::InTransaction,
            TransactionStatus::Failed => ClientState::Failed,
        };
        let time = now();
        let mut now = self.now();
        now.changed = time;
        now.state = state;
        match state {
            ClientState::Idle => now.transaction_began = None,
            // Messages that begin one need not be statements.
            _ => drop(now.transaction_began.get_or_insert(time)),
        }
    }

    /// As the view shows it; `None` of a client that is not known yet.
    pub(crate) fn shown(
        &self,
        number: i32,
        address: Option<(String, u16)>,
    ) -> Option<SystemClient> {
        let identity = self.identity.get()?;
        let now = self.now();
        let statement = now.statement.as_deref().unwrap_or_default();
        Some(SystemClient {
            number,
            role: identity.role.clone(),
            application: now.application.clone(),
            address,
            is_encrypted: identity.is_encrypted,
            began: self.began,
            transaction_began: now.transaction_began,
            statement_began: now.statement_began,
            changed: now.changed,
            state: now.state,
            statement: Redacted::of(statement, true).text,
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_long_statement_is_cut_and_a_password_is_not_shown() {
        let activity = Activity::default();
        assert!(activity.shown(1, None).is_none());
        activity.identify(Identity { role: "ann".to_owned(), is_encrypted: true });
        assert_eq!(activity.shown(1, None).unwrap().statement, "");
        activity.begin(&"ALTER ROLE ann PASSWORD 'geheim'".into());
        assert_eq!(activity.shown(1, None).unwrap().statement, "ALTER ROLE ann PASSWORD '***'");
        activity.begin(&format!("SELECT '{}'", "ä".repeat(2000)).into());
        let shown = activity.shown(7, None).unwrap();
        assert_eq!((shown.number, shown.state), (7, ClientState::Active));
        assert!(shown.statement.len() <= TEXT_BYTES_MAX && shown.statement.len() > 1000);
        assert!(shown.transaction_began >= Some(shown.began));
        activity.end(TransactionStatus::Idle);
        let shown = activity.shown(7, None).unwrap();
        assert_eq!((shown.state, shown.transaction_began), (ClientState::Idle, None));
        assert!(shown.statement_began.is_some());
    }
}
