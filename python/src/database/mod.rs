//! Databases of this process: empty ones, and ones built on snapshots; and the snapshots, from
//! which databases can be derived.

pub(crate) mod snapshot;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use atoll_adbc::registry::{self, Settings, Shared};
use atoll_adbc::rows::IncomingRows;
use atoll_sql::View;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use self::snapshot::{Snapshot, Source};
use crate::convert;
use crate::errors::{Fault, Outcome};
use crate::leases::snapshot_list;
use crate::query_stream::Stream;
use crate::result::QueryResult;
use crate::session::{Session, Sessions};
use crate::table::Table;
use crate::{interrupt, parameters};

/// A database that this process owns; it may be built on snapshots of other databases.
#[pyclass(frozen, module = "atolldb", name = "Database")]
pub(crate) struct Database(Arc<Handle>);

/// The database until it is closed. Its snapshots know it weakly, and keep it open by no means.
pub(crate) struct Handle(Mutex<Option<Held>>);

struct Held {
    db: Shared,
    /// A `threading.local`; each thread has its own attribute `session`.
    locals: Py<PyAny>,
    sessions: Arc<Sessions>,
}

/// The settings of a database from Python's arguments.
pub(crate) fn settings(
    memory_limit: Option<u64>,
    snapshot_age_max: Option<f64>,
    snapshot_bytes_max: Option<u64>,
    scheme: Option<&str>,
) -> Outcome<Settings> {
    let age = |seconds: f64| {
        Duration::try_from_secs_f64(seconds).map_err(|_| {
            Fault::Value(format!("snapshot_age_max is {seconds}; it is a number of seconds"))
        })
    };
    let scheme = scheme.map(|name| name.parse::<atoll::SchemeKind>()).transpose();
    Ok(Settings {
        durability: None,
        scheme: scheme.map_err(|unknown| Fault::Value(unknown.to_string()))?,
        memory_limit_bytes: memory_limit,
        snapshot_age_max: snapshot_age_max.map(age).transpose()?,
        snapshot_bytes_max,
    })
}

/// Creates a database on these snapshots.
pub(crate) fn build(
    py: Python<'_>,
    bases: Vec<atoll::Snapshot>,
    settings: &Settings,
) -> Outcome<Database> {
    let db =
        py.detach(|| atoll::Database::derive(bases, settings.options()).map(registry::share))?;
    hold(py, db)
}

fn hold(py: Python<'_>, db: Shared) -> Outcome<Database> {
    let locals = py.import("threading").and_then(|threading| threading.call_method0("local"));
    let (locals, sessions) = (locals.map_err(Fault::Python)?.unbind(), Arc::default());
    let held = Some(Held { db, locals, sessions });
    Ok(Database(Arc::new(Handle(Mutex::new(held)))))
}

/// Creates an empty database.
///
/// `memory_limit` is in bytes, by default 80 % of what the process may use; `snapshot_age_max` is
/// in seconds; `snapshot_bytes_max` limits what snapshots keep alive together; `scheme` says how
/// transactions are isolated; an unknown name is refused with a list of all known ones.
#[pyfunction]
#[pyo3(signature = (
    memory_limit = None,
    *,
    snapshot_age_max = None,
    snapshot_bytes_max = None,
    scheme = None,
))]
pub(crate) fn create(
    py: Python<'_>,
    memory_limit: Option<u64>,
    snapshot_age_max: Option<f64>,
    snapshot_bytes_max: Option<u64>,
    scheme: Option<&str>,
) -> Outcome<Database> {
    let settings = settings(memory_limit, snapshot_age_max, snapshot_bytes_max, scheme)?;
    build(py, Vec::new(), &settings)
}

