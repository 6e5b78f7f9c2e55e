//! Restores a database as it was at some moment, from a backup and archived logs.
//!
//! 1. Find the logs, from the position where the backup begins, in the archive and in what is left
//!    of the database's folder, and read them once: how far they reach, and which restore points
//!    they have.
//! 2. Choose the bound: the GSN of the requested moment.
//! 3. Copy the backup's checkpoint stores into the new folder, and of each log the part before its
//!    first block above the bound. The control file of the new folder says that everything up to
//!    the bound is durable and that the logs end there.
//! 4. Open the database like any other, which applies the commits in the logs behind the backup,
//!    and take a checkpoint.
//!
//! - `RESTORE-1`: the database contains exactly the commits with a GSN up to the bound
//!   (`RECOVER-1`).
//! - `RESTORE-2`: the control file has another name until everything is copied, so the folder of an
//!   interrupted restore does not open as a database.

mod survey;

use std::path::Path;

use atoll_log::LogError;
use atoll_log::archive::{self, Owner};
use atoll_log::archived::{Archived, Places};
use atoll_log::control::{self, Checkpoint, CheckpointPart, Control, ControlFile};
use atoll_log::files::file_number;
use atoll_log::origin::{self, Origin};
use atoll_machine::medium::{Locked, Open};
use atoll_machine::{FileMedium, Medium};

use self::survey::Survey;
use crate::database::Database;
use crate::durable::backup::{CHECKPOINT, FIRST_INCARNATION, lock_empty, lock_to_read};
use crate::durable::open::{check_folders, existing_media, folder_name};
use crate::durable::{CheckpointReport, RecoveryReport};
pub use crate::error::RestoreError;
use crate::error::Result;
use crate::options::DatabaseOptions;
use crate::restore_point::{RestorePoint, utc};

/// Bytes that are copied at once.
const COPY_BYTES: u64 = 1 << 20;

/// The moment to which a database is restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// The end of the logs.
    Latest,
    /// The last restore point that is not after this time: microseconds since 1970, UTC.
    Time(u64),
    /// Everything up to this global sequence number.
    Gsn(u64),
}

/// The folders from which a database is restored.
#[derive(Debug, Clone, Copy)]
pub struct Sources<'s> {
    /// A backup that has not been opened since, see [`Database::backup`].
    pub backup: &'s dyn Medium,
    /// The archive of its logs, see [`DatabaseOptions::archive`].
    pub archive: &'s dyn Medium,
    /// What is left of the database's own folder: it has the end of the logs.
    pub data: Option<&'s dyn Medium>,
}

/// The result of a restore.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct RestoreReport {
    /// The database has everything up to this global sequence number.
    pub gsn: u64,
    /// The last restore point up to there.
    #[serde(rename = "moment")]
    pub restore_point: RestorePoint,
    /// Bytes of logs that were copied.
    pub log_bytes: u64,
    /// What recovery found and did.
    pub recovery: RecoveryReport,
    /// The checkpoint that was taken at the end.
    pub checkpoint: CheckpointReport,
}

/// Restores a database as it was at a moment into the folder `new`, which is empty or does not
/// exist yet, from the folders of a backup, of an archive, and of the database itself if it is
/// still there.
///
/// # Errors
/// As [`restore_on`].
pub fn restore(
    (backup, archive, data): (&Path, &Path, Option<&Path>),
    new: &Path,
    until: Until,
    options: DatabaseOptions,
) -> Result<RestoreReport> {
    let [backup, archive] = [backup, archive].map(FileMedium::existing);
    let (backup, archive) = (backup?, archive?);
    let data = data.map(FileMedium::existing).transpose()?;
    let data = data.as_ref().map(|data| data as &dyn Medium);
    let sources = Sources { backup: &backup, archive: &archive, data };
    restore_on(&sources, &FileMedium::new(new)?, until, options)
}

