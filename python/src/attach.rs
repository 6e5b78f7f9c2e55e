//! Connections to databases of other processes.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::database::snapshot::{Snapshot, Source};
use crate::errors::{Fault, Outcome};
use crate::leases::snapshot_list;
use crate::line::Line;

/// A connection to a database that another process owns.
#[pyclass(frozen, module = "atolldb", name = "Connection")]
pub(crate) struct Connection {
    name: String,
    owner_pid: u32,
    line: Arc<Line>,
}

/// Attaches to the database that a process has published under `name`.
///
/// `runtime_dir` is the directory of names; the default is `$ATOLL_RUNTIME_DIR`, or the runtime
/// directory of the user.
#[pyfunction]
#[pyo3(signature = (name, runtime_dir = None))]
pub(crate) fn attach(
    py: Python<'_>,
    name: &str,
    runtime_dir: Option<PathBuf>,
) -> Outcome<Connection> {
    let attachment = py.detach(|| atoll::attach(name, runtime_dir.as_deref()))?;
    Ok(Connection {
        name: attachment.name().to_owned(),
        owner_pid: attachment.owner_pid(),
        line: Arc::new(Line::new(attachment)),
    })
}

#[pymethods]
impl Connection {
    /// Name of the database.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// Process that owns the database.
    #[getter]
    fn owner_pid(&self) -> u32 {
        self.owner_pid
    }

    /// Takes a snapshot: a frozen, consistent view of the database. Nothing is copied.
    fn snapshot(&self, py: Python<'_>) -> Outcome<Snapshot> {
        Snapshot::take(py, Source::Owner(Arc::clone(&self.line)))
    }

    /// The held snapshots of the database, their holders and their costs.
    fn snapshots<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let attachment = self.line.attachment()?;
        let snapshots = py.detach(|| attachment.snapshots()).map_err(Fault::from)?;
        snapshot_list(py, &snapshots)
    }

    /// Closes the connection. Snapshots taken from it remain valid; they cannot be refreshed.
    fn close(&self, py: Python<'_>) {
        let attachment = self.line.close();
        py.detach(|| drop(attachment));
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, pyo3::types::PyTuple>) {
        self.close(py);
    }

    fn __repr__(&self) -> String {
        format!("<atolldb.Connection to \"{}\" of process {}>", self.name, self.owner_pid)
    }
}
