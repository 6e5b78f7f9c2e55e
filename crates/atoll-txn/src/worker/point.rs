//! Reading and changing the row of a key.

use std::collections::HashSet;
use std::hash::BuildHasher;

use atoll_machine::Machine;
use atoll_storage::{Change, RowId, Table, Value};

use super::{Named, Txn, Worker, target};
use crate::accounting::Component;
use crate::common::image::Image;
use crate::edits::What;
use crate::engine::{Engine, Guard};
use crate::error::Stop;
use crate::registry::Context;
use crate::row::{ColumnSet, Direct, Own, Row, RowEdit};
use crate::rows::Meta;
use crate::scheme::{AbortReason, Refusal, Scheme, Seen};

/// What is called with a row.
pub type Reader<'b, M> = &'b mut dyn FnMut(&Row<'_, M>);
/// What is called with a row to change it.
pub type Editor<'b, M> = &'b mut dyn FnMut(&mut RowEdit<'_, M>);

/// The row that the index names for a key at the moment. It may belong to a transaction that is
/// still open.
#[inline]
pub(super) fn find<'g, S: Scheme<M>, M: Machine, H: BuildHasher>(
    guard: &'g Guard<S, M>,
    hash: u64,
    key: &[Value],
    gone: &HashSet<(u32, u64), H>,
) -> Option<(RowId, &'g Meta<S, M>)> {
    let table = &guard.table;
    let is_exact = table.is_exact(hash);
    let row = table.index().find(hash, |row| {
        guard.rows.get(row).has_hash(hash)
            && (is_exact || table.has_key(row, key))
            && (gone.is_empty() || !gone.contains(&(table.id().0, row.0)))
    })?;
    Some((row, guard.rows.get(row)))
}

/// How a step ended.
pub(super) enum Step<R> {
    /// It is done.
    Done(R),
    /// Things have moved: once more.
    Again,
    /// The scheme refuses.
    Refused(Refusal),
    /// An error.
    Failed(Stop),
}

/// Shows what a step has stored before the section ends, even if what the step called panics.
pub(super) struct Shown<'t, S: Scheme<M>, M: Machine> {
    pub(super) txn: &'t mut Txn<S, M>,
    pub(super) context: &'t Context,
    pub(super) returned: bool,
}

impl<S: Scheme<M>, M: Machine> Drop for Shown<'_, S, M> {
    #[inline]
    fn drop(&mut self) {
        self.txn.is_broken |= !self.returned;
        if Txn::<S, M>::IN_PLACE {
            self.txn.show(self.context);
        }
    }
}

/// A key that is being looked for.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'k> {
    pub(super) hash: u64,
    pub(super) key: &'k [Value],
}

impl<S: Scheme<M>, M: Machine> Worker<S, M> {
    /// Repeats a step until it is done, waiting in between if the scheme says so.
    #[inline]
    pub(super) fn until_done<R>(
        &mut self,
        table: &Table<M>,
        mut step: impl FnMut(&Engine<S, M>, &mut Txn<S, M>, &Guard<S, M>, Change) -> Step<R>,
    ) -> Result<R, Stop> {
        let mut round = 0;
        loop {
            let Self { engine, member, txn, .. } = self;
            let guard = engine.tables.guard(table.id());
            let section = member.enter();
            let mut shown = Shown { txn, context: &self.context, returned: false };
            let done = step(engine, shown.txn, guard, Change::forward(section.inside()));
            shown.returned = true;
            drop(shown);
            drop(section);
            match done {
                Step::Done(result) => return Ok(result),
                Step::Again => {}
                Step::Refused(refusal) => self.refused(refusal, &mut round)?,
                Step::Failed(stop) => return Err(self.fail_with(stop)),
            }
        }
    }

