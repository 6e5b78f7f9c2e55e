//! State that all threads of a run share.

use std::sync::atomic::AtomicU64;

use atoll::{Index, Table};

use super::args::Plan;

/// See the module.
pub struct Field {
    pub plan: Plan,
    pub table: Table,
    /// Positions of the columns other than the key.
    pub columns: Vec<usize>,
    /// The ordered index on the key, for scans.
    pub index: Option<Index>,
    /// The key of the next insert.
    pub next: AtomicU64,
}
