//! What makes commits last, as the workers see it. The log implements it; a database in memory has
//! none.
//!
//! The order of a commit, and why
//! 1. Outside the gate, [`Recorder::admit`] waits until there is room for the records, so that
//!    nothing waits inside; it fails while nothing has been decided.
//! 2. In the section in which the transaction's changes become part of the database,
//!    [`Recorder::record`] gives it its place in the log and its GSN. So the records of a row have
//!    the order of its changes, and a cut has before it exactly the transactions whose records
//!    carry an older epoch.
//! 3. Before others may see the changes, the GSN of every segment that was written is raised to
//!    that of the commit. Whoever reads there learns it, and is itself ordered behind it in
//!    whatever log it writes to.
//!
//! - `JOURNAL-1`: a transaction's GSN is greater than those of all commits that it has seen and
//!   greater than any before it in the logs that it writes to (the three rules of GoldenX, section
//!   2.2, with a segment for a page and taken at commit instead of at each change).

use std::fmt;
use std::sync::Arc;

use atoll_storage::redo::Redo;

/// Why something cannot be recorded. Nothing has been decided then.
#[derive(Debug, Clone)]
pub struct JournalError(pub Arc<dyn std::error::Error + Send + Sync>);

impl fmt::Display for JournalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for JournalError {}

/// What a transaction is to be recorded with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Commit {
    /// The epoch of the section.
    pub epoch: u64,
    /// The greatest GSN of a commit that the transaction has seen.
    pub seen: u64,
}

/// See the module.
pub trait Journal: Send + Sync + 'static {
    /// What a worker records its transactions with.
    fn recorder(self: Arc<Self>) -> Box<dyn Recorder>;
}

/// A worker's way to the log; see the module.
pub trait Recorder: Send {
    /// Waits for room for the records of a commit. Outside the gate.
    ///
    /// # Errors
    /// [`JournalError`].
    fn admit(&mut self, redo: &Redo) -> Result<(), JournalError>;

    /// Records changes of a transaction that is too large for one record and has not committed.
    /// Outside the gate.
    ///
    /// # Errors
    /// [`JournalError`].
    fn spill(&mut self, redo: &Redo) -> Result<(), JournalError>;

    /// Records a commit for which there is room; returns its GSN. Inside the gate.
    fn record(&mut self, redo: &Redo, commit: Commit) -> u64;

    /// The transaction has been rolled back.
    fn withdraw(&mut self);

    /// Tablespaces.
    fn tablespaces(&self) -> u32;

    /// That there is such a tablespace.
    ///
    /// # Errors
    /// [`JournalError`].
    fn check_tablespace(&self, tablespace: u32) -> Result<(), JournalError>;

    /// Waits for room for the description of a table, see [`crate::describe`]. All of them go to
    /// the log of tablespace 0, so that they are found again in their order. Outside the gate.
    ///
    /// # Errors
    /// [`JournalError`].
    fn admit_table(&mut self, description: &[u8]) -> Result<(), JournalError>;

    /// Records a table for which there is room, before anybody sees it; returns the GSN. Inside.
    fn record_table(&mut self, description: &[u8], epoch: u64) -> u64;
}
