//! What is wrong with the durability of a database that is open, for whoever runs it.
//!
//! A transaction is told why it could not be acknowledged. What fails where no transaction waits,
//! in a thread that flushes, makes files or takes checkpoints, is noted here.

use std::sync::{Mutex, MutexGuard, PoisonError};

use atoll_log::{LogError, Logs};

use super::open::waiting;
use crate::error::{Error, Result};

/// What is wrong with the durability of a database, as it is now: what could be done again in the
/// meantime is not in it any more.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Health {
    /// The logs of which a flush has failed, each a [`LogError::Poisoned`]: nothing is acknowledged
    /// any more, by any log, and everything that was acknowledged is there when the database is
    /// opened again. What is in memory can be read.
    pub logs: Vec<LogError>,
    /// Why changes are refused since the database was opened: there was no space to begin with
    /// them. It can be read, and goes on by itself when there is.
    pub space: Option<LogError>,
    /// Why the next file of a log could not be made: changes will be refused when those that there
    /// are have been filled.
    pub files: Option<LogError>,
    /// Why the last checkpoint could not be taken: the logs grow.
    pub checkpoint: Option<CheckpointFailure>,
    /// Why the logs could not be archived with the last checkpoint, a [`LogError::NotArchived`]:
    /// they are kept where they are until they can.
    pub archive: Option<LogError>,
    /// Why what does not fit the budget of memory could not be written out: nothing leaves memory
    /// any more, and no checkpoint is taken.
    pub spill: Option<String>,
}

/// A checkpoint that could not be taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointFailure {
    /// Why not.
    pub cause: String,
    /// How many have failed since the last that could be taken, or since opening.
    pub in_a_row: u64,
}

impl Health {
    /// Whether nothing is wrong.
    pub fn is_well(&self) -> bool {
        self.troubles().is_empty()
    }

    /// What is wrong and what to do about it, a text for each; the same as long as the same is
    /// wrong for the same reason.
    pub fn troubles(&self) -> Vec<String> {
        let mut troubles: Vec<String> = self.logs.iter().map(LogError::to_string).collect();
        troubles.extend(self.spill.clone());
        troubles.extend(self.space.iter().map(waiting));
        troubles.extend(self.files.iter().map(|cause| {
            format!(
                "the next file of a log could not be made ({cause}); changes are taken until those \
                 that there are have been filled, and it is tried again"
            )
        }));
        if let Some(CheckpointFailure { cause, .. }) = &self.checkpoint {
            // What keeps checkpoints from being taken at all has been told.
            if self.space.is_none() && !troubles.contains(cause) {
                troubles.push(format!(
                    "no checkpoint could be taken ({cause}); what is committed is in the logs, \
                     which grow until one can be, and it is tried again"
                ));
            }
        }
        troubles.extend(self.archive.iter().map(LogError::to_string));
        troubles
    }
}

/// What the threads of a durable database have met last.
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

    /// Files have been made ahead of need, or could not be.
    pub(crate) fn note_files(&self, done: std::result::Result<(), LogError>) {
        self.lock().files = done.err();
    }

    /// A checkpoint has been taken, or could not be.
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

    /// The logs have been archived, or could not be.
    pub(crate) fn note_archive(&self, failed: Option<LogError>) {
        self.lock().archive = failed;
    }

    /// With what is wrong of the logs themselves, and of what does not fit memory.
    pub(crate) fn health(&self, logs: Option<&Logs>, spill: Option<String>) -> Health {
        let Noted { files, checkpoint, archive } = self.lock().clone();
        let space = logs.and_then(Logs::waits_for);
        let logs = logs.map(Logs::failures).unwrap_or_default();
        // A log that has failed makes no files, and says why.
        let files = files.filter(|_| logs.is_empty() && space.is_none());
        Health { logs, space, files, checkpoint, archive, spill }
    }
}
