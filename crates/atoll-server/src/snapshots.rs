//! Snapshots that clients have taken and given names.
//!
//! Each is published under its name, so other processes attach to it as to a database, and sessions
//! read it (`SET atoll.snapshot`).
//!
//! - `NAMED-1`: a snapshot is released at the latest when it is as old as its owner has said, and
//!   when the server ends.
//! - `NAMED-2`: there are [`SNAPSHOTS_MAX`] at a time, since each keeps what is replaced meanwhile.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use atoll::{Attachment, Database, DatabaseOptions, Error, LeaseError, Snapshot};
use atoll_sql::{NamedSnapshot, SqlError};

use crate::activity;

const SNAPSHOTS_MAX: usize = 64;

struct Kept {
    named: NamedSnapshot,
    ends: Instant,
    snapshot: Snapshot,
    /// What is published: the snapshot, and nothing else.
    _published: Database,
}

#[derive(Default)]
struct State {
    by_name: BTreeMap<String, Kept>,
    /// How many have got a name here.
    count: u64,
    /// The server takes no more.
    is_ending: bool,
}

#[derive(Default)]
struct Inner {
    state: Mutex<State>,
    /// A snapshot was taken, or the server ends.
    changed: Condvar,
}

/// See the module.
pub(crate) struct Snapshots {
    database: String,
    runtime_dir: Option<PathBuf>,
    inner: Arc<Inner>,
    /// What releases those that are too old, once there was one.
    thread: Mutex<Option<JoinHandle<()>>>,
    attachment: Mutex<Option<Arc<Attachment>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing under these locks panics halfway through a change.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Snapshots {
    /// Those of a database, which is published under a name in a runtime directory.
    pub(crate) fn new(database: &str, runtime_dir: Option<&Path>) -> Self {
        Self {
            database: database.to_owned(),
            runtime_dir: runtime_dir.map(Path::to_owned),
            inner: Arc::default(),
            thread: Mutex::default(),
            attachment: Mutex::default(),
        }
    }

    /// Takes a snapshot and returns its name.
    ///
    /// # Errors
    /// The name is taken, or is none; there are too many; the database has no name itself.
    pub(crate) fn take(
        &self,
        owner: &str,
        name: Option<&str>,
        max_age: Duration,
    ) -> Result<String, SqlError> {
        let name = {
            let mut state = lock(&self.inner.state);
            if state.by_name.len() >= SNAPSHOTS_MAX {
                let message =
                    format!("there are {SNAPSHOTS_MAX} named snapshots, the most there can be");
                let hint =
                    "SELECT atoll_release_snapshot(name) FROM atoll_snapshots WHERE \u{2026}";
                return Err(SqlError::around("53000", message, Some(hint.to_owned())));
            }
            state.count += 1;
            let numbered = || format!("{}-{}", self.database, state.count);
            name.map_or_else(numbered, str::to_owned)
        };
        // Others would not be able to share one that is taken without the attachment.
        let snapshot = self.attachment()?.snapshot().map_err(SqlError::from)?;
        let published = Database::derive(vec![snapshot.clone()], DatabaseOptions::default())?;
        published
            .publish(&name, self.runtime_dir.as_deref())
            .map_err(|error| refused(&name, error))?;
        let taken = activity::now();
        let micros = i64::try_from(max_age.as_micros()).unwrap_or(i64::MAX);
        let named = NamedSnapshot {
            name: name.clone(),
            owner: owner.to_owned(),
            taken,
            expires: taken.saturating_add(micros),
        };
        let far = || Instant::now() + Duration::from_secs(1 << 32);
        let ends = Instant::now().checked_add(max_age).unwrap_or_else(far);
        let mut state = lock(&self.inner.state);
        if state.is_ending {
            return Err(SqlError::around("57P01", "the server is shutting down", None));
        }
        state.by_name.insert(name.clone(), Kept { named, ends, snapshot, _published: published });
        drop(state);
        self.inner.changed.notify_all();
        self.watch()?;
        Ok(name)
    }

    /// The attachment of this process to its own database.
    fn attachment(&self) -> Result<Arc<Attachment>, SqlError> {
        let mut attachment = lock(&self.attachment);
        if let Some(one) = &*attachment {
            return Ok(Arc::clone(one));
        }
        let one = Arc::new(atoll::attach(&self.database, self.runtime_dir.as_deref())?);
        *attachment = Some(Arc::clone(&one));
        Ok(one)
    }

    /// Starts the thread, once.
    fn watch(&self) -> Result<(), SqlError> {
        let mut thread = lock(&self.thread);
        if thread.is_none() {
            let inner = Arc::clone(&self.inner);
            let started =
                Builder::new().name("atoll-snapshots".into()).spawn(move || inner.watch());
            let failed = |error| SqlError::around("53000", format!("no thread: {error}"), None);
            *thread = Some(started.map_err(failed)?);
        }
        Ok(())
    }

    /// Releases a snapshot; false if there is none of the name.
    pub(crate) fn release(&self, name: &str) -> bool {
        // It is dropped when the lock is free again.
        let released = lock(&self.inner.state).by_name.remove(name);
        released.is_some()
    }

    pub(crate) fn listed(&self) -> Vec<NamedSnapshot> {
        lock(&self.inner.state).by_name.values().map(|kept| kept.named.clone()).collect()
    }

    pub(crate) fn find(&self, name: &str) -> Option<Snapshot> {
        lock(&self.inner.state).by_name.get(name).map(|kept| kept.snapshot.clone())
    }

    /// Releases all of them; no more are taken.
    pub(crate) fn end(&self) {
        let released = {
            let mut state = lock(&self.inner.state);
            state.is_ending = true;
            std::mem::take(&mut state.by_name)
        };
        drop(released);
        self.inner.changed.notify_all();
        if let Some(thread) = lock(&self.thread).take() {
            // A panic there has been reported.
            let _ = thread.join();
        }
        *lock(&self.attachment) = None;
    }
}

impl Inner {
    /// Releases snapshots that are too old, until the server ends.
    fn watch(&self) {
        let mut state = lock(&self.state);
        while !state.is_ending {
            let now = Instant::now();
            let old = state.by_name.extract_if(.., |_, kept| kept.ends <= now);
            let old: Vec<(String, Kept)> = old.collect();
            if !old.is_empty() {
                drop(state);
                drop(old);
                state = lock(&self.state);
                continue;
            }
            state = match state.by_name.values().map(|kept| kept.ends).min() {
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(next) => {
                    let waited = self.changed.wait_timeout(state, next - now);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }
}

/// Why a snapshot cannot have a name.
fn refused(name: &str, error: Error) -> SqlError {
    match error {
        Error::Lease(LeaseError::NameTaken { .. }) => {
            let hint = "another snapshot or database of this user has it";
            SqlError::around("42710", format!("the name \"{name}\" is taken"), Some(hint.into()))
        }
        other => SqlError::from(other),
    }
}
