//! Looks for damage in the files of a database that is not open, and in the archive of its logs.
//!
//! The check reports every damage that it can find, not only the first: behind damage it goes on
//! with the next block that it finds in the log, and if the control file is unusable, it takes what
//! it needs from the other files, as far as they contain it.

use std::path::Path;
use std::sync::Arc;

use atoll_log::archive::{self, Owner};
use atoll_log::archived::{self, Archived, Places};
use atoll_log::block::{Header, IdleWatermark, Kind};
use atoll_log::checkpoint_store::CheckpointStore;
use atoll_log::control::{self, Control, ControlFile};
use atoll_log::files::{file_name, file_number};
use atoll_log::origin::{self, Origin};
use atoll_log::scan::Scan;
use atoll_log::{LogError, block, time_mark};
use atoll_machine::medium::Open;
use atoll_machine::{FileMedium, Medium};
use atoll_storage::redo::Changes;
use atoll_txn::describe;
use serde::Serialize;

use super::backup::FIRST_INCARNATION;
use super::closed::{existing, lock, scan};
use super::open::folder_name;
use crate::error::Result;

/// The result of a check.
#[derive(Debug, Clone, Default, Serialize)]
pub struct CheckReport {
    /// Checkpoints of which the maps and blocks were read.
    pub checkpoints: u64,
    /// Blocks of the checkpoint stores.
    pub home_blocks: u64,
    /// Blocks of the logs.
    pub log_blocks: u64,
    /// Bytes of the logs.
    pub log_bytes: u64,
    /// Log files in the archive, if one was given.
    pub archived_files: u64,
    /// All damage found.
    pub damages: Vec<Damage>,
}

/// A damaged place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Damage {
    /// The file.
    pub file: String,
    /// Its position in bytes from the start of the file.
    pub offset: u64,
    /// The expected contents.
    pub expected: String,
    /// The actual contents.
    pub found: String,
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { file, offset, expected, found } = self;
        write!(f, "{file} at byte {offset}: expected {expected}, found {found}")
    }
}

impl From<LogError> for Damage {
    fn from(error: LogError) -> Self {
        let of = |file: String, expected: &str, found: String| Self {
            file,
            offset: 0,
            expected: expected.to_owned(),
            found,
        };
        match error {
            LogError::Damaged { file, offset, expected, found } => {
                Self { file, offset, expected, found }
            }
            LogError::Missing { file } => of(file, "a file", "nothing".to_owned()),
            LogError::Version { file, found, known } => {
                of(file, &format!("format {known}"), format!("format {found}"))
            }
            LogError::Medium(error) => of(error.path, "what can be read", error.source.to_string()),
            LogError::NoArchive { path } => of(path, "an archive of logs", "none".to_owned()),
            LogError::AnotherDatabase { path } => {
                of(path, "the logs of this database", "those of another one".to_owned())
            }
            other => of("the database".to_owned(), "none of this", other.to_string()),
        }
    }
}

type Checked = std::result::Result<(), LogError>;

/// Reads everything that opening the database in a folder could need, and everything in an archive
/// of its logs that a restore could need, and reports what is damaged. The folder may be read-only.
///
/// # Errors
/// [`crate::Error::Log`] when the folder is not a database's, cannot be read, or is of another
/// version; [`crate::Error::InUse`].
pub fn check(folder: &Path, archive: Option<&Path>) -> Result<CheckReport> {
    let root = FileMedium::existing(folder)?;
    let _locked = lock(&root)?;
    let mut report = CheckReport::default();
    let control = match ControlFile::open(&root, Open::Read) {
        Ok((_, control)) => Some(control),
        Err(error @ LogError::Version { .. }) => return Err(error.into()),
        Err(LogError::Missing { file }) => {
            report.tell(LogError::Missing { file });
            None
        }
        Err(_) => None, // Reported below, with the slots.
    };
    if root.names()?.iter().any(|name| name == control::FILE) {
        ControlFile::check(&root)?.into_iter().for_each(|error| report.tell(error));
    }
    let has_origin = root.names()?.iter().any(|name| name == origin::FILE);
    let origin = has_origin.then(|| report.note(Origin::read(&root)));
    let tablespaces = match &control {
        Some(control) => control.tablespaces,
        None => count(&root)?,
    };
    for tablespace in 0..tablespaces {
        let Some(medium) = report.note(existing(&root, folder, tablespace)) else { continue };
        let checked = report.check_store(&medium, tablespace, control.as_ref());
        report.note(checked);
        let checked = report.check_log(&medium, tablespace, control.as_ref());
        report.note(checked);
    }
    report.checkpoints = control.as_ref().map_or(0, |control| control.checkpoints.len() as u64);
    if let Some(archive) = archive {
        // An unopened backup continues with the logs of the database from which it was made.
        let owned = control.and_then(|control| match origin {
            Some(origin) if control.incarnation == FIRST_INCARNATION => {
                origin.map(|origin| origin.id)
            }
            _ => Some(control.id),
        });
        let checked = report.check_archive(&FileMedium::existing(archive)?, owned);
        report.note(checked);
    }
    Ok(report)
}

/// The number of tablespaces that have folders here.
fn count(root: &FileMedium) -> Result<usize> {
    let folders = root.folders()?;
    Ok((0..).take_while(|number| folders.contains(&folder_name(*number))).count())
}

impl CheckReport {
    /// Adds a damage, once: two checkpoints may need the same block.
    fn tell(&mut self, error: LogError) {
        let damage = Damage::from(error);
        if !self.damages.contains(&damage) {
            self.damages.push(damage);
        }
    }

    fn note<T>(&mut self, done: std::result::Result<T, LogError>) -> Option<T> {
        done.map_err(|error| self.tell(error)).ok()
    }

