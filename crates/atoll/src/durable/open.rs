//! Opens the folder of a database: creates a new database, or recovers the one that is there.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use atoll_log::archive::{Archive, Owner};
use atoll_log::checkpoint_store::{self, CheckpointStore, Holding};
use atoll_log::control::{self, Checkpoint, Control, ControlFile};
use atoll_log::files::Files;
use atoll_log::log::Start;
use atoll_log::scan::Scan;
use atoll_log::{LogError, Logs, LogsOptions};
use atoll_machine::Medium;
use atoll_machine::medium::{Open, file};

use super::checkpoint::{Chain, Checkpointer, spare_files};
use super::{RecoveryReport, load, recover};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::progress::{OpenPart, OpenProgress};

/// The options with which a folder is opened.
pub(crate) struct OpenOptions {
    /// Number of tablespaces of a new database.
    pub(crate) tablespaces: usize,
    /// Their folders, see [`crate::DatabaseOptions::node_folders`].
    pub(crate) folders: Vec<PathBuf>,
    /// See [`crate::DatabaseOptions::checkpoint_log_bytes`].
    pub(crate) checkpoint_log_bytes: u64,
    /// See [`crate::DatabaseOptions::checkpoint_steps_max`].
    pub(crate) steps_max: u64,
    pub(crate) logs: LogsOptions,
    /// The archive of the logs.
    pub(crate) archive: Option<Arc<dyn Medium>>,
    /// Number of threads for recovery.
    pub(crate) threads: usize,
    /// Counters for a thread that shows the progress.
    pub(crate) progress: Option<Arc<OpenProgress>>,
}

/// The folder of a tablespace.
pub(crate) fn folder_name(tablespace: usize) -> String {
    format!("node-{tablespace}")
}

/// The folders of the tablespaces. A folder that is missing, or lacks its checkpoint store, is
/// perhaps not mounted, so it is an error and is not created.
pub(crate) fn existing_media(
    root: &dyn Medium,
    tablespaces: usize,
) -> Result<Vec<Arc<dyn Medium>>> {
    let known = root.folders()?;
    let folders = (0..tablespaces).map(|at| {
        let name = folder_name(at);
        if !known.contains(&name) {
            return Err(LogError::Missing { file: root.path(&name) }.into());
        }
        let folder = root.folder(&name)?;
        if !folder.names()?.iter().any(|name| name == checkpoint_store::FILE) {
            return Err(LogError::Missing { file: folder.path(checkpoint_store::FILE) }.into());
        }
        Ok(folder)
    });
    folders.collect()
}