/// Opens the database in a folder, or creates one there. It contains every commit that was
/// acknowledged, however the process before it ended.
///
/// `durability` says what a commit survives when it returns: "strict" (the default) any crash,
/// "group" or "group 5ms" all but its last milliseconds, "none" the end of this process. The other
/// arguments are those of `create`.
///
/// If the folder is open in this process already, the result shares its database, which is closed
/// when all of them are closed; an argument that is given must be that of the database then.
#[pyfunction]
#[pyo3(signature = (
    folder,
    *,
    durability = None,
    memory_limit = None,
    snapshot_age_max = None,
    snapshot_bytes_max = None,
    scheme = None,
))]
pub(crate) fn open(
    py: Python<'_>,
    folder: PathBuf,
    durability: Option<&str>,
    memory_limit: Option<u64>,
    snapshot_age_max: Option<f64>,
    snapshot_bytes_max: Option<u64>,
    scheme: Option<&str>,
) -> Outcome<Database> {
    let mut settings = settings(memory_limit, snapshot_age_max, snapshot_bytes_max, scheme)?;
    let durability = durability.map(str::parse).transpose();
    settings.durability =
        durability.map_err(|error: atoll::UnknownDurability| Fault::Value(error.to_string()))?;
    let db = py.detach(|| registry::open(&folder, &settings))?;
    hold(py, db)
}

/// A new database that also shows the tables of these snapshots; of two tables with the same name,
/// that of the earlier snapshot.
#[pyfunction]
#[pyo3(signature = (
    snapshots,
    *,
    memory_limit = None,
    snapshot_age_max = None,
    snapshot_bytes_max = None,
    scheme = None,
))]
pub(crate) fn derive(
    py: Python<'_>,
    snapshots: Vec<Py<Snapshot>>,
    memory_limit: Option<u64>,
    snapshot_age_max: Option<f64>,
    snapshot_bytes_max: Option<u64>,
    scheme: Option<&str>,
) -> Outcome<Database> {
    let bases = snapshots.iter().map(|snapshot| snapshot.get().inner()).collect::<Outcome<_>>()?;
    let settings = settings(memory_limit, snapshot_age_max, snapshot_bytes_max, scheme)?;
    build(py, bases, &settings)
}

impl Handle {
    /// Locked while this thread holds the GIL, and only briefly, so that a fork finds it unlocked.
    fn lock(&self) -> MutexGuard<'_, Option<Held>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn held<R>(&self, look: impl FnOnce(&Held) -> R) -> Outcome<R> {
        let held = self.lock();
        let held = held.as_ref().ok_or(Fault::Closed("the database is closed"))?;
        held.db.check_owner()?;
        Ok(look(held))
    }

    /// The database.
    ///
    /// # Errors
    /// [`Fault::Closed`]; [`Fault::Atoll`] in a child that was forked from its process.
    pub(crate) fn db(&self) -> Outcome<Shared> {
        self.held(|held| held.db.clone())
    }
}

impl Database {
    fn db(&self) -> Outcome<Shared> {
        self.0.db()
    }

    fn new_session(&self, py: Python<'_>) -> PyResult<Py<Session>> {
        let (db, sessions) = self.0.held(|held| (held.db.clone(), Arc::clone(&held.sessions)))?;
        Py::new(py, sessions.open(db))
    }

    /// The session of the calling thread.
    fn own_session(&self, py: Python<'_>) -> PyResult<Py<Session>> {
        let locals = self.0.held(|held| held.locals.clone_ref(py))?.into_bound(py);
        let name = intern!(py, "session");
        if let Some(session) = locals.getattr_opt(name)? {
            return Ok(session.cast_into::<Session>()?.unbind());
        }
        let session = self.new_session(py)?;
        locals.setattr(name, &session)?;
        Ok(session)
    }
}

#[pymethods]
impl Database {
    /// The name under which it is published, or None.
    #[getter]
    fn name(&self) -> Outcome<Option<String>> {
        Ok(self.db()?.name())
    }

    /// Names of its tables, including those of the snapshots that it is built on.
    #[getter]
    fn tables(&self, py: Python<'_>) -> Outcome<Vec<String>> {
        let db = self.db()?;
        py.detach(|| {
            let (mut names, catalog) = (db.tables(), db.catalog()?);
            for name in db.bases().iter().flat_map(atoll::Snapshot::tables) {
                if !names.contains(&name) && catalog.object(&name).is_none() {
                    names.push(name);
                }
            }
            Ok(names)
        })
    }

    /// Names of its views.
    #[getter]
    fn views(&self, py: Python<'_>) -> Outcome<Vec<String>> {
        let db = self.db()?;
        py.detach(|| {
            let catalog = db.catalog()?;
            let views = View::all(&catalog)?;
            Ok(views.into_iter().map(|(object, _)| object.name().to_owned()).collect())
        })
    }