/// As [`restore`], on any media. The database is closed when this returns.
///
/// # Errors
/// [`crate::Error::Restore`]; [`crate::Error::TooManyFolders`]; [`crate::Error::InUse`];
/// [`crate::Error::Log`] for damage, for logs of another database, and when `new` is not empty.
/// There is no database in `new` then, unless opening it failed.
pub fn restore_on(
    sources: &Sources<'_>,
    new: &dyn Medium,
    until: Until,
    options: DatabaseOptions,
) -> Result<RestoreReport> {
    let locked = lock_empty(new)?;
    let begin = Begin::read(sources)?;
    check_folders(&options.node_folders, begin.control.tablespaces)?;
    let survey = Survey::of(&begin.logs, &begin.origin, begin.own())?;
    let gsn = begin.bound(&survey, until)?;
    let log_bytes = begin.write(new, &options, (gsn, survey.incarnation))?;
    let last = survey.restore_points.iter().rfind(|one| one.gsn <= gsn);
    let restore_point = *last.unwrap_or(&survey.restore_points[0]);
    drop((begin, locked));
    let db = Database::open_on(new, DatabaseOptions { archive: None, ..options })?;
    let recovery = db.recovery().cloned().unwrap_or_default();
    let checkpoint = db.checkpoint()?;
    db.close()?;
    Ok(RestoreReport { gsn, restore_point, log_bytes, recovery, checkpoint })
}

/// The files from which a database is restored.
struct Begin<'s> {
    backup: &'s dyn Medium,
    archive: &'s dyn Medium,
    control: Control,
    origin: Origin,
    logs: Vec<Archived>,
    own: Option<Control>,
    _locked: Vec<Box<dyn Locked>>,
}

impl<'s> Begin<'s> {
    fn read(sources: &Sources<'s>) -> Result<Self> {
        let Sources { backup, archive, data } = *sources;
        let no_backup = || RestoreError::NoBackup { path: backup.path("") };
        let names = backup.names()?;
        let has = |wanted: &str| names.iter().any(|name| name == wanted);
        if !has(origin::FILE) || !has(control::FILE) {
            return Err(no_backup().into());
        }
        let mut locked = vec![lock_to_read(backup)?];
        let (_, control) = ControlFile::open(backup, Open::Read)?;
        let origin = Origin::read(backup)?;
        // Opening a backup writes into its checkpoint stores.
        if control.incarnation != FIRST_INCARNATION || origin.logs.len() != control.tablespaces {
            return Err(no_backup().into());
        }
        let owner = Owner::read(archive)?;
        let Control { file_bytes, tablespaces, .. } = control;
        if owner != (Owner { id: origin.id, file_bytes, tablespaces }) {
            return Err(LogError::AnotherDatabase { path: archive.path("") }.into());
        }
        let (mut own, mut own_media) = (None, Vec::new());
        if let Some(data) = data {
            locked.push(lock_to_read(data)?);
            let (_, found) = ControlFile::open(data, Open::Read)?;
            if found.id != origin.id || found.tablespaces != tablespaces {
                return Err(LogError::AnotherDatabase { path: data.path("") }.into());
            }
            own_media = existing_media(data, tablespaces)?;
            own = Some(found);
        }
        let folders = archive.folders()?;
        let logs = origin.logs.iter().enumerate().map(|(number, (start, _))| {
            let name = archive::folder_name(number);
            if !folders.contains(&name) && own.is_none() {
                return Err(LogError::Missing { file: archive.path(&name) });
            }
            let archive = archive.folder(&name)?;
            let own = own_media.get(number).map(|own| &**own);
            let places = Places { archive: &*archive, own, file_bytes };
            Archived::find(places, number as u8, *start)
        });
        let logs = logs.collect::<std::result::Result<_, _>>()?;
        Ok(Self { backup, archive, control, origin, logs, own, _locked: locked })
    }

    fn own(&self) -> Option<&Control> {
        self.own.as_ref()
    }

