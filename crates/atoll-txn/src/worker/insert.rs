//! Inserting rows.
//!
//! 1. Look for the key. A row that is there, for this transaction, is a duplicate; one that is
//!    absent (deleted, or another's that has not committed) is written; otherwise
//! 2. claim a slot, put the key into it, let the scheme know the row, and add it to the hash index,
//!    where two who insert the same key at once meet;
//! 3. disturb the gap, so that whoever found the key absent is ordered before or stops;
//! 4. the same for each ordered index.
//!
//! Rows that are given together take these steps in one section of the gate, a window at a time,
//! but for the ordered indexes, which come after the window's last row.

use std::ops::Bound;

use atoll_machine::Machine;
use atoll_storage::image::plain;
use atoll_storage::ordered::KeyRange;
use atoll_storage::{Change, RowId, Table, Value};

use super::entries::Entries;
use super::scan::ScanRoom;
use super::step::{Found, Step, Wanted, find};
use super::{Named, Txn, Worker};
use crate::accounting::Component;
use crate::edits::What;
use crate::engine::{Engine, Guard};
use crate::error::Stop;
use crate::row::{Own, Row};
use crate::scheme::{AbortReason, Refusal, Scheme};

/// A transaction with many rows must not leave its worker with room for all their keys.
const KEPT_MAX: usize = 4096;
/// Rows that are inserted in one section of the gate, unless the scheme refuses one.
const WINDOW: usize = 16;

/// How far the addition of an entry has come. Where the scheme refuses something it goes on from
/// there: who waits asks for nothing again that it has.
struct Addition<'r> {
    room: &'r mut ScanRoom,
    /// Of the batch in the room, so many entries are no other row's with the key.
    looked_at: usize,
    /// There may be such entries behind the batch.
    more: bool,
}

impl<'r> Addition<'r> {
    /// Of the next entry.
    fn of(entries: &Entries, room: &'r mut ScanRoom) -> Self {
        let entry = &entries.made[entries.added];
        room.batch.rewind();
        if entry.unique {
            room.batch.limit(None);
            room.from.clear();
            room.from.extend_from_slice(entries.key(entry));
        }
        Self { room, looked_at: 0, more: entry.unique }
    }
}

impl<S: Scheme<M>, M: Machine> Worker<S, M> {
    /// Inserts rows, as if one after the other. Their values lie one after the other, each row with
    /// as many as the table has columns.
    ///
    /// # Errors
    /// [`Stop::Abort`]; [`Stop::ReadOnly`], and [`Stop::Storage`] for values that do not fit:
    /// nothing has been done then; [`Stop::DuplicateKey`]: the rows before have been inserted.
    pub fn insert(&mut self, table: &Table<M>, rows: &[Value]) -> Result<(), Stop> {
        self.check_open()?;
        self.check_table(table)?;
        self.check_writable(table)?;
        let schema = table.schema();
        let (columns, width) = (schema.columns().len(), schema.primary_key().len());
        if rows.is_empty() {
            schema.check_row(rows)?;
        }
        let mut keys = std::mem::take(&mut self.keys);
        keys.clear();
        let checked = rows.chunks(columns).try_for_each(|row| {
            schema.check_row(row)?;
            keys.extend(schema.primary_key().iter().map(|at| row[*at].clone()));
            Ok::<_, Stop>(())
        });
        let done = checked.and_then(|()| {
            let mut windows = rows.chunks(WINDOW * columns).zip(keys.chunks(WINDOW * width));
            windows.try_for_each(|(rows, keys)| self.insert_window(table, rows, keys))
        });
        if keys.capacity() <= KEPT_MAX {
            self.keys = keys;
        }
        done
    }

