//! The redo records of a transaction, until the log has them.

use atoll_storage::redo::Redo;

use crate::journal::{Commit, Recorder};

/// A transaction's access to the log.
pub(super) struct RedoWriter {
    pub(super) recorder: Box<dyn Recorder>,
    pub(super) redo: Redo,
    /// A buffer for a value.
    pub(super) value: Vec<u8>,
}

impl RedoWriter {
    pub(super) fn new(recorder: Box<dyn Recorder>) -> Self {
        Self { recorder, redo: Redo::default(), value: Vec::new() }
    }

    /// Discards the records of a transaction that has been rolled back.
    pub(super) fn withdraw(&mut self) {
        self.recorder.withdraw();
        self.redo.clear();
    }

    /// Assigns a commit its position in the log; returns its GSN. Inside the gate.
    pub(super) fn commit(&mut self, commit: Commit) -> u64 {
        if self.redo.is_empty() {
            return commit.seen;
        }
        let gsn = self.recorder.record(&self.redo, commit);
        self.redo.clear();
        gsn
    }
}
