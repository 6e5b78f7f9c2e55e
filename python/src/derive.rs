//! Databases of this process: empty ones, and ones built on snapshots.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use atoll::DatabaseOptions;
use atoll_sql::SqlSession;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::attach::snapshot_list;
use crate::convert::{self, IncomingRows};
use crate::errors::{Fault, Outcome};
use crate::result::QueryResult;
use crate::snapshot::Snapshot;
use crate::table::Table;

/// A database that this process owns, perhaps built on snapshots of others.
#[pyclass(frozen, module = "atolldb", name = "Database")]
pub(crate) struct Database(Mutex<Option<Held>>);

#[derive(Clone)]
struct Held {
    db: atoll::Database,
    session: Arc<Mutex<SqlSession>>,
}

/// The options of a database from Python's arguments.
pub(crate) fn options(
    memory_limit: Option<u64>,
    snapshot_age_max: Option<f64>,
    snapshot_bytes_max: Option<u64>,
    scheme: Option<&str>,
) -> Outcome<DatabaseOptions> {
    let age = |seconds: f64| {
        Duration::try_from_secs_f64(seconds).map_err(|_| {
            Fault::Value(format!("snapshot_age_max is {seconds}; it is a number of seconds"))
        })
    };
    let scheme = scheme.map(|name| name.parse::<atoll::SchemeKind>()).transpose();
    Ok(DatabaseOptions {
        scheme: scheme.map_err(|unknown| Fault::Value(unknown.to_string()))?.unwrap_or_default(),
        memory_limit_bytes: memory_limit,
        snapshot_age_max: snapshot_age_max.map(age).transpose()?,
        snapshot_bytes_max,
        ..DatabaseOptions::default()
    })
}

/// A database on these snapshots.
pub(crate) fn build(
    py: Python<'_>,
    bases: Vec<atoll::Snapshot>,
    options: DatabaseOptions,
) -> Outcome<Database> {
    let db = py.detach(|| atoll::Database::derive(bases, options))?;
    let session = Arc::new(Mutex::new(SqlSession::on_database(db.clone())));
    Ok(Database(Mutex::new(Some(Held { db, session }))))
}

/// A new, empty database.
///
/// `memory_limit` is in bytes, by default 80 % of what the process may use; `snapshot_age_max` is
/// in seconds; `snapshot_bytes_max` limits what snapshots keep alive together; `scheme` says how
/// transactions are kept apart; a name that there is none of is refused with all that there are.
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
    build(py, Vec::new(), options(memory_limit, snapshot_age_max, snapshot_bytes_max, scheme)?)
}

/// A database of one's own that shows the tables of these snapshots too; where two have a table of
/// the same name, the earlier one's.
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
    build(py, bases, options(memory_limit, snapshot_age_max, snapshot_bytes_max, scheme)?)
}

impl Database {
    fn held(&self) -> Outcome<Held> {
        let held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.clone().ok_or(Fault::Closed("the database is closed"))
    }
}

#[pymethods]
impl Database {
    /// The name that it is published by, or None.
    #[getter]
    fn name(&self) -> Outcome<Option<String>> {
        Ok(self.held()?.db.name())
    }

    /// Names of its tables, those of the snapshots that it is built on included.
    #[getter]
    fn tables(&self, py: Python<'_>) -> Outcome<Vec<String>> {
        let db = self.held()?.db;
        py.detach(|| {
            let mut names = db.tables();
            for name in db.bases().iter().flat_map(atoll::Snapshot::tables) {
                if !names.contains(&name) {
                    names.push(name);
                }
            }
            Ok(names)
        })
    }

    /// The snapshots that it is built on.
    #[getter]
    fn bases(&self) -> Outcome<Vec<Snapshot>> {
        Ok(self.held()?.db.bases().iter().cloned().map(Snapshot::new).collect())
    }

    /// What it has done and what it uses: commits, aborts, bytes copied, memory, snapshots.
    #[getter]
    fn counters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let counters = self.held()?.db.counters();
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