    fn wanted<'k>(
        &mut self,
        table: &Table<M>,
        key: &'k [Value],
        write: bool,
    ) -> Result<Wanted<'k>, Stop> {
        self.check_open()?;
        self.check_table(table)?;
        let hash = table.hash_of(key)?;
        self.check_partition(table, key.first(), write)?;
        Ok(Wanted { hash, key })
    }

    /// Calls `body` with the row of this key; false when there is none.
    ///
    /// # Errors
    /// [`Stop::Abort`]; [`Stop::Storage`] for a key that does not fit the table.
    pub fn read_with(
        &mut self,
        table: &Table<M>,
        key: &[Value],
        body: Reader<'_, M>,
    ) -> Result<bool, Stop> {
        let wanted = self.wanted(table, key, false)?;
        self.until_done(table, |engine, txn, guard, _| {
            let found = txn.locate(guard, wanted);
            txn.read(engine, guard, wanted, found, &mut *body)
        })
    }

    /// Reads the given columns of the row with this key; `None` when there is none.
    ///
    /// # Errors
    /// As [`Worker::read_with`].
    pub fn read(
        &mut self,
        table: &Table<M>,
        key: &[Value],
        columns: impl Iterator<Item = usize> + Clone,
    ) -> Result<Option<Vec<Value>>, Stop> {
        let mut values = Vec::new();
        let found = self.read_with(table, key, &mut |row| {
            values.clear();
            values.extend(columns.clone().map(|column| row.value(column)));
        })?;
        Ok(found.then_some(values))
    }

    /// Calls `body` with the row of this key to change it; false when there is none.
    ///
    /// # Errors
    /// [`Stop::Abort`]; [`Stop::KeyUpdate`] and [`Stop::Storage`] for values that do not fit: the
    /// transaction has been rolled back then; [`Stop::ReadOnly`].
    pub fn update_with(
        &mut self,
        table: &Table<M>,
        key: &[Value],
        body: Editor<'_, M>,
    ) -> Result<bool, Stop> {
        self.check_writable(table)?;
        let wanted = self.wanted(table, key, true)?;
        let found = self.until_done(table, |engine, txn, guard, change| {
            let found = txn.locate(guard, wanted);
            txn.edit(engine, guard, change, wanted, found, &mut *body)
        })?;
        self.add_entries(table)?;
        Ok(found)
    }

    /// Changes columns of the row with this key; false when there is none.
    ///
    /// # Errors
    /// [`Stop::Abort`]; [`Stop::KeyUpdate`] and [`Stop::Storage`] for values that do not fit:
    /// nothing has changed then; [`Stop::ReadOnly`].
    pub fn update(
        &mut self,
        table: &Table<M>,
        key: &[Value],
        changes: &[(usize, Value)],
    ) -> Result<bool, Stop> {
        self.check_open()?;
        for (column, value) in changes {
            check_change(table, key, *column, value)?;
        }
        self.update_with(table, key, &mut |row| {
            changes.iter().for_each(|(column, value)| row.set(*column, value));
        })
    }

    /// Deletes the row with this key; false when there is none.
    ///
    /// # Errors
    /// [`Stop::Abort`], [`Stop::Storage`], [`Stop::ReadOnly`].
    pub fn delete(&mut self, table: &Table<M>, key: &[Value]) -> Result<bool, Stop> {
        self.check_writable(table)?;
        let wanted = self.wanted(table, key, true)?;
        self.until_done(table, |engine, txn, guard, change| {
            txn.delete(engine, guard, change, wanted)
        })
    }

    /// Brings in the cache lines that finding rows with these keys will need, all at the same time,
    /// for who asks for them in this order; then comes [`Worker::touch`]. Keys lie one after the
    /// other, each with as many values as the primary key has columns. A hint: it grants nothing,
    /// and keys that do not fit are passed over.
    pub fn approach(&mut self, table: &Table<M>, keys: &[Value]) {
        if self.check_table(table).is_err() {
            return;
        }
        let before = self.txn.stopwatch.switch::<M>(Component::Index);
        self.txn.ahead.approach(table, keys);
        self.txn.stopwatch.switch::<M>(before);
    }

    /// Brings in the cache lines that reading or changing the rows will need whose keys were
    /// approached, all at the same time, and remembers where the rows are. `columns` says which
    /// columns of a row are wanted, by the position of its key.
    pub fn touch<'c>(&mut self, table: &Table<M>, columns: &dyn Fn(usize) -> &'c [usize]) {
        if self.check_table(table).is_err() {
            return;
        }
        let Self { engine, member, txn, .. } = self;
        let before = txn.stopwatch.switch::<M>(Component::Index);
        let section = member.enter();
        txn.ahead.touch(engine.tables.guard(table.id()), columns);
        drop(section);
        txn.stopwatch.switch::<M>(before);
    }

    /// Something other than an abort ended a step that may have stored already.
    pub(super) fn fail_with(&mut self, stop: Stop) -> Stop {
        match stop {
            Stop::Storage(error) => self.fail(error),
            other => {
                self.abort(AbortReason::Finished);
                other
            }
        }
    }

    pub(super) fn store_again(
        &mut self,
        table: &Table<M>,
        row: RowId,
        column: usize,
    ) -> Result<(), Stop> {
        self.begin(super::Begin::default())?;
        self.until_done(table, |engine, txn, guard, change| {
            txn.store_again(engine, guard, change, row, column)
        })?;
        self.commit()
    }
}

