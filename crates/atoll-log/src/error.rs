//! The errors of logs, checkpoint stores, archives and the control file.

use std::sync::Arc;

use atoll_machine::MediumError;
use atoll_txn::journal::JournalError;

/// An error of a log, a checkpoint store or another file of a database.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// The medium could not do what was asked.
    #[error(transparent)]
    Medium(#[from] MediumError),
    /// A flush has failed. The blocks since the last successful flush may be lost, so no commit is
    /// acknowledged any more; the tables in memory can still be read.
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
    /// Bytes differ from what was written there.
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
    /// A file does not exist.
    #[error("{file} is missing; restore it, or the database from a backup")]
    Missing {
        /// The file.
        file: String,
    },
    /// A folder for a new database is not empty.
    #[error("{path} holds a database already; name an empty folder, or one that does not exist")]
    NotEmpty {
        /// The folder.
        path: String,
    },
    /// The creation of a database was interrupted.
    #[error(
        "{path} holds a database that was never finished, without any data; open it to create it \
         again, or remove it"
    )]
    Unfinished {
        /// The folder.
        path: String,
    },
    /// A backup is incomplete.
    #[error("{path} holds a backup that was cut short; remove it and make another")]
    CutShort {
        /// The folder.
        path: String,
    },
    /// The database has been closed.
    #[error("the database has been closed and takes no more changes")]
    Closed,
    /// A size is not valid for a log.
    #[error("a log's {what} cannot have {bytes} bytes; give it {need}")]
    Options {
        /// The part of the log.
        what: &'static str,
        /// The given bytes.
        bytes: u64,
        /// Which sizes are valid.
        need: &'static str,
    },
    /// The database has no such tablespace.
    #[error("there is no tablespace {0}: the database has {1}, counted from 0")]
    NoTablespace(u32, usize),
    /// A file has the format of another version.
    #[error(
        "{file} is of format {found}, and this version of Atoll reads the formats from {} to \
         {known}; use a version that reads it",
        crate::sealed::FORMAT_OLDEST
    )]
    Version {
        /// The file.
        file: String,
        /// The format found.
        found: u32,
        /// The newest format known.
        known: u32,
    },
    /// The logs, or an archive of them, belong to another database than expected.
    #[error(
        "{path} holds the logs of another database (an opened backup and a restored database are \
         other databases, too); name the one that belongs to this database, or an empty folder to \
         begin an archive"
    )]
    AnotherDatabase {
        /// The folder.
        path: String,
    },
    /// A folder is not an archive.
    #[error("{path} holds no archive of logs; name the folder of one, or an empty one to begin it")]
    NoArchive {
        /// The folder.
        path: String,
    },
    /// The logs could not be copied into the archive; they are durable in their own folders.
    #[error(
        "the logs could not be archived ({cause}); they are kept where they are until they can: \
         mend the archive, and they are archived with the next checkpoint"
    )]
    NotArchived {
        /// What failed.
        cause: Box<LogError>,
    },
    /// A folder is not a database.
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
