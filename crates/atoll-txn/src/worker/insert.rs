//! Inserting rows.
//!
//! 1. Claim a slot and store the row into it, where no transaction can find it yet. (A single row
//!    takes this step after step 2.)
//! 2. Look up the key. If the transaction finds a present row, that is a duplicate. If it finds an
//!    absent row (deleted, or of another transaction that has not committed), it writes that row in
//!    its slot. Otherwise:
//! 3. Announce the new row to the scheme, and add it to the hash index, where two transactions that
//!    insert the same key at the same time meet.
//! 4. If the scheme stores in place, make the row present while it is locked; otherwise the commit
//!    does so.
//! 5. Register a gap insert, so that a transaction that has found the key absent is ordered before
//!    this one or aborts.
//! 6. Add the entries of the ordered indexes and register their gap inserts.
//!
//! Rows that are inserted by one call take steps 1 to 5 in one section of the gate, a window at a
//! time: step 1 column by column, and steps 4 and 5 when all rows of the window have taken the
//! steps before them.

use std::hint::cold_path;

use atoll_machine::{Machine, Ordering};
use atoll_storage::image::plain;
use atoll_storage::{Change, RowId, StorageError, Table, Value};

use super::call::Call;
use super::found::{Found, Wanted, find, target};
use super::row_changes::Named;
use super::step::{Step, StepContext};
use super::thread::{Fillings, Thread};
use super::txn::{Phase, TxnState};
use crate::accounting::Component;
use crate::edits::What;
use crate::engine::Engine;
use crate::error::OpError;
use crate::scheme::{AbortReason, Conflict, Scheme};
use crate::tables::TableContext;
use crate::work;

/// A longer buffer of keys is freed after the call.
const KEPT_MAX: usize = 4096;
/// Rows that are inserted in one section of the gate, unless the scheme refuses a request.
const WINDOW: usize = 16;

/// Rows that are being inserted, and their progress. If the scheme refuses a request, the next
/// attempt continues from there, so a transaction that waits does not repeat granted requests.
struct RowBatch<'r> {
    /// The values of the rows.
    rows: &'r [Value],
    columns: usize,
    /// The keys of the rows; each begins `apart` values after the one before and has `width`.
    keys: &'r [Value],
    apart: usize,
    width: usize,
    count: usize,
    hashes: [u64; WINDOW],
    /// The slots of the rows; the first `filled` hold values.
    slots: [RowId; WINDOW],
    filled: usize,
    /// A bit for each slot that holds a row of the index, or is on the transaction's list of unused
    /// slots.
    taken: u32,
    /// A bit for each slot for which the scheme has got a request.
    shown: u32,
    /// Rows in the hash index.
    placed: usize,
    /// Of them, rows that are present (in place).
    appeared: usize,
    /// Of them, rows with a registered gap insert.
    gaps_inserted: usize,
}

impl<'r> RowBatch<'r> {
    fn row(&self, at: usize) -> &'r [Value] {
        &self.rows[at * self.columns..][..self.columns]
    }

    #[inline(always)]
    fn wanted(&self, at: usize) -> Wanted<'r> {
        Wanted { hash: self.hashes[at], key: &self.keys[at * self.apart..][..self.width] }
    }

    /// Whether the next row needs a new slot.
    fn needs_slot(&self) -> bool {
        self.placed >= self.filled || self.taken >> self.placed & 1 == 1
    }

    /// Slots that were filled but not used, and whether the scheme has got a request for them.
    fn left(&self) -> impl Iterator<Item = (RowId, bool)> {
        let left = (0..self.filled).filter(|at| self.taken >> at & 1 == 0);
        left.map(|at| (self.slots[at], self.shown >> at & 1 == 1))
    }
}

