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
use atoll_storage::{Change, Table, Value};

use super::step::{Found, Step, Wanted};
use super::{Txn, Worker};
use crate::accounting::Component;
use crate::engine::{Engine, Guard};
use crate::error::Stop;
use crate::row::{Row, RowEdit};
use crate::scheme::Scheme;

/// Keys whose cache lines are brought in at a time.
const WINDOW: usize = 32;
const _: () = assert!(WINDOW <= u32::BITS as usize, "a set of them is a word");
/// A transaction over a whole table must not leave its worker with the table's size.
const KEPT_MAX: usize = 4096;

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
#[derive(Debug, Clone, Copy)]
pub(super) struct Sought {
    hash: u64,
    update: bool,
}

/// The keys of a window.
#[derive(Clone, Copy)]
struct Window<'w> {
    /// Position of its first key.
    first: usize,
    sought: &'w [Sought],
    keys: &'w [Value],
}

/// Where the rows of a window's keys were seen.
type Seen<'g, S, M> = [Option<Found<'g, S, M>>; WINDOW];

impl<S: Scheme<M>, M: Machine> Worker<S, M> {
    /// Calls `body` for each of the keys, in their order, with its position and its row. Keys lie
    /// one after the other, each with as many values as the primary key has columns; `wants` says
    /// for the position of a key what will be done with the row. Both are called inside the gate,
    /// perhaps several times for a key.
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
        let mut sought = std::mem::take(&mut self.sought);
        let done = self.seek(table, keys, wants, &mut sought).and_then(|()| {
            let width = table.schema().primary_key().len();
            let mut first = 0;
            for (sought, keys) in sought.chunks(WINDOW).zip(keys.chunks(WINDOW * width)) {
                self.visit_window(table, Window { first, sought, keys }, wants, body)?;
                first += sought.len();
            }
            Ok(())
        });
        sought.clear();
        if sought.capacity() <= KEPT_MAX {
            self.sought = sought;
        }
        done
    }

    /// Checks the keys, before anything is done.
    fn seek<'c>(
        &mut self,
        table: &Table<M>,
        keys: &[Value],
        wants: &dyn Fn(usize) -> Want<'c>,
        sought: &mut Vec<Sought>,
    ) -> Result<(), Stop> {
        let mut any_update = false;
        let is_replicated = self.engine.tables.guard(table.id()).replicated;
        let keys = keys.chunks(table.schema().primary_key().len());
        for (at, key) in keys.clone().enumerate() {
            let update = wants(at).update;
            any_update |= update;
            sought.push(Sought { hash: table.hash_of(key)?, update });
        }
        if any_update {
            self.check_writable(table)?;
        }
        if S::PARTITIONED && !self.partitions.is_empty() {
            let partitions = self.engine.partitions();
            for (sought, key) in sought.iter().zip(keys) {
                // Most transactions have named one, and keep to it.
                let partition = crate::engine::partition_of(key.first(), partitions);
                if self.partitions[..] != [partition] || is_replicated {
                    self.check_partition(table, key.first(), sought.update)?;
                }
            }
        }
        Ok(())
    }

    fn visit_window<'c>(
        &mut self,
        table: &Table<M>,
        window: Window<'_>,
        wants: &dyn Fn(usize) -> Want<'c>,
        body: Visitor<'_, M>,
    ) -> Result<(), Stop> {
        let before = self.txn.stopwatch.switch::<M>(Component::Index);
        let mut homes = [None; WINDOW];
        for (home, sought) in homes.iter_mut().zip(window.sought) {
            let bucket = table.index().home(sought.hash);
            M::touch(bucket.line(), 1);
            *home = Some(bucket);
        }
        self.txn.stopwatch.switch::<M>(before);
        let (mut at, mut is_new) = (0, true);
        while at < window.sought.len() {
            self.until_done(table, |engine, txn, guard, change| {
                let mut seen = [None; WINDOW];
                if std::mem::take(&mut is_new) {
                    txn.look_ahead(guard, window, &homes, wants, &mut seen);
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
    fn look_ahead<'g, 'c>(
        &mut self,
        guard: &'g Guard<S, M>,
        window: Window<'_>,
        homes: &[Option<Home<'_, M>>; WINDOW],
        wants: &dyn Fn(usize) -> Want<'c>,
        seen: &mut Seen<'g, S, M>,
    ) {
        let before = self.stopwatch.switch::<M>(Component::Index);
        let (index, hints) = (guard.table.index(), &mut self.ahead.hints);
        let mut see = |at: usize, row| {
            let found = Found::new(guard, row);
            found.hint(guard, wants(window.first + at).columns, hints);
            seen[at] = Some(found);
        };
        let mut elsewhere = 0u32;
        for (at, (home, sought)) in homes.iter().zip(window.sought).enumerate() {
            match home.and_then(|home| home.guess(sought.hash)) {
                Some(row) => see(at, row),
                None => elsewhere |= 1 << at,
            }
        }
        // Not in the bucket where it should be: in one of the next, or nowhere.
        while elsewhere != 0 {
            let at = elsewhere.trailing_zeros() as usize;
            if let Some(row) = index.find(window.sought[at].hash, |_| true) {
                see(at, row);
            }
            elsewhere &= elsewhere - 1;
        }
        hints.give::<M>();
        if !guard.views.is_empty() {
            for (at, found) in seen.iter().enumerate() {
                let Some(found) = found else { continue };
                let columns = wants(window.first + at).columns;
                guard.table.hint_at_long_values(found.slot, columns, hints);
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
        (window, seen): (Window<'_>, &Seen<'_, S, M>),
        at: &mut usize,
        body: Visitor<'_, M>,
    ) -> Step<()> {
        let width = guard.table.schema().primary_key().len();
        let begin = *at;
        while let Some(Sought { hash, update }) = window.sought.get(*at).copied() {
            let wanted = Wanted { hash, key: &window.keys[*at * width..][..width] };
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
