//! Commit.
//!
//! If the scheme stores in place, everything is in the table already. The worker closes the
//! transaction for snapshots, removes the index entries of its deleted rows, and the scheme unlocks
//! the places.
//!
//! If the scheme stores at commit, then in one section of the gate, unless the write set is large:
//! the scheme locks the write set and validates, and the worker stores the write set. A cut comes
//! before or after the section, so a snapshot shows all of the transaction or nothing. The worker
//! stores a large write set in several sections, so that a cut need not wait for all of it. It then
//! shows the undo list to takers, as a transaction that stores in place does.
//!
//! - `COMMIT-1`: a large transaction commits in its last section, and the scheme validates all of
//!   it there. From the first section to the end, the transaction holds its write set
//!   (`SCHEME-2`): no other transaction reads, changes or collects these rows, so what the earlier
//!   sections have stored remains right. Therefore the validation in the first section, when all
//!   of the write set is held, already decides the order among transactions: none that must come
//!   before this one can commit later. But a snapshot that is cut between two sections, or a
//!   read-only transaction that reads older versions, shows transactions that have replaced what
//!   this one has read, and does not show this one. So this one must be ordered behind them
//!   (`SCHEME-4`): its reads must still be valid in the last section, or the undo list takes its
//!   stores back. The cut itself requires nothing in between, since takers undo the list. But under
//!   some schemes a cut makes the last validation fail, so the scheme also validates in some
//!   sections after a cut. Their number has a fixed bound: a validation reads the whole read set,
//!   and one in each section would cost the square of the transaction's size.
//!
//! The worker writes an undo entry before it stores into a row, since memory may run out half way.
//! But most values only replace bytes in extents that are not frozen. The worker first finds the
//! places of these values, and stores the values last, when nothing can fail any more; so they need
//! no undo entries. From there to [`Scheme::end`] nothing may panic.

use std::ops::Range;

use atoll_machine::Machine;
use atoll_storage::{Change, RowId, StorageError, TableId};

use super::call::Call;
use super::entries::Entry;
use super::found::target;
use super::thread::Thread;
use super::txn::{Phase, TxnState};
use crate::accounting::Component;
use crate::edits::{EditedRow, What};
use crate::engine::Engine;
use crate::error::OpError;
use crate::row::Row;
use crate::scheme::{AbortReason, Conflict, Scheme, Section};
use crate::tables::TableContext;

/// A longer list of places frees its memory after the commit.
const PLACED_KEPT_MAX: usize = 4096;
/// Rows that one call makes present.
const APPEARING: usize = 16;
/// Most validations between the first section and the last one.
const BETWEEN_MAX: usize = 8;

/// How far a commit has come.
#[derive(Debug, Clone, Copy, Default)]
struct Progress {
    /// Rows of the write set that have been stored.
    stored: usize,
    /// Rows that had been stored when the scheme validated last, and the cuts before that section.
    validated_at: usize,
    cuts: u64,
}

impl Progress {
    /// Whether the scheme validates in the next section, before which there were so many cuts and
    /// after which `end` of `rows` rows have been stored (`COMMIT-1`).
    fn must_validate(&self, cuts: u64, end: usize, rows: usize) -> bool {
        let is_cut = cuts != self.cuts;
        let has_advanced = self.stored - self.validated_at >= rows.div_ceil(BETWEEN_MAX);
        self.stored == 0 || end == rows || (is_cut && has_advanced)
    }

    fn validated(&mut self, cuts: u64) {
        (self.validated_at, self.cuts) = (self.stored, cuts);
    }
}

/// How much of the write set has been stored.
enum Stored {
    All,
    UpTo(usize),
}

/// Why storing has stopped.
enum NotStored {
    Conflict(Conflict),
    Failed(StorageError),
}

/// Seals `epoch`, in which the caller is inside (`WORKER-5`). `sealed` is the newest epoch that the
/// worker knows to be sealed.
#[inline]
pub(super) fn seal<S: Scheme<M>, M: Machine>(engine: &Engine<S, M>, sealed: &mut u64, epoch: u64) {
    if epoch != *sealed {
        engine.memory().seal(epoch);
        *sealed = epoch;
    }
}

