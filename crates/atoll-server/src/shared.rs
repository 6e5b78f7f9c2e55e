//! What all connections of a server share.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use atoll::{Database, Snapshot};
use atoll_sql::{NamedSnapshot, Serving, SqlError, SystemClient, SystemRole, SystemStatement};

use crate::activity;
use crate::auth::{Roles, RolesError, restore_roles};
use crate::clients::Clients;
use crate::metrics::Metrics;
use crate::options::ServerOptions;
use crate::pool::Pool;
use crate::snapshots::Snapshots;
use crate::statements::Statements;
use crate::tls::Tls;

/// Most clients of one kind that have not authenticated.
const UNKNOWN_MAX: usize = 256;

/// The state of a server.
pub(crate) struct Shared {
    pub(crate) db: Database,
    /// The name of the database, which clients connect to.
    pub(crate) name: String,
    pub(crate) options: ServerOptions,
    pub(crate) roles: Arc<Roles>,
    pub(crate) tls: Option<Tls>,
    pub(crate) clients: Clients,
    pub(crate) pool: Pool,
    pub(crate) metrics: Metrics,
    pub(crate) statements: Statements,
    pub(crate) snapshots: Snapshots,
    /// When it began, in microseconds since 1970-01-01 00:00 UTC.
    began: i64,
    ending: AtomicBool,
    /// Clients that have not authenticated yet, on the Unix socket and on TCP.
    unknown: [AtomicUsize; 2],
}

impl Shared {
    pub(crate) fn new(
        db: Database,
        name: String,
        options: ServerOptions,
        (roles, tls): (Roles, Option<Tls>),
    ) -> Self {
        let (clients, pool, metrics) = (Clients::default(), Pool::default(), Metrics::default());
        let roles = Arc::new(roles);
        let snapshots = Snapshots::new(&name, options.runtime_dir.as_deref());
        Self {
            db,
            name,
            snapshots,
            options,
            roles,
            tls,
            clients,
            pool,
            metrics,
            statements: Statements::default(),
            began: activity::now(),
            ending: AtomicBool::new(false),
            unknown: Default::default(),
        }
    }

    /// Whether the server ends.
    pub(crate) fn is_ending(&self) -> bool {
        self.ending.load(Ordering::SeqCst)
    }

    /// Ends all connections and lets none begin.
    pub(crate) fn begin_end(&self) {
        self.ending.store(true, Ordering::SeqCst);
        self.clients.terminate_all();
    }
}

impl Serving for Shared {
    fn roles(&self) -> Vec<SystemRole> {
        self.roles.listed()
    }

    fn clients(&self) -> Vec<SystemClient> {
        self.clients.shown()
    }

    fn statements(&self) -> Vec<SystemStatement> {
        self.statements.shown()
    }

    fn forget_statements(&self) {
        self.statements.forget();
    }

    fn began(&self) -> i64 {
        self.began
    }

    fn end(&self, client: i32, connection: bool) -> bool {
        self.clients.end(client, connection)
    }

    fn take_snapshot(
        &self,
        owner: &str,
        name: Option<&str>,
        max_age: Duration,
    ) -> Result<String, SqlError> {
        self.snapshots.take(owner, name, max_age)
    }

    fn release_snapshot(&self, name: &str) -> bool {
        self.snapshots.release(name)
    }

    fn snapshots(&self) -> Vec<NamedSnapshot> {
        self.snapshots.listed()
    }

    fn snapshot(&self, name: &str) -> Option<Snapshot> {
        self.snapshots.find(name)
    }

    fn back_up_roles(&self, backup: &Path) -> Result<(), SqlError> {
        self.roles.back_up(backup).map_err(told)
    }

    fn restore_roles(&self, backup: &Path, new: &Path) -> Result<(), SqlError> {
        restore_roles(backup, new).map_err(told)
    }
}

fn told(error: RolesError) -> SqlError {
    SqlError::around("58030", error.to_string(), Some(error.hint()))
}

/// The place of a client that has not authenticated yet.
pub(crate) struct Unknown {
    shared: Arc<Shared>,
    kind: usize,
}

impl Unknown {
    /// A place, if there is one.
    pub(crate) fn of(shared: &Arc<Shared>, is_unix: bool) -> Option<Self> {
        let place = Self { shared: Arc::clone(shared), kind: usize::from(is_unix) };
        let before = shared.unknown[place.kind].fetch_add(1, Ordering::Relaxed);
        (before < UNKNOWN_MAX).then_some(place)
    }
}

impl Drop for Unknown {
    fn drop(&mut self) {
        self.shared.unknown[self.kind].fetch_sub(1, Ordering::Relaxed);
    }
}
