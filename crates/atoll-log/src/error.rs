//! What can go wrong with what lies on a medium.

use std::sync::Arc;

use atoll_machine::MediumError;
use atoll_txn::journal::JournalError;

/// An error of the log or of the home.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// The medium could not do what was asked.
    #[error(transparent)]
    Medium(#[from] MediumError),
    /// A flush has failed before. What was written since the one before it may be lost, so nothing
    /// is acknowledged any more; what is in memory can still be read.
    #[error(
        "the log of tablespace {tablespace} takes no more changes since a flush failed ({cause}); \
         mend the medium and open the database again: everything acknowledged is there"
    )]
    Poisoned {
        /// Number of the tablespace.
        tablespace: u32,
        /// What failed.
        cause: MediumError,
    },
    /// Bytes that are not what was written there.
    #[error(
        "{file} is damaged at byte {offset}: expected {expected}, found {found}; restore the \
         database from a backup"
    )]
    Damaged {
        /// The file.
        file: String,
        /// Where, in bytes from its start.
        offset: u64,
        /// What should be there.
        expected: String,
        /// What is there.
        found: String,
    },
    /// A file that should be there.
    #[error("{file} is missing; restore it, or the database from a backup")]
    Missing {
        /// The file.
        file: String,
    },
    /// A folder for something new that holds something.
    #[error("{path} holds a database already; name an empty folder, or one that does not exist")]
    NotEmpty {
        /// The folder.
        path: String,
    },
    /// A database whose making was cut short.
    #[error(
        "{path} holds a database that was never finished, and nothing in it; open it to make it \
         anew, or remove it"
    )]
    Unfinished {
        /// The folder.
        path: String,
    },
    /// A backup that is not whole.
    #[error("{path} holds a backup that was cut short; remove it and make another")]
    CutShort {
        /// The folder.
        path: String,
    },
    /// The database has been closed.
    #[error("the database has been closed and takes no more changes")]
    Closed,
    /// Sizes that logs cannot have.
    #[error("a log's {what} cannot have {bytes} bytes; give it {need}")]
    Options {
        /// Of what.
        what: &'static str,
        /// Bytes given.
        bytes: u64,
        /// Which would do.
        need: &'static str,
    },
    /// A tablespace that there is not.
    #[error("there is no tablespace {0}: the database has {1}, counted from 0")]
    NoTablespace(u32, usize),
    /// Files of another version.
    #[error(
        "{file} is of format {found}, and this version of Atoll reads format {known}; use a \
         version that reads it"
    )]
    Version {
        /// The file.
        file: String,
        /// The format found.
        found: u32,
        /// The format known.
        known: u32,
    },
    /// Logs, or an archive of them, that are not of the database or the backup at hand.
    #[error(
        "{path} holds the logs of another database (a backup that was opened, and what was \
         restored, are others too); name the one that belongs to this one, or an empty folder to \
         begin an archive"
    )]
    AnotherDatabase {
        /// The folder.
        path: String,
    },
    /// A folder that is not an archive's.
    #[error("{path} holds no archive of logs; name the folder of one, or an empty one to begin it")]
    NoArchive {
        /// The folder.
        path: String,
    },
    /// What was logged is durable where it is, and could not be copied into the archive.
    #[error(
        "the logs could not be archived ({cause}); they are kept where they are until they can: \
         mend the archive, and they are archived with the next checkpoint"
    )]
    NotArchived {
        /// What failed.
        cause: Box<LogError>,
    },
    /// A folder that is not a database's.
    #[error("{path} holds no database; name the folder of one, or an empty one to make it there")]
    NoDatabase {
        /// The folder.
        path: String,
    },
}

impl LogError {
    pub(crate) fn damaged(
        file: impl Into<String>,
        offset: u64,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> Self {
        let (file, expected, found) = (file.into(), expected.into(), found.into());
        Self::Damaged { file, offset, expected, found }
    }
}

impl From<LogError> for JournalError {
    fn from(error: LogError) -> Self {
        Self(Arc::new(error))
    }
}