impl<S: Scheme<M>, M: Machine> Call<'_, S, M> {
    /// Commits the transaction.
    ///
    /// # Errors
    /// [`OpError::Abort`]; [`OpError::Storage`] if the system is out of memory;
    /// [`OpError::Journal`]. The transaction has been rolled back.
    pub fn commit(&mut self) -> Result<(), OpError> {
        match self.txn.definitions.is_empty() {
            true => self.commit_rows(),
            false => self.commit_with_definitions(),
        }
    }

    /// Commits the transaction, with definitions that have been prepared.
    pub(super) fn commit_rows(&mut self) -> Result<(), OpError> {
        self.check_open().inspect_err(|_| self.txn.phase = Phase::Idle)?;
        self.txn.stopwatch.switch::<M>(Component::Manager);
        self.write_down()?;
        if TxnState::<S, M>::IN_PLACE {
            self.commit_in_place()?
        } else {
            self.store_and_commit()?
        }
        self.txn.stopwatch.switch::<M>(Component::Useful);
        let must_forget = self.txn.rows.must_forget();
        self.finish(Ok(()), Phase::Idle);
        if must_forget {
            self.engine.memory().tidy();
        }
        self.collect_at_end();
        Ok(())
    }

    fn commit_in_place(&mut self) -> Result<(), OpError> {
        let mut round = 0;
        loop {
            match self.engine.scheme.prepare(&mut self.txn.local, self.engine.tables()) {
                Ok(()) => break,
                Err(conflict) => self.on_conflict(conflict, &mut round)?,
            }
        }
        let Self { engine, thread: Thread { member, sealed, .. }, txn } = self;
        let section = member.enter();
        let epoch = section.inside().epoch;
        seal(engine, sealed, epoch);
        let cuts = engine.memory().cuts_before(epoch);
        let whole = Section { cuts, is_part: false };
        if let Err(reason) = engine.scheme.validate(&mut txn.local, engine.tables(), whole) {
            drop(section);
            return Err(self.abort_with(reason));
        }
        if let Err(error) = txn.carry_out(section.inside()) {
            drop(section);
            return Err(self.fail(error));
        }
        txn.record(engine, epoch);
        txn.publication.close(&engine.registry, epoch, &txn.undo);
        txn.remove_gone(engine);
        if txn.rows.must_forget() {
            txn.forget_now(engine, Change::forward(section.inside()));
        }
        drop(section);
        let Self { engine, txn, .. } = self;
        engine.scheme.end(&mut txn.local, engine.tables(), true);
        for gone in txn.rows.deleted() {
            engine.tables().table(gone.table).free(gone.row);
        }
        Ok(())
    }

    fn store_and_commit(&mut self) -> Result<(), OpError> {
        let mut round = 0;
        let mut progress = Progress::default();
        loop {
            let Self { engine, thread: Thread { member, sealed, .. }, txn } = self;
            let section = member.enter();
            seal(engine, sealed, section.inside().epoch);
            let change = Change::forward(section.inside());
            let done = txn.store_some(engine, change, &mut progress);
            if progress.stored > 0 || !matches!(done, Ok(Stored::All)) {
                txn.show();
            }
            match done {
                Ok(Stored::All) => {
                    txn.record(engine, change.inside.epoch);
                    txn.publication.close(&engine.registry, change.inside.epoch, &txn.undo);
                    break;
                }
                Ok(Stored::UpTo(rows)) => progress.stored = rows,
                Err(NotStored::Conflict(conflict)) => {
                    drop(section);
                    self.on_conflict(conflict, &mut round)?;
                }
                Err(NotStored::Failed(error)) => {
                    drop(section);
                    return Err(self.fail(error));
                }
            }
        }
        let Self { engine, thread: Thread { garbage, .. }, txn } = self;
        let stamp = engine.scheme.stamp(&txn.local);
        engine.scheme.end(&mut txn.local, engine.tables(), true);
        txn.retire_committed(garbage, engine, stamp);
        Ok(())
    }
}

