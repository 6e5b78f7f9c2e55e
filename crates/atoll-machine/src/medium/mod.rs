//! Media: storage that outlives the process.
//!
//! A [`Medium`] is a flat folder of named files with the few operations that durability needs. The
//! layers above rely on the guarantees below and on nothing more; [`crash::CrashMedium`] simulates
//! crashes in which nothing more holds:
//!
//! - `MEDIUM-1`: written bytes are durable once [`MediumFile::sync`] has returned, and not before:
//!   of the writes since the last sync, any subset of units may survive a crash, in any order. A
//!   unit is what the medium writes atomically: a sector of a disk, eight bytes of persistent
//!   memory.
//! - `MEDIUM-2`: changes of names (files created, renamed, removed) are durable once
//!   [`Medium::sync_names`] has returned. Before, a crash may undo the latest of them.
//! - `MEDIUM-3`: after a crash a unit has its old or its new content, never a mixture.
//! - `MEDIUM-4`: after [`MediumFile::reserve`] and a sync, writes within the reserved size need no
//!   more space and no change of the file's metadata.

pub mod buffer;
pub mod crash;
pub mod file;
pub mod pm;

use std::io;
use std::path::Path;
use std::sync::Arc;

pub use buffer::UnitBuffer;
pub use crash::CrashMedium;
pub use file::FileMedium;
pub use pm::PmCost;

/// The bytes that a disk writes atomically.
pub const SECTOR_BYTES: u64 = 512;
/// The bytes that persistent memory writes atomically.
pub const WORD_BYTES: u64 = 8;
/// The largest of [`MediumFile::unit`]; all are powers of two.
pub const UNIT_BYTES_MAX: u64 = 4096;

/// The kind of a medium.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MediumKind {
    /// Files of a file system, made durable by the kernel.
    Files,
    /// Persistent memory, written with store instructions.
    Pm,
    /// Emulated persistent memory on other memory, with the cost of persistent memory.
    EmulatedPm,
    /// Memory that records all operations, to simulate crashes.
    Crash,
}

impl MediumKind {
    /// The name of the kind, for users.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Files => "files",
            Self::Pm => "persistent memory",
            Self::EmulatedPm => "emulated persistent memory",
            Self::Crash => "memory",
        }
    }
}

/// The mode in which a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Open {
    /// An existing file, for reading.
    Read,
    /// An existing file, for reading and writing.
    Write,
    /// A new file.
    Create,
}

/// A folder of files; see the module.
pub trait Medium: Send + Sync + std::fmt::Debug {
    /// Opens a file.
    ///
    /// # Errors
    /// [`MediumError`].
    fn open(&self, name: &str, how: Open) -> Result<Arc<dyn MediumFile>, MediumError>;

    /// The names of all files, sorted.
    ///
    /// # Errors
    /// [`MediumError`].
    fn names(&self) -> Result<Vec<String>, MediumError>;

    /// Renames a file; replaces an existing file of the new name.
    ///
    /// # Errors
    /// [`MediumError`].
    fn rename(&self, from: &str, to: &str) -> Result<(), MediumError>;

    /// Removes a file.
    ///
    /// # Errors
    /// [`MediumError`].
    fn remove(&self, name: &str) -> Result<(), MediumError>;

    /// Makes changes of names durable (`MEDIUM-2`).
    ///
    /// # Errors
    /// [`MediumError`].
    fn sync_names(&self) -> Result<(), MediumError>;

    /// The names of the subfolders, sorted.
    ///
    /// # Errors
    /// [`MediumError`].
    fn folders(&self) -> Result<Vec<String>, MediumError>;

    /// A subfolder; creates it if it does not exist.
    ///
    /// # Errors
    /// [`MediumError`].
    fn folder(&self, name: &str) -> Result<Arc<dyn Medium>, MediumError>;

    /// Locks the folder for this process alone, until the returned value is dropped. If another
    /// process has the lock, the inner error is that process's id, if known.
    ///
    /// # Errors
    /// [`MediumError`].
    fn lock(&self) -> Result<Result<Box<dyn Locked>, Option<u32>>, MediumError>;

    /// As [`Medium::lock`], for a process that only reads, so it also works on a medium that is
    /// mounted read-only: there readers do not exclude each other, only a process that has mounted
    /// the folder writable excludes them.
    ///
    /// # Errors
    /// [`MediumError`].
    fn lock_to_read(&self) -> Result<Result<Box<dyn Locked>, Option<u32>>, MediumError> {
        self.lock()
    }

