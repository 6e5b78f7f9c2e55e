//! Limits of the queries of this process.

use std::path::PathBuf;

use atoll_sql::QueryLimits;
use pyo3::prelude::*;

/// Limits the queries of this process together, for all its databases and snapshots.
///
/// `memory` is in bytes and includes results that are kept; the default is an eighth of the memory
/// that the process may use. Data that does not fit is spilled to files in a folder
/// `atoll-spill-UID` in `spill_folder` (default `$TMPDIR`, else `/var/tmp`), at most `spill` bytes
/// together (default half of the free disk), or raises `OutOfMemory`. A limit that is not given has
/// its default.
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
