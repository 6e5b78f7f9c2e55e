//! Checkpoints: writing what has changed home, so that the logs can be short.
//!
//! A checkpoint is a snapshot that is compared with that of the checkpoint before, which is held
//! until then: a segment whose node is the same has not changed, and of one that has, blocks with
//! the same bytes are not written again. So nobody marks anything when a row changes, and no
//! worker ever waits for a checkpoint; what it costs them is what any snapshot costs.
//!
//! - `CHECKPOINT-1`: before it counts, everything that its snapshot shows is durable in the logs,
//!   and what it has written is durable at home.
//! - `CHECKPOINT-2`: a log is needed from the position where it ended before the cut, or from the
//!   first piece of a transaction that was open then. Blocks behind it of epochs up to the cut's
//!   are in the snapshot, and later ones are not.
//! - `CHECKPOINT-3`: the last two are kept, with the logs from the older one on.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use atoll_log::control::{CHECKPOINTS_KEPT, Checkpoint, CheckpointPart, Control, ControlFile};
use atoll_log::home::{Home, Map, TableMap};
use atoll_log::{LogError, Logs, Planted};
use atoll_machine::medium::Locked;
use atoll_storage::TableId;
use atoll_txn::describe;

use super::CheckpointReport;
use super::image::{self, Before};
use crate::database::Inner;
use crate::error::Result;
use crate::snapshot::Snapshot;
use crate::snapshot_table::SnapshotTable;

/// Files of a log that are kept to be used again.
const SPARE_FILES: u64 = 4;

/// Takes the checkpoints of a database, one at a time.
pub(crate) struct Checkpointer {
    pub(super) logs: Arc<Logs>,
    pub(super) homes: Vec<Home>,
    pub(super) file: ControlFile,
    pub(super) control: Control,
    /// What the last checkpoint showed; gone when memory was short.
    pub(super) baseline: Option<Snapshot>,
    /// The maps of the checkpoints that are kept, the newest first, by tablespace.
    pub(super) maps: Vec<Vec<Map>>,
    /// Goes when the database has been closed.
    pub(super) locked: Option<Box<dyn Locked>>,
    /// Writing the control file has failed, so it is not known what it says.
    pub(super) failed: Option<LogError>,
}

/// How far the logs have come since the last checkpoint, for whoever decides on the next.
pub(crate) struct Progress {
    /// Where the logs ended then, added up.
    checkpointed: AtomicU64,
}

impl Progress {
    pub(super) fn new(control: &Control) -> Self {
        let newest = control.checkpoints.first();
        let starts = newest.map_or(0, |one| one.parts.iter().map(|part| part.start).sum());
        Self { checkpointed: AtomicU64::new(starts) }
    }

    pub(super) fn reset(&self, logs: &Logs) {
        self.checkpointed.store(end(logs), Ordering::Relaxed);
    }

    /// Bytes of the logs since the last checkpoint.
    pub(super) fn log_bytes(&self, logs: &Logs) -> u64 {
        end(logs).saturating_sub(self.checkpointed.load(Ordering::Relaxed))
    }
}

fn end(logs: &Logs) -> u64 {
    logs.logs().iter().map(|log| log.tail_lsn()).sum()
}

impl Checkpointer {
    pub(crate) fn logs(&self) -> Arc<Logs> {
        Arc::clone(&self.logs)
    }

