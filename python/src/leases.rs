//! The leases of a database as Python dictionaries.

use atoll::SnapshotInfo;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

/// The facts about held snapshots as dictionaries.
pub(crate) fn snapshot_list<'py>(
    py: Python<'py>,
    snapshots: &[SnapshotInfo],
) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for snapshot in snapshots {
        let facts = PyDict::new(py);
        facts.set_item("id", snapshot.id)?;
        facts.set_item("pid", snapshot.pid)?;
        facts.set_item("command", &snapshot.command)?;
        facts.set_item("epoch", snapshot.epoch)?;
        facts.set_item("age_s", snapshot.age_s)?;
        facts.set_item("bytes_shared", snapshot.bytes_shared)?;
        facts.set_item("bytes_copied", snapshot.bytes_copied)?;
        facts.set_item("bytes_kept", snapshot.bytes_kept)?;
        facts.set_item("state", &snapshot.state)?;
        list.append(facts)?;
    }
    Ok(list)
}
