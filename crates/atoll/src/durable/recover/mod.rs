//! Redo: applies the commits that the logs hold behind a checkpoint.
//!
//! The logs are read in parallel, each once. A transaction is applied when it is known to be at or
//! below the durable horizon, which later blocks record (`BLOCK-5`); the last few transactions wait
//! until all logs have been read and the horizon at the crash is known. All changes of a table are
//! in one log, in the order in which they happened, so one log does not wait for another, except
//! until a table has been created.
//!
//! The thread that reads a log applies nothing: it passes the commits in batches to a few applier
//! threads (`apply`).
//!
//! - `RECOVER-1`: recovery applies exactly the transactions with a GSN up to the durable horizon.
//! - `RECOVER-2`: the log behind the horizon is cut off before the database writes anything.
//! - `RECOVER-3`: the definitions of tables are carried out in the order of the first log. A table
//!   that is dropped at or below the horizon is gone in the end, so whichever thread comes first,
//!   its other changes may be applied or not. An applier that is inside the gate has found there
//!   that no drop of the table has begun (`DROP-2` of the storage). A serial number is never given
//!   twice, so no change of the table is taken for one of its successor in the slot.

mod apply;
mod batch;

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use atoll_log::block::{self, Header, IdleWatermark, Kind};
use atoll_log::control::{Checkpoint, Control};
use atoll_log::files::place_of;
use atoll_log::log::Start;
use atoll_log::scan::Scan;
use atoll_log::{LogError, Planted};
use atoll_machine::{Medium, Native};
use atoll_storage::{Table, TableId, TableSerial, redo};
use atoll_txn::describe::{self, Description};

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::progress::OpenPart;
use apply::Applier;
use batch::{Batch, PendingBlock};

/// Batches that may wait for an applier.
const BATCHES: usize = 16;
/// Bytes of a transaction's pieces that are passed on together.
const JOINED_BYTES: usize = 4 << 20;
/// Bytes that a thread reads between two reports of its progress.
const REPORT_BYTES: u64 = 1 << 20;

/// What the logs contain.
pub(super) struct Found {
    /// The positions at which the logs go on.
    pub(super) starts: Vec<Start>,
    /// Greatest incarnation of a block.
    pub(super) incarnation: u32,
    pub(super) log_bytes: u64,
    pub(super) redone: u64,
    pub(super) dropped: u64,
}

/// State that the threads which read the logs share.
struct Common<'e> {
    engine: &'e Engine,
    tablespaces: usize,
    checkpoint: Option<&'e Checkpoint>,
    /// The greatest horizon that any block read so far records.
    horizon: AtomicU64,
    tables: Mutex<Tables>,
    changed: Condvar,
    failed: AtomicBool,
    /// Serializes the adding of segments.
    adding: Mutex<()>,
    progress: &'e OpenPart,
    /// The media of the logs.
    media: &'e [Arc<dyn Medium>],
    /// The size of a log file.
    file_bytes: u64,
    planted: Planted,
}

/// The tables, which the first log describes in the order of their serial numbers.
struct Tables {
    /// `None` for those that have been dropped.
    known: HashMap<TableSerial, Option<KnownTable>>,
    /// Definitions that were read and are not yet known to be at or below the horizon.
    pending: VecDeque<PendingBlock>,
    /// Whether the first log may still describe further tables.
    reading: bool,
    /// The latest table of each slot, for [`Planted::SuccessorInSlot`].
    slots: HashMap<TableId, TableSerial>,
}

/// A table, and its tablespace.
type KnownTable = (Arc<Table<Native>>, Option<u32>);

/// A log and what has been read of it.
struct Read {
    scan: Scan,
    begun: u64,
    held: VecDeque<PendingBlock>,
    pieces: HashMap<(u32, u64), Vec<u64>>,
    /// The definitions of transactions of which the commits have not been read.
    definitions: HashMap<(u32, u64), Vec<PendingBlock>>,
    idle: Vec<(u32, IdleWatermark)>,
    last_gsn: u64,
    redone: u64,
    /// Commits to be sent to the appliers.
    batch: Batch,
    appliers: Vec<SyncSender<Arc<Batch>>>,
}

