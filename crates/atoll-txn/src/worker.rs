//! A worker: what runs transactions, one at a time, on one thread.
//!
//! Invariants
//! - `WORKER-1`: the scheme is asked outside the gate, since it may wait; memory is touched inside
//!   it. What was found before the scheme granted a place is looked at again after.
//! - `WORKER-2`: places are let go only after the context is closed, so a cut never shows a
//!   transaction that read from one that it undoes.
//! - `WORKER-3`: an error while storing leaves a transaction half done, so it is rolled back at
//!   once. Errors found before anything is stored leave it as it was.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use atoll_machine::Machine;
use atoll_memory::{Inside, Member};
use atoll_storage::undo::{Entry, UndoList};
use atoll_storage::{Change, Filling, RowId, StorageError, Table, TableId, Value};

use crate::engine::{Engine, row_place, stripe};
use crate::error::Stop;
use crate::registry::Context;
use crate::scheme::{AbortReason, Scheme};

/// Turns of "find, lock, look again" before a transaction gives up on a row that keeps moving.
const LOOKS_MAX: u32 = 16;
/// Pause before a rollback that found no memory tries again.
const ROLLBACK_PAUSE: Duration = Duration::from_millis(1);

/// See the module.
pub struct Worker<S: Scheme<M>, M: Machine> {
    engine: Arc<Engine<S, M>>,
    member: Member,
    context: Arc<Context>,
    local: S::Local,
    undo: UndoList,
    /// Number of the open transaction once it has stored, 0 before.
    transaction: u64,
    chunks_shown: usize,
    /// Index entries that go if the transaction aborts.
    inserted: Vec<Indexed>,
    /// Index entries that go if it commits, and their rows, to be found fast.
    deleted: Vec<Indexed>,
    deleted_rows: HashSet<(TableId, RowId)>,
    /// A replaced text, or a deleted row, has to be forgotten after commit.
    forget: bool,
    fillings: Vec<Filling>,
    state: State,
    /// The transaction is the database's own and is not counted.
    upkeep: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Idle,
    Open,
    /// Rolled back; the owner of the transaction has not been told of the end yet.
    Finished,
}

#[derive(Clone, Copy)]
struct Indexed {
    table: TableId,
    row: RowId,
    hash: u64,
}

impl<S: Scheme<M>, M: Machine> Worker<S, M> {
    pub(crate) fn new(engine: Arc<Engine<S, M>>, member: Member) -> Self {
        let context = engine.registry.register();
        Self {
            engine,
            member,
            context,
            local: S::Local::default(),
            undo: UndoList::default(),
            transaction: 0,
            chunks_shown: 0,
            inserted: Vec::new(),
            deleted: Vec::new(),
            deleted_rows: HashSet::new(),
            forget: false,
            fillings: Vec::new(),
            state: State::Idle,
            upkeep: false,
        }
    }

    /// The engine.
    pub fn engine(&self) -> &Arc<Engine<S, M>> {
        &self.engine
    }

    /// Begins a transaction; one that is still open is rolled back.
    pub fn begin(&mut self) {
        if self.state == State::Open {
            self.abort(AbortReason::Requested);
        }
        self.engine.scheme.begin(&mut self.local);
        self.state = State::Open;
    }

    /// Whether a transaction is open and can go on.
    pub fn is_open(&self) -> bool {
        self.state == State::Open
    }

    fn check_open(&self) -> Result<(), Stop> {
        if self.state == State::Open { Ok(()) } else { Err(AbortReason::Finished.into()) }
    }

    fn check_ours(&self, table: &Table<M>) -> Result<(), Stop> {
        if Arc::ptr_eq(table.memory(), self.engine.memory()) {
            return Ok(());
        }
        Err(Stop::ForeignTable(table.name().to_owned()))
    }

    /// Rolls back for `reason` and returns it.
    fn give_up(&mut self, reason: AbortReason) -> Stop {
        self.abort(reason);
        Stop::Abort(reason)
    }

