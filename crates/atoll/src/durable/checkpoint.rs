//! Checkpoints: writes what has changed to the checkpoint stores, so that the logs can be
//! truncated.
//!
//! A checkpoint takes a snapshot and compares it with the snapshot of the checkpoint before, which
//! is held until then. A segment with the same node has not changed. Of a changed segment, only
//! blocks with other bytes are written, or only lines of a block of which few lines have changed.
//! So a writer marks nothing when it changes a row, and no worker ever waits for a checkpoint; the
//! cost for the workers is that of any snapshot. The thread that takes the checkpoint coordinates;
//! the checkpoint stores are written in parallel, each by a thread on the node of its tablespace.
//!
//! - `CHECKPOINT-1`: before a checkpoint counts, everything that its snapshot shows is durable in
//!   the logs, and everything that it has written is durable in the checkpoint stores.
//! - `CHECKPOINT-2`: recovery needs a log from the position where it ended before the cut, or from
//!   the first piece of a transaction that was open then. Of the blocks from there on, those of
//!   epochs up to the cut's are in the snapshot, and those of later epochs are not.
//! - `CHECKPOINT-3`: the last two checkpoints are kept, with the logs from the start of the older
//!   one on, and all log files that could not be archived.
//! - `CHECKPOINT-4`: after a failed write, the control file contains either the state before or the
//!   new one. Recovery works with both, because nothing that either needs has been released.
//!   Nothing else is written until the control file has been: another checkpoint would overwrite
//!   blocks of the older one.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};

use atoll_log::archive::Archive;
use atoll_log::checkpoint_store::step::StepBytes;
use atoll_log::checkpoint_store::{
    self, BLOCK_BYTES, Changed, CheckpointStore, FileRef, Map, TableMap, Waiting,
};
use atoll_log::control::{CHECKPOINTS_KEPT, Checkpoint, CheckpointPart, Control, ControlFile};
use atoll_log::{LogError, Logs, Planted};
use atoll_machine::affinity::pin_current_thread;
use atoll_machine::medium::Locked;
use atoll_machine::{Machine, Native};
use atoll_storage::TableSerial;
use atoll_txn::describe;

use super::CheckpointReport;
use super::segment_writer::{self, Before};
use crate::core::Core;
use crate::error::Result;
use crate::restore_point::now_us;
use crate::snapshot::Snapshot;
use crate::snapshot_table::SnapshotTable;

/// Log files that are kept for recycling, beside those for the bytes after which the next
/// checkpoint is taken.
const SPARE_FILES: u64 = 4;
/// The steps behind a map may take this share of the checkpoint store,
const STEP_SHARE: u64 = 16;
/// and this much in any case.
const STEP_BYTES_MIN: u64 = 1 << 20;

/// Takes the checkpoints of a database, one at a time.
pub(crate) struct Checkpointer {
    pub(super) logs: Arc<Logs>,
    pub(super) stores: Vec<CheckpointStore>,
    pub(super) file: Arc<Mutex<ControlFile>>,
    pub(super) control: Control,
    /// The snapshot of the last checkpoint; `None` after memory was short.
    pub(super) baseline: Option<Snapshot>,
    /// The maps of the checkpoints that are kept, the newest first, by tablespace.
    pub(super) maps: Vec<Vec<Map>>,
    /// Log files that are kept for recycling, counted from the position at which the log is needed.
    pub(super) spare_files: u64,
    /// The files of the newest checkpoint, by tablespace.
    pub(super) chains: Vec<Chain>,
    /// Released when the database has been closed.
    pub(super) locked: Option<Box<dyn Locked>>,
    /// The archive of the logs.
    pub(super) archive: Option<Archive>,
    /// The error of the last attempt to archive the logs, if it failed.
    pub(super) not_archived: Option<LogError>,
    /// The control file may still have its old contents (`CHECKPOINT-4`).
    pub(super) is_unwritten: bool,
}

