//! The appliers: threads that store the changes of commits into the tables.
//!
//! Each applier has a part of the segments and applies the changes of its part in the order of the
//! log. So the changes of a row keep their order.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, PoisonError};

use atoll_log::block::Header;
use atoll_machine::{Hints, Machine, Native};
use atoll_memory::Member;
use atoll_storage::redo::{Changes, Kind};
use atoll_storage::{Change, SEGMENT_ROWS, StorageError, Table, TableSerial};

use super::Common;
use super::batch::Batch;
use crate::durable::load::member;
use crate::engine::Engine;
use crate::error::Result;

/// Changes that are applied in one section of the gate.
const CHANGES_IN_SECTION: usize = 64;
/// Bytes of the next commit that are prefetched while one is applied.
const AHEAD_BYTES: usize = 1 << 10;

/// The state of a thread that applies changes.
pub(super) struct Applier {
    member: Member,
    /// This applier's part, and the number of parts, among which segments are divided.
    part: (u64, u64),
    /// Whether to wait for a table that the reader of the first log may still find.
    may_wait: bool,
    /// Whether all others have ended.
    is_last: bool,
    tables: Tables,
    /// How many columns of a table changes are for, if it has got some (`REDO-1` of the storage).
    columns: HashMap<TableSerial, usize>,
    hints: Hints,
}

/// The tables that an applier has looked up; `None` for one that had been dropped. Most changes are
/// of the same table as the one before.
#[derive(Default)]
struct Tables {
    list: Vec<Option<Arc<Table<Native>>>>,
    at: HashMap<TableSerial, usize>,
    latest: Option<(TableSerial, usize)>,
}

/// With more tables than this an applier forgets them: dropped ones must not fill the memory.
const TABLES_MAX: usize = 256;

impl Tables {
    /// The position of a table in the list, if it has been looked up.
    fn find(&mut self, serial: TableSerial) -> Option<usize> {
        match self.latest {
            Some((latest, at)) if latest == serial => return Some(at),
            _ => self.latest = Some((serial, *self.at.get(&serial)?)),
        }
        self.latest.map(|(_, at)| at)
    }

    fn add(&mut self, serial: TableSerial, table: Option<Arc<Table<Native>>>) -> usize {
        let at = self.list.len();
        self.list.push(table);
        self.at.insert(serial, at);
        self.latest = Some((serial, at));
        at
    }

    /// A table to which a change may be applied. The caller is inside the gate (`RECOVER-3`).
    fn live(&self, at: usize) -> Option<&Table<Native>> {
        self.list[at].as_deref().filter(|table| !table.is_leaving())
    }
}

impl Applier {
    fn new(engine: &Engine, part: (u64, u64), may_wait: bool) -> Result<Self> {
        let (member, hints, is_last) = (member(engine)?, Hints::default(), false);
        let (tables, columns) = (Tables::default(), HashMap::new());
        Ok(Self { member, part, may_wait, is_last, tables, columns, hints })
    }

    /// An applier of all segments, after the others have ended.
    pub(super) fn last(engine: &Engine) -> Result<Self> {
        Ok(Self { is_last: true, ..Self::new(engine, (0, 1), false)? })
    }
}