    /// The GSN up to which commits are restored.
    fn bound(&self, survey: &Survey, until: Until) -> Result<u64> {
        let Origin { gsn, time_us, .. } = self.origin;
        let first = RestorePoint { gsn, time_us };
        let last = *survey.restore_points.last().unwrap_or(&first);
        let gap = self.logs.iter().find_map(|log| log.gap.clone());
        let gap = gap.map(|file| RestoreError::Gap { file, last });
        let Some(known) = survey.known else {
            let behind = RestoreError::Behind { path: self.archive.path(""), made: first };
            return Err(gap.unwrap_or(behind).into());
        };
        let out_of_reach = |wanted: String| RestoreError::OutOfReach { wanted, first, last, known };
        let found = match until {
            Until::Latest => match gap {
                Some(gap) => Err(gap),
                None => Ok(known),
            },
            Until::Gsn(wanted) if wanted > known => {
                Err(gap.unwrap_or_else(|| out_of_reach(format!("GSN {wanted}"))))
            }
            Until::Gsn(wanted) if wanted < gsn => Err(out_of_reach(format!("GSN {wanted}"))),
            Until::Gsn(wanted) => Ok(wanted),
            Until::Time(wanted) if survey.restore_points.iter().all(|one| one.time_us < wanted) => {
                Err(gap.unwrap_or_else(|| out_of_reach(utc(wanted))))
            }
            Until::Time(wanted) => {
                let last_before = survey.restore_points.iter().rfind(|one| one.time_us <= wanted);
                last_before.map(|one| one.gsn).ok_or_else(|| out_of_reach(utc(wanted)))
            }
        };
        Ok(found?)
    }

    /// Writes the files of a database that has everything up to `bound`; returns the bytes of log.
    fn write(
        &self,
        new: &dyn Medium,
        options: &DatabaseOptions,
        (bound, newest): (u64, u32),
    ) -> Result<u64> {
        let Control { file_bytes, tablespaces, .. } = self.control;
        let mut control = Control {
            id: control::new_id(),
            file_bytes,
            tablespaces,
            cuts: vec![0; tablespaces],
            ..Control::default()
        };
        ControlFile::begin(new, control::COPY, &mut control)?;
        let no_backup = || RestoreError::NoBackup { path: self.backup.path("") };
        let [made] = &self.control.checkpoints[..] else { return Err(no_backup().into()) };
        let (mut bytes, mut ends, mut parts) = (0, Vec::new(), Vec::new());
        for (number, log) in self.logs.iter().enumerate() {
            let name = folder_name(number);
            let to = match options.node_folders.get(number) {
                Some(elsewhere) => new.folder_at(&name, elsewhere)?,
                None => new.folder(&name)?,
            };
            copy_store(&*self.backup.folder(&name)?, &*to)?;
            let end = survey::end(log, number, self.own(), bound)?;
            bytes += log.copy_to(&*to, end)?;
            ends.push(end);
            let (start, file) = (self.origin.logs[number].0, made.parts[number].file);
            parts.push(CheckpointPart { start, base: CHECKPOINT, file });
        }
        new.sync_names()?;
        let Origin { epoch, incarnation, .. } = self.origin;
        let next_serial = made.next_serial;
        control.checkpoints =
            vec![Checkpoint { number: CHECKPOINT, epoch, incarnation, next_serial, parts }];
        // A later incarnation than that of every block, so that the logs end where they were cut.
        control.incarnation = newest + 1;
        (control.cuts, control.horizon) = (ends.clone(), bound);
        control.ends = Some(ends);
        ControlFile::begin(new, control::COPY, &mut control)?;
        ControlFile::finish(new, control::COPY)?;
        Ok(bytes)
    }
}

/// Copies all files of a tablespace except its log.
fn copy_store(from: &dyn Medium, to: &dyn Medium) -> Result<()> {
    let names = from.names()?;
    let mut piece = Vec::new();
    for name in names.iter().filter(|name| file_number(name).is_none()) {
        let (source, target) = (from.open(name, Open::Read)?, to.open(name, Open::Create)?);
        let (bytes, mut at) = (source.size()?, 0);
        while at < bytes {
            piece.resize(COPY_BYTES.min(bytes - at) as usize, 0);
            source.read_at(at, &mut piece)?;
            target.write_at(at, &piece)?;
            at += piece.len() as u64;
        }
        target.sync()?;
    }
    Ok(to.sync_names()?)
}
