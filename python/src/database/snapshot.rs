//! Snapshots.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use atoll_sql::{SqlSession, View};
use pyo3::prelude::*;

use super::{Database, Handle};
use crate::errors::{Fault, Outcome};
use crate::interrupt;
use crate::line::Line;
use crate::parameters;
use crate::query_stream::Stream;
use crate::result::QueryResult;
use crate::table::Table;

/// A frozen, consistent view of a database: exactly the transactions that had committed when it was
/// taken.
///
/// Tables, columns, arrays and results that came from it keep its memory.
#[pyclass(frozen, module = "atolldb", name = "Snapshot")]
pub(crate) struct Snapshot(Mutex<State>);

/// The snapshot, which `refresh` replaces, and what is known of it after its release.
struct State {
    database: String,
    epoch: u64,
    take_ns: u64,
    attach_ns: u64,
    held: Option<Held>,
}

struct Held {
    snapshot: atoll::Snapshot,
    source: Source,
}

/// Where newer snapshots come from.
#[derive(Clone)]
pub(crate) enum Source {
    /// The process that owns the database.
    Owner(Arc<Line>),
    /// A database of this process.
    Here(Weak<Handle>),
    /// Nowhere: it is the base of a snapshot or of a database.
    Base,
}

impl Source {
    fn take(&self, py: Python<'_>) -> Outcome<atoll::Snapshot> {
        match self {
            Self::Owner(line) => {
                let attachment = line.attachment()?;
                Ok(py.detach(move || attachment.snapshot())?)
            }
            Self::Here(handle) => {
                let handle = handle.upgrade();
                let db = handle.ok_or(Fault::Closed("the database is closed"))?.db()?;
                Ok(py.detach(move || db.snapshot())?)
            }
            Self::Base => Err(Fault::Value(
                "what is built on this snapshot always shows it, so it has no newer one; refresh a \
                 snapshot of the database itself"
                    .to_owned(),
            )),
        }
    }
}

impl State {
    fn new(snapshot: atoll::Snapshot, source: Source) -> Self {
        Self {
            database: snapshot.database().to_owned(),
            epoch: snapshot.epoch(),
            take_ns: snapshot.take_ns(),
            attach_ns: snapshot.attach_ns(),
            held: Some(Held { snapshot, source }),
        }
    }

    fn held(&self) -> Outcome<&Held> {
        let released = Fault::Closed("the snapshot was released; take a new one");
        self.held.as_ref().ok_or(released)
    }
}

impl Snapshot {
    /// Takes a snapshot.
    ///
    /// # Errors
    /// Those of the source.
    pub(crate) fn take(py: Python<'_>, source: Source) -> Outcome<Self> {
        Ok(Self(Mutex::new(State::new(source.take(py)?, source))))
    }

    /// A snapshot on which a database or a snapshot is built.
    pub(crate) fn of_base(snapshot: atoll::Snapshot) -> Self {
        Self(Mutex::new(State::new(snapshot, Source::Base)))
    }

    /// Locked while this thread holds the GIL, and only briefly, so that a fork finds it unlocked.
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The snapshot.
    ///
    /// # Errors
    /// [`Fault::Closed`] when it was released.
    pub(crate) fn inner(&self) -> Outcome<atoll::Snapshot> {
        self.state().held().map(|held| held.snapshot.clone())
    }

    /// Replaces the snapshot, and returns the one that is not needed any more: `newer` if another
    /// thread has put one there that is newer still, or has released it.
    fn replace(&self, newer: State) -> (State, Outcome<()>) {
        let mut state = self.state();
        if let Err(released) = state.held() {
            return (newer, Err(released));
        }
        if newer.epoch < state.epoch {
            return (newer, Ok(()));
        }
        (std::mem::replace(&mut *state, newer), Ok(()))
    }
}

#[pymethods]
impl Snapshot {
    /// Name of the database; empty for one that was not published.
    #[getter]
    fn database(&self) -> String {
        self.state().database.clone()
    }

    /// The epoch that it shows.
    #[getter]
    fn epoch(&self) -> u64 {
        self.state().epoch
    }

    /// Nanoseconds that the owner needed to take it.
    #[getter]
    fn take_ns(&self) -> u64 {
        self.state().take_ns
    }

    /// Nanoseconds from the request until the snapshot could be used here, including the time of
    /// the owner.
    #[getter]
    fn attach_ns(&self) -> u64 {
        self.state().attach_ns
    }

    /// Bytes copied to make it readable here: always 0, because it is read in the owner's memory.
    #[getter]
    fn bytes_copied_attach(&self) -> u64 {
        0
    }