impl<S: Scheme<M>, M: Machine> TxnState<S, M> {
    /// In place, while the rows are locked: removes the entries of deleted rows and of old keys.
    fn remove_gone(&mut self, engine: &Engine<S, M>) {
        for gone in self.rows.deleted() {
            let context = engine.tables.context(gone.table);
            context.unlink(gone.row);
            context.table.index().remove(gone.hash, gone.row);
        }
        let Self { entries, local, entry_key: now, .. } = self;
        for entry in &entries.gone {
            let context = engine.tables.context(entry.table);
            let ordered = &context.indexes()[entry.index];
            if context.table.is_present(entry.row) {
                // The row has moved, perhaps to another key and back again.
                let view = Row::stored(&*context.table, context.table.slot(entry.row));
                ordered.key_of(&view, now);
                if *now == entries.key(entry) {
                    continue;
                }
            }
            ordered.index.remove(entries.key(entry), entry.row, &mut |from, into| {
                let (from, into) =
                    (context.leaf(entry.index, from), context.leaf(entry.index, into));
                engine.scheme.split(local, from, into)
            });
        }
    }

    /// Frees what the undo list has kept for a rollback.
    fn forget_now(&mut self, engine: &Engine<S, M>, change: Change) {
        let tables = engine.tables();
        self.undo.each(|table, row, replaced| {
            tables.table(table).forget(change, row, replaced);
        });
    }

    /// Prepares, validates and stores the next rows of the write set.
    fn store_some(
        &mut self,
        engine: &Engine<S, M>,
        change: Change,
        progress: &mut Progress,
    ) -> Result<Stored, NotStored> {
        let (tables, from) = (engine.tables(), progress.stored);
        let rows = self.edits.borrow().rows().len();
        let end = rows.min(from.saturating_add(engine.rows_in_section));
        let cuts = engine.memory().cuts_before(change.inside.epoch);
        let is_part = end - from != rows;
        if from == 0 {
            engine.scheme.prepare(&mut self.local, tables).map_err(NotStored::Conflict)?;
        }
        if progress.must_validate(cuts, end, rows) {
            let section = Section { cuts, is_part };
            let validated = engine.scheme.validate(&mut self.local, tables, section);
            validated.map_err(|reason: AbortReason| NotStored::Conflict(reason.into()))?;
            progress.validated(cuts);
        }
        debug_assert!(from > 0 || self.has_its_entries(engine), "GARBAGE-2");
        let before = self.stopwatch.switch::<M>(Component::Useful);
        let stored = self.store_rows(engine, change, from..end, !is_part);
        self.stopwatch.switch::<M>(before);
        stored.map_err(NotStored::Failed)?;
        if end == rows {
            self.carry_out(change.inside).map_err(NotStored::Failed)?;
        }
        Ok(if end == rows { Stored::All } else { Stored::UpTo(end) })
    }

    /// Whether all entries that the transaction has added are in their indexes.
    fn has_its_entries(&self, engine: &Engine<S, M>) -> bool {
        let entries = &self.entries;
        let is_there = |entry: &Entry| {
            let ordered = &engine.tables.context(entry.table).indexes()[entry.index];
            ordered.is_given_up() || ordered.index.has(entries.key(entry), entry.row)
        };
        entries.made.iter().all(is_there)
    }

    fn store_rows(
        &mut self,
        engine: &Engine<S, M>,
        change: Change,
        rows: Range<usize>,
        are_all: bool,
    ) -> Result<(), StorageError> {
        if are_all && self.store_changes(engine, change) {
            return Ok(());
        }
        self.placed.clear();
        // Rows that were inserted together are mostly side by side, so they are made present
        // together.
        let mut appearing: Option<TableId> = None;
        let (mut slots, mut count) = ([RowId(0); APPEARING], 0);
        let mut context = engine.tables.in_turn();
        for at in rows {
            let row = self.edits.get_mut().row(at);
            if are_all && self.place_row(context(row.table), change, at, row) {
                continue;
            }
            if !self.store_row(engine, change, at, row)? {
                continue;
            }
            if let Some(table) = appearing
                && (count == APPEARING || row.table != table)
            {
                engine.tables.table(table).appear(change, &slots[..count], &mut self.undo)?;
                count = 0;
            }
            appearing = Some(row.table);
            slots[count] = row.row;
            count += 1;
        }
        if let Some(table) = appearing {
            engine.tables.table(table).appear(change, &slots[..count], &mut self.undo)?;
        }
        self.store_placed(engine);
        Ok(())
    }

