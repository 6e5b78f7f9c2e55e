//! Checkpoints: writing what has changed home, so that the logs can be short.
//!
//! A checkpoint is a snapshot that is compared with that of the checkpoint before, which is held
//! until then: a segment whose node is the same has not changed, and of one that has, what has the
//! same bytes is not written again: blocks, and lines of blocks of which few have changed. So
//! nobody marks anything when a row changes, and no worker ever waits for a checkpoint; what it
//! costs them is what any snapshot costs. Whoever takes it leads: the homes are written beside each
//! other, each by a thread on the node of its tablespace.
//!
//! - `CHECKPOINT-1`: before it counts, everything that its snapshot shows is durable in the logs,
//!   and what it has written is durable at home.
//! - `CHECKPOINT-2`: a log is needed from the position where it ended before the cut, or from the
//!   first piece of a transaction that was open then. Blocks behind it of epochs up to the cut's
//!   are in the snapshot, and later ones are not.
//! - `CHECKPOINT-3`: the last two are kept, with the logs from the older one on; and all files of
//!   the logs that could not be archived.
//! - `CHECKPOINT-4`: when the control file could not be written, it says what it said before or
//!   already this, and both can be opened, since nothing has been let go of. Until it has been
//!   written nothing else is: another checkpoint would lie where that before had its blocks.

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
use atoll_storage::TableId;
use atoll_txn::describe;

use super::CheckpointReport;
use super::segment_writer::{self, Before};
use crate::core::Core;
use crate::error::Result;
use crate::restore_point::now_us;
use crate::snapshot::Snapshot;
use crate::snapshot_table::SnapshotTable;

/// Files of a log that are kept to be used again, beside those of the bytes after which the next
/// checkpoint is taken.
const SPARE_FILES: u64 = 4;
/// Share of the home that the steps behind a map may take, and what they may take in any case.
const STEP_SHARE: u64 = 16;
const STEP_BYTES_MIN: u64 = 1 << 20;

/// Takes the checkpoints of a database, one at a time.
pub(crate) struct Checkpointer {
    pub(super) logs: Arc<Logs>,
    pub(super) stores: Vec<CheckpointStore>,
    pub(super) file: Arc<Mutex<ControlFile>>,
    pub(super) control: Control,
    /// What the last checkpoint showed; gone when memory was short.
    pub(super) baseline: Option<Snapshot>,
    /// The maps of the checkpoints that are kept, the newest first, by tablespace.
    pub(super) maps: Vec<Vec<Map>>,
    /// Files of a log, from where it is needed on, that are kept to be used again.
    pub(super) spare_files: u64,
    /// The files of the newest checkpoint, by tablespace.
    pub(super) chains: Vec<Chain>,
    /// Goes when the database has been closed.
    pub(super) locked: Option<Box<dyn Locked>>,
    /// Where the logs are archived.
    pub(super) archive: Option<Archive>,
    /// Why the logs could not be archived when that was last tried.
    pub(super) not_archived: Option<LogError>,
    /// The control file may say what it said before (`CHECKPOINT-4`).
    pub(super) is_unwritten: bool,
}

/// The files of the newest checkpoint of a tablespace: a map, and the steps behind it.
#[derive(Default)]
pub(crate) struct Chain {
    /// Number of the checkpoint that has the map.
    base: u64,
    /// The last one.
    file: FileRef,
    /// Steps so far, how many there may be, and their bytes.
    steps: u64,
    steps_max: u64,
    step_bytes: u64,
    /// The most bytes of steps that the map is worth.
    most: u64,
    waiting: Waiting,
}

impl Chain {
    pub(super) fn new(steps_max: u64) -> Self {
        Self { steps_max, ..Self::default() }
    }

    /// Whether another step may follow: they are all read when the database is opened.
    fn may_grow(&self) -> bool {
        self.steps < self.steps_max && self.step_bytes < self.most
    }

