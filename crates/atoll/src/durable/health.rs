//! The health of an open durable database, for its operator.
//!
//! A transaction receives the error that prevents its acknowledgement. Failures that no transaction
//! waits for, in the threads that flush, prepare files and take checkpoints, are recorded here.

use std::sync::{Mutex, MutexGuard, PoisonError};

use atoll_log::{LogError, Logs};

use super::open::waiting;
use crate::error::{Error, Result};

/// The current failures of a database's durability; a failure disappears from here when a retry
/// succeeds.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Health {
    /// The logs of which a flush has failed, each a [`LogError::Poisoned`]. No log acknowledges
    /// commits any more; every acknowledged commit is there when the database is opened again. What
    /// is in memory can be read.
    pub logs: Vec<LogError>,
    /// The reason why changes have been refused since the database was opened: there was no space
    /// to begin the incarnation. The database can be read, and accepts changes by itself once there
    /// is space.
    pub space: Option<LogError>,
    /// The reason why the next file of a log could not be made: changes will be refused when the
    /// existing files are full.
    pub files: Option<LogError>,
    /// The reason why the last checkpoint could not be taken: the logs grow.
    pub checkpoint: Option<CheckpointFailure>,
    /// The reason why the logs could not be archived with the last checkpoint, a
    /// [`LogError::NotArchived`]: their files are kept until they can be archived.
    pub archive: Option<LogError>,
    /// The reason why data that exceeds the memory budget could not be written out: no data leaves
    /// memory any more, and no checkpoint is taken.
    pub spill: Option<String>,
}

/// A checkpoint that could not be taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointFailure {
    /// The error.
    pub cause: String,
    /// Number of failures since the last successful checkpoint, or since the database was opened.
    pub in_a_row: u64,
}

impl Health {
    /// Whether there is no failure.
    pub fn is_well(&self) -> bool {
        self.troubles().is_empty()
    }

    /// A message for each failure, with what to do about it. A message stays the same while the
    /// same failure lasts for the same reason.
    pub fn troubles(&self) -> Vec<String> {
        let mut troubles: Vec<String> = self.logs.iter().map(LogError::to_string).collect();
        troubles.extend(self.spill.clone());
        troubles.extend(self.space.iter().map(waiting));
        troubles.extend(self.files.iter().map(|cause| {
            format!(
                "the next file of a log could not be made ({cause}); changes are accepted \
                 until the existing files are full, and the database tries again"
            )
        }));
        if let Some(CheckpointFailure { cause, .. }) = &self.checkpoint {
            // The list has the failure that prevents checkpoints already.
            if self.space.is_none() && !troubles.contains(cause) {
                troubles.push(format!(
                    "no checkpoint could be taken ({cause}); the logs contain every commit, and \
                     grow until a checkpoint succeeds; the database tries again"
                ));
            }
        }
        troubles.extend(self.archive.iter().map(LogError::to_string));
        troubles
    }
}

/// The last results of the threads of a durable database.
#[derive(Default)]
pub(crate) struct Notes(Mutex<Noted>);

#[derive(Clone, Default)]
struct Noted {
    files: Option<LogError>,
    checkpoint: Option<CheckpointFailure>,
    archive: Option<LogError>,
}

impl Notes {
    fn lock(&self) -> MutexGuard<'_, Noted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the result of preparing log files.
    pub(crate) fn note_files(&self, done: std::result::Result<(), LogError>) {
        self.lock().files = done.err();
    }

    /// Records the result of a checkpoint.
    pub(crate) fn note_checkpoint<T>(&self, done: &Result<T>) {
        let last = &mut self.lock().checkpoint;
        *last = match done {
            Ok(_) => None,
            Err(Error::Log(LogError::Closed)) => return,
            Err(cause) => {
                let before = last.as_ref().map_or(0, |last| last.in_a_row);
                Some(CheckpointFailure { cause: cause.to_string(), in_a_row: before + 1 })
            }
        };
    }

    /// Records the result of archiving the logs.
    pub(crate) fn note_archive(&self, failed: Option<LogError>) {
        self.lock().archive = failed;
    }

    /// Adds the failures of the logs, and the failure to write out data that exceeds the memory
    /// budget.
    pub(crate) fn health(&self, logs: Option<&Logs>, spill: Option<String>) -> Health {
        let Noted { files, checkpoint, archive } = self.lock().clone();
        let space = logs.and_then(Logs::waits_for);
        let logs = logs.map(Logs::failures).unwrap_or_default();
        // A log that has failed makes no files, and its own error says so.
        let files = files.filter(|_| logs.is_empty() && space.is_none());
        Health { logs, space, files, checkpoint, archive, spill }
    }
}
