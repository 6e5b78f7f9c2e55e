//! The interface through which workers write commits to the log. The log implements it; a database
//! in memory has none.
//!
//! A commit takes these steps:
//! 1. Outside the gate, [`Recorder::admit`] waits until the log has room for the records, so that
//!    the worker does not wait inside. It may still fail, since the commit has not been decided.
//! 2. In the section in which the transaction's changes become part of the database,
//!    [`Recorder::record`] assigns a position in the log and a GSN. So the records of a row have
//!    the order of its changes, and a cut comes after exactly the transactions with records of the
//!    cut's epoch or an older one.
//! 3. Before other transactions may see the changes, the worker raises the GSN of every segment
//!    that it has written to the GSN of the commit. A transaction that reads there learns this GSN,
//!    and its own commit gets a greater one, in whatever log it writes to.
//!
//! - `JOURNAL-1`: a transaction's GSN is greater than the GSNs of all commits that it has seen, and
//!   greater than all earlier GSNs in the logs that it writes to (the three rules of GoldenX,
//!   section 2.2, with segments instead of pages, and at commit instead of at each change).

use std::fmt;
use std::sync::Arc;

use atoll_storage::TableSerial;
use atoll_storage::redo::Redo;

/// Why the log cannot record a transaction. The transaction has not committed then.
#[derive(Debug, Clone)]
pub struct JournalError(pub Arc<dyn std::error::Error + Send + Sync>);

impl fmt::Display for JournalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for JournalError {}

/// The header of a transaction's commit record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Commit {
    /// The epoch of the section.
    pub epoch: u64,
    /// The greatest GSN of a commit that the transaction has seen.
    pub seen: u64,
}

/// A change of the set of tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Definition<'d> {
    /// A table is created; its description, see [`crate::describe`].
    Create(&'d [u8]),
    /// A table gets another description; its rows stay as they are.
    Alter(&'d [u8]),
    /// A table is dropped.
    Drop(TableSerial),
}

/// See the module.
pub trait Journal: Send + Sync + 'static {
    /// A recorder for transactions, one at a time.
    fn recorder(self: Arc<Self>) -> Box<dyn Recorder>;
}

/// The access of transactions to the log; see the module.
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

    /// Records a definition of a transaction that has not committed. The transaction then needs a
    /// commit record, and the GSN of that is as of [`Recorder::record_definition`]. Outside the
    /// gate.
    ///
    /// # Errors
    /// [`JournalError`].
    fn spill_definition(&mut self, definition: Definition<'_>) -> Result<(), JournalError>;

    /// Records a commit for which there is room; returns its GSN. Inside the gate.
    fn record(&mut self, redo: &Redo, commit: Commit) -> u64;

    /// Withdraws the admission: the transaction has been rolled back.
    fn withdraw(&mut self);

    /// The number of tablespaces.
    fn tablespaces(&self) -> u32;

    /// Checks that a tablespace exists.
    ///
    /// # Errors
    /// [`JournalError`].
    fn check_tablespace(&self, tablespace: u32) -> Result<(), JournalError>;

    /// Waits for room for a definition. The log of tablespace 0 holds all of them, so that recovery
    /// finds them in their order. Outside the gate.
    ///
    /// # Errors
    /// [`JournalError`].
    fn admit_definition(&mut self, definition: Definition<'_>) -> Result<(), JournalError>;

    /// Records a definition for which there is room, in the section in which the directory changes;
    /// returns its GSN, which is greater than those of all commits before it, and less than those
    /// of all after it, in any log. No transaction can see a new table before. Inside the gate.
    fn record_definition(&mut self, definition: Definition<'_>, epoch: u64) -> u64;
}