/// Opens a database: recovers its tables into `engine`, which has none yet. The checkpointer that
/// is returned takes its checkpoints from now on.
pub(crate) fn open(
    root: &dyn Medium,
    engine: &Engine,
    options: &OpenOptions,
) -> Result<(Checkpointer, RecoveryReport)> {
    let is_there = |name: &str| Ok::<_, Error>(root.names()?.iter().any(|known| known == name));
    if !is_there(control::FILE)? {
        check_may_create(root)?; // Before a lock is taken in a foreign folder.
    }
    let locked = match root.lock()? {
        Ok(locked) => locked,
        Err(pid) => return Err(Error::InUse { path: root.path(""), pid }),
    };
    options.logs.check()?;
    if !is_there(control::FILE)? {
        check_may_create(root)?;
        check_folders(&options.folders, options.tablespaces)?;
        create(root, options)?;
    }
    let (file, mut control) = ControlFile::open(root, Open::Write)?;
    check_folders(&options.folders, control.tablespaces)?;
    let archive = options.archive.as_deref();
    let archive = archive.map(|archive| open_archive(archive, &control)).transpose()?;
    let media = existing_media(root, control.tablespaces)?;
    let stores: Vec<CheckpointStore> = media
        .iter()
        .map(|medium| CheckpointStore::open(Arc::clone(medium)))
        .collect::<std::result::Result<_, _>>()?;
    let mut report = RecoveryReport {
        created: control.incarnation == 0,
        was_closed: control.ends.is_some(),
        media: media.iter().map(|medium| medium.kind().name()).collect(),
        ..RecoveryReport::default()
    };
    let unseen = OpenProgress::default();
    let progress = options.progress.as_deref().unwrap_or(&unseen);
    let holdings = newest_holdings(&mut control, &stores, &mut report)?;
    let begin = Instant::now();
    if let Some(holdings) = holdings.first() {
        let Checkpoint { number, next_serial, .. } = control.checkpoints[0];
        report.checkpoint = number;
        let holdings = (&holdings[..], next_serial);
        load::load(engine, &stores, holdings, options.threads, &progress.checkpoint)?;
    }
    let maps_of = |all: Vec<Holding>| all.into_iter().map(|holding| holding.map).collect();
    let maps = holdings.into_iter().map(maps_of).collect();
    let chains = stores.iter().map(|_| Chain::new(options.steps_max)).collect();
    report.home_s = begin.elapsed().as_secs_f64();
    let begin = Instant::now();
    let starts = if control.incarnation == 0 {
        vec![Start { lsn: 0, gsn: 0 }; control.tablespaces]
    } else {
        let found = replay(engine, &media, &control, options)?;
        control.incarnation = control.incarnation.max(found.incarnation);
        report.log_bytes = found.log_bytes;
        (report.redone, report.dropped) = (found.redone, found.dropped);
        found.starts
    };
    report.log_s = begin.elapsed().as_secs_f64();
    let begin = Instant::now();
    report.rows = load::index(engine, options.threads, &progress.indexes)?;
    report.index_s = begin.elapsed().as_secs_f64();
    // The control file starts a new incarnation before anything of it is written (RECOVER-2).
    control.incarnation += 1;
    control.ring_bytes = options.logs.ring_bytes;
    control.ends = None;
    control.cuts = starts.iter().map(|start| start.lsn).collect();
    control.horizon = starts.iter().map(|start| start.gsn).max().unwrap_or(0);
    let file = Arc::new(Mutex::new(file));
    let announce = {
        let (file, mut control) = (Arc::clone(&file), control.clone());
        Box::new(move || file.lock().unwrap_or_else(PoisonError::into_inner).write(&mut control))
    };
    let logs_options = LogsOptions { file_bytes: control.file_bytes, ..options.logs };
    let logs = Logs::open(&media, &starts, control.incarnation, logs_options, announce)?;
    match logs.begin() {
        Err(LogError::Medium(cause)) if cause.is_full() => report.notes.push(waiting(&cause)),
        Err(error) => {
            // No incarnation has begun, so closing changes nothing; `error` is the cause.
            let _ = logs.close();
            return Err(error.into());
        }
        Ok(()) => {}
    }
    let spare_files = spare_files(options.checkpoint_log_bytes, control.file_bytes);
    let (baseline, locked, is_unwritten, not_archived) = (None, Some(locked), false, None);
    Ok((
        Checkpointer {
            logs,
            stores,
            file,
            control,
            baseline,
            maps,
            spare_files,
            chains,
            locked,
            archive,
            not_archived,
            is_unwritten,
        },
        report,
    ))
}

/// The message for a database that accepts no changes because the medium is full.
pub(super) fn waiting(cause: &impl std::fmt::Display) -> String {
    format!(
        "the database can be read, and changes are refused until there is space: {cause}; \
         then it accepts changes again by itself"
    )
}

fn open_archive(root: &dyn Medium, control: &Control) -> Result<Archive> {
    let Control { id, file_bytes, tablespaces, .. } = *control;
    let opened = Archive::open(root, Owner { id, file_bytes, tablespaces })?;
    opened.map_err(|pid| Error::InUse { path: root.path(""), pid })
}

/// Checks that there are not more folders than tablespaces.
pub(crate) fn check_folders(folders: &[PathBuf], tablespaces: usize) -> Result<()> {
    let folders = folders.len();
    if folders > tablespaces {
        return Err(Error::TooManyFolders { folders, tablespaces });
    }
    Ok(())
}

/// Checks that a folder without a control file holds no files of a database or of anything else.
pub(super) fn check_may_create(root: &dyn Medium) -> Result<()> {
    let names = root.names()?;
    if names.iter().any(|name| name == control::COPY) {
        return Err(LogError::CutShort { path: root.path("") }.into());
    }
    if names.iter().any(|name| name == control::NEW) {
        return Ok(()); // Creation was interrupted.
    }
    if root.folders()?.iter().any(|name| name.starts_with("node-")) {
        return Err(LogError::Missing { file: root.path(control::FILE) }.into());
    }
    if names.iter().any(|name| name != file::LOCK_FILE) {
        return Err(LogError::NoDatabase { path: root.path("") }.into());
    }
    Ok(())
}

