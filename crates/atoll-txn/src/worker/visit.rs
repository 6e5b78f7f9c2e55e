//! Reading and changing many rows whose keys are known together.
//!
//! For one row after the other, most of the work is the same each time: going inside, looking up
//! what belongs to the table, calling through the table of functions. Here it is done once for a
//! window of keys, and what has been found for a key is kept until the key's turn comes.
//!
//! The keys' cache lines are brought in as [`super::ahead`] describes; a window's fit into a first
//! cache. The accesses come in the order of the keys, each as if it were made by itself: the
//! windows are no atomic steps, and a scheme that makes the transaction wait does so outside the
//! gate.

use atoll_machine::Machine;
use atoll_storage::index::Home;
use atoll_storage::{Change, StorageError, Table, Value};

use super::step::{Found, Step, Wanted};
use super::{Txn, Worker};
use crate::accounting::Component;
use crate::engine::Engine;
use crate::error::Stop;
use crate::row::{Row, RowEdit};
use crate::scheme::Scheme;
use crate::tables::Guard;

/// Keys whose cache lines are brought in at a time.
const WINDOW: usize = 32;

/// What a transaction is going to do with a row.
#[derive(Debug, Clone, Copy)]
pub struct Want<'c> {
    /// Columns that will be read or changed: a hint.
    pub columns: &'c [usize],
    /// Whether the row may be changed.
    pub update: bool,
}

impl<'c> Want<'c> {
    /// To read these columns.
    pub const fn read(columns: &'c [usize]) -> Self {
        Self { columns, update: false }
    }

    /// To read and change these columns.
    pub const fn update(columns: &'c [usize]) -> Self {
        Self { columns, update: true }
    }
}

/// A row as it is visited.
pub enum Visit<'v, 'a, M: Machine> {
    /// There is no row with the key.
    Absent,
    /// It is to be read.
    Read(&'v Row<'a, M>),
    /// It may be changed.
    Update(&'v mut RowEdit<'a, M>),
}

/// What is called with the position of a key and its row.
pub type Visitor<'b, M> = &'b mut dyn FnMut(usize, Visit<'_, '_, M>);

/// A key that has been checked.
struct Sought<'c, 't, M: Machine> {
    hash: u64,
    want: Want<'c>,
    /// Where the index should have it.
    home: Home<'t, M>,
}

impl<M: Machine> Clone for Sought<'_, '_, M> {
    #[inline]
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Machine> Copy for Sought<'_, '_, M> {}

/// The keys of a window.
struct Window<'w, 'c, 't, M: Machine> {
    /// Position of its first key.
    first: usize,
    keys: &'w [Value],
    /// So many values are a key.
    width: usize,
    sought: [Option<Sought<'c, 't, M>>; WINDOW],
    any_update: bool,
}

impl<'w, M: Machine> Window<'w, '_, '_, M> {
    fn new(first: usize, keys: &'w [Value], width: usize) -> Self {
        Self { first, keys, width, sought: [None; WINDOW], any_update: false }
    }

    fn len(&self) -> usize {
        self.keys.len() / self.width
    }
}

impl<'c, 't, M: Machine> Window<'_, 'c, 't, M> {
    /// Checks the keys, and brings in the buckets of the index.
    fn seek(
        &mut self,
        table: &'t Table<M>,
        wants: &dyn Fn(usize) -> Want<'c>,
    ) -> Result<(), StorageError> {
        let index = table.index();
        for (at, key) in self.keys.chunks_exact(self.width).enumerate() {
            let hash = table.hash_of(key)?;
            let home = index.home(hash);
            M::touch(home.line(), 1);
            let want = wants(self.first + at);
            self.any_update |= want.update;
            self.sought[at] = Some(Sought { hash, want, home });
        }
        Ok(())
    }
}

/// Where the rows of a window's keys were seen.
type Seen<'g, S, M> = [Option<Found<'g, S, M>>; WINDOW];