    /// Takes a checkpoint.
    ///
    /// # Errors
    /// [`crate::Error::Log`] and those of [`crate::Database::snapshot`]; the checkpoint before
    /// counts then.
    pub(crate) fn take(&mut self, inner: &Arc<Inner>) -> Result<CheckpointReport> {
        if self.locked.is_none() {
            return Err(LogError::Closed.into());
        }
        if let Some(error) = &self.failed {
            return Err(error.clone().into());
        }
        let begin = Instant::now();
        let starts = self.logs.starts(); // before the cut: CHECKPOINT-2
        let snapshot = inner.snapshot(String::new(), true)?;
        // Whoever is making a table that the snapshot shows has made it when this returns.
        inner.engine.all_tables();
        let horizon = self.logs.clock();
        self.logs.settle(horizon)?; // CHECKPOINT-1
        let number = self.control.checkpoints.first().map_or(0, |last| last.number) + 1;
        let mut report = CheckpointReport { number, ..CheckpointReport::default() };
        let mut maps = Vec::with_capacity(self.homes.len());
        let mut parts = Vec::with_capacity(self.homes.len());
        for (tablespace, start) in starts.iter().enumerate() {
            let map = self.write_home(inner, tablespace, &snapshot, &mut report)?;
            let (map_bytes, map_crc) = self.homes[tablespace].write_map(number, &map)?;
            report.map_bytes += map_bytes;
            parts.push(CheckpointPart { start: *start, map_bytes, map_crc });
            maps.push(map);
        }
        let mut control = self.control.clone();
        control.horizon = horizon;
        let life = control.life;
        let is_wrong = self.logs.options().planted == Planted::EpochTooMany;
        let epoch = snapshot.epoch() + u64::from(is_wrong);
        control.checkpoints.insert(0, Checkpoint { number, epoch, life, parts });
        control.checkpoints.truncate(CHECKPOINTS_KEPT);
        self.file.write(&mut control).inspect_err(|error| self.failed = Some(error.clone()))?;
        self.control = control;
        self.maps.insert(0, maps);
        self.maps.truncate(CHECKPOINTS_KEPT);
        self.baseline = Some(snapshot);
        self.release()?;
        report.seconds = begin.elapsed().as_secs_f64();
        Ok(report)
    }

    /// Lets go of what no kept checkpoint needs (`CHECKPOINT-3`).
    fn release(&self) -> Result<()> {
        let kept = &self.control.checkpoints;
        if kept.len() == CHECKPOINTS_KEPT
            && let Some(oldest) = kept.last()
        {
            let starts: Vec<u64> = oldest.parts.iter().map(|part| part.start).collect();
            self.logs.release(&starts, SPARE_FILES)?;
        }
        let numbers: Vec<u64> = kept.iter().map(|checkpoint| checkpoint.number).collect();
        for home in &self.homes {
            home.keep_maps(&numbers)?;
        }
        Ok(())
    }

    fn write_home(
        &self,
        inner: &Inner,
        tablespace: usize,
        snapshot: &Snapshot,
        report: &mut CheckpointReport,
    ) -> Result<Map> {
        let kept: Vec<&Map> = self.maps.iter().map(|maps| &maps[tablespace]).collect();
        let mut writer = self.homes[tablespace].writer(&kept);
        let known = kept.first().copied();
        let mut map = Map::default();
        for table in snapshot.own_tables() {
            let options = inner.engine.table_options(table.id());
            if options.tablespace.unwrap_or(0) as usize != tablespace {
                continue;
            }
            let id = table.id().0;
            let description = describe::encode(id, table.name(), table.schema(), &options);
            let before = self.before(known, table.id());
            let mut segments = Vec::with_capacity(table.segment_count());
            for number in 0..table.segment_count() {
                let now = table.segment(number)?;
                let before = before.as_ref().and_then(|(old, map)| {
                    let known = map.segments.get(number)?;
                    Some((old.segment(number).ok()?, known))
                });
                report.segments += 1;
                let before_it =
                    before.as_ref().map(|(segment, map)| Before { segment, map: map.as_ref() });
                if let (Some((_, known)), Some(same)) = (&before, before_it)
                    && image::is_same(&now, same)
                {
                    segments.push(Arc::clone(known));
                    continue;
                }
                report.segments_changed += 1;
                let columns = table.schema().columns();
                segments.push(Arc::new(image::write(&mut writer, columns, &now, before_it)?));
            }
            map.tables.push(TableMap { id, description, segments });
        }
        report.bytes += writer.finish()?;
        Ok(map)
    }

    /// What the checkpoint before showed of a table, and where it lies.
    fn before<'m>(
        &self,
        known: Option<&'m Map>,
        table: TableId,
    ) -> Option<(SnapshotTable, &'m TableMap)> {
        let baseline = self.baseline.as_ref()?;
        let map = known?.tables.iter().find(|one| one.id == table.0)?;
        Some((baseline.own_tables().find(|one| one.id() == table)?, map))
    }

    /// Says that the database is closed: everything is in the logs, which end here.
    pub(super) fn close(&mut self) -> std::result::Result<(), LogError> {
        if self.locked.is_none() {
            return Ok(());
        }
        self.logs.close()?;
        let mut control = self.control.clone();
        control.ends = Some(self.logs.logs().iter().map(|log| log.durable_lsn()).collect());
        self.file.write(&mut control)?;
        self.control = control;
        self.locked = None;
        Ok(())
    }
}