    fn note(&mut self, (number, map): (u64, &Map), file: FileRef, changed: Changed, is_step: bool) {
        self.file = file;
        if is_step {
            self.steps += 1;
            self.step_bytes += file.bytes;
            checkpoint_store::writer::apply(&mut self.waiting, changed);
        } else {
            let bytes = map.blocks().count() * BLOCK_BYTES;
            let most = (bytes as u64 / STEP_SHARE).max(STEP_BYTES_MIN);
            *self = Self { base: number, file, most, ..Self::new(self.steps_max) };
        }
    }
}

/// How a checkpoint is to say what it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// By a map, or by what is different.
    Any,
    /// By a map, so that everything is in blocks.
    Map,
}

/// A tablespace's part of a checkpoint that is being written.
struct Writing<'w> {
    core: &'w Core,
    tablespace: usize,
    snapshot: &'w Snapshot,
    is_step: bool,
    /// Another one could not be written, so this one is for nothing.
    is_given_up: &'w AtomicBool,
}

/// What it holds then, the file that says so, and what that means for lines that wait.
struct Written {
    map: Map,
    file: FileRef,
    changed: Changed,
    is_step: bool,
    report: CheckpointReport,
}

/// How far the logs and the time have come since the last checkpoint, for whoever decides on the
/// next.
pub(crate) struct Progress {
    /// Where the logs ended before its cut, added up.
    checkpointed: AtomicU64,
    /// When it ended, or the database was opened.
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

    /// A checkpoint has ended, before whose cut the logs ended at `end`.
    pub(super) fn reset(&self, end: u64) {
        self.checkpointed.store(end, Ordering::Relaxed);
        self.ended_ns.store(Native::now_ns(), Ordering::Relaxed);
        self.taken.fetch_add(1, Ordering::Relaxed);
    }

    /// How long ago the last checkpoint ended, or the database was opened.
    pub(super) fn elapsed(&self) -> Duration {
        let ended_ns = self.ended_ns.load(Ordering::Relaxed);
        Duration::from_nanos(Native::now_ns().saturating_sub(ended_ns))
    }

    /// Checkpoints since the database was opened.
    pub(super) fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// Bytes of the logs since the last checkpoint.
    pub(super) fn log_bytes(&self, logs: &Logs) -> u64 {
        end(logs).saturating_sub(self.checkpointed.load(Ordering::Relaxed))
    }
}

/// Files that a log fills between where the older checkpoint needs it and when the next one is
/// done, so that none has to be made. Not for a bound that is none.
pub(super) fn spare_files(checkpoint_log_bytes: u64, file_bytes: u64) -> u64 {
    const MOST: u64 = 256;
    (checkpoint_log_bytes / file_bytes).saturating_mul(2).min(MOST) + SPARE_FILES
}

