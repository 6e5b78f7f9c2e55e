//! Access to the files of a database that is not open.

use std::path::Path;
use std::sync::Arc;

use atoll_log::LogError;
use atoll_log::control::{self, Control};
use atoll_log::scan::Scan;
use atoll_machine::medium::Locked;
use atoll_machine::{FileMedium, Medium};

use super::open::folder_name;
use crate::error::{Error, Result};

/// Locks the folder of a database for reading; fails if a process has the database open.
pub(super) fn lock(root: &FileMedium) -> Result<Box<dyn Locked>> {
    let has = |wanted: &str| -> Result<bool> { Ok(root.names()?.iter().any(|it| it == wanted)) };
    let is_known = has(control::FILE)? || has(control::NEW)? || has(control::COPY)?;
    if !is_known && !root.folders()?.contains(&folder_name(0)) {
        return Err(LogError::NoDatabase { path: root.path("") }.into());
    }
    let locked = root.lock_to_read()?.map_err(|pid| Error::InUse { path: root.path(""), pid })?;
    // Checked under the lock, because a process that was creating the database may have finished.
    let path = root.path("");
    if has(control::FILE)? {
        Ok(locked)
    } else if has(control::COPY)? {
        Err(LogError::CutShort { path }.into())
    } else if has(control::NEW)? {
        Err(LogError::Unfinished { path }.into())
    } else {
        Ok(locked)
    }
}

/// The medium of a tablespace; its folder must exist.
pub(super) fn existing(
    root: &FileMedium,
    folder: &Path,
    tablespace: usize,
) -> std::result::Result<Arc<dyn Medium>, LogError> {
    let name = folder_name(tablespace);
    let medium = FileMedium::existing(&folder.join(&name));
    medium.map(|medium| Arc::new(medium) as _).map_err(|error| {
        if error.is_missing() { LogError::Missing { file: root.path(&name) } } else { error.into() }
    })
}

pub(super) fn scan(
    medium: &Arc<dyn Medium>,
    tablespace: usize,
    control: &Control,
) -> std::result::Result<Scan, LogError> {
    let oldest = control.checkpoints.last();
    let start = oldest.map_or(0, |checkpoint| checkpoint.parts[tablespace].start);
    let mut scan = Scan::open(Arc::clone(medium), tablespace as u8, control.file_bytes, start)?;
    scan.cut(control.incarnation, control.cuts[tablespace]);
    scan.reach(control.ring_bytes);
    Ok(scan)
}