impl<S: Scheme<M>, M: Machine> Txn<S, M> {
    /// There is nothing in the index: the scheme grants that, and there still is nothing.
    #[inline]
    pub(super) fn watch_absence<R>(
        &mut self,
        engine: &Engine<S, M>,
        guard: &Guard<S, M>,
        wanted: Wanted<'_>,
        absent: R,
    ) -> Step<R> {
        let (place, gap) = guard.stripe(wanted.hash);
        if let Err(refusal) = engine.scheme.watch(&mut self.local, place, gap) {
            return Step::Refused(refusal);
        }
        match find(guard, wanted.hash, wanted.key, &self.gone_rows) {
            None => Step::Done(absent),
            Some(_) => Step::Again,
        }
    }

    /// The row of a key, first where it was expected.
    #[inline]
    pub(super) fn locate<'g>(
        &mut self,
        guard: &'g Guard<S, M>,
        wanted: Wanted<'_>,
    ) -> Option<(RowId, &'g Meta<S, M>)> {
        if let Some(row) = self.ahead.next(guard.table.id(), wanted.hash) {
            let meta = guard.rows.get(row);
            if self.is_surely(guard, meta, wanted.hash) {
                return Some((row, meta));
            }
        }
        self.look_up(guard, wanted)
    }

    /// Whether a row that is thought to have the key has it, as far as the row can tell.
    #[inline]
    pub(super) fn is_surely(&self, guard: &Guard<S, M>, meta: &Meta<S, M>, hash: u64) -> bool {
        meta.has_hash(hash) && guard.table.is_exact(hash) && self.gone_rows.is_empty()
    }

    /// The row of a key, by the index.
    #[inline]
    pub(super) fn look_up<'g>(
        &mut self,
        guard: &'g Guard<S, M>,
        wanted: Wanted<'_>,
    ) -> Option<(RowId, &'g Meta<S, M>)> {
        let before = self.stopwatch.switch::<M>(Component::Index);
        let found = find(guard, wanted.hash, wanted.key, &self.gone_rows);
        self.stopwatch.switch::<M>(before);
        found
    }

    /// A row of the transaction's own write set, as it will be; `None` when it is not fully there.
    pub(super) fn own(&self, guard: &Guard<S, M>, row: RowId) -> Option<(usize, What)> {
        if Self::IN_PLACE {
            return None;
        }
        let edits = self.edits.borrow();
        edits.find(guard.table.id(), row).map(|at| (at, edits.row(at).what))
    }

    /// Reads the row of a key, which was found or not.
    #[inline]
    pub(super) fn read(
        &mut self,
        engine: &Engine<S, M>,
        guard: &Guard<S, M>,
        wanted: Wanted<'_>,
        found: Option<(RowId, &Meta<S, M>)>,
        body: impl FnMut(&Row<'_, M>),
    ) -> Step<bool> {
        let Some((row, meta)) = found else {
            return self.watch_absence(engine, guard, wanted, false);
        };
        let step = self.read_row(engine, guard, (row, meta), &|| meta.has_hash(wanted.hash), body);
        self.note_absence(engine, guard, wanted.hash, step)
    }

    /// A row of the key was looked at and may be absent, see [`Scheme::WATCHES_ABSENT`].
    #[inline]
    pub(super) fn note_absence(
        &mut self,
        engine: &Engine<S, M>,
        guard: &Guard<S, M>,
        hash: u64,
        step: Step<bool>,
    ) -> Step<bool> {
        if !S::WATCHES_ABSENT || !matches!(step, Step::Done(false)) {
            return step;
        }
        let (place, gap) = guard.stripe(hash);
        match engine.scheme.watch(&mut self.local, place, gap) {
            Ok(()) => step,
            Err(refusal) => Step::Refused(refusal),
        }
    }

    /// Reads a row that an index named, if `is_it` still holds then. `Done(false)`: it is absent.
    #[inline]
    pub(super) fn read_row(
        &mut self,
        engine: &Engine<S, M>,
        guard: &Guard<S, M>,
        (row, meta): (RowId, &Meta<S, M>),
        is_it: &impl Fn() -> bool,
        mut body: impl FnMut(&Row<'_, M>),
    ) -> Step<bool> {
        let own = self.own(guard, row);
        let Self { local, edits, stopwatch, .. } = self;
        let own_edits = own.map(|(at, _)| Own { edits, at: Some(at), since: None });
        let stored = Row::stored(&*guard.table, row);
        match own {
            Some((_, What::Remove | What::Nothing | What::Stay)) => return Step::Done(false),
            Some((_, what)) if what.is_whole() => {
                body(&stored.under(None, own_edits));
                return Step::Done(true);
            }
            _ => {}
        }
        let before = stopwatch.switch::<M>(Component::Manager);
        let mut fetch = |image: Option<&Image>| {
            if !is_it() {
                return false;
            }
            let within = stopwatch.switch::<M>(Component::Useful);
            body(&stored.under(image, own_edits));
            stopwatch.switch::<M>(within);
            true
        };
        let target = target(guard, row, meta);
        let seen = engine.scheme.read(local, engine.tables(), target, &mut fetch);
        stopwatch.switch::<M>(before);
        match seen {
            Ok(Seen::Present) => Step::Done(true),
            // In place, a row that is not the key's any more; at commit, perhaps one that is
            // absent.
            Ok(Seen::Absent) if Self::IN_PLACE || !is_it() => Step::Again,
            Ok(Seen::Absent) => Step::Done(false),
            Err(refusal) => Step::Refused(refusal),
        }
    }

    #[inline]
    fn ask_write(
        &mut self,
        engine: &Engine<S, M>,
        guard: &Guard<S, M>,
        (row, meta): (RowId, &Meta<S, M>),
        present: bool,
    ) -> Result<(), Refusal> {
        let before = self.stopwatch.switch::<M>(Component::Manager);
        let target = target(guard, row, meta);
        let asked = engine.scheme.write(&mut self.local, engine.tables(), target, present);
        self.stopwatch.switch::<M>(before);
        asked
    }

    /// As `ask_write`, and the row is still that of the key then.
    pub(super) fn ask_write_of(
        &mut self,
        engine: &Engine<S, M>,
        guard: &Guard<S, M>,
        (row, meta): (RowId, &Meta<S, M>),
        hash: u64,
        present: bool,
    ) -> Result<(), Refusal> {
        self.ask_write(engine, guard, (row, meta), present)?;
        // Asked while the slot was given up: what was granted is of no use.
        if meta.has_hash(hash) { Ok(()) } else { Err(AbortReason::Changed.into()) }
    }

    /// Changes the row of a key, which was found or not.
    #[inline]
    pub(super) fn edit(
        &mut self,
        engine: &Engine<S, M>,
        guard: &Guard<S, M>,
        change: Change,
        wanted: Wanted<'_>,
        found: Option<(RowId, &Meta<S, M>)>,
        body: impl FnMut(&mut RowEdit<'_, M>),
    ) -> Step<bool> {
        let Some((row, meta)) = found else {
            return self.watch_absence(engine, guard, wanted, false);
        };
        if Self::IN_PLACE {
            self.edit_in_place(engine, guard, change, (row, meta), wanted.hash, body)
        } else {
            self.edit_at_commit(engine, guard, (row, meta), wanted.hash, body)
        }
    }

    #[inline]
    fn edit_in_place(
        &mut self,
        engine: &Engine<S, M>,
        guard: &Guard<S, M>,
        change: Change,
        (row, meta): (RowId, &Meta<S, M>),
        hash: u64,
        mut body: impl FnMut(&mut RowEdit<'_, M>),
    ) -> Step<bool> {
        if let Err(refusal) = self.ask_write(engine, guard, (row, meta), true) {
            return Step::Refused(refusal);
        }
        if !meta.has_hash(hash) {
            return Step::Again;
        }
        let view = Row::stored(&*guard.table, row);
        if guard.has_moving {
            self.entries.note_before(guard, &view);
        }
        let direct = Direct { change, undo: &mut self.undo };
        let mut edit = RowEdit::new(view, Some(direct));
        body(&mut edit);
        match edit.finish() {
            Ok(changed) => self.after_edit(guard, &view, changed),
            Err(stop) => Step::Failed(stop),
        }
    }

    /// Long values have to be forgotten, and the row may have moved in an index.
    fn after_edit(
        &mut self,
        guard: &Guard<S, M>,
        view: &Row<'_, M>,
        changed: ColumnSet,
    ) -> Step<bool> {
        self.forget |= changed.meets(guard.views);
        if guard.has_moving {
            self.entries.note_after(guard, view, changed);
            self.entries.take_moves(guard, view.slot.id());
        }
        Step::Done(true)
    }

    #[inline]
    fn edit_at_commit(
        &mut self,
        engine: &Engine<S, M>,
        guard: &Guard<S, M>,
        (row, meta): (RowId, &Meta<S, M>),
        hash: u64,
        mut body: impl FnMut(&mut RowEdit<'_, M>),
    ) -> Step<bool> {
        let own = self.own(guard, row);
        let stored = Row::stored(&*guard.table, row);
        let mark = self.edits.borrow().mark();
        let mut set = Ok(ColumnSet::default());
        let Self { local, edits, stopwatch, entries, .. } = self;
        let at = own.map(|(at, _)| at);
        let mut apply = |image: Option<&Image>| {
            edits.borrow_mut().rewind(mark);
            let before = Own { edits, at, since: None };
            if guard.has_moving {
                entries.note_before(guard, &stored.under(image, Some(before)));
            }
            let after = Some(Own { since: Some(mark), ..before });
            let mut edit = RowEdit::new(stored.under(image, after), None);
            body(&mut edit);
            set = edit.finish();
            if let (Ok(changed), true) = (&set, guard.has_moving) {
                entries.note_after(guard, &stored.under(image, after), *changed);
            }
        };
        match own {
            Some((_, What::Remove | What::Nothing | What::Stay)) => return Step::Done(false),
            Some((_, what)) if what.is_whole() => apply(None),
            _ => {
                let before = stopwatch.switch::<M>(Component::Manager);
                let mut fetch = |image: Option<&Image>| {
                    if !meta.has_hash(hash) {
                        return false;
                    }
                    let within = stopwatch.switch::<M>(Component::Useful);
                    apply(image);
                    stopwatch.switch::<M>(within);
                    true
                };
                let target = target(guard, row, meta);
                let seen = engine.scheme.read(local, engine.tables(), target, &mut fetch);
                stopwatch.switch::<M>(before);
                match seen {
                    Ok(Seen::Present) => {}
                    Ok(Seen::Absent) if !meta.has_hash(hash) => return Step::Again,
                    Ok(Seen::Absent) => {
                        return self.note_absence(engine, guard, hash, Step::Done(false));
                    }
                    Err(refusal) => return Step::Refused(refusal),
                }
            }
        }
        let granted = match (&set, own) {
            (Ok(_), None) => self.ask_write_of(engine, guard, (row, meta), hash, true),
            _ => Ok(()),
        };
        if let Err(refusal) = granted {
            self.edits.borrow_mut().rewind(mark);
            return Step::Refused(refusal);
        }
        let changed = match set {
            Ok(changed) => changed,
            Err(stop) => return Step::Failed(stop),
        };
        let mut edits = self.edits.borrow_mut();
        let at = at.unwrap_or_else(|| edits.add(guard.table.id(), row, What::Change));
        edits.give(mark, at);
        drop(edits);
        self.forget |= changed.meets(guard.views);
        if guard.has_moving {
            self.entries.take_moves(guard, row);
        }
        Step::Done(true)
    }

    fn delete(
        &mut self,
        engine: &Engine<S, M>,
        guard: &Guard<S, M>,
        change: Change,
        wanted: Wanted<'_>,
    ) -> Step<bool> {
        let Some((row, meta)) = self.locate(guard, wanted) else {
            return self.watch_absence(engine, guard, wanted, false);
        };
        if Self::IN_PLACE {
            if let Err(refusal) = self.ask_write(engine, guard, (row, meta), false) {
                return Step::Refused(refusal);
            }
            if !meta.has_hash(wanted.hash) {
                return Step::Again;
            }
            if let Err(error) = guard.table.erase(change, row, &mut self.undo) {
                return Step::Failed(error.into());
            }
            let view = Row::stored(&*guard.table, row);
            self.entries.note_gone(guard, row, &view);
            self.gone_rows.insert((guard.table.id().0, row.0));
        } else {
            let own = self.own(guard, row);
            // Its keys in the indexes are noted before it goes.
            let mut entries = std::mem::take(&mut self.entries);
            entries.mark_gone();
            let is_it = || meta.has_hash(wanted.hash);
            let read = self.read_row(engine, guard, (row, meta), &is_it, |view| {
                entries.rewind_gone();
                entries.note_gone(guard, row, view);
            });
            self.entries = entries;
            match self.note_absence(engine, guard, wanted.hash, read) {
                Step::Done(true) => {}
                other => return other,
            }
            let asked = self.ask_write_of(engine, guard, (row, meta), wanted.hash, false);
            if let Err(refusal) = asked {
                self.entries.rewind_gone();
                return Step::Refused(refusal);
            }
            let what = match own {
                Some((_, What::Add)) => What::Nothing,
                Some((_, What::Return)) => What::Stay,
                _ => What::Remove,
            };
            let mut edits = self.edits.borrow_mut();
            let at = match own {
                Some((at, _)) => at,
                None => edits.add(guard.table.id(), row, what),
            };
            edits.set_what(at, what);
        }
        self.forget = true;
        self.gone.push(Named { table: guard.table.id(), row, hash: wanted.hash });
        Step::Done(true)
    }

    fn store_again(
        &mut self,
        engine: &Engine<S, M>,
        guard: &Guard<S, M>,
        change: Change,
        row: RowId,
        column: usize,
    ) -> Step<()> {
        let meta = guard.rows.get(row);
        if !meta.is_named() {
            return Step::Done(());
        }
        self.forget = true;
        if Self::IN_PLACE {
            if let Err(refusal) = self.ask_write(engine, guard, (row, meta), true) {
                return Step::Refused(refusal);
            }
            if !guard.table.is_present(row) {
                return Step::Done(());
            }
            let value = guard.table.value(row, column);
            let mut room = [0; 16];
            let plain = atoll_storage::image::plain(&value, &mut room);
            return match guard.table.store(
                change,
                guard.table.slot(row),
                column,
                plain,
                &mut self.undo,
            ) {
                Ok(()) => Step::Done(()),
                Err(error) => Step::Failed(error.into()),
            };
        }
        let mut value = Value::Null;
        let read = self.read_row(engine, guard, (row, meta), &|| meta.is_named(), |view| {
            value = view.value(column);
        });
        match read {
            Step::Done(true) => {}
            Step::Refused(refusal) => return Step::Refused(refusal),
            _ => return Step::Done(()),
        }
        if let Err(refusal) = self.ask_write(engine, guard, (row, meta), true) {
            return Step::Refused(refusal);
        }
        let mut room = [0; 16];
        let mut edits = self.edits.borrow_mut();
        let at = edits.add(guard.table.id(), row, What::Change);
        let mark = edits.mark();
        edits.put(column, atoll_storage::image::plain(&value, &mut room));
        edits.give(mark, at);
        Step::Done(())
    }
}

fn check_change<M: Machine>(
    table: &Table<M>,
    key: &[Value],
    column: usize,
    value: &Value,
) -> Result<(), Stop> {
    table.schema().check_value(column, value)?;
    let in_key = table.schema().primary_key().iter().position(|at| *at == column);
    match in_key.and_then(|at| key.get(at)) {
        Some(same) if same != value => Err(Stop::key_update(table, column)),
        _ => Ok(()),
    }
}
