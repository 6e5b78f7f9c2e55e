//! What a transaction tells the log: its redo records, and the GSNs that order its commit.

use atoll_storage::redo::Redo;

use crate::journal::{Commit, Recorder};
use crate::kept::KEPT_BYTES_MAX;

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
}

/// The state of a transaction towards the log; empty if there is no log.
pub(super) struct LogState {
    writer: Option<RedoWriter>,
    /// Some of its records are in the log already, ahead of its commit.
    has_spilled: bool,
    /// The greatest GSN of a commit that it has seen.
    seen_gsn: u64,
    /// The GSN of its own commit.
    commit_gsn: u64,
}

impl LogState {
    pub(super) fn new(recorder: Option<Box<dyn Recorder>>) -> Self {
        let writer = recorder.map(RedoWriter::new);
        Self { writer, has_spilled: false, seen_gsn: 0, commit_gsn: 0 }
    }

    /// A transaction begins.
    pub(super) fn begin(&mut self) {
        (self.seen_gsn, self.commit_gsn) = (0, 0);
    }

    /// Notes the GSN of what the transaction has read, if there is a log.
    #[inline]
    pub(super) fn note(&mut self, gsn: impl FnOnce() -> u64) {
        if self.writer.is_some() {
            self.seen_gsn = self.seen_gsn.max(gsn());
        }
    }

    /// Whether there is a log.
    #[inline]
    pub(super) fn is_present(&self) -> bool {
        self.writer.is_some()
    }

    /// The GSN of the commit, and the greatest that was seen.
    pub(super) fn gsns(&self) -> (u64, u64) {
        (self.commit_gsn, self.seen_gsn)
    }

    /// Takes the writer, to encode records with it and the rest of the transaction.
    pub(super) fn take_writer(&mut self) -> Option<RedoWriter> {
        self.writer.take()
    }

    /// Gives the writer back; `has_spilled` says whether the log has some of its records.
    pub(super) fn put_back(&mut self, mut writer: RedoWriter, has_spilled: bool) {
        if writer.value.capacity() > KEPT_BYTES_MAX {
            writer.value = Vec::new();
        }
        (self.writer, self.has_spilled) = (Some(writer), has_spilled);
    }

    /// Discards the records of a transaction that is rolled back.
    pub(super) fn withdraw(&mut self) {
        if let Some(writer) = &mut self.writer {
            writer.recorder.withdraw();
            writer.redo.clear();
        }
        self.has_spilled = false;
    }

    /// Assigns the commit its position in the log; returns its GSN. Inside the gate.
    pub(super) fn commit(&mut self, epoch: u64) -> u64 {
        let seen = self.seen_gsn;
        let Some(RedoWriter { recorder, redo, .. }) = &mut self.writer else { return seen };
        let has_records = std::mem::take(&mut self.has_spilled) | !redo.is_empty();
        self.commit_gsn =
            if has_records { recorder.record(redo, Commit { epoch, seen }) } else { seen };
        redo.clear();
        self.commit_gsn
    }
}