/// The files of the newest checkpoint of a tablespace: a map, and the steps behind it.
#[derive(Default)]
pub(crate) struct Chain {
    /// Number of the checkpoint that has the map.
    base: u64,
    /// The last file of the chain.
    file: FileRef,
    /// The number of steps so far.
    steps: u64,
    steps_max: u64,
    /// The bytes of the steps so far.
    step_bytes: u64,
    /// Most bytes of steps before a new map is written.
    most: u64,
    waiting: Waiting,
}

impl Chain {
    pub(super) fn new(steps_max: u64) -> Self {
        Self { steps_max, ..Self::default() }
    }

    /// Whether another step may follow: recovery reads all of them.
    fn may_grow(&self) -> bool {
        self.steps < self.steps_max && self.step_bytes < self.most
    }

    fn note(
        &mut self,
        number: u64,
        Written { map, file, changed, gone, is_step, .. }: &mut Written,
    ) {
        let file = *file;
        self.file = file;
        if *is_step {
            self.steps += 1;
            self.step_bytes += file.bytes;
            checkpoint_store::writer::apply(&mut self.waiting, std::mem::take(changed));
            self.waiting.retain(|(table, _), _| !gone.contains(table));
        } else {
            let bytes = map.blocks().count() * BLOCK_BYTES;
            let most = (bytes as u64 / STEP_SHARE).max(STEP_BYTES_MIN);
            *self = Self { base: number, file, most, ..Self::new(self.steps_max) };
        }
    }
}

/// Whether a checkpoint may be written as a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// As a step or as a map.
    Any,
    /// As a map, so that everything is in blocks.
    Map,
}

/// The part of one tablespace in a checkpoint that is being written.
struct Writing<'w> {
    tablespace: usize,
    snapshot: &'w Snapshot,
    is_step: bool,
    /// Another part could not be written, so the checkpoint has failed.
    is_given_up: &'w AtomicBool,
}

/// A part that was written: its map, its file, and the changes to the lines that wait in steps.
struct Written {
    map: Map,
    file: FileRef,
    changed: Changed,
    /// The serial numbers of the tables that were dropped since the checkpoint before.
    gone: Vec<u64>,
    is_step: bool,
    report: CheckpointReport,
}

/// The growth of the logs and the time since the last checkpoint, from which the flusher decides
/// when to take the next one.
pub(crate) struct Progress {
    /// The sum of the positions where the logs ended before the cut of the last checkpoint.
    checkpointed: AtomicU64,
    /// The time when the last checkpoint ended, or the database was opened.
    ended_ns: AtomicU64,
    /// Checkpoints since the database was opened.
    taken: AtomicU64,
}

impl Progress {
    pub(super) fn new(control: &Control) -> Self {
        let newest = control.checkpoints.first();
        let starts = newest.map_or(0, |one| one.parts.iter().map(|part| part.start).sum());
        let (ended_ns, taken) = (AtomicU64::new(Native::now_ns()), AtomicU64::new(0));
        Self { checkpointed: AtomicU64::new(starts), ended_ns, taken }
    }

    /// Records that a checkpoint has ended; the logs ended at `end`, in total, before its cut.
    pub(super) fn reset(&self, end: u64) {
        self.checkpointed.store(end, Ordering::Relaxed);
        self.ended_ns.store(Native::now_ns(), Ordering::Relaxed);
        self.taken.fetch_add(1, Ordering::Relaxed);
    }

    /// The time since the last checkpoint ended, or the database was opened.
    pub(super) fn elapsed(&self) -> Duration {
        let ended_ns = self.ended_ns.load(Ordering::Relaxed);
        Duration::from_nanos(Native::now_ns().saturating_sub(ended_ns))
    }

    /// Number of checkpoints since the database was opened.
    pub(super) fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// Bytes of the logs since the last checkpoint.
    pub(super) fn log_bytes(&self, logs: &Logs) -> u64 {
        end(logs).saturating_sub(self.checkpointed.load(Ordering::Relaxed))
    }
}