    fn insert_window(
        &mut self,
        table: &Table<M>,
        rows: &[Value],
        keys: &[Value],
    ) -> Result<(), Stop> {
        let schema = table.schema();
        let (columns, width) = (schema.columns().len(), schema.primary_key().len());
        let count = rows.len() / columns;
        let mut hashes = [0; WINDOW];
        for (hash, key) in hashes.iter_mut().zip(keys.chunks(width)) {
            self.check_partition(table, key.first(), true)?;
            *hash = table.hash(key);
        }
        if count > 1 {
            hashes[..count].iter().for_each(|hash| M::touch(table.index().line_of(*hash), 1));
        }
        let (mut at, mut is_placed) = (0, false);
        let duplicate = self.until_done(table, |engine, txn, guard, change| {
            while at < count {
                let wanted = Wanted { hash: hashes[at], key: &keys[at * width..][..width] };
                if !is_placed {
                    let row = &rows[at * columns..][..columns];
                    match txn.insert(engine, guard, change, wanted, row) {
                        Step::Done(true) => is_placed = true,
                        Step::Done(false) => return Step::Done(Some(wanted.key)),
                        Step::Again => return Step::Again,
                        Step::Refused(refusal) => return Step::Refused(refusal),
                        Step::Failed(stop) => return Step::Failed(stop),
                    }
                }
                let (place, gap) = guard.stripe(wanted.hash);
                if let Err(refusal) = engine.scheme.disturb(&mut txn.local, place, gap) {
                    return Step::Refused(refusal);
                }
                (at, is_placed) = (at + 1, false);
            }
            Step::Done(None)
        })?;
        self.add_entries(table)?;
        let Some(key) = duplicate else { return Ok(()) };
        self.check_consistent()?;
        let (table, key) = (table.name().to_owned(), table.display_key(key));
        Err(Stop::DuplicateKey { table, key })
    }

    /// Adds the entries that have been noted to their indexes.
    pub(super) fn add_entries(&mut self, table: &Table<M>) -> Result<(), Stop> {
        while self.txn.entries.added < self.txn.entries.made.len() {
            self.check_entry_partitions(table)?;
            let mut room = std::mem::take(&mut self.scan_room);
            let mut addition = Addition::of(&self.txn.entries, &mut room);
            let clash = self.until_done(table, |engine, txn, guard, _| {
                txn.add_entry(engine, guard, &mut addition)
            });
            self.scan_room = room;
            let clash = clash?;
            self.txn.entries.added += 1;
            if clash {
                self.check_consistent()?;
                // The row is in the table already, so there is no way back but this.
                let index = self.txn.entries.made[self.txn.entries.added - 1].index;
                let guard = self.engine.tables.guard(table.id());
                let stop = Stop::DuplicateIndexKey {
                    table: table.name().to_owned(),
                    index: guard.indexes[index].name.clone(),
                };
                self.abort(AbortReason::Finished);
                return Err(stop);
            }
        }
        Ok(())
    }
}

impl<S: Scheme<M>, M: Machine> Txn<S, M> {
    /// `Done(false)`: there is a row with this key.
    fn insert(
        &mut self,
        engine: &Engine<S, M>,
        guard: &Guard<S, M>,
        change: Change,
        wanted: Wanted<'_>,
        row: &[Value],
    ) -> Step<bool> {
        let found = self.locate(guard, wanted);
        if let Some(found) = found {
            let is_it = || found.meta.has_hash(wanted.hash);
            let read = self.read_row(engine, guard, found, &is_it, |_| {});
            return match self.note_absence(engine, guard, wanted.hash, read) {
                Step::Done(true) => Step::Done(false),
                Step::Done(false) => self.come_back(engine, guard, found, wanted.hash, row),
                other => other,
            };
        }
        // A slot may be left from an attempt that was refused.
        let at = match self.claimed.take_if(|(table, _)| *table == guard.table.id()) {
            Some((_, at)) => at,
            None => match self.claim(guard, change) {
                Ok(at) => at,
                Err(error) => return Step::Failed(error.into()),
            },
        };
        self.place(engine, guard, change, (at, wanted), row)
    }