impl<S: Scheme<M>, M: Machine> Call<'_, S, M> {
    /// Inserts rows, as if one after the other. `rows` is a concatenation of rows, each with as
    /// many values as the table has columns.
    ///
    /// # Errors
    /// [`OpError::Abort`]; [`OpError::ReadOnly`], and [`OpError::Storage`] for values that do not
    /// fit: nothing has been done; [`OpError::DuplicateKey`]: the rows before it have been
    /// inserted.
    pub fn insert(&mut self, table: &Table<M>, rows: &[Value]) -> Result<(), OpError> {
        self.check_open()?;
        self.check_table(table)?;
        self.check_writable(table)?;
        let schema = table.schema();
        let columns = schema.columns().len();
        schema.check_rows(rows)?;
        if schema.starts_with_key() {
            return self.insert_windows(table, rows, (rows, columns));
        }
        let mut keys = std::mem::take(&mut self.thread.keys);
        keys.clear();
        for row in rows.chunks(columns) {
            keys.extend(schema.primary_key().iter().map(|at| row[*at].clone()));
        }
        let done = self.insert_windows(table, rows, (&keys, schema.primary_key().len()));
        if keys.capacity() <= KEPT_MAX {
            self.thread.keys = keys;
        }
        done
    }

    /// In `keys`, each key begins `apart` values after the one before.
    fn insert_windows(
        &mut self,
        table: &Table<M>,
        rows: &[Value],
        (keys, apart): (&[Value], usize),
    ) -> Result<(), OpError> {
        let columns = table.schema().columns().len();
        let width = table.schema().primary_key().len();
        let (mut rows, mut keys, mut left) = (rows, keys, rows.len() / columns);
        while left > 0 {
            let count = left.min(WINDOW);
            let mut window = RowBatch {
                rows: &rows[..count * columns],
                columns,
                keys: &keys[..count * apart],
                apart,
                width,
                count,
                hashes: [0; WINDOW],
                slots: [RowId(0); WINDOW],
                filled: 0,
                taken: 0,
                shown: 0,
                placed: 0,
                appeared: 0,
                gaps_inserted: 0,
            };
            let inserted = self.insert_window(table, &mut window);
            self.give_back(table, &window);
            inserted?;
            (rows, keys) = (&rows[count * columns..], &keys[count * apart..]);
            left -= count;
        }
        Ok(())
    }

    fn insert_window(
        &mut self,
        table: &Table<M>,
        window: &mut RowBatch<'_>,
    ) -> Result<(), OpError> {
        let mut checked = None;
        for at in 0..window.count {
            let key = window.wanted(at).key;
            if checked != key.first() {
                self.check_partition(table, key.first(), true)?;
                checked = key.first();
            }
            window.hashes[at] = table.hash(key);
        }
        let context = self.engine.tables.context(table.id());
        if !context.indexes().is_empty() {
            let before = self.txn.stopwatch.switch::<M>(Component::Index);
            self.txn.entries.prefetch_leaves(context, (0..window.count).map(|at| window.row(at)));
            self.txn.stopwatch.switch::<M>(before);
        }
        if window.count > 1 {
            let hashes = &window.hashes[..window.count];
            hashes.iter().for_each(|hash| M::prefetch(table.index().bucket(*hash).line(), 1));
        }
        let Thread { member, fillings, .. } = &mut *self.thread;
        if let Err(error) = fillings.make_room(table, member, window.count) {
            return Err(self.fail(error));
        }
        let duplicate = self
            .until_done_with(table, |txn, fillings, here| txn.insert_all(fillings, here, window))?;
        self.add_entries(table)?;
        let Some(at) = duplicate else { return Ok(()) };
        self.check_consistent()?;
        let (key, table) = (table.display_key(window.wanted(at).key), table.name().to_owned());
        Err(OpError::DuplicateKey { table, key })
    }

    /// Frees the slots that were filled but not used.
    fn give_back(&mut self, table: &Table<M>, window: &RowBatch<'_>) {
        if window.left().next().is_none() {
            return;
        }
        let section = self.thread.member.enter();
        let change = Change::rollback(section.inside());
        window.left().for_each(|(row, _)| table.vacate(change, row));
        drop(section);
        for (row, is_shown) in window.left() {
            if is_shown && self.txn.phase == Phase::Open {
                self.txn.rows.leave_unused(table.id(), row);
            } else {
                table.free(row);
            }
        }
    }
}