    /// The snapshots that it is built on.
    #[getter]
    fn bases(&self) -> Outcome<Vec<Snapshot>> {
        Ok(self.db()?.bases().iter().cloned().map(Snapshot::of_base).collect())
    }

    /// Its counters and resources: commits, aborts, bytes copied, memory, snapshots.
    #[getter]
    fn counters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let counters = self.db()?.counters();
        let facts = PyDict::new(py);
        facts.set_item("commits", counters.commits)?;
        facts.set_item("aborts", counters.aborts)?;
        facts.set_item("extents_copied", counters.extents_copied)?;
        facts.set_item("bytes_copied_on_write", counters.bytes_copied_on_write)?;
        facts.set_item("memory_allocated_bytes", counters.memory_allocated_bytes)?;
        facts.set_item("memory_committed_bytes", counters.memory_committed_bytes)?;
        facts.set_item("memory_limit_bytes", counters.memory_limit_bytes)?;
        facts.set_item("memory_kept_bytes", counters.memory_kept_bytes)?;
        facts.set_item("snapshots", counters.snapshots)?;
        facts.set_item("epoch", counters.epoch)?;
        Ok(facts)
    }

    /// Where its memory is, in bytes. The parts add up to what the system reports for the process,
    /// except for stacks and partly used pages.
    #[getter]
    fn memory<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let account = self.db()?.memory();
        let facts = PyDict::new(py);
        facts.set_item("tables_bytes", account.tables_bytes)?;
        facts.set_item("kept_bytes", account.kept_bytes)?;
        facts.set_item("free_bytes", account.free_bytes)?;
        facts.set_item("headers_bytes", account.headers_bytes)?;
        facts.set_item("indexes_bytes", account.indexes_bytes)?;
        facts.set_item("heap_bytes", account.heap_bytes)?;
        facts.set_item("heap_free_bytes", account.heap_free_bytes)?;
        facts.set_item("process_bytes", account.process_bytes)?;
        Ok(facts)
    }

    /// The held snapshots of the database, their holders and their costs.
    fn snapshots<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let db = self.db()?;
        let snapshots = py.detach(|| db.snapshots());
        snapshot_list(py, &snapshots)
    }

    /// Creates a table and loads `data` into it in one transaction; returns the number of rows.
    ///
    /// `data` is anything that exports Arrow data (tables of pyarrow, polars, pandas and DuckDB, a
    /// `Result` or `Table` of this package), or a dict of columns (NumPy arrays or lists).
    /// `primary_key` names one column or several. A column without any value becomes text, with a
    /// warning. If the data cannot be loaded, no table is created.
    #[pyo3(signature = (name, data, *, primary_key))]
    fn create_table(
        &self,
        py: Python<'_>,
        name: &str,
        data: &Bound<'_, PyAny>,
        primary_key: &Bound<'_, PyAny>,
    ) -> PyResult<u64> {
        let session = self.own_session(py)?;
        let key = match primary_key.extract::<String>() {
            Ok(one) => vec![one],
            Err(_) => primary_key.extract::<Vec<String>>()?,
        };
        let (session, reader) = (session.get(), convert::reader(data)?);
        let rows = py.detach(|| IncomingRows::read(reader)).map_err(Fault::from)?;
        let untyped = rows.untyped();
        let count = py.detach(|| session.create_with_rows(name, rows, &key))?;
        for column in untyped {
            let text = format!("column \"{column}\" holds only NULL; its type is text");
            py.import("warnings")?.getattr("warn")?.call1((text,))?;
        }
        Ok(count)
    }

    /// Inserts `data` into a table, columns matched by name; returns the number of rows. Part of
    /// the transaction that is open in this thread's session, or a transaction of its own.
    fn insert(&self, py: Python<'_>, name: &str, data: &Bound<'_, PyAny>) -> PyResult<u64> {
        let session = self.own_session(py)?;
        let (session, reader) = (session.get(), convert::reader(data)?);
        Ok(py.detach(|| session.insert_rows(name, IncomingRows::read(reader)?))?)
    }

    /// Runs one SQL statement in the session of the calling thread, with values for its parameters,
    /// which are written `?`, or `$1`, `$2`.
    #[pyo3(signature = (statement, parameters = None))]
    fn sql(
        &self,
        py: Python<'_>,
        statement: &str,
        parameters: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<QueryResult> {
        let values = parameters::of(parameters)?;
        let session = self.own_session(py)?;
        let session = session.get();
        Ok(interrupt::run(py, |question| session.execute(statement, &values, question))?)
    }

    /// Runs one query in the session of the calling thread and returns its rows as they are read.
    #[pyo3(signature = (statement, parameters = None))]
    fn stream(
        &self,
        py: Python<'_>,
        statement: &str,
        parameters: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Stream> {
        let values = parameters::of(parameters)?;
        let session = self.own_session(py)?;
        let session = session.get();
        Ok(interrupt::run(py, |question| session.begin_stream(statement, &values, question))?)
    }

    /// Runs a statement once for each list of values, all of them or none; returns the number of
    /// rows that they changed. See `Session.executemany`.
    fn executemany(
        &self,
        py: Python<'_>,
        statement: &str,
        parameters: &Bound<'_, PyAny>,
    ) -> PyResult<u64> {
        Ok(self.own_session(py)?.get().executemany(py, statement, parameters)?)
    }

    /// Takes a checkpoint of a database in a folder, so that the next start reads less log. It
    /// takes them by itself too.
    fn checkpoint(&self, py: Python<'_>) -> Outcome<()> {
        let db = self.db()?;
        py.detach(|| db.checkpoint().map(drop))?;
        Ok(())
    }

    /// A further session besides that of the calling thread, for a transaction of its own; `with`
    /// closes it and rolls back an open transaction.
    fn session(&self, py: Python<'_>) -> PyResult<Py<Session>> {
        self.new_session(py)
    }

    /// A transaction as a `with` block: its end commits, an exception rolls back. `isolation` is
    /// "read committed", "repeatable read" or "serializable".
    #[pyo3(signature = (*, isolation = None, read_only = false))]
    fn transaction<'py>(
        &self,
        py: Python<'py>,
        isolation: Option<&str>,
        read_only: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let class = py.import("atolldb._transaction")?.getattr("Transaction")?;
        class.call1((self.new_session(py)?, isolation, read_only))
    }

    /// Takes a snapshot for this process.
    fn snapshot(&self, py: Python<'_>) -> Outcome<Snapshot> {
        Snapshot::take(py, Source::Here(Arc::downgrade(&self.0)))
    }

    /// A table of a snapshot that is taken for it.
    fn table(&self, py: Python<'_>, name: &str) -> Outcome<Table> {
        let db = self.db()?;
        Ok(Table::new(py.detach(|| db.snapshot()?.table(name))?))
    }

    fn __getitem__(&self, py: Python<'_>, name: &str) -> Outcome<Table> {
        self.table(py, name)
    }

    /// Gives the database a name by which other processes attach to it.
    #[pyo3(signature = (name, runtime_dir = None))]
    fn publish(&self, py: Python<'_>, name: &str, runtime_dir: Option<PathBuf>) -> Outcome<()> {
        let db = self.db()?;
        Ok(py.detach(|| db.publish(name, runtime_dir.as_deref()))?)
    }

    /// The `uri` by which the ADBC driver finds the database while it is open.
    fn _adbc_uri(&self) -> Outcome<String> {
        Ok(format!("open:{}", self.db()?.number()))
    }

    /// Closes the database: open transactions of its sessions are rolled back, its name is
    /// released, and its memory when the last snapshot of it in this process has gone. Snapshots of
    /// other processes stay readable. Others that share it (`open`, the connections of
    /// `atolldb.dbapi` and `atolldb.adbc`) keep it, with its name, until they are closed.
    fn close(&self, py: Python<'_>) {
        let Some(Held { db, locals, sessions }) = self.0.lock().take() else { return };
        drop(locals);
        let open = sessions.close_all();
        py.detach(|| drop((open, db)));
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, pyo3::types::PyTuple>) {
        self.close(py);
    }

    fn __repr__(&self) -> String {
        match self.db() {
            Err(Fault::Atoll(_)) => "<atolldb.Database of the parent process>".to_owned(),
            Err(_) => "<atolldb.Database, closed>".to_owned(),
            Ok(db) => {
                let name = db.name().map_or_else(String::new, |name| format!(" \"{name}\""));
                let (tables, bases) = (db.tables().len(), db.bases().len());
                format!("<atolldb.Database{name}: {tables} own tables, built on {bases} snapshots>")
            }
        }
    }
}