/// The log files that fill up between the start of the older checkpoint and the end of the next
/// one; that many are recycled instead of made. Bounded for a database without a practical limit on
/// log bytes.
pub(super) fn spare_files(checkpoint_log_bytes: u64, file_bytes: u64) -> u64 {
    const MOST: u64 = 256;
    (checkpoint_log_bytes / file_bytes).saturating_mul(2).min(MOST) + SPARE_FILES
}

/// The sum of the positions where the logs end.
pub(super) fn end(logs: &Logs) -> u64 {
    logs.logs().iter().map(|log| log.tail_lsn()).sum()
}

fn lock(file: &Mutex<ControlFile>) -> MutexGuard<'_, ControlFile> {
    file.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Checkpointer {
    pub(crate) fn logs(&self) -> Arc<Logs> {
        Arc::clone(&self.logs)
    }

    /// Takes a checkpoint.
    ///
    /// # Errors
    /// [`crate::Error::Log`] and those of [`crate::Database::snapshot`]; the checkpoint before
    /// stays valid then.
    pub(super) fn take(&mut self, core: &Arc<Core>, form: Form) -> Result<CheckpointReport> {
        if self.locked.is_none() {
            return Err(LogError::Closed.into());
        }
        self.logs.begin()?;
        self.write_control()?; // If the checkpoint before could not.
        core.check_spill()?;
        let begin = Instant::now();
        let starts = self.logs.starts(); // before the cut: CHECKPOINT-2
        let ends = self.logs.ends();
        let snapshot = Snapshot::take(core, &[], String::new(), true)?;
        let horizon = self.logs.clock();
        self.logs.settle(horizon)?; // CHECKPOINT-1
        let number = self.control.checkpoints.first().map_or(0, |last| last.number) + 1;
        let written = self.write_stores(core, &snapshot, form, number)?;
        let mut report = CheckpointReport { number, ..CheckpointReport::default() };
        written.iter().for_each(|store| report.add(&store.report));
        let parts = starts.iter().zip(&self.chains).zip(&written).map(|((start, chain), store)| {
            let base = if store.is_step { chain.base } else { number };
            CheckpointPart { start: *start, base, file: store.file }
        });
        let parts = parts.collect();
        core.check_spill()?; // The snapshot may have been read from there.
        let mut control = self.control.clone();
        control.horizon = horizon;
        let incarnation = control.incarnation;
        let is_wrong = self.logs.options().planted == Planted::EpochTooMany;
        let epoch = snapshot.epoch() + u64::from(is_wrong);
        let next_serial = snapshot.shared().next_serial()?.0;
        let checkpoint = Checkpoint { number, epoch, incarnation, next_serial, parts };
        control.checkpoints.insert(0, checkpoint);
        control.checkpoints.truncate(CHECKPOINTS_KEPT);
        (self.control, self.is_unwritten) = (control, true);
        let mut maps = Vec::with_capacity(written.len());
        for (chain, mut store) in self.chains.iter_mut().zip(written) {
            chain.note(number, &mut store);
            maps.push(store.map);
        }
        self.maps.insert(0, maps);
        self.maps.truncate(CHECKPOINTS_KEPT);
        self.baseline = Some(snapshot);
        self.write_control()?;
        report.archived_bytes = self.archive_to(&ends); // settled above: ARCHIVE-1
        report.has_leftovers = self.release().is_err();
        report.seconds = begin.elapsed().as_secs_f64();
        Ok(report)
    }

    /// Writes the control file if its last write has failed or is due.
    fn write_control(&mut self) -> std::result::Result<(), LogError> {
        if self.is_unwritten {
            lock(&self.file).write(&mut self.control)?;
            self.is_unwritten = false;
        }
        Ok(())
    }

    /// Archives the logs up to these positions, which are at or below the durable horizon; returns
    /// the bytes copied. A failure is recorded, and the log files are kept until a later attempt
    /// succeeds.
    pub(super) fn archive_to(&mut self, ends: &[u64]) -> u64 {
        let Some(archive) = &mut self.archive else { return 0 };
        let (mut copied, mut failed) = (0, None);
        for ((number, store), end) in self.stores.iter().enumerate().zip(ends) {
            match archive.add(number, &**store.medium(), *end) {
                Ok(bytes) => copied += bytes,
                Err(error) => failed = Some(error),
            }
        }
        self.not_archived = failed.map(|error| LogError::NotArchived { cause: Box::new(error) });
        copied
    }

    /// Releases the log files and blocks that no kept checkpoint needs (`CHECKPOINT-3`).
    fn release(&self) -> std::result::Result<(), LogError> {
        let kept = &self.control.checkpoints;
        let mut done = Ok(());
        if self.not_archived.is_none() // ARCHIVE-2
            && kept.len() == CHECKPOINTS_KEPT
            && let Some(oldest) = kept.last()
        {
            let starts: Vec<u64> = oldest.parts.iter().map(|part| part.start).collect();
            done = self.logs.release(&starts, self.spare_files);
        }
        for (tablespace, store) in self.stores.iter().enumerate() {
            let chain = |one: &Checkpoint| (one.number, one.parts[tablespace].base);
            done = done.and(store.keep(&kept.iter().map(chain).collect::<Vec<_>>()));
        }
        done
    }

    /// Writes the parts of all tablespaces in parallel, each on its node.
    fn write_stores(
        &self,
        core: &Core,
        snapshot: &Snapshot,
        form: Form,
        checkpoint: u64,
    ) -> Result<Vec<Written>> {
        let is_given_up = &AtomicBool::new(false);
        let write = |tablespace: usize| {
            let is_step =
                form == Form::Any && self.baseline.is_some() && self.chains[tablespace].may_grow();
            let writing = Writing { tablespace, snapshot, is_step, is_given_up };
            let written = self.write_store(&writing, checkpoint);
            is_given_up.fetch_or(written.is_err(), Ordering::Relaxed);
            written
        };
        let write_there = |tablespace: usize| {
            let working = core.topology.nodes.iter().filter(|node| !node.cpus.is_empty());
            let node = working.cycle().nth(tablespace);
            // If the thread may not run on the node, it writes from another one.
            let _ = node.map(|node| pin_current_thread(&node.cpus));
            write(tablespace)
        };
        if self.stores.len() == 1 || self.logs.options().in_turns {
            let written = (0..self.stores.len()).map(write);
            return written.filter_map(Result::transpose).collect();
        }
        std::thread::scope(|scope| {
            let writers: Vec<_> = (0..self.stores.len())
                .map(|tablespace| {
                    let thread = Builder::new().name(format!("atoll-home-{tablespace}"));
                    thread.spawn_scoped(scope, move || write_there(tablespace)).ok()
                })
                .collect();
            let written =
                writers.into_iter().enumerate().map(|(tablespace, writer)| match writer {
                    Some(writer) => writer.join().expect("no panic in a thread"),
                    None => write(tablespace), // The system has no thread left.
                });
            // Waits for all threads, so that none is writing when this returns.
            let written: Vec<_> = written.collect();
            written.into_iter().filter_map(Result::transpose).collect()
        })
    }

    /// Writes the part of one tablespace; `None` when another part has failed.
    fn write_store(&self, writing: &Writing<'_>, checkpoint: u64) -> Result<Option<Written>> {
        let mut report = CheckpointReport::default();
        let Writing { tablespace, snapshot, is_step, is_given_up } = *writing;
        let kept: Vec<&Map> = self.maps.iter().map(|maps| &maps[tablespace]).collect();
        let (store, chain) = (&self.stores[tablespace], &self.chains[tablespace]);
        let mut writer = store.writer(&kept, &chain.waiting, is_step);
        let known = kept.first().copied();
        let (mut map, mut steps) = (Map::default(), Vec::new());
        for table in snapshot.own_tables() {
            let serial = table.serial();
            let options = describe::decode_options(table.encoded_options(), table.schema());
            let options = options.expect("the engine has encoded them");
            if options.tablespace != Some(tablespace as u32) {
                continue;
            }
            let description = describe::encode(serial, table.name(), table.schema(), &options);
            let before = self.before(known, serial);
            let mut segments = Vec::with_capacity(table.segment_count());
            let mut changed = Vec::new();
            for number in 0..table.segment_count() {
                if is_given_up.load(Ordering::Relaxed) {
                    return Ok(None);
                }
                let now = table.segment(number)?;
                let before = before.as_ref().and_then(|(old, map)| {
                    let known = map.segments.get(number)?;
                    Some((old.segment(number).ok()?, known))
                });
                writer.begin_segment((serial.0, number as u32));
                report.segments += 1;
                let before_it =
                    before.as_ref().map(|(segment, map)| Before { segment, map: map.as_ref() });
                let columns = table.schema().columns();
                if let (Some((_, known)), Some(same)) = (&before, before_it)
                    // Segments get columns before the table has them.
                    && known.columns.len() == columns.len()
                    && segment_writer::is_same(&now, same)
                    && writer.may_stay(None)
                {
                    segments.push(Arc::clone(known));
                    continue;
                }
                report.segments_changed += 1;
                let written = segment_writer::write(&mut writer, columns, &now, before_it)?;
                let old = before.map(|(_, known)| Arc::clone(known));
                changed.push((number as u32, old, writer.take_lines()));
                segments.push(Arc::new(written));
            }
            let is_new = before.is_none_or(|(_, map)| {
                map.segments.len() != segments.len() || map.description != description
            });
            if is_new || !changed.is_empty() {
                steps.push((map.tables.len(), changed));
            }
            map.tables.push(TableMap { serial: serial.0, description, segments });
        }
        let (bytes, changed) = writer.finish()?;
        report.bytes += bytes;
        let now: HashSet<u64> = map.tables.iter().map(|table| table.serial).collect();
        let known = known.into_iter().flat_map(|known| &known.tables).map(|table| table.serial);
        let gone: Vec<u64> = known.filter(|serial| !now.contains(serial)).collect();
        let file = if is_step {
            let mut step = StepBytes::new(chain.file, steps.len() + gone.len());
            gone.iter().for_each(|serial| step.dropped(*serial));
            for (table, segments) in &steps {
                let table = &map.tables[*table];
                step.table(table, segments.len());
                for (number, old, lines) in segments {
                    step.segment(*number, old.as_deref(), &table.segments[*number as usize], lines);
                }
            }
            store.write_step(checkpoint, &step.finish())?
        } else {
            store.write_map(checkpoint, &map)?
        };
        report.file_bytes += file.bytes;
        Ok(Some(Written { map, file, changed, gone, is_step, report }))
    }

    /// The table in the snapshot of the checkpoint before, and its map.
    fn before<'m>(
        &self,
        known: Option<&'m Map>,
        serial: TableSerial,
    ) -> Option<(SnapshotTable, &'m TableMap)> {
        let baseline = self.baseline.as_ref()?;
        let map = known?.tables.iter().find(|one| one.serial == serial.0)?;
        Some((baseline.own_tables().find(|one| one.serial() == serial)?, map))
    }

    /// Records in the control file that the database is closed: the logs contain everything, and
    /// end here.
    pub(super) fn close(&mut self) -> std::result::Result<(), LogError> {
        if self.locked.is_none() {
            return Ok(());
        }
        if self.logs.has_unmarked() {
            // A log that accepts no mark cannot be closed either, and closing returns its error.
            let _ = self.logs.mark(now_us);
        }
        if !self.logs.close()? {
            (self.locked, self.archive) = (None, None); // The incarnation never began.
            return Ok(());
        }
        let mut control = self.control.clone();
        let ends: Vec<u64> = self.logs.logs().iter().map(|log| log.durable_lsn()).collect();
        control.ends = Some(ends.clone());
        lock(&self.file).write(&mut control)?;
        self.control = control;
        self.archive_to(&ends);
        (self.locked, self.archive) = (None, None);
        self.not_archived.clone().map_or(Ok(()), Err)
    }
}