impl<S: Scheme<M>, M: Machine> TxnState<S, M> {
    /// Inserts the rows of a window. If another row has the key of one of them, returns the
    /// position of that one; the rows before it have been inserted.
    fn insert_all(
        &mut self,
        fillings: &mut Fillings,
        (engine, context, change): StepContext<'_, S, M>,
        window: &mut RowBatch<'_>,
    ) -> Step<Option<usize>> {
        // A single row is looked up before it is stored: its key may exist.
        if window.filled == 0
            && window.count > 1
            && let Err(error) = fill(fillings, context, change, window)
        {
            return not_filled(error);
        }
        let is_expected = self.prefetched.expects(context.table.id());
        let mut duplicate = None;
        while window.placed < window.count {
            match self.insert(fillings, (engine, context, change), window, is_expected) {
                Step::Done(true) => window.placed += 1,
                Step::Done(false) => {
                    duplicate = Some(window.placed);
                    break;
                }
                Step::Again => return Step::Again,
                Step::Conflict(conflict) => return Step::Conflict(conflict),
                Step::Failed(error) => return Step::Failed(error),
            }
        }
        // The entries have been added; the gap inserts must come after them (`SCHEME-3`).
        if Self::IN_PLACE && window.appeared < window.placed {
            if let Err(error) = self.appear(context, change, window) {
                return Step::Failed(error.into());
            }
            M::fence_behind_rmw();
        } else {
            M::fence(Ordering::SeqCst);
        }
        while window.gaps_inserted < window.placed {
            let (place, gap) = context.stripe(window.hashes[window.gaps_inserted]);
            if let Err(conflict) = engine.scheme.insert_into_gap(&mut self.local, place, gap) {
                return Step::Conflict(conflict);
            }
            window.gaps_inserted += 1;
        }
        Step::Done(duplicate)
    }

    /// In place: makes placed rows present.
    fn appear(
        &mut self,
        context: &TableContext<S, M>,
        change: Change,
        window: &mut RowBatch<'_>,
    ) -> Result<(), StorageError> {
        let rows = &window.slots[window.appeared..window.placed];
        context.table.appear(change, rows, &mut self.undo)?;
        if !context.indexes().is_empty() {
            for (row, at) in rows.iter().zip(window.appeared..) {
                self.entries.note_made(context, at, *row);
            }
        }
        window.appeared = window.placed;
        Ok(())
    }

    /// Inserts the next row; `is_expected` says whether its key may have been prefetched.
    /// `Done(false)` means that a row has its key.
    #[inline]
    fn insert(
        &mut self,
        fillings: &mut Fillings,
        (engine, context, change): StepContext<'_, S, M>,
        window: &mut RowBatch<'_>,
        is_expected: bool,
    ) -> Step<bool> {
        let at = window.placed;
        let wanted = window.wanted(at);
        // Most keys are new, and their bucket alone shows this.
        let found = if context.table.index().lacks(wanted.hash) {
            if is_expected {
                self.prefetched.next(context.table.id(), wanted.hash);
            }
            None
        } else {
            self.locate(context, wanted)
        };
        if let Some(found) = found {
            let is_it = || found.meta.has_hash(wanted.hash);
            let read = self.read_row(engine, context, found, &is_it, |_| {});
            return match self.note_absence(engine, context, wanted.hash, read) {
                Step::Done(true) => Step::Done(false),
                Step::Done(false) => self.insert_again(engine, context, found, wanted.hash, window),
                other => other,
            };
        }
        if window.needs_slot() {
            let filled = fillings.claim(context, change).and_then(|slot| {
                window.slots[at] = slot;
                window.filled = window.filled.max(at + 1);
                (window.taken, window.shown) =
                    (window.taken & !(1 << at), window.shown & !(1 << at));
                M::fence(Ordering::Release);
                context.table.fill_rows(change, &[slot], window.row(at))
            });
            if let Err(error) = filled {
                return not_filled(error);
            }
        }
        self.place(fillings, (engine, context, change), window)
    }

    /// Inserts into the slot of an absent row of the key.
    fn insert_again(
        &mut self,
        engine: &Engine<S, M>,
        context: &TableContext<S, M>,
        found: Found<'_, S, M>,
        hash: u64,
        window: &RowBatch<'_>,
    ) -> Step<bool> {
        let at = found.slot.id();
        // Index entries of the row's old values may still exist.
        context.table.invalidate_index_only();
        let own = self.own_write(context, at);
        if let Err(conflict) = self.ask_write_of(engine, context, found, hash, true) {
            return Step::Conflict(conflict);
        }
        let what = match own {
            Some((_, What::Remove)) => What::Replace,
            Some((_, What::Nothing)) => What::Add,
            _ => What::Return,
        };
        self.rows.forget_if(true);
        self.keep(context, at, what, window.row(window.placed));
        self.entries.note_made(context, window.placed, at);
        Step::Done(true)
    }

    /// Puts a whole row into the write set, except its key, which is in the slot.
    fn keep(&mut self, context: &TableContext<S, M>, at: RowId, what: What, row: &[Value]) {
        let table = context.table.id();
        let mut edits = self.edits.borrow_mut();
        let known = edits.find(table, at);
        let place = known.unwrap_or_else(|| edits.add(table, at, what));
        edits.set_what(place, what);
        let savepoint = edits.savepoint();
        for (column, value) in row.iter().enumerate() {
            if !context.table.schema().is_in_key(column) {
                let mut buffer = [0; 16];
                edits.put(column, plain(value, &mut buffer));
            }
        }
        M::work(work::OPERATION + work::copy(edits.bytes_since(savepoint)));
        edits.give(savepoint, place);
    }