    /// The path of a file, for users.
    fn path(&self, name: &str) -> String;

    /// As [`Medium::folder`], but a new folder is created at `elsewhere`, which must be empty or
    /// missing, if the medium supports that.
    ///
    /// # Errors
    /// [`MediumError`].
    fn folder_at(&self, name: &str, elsewhere: &Path) -> Result<Arc<dyn Medium>, MediumError> {
        let _one_place_only = elsewhere;
        self.folder(name)
    }

    /// The kind of the medium.
    fn kind(&self) -> MediumKind;
    /// The path of the medium's folder on a file system, if it has one: for temporary files that do
    /// not outlive the process.
    fn on_file_system(&self) -> Option<&Path> {
        None
    }
}

/// A locked folder.
pub trait Locked: Send + Sync + std::fmt::Debug {}

/// A file of a medium; see the module.
pub trait MediumFile: Send + Sync + std::fmt::Debug {
    /// Its size in bytes.
    ///
    /// # Errors
    /// [`MediumError`].
    fn size(&self) -> Result<u64, MediumError>;

    /// Fills `into` with the bytes from `offset` on.
    ///
    /// # Errors
    /// [`MediumError`], also when the file ends before.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<(), MediumError>;

    /// Writes bytes from `offset` on; extends the file if necessary.
    ///
    /// # Errors
    /// [`MediumError`]. Some of the bytes may have been written.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), MediumError>;

    /// Bytes of a unit. [`MediumFile::write_units`] and [`MediumFile::read_units`] of whole units
    /// bypass the system's page cache. 1 if the file has no such units; never more than
    /// [`UNIT_BYTES_MAX`].
    fn unit(&self) -> u64 {
        1
    }

    /// As [`MediumFile::write_at`], for whole units, preferably from a [`UnitBuffer`].
    ///
    /// # Errors
    /// As there.
    fn write_units(&self, offset: u64, bytes: &[u8]) -> Result<(), MediumError> {
        self.write_at(offset, bytes)
    }

    /// As [`MediumFile::read_at`], for whole units, preferably into a [`UnitBuffer`].
    ///
    /// # Errors
    /// As there.
    fn read_units(&self, offset: u64, into: &mut [u8]) -> Result<(), MediumError> {
        self.read_at(offset, into)
    }

    /// Extends the file to at least this size, with zeroes where nothing was written; see
    /// `MEDIUM-4`.
    ///
    /// # Errors
    /// [`MediumError`].
    fn reserve(&self, size_bytes: u64) -> Result<(), MediumError>;

    /// Makes written bytes durable (`MEDIUM-1`).
    ///
    /// # Errors
    /// [`MediumError`]. The writes since the last successful sync may be lost then, and a later
    /// successful sync would not mean that they are durable: a caller must not try again.
    fn sync(&self) -> Result<(), MediumError>;

    /// The path of the file, for users.
    fn path(&self) -> &str;
}

/// An error of a medium.
#[derive(Debug, Clone, thiserror::Error)]
#[error("cannot {what} {path}: {source}{}", advice(source))]
pub struct MediumError {
    /// The operation.
    pub what: &'static str,
    /// The file or folder.
    pub path: String,
    /// The cause.
    #[source]
    pub source: Arc<io::Error>,
}

impl MediumError {
    pub(crate) fn new(what: &'static str, path: impl Into<String>, source: io::Error) -> Self {
        Self { what, path: path.into(), source: Arc::new(source) }
    }

    /// Whether there is no space left.
    pub fn is_full(&self) -> bool {
        matches!(
            self.source.kind(),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
        )
    }

    /// Whether the medium is read-only, at least for this user.
    pub fn is_read_only(&self) -> bool {
        let kind = self.source.kind();
        matches!(kind, io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied)
    }

    /// Whether the file does not exist.
    pub fn is_missing(&self) -> bool {
        self.source.kind() == io::ErrorKind::NotFound
    }
}

fn advice(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "; free some space there, or move the database to a larger file system"
        }
        io::ErrorKind::ReadOnlyFilesystem => "; mount it writable",
        io::ErrorKind::PermissionDenied => "; give this user permission to read and write there",
        _ => "",
    }
}
