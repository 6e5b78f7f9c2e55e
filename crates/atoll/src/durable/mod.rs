//! Durable databases: what joins tables, log and home.
//!
//! | module | room for |
//! |---|---|
//! | [`open`] | opening a folder: a new database, or one that is recovered |
//! | [`load`] | making the tables of a checkpoint, and indexes |
//! | [`recover`] | applying again what the logs have behind it |
//! | [`checkpoint`] | writing what has changed home, so that the logs can be short |
//! | [`check`] | looking for damage in the files of a database that is not open |
//! | [`inspect`] | showing what its logs have |
//! | [`backup`] | a copy of a database that is open |
//! | [`segment_writer`] | the bytes of a segment of a snapshot |
//! | [`flusher`] | the thread that flushes, prepares files and takes checkpoints |
//! | [`health`] | what goes wrong meanwhile, for whoever runs the database |
//!
//! A checkpoint is a snapshot, so it shows committed data only and nothing ever has to be undone at
//! recovery: a commit that the logs hold up to the durable horizon is applied again, anything else
//! is as if it had never been (`docs/decisions/2026-11-21-redo-only.md`).

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

/// What opening a database has found and done.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize)]
pub struct RecoveryReport {
    /// It was new.
    pub created: bool,
    /// It had been closed, so the logs held nothing that the homes did not.
    pub was_closed: bool,
    /// What each tablespace lies on, see [`atoll_machine::MediumKind::name`].
    pub media: Vec<&'static str>,
    /// Number of the checkpoint that it was made from, 0 when there was none.
    pub checkpoint: u64,
    /// Bytes of the logs that were read.
    pub log_bytes: u64,
    /// Transactions that were applied again.
    pub redone: u64,
    /// Transactions that the logs hold in part or above the durable horizon, and that nobody was
    /// told of: they were dropped.
    pub dropped: u64,
    /// Rows.
    pub rows: u64,
    /// Seconds for reading the homes, for the logs, and for the indexes.
    pub home_s: f64,
    /// See there.
    pub log_s: f64,
    /// See there.
    pub index_s: f64,
    /// What was not as it should be and could be helped.
    pub notes: Vec<String>,
}

/// What a backup holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, serde::Serialize)]
pub struct BackupReport {
    /// The checkpoint that was taken for it.
    pub checkpoint: CheckpointReport,
    /// Bytes of tables in the backup.
    pub bytes: u64,
}

/// What a checkpoint has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, serde::Serialize)]
pub struct CheckpointReport {
    /// Its number.
    pub number: u64,
    /// Segments that had changed since the one before.
    pub segments_changed: u64,
    /// Segments in all.
    pub segments: u64,
    /// Bytes of blocks that were written home.
    pub bytes: u64,
    /// Bytes of the files that say what the checkpoint holds: maps, or what is different from the
    /// one before, with lines of blocks of which only few have changed.
    pub file_bytes: u64,
    /// Bytes of logs that were copied into the archive, if there is one.
    pub archived_bytes: u64,
    /// Seconds.
    pub seconds: f64,
    /// What nobody needs any more could not be removed or used again; it is tried again with the
    /// next one.
    pub has_leftovers: bool,
}

impl CheckpointReport {
    /// What a tablespace's part of it has done.
    fn add(&mut self, part: &Self) {
        self.segments_changed += part.segments_changed;
        self.segments += part.segments;
        self.bytes += part.bytes;
        self.file_bytes += part.file_bytes;
    }
}
