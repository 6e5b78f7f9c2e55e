//! Media: where bytes lie that outlive the process.
//!
//! A [`Medium`] is a flat folder of named files with the few operations that durability is made of.
//! What each promises is what the layers above rely on, and what [`crash::CrashMedium`] takes away
//! from them again:
//!
//! - `MEDIUM-1`: bytes written are durable once [`MediumFile::sync`] has returned, and not before:
//!   of what was written since, any subset of units may survive a crash, in any order. A unit is
//!   what the medium writes whole: a sector of a disk, eight bytes of persistent memory.
//! - `MEDIUM-2`: names (of files created, renamed, removed) are durable once
//!   [`Medium::sync_names`] has returned. Before, a crash may undo the latest of them.
//! - `MEDIUM-3`: a unit holds what it held before or what was written, never a mixture.
//! - `MEDIUM-4`: after [`MediumFile::reserve`] and a sync, writes inside the reserved size need no
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

/// What a disk writes whole or not at all.
pub const SECTOR_BYTES: u64 = 512;
/// What persistent memory does.
pub const WORD_BYTES: u64 = 8;
/// The largest of [`MediumFile::unit`]; all are powers of two.
pub const UNIT_BYTES_MAX: u64 = 4096;

/// What bytes lie on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MediumKind {
    /// Files of a file system, made durable by the kernel.
    Files,
    /// Persistent memory, written with stores.
    Pm,
    /// The same, on something else, which costs what it would.
    EmulatedPm,
    /// Memory that remembers, for trying crashes.
    Crash,
}

impl MediumKind {
    /// What people call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Files => "files",
            Self::Pm => "persistent memory",
            Self::EmulatedPm => "emulated persistent memory",
            Self::Crash => "memory",
        }
    }
}

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Open {
    /// One that exists, to be read.
    Read,
    /// One that exists, to be read and written.
    Write,
    /// One that does not exist yet.
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

    /// Gives a file another name; a file of that name goes.
    ///
    /// # Errors
    /// [`MediumError`].
    fn rename(&self, from: &str, to: &str) -> Result<(), MediumError>;

    /// Removes a file.
    ///
    /// # Errors
    /// [`MediumError`].
    fn remove(&self, name: &str) -> Result<(), MediumError>;

    /// `MEDIUM-2`.
    ///
    /// # Errors
    /// [`MediumError`].
    fn sync_names(&self) -> Result<(), MediumError>;

    /// The names of the folders within the folder, sorted.
    ///
    /// # Errors
    /// [`MediumError`].
    fn folders(&self) -> Result<Vec<String>, MediumError>;

    /// A folder within the folder, made if there is none.
    ///
    /// # Errors
    /// [`MediumError`].
    fn folder(&self, name: &str) -> Result<Arc<dyn Medium>, MediumError>;

    /// Takes the folder for this process alone, until what is returned is dropped; `None` when
    /// somebody has it, with the process if that is known.
    ///
    /// # Errors
    /// [`MediumError`].
    fn lock(&self) -> Result<Result<Box<dyn Locked>, Option<u32>>, MediumError>;

    /// As [`Medium::lock`], for somebody who only reads, so also where nothing can be written:
    /// there those who read do not keep each other out, only somebody who has it as another medium.
    ///
    /// # Errors
    /// [`MediumError`].
    fn lock_to_read(&self) -> Result<Result<Box<dyn Locked>, Option<u32>>, MediumError> {
        self.lock()
    }

    /// How people find a file of this name.
    fn path(&self, name: &str) -> String;

    /// As [`Medium::folder`], but one that is made lies at `elsewhere`, where nothing may be yet,
    /// if the medium can have folders there.
    ///
    /// # Errors
    /// [`MediumError`].
    fn folder_at(&self, name: &str, elsewhere: &Path) -> Result<Arc<dyn Medium>, MediumError> {
        let _one_place_only = elsewhere;
        self.folder(name)
    }

    /// What its files lie on.
    fn kind(&self) -> MediumKind;
    /// The folder of a file system that it is, if it is one: for what needs such a folder and does
    /// not outlive the process.
    fn on_file_system(&self) -> Option<&Path> {
        None
    }
}

/// A folder that is locked.
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

    /// Writes bytes from `offset` on; the file grows if need be.
    ///
    /// # Errors
    /// [`MediumError`]. Some of the bytes may have been written.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), MediumError>;

    /// Bytes of a unit: who writes whole ones by [`MediumFile::write_units`], or reads them by
    /// [`MediumFile::read_units`], goes past the system's cache. 1 where there is no such thing;
    /// never more than [`UNIT_BYTES_MAX`].
    fn unit(&self) -> u64 {
        1
    }

    /// As [`MediumFile::write_at`], of whole units, best from a [`UnitBuffer`].
    ///
    /// # Errors
    /// As there.
    fn write_units(&self, offset: u64, bytes: &[u8]) -> Result<(), MediumError> {
        self.write_at(offset, bytes)
    }

    /// As [`MediumFile::read_at`], of whole units, best into a [`UnitBuffer`].
    ///
    /// # Errors
    /// As there.
    fn read_units(&self, offset: u64, into: &mut [u8]) -> Result<(), MediumError> {
        self.read_at(offset, into)
    }

    /// Sees to it that the file has at least this size, with zeroes where nothing was written, see
    /// `MEDIUM-4`.
    ///
    /// # Errors
    /// [`MediumError`].
    fn reserve(&self, size_bytes: u64) -> Result<(), MediumError>;

    /// `MEDIUM-1`.
    ///
    /// # Errors
    /// [`MediumError`]. What was written since the last sync that succeeded may be lost then, and
    /// another sync that succeeds would not mean that it is not: a caller must not try again.
    fn sync(&self) -> Result<(), MediumError>;

    /// How people find it.
    fn path(&self) -> &str;
}

/// A medium that could not do what was asked.
#[derive(Debug, Clone, thiserror::Error)]
#[error("cannot {what} {path}: {source}{}", advice(source))]
pub struct MediumError {
    /// What was asked.
    pub what: &'static str,
    /// Of which file or folder.
    pub path: String,
    /// Why not.
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

    /// Whether it can only be read, by this user at least.
    pub fn is_read_only(&self) -> bool {
        let kind = self.source.kind();
        matches!(kind, io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied)
    }

    /// Whether there is no such file.
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
        io::ErrorKind::PermissionDenied => "; see to it that this user may read and write there",
        _ => "",
    }
}