    /// The snapshots of the database that are held, by whom, and what they cost.
    fn snapshots<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let db = self.held()?.db;
        let snapshots = py.detach(|| db.snapshots());
        snapshot_list(py, &snapshots)
    }

    /// Creates a table and loads `data` into it in one transaction; returns the number of rows.
    ///
    /// `data` is anything that exports Arrow data (tables of pyarrow, polars, pandas and DuckDB, a
    /// `Result` or `Table` of this package), or a dict of columns (NumPy arrays or lists).
    /// `primary_key` names one column or several. When the data cannot be loaded for what is in
    /// it, there is no table either.
    #[pyo3(signature = (name, data, *, primary_key))]
    fn create_table(
        &self,
        py: Python<'_>,
        name: &str,
        data: &Bound<'_, PyAny>,
        primary_key: &Bound<'_, PyAny>,
    ) -> PyResult<u64> {
        let db = self.held()?.db;
        let key = match primary_key.extract::<String>() {
            Ok(one) => vec![one],
            Err(_) => primary_key.extract::<Vec<String>>()?,
        };
        let reader = convert::reader(data)?;
        Ok(py.detach(|| {
            let rows = IncomingRows::read(reader)?;
            let schema = rows.schema(&key)?;
            let rows = rows.fit(&schema)?;
            rows.check_key(name, &schema)?;
            let table = db.create_table(name, schema)?;
            rows.insert(&db, &table)
        })?)
    }

    /// Inserts `data` into a table in one transaction, columns matched by name; returns the number
    /// of rows.
    fn insert(&self, py: Python<'_>, name: &str, data: &Bound<'_, PyAny>) -> PyResult<u64> {
        let db = self.held()?.db;
        let reader = convert::reader(data)?;
        Ok(py.detach(|| {
            let table = db.table(name)?;
            IncomingRows::read(reader)?.fit(table.schema())?.insert(&db, &table)
        })?)
    }

    /// Runs one SQL statement. A query runs on a snapshot that is taken for it.
    fn sql(&self, py: Python<'_>, statement: &str) -> Outcome<QueryResult> {
        let held = self.held()?;
        py.detach(|| {
            let mut session = held.session.lock().unwrap_or_else(PoisonError::into_inner);
            let outcome = session.execute(statement);
            QueryResult::new(outcome.map_err(|error| Fault::Sql(error, statement.to_owned()))?)
        })
    }

    /// Takes a snapshot for this process.
    fn snapshot(&self, py: Python<'_>) -> Outcome<Snapshot> {
        let db = self.held()?.db;
        Ok(Snapshot::new(py.detach(|| db.snapshot())?))
    }

    /// A table of a snapshot that is taken for it.
    fn table(&self, py: Python<'_>, name: &str) -> Outcome<Table> {
        let db = self.held()?.db;
        Ok(Table::new(py.detach(|| db.snapshot()?.table(name))?))
    }

    fn __getitem__(&self, py: Python<'_>, name: &str) -> Outcome<Table> {
        self.table(py, name)
    }

    /// Gives the database a name by which other processes attach to it.
    #[pyo3(signature = (name, runtime_dir = None))]
    fn publish(&self, py: Python<'_>, name: &str, runtime_dir: Option<PathBuf>) -> Outcome<()> {
        let db = self.held()?.db;
        Ok(py.detach(|| db.publish(name, runtime_dir.as_deref()))?)
    }

    /// Closes the database: its name goes, and its memory when the last snapshot of it in this
    /// process has gone. Snapshots of other processes stay readable.
    fn close(&self, py: Python<'_>) {
        let held = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        py.detach(|| drop(held));
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, pyo3::types::PyTuple>) {
        self.close(py);
    }

    fn __repr__(&self) -> String {
        match self.held() {
            Err(_) => "<atolldb.Database, closed>".to_owned(),
            Ok(held) => {
                let name = held.db.name().map_or_else(String::new, |name| format!(" \"{name}\""));
                let (tables, bases) = (held.db.tables().len(), held.db.bases().len());
                format!("<atolldb.Database{name}: {tables} own tables, built on {bases} snapshots>")
            }
        }
    }
}
