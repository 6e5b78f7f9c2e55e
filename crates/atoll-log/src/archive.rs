//! The archive: copies of log files, taken before the log reuses or removes the files.
//!
//! ```text
//! DIR/archive                the database that the logs belong to
//! DIR/node-N/log-<number>    bytes of a file of the log, from its start on, and a footer
//! footer = CRC32C of the bytes u32 | 0 u32 | bytes u64
//! ```
//! Each checkpoint, and closing the database, archives everything that is not archived yet. The
//! copy of the file that is being filled holds only the first part of it; a longer copy replaces it
//! later.
//!
//! - `ARCHIVE-1`: only bytes at or below the durable horizon are archived. So no recovery ever cuts
//!   them off, and each copy of a file is a prefix of every later copy.
//! - `ARCHIVE-2`: a file of the log is reused or removed only after all of it is archived.
//! - `ARCHIVE-3`: a copy is durable before it gets its name.

use std::collections::BTreeMap;
use std::sync::Arc;

use atoll_machine::medium::{Locked, Open, file};
use atoll_machine::{Medium, MediumFile};
use atoll_storage::redo::{Input, number};

use crate::error::LogError;
use crate::files::{file_name, file_number};
use crate::options::TABLESPACES_MAX;
use crate::sealed;

/// Name of the file that names the owner of an archive.
pub const FILE: &str = "archive";
const MAGIC: [u8; 8] = *b"ATOLLARC";
/// Bytes of a footer.
pub const FOOTER_BYTES: u64 = 16;
/// Bytes that are copied in one request.
const COPY_BYTES: usize = 1 << 20;

/// The database that the logs of an archive belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    /// Id of the database.
    pub id: u64,
    /// Bytes of a file of its logs.
    pub file_bytes: u64,
    /// Its tablespaces.
    pub tablespaces: usize,
}

impl Owner {
    /// Reads the owner of the archive in a folder.
    ///
    /// # Errors
    /// [`LogError::NoArchive`]; as [`sealed::read`].
    pub fn read(root: &dyn Medium) -> Result<Self, LogError> {
        if !root.names()?.iter().any(|name| name == FILE) {
            return Err(LogError::NoArchive { path: root.path("") });
        }
        sealed::read(root, FILE, MAGIC, |body| {
            let mut input = Input(body);
            let (id, file_bytes) = (input.number()?, input.number()?);
            let tablespaces = input.number()?.try_into().ok()?;
            let fits = file_bytes > 0 && (1..=TABLESPACES_MAX).contains(&tablespaces);
            fits.then_some(Self { id, file_bytes, tablespaces })
        })
    }

    fn write(&self, root: &dyn Medium) -> Result<(), LogError> {
        let mut body = Vec::new();
        for value in [self.id, self.file_bytes, self.tablespaces as u64] {
            number(&mut body, value);
        }
        sealed::write(root, FILE, MAGIC, &body)
    }
}

/// The folder of a tablespace's log within an archive.
pub fn folder_name(tablespace: usize) -> String {
    format!("node-{tablespace}")
}

/// An archive that this process writes to; a lock keeps other processes out.
#[derive(Debug)]
pub struct Archive {
    media: Vec<Arc<dyn Medium>>,
    file_bytes: u64,
    /// For each log: by file, how many of its bytes are known to be archived.
    known: Vec<BTreeMap<u64, u64>>,
    _locked: Box<dyn Locked>,
}

impl Archive {
    /// Opens the archive of a database, or creates one in an empty folder. The inner `Err` means
    /// that another process writes to the archive, with its process id if it is known.
    ///
    /// # Errors
    /// [`LogError::NoArchive`], [`LogError::AnotherDatabase`], [`LogError::Medium`].
    pub fn open(root: &dyn Medium, owner: Owner) -> Result<Result<Self, Option<u32>>, LogError> {
        let names = root.names()?;
        let is_begun = names.iter().any(|name| name == FILE);
        let unfinished = sealed::unfinished(FILE);
        let is_foreign = |name: &String| *name != unfinished && name != file::LOCK_FILE;
        // Checked first, so that no lock file is created in a foreign folder.
        if !is_begun && (names.iter().any(is_foreign) || !root.folders()?.is_empty()) {
            return Err(LogError::NoArchive { path: root.path("") });
        }
        let _locked = match root.lock()? {
            Ok(locked) => locked,
            Err(pid) => return Ok(Err(pid)),
        };
        if !is_begun {
            owner.write(root)?;
        }
        if Owner::read(root)? != owner {
            return Err(LogError::AnotherDatabase { path: root.path("") });
        }
        let media = (0..owner.tablespaces).map(|at| root.folder(&folder_name(at)));
        let media = media.collect::<Result<_, _>>()?;
        root.sync_names()?;
        let known = vec![BTreeMap::new(); owner.tablespaces];
        Ok(Ok(Self { media, file_bytes: owner.file_bytes, known, _locked }))
    }