    fn ask_read(&mut self, place: crate::scheme::Place) -> Result<(), Stop> {
        let engine = &self.engine;
        let asked = engine.scheme.read(&mut self.local, engine.tables(), place);
        asked.map_err(|reason| self.give_up(reason))
    }

    fn ask_write(&mut self, place: crate::scheme::Place) -> Result<(), Stop> {
        let engine = &self.engine;
        let asked = engine.scheme.write(&mut self.local, engine.tables(), place);
        asked.map_err(|reason| self.give_up(reason))
    }

    fn locate(&mut self, table: &Table<M>, hash: u64, key: &[Value]) -> Option<RowId> {
        let section = self.member.enter();
        let deleted = &self.deleted_rows;
        let found = table
            .find(hash, key, |row| deleted.is_empty() || !deleted.contains(&(table.id(), row)));
        drop(section);
        found
    }

    /// The row of a key, granted by the scheme; `None` when it is granted that there is none.
    fn grant(
        &mut self,
        table: &Table<M>,
        key: &[Value],
        write: bool,
    ) -> Result<Option<RowId>, Stop> {
        self.check_open()?;
        self.check_ours(table)?;
        table.schema().check_key(key)?;
        let hash = table.hash(key);
        for _ in 0..LOOKS_MAX {
            let Some(row) = self.locate(table, hash, key) else {
                self.ask_read(stripe(table.id(), hash))?;
                if self.locate(table, hash, key).is_none() {
                    return Ok(None);
                }
                continue;
            };
            let place = row_place(table.id(), row);
            if write {
                self.ask_write(place)?
            } else {
                self.ask_read(place)?
            }
            let section = self.member.enter();
            let stands = table.is_present(row) && table.has_key(row, key);
            drop(section);
            if stands {
                return Ok(Some(row));
            }
        }
        Err(self.give_up(AbortReason::Conflict))
    }

    /// Reads the given columns of the row with this key; `None` when there is none.
    ///
    /// # Errors
    /// [`Stop::Abort`]; [`Stop::Storage`] for a key that does not fit the table.
    pub fn read(
        &mut self,
        table: &Table<M>,
        key: &[Value],
        columns: impl Iterator<Item = usize>,
    ) -> Result<Option<Vec<Value>>, Stop> {
        let Some(row) = self.grant(table, key, false)? else { return Ok(None) };
        let section = self.member.enter();
        let values = columns.map(|column| table.value(row, column)).collect();
        drop(section);
        Ok(Some(values))
    }

    /// Inserts a row.
    ///
    /// # Errors
    /// [`Stop::Abort`]; [`Stop::DuplicateKey`] and [`Stop::Storage`].
    pub fn insert(&mut self, table: &Table<M>, row: &[Value]) -> Result<(), Stop> {
        self.check_open()?;
        self.check_ours(table)?;
        table.schema().check_row(row)?;
        let key: Vec<Value> =
            table.schema().primary_key().iter().map(|at| row[*at].clone()).collect();
        let hash = table.hash(&key);
        self.ask_write(stripe(table.id(), hash))?;
        if self.grant(table, &key, false)?.is_some() {
            let (table, key) = (table.name().to_owned(), table.display_key(&key));
            return Err(Stop::DuplicateKey { table, key });
        }
        let at = self.claim(table)?;
        let indexed = Indexed { table: table.id(), row: at, hash };
        if let Err(stop) = self.ask_write(row_place(table.id(), at)) {
            table.free(at);
            return Err(stop);
        }
        self.change(|change, undo| table.fill(change, at, row, undo)).inspect_err(|_| {
            table.free(at);
        })?;
        table.index().insert(hash, at);
        self.inserted.push(indexed);
        Ok(())
    }