    fn check_store(
        &mut self,
        medium: &Arc<dyn Medium>,
        tablespace: usize,
        control: Option<&Control>,
    ) -> Checked {
        let checkpoints: Vec<_> = match control {
            Some(control) => {
                let parts = control.checkpoints.iter();
                parts.map(|one| (one.number, one.parts[tablespace])).collect()
            }
            None => {
                CheckpointStore::open_to_read(Arc::clone(medium))?.newest()?.into_iter().collect()
            }
        };
        if checkpoints.is_empty() {
            return Ok(());
        }
        let store = CheckpointStore::open_to_read(Arc::clone(medium))?;
        for (number, part) in checkpoints {
            let mut helped = Vec::new();
            let holding = store.read_holding(number, &part, &mut helped);
            helped.into_iter().for_each(|error| self.tell(error));
            let Some(holding) = self.note(holding) else { continue };
            let segments = holding.map.tables.iter().flat_map(|table| &table.segments);
            for part in segments.flat_map(|segment| segment.parts()) {
                self.home_blocks += part.blocks.len() as u64;
                store.verify(part).into_iter().for_each(|error| self.tell(error));
            }
        }
        Ok(())
    }

    fn check_log(
        &mut self,
        medium: &Arc<dyn Medium>,
        tablespace: usize,
        control: Option<&Control>,
    ) -> Checked {
        let Some(control) = control else {
            let names = medium.names()?;
            let mut numbers = names.iter().filter_map(|name| file_number(name));
            let Some(first) = numbers.next() else { return Ok(()) };
            let file_bytes = medium.open(&file_name(first), Open::Read)?.size()?;
            let start = first * file_bytes;
            let mut scan = Scan::open(Arc::clone(medium), tablespace as u8, file_bytes, start)?;
            scan.go_on_to_block()?;
            return self.check_blocks(&mut scan, |_| None);
        };
        if control.incarnation == 0 {
            return Ok(());
        }
        let mut scan = scan(medium, tablespace, control)?;
        self.check_blocks(&mut scan, |end| control.ends_too_early(tablespace, &**medium, end))
    }

    /// Reads a log to its end, and goes on behind damage. `ends_too_early` returns the damage if
    /// the log must be longer.
    fn check_blocks(
        &mut self,
        scan: &mut Scan,
        ends_too_early: impl Fn(u64) -> Option<LogError>,
    ) -> Checked {
        loop {
            let damage = match scan.read_next() {
                Ok(Some((header, payload))) => {
                    self.log_blocks += 1;
                    self.log_bytes += header.block_bytes();
                    if !means_something(&header, payload) {
                        let (file, offset) = scan.place_of(header.lsn);
                        let expected = format!("what a {} says", header.kind.name());
                        let found = "something else".to_owned();
                        self.tell(LogError::Damaged { file, offset, expected, found });
                    }
                    continue;
                }
                Ok(None) => match ends_too_early(scan.at()) {
                    None => return Ok(()),
                    Some(damage) => damage,
                },
                Err(damage @ LogError::Damaged { .. }) => damage,
                Err(error) => return Err(error),
            };
            self.tell(damage);
            if !scan.go_on_to_block()? {
                return Ok(());
            }
        }
    }

    /// `owned` is the identity of the database that should own the archived logs, if it is known.
    fn check_archive(&mut self, root: &FileMedium, owned: Option<u64>) -> Checked {
        let owner = Owner::read(root)?;
        if owned.is_some_and(|id| id != owner.id) {
            return Err(LogError::AnotherDatabase { path: root.path("") });
        }
        let folders = root.folders()?;
        for tablespace in 0..owner.tablespaces {
            let name = archive::folder_name(tablespace);
            if !folders.contains(&name) {
                self.tell(LogError::Missing { file: root.path(&name) });
                continue;
            }
            let medium = root.folder(&name)?;
            let checked = self.check_archived(&*medium, tablespace, owner.file_bytes);
            self.note(checked);
        }
        Ok(())
    }

    fn check_archived(
        &mut self,
        medium: &dyn Medium,
        tablespace: usize,
        file_bytes: u64,
    ) -> Checked {
        let names = medium.names()?;
        let numbers: Vec<u64> = names.iter().filter_map(|name| file_number(name)).collect();
        let Some(first) = numbers.first() else { return Ok(()) };
        let (mut next, mut is_sound) = (*first, true);
        for number in &numbers {
            (next..*number).for_each(|lost| {
                self.tell(LogError::Missing { file: medium.path(&file_name(lost)) });
            });
            next = number + 1;
            self.archived_files += 1;
            is_sound &= self.note(archived::verify(medium, *number)).is_some();
        }
        if !is_sound {
            return Ok(()); // The blocks of a damaged copy are not read.
        }
        let places = Places { archive: medium, own: None, file_bytes };
        let log = Archived::find(places, tablespace as u8, first * file_bytes)?;
        let mut scan = log.scan();
        scan.go_on_to_block()?;
        self.check_blocks(&mut scan, |_| None)
    }
}

/// Whether a block with the right checksum has a payload of its kind.
fn means_something(header: &Header, payload: &[u8]) -> bool {
    match header.kind {
        // A transaction with pieces is split at any byte.
        Kind::Commit => {
            header.transaction != 0 || Changes::new(payload).all(|change| change.is_some())
        }
        Kind::Table | Kind::Alter => describe::decode(payload).is_some(),
        Kind::Drop => block::decode_drop(payload).is_some(),
        Kind::IdleWatermark => IdleWatermark::decode_all(payload).is_some(),
        Kind::Time => time_mark::time_us(payload).is_some(),
        Kind::Piece | Kind::Open => true,
    }
}
