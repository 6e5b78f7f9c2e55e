//! Databases in folders: opening, flushing, checkpoints, backups, restore points and closing.

use std::path::Path;
use std::sync::Arc;

use atoll_machine::{FileMedium, Medium};

use super::{Database, Handle, lock};
use crate::acknowledger::Acknowledger;
use crate::core::Core;
use crate::durability::Durability;
use crate::durable::flusher::{Flusher, Policy};
use crate::durable::health::Health;
use crate::durable::open::OpenOptions;
use crate::durable::{self, BackupReport, CheckpointReport, RecoveryReport};
use crate::error::{Error, Result};
use crate::options::DatabaseOptions;
use crate::restore_point::{RestorePoint, now_us};

impl Database {
    /// Opens the database in a folder, or creates one there. It contains every acknowledged commit,
    /// however the process before it ended; see [`crate::Durability`].
    ///
    /// # Errors
    /// As [`Database::create`]; [`Error::InUse`] when it is open already;
    /// [`Error::TooManyFolders`]; [`Error::Log`] when the folder cannot be read or written, is not
    /// the folder of a database, or is damaged: nothing is changed then.
    pub fn open(folder: &Path, options: DatabaseOptions) -> Result<Self> {
        Self::open_on(&FileMedium::new(folder)?, options)
    }

    /// As [`Database::open`], on any medium.
    ///
    /// # Errors
    /// As [`Database::open`].
    pub fn open_on(medium: &dyn Medium, options: DatabaseOptions) -> Result<Self> {
        let archive = options.archive.as_deref().map(FileMedium::new).transpose()?;
        Self::open_archived_on(medium, archive.map(|archive| Arc::new(archive) as _), options)
    }

    /// As [`Database::open_on`], and archives the logs on any medium.
    ///
    /// # Errors
    /// As [`Database::open`]; [`Error::Log`] with [`LogError::NoArchive`] or
    /// [`LogError::AnotherDatabase`].
    pub fn open_archived_on(
        medium: &dyn Medium,
        archive: Option<Arc<dyn Medium>>,
        options: DatabaseOptions,
    ) -> Result<Self> {
        let core = Core::new(&options, medium.on_file_system())?;
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let tablespaces = options.tablespaces.unwrap_or(core.topology.working_nodes());
        let most = atoll_log::logs::TABLESPACES_MAX;
        let tablespaces = tablespaces.clamp(1, most);
        let folders = options.node_folders;
        let steps_max = options.checkpoint_steps_max;
        let checkpoint_log_bytes = options.checkpoint_log_bytes;
        let (logs, progress) = (options.logs, options.progress);
        let how = OpenOptions {
            tablespaces,
            folders,
            checkpoint_log_bytes,
            steps_max,
            logs,
            archive,
            threads,
            progress,
        };
        let (checkpointer, report) = durable::open::open(medium, &core.engine, &how)?;
        let logs = checkpointer.logs();
        let durability = options.durability;
        let due = Arc::default();
        let acknowledger =
            Acknowledger { logs: Arc::clone(&logs), durability, due: Arc::clone(&due) };
        let is_first = core.acknowledger.set(acknowledger).is_ok();
        debug_assert!(is_first);
        core.engine.record_to(logs);
        core.make_ready(options.ready_bytes)?;
        let policy = Policy {
            durability,
            checkpoint_log_bytes: options.checkpoint_log_bytes,
            checkpoint_interval: options.checkpoint_interval,
        };
        let flusher = Flusher::start(&core, checkpointer, policy, due);
        Ok(Self::of(core, Vec::new(), Some(flusher), Some(report)))
    }

    /// The durability of commits that do not ask for another one; `None` for a database that is in
    /// memory only.
    pub fn durability(&self) -> Option<Durability> {
        self.0.core.acknowledger.get().map(|acknowledger| acknowledger.durability)
    }

    /// Bytes that were written into the logs since the database was opened.
    ///
    /// # Errors
    /// [`Error::NotDurable`].
    pub fn log_bytes(&self) -> Result<u64> {
        let acknowledger = self.owned()?.acknowledger.get().ok_or(Error::NotDurable)?;
        Ok(acknowledger.logs.bytes())
    }

    /// What recovery found and did; `None` for a database that is in memory only.
    pub fn recovery(&self) -> Option<&RecoveryReport> {
        self.0.recovery.as_ref()
    }

