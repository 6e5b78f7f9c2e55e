//! Durable databases: joins tables, logs and checkpoint stores.
//!
//! | module | contents |
//! |---|---|
//! | [`open`] | opens a folder: creates a database, or recovers one |
//! | [`load`] | loads the tables of a checkpoint, and builds the indexes |
//! | [`recover`] | redoes the commits that the logs hold behind the checkpoint |
//! | [`checkpoint`] | writes changed blocks to the checkpoint stores |
//! | [`closed`] | access to the files of a database that is not open |
//! | [`check`] | looks for damage in those files |
//! | [`inspect`] | shows the contents of the logs |
//! | [`backup`] | copies an open database |
//! | [`segment_writer`] | writes the bytes of a segment of a snapshot |
//! | [`flusher`] | the threads that flush, prepare log files and take checkpoints |
//! | [`health`] | failures of an open database, for its operator |
//!
//! A checkpoint is a snapshot, so it contains only committed data and recovery needs no undo: it
//! redoes the commits that the logs hold up to the durable horizon, and ignores everything else in
//! them (`docs/decisions/2026-11-21-redo-only.md`).

pub(crate) mod backup;
mod check;
pub(crate) mod checkpoint;
mod closed;
pub(crate) mod flusher;
pub(crate) mod health;
pub mod inspect;
mod load;
pub(crate) mod open;
mod recover;
mod segment_writer;

/// What recovery found and did when a database was opened.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize)]
pub struct RecoveryReport {
    /// The database was new.
    pub created: bool,
    /// The database had been closed, so the logs ended where it was closed.
    pub was_closed: bool,
    /// The medium of each tablespace, see [`atoll_machine::MediumKind::name`].
    pub media: Vec<&'static str>,
    /// Number of the checkpoint from which recovery began, 0 if there was none.
    pub checkpoint: u64,
    /// Bytes of the logs that were read.
    pub log_bytes: u64,
    /// Transactions that were redone.
    pub redone: u64,
    /// Transactions that the logs hold in part or above the durable horizon. None of them was
    /// acknowledged; they were dropped.
    pub dropped: u64,
    /// Number of rows.
    pub rows: u64,
    /// Seconds for reading the checkpoint stores.
    pub home_s: f64,
    /// Seconds for reading the logs and redoing their commits.
    pub log_s: f64,
    /// Seconds for building the indexes.
    pub index_s: f64,
    /// Problems that recovery found and could repair.
    pub notes: Vec<String>,
}

/// The result of a backup.
#[derive(Debug, Clone, Copy, Default, PartialEq, serde::Serialize)]
pub struct BackupReport {
    /// The checkpoint that was taken for it.
    pub checkpoint: CheckpointReport,
    /// Bytes of tables in the backup.
    pub bytes: u64,
}

/// The result of a checkpoint.
#[derive(Debug, Clone, Copy, Default, PartialEq, serde::Serialize)]
pub struct CheckpointReport {
    /// Its number.
    pub number: u64,
    /// Segments that have changed since the checkpoint before.
    pub segments_changed: u64,
    /// Segments in all.
    pub segments: u64,
    /// Bytes of blocks that were written to the checkpoint stores.
    pub bytes: u64,
    /// Bytes of maps and steps. A step also holds the changed lines of blocks of which only few
    /// lines have changed.
    pub file_bytes: u64,
    /// Bytes of logs that were copied into the archive, if there is one.
    pub archived_bytes: u64,
    /// Duration in seconds.
    pub seconds: f64,
    /// Log files or checkpoint files that are not needed any more could not be removed or recycled;
    /// the next checkpoint tries again.
    pub has_leftovers: bool,
}

impl CheckpointReport {
    /// Adds the part of one tablespace.
    fn add(&mut self, part: &Self) {
        self.segments_changed += part.segments_changed;
        self.segments += part.segments;
        self.bytes += part.bytes;
        self.file_bytes += part.file_bytes;
    }
}
