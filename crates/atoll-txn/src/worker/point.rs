//! Point operations: reading and changing the row of one key.

use std::hint::cold_path;

use atoll_machine::{Machine, Ordering};
use atoll_storage::{Change, RowId, Table, Value};

use super::call::Call;
use super::found::{Found, Wanted, find};
use super::step::Step;
use super::txn::TxnState;
use crate::accounting::Component;
use crate::before_image::BeforeImage;
use crate::column_set::ColumnSet;
use crate::edits::What;
use crate::engine::Engine;
use crate::error::OpError;
use crate::row::{Direct, Moves, Own, Row, RowEdit};
use crate::scheme::{AbortReason, Conflict, Scheme, Seen};
use crate::tables::TableContext;
use crate::work;

/// A callback that reads a row.
pub type Reader<'b, M> = &'b mut dyn FnMut(&Row<'_, M>);
/// A callback that changes a row.
pub type Editor<'b, M> = &'b mut dyn FnMut(&mut RowEdit<'_, M>);

impl<S: Scheme<M>, M: Machine> Call<'_, S, M> {
    pub(super) fn wanted<'k>(
        &mut self,
        table: &Table<M>,
        key: &'k [Value],
        write: bool,
    ) -> Result<Wanted<'k>, OpError> {
        self.check_open()?;
        self.check_table(table)?;
        let hash = table.hash_of(key)?;
        self.check_partition(table, key.first(), write)?;
        Ok(Wanted { hash, key })
    }

    /// Calls `body` with the row of this key. Returns false if there is none.
    ///
    /// # Errors
    /// [`OpError::Abort`]; [`OpError::Storage`] for a key that does not fit the table.
    pub fn read_with(
        &mut self,
        table: &Table<M>,
        key: &[Value],
        body: Reader<'_, M>,
    ) -> Result<bool, OpError> {
        let wanted = self.wanted(table, key, false)?;
        self.until_done(table, |txn, (engine, context, _)| {
            let found = txn.locate(context, wanted);
            txn.read(engine, context, wanted, found, &mut *body)
        })
    }

    /// Calls `body` to change the row of this key. Returns false if there is none.
    ///
    /// # Errors
    /// [`OpError::Abort`]; [`OpError::KeyUpdate`], and [`OpError::Storage`] for values that do not
    /// fit: the transaction has been rolled back; [`OpError::ReadOnly`].
    pub fn update_with(
        &mut self,
        table: &Table<M>,
        key: &[Value],
        body: Editor<'_, M>,
    ) -> Result<bool, OpError> {
        self.check_writable(table)?;
        let wanted = self.wanted(table, key, true)?;
        let found = self.until_done(table, |txn, (engine, context, change)| {
            let found = txn.locate(context, wanted);
            txn.edit(engine, context, change, wanted, found, &mut *body)
        })?;
        self.add_entries(table)?;
        Ok(found)
    }

    /// As [`Call::update_with`], but only if no other transaction holds the row: `None` if one
    /// does.
    ///
    /// # Errors
    /// As [`Call::update_with`].
    pub fn try_update_with(
        &mut self,
        table: &Table<M>,
        key: &[Value],
        body: Editor<'_, M>,
    ) -> Result<Option<bool>, OpError> {
        self.check_writable(table)?;
        let wanted = self.wanted(table, key, true)?;
        self.txn.tries = true;
        let found = self.until_done(table, |txn, (engine, context, change)| {
            let found = txn.locate(context, wanted);
            txn.edit(engine, context, change, wanted, found, &mut *body)
        });
        self.txn.tries = false;
        match found {
            Ok(found) => {
                self.add_entries(table)?;
                Ok(Some(found))
            }
            Err(OpError::Held) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Changes columns of the row with this key. Returns false if there is none.
    ///
    /// # Errors
    /// [`OpError::Abort`]; [`OpError::KeyUpdate`], and [`OpError::Storage`] for values that do not
    /// fit: nothing has changed; [`OpError::ReadOnly`].
    pub fn update(
        &mut self,
        table: &Table<M>,
        key: &[Value],
        changes: &[(usize, Value)],
    ) -> Result<bool, OpError> {
        self.check_open()?;
        for (column, value) in changes {
            check_change(table, key, *column, value)?;
        }
        self.update_with(table, key, &mut |row| {
            changes.iter().for_each(|(column, value)| row.set(*column, value));
        })
    }
}

impl<S: Scheme<M>, M: Machine> TxnState<S, M> {
    /// Reads the absence of a key that the index lacks: registers a gap read, then searches again.
    #[inline]
    pub(super) fn read_absence<R>(
        &mut self,
        engine: &Engine<S, M>,
        context: &TableContext<S, M>,
        wanted: Wanted<'_>,
        absent: R,
    ) -> Step<R> {
        let (place, gap) = context.stripe(wanted.hash);
        if let Err(conflict) = engine.scheme.read_gap(&mut self.local, place, gap) {
            return Step::Conflict(conflict);
        }
        // If the search below misses a new entry, its inserter sees the gap read (`SCHEME-3`).
        M::fence(Ordering::SeqCst);
        self.note_gsn(|| context.gone_gsn());
        match find(context, wanted.hash, wanted.key, &self.rows) {
            None => Step::Done(absent),
            Some(_) => Step::Again,
        }
    }

    /// The position of a row in the transaction's own write set, and how it is changed there.
    #[inline]
    pub(super) fn own_write(
        &mut self,
        context: &TableContext<S, M>,
        row: RowId,
    ) -> Option<(usize, What)> {
        if Self::IN_PLACE {
            return None;
        }
        let edits = self.edits.get_mut();
        edits.find(context.table.id(), row).map(|at| (at, edits.row(at).what))
    }

    /// Reads the row of a key; `found` is the result of the lookup.
    #[inline]
    pub(super) fn read(
        &mut self,
        engine: &Engine<S, M>,
        context: &TableContext<S, M>,
        wanted: Wanted<'_>,
        found: Option<Found<'_, S, M>>,
        body: impl FnMut(&Row<'_, M>),
    ) -> Step<bool> {
        let Some(found) = found else {
            return self.read_absence(engine, context, wanted, false);
        };
        let step =
            self.read_row(engine, context, found, &|| found.meta.has_hash(wanted.hash), body);
        self.note_absence(engine, context, wanted.hash, step)
    }

    /// Registers a gap read if a step has found the key's row absent, for schemes with
    /// [`Scheme::READS_GAP_OF_ABSENT`].
    #[inline]
    pub(super) fn note_absence(
        &mut self,
        engine: &Engine<S, M>,
        context: &TableContext<S, M>,
        hash: u64,
        step: Step<bool>,
    ) -> Step<bool> {
        if !S::READS_GAP_OF_ABSENT || !matches!(step, Step::Done(false)) {
            return step;
        }
        let (place, gap) = context.stripe(hash);
        match engine.scheme.read_gap(&mut self.local, place, gap) {
            Ok(()) => step,
            Err(conflict) => Step::Conflict(conflict),
        }
    }

    /// Reads a row that a lookup has found, if `is_it` still holds during the read. `Done(false)`
    /// means that the row is absent.
    #[inline]
    pub(super) fn read_row(
        &mut self,
        engine: &Engine<S, M>,
        context: &TableContext<S, M>,
        found: Found<'_, S, M>,
        is_it: &impl Fn() -> bool,
        mut body: impl FnMut(&Row<'_, M>),
    ) -> Step<bool> {
        let own = self.own_write(context, found.slot.id());
        let Self { local, edits, stopwatch, .. } = self;
        let own_edits = own.map(|(at, _)| Own { edits, at: Some(at), since: None });
        let stored = Row::stored(&*context.table, found.slot);
        match own {
            Some((_, What::Remove | What::Nothing | What::Stay)) => return Step::Done(false),
            Some((_, what)) if what.is_whole() => {
                body(&stored.under(None, own_edits));
                return Step::Done(true);
            }
            _ => {}
        }
        let before = stopwatch.switch::<M>(Component::Manager);
        let mut fetch = |image: Option<&BeforeImage>| {
            if !is_it() {
                return false;
            }
            let within = stopwatch.switch::<M>(Component::Useful);
            body(&stored.under(image, own_edits));
            stopwatch.switch::<M>(within);
            true
        };
        let target = found.target(context);
        let seen = engine.scheme.read(local, engine.tables(), target, &mut fetch);
        stopwatch.switch::<M>(before);
        self.note_gsn(|| found.slot.gsn());
        match seen {
            Ok(Seen::Present) => Step::Done(true),
            // In place, the row is no longer that of the key. At commit, it may also be absent.
            Ok(Seen::Absent) if Self::IN_PLACE || !is_it() => Step::Again,
            Ok(Seen::Absent | Seen::Held) => Step::Done(false),
            Err(conflict) => Step::Conflict(conflict),
        }
    }

    #[inline]
    pub(super) fn ask_write(
        &mut self,
        engine: &Engine<S, M>,
        context: &TableContext<S, M>,
        found: Found<'_, S, M>,
        present: bool,
    ) -> Result<(), Conflict> {
        let before = self.stopwatch.switch::<M>(Component::Manager);
        let target = found.target(context);
        let asked = engine.scheme.write(&mut self.local, engine.tables(), target, present);
        self.stopwatch.switch::<M>(before);
        self.note_gsn(|| found.slot.gsn());
        asked
    }

    /// As `ask_write`; also checks that the row is still that of the key afterwards.
    #[inline]
    pub(super) fn ask_write_of(
        &mut self,
        engine: &Engine<S, M>,
        context: &TableContext<S, M>,
        found: Found<'_, S, M>,
        hash: u64,
        present: bool,
    ) -> Result<(), Conflict> {
        self.ask_write(engine, context, found, present)?;
        // The slot was freed meanwhile, so the grant is of no use.
        if found.meta.has_hash(hash) { Ok(()) } else { Err(AbortReason::Changed.into()) }
    }

    /// Changes the row of a key; `found` is the result of the lookup.
    #[inline]
    pub(super) fn edit(
        &mut self,
        engine: &Engine<S, M>,
        context: &TableContext<S, M>,
        change: Change,
        wanted: Wanted<'_>,
        found: Option<Found<'_, S, M>>,
        body: impl FnMut(&mut RowEdit<'_, M>),
    ) -> Step<bool> {
        let Some(found) = found else {
            return self.read_absence(engine, context, wanted, false);
        };
        if Self::IN_PLACE {
            self.edit_in_place(engine, context, change, found, wanted.hash, body)
        } else {
            self.edit_at_commit(engine, context, found, wanted.hash, body)
        }
    }

    #[inline]
    fn edit_in_place(
        &mut self,
        engine: &Engine<S, M>,
        context: &TableContext<S, M>,
        change: Change,
        found: Found<'_, S, M>,
        hash: u64,
        mut body: impl FnMut(&mut RowEdit<'_, M>),
    ) -> Step<bool> {
        if let Err(conflict) = self.ask_write(engine, context, found, true) {
            return Step::Conflict(conflict);
        }
        if !found.meta.has_hash(hash) {
            return Step::Again;
        }
        let view = || Row::stored(&*context.table, found.slot);
        let Self { undo, entries, .. } = self;
        let mut note_before = |row: &Row<'_, M>| entries.note_before(context, row);
        let moves = Moves { columns: &context.indexes().moving, before: &mut note_before };
        let mut edit = RowEdit::new(view(), Some(Direct { change, undo, moves }));
        body(&mut edit);
        match edit.finish() {
            Ok(changed) => self.after_edit(context, &view(), changed),
            Err(error) => Step::Failed(error),
        }
    }

    /// Notes replaced long values and moves in indexes after a change in place.
    fn after_edit(
        &mut self,
        context: &TableContext<S, M>,
        view: &Row<'_, M>,
        changed: ColumnSet,
    ) -> Step<bool> {
        if !changed.meets(&context.indexes().noted) {
            return Step::Done(true);
        }
        self.rows.forget_if(changed.meets(context.views()));
        if changed.meets(&context.indexes().moving) {
            self.entries.note_after(context, view, changed);
            self.entries.take_moves(context, view.slot.id());
        }
        Step::Done(true)
    }

    #[inline]
    fn edit_at_commit(
        &mut self,
        engine: &Engine<S, M>,
        context: &TableContext<S, M>,
        found: Found<'_, S, M>,
        hash: u64,
        mut body: impl FnMut(&mut RowEdit<'_, M>),
    ) -> Step<bool> {
        let (row, meta) = (found.slot.id(), found.meta);
        let own = self.own_write(context, row);
        let stored = Row::stored(&*context.table, found.slot);
        let savepoint = self.edits.get_mut().savepoint();
        let mut set = Ok(ColumnSet::default());
        let Self { local, edits, stopwatch, entries, .. } = self;
        let at = own.map(|(at, _)| at);
        let mut is_again = false;
        let mut apply = |image: Option<&BeforeImage>| {
            if std::mem::replace(&mut is_again, true) {
                edits.borrow_mut().rewind(savepoint);
            }
            let before = Own { edits, at, since: None };
            let after = Some(Own { since: Some(savepoint), ..before });
            let mut edit = RowEdit::new(stored.under(image, after), None);
            body(&mut edit);
            set = edit.finish();
            if let Ok(changed) = &set
                && changed.meets(&context.indexes().moving)
            {
                cold_path();
                entries.note_before(context, &stored.under(image, Some(before)));
                entries.note_after(context, &stored.under(image, after), *changed);
            }
        };
        match own {
            Some((_, What::Remove | What::Nothing | What::Stay)) => return Step::Done(false),
            Some((_, what)) if what.is_whole() => apply(None),
            _ => {
                let before = stopwatch.switch::<M>(Component::Manager);
                let mut fetch = |image: Option<&BeforeImage>| {
                    if !meta.has_hash(hash) {
                        return false;
                    }
                    let within = stopwatch.switch::<M>(Component::Useful);
                    apply(image);
                    stopwatch.switch::<M>(within);
                    true
                };
                let (target, tables) = (found.target(context), engine.tables());
                let seen = if own.is_none() {
                    engine.scheme.update(local, tables, target, &mut fetch)
                } else {
                    engine.scheme.read(local, tables, target, &mut fetch)
                };
                stopwatch.switch::<M>(before);
                self.note_gsn(|| found.slot.gsn());
                let conflict = match seen {
                    Ok(Seen::Present) if own.is_some() || meta.has_hash(hash) => None,
                    // As in `ask_write_of`: the grant is of no use.
                    Ok(Seen::Present) => Some(AbortReason::Changed.into()),
                    Ok(Seen::Absent) if !meta.has_hash(hash) => return Step::Again,
                    Ok(Seen::Absent | Seen::Held) => {
                        return self.note_absence(engine, context, hash, Step::Done(false));
                    }
                    Err(conflict) => Some(conflict),
                };
                if let Some(conflict) = conflict {
                    cold_path();
                    self.edits.get_mut().rewind(savepoint);
                    return Step::Conflict(conflict);
                }
            }
        }
        let changed = match set {
            Ok(changed) => changed,
            Err(error) => {
                cold_path();
                return Step::Failed(error);
            }
        };
        let edits = self.edits.get_mut();
        M::work(work::copy(edits.bytes_since(savepoint)));
        let at = at.unwrap_or_else(|| edits.add(context.table.id(), row, What::Change));
        edits.give(savepoint, at);
        if changed.meets(&context.indexes().noted) {
            self.rows.forget_if(changed.meets(context.views()));
            if changed.meets(&context.indexes().moving) {
                self.entries.take_moves(context, row);
            }
        }
        Step::Done(true)
    }
}

fn check_change<M: Machine>(
    table: &Table<M>,
    key: &[Value],
    column: usize,
    value: &Value,
) -> Result<(), OpError> {
    table.schema().check_value(column, value)?;
    let in_key = table.schema().primary_key().iter().position(|at| *at == column);
    match in_key.and_then(|at| key.get(at)) {
        Some(same) if same != value => Err(OpError::key_update(table, column)),
        _ => Ok(()),
    }
}