    /// Archives the log of a tablespace, with its files on `from`, up to `end`, where a block ends
    /// (`ARCHIVE-1`). Copies only files with bytes that are not archived yet, and returns the bytes
    /// copied.
    ///
    /// # Errors
    /// [`LogError::Medium`]; some files may have been archived. [`LogError::Damaged`] when the
    /// archive holds another history of the database.
    pub fn add(&mut self, number: usize, from: &dyn Medium, end: u64) -> Result<u64, LogError> {
        let last = end / self.file_bytes;
        let names = from.names()?;
        let files = names.iter().filter_map(|name| file_number(name));
        let mut copied = 0;
        for file in files.filter(|file| *file <= last) {
            let bytes = self.file_bytes.min(end - file * self.file_bytes);
            if bytes > self.archived(number, from, file)? {
                copy(from, &*self.media[number], file, bytes)?;
                self.known[number].insert(file, bytes);
                copied += bytes;
            }
        }
        // Files that no longer exist are never looked up again.
        let oldest = names.iter().filter_map(|name| file_number(name)).min().unwrap_or(0);
        self.known[number].retain(|file, _| *file >= oldest);
        Ok(copied)
    }

    /// How many bytes of a file are archived. A copy that an earlier process has made is compared
    /// with the log, because the folder of the database may have been restored from a file copy and
    /// have continued with another history.
    fn archived(&mut self, number: usize, from: &dyn Medium, file: u64) -> Result<u64, LogError> {
        if let Some(known) = self.known[number].get(&file) {
            return Ok(*known);
        }
        let bytes = match self.media[number].open(&file_name(file), Open::Read) {
            Ok(found) => {
                let bytes = found.size()?.saturating_sub(FOOTER_BYTES);
                let own = from.open(&file_name(file), Open::Read)?;
                if !is_beginning(&*found, &*own, bytes)? {
                    let expected = format!("what {} has", own.path());
                    return Err(LogError::damaged(
                        found.path(),
                        0,
                        expected,
                        "another history of the database: archive this one elsewhere",
                    ));
                }
                bytes
            }
            Err(error) if error.is_missing() => 0,
            Err(error) => return Err(error.into()),
        };
        self.known[number].insert(file, bytes);
        Ok(bytes)
    }
}

/// Whether the bytes of an archived file are a prefix of a file of the log.
pub(crate) fn is_beginning(
    archived: &dyn MediumFile,
    own: &dyn MediumFile,
    bytes: u64,
) -> Result<bool, LogError> {
    if own.size()? < bytes {
        return Ok(false);
    }
    let mut room = Vec::new();
    let mut is_same = true;
    in_pieces(own, bytes, |at, piece| {
        room.resize(piece.len(), 0);
        archived.read_at(at, &mut room)?;
        is_same &= room == piece;
        Ok::<_, LogError>(())
    })?;
    Ok(is_same)
}

/// Copies the first `bytes` of a file of the log.
fn copy(from: &dyn Medium, to: &dyn Medium, file: u64, bytes: u64) -> Result<(), LogError> {
    let name = file_name(file);
    let unfinished = sealed::unfinished(&name);
    if to.names()?.contains(&unfinished) {
        to.remove(&unfinished)?; // An earlier copy was interrupted.
    }
    let source = from.open(&name, Open::Read)?;
    let copied = to.open(&unfinished, Open::Create).and_then(|target| {
        let mut crc = 0;
        in_pieces(&*source, bytes, |at, piece| {
            crc = crc32c::crc32c_append(crc, piece);
            target.write_at(at, piece)
        })?;
        let mut footer = crc.to_le_bytes().to_vec();
        footer.extend([0; 4]);
        footer.extend(bytes.to_le_bytes());
        target.write_at(bytes, &footer)?;
        target.sync()?; // ARCHIVE-3
        to.rename(&unfinished, &name)?;
        to.sync_names()
    });
    copied.map_err(|error| {
        let _gone_with_the_next_copy = to.remove(&unfinished);
        error.into()
    })
}

/// Calls `body` with each piece of a file, from its start on, and the offset of the piece.
pub(crate) fn in_pieces<E: From<atoll_machine::MediumError>>(
    file: &dyn MediumFile,
    bytes: u64,
    mut body: impl FnMut(u64, &[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let mut piece = Vec::new();
    let mut at = 0;
    while at < bytes {
        piece.resize(COPY_BYTES.min((bytes - at) as usize), 0);
        file.read_at(at, &mut piece)?;
        body(at, &piece)?;
        at += piece.len() as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use atoll_machine::CrashMedium;

    use super::*;

    #[test]
    fn an_owner_of_more_tablespaces_than_there_can_be_is_refused() {
        for (tablespaces, is_owner) in [(0, false), (1, true), (64, true), (usize::MAX, false)] {
            let medium = CrashMedium::default();
            let owner = Owner { id: 1, file_bytes: 1 << 20, tablespaces };
            owner.write(&medium).unwrap();
            match Owner::read(&medium) {
                Ok(found) => assert!(is_owner && found == owner, "{found:?}"),
                Err(LogError::Damaged { .. }) => assert!(!is_owner, "{owner:?}"),
                Err(error) => panic!("{error}"),
            }
        }
    }
}