    fn claim(
        &mut self,
        guard: &Guard<S, M>,
        change: Change,
    ) -> Result<RowId, atoll_storage::StorageError> {
        let at = guard.table.id().0 as usize;
        if self.fillings.len() <= at {
            self.fillings.resize(at + 1, atoll_storage::Filling::default());
        }
        guard.table.claim(change, &mut self.fillings[at])
    }

    /// The row of the key is absent: it is written.
    fn come_back(
        &mut self,
        engine: &Engine<S, M>,
        guard: &Guard<S, M>,
        found: Found<'_, S, M>,
        hash: u64,
        row: &[Value],
    ) -> Step<bool> {
        let at = found.slot.id();
        let own = self.own(guard, at);
        if let Err(refusal) = self.ask_write_of(engine, guard, found, hash, true) {
            return Step::Refused(refusal);
        }
        let what = match own {
            Some((_, What::Remove)) => What::Replace,
            Some((_, What::Nothing)) => What::Add,
            _ => What::Return,
        };
        self.forget = true;
        self.keep(guard, at, what, row);
        Step::Done(true)
    }

    /// Puts a whole row into the write set, but for the key, which is in its slot.
    fn keep(&mut self, guard: &Guard<S, M>, at: RowId, what: What, row: &[Value]) {
        let table = guard.table.id();
        let mut edits = self.edits.borrow_mut();
        let known = edits.find(table, at);
        let place = known.unwrap_or_else(|| edits.add(table, at, what));
        edits.set_what(place, what);
        let mark = edits.mark();
        for (column, value) in row.iter().enumerate() {
            if !guard.table.schema().primary_key().contains(&column) {
                let mut room = [0; 16];
                edits.put(column, plain(value, &mut room));
            }
        }
        edits.give(mark, place);
        drop(edits);
        let own = Own { edits: &self.edits, at: Some(place), since: None };
        let view = Row::stored(&*guard.table, guard.table.slot(at)).under(None, Some(own));
        // An entry of its own row that goes when it commits comes back with it.
        self.entries.note_made(guard, at, &view, true);
    }