    /// Bytes that this process has copied since, because a transaction was open when it was taken.
    #[getter]
    fn bytes_patched(&self) -> Outcome<u64> {
        Ok(self.inner()?.bytes_patched())
    }

    /// Names of its tables, including those of the snapshots that it is built on.
    #[getter]
    fn tables(&self, py: Python<'_>) -> Outcome<Vec<String>> {
        let snapshot = self.inner()?;
        Ok(py.detach(|| snapshot.tables()))
    }

    /// Names of its views.
    #[getter]
    fn views(&self, py: Python<'_>) -> Outcome<Vec<String>> {
        let snapshot = self.inner()?;
        py.detach(|| {
            let mut views = Vec::new();
            for object in snapshot.objects() {
                views.extend(View::of(object.schema())?.map(|_| object.name().to_owned()));
            }
            Ok(views)
        })
    }

    /// The snapshots that it is built on.
    #[getter]
    fn bases(&self) -> Outcome<Vec<Self>> {
        Ok(self.inner()?.bases().iter().cloned().map(Self::of_base).collect())
    }

    /// Shows the newest state of the database instead, by a new snapshot. If that cannot be taken,
    /// the one before stays. Tables, arrays and results that came from that one stay as they are
    /// and keep its memory until they are gone; so do databases that are built on it.
    fn refresh(&self, py: Python<'_>) -> Outcome<()> {
        let source = self.state().held()?.source.clone();
        let newer = State::new(source.take(py)?, source);
        let (old, done) = self.replace(newer);
        py.detach(|| drop(old));
        done
    }

    /// Raises `SnapshotExpired` when it, or one of its bases, exceeds a limit of its owner.
    fn check(&self) -> Outcome<()> {
        Ok(self.inner()?.check()?)
    }

    /// A table by name.
    fn table(&self, py: Python<'_>, name: &str) -> Outcome<Table> {
        let snapshot = self.inner()?;
        Ok(Table::new(py.detach(|| snapshot.table(name))?))
    }

    fn __getitem__(&self, py: Python<'_>, name: &str) -> Outcome<Table> {
        self.table(py, name)
    }

    fn __contains__(&self, py: Python<'_>, name: &str) -> Outcome<bool> {
        Ok(self.tables(py)?.iter().any(|table| table == name))
    }

    /// Runs a query, with values for its parameters, which are written `?`, or `$1`, `$2`. Threads
    /// may query one snapshot at the same time.
    #[pyo3(signature = (query, parameters = None))]
    fn sql(
        &self,
        py: Python<'_>,
        query: &str,
        parameters: Option<&Bound<'_, PyAny>>,
    ) -> Outcome<QueryResult> {
        let (snapshot, values) = (self.inner()?, parameters::of(parameters)?);
        interrupt::run(py, |question| {
            let mut session = SqlSession::on_snapshot(snapshot);
            session.set_interrupt(question);
            let outcome = session.execute_with(query, &values);
            QueryResult::new(outcome.map_err(|error| Fault::sql(error, query))?)
        })
    }

    /// Runs a query, as `sql` does, and returns its rows as they are read.
    #[pyo3(signature = (query, parameters = None))]
    fn stream(
        &self,
        py: Python<'_>,
        query: &str,
        parameters: Option<&Bound<'_, PyAny>>,
    ) -> Outcome<Stream> {
        let (snapshot, values) = (self.inner()?, parameters::of(parameters)?);
        interrupt::run(py, |question| {
            let mut session = SqlSession::on_snapshot(snapshot);
            session.set_interrupt(question);
            Stream::new(session.stream(query, &values), query)
        })
    }

    /// A new database that also shows the tables of this snapshot.
    #[pyo3(signature = (
        *,
        memory_limit = None,
        snapshot_age_max = None,
        snapshot_bytes_max = None,
        scheme = None,
    ))]
    fn derive(
        &self,
        py: Python<'_>,
        memory_limit: Option<u64>,
        snapshot_age_max: Option<f64>,
        snapshot_bytes_max: Option<u64>,
        scheme: Option<&str>,
    ) -> Outcome<Database> {
        let settings = super::settings(memory_limit, snapshot_age_max, snapshot_bytes_max, scheme)?;
        super::build(py, vec![self.inner()?], &settings)
    }

    /// Releases the snapshot. Tables, arrays and results from it stay readable and keep its memory
    /// until they are gone too.
    fn release(&self, py: Python<'_>) {
        let held = self.state().held.take();
        py.detach(|| drop(held));
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, pyo3::types::PyTuple>) {
        self.release(py);
    }

    fn __repr__(&self) -> String {
        let state = self.state();
        let released = if state.held.is_none() { ", released" } else { "" };
        format!("<atolldb.Snapshot of \"{}\" at epoch {}{released}>", state.database, state.epoch)
    }
}