impl Common<'_> {
    /// Applies the received batches, as far as they concern the segments of this applier.
    pub(super) fn apply_all(
        &self,
        batches: &Receiver<Arc<Batch>>,
        log: usize,
        part: (u64, u64),
    ) -> Result<()> {
        // The reader of the first log has read all tables that its commits use, and may wait for
        // this thread.
        let mut applier = Applier::new(self.engine, part, log != 0)?;
        let mut done = Ok(());
        while let Ok(batch) = batches.recv() {
            if done.is_ok() {
                done = self.apply(&mut applier, &batch);
            }
            // Batches after an error are dropped, so that the reader does not wait for space in the
            // channel.
            if done.is_err() {
                self.failed.store(true, Ordering::Relaxed);
                self.changed.notify_all();
            }
        }
        done
    }

    /// Applies changes of commits in their order, in groups: the targets of all changes of a group
    /// are prefetched before the first of them is stored.
    pub(super) fn apply(&self, applier: &mut Applier, batch: &Batch) -> Result<()> {
        let Applier { member, part: (part, parts), may_wait, is_last, tables, columns, hints } =
            applier;
        let mut commits = batch.iter();
        let mut open: Option<(&Header, Changes<'_>)> = None;
        // Changes, each with the end of its cells in `cells`.
        let mut window = Vec::with_capacity(CHANGES_IN_SECTION);
        let mut cells = Vec::with_capacity(4 * CHANGES_IN_SECTION);
        loop {
            window.clear();
            cells.clear();
            if tables.list.len() > TABLES_MAX {
                *tables = Tables::default();
            }
            while window.len() < CHANGES_IN_SECTION {
                let Some((header, changes)) = &mut open else {
                    let Some((header, payload)) = commits.next() else { break };
                    // Usually the next commit follows this one in memory.
                    Native::prefetch(payload.as_ptr_range().end, AHEAD_BYTES);
                    open = Some((header, Changes::new(payload)));
                    continue;
                };
                let first = cells.len();
                let read = changes.read(&mut cells, |head| {
                    // A column is for all segments.
                    head.kind == Kind::Column
                        || head.row.segment().wrapping_add(head.table.0) % *parts == *part
                });
                let Some(head) = read.ok_or_else(|| self.bad_block(header, "changes of rows"))?
                else {
                    open = None;
                    continue;
                };
                let at = match tables.find(head.table) {
                    Some(at) => at,
                    None => {
                        let Some(known) = self.table(head.table, *may_wait)? else {
                            if self.failed.load(Ordering::Relaxed) {
                                return Ok(()); // Another thread returns the error.
                            }
                            return Err(self.bad_block(header, "changes of known tables"));
                        };
                        let own = Some(header.tablespace.into());
                        if known.as_ref().is_some_and(|(_, tablespace)| *tablespace != own) {
                            return Err(self.bad_block(header, "changes of its own tables"));
                        }
                        tables.add(head.table, known.map(|(table, _)| table))
                    }
                };
                window.push((head, at, first..cells.len()));
            }
            let section = member.enter();
            let change = Change::forward(section.inside());
            for (head, at, cells_of) in &window {
                if let Some(table) = tables.live(*at)
                    && head.kind != Kind::Column
                {
                    self.add_segments(table, change, head.row.segment())?;
                    table.hint_at_redo(head.row, &cells[cells_of.clone()], hints);
                }
            }
            hints.give::<Native>();
            for (head, at, cells_of) in &window {
                let Some(table) = tables.live(*at) else { continue };
                let cells = &cells[cells_of.clone()];
                let first = match *is_last {
                    true => table.stored_columns(),
                    false => table.first_columns(),
                };
                if head.kind == Kind::Column {
                    let known = columns.entry(head.table).or_insert(first);
                    *known = table.redo_column(*known, cells)?;
                    continue;
                }
                let known = match columns.is_empty() {
                    true => first,
                    false => columns.get(&head.table).copied().unwrap_or(first),
                };
                table.redo(change, known, *head, cells)?;
            }
            drop(section);
            if window.len() < CHANGES_IN_SECTION {
                return Ok(());
            }
        }
    }

    /// Adds segments to a table until it has the segment `number`.
    fn add_segments(&self, table: &Table<Native>, change: Change, number: u64) -> Result<()> {
        /// More segments than workers can ever have begun ahead of each other.
        const AHEAD_MAX: u64 = 1 << 16;
        if number < table.segment_count() {
            return Ok(());
        }
        let _adding = self.adding.lock().unwrap_or_else(PoisonError::into_inner);
        if number >= table.segment_count() + AHEAD_MAX {
            let what = "the segment is far behind the last one";
            let row = number * SEGMENT_ROWS as u64;
            let table = table.name().to_owned();
            return Err(StorageError::BadRecord { table, row, what }.into());
        }
        Ok(table.add_segments(change, number + 1)?)
    }
}