fn create(root: &dyn Medium, options: &OpenOptions) -> Result<()> {
    let mut control = Control {
        id: control::new_id(),
        file_bytes: options.logs.file_bytes,
        tablespaces: options.tablespaces,
        cuts: vec![0; options.tablespaces],
        ..Control::default()
    };
    ControlFile::begin(root, control::NEW, &mut control)?;
    for tablespace in 0..options.tablespaces {
        let name = folder_name(tablespace);
        let medium = match options.folders.get(tablespace) {
            Some(elsewhere) => root.folder_at(&name, elsewhere)?,
            None => root.folder(&name)?,
        };
        Files::open(Arc::clone(&medium), control.file_bytes, 0)?.make_until(0)?;
        CheckpointStore::open(medium)?;
    }
    root.sync_names()?;
    Ok(ControlFile::finish(root, control::NEW)?)
}

/// The contents of the kept checkpoints, the newest first. If the newest cannot be read, recovery
/// uses the checkpoint before it and the logs behind that one.
fn newest_holdings(
    control: &mut Control,
    stores: &[CheckpointStore],
    report: &mut RecoveryReport,
) -> Result<Vec<Vec<Holding>>> {
    let mut holdings = Vec::new();
    let mut first_error = None;
    let had_any = !control.checkpoints.is_empty();
    control.checkpoints.retain(|checkpoint| {
        let parts = stores.iter().zip(&checkpoint.parts);
        let mut helped = Vec::new();
        let read =
            parts.map(|(store, part)| store.read_holding(checkpoint.number, part, &mut helped));
        match read.collect::<std::result::Result<Vec<Holding>, _>>() {
            Ok(read) => {
                let notes = helped.iter().map(|error| format!("a copy was used: {error}"));
                report.notes.extend(notes);
                // Of an older checkpoint only the map is needed: it says which blocks are in use.
                let is_newest = holdings.is_empty();
                let map_only =
                    |holding: Holding| Holding { map: holding.map, ..Holding::default() };
                holdings.push(if is_newest {
                    read
                } else {
                    read.into_iter().map(map_only).collect()
                });
            }
            Err(error) => {
                report
                    .notes
                    .push(format!("checkpoint {} cannot be used: {error}", checkpoint.number));
                first_error.get_or_insert(error);
                return false;
            }
        }
        true
    });
    match first_error {
        Some(error) if had_any && holdings.is_empty() => Err(error.into()),
        _ => Ok(holdings),
    }
}

fn replay(
    engine: &Engine,
    media: &[Arc<dyn Medium>],
    control: &Control,
    options: &OpenOptions,
) -> Result<recover::Found> {
    let checkpoint = control.checkpoints.first();
    let mut scans = Vec::with_capacity(media.len());
    for (number, medium) in media.iter().enumerate() {
        let start = checkpoint.map_or(0, |checkpoint| checkpoint.parts[number].start);
        let medium = Arc::clone(medium);
        let mut scan = Scan::open(medium, number as u8, control.file_bytes, start)?;
        scan.cut(control.incarnation, control.cuts[number]);
        scan.reach(control.ring_bytes);
        scans.push(scan);
    }
    let unseen = OpenPart::default();
    let progress = match &options.progress {
        None => &unseen,
        Some(progress) => {
            let ends = scans.iter().enumerate().map(|(number, scan)| match &control.ends {
                Some(ends) => Ok(ends[number]),
                None => scan.about_end(),
            });
            let ends = ends.sum::<std::result::Result<u64, LogError>>()?;
            let starts: u64 = scans.iter().map(Scan::at).sum();
            progress.log.begin(ends.saturating_sub(starts));
            &progress.log
        }
    };
    let threads = (options.threads, options.logs.planted);
    let found = recover::replay(engine, control, (scans, media), threads, progress)?;
    progress.end();
    for (number, start) in found.starts.iter().enumerate() {
        if let Some(damage) = control.ends_too_early(number, &*media[number], start.lsn) {
            return Err(damage.into());
        }
    }
    Ok(found)
}
