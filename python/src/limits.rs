//! Limits of the queries of this process.

use std::path::PathBuf;

use atoll_sql::QueryLimits;
use pyo3::prelude::*;

/// Sets limits for all queries of this process together, on all its databases and snapshots.
///
/// `memory` is in bytes and includes results that are kept; by default it is an eighth of what the
/// process may use. What does not fit is spilled to files in a folder `atoll-spill-UID` in
/// `spill_folder` (by default `$TMPDIR`, else `/var/tmp`), with at most `spill` bytes together (by
/// default half of the free space there), or raises `OutOfMemory`. An argument that is not given is
/// set to its default.
#[pyfunction]
#[pyo3(signature = (*, memory = None, spill = None, spill_folder = None))]
pub(crate) fn set_query_limits(
    py: Python<'_>,
    memory: Option<u64>,
    spill: Option<u64>,
    spill_folder: Option<PathBuf>,
) {
    let limits = QueryLimits { memory_bytes: memory, spill_bytes: spill, spill_folder };
    py.detach(|| atoll_sql::set_query_limits(limits));
}
