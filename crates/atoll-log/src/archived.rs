//! Reading a log from an archive, and from what is left of the database's own folder.
//!
//! Of each file of the log, the longer copy is used: the archived one if it is complete, else the
//! file in the folder, else the archived first part. An archived copy is read completely and
//! verified against its checksum before it is used.

use std::collections::BTreeMap;
use std::sync::Arc;

use atoll_machine::medium::Open;
use atoll_machine::{Medium, MediumFile};

use crate::archive::{FOOTER_BYTES, in_pieces, is_beginning};
use crate::error::LogError;
use crate::files::{file_name, file_number};
use crate::scan::{Scan, Span};

/// Files of a log from a start position on, without a gap.
pub struct Archived {
    tablespace: u8,
    file_bytes: u64,
    start: u64,
    files: BTreeMap<u64, Arc<dyn MediumFile>>,
    /// The position behind the last byte.
    end: u64,
    /// Whether the log may end there.
    is_end: bool,
    /// The path of a file that is missing or incomplete although later files exist.
    pub gap: Option<String>,
}

/// The folders that may contain files of a log.
#[derive(Debug, Clone, Copy)]
pub struct Places<'p> {
    /// The folder in the archive.
    pub archive: &'p dyn Medium,
    /// The folder in the database, if it still exists.
    pub own: Option<&'p dyn Medium>,
    /// Bytes of a file.
    pub file_bytes: u64,
}

fn numbers(medium: &dyn Medium, first: u64) -> Result<Vec<u64>, LogError> {
    let names = medium.names()?;
    let mut numbers: Vec<u64> = names.iter().filter_map(|name| file_number(name)).collect();
    numbers.retain(|number| *number >= first);
    numbers.sort_unstable();
    Ok(numbers)
}

impl Archived {
    /// Finds the files of a tablespace's log from `start` on.
    ///
    /// # Errors
    /// [`LogError::Damaged`] for an archived file that fails its checksum;
    /// [`LogError::Medium`].
    pub fn find(places: Places<'_>, tablespace: u8, start: u64) -> Result<Self, LogError> {
        let Places { archive, own, file_bytes } = places;
        let first = start / file_bytes;
        let archived = numbers(archive, first)?;
        let owned = own.map(|own| numbers(own, first)).transpose()?.unwrap_or_default();
        let (mut files, mut next) = (BTreeMap::new(), first);
        let (mut end, mut is_end) = (start, true);
        loop {
            let found = archived.contains(&next).then(|| open(archive, next)).transpose()?;
            let whole = found.as_ref().is_some_and(|(_, bytes)| *bytes >= file_bytes);
            let own = own.filter(|_| !whole && owned.contains(&next));
            let own = own.map(|own| own.open(&file_name(next), Open::Read)).transpose()?;
            // A folder that was restored from a file copy may have less than the archive.
            let own = match (own, &found) {
                (Some(own), Some((archived, bytes))) => {
                    is_beginning(&**archived, &*own, *bytes)?.then_some(own)
                }
                (own, _) => own,
            };
            let is_own = own.is_some();
            let file = match own {
                Some(own) => own,
                None => match found {
                    Some((file, bytes)) => {
                        check(&*file, bytes)?;
                        if !whole {
                            (end, is_end) = (end.max(next * file_bytes + bytes), true);
                            files.insert(next, file);
                            break;
                        }
                        file
                    }
                    None => break,
                },
            };
            // A crash has interrupted the creation of a file that is too short: it has no blocks.
            if is_own && file.size()? < file_bytes {
                break;
            }
            is_end = !is_own;
            files.insert(next, file);
            next += 1;
            end = next * file_bytes;
        }
        let is_later = |number: &u64| *number > next;
        let has_later = archived.iter().chain(&owned).any(is_later);
        let gap = has_later.then(|| archive.path(&file_name(next)));
        Ok(Self { tablespace, file_bytes, start, files, end, is_end, gap })
    }

    /// Opens a scan from the start position on.
    pub fn scan(&self) -> Scan {
        let Self { tablespace, file_bytes, start, end, is_end, .. } = *self;
        Scan::over(tablespace, file_bytes, start, Span { files: self.files.clone(), end, is_end })
    }

    /// Copies the bytes before `end`, where a block ends, to new log files with room behind them.
    /// The files are durable when this returns. Returns the bytes copied.
    ///
    /// # Errors
    /// [`LogError::Medium`].
    pub fn copy_to(&self, to: &dyn Medium, end: u64) -> Result<u64, LogError> {
        let first = self.start / self.file_bytes;
        let mut copied = 0;
        // A log always has room for a header behind its last block.
        for number in first..=(end + crate::block::HEADER_BYTES as u64) / self.file_bytes {
            let target = to.open(&file_name(number), Open::Create)?;
            let bytes = end.saturating_sub(number * self.file_bytes).min(self.file_bytes);
            if let Some(source) = self.files.get(&number) {
                in_pieces(&**source, bytes, |at, piece| target.write_at(at, piece))?;
                copied += bytes;
            }
            target.reserve(self.file_bytes)?;
            target.sync()?;
        }
        to.sync_names()?;
        Ok(copied)
    }
}

/// Verifies an archived file, and returns how many bytes of the log it holds.
///
/// # Errors
/// [`LogError::Damaged`], [`LogError::Medium`].
pub fn verify(archive: &dyn Medium, number: u64) -> Result<u64, LogError> {
    let (file, bytes) = open(archive, number)?;
    check(&*file, bytes)?;
    Ok(bytes)
}

/// Opens an archived file, and returns how many bytes of the log it holds.
fn open(archive: &dyn Medium, number: u64) -> Result<(Arc<dyn MediumFile>, u64), LogError> {
    let file = archive.open(&file_name(number), Open::Read)?;
    let bytes = file.size()?.saturating_sub(FOOTER_BYTES);
    Ok((file, bytes))
}

/// Verifies the footer and the checksum of an archived file.
fn check(file: &dyn MediumFile, bytes: u64) -> Result<(), LogError> {
    let damaged = |expected: String, found: String| {
        Err(LogError::damaged(file.path(), bytes, expected, found))
    };
    let mut footer = [0; FOOTER_BYTES as usize];
    if file.size()? < FOOTER_BYTES {
        return damaged("a footer".to_owned(), "the end of the file".to_owned());
    }
    file.read_at(bytes, &mut footer)?;
    let word = u64::from_le_bytes(std::array::from_fn(|at| footer[8 + at]));
    if word != bytes {
        return damaged(format!("a length of {bytes}"), word.to_string());
    }
    let mut crc = 0;
    in_pieces(file, bytes, |_, piece| {
        crc = crc32c::crc32c_append(crc, piece);
        Ok::<_, LogError>(())
    })?;
    let stored = u32::from_le_bytes(std::array::from_fn(|at| footer[at]));
    if crc != stored || footer[4..8] != [0; 4] {
        return damaged(format!("checksum {crc:08x} of {bytes} bytes"), format!("{stored:08x}"));
    }
    Ok(())
}