/// Where the logs end, added up.
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
    /// counts then.
    pub(super) fn take(&mut self, core: &Arc<Core>, form: Form) -> Result<CheckpointReport> {
        if self.locked.is_none() {
            return Err(LogError::Closed.into());
        }
        self.logs.begin()?;
        self.write_control()?; // What the last one has left undone.
        core.check_spill()?;
        let begin = Instant::now();
        let starts = self.logs.starts(); // before the cut: CHECKPOINT-2
        let ends = self.logs.ends();
        let snapshot = Snapshot::take(core, &[], String::new(), true)?;
        // Whoever is making a table that the snapshot shows has made it when this returns.
        core.engine.all_tables();
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
        core.check_spill()?; // What was written may have come from there.
        let mut control = self.control.clone();
        control.horizon = horizon;
        let incarnation = control.incarnation;
        let is_wrong = self.logs.options().planted == Planted::EpochTooMany;
        let epoch = snapshot.epoch() + u64::from(is_wrong);
        control.checkpoints.insert(0, Checkpoint { number, epoch, incarnation, parts });
        control.checkpoints.truncate(CHECKPOINTS_KEPT);
        (self.control, self.is_unwritten) = (control, true);
        let mut maps = Vec::with_capacity(written.len());
        for (chain, store) in self.chains.iter_mut().zip(written) {
            chain.note((number, &store.map), store.file, store.changed, store.is_step);
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

    /// Has the control file say what is known here, if it may not do so yet.
    fn write_control(&mut self) -> std::result::Result<(), LogError> {
        if self.is_unwritten {
            lock(&self.file).write(&mut self.control)?;
            self.is_unwritten = false;
        }
        Ok(())
    }

    /// Archives the logs up to these positions, where everything is at or below the horizon;
    /// returns the bytes copied. A failure is kept, and the logs with it, until it is tried again.
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

    /// Lets go of what no kept checkpoint needs (`CHECKPOINT-3`).
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

    /// Writes the parts of all tablespaces beside each other, each on the node that it is of.
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
            let writing = Writing { core, tablespace, snapshot, is_step, is_given_up };
            let written = self.write_store(&writing, checkpoint);
            is_given_up.fetch_or(written.is_err(), Ordering::Relaxed);
            written
        };
        let write_there = |tablespace: usize| {
            let working = core.topology.nodes.iter().filter(|node| !node.cpus.is_empty());
            let node = working.cycle().nth(tablespace);
            // Who may not run there writes from elsewhere.
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
                    None => write(tablespace), // There are no threads left.
                });
            // All of them, so that none is writing when this ends.
            let written: Vec<_> = written.collect();
            written.into_iter().filter_map(Result::transpose).collect()
        })
    }

    /// Writes a tablespace's part of a checkpoint; `None` when it was given up.
    fn write_store(&self, writing: &Writing<'_>, checkpoint: u64) -> Result<Option<Written>> {
        let mut report = CheckpointReport::default();
        let Writing { core, tablespace, snapshot, is_step, is_given_up } = *writing;
        let kept: Vec<&Map> = self.maps.iter().map(|maps| &maps[tablespace]).collect();
        let (store, chain) = (&self.stores[tablespace], &self.chains[tablespace]);
        let mut writer = store.writer(&kept, &chain.waiting, is_step);
        let known = kept.first().copied();
        let (mut map, mut steps) = (Map::default(), Vec::new());
        for table in snapshot.own_tables() {
            let options = core.engine.table_options(table.id());
            if options.tablespace.unwrap_or(0) as usize != tablespace {
                continue;
            }
            let id = table.id().0;
            let description = describe::encode(id, table.name(), table.schema(), &options);
            let before = self.before(known, table.id());
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
                writer.begin_segment((id, number as u32));
                report.segments += 1;
                let before_it =
                    before.as_ref().map(|(segment, map)| Before { segment, map: map.as_ref() });
                if let (Some((_, known)), Some(same)) = (&before, before_it)
                    && segment_writer::is_same(&now, same)
                    && writer.may_stay(None)
                {
                    segments.push(Arc::clone(known));
                    continue;
                }
                report.segments_changed += 1;
                let columns = table.schema().columns();
                let written = segment_writer::write(&mut writer, columns, &now, before_it)?;
                let old = before.map(|(_, known)| Arc::clone(known));
                changed.push((number as u32, old, writer.take_lines()));
                segments.push(Arc::new(written));
            }
            let is_new = before.is_none_or(|(_, map)| map.segments.len() != segments.len());
            if is_new || !changed.is_empty() {
                steps.push((map.tables.len(), changed));
            }
            map.tables.push(TableMap { id, description, segments });
        }
        let (bytes, changed) = writer.finish()?;
        report.bytes += bytes;
        let file = if is_step {
            let mut step = StepBytes::new(chain.file, steps.len());
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
        Ok(Some(Written { map, file, changed, is_step, report }))
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
        if self.logs.has_unmarked() {
            // A log that takes no mark cannot be closed either, and says why.
            let _ = self.logs.mark(now_us);
        }
        if !self.logs.close()? {
            (self.locked, self.archive) = (None, None); // Nothing has been written.
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