    /// Makes a claimed slot the row of the key.
    fn place(
        &mut self,
        engine: &Engine<S, M>,
        guard: &Guard<S, M>,
        change: Change,
        (at, wanted): (RowId, Wanted<'_>),
        row: &[Value],
    ) -> Step<bool> {
        let table = &guard.table;
        let meta = guard.rows.get(at);
        // That the table was made, at least.
        self.note_gsn(guard.gone_gsn());
        let before = self.stopwatch.switch::<M>(Component::Manager);
        let asked = self.ask_new(engine, guard, at);
        self.stopwatch.switch::<M>(before);
        if let Err(refusal) = asked {
            // Somebody still looks at the slot through an entry that is gone.
            self.claimed = Some((table.id(), at));
            return Step::Refused(refusal);
        }
        if let Err(error) = table.fill_key(change, at, wanted.key) {
            self.unused.push((table.id(), at));
            return Step::Failed(error.into());
        }
        let before = self.stopwatch.switch::<M>(Component::Index);
        let named = Named { table: table.id(), row: at, hash: wanted.hash };
        let is_same = |other: RowId| {
            guard.rows.get(other).has_hash(wanted.hash)
                && (table.is_exact(wanted.hash) || table.has_key(other, wanted.key))
                && (self.gone_rows.is_empty()
                    || !self.gone_rows.contains(&(named.table.0, other.0)))
        };
        let other = table.index().insert(wanted.hash, at, is_same, || meta.set_hash(wanted.hash));
        self.stopwatch.switch::<M>(before);
        if other.is_some() {
            // Somebody else was faster: look at what they have.
            table.vacate(change, at);
            self.unused.push((table.id(), at));
            let target = super::target(guard, at, meta);
            let withdrawn = engine.scheme.write(&mut self.local, engine.tables(), target, false);
            if withdrawn.is_err() {
                // A scheme that has become stricter meanwhile asks for a lock that it did not ask
                // for before, and somebody who tidies holds it. The row must not come to be.
                return Step::Refused(AbortReason::Denied.into());
            }
            if !Self::IN_PLACE {
                self.edits.borrow_mut().add(table.id(), at, What::Nothing);
            }
            return Step::Again;
        }
        // A row that is stored at commit can be gone already: another has brought it back, a third
        // has deleted that, and it was taken away (GRAVES-2: this transaction cannot commit then).
        debug_assert!(
            !Self::IN_PLACE || find(guard, wanted.hash, wanted.key, &self.gone_rows).is_some()
        );
        self.made.push(named);
        if Self::IN_PLACE {
            let mut room = [0; 16];
            let slot = table.slot(at);
            let filled = row.iter().enumerate().try_for_each(|(column, value)| {
                if table.schema().primary_key().contains(&column) {
                    return Ok(());
                }
                table.fill_value(change, slot, column, plain(value, &mut room))
            });
            let filled = filled.and_then(|()| table.appear(change, at, &mut self.undo));
            if let Err(error) = filled {
                return Step::Failed(error.into());
            }
            let view = Row::stored(&**table, slot);
            self.entries.note_made(guard, at, &view, false);
        } else {
            self.keep(guard, at, What::Add, row);
        }
        Step::Done(true)
    }

    fn ask_new(
        &mut self,
        engine: &Engine<S, M>,
        guard: &Guard<S, M>,
        at: RowId,
    ) -> Result<(), Refusal> {
        let meta = guard.rows.get(at);
        let tables = engine.tables();
        if !Self::IN_PLACE {
            // That it is absent is something that others may change.
            let target = super::target(guard, at, meta);
            engine.scheme.read(&mut self.local, tables, target, &mut |_| true)?;
        }
        engine.scheme.write(&mut self.local, tables, super::target(guard, at, meta), true)
    }

    /// Adds the next entry and disturbs its gap. `Done(true)`: the index is unique and another row
    /// has the key.
    fn add_entry(
        &mut self,
        engine: &Engine<S, M>,
        guard: &Guard<S, M>,
        addition: &mut Addition<'_>,
    ) -> Step<bool> {
        match self.has_other(engine, guard, addition) {
            Step::Done(false) => {}
            other => return other,
        }
        let entry = self.entries.made[self.entries.added];
        let ordered = &guard.indexes[entry.index];
        let before = self.stopwatch.switch::<M>(Component::Index);
        let Self { local, entries, .. } = self;
        let key = entries.key(&entry);
        // Once more after a wait, since the leaf may have been split.
        let leaf = ordered.index.insert(key, entry.row, &mut |old, new| {
            engine.scheme.split(local, guard.leaf(entry.index, old), guard.leaf(entry.index, new))
        });
        self.stopwatch.switch::<M>(before);
        let (place, gap) = guard.leaf(entry.index, leaf);
        match engine.scheme.disturb(&mut self.local, place, gap) {
            Ok(()) => Step::Done(false),
            Err(refusal) => Step::Refused(refusal),
        }
    }

    /// Whether another row has the key of the next entry, if none may.
    fn has_other(
        &mut self,
        engine: &Engine<S, M>,
        guard: &Guard<S, M>,
        addition: &mut Addition<'_>,
    ) -> Step<bool> {
        let entry = self.entries.made[self.entries.added];
        let Addition { room: ScanRoom { batch, from: key, .. }, looked_at, more } = addition;
        let range = KeyRange {
            from: Bound::Included(&key[..]),
            to: Bound::Included(&key[..]),
            descending: false,
        };
        loop {
            while let Some(found) = batch.get(*looked_at) {
                let named = (found.row, found.key);
                if found.row != entry.row {
                    match self.read_found(engine, guard, entry.index, named, &mut |_| {}) {
                        Step::Done(false) => {}
                        other => return other,
                    }
                }
                *looked_at += 1;
            }
            if !*more {
                return Step::Done(false);
            }
            match self.watch_batch(engine, guard, entry.index, &range, batch) {
                Ok(has_more) => (*more, *looked_at) = (has_more, 0),
                Err(refusal) => return Step::Refused(refusal),
            }
        }
    }
}
