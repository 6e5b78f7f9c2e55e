//! What a server tells queries of the system: its roles, its clients and the statements that ran.

use std::path::Path;
use std::time::Duration;

use atoll::Snapshot;

use crate::error::SqlError;

/// A role, as `pg_roles` shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SystemRole {
    /// Its number; 10 is the role that owns the database.
    pub number: u32,
    /// Its name.
    pub name: String,
    /// Whether it may do all.
    pub is_superuser: bool,
    /// Whether a client may be it.
    pub can_log_in: bool,
}

/// What a client does now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ClientState {
    /// It has a statement that runs.
    Active,
    /// It has sent no statement since the last one ended.
    #[default]
    Idle,
    /// The same, with an open transaction.
    InTransaction,
    /// The same, with a transaction that has failed.
    Failed,
}

impl ClientState {
    /// As `pg_stat_activity` has it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Idle => "idle",
            Self::InTransaction => "idle in transaction",
            Self::Failed => "idle in transaction (aborted)",
        }
    }
}

/// A client, as `pg_stat_activity` shows it. Times are microseconds since 1970-01-01 00:00 UTC.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SystemClient {
    /// What it is cancelled by.
    pub number: i32,
    /// The role that it is.
    pub role: String,
    /// Its `application_name`.
    pub application: String,
    /// Where it is; `None` on a Unix socket.
    pub address: Option<(String, u16)>,
    /// Whether its connection is encrypted.
    pub is_encrypted: bool,
    /// When it came.
    pub began: i64,
    /// When its open transaction began.
    pub transaction_began: Option<i64>,
    /// When its statement began, the running one or the last.
    pub statement_began: Option<i64>,
    /// Since when it has been in its state.
    pub changed: i64,
    /// What it does.
    pub state: ClientState,
    /// The running statement, or the last one, without passwords.
    pub statement: String,
}

/// What the runs of a statement came to, as `pg_stat_statements` shows it. Times are milliseconds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SystemStatement {
    /// The role that ran it.
    pub role: String,
    /// Its text, without literals.
    pub text: String,
    /// How often it ran to its end.
    pub calls: u64,
    /// How often it failed.
    pub errors: u64,
    /// Rows that it returned or changed.
    pub rows: u64,
    /// Of all runs.
    pub total_ms: f64,
    /// Of the shortest run.
    pub min_ms: f64,
    /// Of the longest run.
    pub max_ms: f64,
    /// The standard deviation of the runs.
    pub deviation_ms: f64,
}

/// A snapshot that a client has given a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedSnapshot {
    /// The name, by which other processes attach to it too.
    pub name: String,
    /// The role that has taken it.
    pub owner: String,
    /// When it was taken, in microseconds since 1970-01-01 00:00 UTC.
    pub taken: i64,
    /// When it is released at the latest.
    pub expires: i64,
}

/// A server, as its sessions see it.
pub trait Serving: Send + Sync {
    /// Its roles.
    fn roles(&self) -> Vec<SystemRole>;

    /// Its clients.
    fn clients(&self) -> Vec<SystemClient>;

    /// The statements that ran.
    fn statements(&self) -> Vec<SystemStatement>;

    /// Forgets the statements that ran.
    fn forget_statements(&self);

    /// When it began, in microseconds since 1970-01-01 00:00 UTC.
    fn began(&self) -> i64;

    /// Cancels the running statement of a client, or ends its connection; false if there is no
    /// such client.
    fn end(&self, client: i32, connection: bool) -> bool;

    /// Takes a snapshot for a role, to be released after `max_age` at the latest; without a name
    /// it gets one. Returns the name.
    ///
    /// # Errors
    /// The name is taken, or is none; there are too many.
    fn take_snapshot(
        &self,
        owner: &str,
        name: Option<&str>,
        max_age: Duration,
    ) -> Result<String, SqlError>;

    /// Releases a snapshot; false if there is none of the name. Queries that read it go on.
    fn release_snapshot(&self, name: &str) -> bool;

    /// The snapshots that have names.
    fn snapshots(&self) -> Vec<NamedSnapshot>;

    /// The snapshot of a name.
    fn snapshot(&self, name: &str) -> Option<Snapshot>;

    /// Writes the roles into a backup, which is complete otherwise.
    ///
    /// # Errors
    /// They cannot be written.
    fn back_up_roles(&self, backup: &Path) -> Result<(), SqlError>;

    /// Gives a restored database the roles of its backup, if that has any.
    ///
    /// # Errors
    /// They cannot be read or written.
    fn restore_roles(&self, backup: &Path, new: &Path) -> Result<(), SqlError>;
}