    /// Takes a checkpoint: writes the blocks that have changed to the checkpoint stores, so that
    /// the next recovery reads less log. Transactions go on meanwhile. The database takes
    /// checkpoints by itself too, as the logs grow and every
    /// [`DatabaseOptions::checkpoint_interval`].
    ///
    /// # Errors
    /// [`Error::NotDurable`], [`Error::Log`], those of [`Database::snapshot`]. The checkpoint
    /// before stays valid then.
    pub fn checkpoint(&self) -> Result<CheckpointReport> {
        let core = self.owned()?;
        let flusher = lock(&self.0.flusher);
        flusher.as_ref().ok_or(Error::NotDurable)?.checkpoint(core)
    }

    /// Writes a copy of the database into a folder that is empty or does not exist yet. The copy
    /// shows the database as it was at some moment during the call, and is opened like any other.
    /// Transactions go on meanwhile; checkpoints wait.
    ///
    /// # Errors
    /// [`Error::NotDurable`]; [`Error::Log`] for a folder that is not empty or cannot be written;
    /// those of [`Database::checkpoint`]. The files that were written then are not a valid
    /// database.
    pub fn backup(&self, folder: &Path) -> Result<BackupReport> {
        self.backup_on(&FileMedium::new(folder)?)
    }

    /// As [`Database::backup`], on any medium.
    ///
    /// # Errors
    /// As [`Database::backup`].
    pub fn backup_on(&self, medium: &dyn Medium) -> Result<BackupReport> {
        let core = self.owned()?;
        let flusher = lock(&self.0.flusher);
        flusher.as_ref().ok_or(Error::NotDurable)?.backup(core, medium)
    }

    /// Records a restore point in the logs: the database can be restored to exactly what had been
    /// committed at this moment. The restore point is durable when the call returns. The database
    /// also records one every second if something was logged since the last one, and one when it is
    /// closed.
    ///
    /// # Errors
    /// [`Error::NotDurable`], [`Error::Log`].
    pub fn mark(&self) -> Result<RestorePoint> {
        let logs = &self.owned()?.acknowledger.get().ok_or(Error::NotDurable)?.logs;
        let mark = logs.mark(now_us)?;
        logs.settle(mark.gsn)?;
        Ok(RestorePoint { gsn: mark.gsn, time_us: mark.time_us })
    }

    /// Reports flushes, files and checkpoints that have failed, including those that no transaction
    /// waits for. Does not wait for any of them.
    pub fn health(&self) -> Health {
        let Handle { notes, core, .. } = &**self.0;
        if !core.is_owner() {
            return Health::default();
        }
        let logs = core.acknowledger.get().map(|acknowledger| &*acknowledger.logs);
        let spill = core.check_spill().err().map(|error| error.to_string());
        notes.health(logs, spill)
    }

    /// Waits until every commit so far is durable, whatever its durability.
    ///
    /// # Errors
    /// [`Error::NotDurable`], [`Error::Log`].
    pub fn flush(&self) -> Result<()> {
        let acknowledger = self.owned()?.acknowledger.get().ok_or(Error::NotDurable)?;
        Ok(acknowledger.logs.flush()?)
    }

    /// Flushes of the logs so far; 0 for a database that is in memory only.
    pub fn flushes(&self) -> u64 {
        let Ok(core) = self.owned() else { return 0 };
        core.acknowledger.get().map_or(0, |acknowledger| acknowledger.logs.flushes())
    }

    /// Checkpoints since the database was opened, including those that it took by itself; 0 for a
    /// database that is in memory only.
    pub fn checkpoints(&self) -> u64 {
        if self.owned().is_err() {
            return 0;
        }
        lock(&self.0.flusher).as_ref().map_or(0, Flusher::checkpoints)
    }

    /// Makes every commit durable and records in the control file that the database was closed.
    /// Dropping the last clone does the same but cannot report an error.
    ///
    /// # Errors
    /// [`Error::Log`]: commits without [`crate::Durability::Strict`] may be lost; with
    /// [`LogError::NotArchived`] the database is closed and only the archive is incomplete.
    pub fn close(self) -> Result<()> {
        self.owned()?;
        match lock(&self.0.flusher).as_mut() {
            Some(flusher) => flusher.close(),
            None => Ok(()),
        }
    }
}