    fn claim(&mut self, table: &Table<M>) -> Result<RowId, Stop> {
        let at = table.id().0 as usize;
        if self.fillings.len() <= at {
            self.fillings.resize(at + 1, Filling::default());
        }
        let section = self.member.enter();
        let claimed = table.claim(Change::forward(section.inside()), &mut self.fillings[at]);
        drop(section);
        claimed.map_err(|error| self.fail(error))
    }

    /// Changes columns of the row with this key; false when there is none.
    ///
    /// # Errors
    /// [`Stop::Abort`], [`Stop::KeyUpdate`], [`Stop::Storage`].
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
        let Some(row) = self.grant(table, key, true)? else { return Ok(false) };
        self.forget |=
            changes.iter().any(|(column, _)| table.schema().columns()[*column].data_type.is_view());
        self.change(|change, undo| {
            changes
                .iter()
                .filter(|(column, _)| !table.schema().primary_key().contains(column))
                .try_for_each(|(column, value)| table.store(change, row, *column, value, undo))
        })?;
        Ok(true)
    }

    /// Deletes the row with this key; false when there is none.
    ///
    /// # Errors
    /// [`Stop::Abort`], [`Stop::Storage`].
    pub fn delete(&mut self, table: &Table<M>, key: &[Value]) -> Result<bool, Stop> {
        let Some(row) = self.grant(table, key, true)? else { return Ok(false) };
        debug_assert!(!self.deleted_rows.contains(&(table.id(), row)));
        self.change(|change, undo| table.erase(change, row, undo))?;
        self.forget = true;
        self.deleted.push(Indexed { table: table.id(), row, hash: table.hash(key) });
        self.deleted_rows.insert((table.id(), row));
        Ok(true)
    }

    /// Stores inside the gate and shows the undo list to takers.
    fn change(
        &mut self,
        body: impl FnOnce(Change, &mut UndoList) -> Result<(), StorageError>,
    ) -> Result<(), Stop> {
        let section = self.member.enter();
        let done = body(Change::forward(section.inside()), &mut self.undo);
        if !self.undo.is_empty()
            && (self.transaction == 0 || self.undo.chunks().len() > self.chunks_shown)
        {
            if self.transaction == 0 {
                self.transaction = self.engine.registry.number();
            }
            self.context.open(self.transaction, &self.undo);
            self.chunks_shown = self.undo.chunks().len();
        }
        drop(section);
        done.map_err(|error| self.fail(error))
    }

    /// An error while storing.
    fn fail(&mut self, error: StorageError) -> Stop {
        self.abort(AbortReason::Finished); // WORKER-3
        if matches!(error, StorageError::Memory(_)) {
            // What waits for workers only may be enough for the next attempt.
            self.engine.memory().reclaim();
        }
        error.into()
    }

    /// Commits.
    ///
    /// # Errors
    /// [`Stop::Abort`].
    pub fn commit(&mut self) -> Result<(), Stop> {
        self.check_open().inspect_err(|_| self.state = State::Idle)?;
        let engine = Arc::clone(&self.engine);
        let validated = engine.scheme.validate(&mut self.local, engine.tables());
        validated.map_err(|reason| self.give_up(reason))?;
        if self.transaction != 0 {
            self.close();
            for gone in &self.deleted {
                engine.tables().table(gone.table).index().remove(gone.hash, gone.row);
            }
            if self.forget {
                self.forget_entries();
            }
            self.undo.clear();
        }
        engine.scheme.end(&mut self.local, engine.tables());
        for gone in self.deleted.drain(..) {
            engine.tables().table(gone.table).free(gone.row);
        }
        self.finish(Ok(()), State::Idle);
        if self.forget {
            self.forget = false;
            engine.memory().tidy();
        }
        Ok(())
    }

    /// The point at which the transaction ends for snapshots.
    fn close(&mut self) {
        let section = self.member.enter();
        let (epoch, first) = (section.inside().epoch, self.undo.first_epoch());
        self.context.close(&self.engine.registry, epoch, first);
        drop(section);
    }

    fn entries(&self) -> Vec<Entry> {
        let tables = self.engine.tables();
        self.undo.entries(|table, column| tables.table(table).image_bytes(column))
    }

    fn forget_entries(&mut self) {
        for Entry { table, row, was, .. } in self.entries() {
            let section = self.member.enter();
            let change = Change::forward(section.inside());
            self.engine.tables().table(table).forget(change, row, &was);
        }
    }

    /// Rolls the open transaction back; does nothing when none is open.
    pub fn abort(&mut self, reason: AbortReason) {
        if self.state != State::Open {
            self.state = State::Idle;
            return;
        }
        let engine = Arc::clone(&self.engine);
        if self.transaction != 0 {
            for made in &self.inserted {
                engine.tables().table(made.table).index().remove(made.hash, made.row);
            }
            for entry in self.entries().into_iter().rev() {
                self.restore(&engine, &entry);
            }
            self.close();
            self.undo.clear();
        }
        engine.scheme.end(&mut self.local, engine.tables());
        for made in self.inserted.drain(..) {
            engine.tables().table(made.table).free(made.row);
        }
        self.forget = false;
        self.finish(Err(reason), State::Finished);
    }

    /// Puts back one entry. Memory for it is kept back; if even that is used up, others must end
    /// first, so this waits for them rather than leave the row wrong.
    fn restore(&mut self, engine: &Engine<S, M>, entry: &Entry) {
        loop {
            let section = self.member.enter();
            let change = Change::rollback(section.inside());
            let table = engine.tables().table(entry.table);
            let restored = table.restore(change, entry.row, &entry.was);
            drop(section);
            if restored.is_ok() {
                return;
            }
            engine.memory().reclaim();
            std::thread::sleep(ROLLBACK_PAUSE);
        }
    }

    fn finish(&mut self, end: Result<(), AbortReason>, state: State) {
        if !self.upkeep {
            self.context.count(end);
        }
        self.transaction = 0;
        self.chunks_shown = 0;
        self.inserted.clear();
        self.deleted.clear();
        // A transaction that deleted a whole table must not leave its worker with the table's size.
        if self.deleted_rows.capacity() > 1024 {
            self.deleted_rows = HashSet::new();
        } else {
            self.deleted_rows.clear();
        }
        self.state = state;
    }

    /// Stores again the long values that keep sparse blocks of a table alive, each in a transaction
    /// of its own that changes nothing else; those that meet a conflict are left for another time.
    pub fn compact(&mut self, table: &Table<M>, most: usize) {
        if self.state == State::Open {
            return;
        }
        for (row, column) in table.sparse_values(&mut self.member, most) {
            self.begin();
            self.upkeep = true;
            let _left_for_another_time = self.store_again(table, row, column);
            self.abort(AbortReason::Requested);
            self.upkeep = false;
        }
    }

    fn store_again(&mut self, table: &Table<M>, row: RowId, column: usize) -> Result<(), Stop> {
        self.ask_write(row_place(table.id(), row))?;
        self.forget = true;
        self.change(|change, undo| {
            if !table.is_present(row) {
                return Ok(());
            }
            let value = table.value(row, column);
            table.store(change, row, column, &value, undo)
        })?;
        self.commit()
    }

    /// Runs `body` inside the gate, for looking at tables without a transaction.
    pub fn inside<R>(&mut self, body: impl FnOnce(Inside) -> R) -> R {
        let section = self.member.enter();
        body(section.inside())
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
        Some(same) if same != value => Err(Stop::KeyUpdate {
            table: table.name().to_owned(),
            column: table.schema().columns()[column].name.clone(),
        }),
        _ => Ok(()),
    }
}

impl<S: Scheme<M>, M: Machine> Drop for Worker<S, M> {
    fn drop(&mut self) {
        self.abort(AbortReason::Requested);
        for (at, filling) in self.fillings.drain(..).enumerate() {
            if filling.is_active() {
                self.engine.tables().table(TableId(at as u32)).leave(filling);
            }
        }
        self.engine.registry.retire(&self.context);
    }
}