    /// Adds a filled slot to the index as the row of the key.
    fn place(
        &mut self,
        fillings: &mut Fillings,
        (engine, context, change): StepContext<'_, S, M>,
        window: &mut RowBatch<'_>,
    ) -> Step<bool> {
        let (at, wanted) = (window.slots[window.placed], window.wanted(window.placed));
        let table = &context.table;
        let meta = context.header(at);
        // The transaction has at least seen the creation of the table.
        self.note_gsn(|| context.gone_gsn());
        let before = self.stopwatch.switch::<M>(Component::Manager);
        let asked = self.ask_new(engine, context, at);
        self.stopwatch.switch::<M>(before);
        window.shown |= 1 << window.placed;
        if let Err(conflict) = asked {
            // Another transaction still accesses the slot through an entry that is gone.
            return Step::Conflict(conflict);
        }
        let before = self.stopwatch.switch::<M>(Component::Index);
        let named = Named { table: table.id(), row: at, hash: wanted.hash };
        let is_same = |other: RowId| {
            context.header(other).has_hash(wanted.hash)
                && (table.is_hash_unique(wanted.hash) || table.has_key(other, wanted.key))
                && !self.rows.hides(named.table, other)
        };
        let other = table.index().insert(wanted.hash, at, is_same, || meta.set_hash(wanted.hash));
        self.stopwatch.switch::<M>(before);
        window.taken |= 1 << window.placed;
        if other.is_some() {
            cold_path();
            // Another inserter was faster: look at its row.
            table.vacate(change, at);
            self.rows.leave_unused(table.id(), at);
            let target = target(context, at, meta);
            let withdrawn = engine.scheme.write(&mut self.local, engine.tables(), target, false);
            if withdrawn.is_err() {
                // The scheme has become stricter meanwhile and wants a lock that it did not want
                // before, and the garbage collection of another worker holds it. The row must not
                // become present.
                return Step::Conflict(AbortReason::Denied.into());
            }
            if !Self::IN_PLACE {
                self.edits.borrow_mut().add(table.id(), at, What::Nothing);
            }
            return Step::Again;
        }
        // If the scheme stores at commit, the row can be gone already: a second transaction has
        // inserted into its slot, a third has deleted that row, and it was collected (GARBAGE-2:
        // this transaction cannot commit then).
        debug_assert!(
            !Self::IN_PLACE || find(context, wanted.hash, wanted.key, &self.rows).is_some()
        );
        self.rows.insert(named);
        fillings.train(context, wanted.hash, at);
        if !Self::IN_PLACE {
            self.edits.borrow_mut().add(table.id(), at, What::Add);
            self.entries.note_made(context, window.placed, at);
        }
        Step::Done(true)
    }

    fn ask_new(
        &mut self,
        engine: &Engine<S, M>,
        context: &TableContext<S, M>,
        at: RowId,
    ) -> Result<(), Conflict> {
        let meta = context.header(at);
        let tables = engine.tables();
        if !Self::IN_PLACE {
            // Read the row's absence, which other transactions may change.
            let target = target(context, at, meta);
            engine.scheme.read(&mut self.local, tables, target, &mut |_| true)?;
        }
        engine.scheme.write(&mut self.local, tables, target(context, at, meta), true)
    }
}

/// The end of a step that could not claim or fill a slot.
#[cold]
fn not_filled<R>(error: StorageError) -> Step<R> {
    match error {
        // LOAD-2: rows that this transaction cannot see yet come first.
        StorageError::Loading(_) => Step::Conflict(AbortReason::Denied.into()),
        error => Step::Failed(error.into()),
    }
}

/// Claims slots and stores the rows into them.
fn fill<S: Scheme<M>, M: Machine>(
    fillings: &mut Fillings,
    context: &TableContext<S, M>,
    change: Change,
    window: &mut RowBatch<'_>,
) -> Result<(), StorageError> {
    for at in 0..window.count {
        window.slots[at] = fillings.claim(context, change)?;
        window.filled = at + 1;
    }
    // A reader may still be reading the old row of a slot. It checks afterwards whether the row
    // has changed; this fence orders that change before the stores.
    M::fence(Ordering::Release);
    context.table.fill_rows(change, &window.slots[..window.count], window.rows)
}