impl Read {
    /// Sends the batch to all appliers. After the appliers have been released the batch is kept:
    /// the caller of [`replay`], which then knows the horizon at the crash, applies the rest.
    fn send(&mut self) {
        if self.batch.is_empty() || self.appliers.is_empty() {
            return;
        }
        let batch = Arc::new(std::mem::take(&mut self.batch));
        for applier in &self.appliers {
            // An applier that is gone has failed, and returns its error.
            let _ = applier.send(Arc::clone(&batch));
        }
    }
}

/// Reads the logs and applies every commit at or below the durable horizon, which is at least that
/// of the control file.
pub(super) fn replay(
    engine: &Engine,
    control: &Control,
    (scans, media): (Vec<Scan>, &[Arc<dyn Medium>]),
    (threads, planted): (usize, Planted),
    progress: &OpenPart,
) -> Result<Found> {
    let known = |table: Arc<Table<Native>>| {
        let tablespace = engine.table_options(&table).tablespace;
        (table.serial(), Some((table, tablespace)))
    };
    let known: HashMap<_, _> = engine.all_tables().into_iter().map(known).collect();
    let slots = if planted == Planted::SuccessorInSlot {
        known.values().flatten().map(|(table, _)| (table.id(), table.serial())).collect()
    } else {
        HashMap::new()
    };
    let common = Common {
        engine,
        tablespaces: control.tablespaces,
        checkpoint: control.checkpoints.first(),
        horizon: AtomicU64::new(control.horizon),
        tables: Mutex::new(Tables { known, pending: VecDeque::new(), reading: true, slots }),
        changed: Condvar::new(),
        failed: AtomicBool::new(false),
        adding: Mutex::default(),
        progress,
        media,
        file_bytes: control.file_bytes,
        planted,
    };
    let parts = (threads / scans.len().max(1)).max(1) as u64;
    let mut reads = std::thread::scope(|scope| {
        let common = &common;
        let threads: Vec<_> = scans
            .into_iter()
            .enumerate()
            .map(|(number, scan)| {
                let (senders, appliers): (Vec<_>, Vec<_>) = (0..parts)
                    .map(|part| {
                        let (sender, receiver) = sync_channel(BATCHES);
                        let body = move || common.apply_all(&receiver, number, (part, parts));
                        (sender, scope.spawn(body))
                    })
                    .unzip();
                scope.spawn(move || {
                    let read = common.read(scan, senders);
                    if number == 0 || read.is_err() {
                        common.failed.fetch_or(read.is_err(), Ordering::Relaxed);
                        common.lock().reading = false;
                        common.changed.notify_all();
                    }
                    let applied = appliers
                        .into_iter()
                        .map(|applier| applier.join().expect("no panic in a thread"));
                    // The error of an applier comes before that of the reader, which may only
                    // follow from it.
                    applied.collect::<Result<Vec<()>>>().and(read)
                })
            })
            .collect();
        let joined = threads.into_iter().map(|thread| thread.join().expect("no panic in a thread"));
        joined.collect::<Result<Vec<Read>>>()
    })?;
    // The horizon is recorded in the logs, or was known before.
    let horizon = durable_horizon(&reads, control)?.max(common.horizon.load(Ordering::Relaxed));
    // Greater than the GSN of every block that is kept or cut off.
    let gsn = reads.iter().map(|read| read.last_gsn).max().unwrap_or(0).max(horizon);
    let mut found =
        Found { starts: Vec::new(), incarnation: 0, log_bytes: 0, redone: 0, dropped: 0 };
    common.define(horizon)?;
    let mut applier = Applier::last(engine)?;
    for (number, read) in reads.iter_mut().enumerate() {
        common.pass_on_held(read, horizon)?;
        common.apply(&mut applier, &std::mem::take(&mut read.batch))?;
        let mut lsn = read.held.front().map_or(read.scan.at(), |first| first.header.lsn);
        // Of those of a transaction, the commit is held, too.
        if let (0, Some(table)) = (number, common.lock().pending.front())
            && table.header.transaction == 0
        {
            lsn = lsn.min(table.header.lsn);
        }
        read.scan.sync()?;
        let commits = read.held.iter().filter(|held| held.header.kind == Kind::Commit);
        found.dropped += commits.count() as u64;
        found.starts.push(Start { lsn, gsn });
        found.incarnation = found.incarnation.max(read.scan.incarnation());
        found.log_bytes += read.scan.at() - read.begun;
        found.redone += read.redone;
    }
    Ok(found)
}