impl<S: Scheme<M>, M: Machine> Worker<S, M> {
    /// Calls `body` for each of the keys, in their order, with its position and its row. Keys lie
    /// one after the other, each with as many values as the primary key has columns; `wants` says
    /// for the position of a key what will be done with the row. Both are called several times for
    /// a key perhaps, `body` inside the gate.
    ///
    /// # Errors
    /// [`Stop::Abort`]; [`Stop::ReadOnly`], and [`Stop::Storage`] for a key that does not fit the
    /// table: nothing has been done then; [`Stop::OtherPartition`], [`Stop::DuplicateIndexKey`],
    /// and [`Stop::KeyUpdate`] and [`Stop::Storage`] for values that do not fit: the transaction
    /// has been rolled back then.
    pub fn visit<'c>(
        &mut self,
        table: &Table<M>,
        keys: &[Value],
        wants: &dyn Fn(usize) -> Want<'c>,
        body: Visitor<'_, M>,
    ) -> Result<(), Stop> {
        self.check_open()?;
        self.check_table(table)?;
        let width = table.schema().primary_key().len();
        if !keys.len().is_multiple_of(width) {
            table.schema().check_key(&keys[keys.len() / width * width..])?;
        }
        let windows = keys.chunks(WINDOW * width).enumerate();
        let windows = windows.map(|(at, keys)| Window::new(at * WINDOW, keys, width));
        if keys.len() > WINDOW * width {
            // Before anything is done in the first, the keys of all are checked.
            windows.clone().try_for_each(|mut window| self.seek(table, &mut window, wants))?;
        }
        for mut window in windows {
            self.seek(table, &mut window, wants)?;
            self.visit_window(table, &window, body)?;
        }
        Ok(())
    }

    /// Checks the keys of a window, before anything is done with their rows.
    fn seek<'c, 't>(
        &mut self,
        table: &'t Table<M>,
        window: &mut Window<'_, 'c, 't, M>,
        wants: &dyn Fn(usize) -> Want<'c>,
    ) -> Result<(), Stop> {
        let before = self.txn.stopwatch.switch::<M>(Component::Index);
        // If `wants` panics, rows of other windows may have been changed.
        self.txn.is_broken = true;
        let sought = window.seek(table, wants);
        self.txn.is_broken = false;
        self.txn.stopwatch.switch::<M>(before);
        sought?;
        if window.any_update {
            self.check_writable(table)?;
        }
        if S::PARTITIONED && !self.partitions.is_empty() {
            self.check_partitions(table, window)?;
        }
        Ok(())
    }

    /// That the transaction may touch the keys.
    fn check_partitions(
        &mut self,
        table: &Table<M>,
        window: &Window<'_, '_, '_, M>,
    ) -> Result<(), Stop> {
        let partitions = self.engine.partitions();
        let is_replicated = self.engine.tables.guard(table.id()).replicated;
        let keys = window.keys.chunks(window.width);
        for (sought, key) in window.sought.iter().flatten().zip(keys) {
            // Most transactions have named one, and keep to it.
            let partition = crate::engine::partition_of(key.first(), partitions);
            if self.partitions[..] != [partition] || is_replicated {
                self.check_partition(table, key.first(), sought.want.update)?;
            }
        }
        Ok(())
    }

    fn visit_window(
        &mut self,
        table: &Table<M>,
        window: &Window<'_, '_, '_, M>,
        body: Visitor<'_, M>,
    ) -> Result<(), Stop> {
        let (mut at, mut is_new) = (0, true);
        while at < window.len() {
            self.until_done(table, |engine, txn, guard, change| {
                let mut seen = [None; WINDOW];
                if std::mem::take(&mut is_new) {
                    txn.look_ahead(guard, window, &mut seen);
                }
                txn.visit_some(engine, guard, change, (window, &seen), &mut at, &mut *body)
            })?;
            self.add_entries(table)?;
        }
        Ok(())
    }
}

impl<S: Scheme<M>, M: Machine> Txn<S, M> {
    /// Sees where the rows of a window's keys are and brings in what will be accessed of them.
    fn look_ahead<'g>(
        &mut self,
        guard: &'g Guard<S, M>,
        window: &Window<'_, '_, '_, M>,
        seen: &mut Seen<'g, S, M>,
    ) {
        let before = self.stopwatch.switch::<M>(Component::Index);
        let (index, hints) = (guard.table.index(), &mut self.ahead.hints);
        for (seen, sought) in seen.iter_mut().zip(&window.sought) {
            let Some(Sought { hash, want, home }) = *sought else { break };
            // If it is not in the bucket where it should be, in one of the next, or nowhere.
            let row = home.guess(hash).or_else(|| index.find(hash, |_| true));
            let Some(row) = row else { continue };
            let found = Found::new(guard, row);
            found.hint(guard, want.columns, hints);
            *seen = Some(found);
        }
        hints.give::<M>();
        if !guard.views.is_empty() {
            for (found, sought) in seen.iter().zip(window.sought.iter().flatten()) {
                let Some(found) = found else { continue };
                guard.table.hint_at_long_values(found.slot, sought.want.columns, hints);
            }
            hints.give::<M>();
        }
        self.stopwatch.switch::<M>(before);
    }

    /// Visits rows of a window from `at` on, in one section, until there is a reason to leave it.
    #[inline]
    fn visit_some(
        &mut self,
        engine: &Engine<S, M>,
        guard: &Guard<S, M>,
        change: Change,
        (window, seen): (&Window<'_, '_, '_, M>, &Seen<'_, S, M>),
        at: &mut usize,
        body: Visitor<'_, M>,
    ) -> Step<()> {
        let begin = *at;
        while let Some(Some(Sought { hash, want, .. })) = window.sought.get(*at) {
            let (hash, update) = (*hash, want.update);
            let wanted = Wanted { hash, key: &window.keys[*at * window.width..][..window.width] };
            let found = match seen[*at] {
                Some(found) if self.is_surely(guard, found.meta, hash) => Some(found),
                _ => self.look_up(guard, wanted),
            };
            let position = window.first + *at;
            let step = if update {
                self.edit(engine, guard, change, wanted, found, |row| {
                    body(position, Visit::Update(row));
                })
            } else {
                self.read(engine, guard, wanted, found, |row| body(position, Visit::Read(row)))
            };
            match step {
                Step::Done(true) => {}
                Step::Done(false) => body(position, Visit::Absent),
                Step::Failed(stop) => return Step::Failed(stop),
                // It is asked for again in a step of its own, so that its waiting begins there.
                Step::Again | Step::Refused(_) if *at > begin => return Step::Done(()),
                Step::Again => return Step::Again,
                Step::Refused(refusal) => return Step::Refused(refusal),
            }
            *at += 1;
            if self.entries.added < self.entries.made.len() {
                // New entries of indexes are added outside.
                return Step::Done(());
            }
        }
        Step::Done(())
    }
}