    /// Stores all rows, if [`Edits::change`] made all changes, each of one column, and every value
    /// has a place where the store cannot fail. Returns false if it has done nothing.
    fn store_changes(&mut self, engine: &Engine<S, M>, change: Change) -> bool {
        let Self { edits, placed, .. } = self;
        let edits = edits.get_mut();
        let (false, Some(changes), Some(again)) = (S::VERSIONED, edits.changes(), edits.changes())
        else {
            return false;
        };
        placed.clear();
        let mut context = engine.tables.in_turn();
        for (table, row, column, bytes) in changes {
            let table = &*context(table).table;
            let place = table.place_for(change, row, column, Some(bytes));
            let Some(place) = place else { return false };
            placed.push((place, 0));
        }
        for ((place, _), (_, _, _, bytes)) in placed.drain(..).zip(again) {
            place.store::<M>(engine.memory(), bytes);
        }
        true
    }

    /// Finds the places of a row's new values. Returns false, and places nothing, unless every
    /// value has a place where the store cannot fail.
    #[inline]
    fn place_row(
        &mut self,
        context: &TableContext<S, M>,
        change: Change,
        at: usize,
        EditedRow { row, what, .. }: EditedRow,
    ) -> bool {
        if S::VERSIONED || what != What::Change {
            return false;
        }
        let table = &*context.table;
        let before = self.placed.len();
        for (number, column, plain) in self.edits.get_mut().numbered_cells(at) {
            let Some(place) = table.place_for(change, row, column, plain) else {
                self.placed.truncate(before);
                return false;
            };
            self.placed.push((place, number));
        }
        true
    }

    /// Stores the values that have places.
    #[inline]
    fn store_placed(&mut self, engine: &Engine<S, M>) {
        let edits = self.edits.get_mut();
        for (place, number) in self.placed.drain(..) {
            place.store::<M>(engine.memory(), edits.bytes(number));
        }
        if self.placed.capacity() > PLACED_KEPT_MAX {
            self.placed = Vec::new();
        }
    }

    /// Stores a row. Returns whether the caller has to make it present.
    fn store_row(
        &mut self,
        engine: &Engine<S, M>,
        change: Change,
        at: usize,
        EditedRow { table, row, what, .. }: EditedRow,
    ) -> Result<bool, StorageError> {
        let context = engine.tables.context(table);
        if S::VERSIONED {
            // A row that stays absent needs this too: the scheme creates a new version of it, and
            // the chain must contain the absent version before the older ones.
            self.keep_before(context, at, row, what);
            let meta = context.header(row);
            engine.scheme.supersede(
                &mut self.local,
                target(context, row, meta),
                &self.before_image,
            );
        }
        if what.is_nothing() {
            return Ok(false);
        }
        let table = &context.table;
        if what == What::Remove {
            return table.erase(change, row, &mut self.undo).map(|()| false);
        }
        let edits = self.edits.borrow();
        let slot = table.slot(row);
        for (column, plain) in edits.cells(at) {
            table.store(change, slot, column, plain, &mut self.undo)?;
        }
        Ok(!what.was_present())
    }

    /// Copies the before image of a row.
    fn keep_before(&mut self, context: &TableContext<S, M>, at: usize, row: RowId, what: What) {
        self.before_image.clear(what.was_present());
        if what.is_nothing() || matches!(what, What::Remove | What::Add) {
            return;
        }
        let Self { before_image, edits, .. } = self;
        let slot = context.table.slot(row);
        for (column, _) in edits.borrow().cells(at) {
            let width = context.table.image_bytes(column as u16);
            let bytes = before_image.add(column as u16, true, width);
            let valid = context.table.load(slot, column, bytes);
            before_image.set_valid(column as u16, valid);
        }
    }
}