/// The GSN up to which all logs were durable, by their last blocks and by the idle watermarks of
/// other logs.
fn durable_horizon(reads: &[Read], control: &Control) -> Result<u64> {
    let mut gsns: Vec<u64> = reads.iter().map(|read| read.last_gsn).collect();
    for (incarnation, watermark) in reads.iter().flat_map(|read| &read.idle) {
        let number = usize::from(watermark.tablespace);
        let Some(other) = reads.get(number) else { continue };
        // What an earlier incarnation left behind its end was cut off.
        let cut = if *incarnation < control.incarnation { control.cuts[number] } else { u64::MAX };
        if other.scan.at() < watermark.lsn.min(cut) {
            let (file, offset) = other.scan.place_of(other.scan.at());
            let (until, end) = other.scan.place_of(watermark.lsn);
            let expected = format!("blocks of the log, up to byte {end} of {until}");
            let found = "its end".to_owned();
            return Err(LogError::Damaged { file, offset, expected, found }.into());
        }
        gsns[number] = gsns[number].max(watermark.gsn);
    }
    Ok(gsns.into_iter().min().unwrap_or(0))
}

impl Common<'_> {
    fn lock(&self) -> std::sync::MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self, scan: Scan, appliers: Vec<SyncSender<Arc<Batch>>>) -> Result<Read> {
        let (begun, mut counted) = (scan.at(), scan.at());
        let mut read = Read {
            scan,
            begun,
            held: VecDeque::new(),
            pieces: HashMap::new(),
            definitions: HashMap::new(),
            idle: Vec::new(),
            last_gsn: 0,
            redone: 0,
            batch: Batch::default(),
            appliers,
        };
        loop {
            // Not for each block, because updating a shared counter would take most of the threads'
            // time.
            if read.scan.at() - counted >= REPORT_BYTES {
                self.progress.add(read.scan.at() - counted);
                counted = read.scan.at();
            }
            let Some((header, payload)) = read.scan.read_next()? else {
                self.progress.add(read.scan.at() - counted);
                read.send();
                read.appliers.clear();
                return Ok(read);
            };
            read.last_gsn = header.gsn;
            self.horizon.fetch_max(header.horizon, Ordering::Relaxed);
            match header.kind {
                Kind::Commit => self.take_definitions(&mut read, &header)?,
                Kind::Table | Kind::Alter | Kind::Drop if header.transaction != 0 => {
                    let chunk = Arc::clone(read.scan.chunk());
                    let of = (header.incarnation, header.transaction);
                    read.definitions.entry(of).or_default().push(PendingBlock { header, chunk });
                    continue;
                }
                Kind::Table | Kind::Alter | Kind::Drop => {
                    let chunk = Arc::clone(read.scan.chunk());
                    self.lock().pending.push_back(PendingBlock { header, chunk });
                    self.define(self.horizon.load(Ordering::Relaxed))?;
                    self.changed.notify_all();
                    continue;
                }
                Kind::Piece => {
                    let pieces = read.pieces.entry((header.incarnation, header.transaction));
                    pieces.or_default().push(header.lsn);
                    continue;
                }
                Kind::IdleWatermark => {
                    let idle = IdleWatermark::decode_all(payload).unwrap_or_default();
                    for watermark in idle {
                        // The last watermark of each log counts.
                        read.idle.retain(|(_, known)| known.tablespace != watermark.tablespace);
                        read.idle.push((header.incarnation, watermark));
                    }
                    continue;
                }
                Kind::Open | Kind::Time => continue,
            }
            let chunk = Arc::clone(read.scan.chunk());
            read.held.push_back(PendingBlock { header, chunk });
            self.pass_on_held(&mut read, self.horizon.load(Ordering::Relaxed))?;
            if self.failed.load(Ordering::Relaxed) {
                read.appliers.clear();
                return Ok(read);
            }
        }
    }

    /// The definitions of a transaction are those of its commit.
    fn take_definitions(&self, read: &mut Read, commit: &Header) -> Result<()> {
        let of = (commit.incarnation, commit.transaction);
        let Some(definitions) = read.definitions.remove(&of) else { return Ok(()) };
        let mut tables = self.lock();
        for mut held in definitions {
            (held.header.gsn, held.header.epoch) = (commit.gsn, commit.epoch);
            tables.pending.push_back(held);
        }
        drop(tables);
        self.define(self.horizon.load(Ordering::Relaxed))?;
        self.changed.notify_all();
        Ok(())
    }

    /// Moves the held commits up to the GSN `horizon` into the batch.
    fn pass_on_held(&self, read: &mut Read, horizon: u64) -> Result<()> {
        while read.held.front().is_some_and(|held| held.header.gsn <= horizon) {
            let Some(held) = read.held.pop_front() else { return Ok(()) };
            self.pass_on(read, held)?;
            // A block that records a horizon far ahead can free many commits at once.
            if read.batch.is_full() {
                read.send();
            }
        }
        Ok(())
    }

    /// Creates and drops the tables that were created and dropped up to the GSN `horizon`.
    fn define(&self, horizon: u64) -> Result<()> {
        let mut tables = self.lock();
        while tables.pending.front().is_some_and(|next| next.header.gsn <= horizon) {
            self.define_next(&mut tables)?;
        }
        Ok(())
    }

    fn define_next(&self, tables: &mut Tables) -> Result<()> {
        let Some(held) = tables.pending.pop_front() else { return Ok(()) };
        if self.is_shown(&held.header) {
            return Ok(()); // The checkpoint contains it, or no longer contains it.
        }
        if held.header.kind == Kind::Drop {
            return self.drop_next(tables, &held);
        }
        let described = describe::decode(held.chunk.payload(&held.header));
        let described = described.ok_or_else(|| self.bad_block(&held.header, "a table"))?;
        if held.header.kind == Kind::Alter {
            return self.alter_next(tables, &held, described);
        }
        if tables.known.contains_key(&described.serial) {
            return Err(self.bad_block(&held.header, "a new table"));
        }
        if described.options.tablespace.is_none_or(|number| number as usize >= self.tablespaces) {
            return Err(self.bad_block(&held.header, "a table of a tablespace that there is"));
        }
        let tablespace = described.options.tablespace;
        let table = self.engine.restore_table(described).map_err(Error::of_op)?;
        if self.planted == Planted::SuccessorInSlot {
            let last = tables.slots.insert(table.id(), table.serial());
            if let Some(last) = last {
                tables.known.insert(last, Some((Arc::clone(&table), tablespace)));
            }
        }
        tables.known.insert(table.serial(), Some((table, tablespace)));
        Ok(())
    }

    /// Alters a table. Rows are stored as before, and columns that it gets are in its own log, so
    /// it does not matter which changes of them have been applied.
    fn alter_next(
        &self,
        tables: &Tables,
        held: &PendingBlock,
        described: Description,
    ) -> Result<()> {
        let known = tables.known.get(&described.serial).and_then(Option::as_ref);
        let known = known.filter(|(_, tablespace)| *tablespace == described.options.tablespace);
        let Some((table, _)) = known else {
            return Err(self.bad_block(&held.header, "the alteration of a table that there is"));
        };
        if table.check_restored(&described.name, &described.schema).is_err() {
            return Err(self.bad_block(&held.header, "a table with rows as they are"));
        }
        self.engine.alter_restored(table, described).map_err(Error::of_op)
    }

    /// Drops a table (`RECOVER-3`).
    fn drop_next(&self, tables: &mut Tables, held: &PendingBlock) -> Result<()> {
        let known = block::decode_drop(held.chunk.payload(&held.header));
        let known = known.and_then(|serial| tables.known.get_mut(&serial));
        let Some((table, _)) = known.and_then(Option::take) else {
            return Err(self.bad_block(&held.header, "the drop of a table that there is"));
        };
        self.engine.drop_table(&table).map_err(Error::of_op)?;
        self.engine.free_dropped();
        Ok(())
    }

    /// Whether the checkpoint shows what a block says.
    fn is_shown(&self, header: &Header) -> bool {
        let shows = |checkpoint: &Checkpoint| checkpoint.shows(header.incarnation, header.epoch);
        self.checkpoint.is_some_and(shows)
    }

    fn pass_on(&self, read: &mut Read, held: PendingBlock) -> Result<()> {
        let header = &held.header;
        let pieces = read.pieces.remove(&(header.incarnation, header.transaction));
        if self.is_shown(header) {
            return Ok(());
        }
        read.redone += 1;
        let Some(pieces) = pieces.filter(|_| header.transaction != 0) else {
            read.batch.push(held);
            return Ok(());
        };
        // The pieces are read again from the log: kept in memory, those of a transaction that never
        // commits could fill it. For the same reason they are passed on a few at a time; a change
        // may be in several pieces.
        let back = read.scan.place();
        let mut joined = Vec::new();
        for lsn in pieces {
            read.scan.go_to(lsn);
            let piece = read.scan.read_next()?;
            joined.extend_from_slice(piece.map(|(_, payload)| payload).unwrap_or_default());
            if joined.len() >= JOINED_BYTES
                && let complete @ 1.. = redo::complete_bytes(&joined)
            {
                let rest = joined.split_off(complete);
                read.batch.push_joined(held.header, std::mem::replace(&mut joined, rest));
                read.send();
            }
        }
        read.scan.go_back(back);
        joined.extend_from_slice(held.chunk.payload(header));
        read.batch.push_joined(held.header, joined);
        Ok(())
    }

    /// The error for a block with a correct checksum and a payload of no meaning.
    fn bad_block(&self, header: &Header, expected: &str) -> Error {
        let medium = &*self.media[usize::from(header.tablespace)];
        let (file, offset) = place_of(medium, self.file_bytes, header.lsn);
        let (expected, found) = (expected.to_owned(), "something else".to_owned());
        LogError::Damaged { file, offset, expected, found }.into()
    }

    /// A table, once its description has been read; `Some(None)` if the table has been dropped. A
    /// commit that changes the table has a greater GSN than its description, so the description is
    /// below the horizon too, and so are the definitions before it. Outside the gate, since it
    /// waits for the thread that drops tables.
    fn table(&self, serial: TableSerial, may_wait: bool) -> Result<Option<Option<KnownTable>>> {
        let mut tables = self.lock();
        loop {
            if let Some(known) = tables.known.get(&serial) {
                return Ok(Some(known.clone()));
            }
            if !tables.pending.is_empty() {
                self.define_next(&mut tables)?;
            } else if tables.reading && may_wait {
                let waited = self.changed.wait(tables);
                tables = waited.unwrap_or_else(PoisonError::into_inner);
            } else {
                return Ok(None);
            }
        }
    }
}
