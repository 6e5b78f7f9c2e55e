//! Filling an index with the rows of a table beside transactions.
//!
//! The index is in the set of the table already, so every transaction that changes a row since
//! keeps it up to date. What is missing are entries of rows that stay as they were. For each of
//! them the row is locked for a moment, or read as a transaction reads it, and gets its entry
//! before it is unlocked; adding an entry again does nothing.
//!
//! - `FILL-1`: an entry is added while no transaction can change its row, so the index gets no
//!   entry of a key that the row has not, and [`Table::is_index_only`] remains true.
//! - `FILL-2`: a row that a transaction is writing is looked at again, since the transaction may
//!   roll back to a key that it has not added.
//! - `FILL-3`: two rows may get one key in a unique index while it is filled, since a transaction
//!   does not find the entry of a row that comes later. So all neighbours are compared when the
//!   transactions have ended that may not have found all entries.

use std::ops::Bound;
use std::time::Duration;

use atoll_machine::Machine;
use atoll_storage::ordered::{Batch, EntryRun, KeyRange};
use atoll_storage::{RowId, Table};

use super::call::{Begin, Call};
use super::found::Found;
use super::step::Step;
use super::thread::Thread;
use super::txn::TxnState;
use crate::error::OpError;
use crate::row::Row;
use crate::scheme::{AbortReason, Scheme, Seen};

/// Segments of which the keys are sorted together, so that neighbours in the index are added one
/// after the other.
const TOGETHER: u64 = 32;
/// Rows between two questions whether to give up, and those that a transaction keeps locked.
const ROWS_PER_QUESTION: usize = 64;
/// Pause before rows that transactions are writing are looked at again.
const PAUSE: Duration = Duration::from_millis(1);

/// Tells whether to give up.
pub type Impatience<'a> = &'a mut dyn FnMut() -> bool;

/// What a row is at the moment.
enum Looked {
    /// A transaction is writing it.
    Busy,
    Absent,
    /// It has a key, which no other row may have, or which others may have.
    Present {
        unique: bool,
    },
}

impl<S: Scheme<M>, M: Machine> Call<'_, S, M> {
    /// Gives an index that is not shown the entries of all rows. No transaction is open here; the
    /// caller uses the table meanwhile, so that no other has it alone.
    ///
    /// # Errors
    /// [`OpError::DuplicateIndexKey`]; [`atoll_storage::StorageError::IndexKeyTooLong`];
    /// [`OpError::Abort`] if `gives_up` says so.
    pub fn fill_index(
        &mut self,
        table: &Table<M>,
        number: usize,
        gives_up: Impatience<'_>,
    ) -> Result<(), OpError> {
        self.as_upkeep(|call| call.fill_all(table, number, gives_up))
    }

    /// Checks that no two rows have the same key in a unique index that has been filled. Every
    /// transaction that uses the table has begun to do so since; the caller uses it, too.
    ///
    /// # Errors
    /// [`OpError::DuplicateIndexKey`]; [`OpError::Abort`] if `gives_up` says so.
    pub fn check_unique(
        &mut self,
        table: &Table<M>,
        number: usize,
        gives_up: Impatience<'_>,
    ) -> Result<(), OpError> {
        self.as_upkeep(|call| call.check_neighbours(table, number, gives_up))
    }

    fn as_upkeep(
        &mut self,
        body: impl FnOnce(&mut Self) -> Result<(), OpError>,
    ) -> Result<(), OpError> {
        self.txn.upkeep = true;
        let done = body(self);
        self.abort(AbortReason::Requested);
        self.txn.upkeep = false;
        done
    }

    fn fill_all(
        &mut self,
        table: &Table<M>,
        number: usize,
        gives_up: Impatience<'_>,
    ) -> Result<(), OpError> {
        let (mut busy, mut from) = (Vec::new(), 0);
        loop {
            let end = table.segment_count().min(from + TOGETHER);
            if from == end {
                break;
            }
            let run = self.gather(table, number, from..end);
            self.fill_run(table, number, &run, &mut busy, gives_up)?;
            from = end;
        }
        let mut key = Vec::new();
        for row in busy {
            while let Looked::Busy = self.look(table, number, row, true, &mut key)? {
                self.pause_for(gives_up)?;
            }
        }
        Ok(())
    }

    /// Sorts the rows of some segments by the keys that they seem to have.
    fn gather(
        &mut self,
        table: &Table<M>,
        number: usize,
        segments: std::ops::Range<u64>,
    ) -> EntryRun {
        let context = self.engine.tables.context(table.id());
        let ordered = &context.indexes()[number];
        // A long value may be half stored; without keys the rows stay in their order.
        let reads = !ordered.columns.iter().any(|at| context.views().may_have(*at));
        let (mut run, mut key) = (EntryRun::default(), Vec::new());
        for segment in segments {
            let _section = self.thread.member.enter();
            for row in table.slots_of(segment).filter(|row| context.may_be_row(*row)) {
                if reads {
                    ordered.key_of(&Row::stored(table, table.slot(row)), &mut key);
                }
                run.add(&key, row, true);
            }
        }
        run.sort();
        run
    }

    /// Adds the entries of rows; notes those that transactions are writing.
    fn fill_run(
        &mut self,
        table: &Table<M>,
        number: usize,
        run: &EntryRun,
        busy: &mut Vec<RowId>,
        gives_up: Impatience<'_>,
    ) -> Result<(), OpError> {
        let (mut key, mut rows, mut failed) = (Vec::new(), 0, None);
        run.each(|_, row| {
            rows += 1;
            let looked = match rows % ROWS_PER_QUESTION {
                0 => {
                    self.ask(gives_up).and_then(|()| self.look(table, number, row, true, &mut key))
                }
                _ => self.look(table, number, row, true, &mut key),
            };
            match looked {
                Ok(Looked::Busy) => busy.push(row),
                Ok(_) => {}
                Err(error) => failed = Some(error),
            }
            failed.is_none()
        });
        failed.map_or(Ok(()), Err)
    }

    /// Lets go of the rows, and asks whether to give up.
    fn ask(&mut self, gives_up: Impatience<'_>) -> Result<(), OpError> {
        if TxnState::<S, M>::IN_PLACE && self.is_open() && !self.release_reads() {
            self.commit()?;
        }
        if gives_up() { Err(AbortReason::Timeout.into()) } else { Ok(()) }
    }

    fn pause_for(&mut self, gives_up: Impatience<'_>) -> Result<(), OpError> {
        self.ask(gives_up)?;
        M::sleep(PAUSE);
        Ok(())
    }

    /// Looks at a row, and adds its entry if `adds`; `key` gets its key.
    fn look(
        &mut self,
        table: &Table<M>,
        number: usize,
        row: RowId,
        adds: bool,
        key: &mut Vec<u8>,
    ) -> Result<Looked, OpError> {
        self.engine.check_table(table)?;
        if TxnState::<S, M>::IN_PLACE {
            self.look_and_keep(table, number, row, adds, key)
        } else {
            self.look_and_lock(table, number, row, adds, key)
        }
    }

    /// As [`Call::look`], if the scheme can lock a row outside transactions.
    fn look_and_lock(
        &mut self,
        table: &Table<M>,
        number: usize,
        row: RowId,
        adds: bool,
        key: &mut Vec<u8>,
    ) -> Result<Looked, OpError> {
        let Self { engine, thread: Thread { member, .. }, txn } = self;
        let context = engine.tables.context(table.id());
        let ordered = &context.indexes()[number];
        let section = member.enter();
        let found = Found::new(context, row);
        let Some((seen, _)) = engine.scheme.lock(found.target(context)) else {
            return Ok(Looked::Busy);
        };
        let mut done = Ok(Looked::Absent);
        if seen == Seen::Present {
            let unique = ordered.key_of(&Row::stored(table, found.slot), key);
            done = ordered.check_key_len(key).map(|()| Looked::Present { unique });
            if adds && done.is_ok() {
                txn.put_entry(engine, (context, number), key, row);
            }
        }
        engine.scheme.unlock(found.target(context), false);
        drop(section);
        done.map_err(OpError::from)
    }

    /// As [`Call::look`], as a transaction that keeps the row.
    fn look_and_keep(
        &mut self,
        table: &Table<M>,
        number: usize,
        row: RowId,
        adds: bool,
        key: &mut Vec<u8>,
    ) -> Result<Looked, OpError> {
        if !self.is_open() {
            self.begin(Begin { hurried: true, ..Begin::default() })?;
        }
        self.txn.tries = true;
        let looked = self.until_done(table, |txn, (engine, context, _)| {
            let ordered = &context.indexes()[number];
            let found = Found::new(context, row);
            let is_named = || found.meta.is_named();
            if !is_named() {
                return Step::Done(Looked::Absent);
            }
            let mut unique = false;
            let read = txn.read_row(engine, context, found, &is_named, |view| {
                unique = ordered.key_of(view, key);
            });
            match read {
                Step::Done(true) => {}
                Step::Done(false) => return Step::Done(Looked::Absent),
                Step::Again if !is_named() => return Step::Done(Looked::Absent),
                Step::Again => return Step::Again,
                Step::Conflict(conflict) => return Step::Conflict(conflict),
                Step::Failed(error) => return Step::Failed(error),
            }
            if let Err(error) = ordered.check_key_len(key) {
                return Step::Failed(error.into());
            }
            if adds {
                txn.put_entry(engine, (context, number), key, row);
            }
            Step::Done(Looked::Present { unique })
        });
        self.txn.tries = false;
        match looked {
            Err(OpError::Held) => Ok(Looked::Busy),
            Err(OpError::Abort(reason)) if reason.is_conflict() => Ok(Looked::Busy),
            looked => looked,
        }
    }

    /// Compares all neighbours (`FILL-3`).
    fn check_neighbours(
        &mut self,
        table: &Table<M>,
        number: usize,
        gives_up: Impatience<'_>,
    ) -> Result<(), OpError> {
        let range = KeyRange { from: Bound::Unbounded, to: Bound::Unbounded, descending: false };
        let (mut batch, mut key, mut buffer) = (Batch::default(), Vec::new(), Vec::new());
        // Of the rows of the last entries, which have the same key: the first, unless it was looked
        // at, and those that have the key and share it with none.
        let (mut first, mut rows) = (None, Vec::new());
        loop {
            self.ask(gives_up)?;
            let context = self.engine.altered(table)?;
            let ordered = &context.indexes()[number];
            let section = self.thread.member.enter();
            let more = ordered.index.batch(&range, &mut |_| (), &mut batch);
            drop(section);
            for found in batch.iter() {
                if key != found.key {
                    key.clear();
                    key.extend_from_slice(found.key);
                    (first, rows) = (Some(found.row), Vec::new());
                    continue;
                }
                for row in first.take().into_iter().chain([found.row]) {
                    if !self.has_unique(table, number, (row, &mut buffer), gives_up)? {
                        continue;
                    }
                    for other in &rows {
                        self.check_pair(table, number, (*other, row), gives_up)?;
                    }
                    rows.push(row);
                }
            }
            if !more {
                return Ok(());
            }
        }
    }

    /// Whether a row has a key that no other may have; waits for a transaction that is writing it.
    fn has_unique(
        &mut self,
        table: &Table<M>,
        number: usize,
        (row, key): (RowId, &mut Vec<u8>),
        gives_up: Impatience<'_>,
    ) -> Result<bool, OpError> {
        loop {
            match self.look(table, number, row, false, key)? {
                Looked::Busy => self.pause_for(gives_up)?,
                Looked::Present { unique } => return Ok(unique),
                Looked::Absent => return Ok(false),
            }
        }
    }

    /// Checks that two rows do not both have the key that an entry of each has.
    fn check_pair(
        &mut self,
        table: &Table<M>,
        number: usize,
        (one, other): (RowId, RowId),
        gives_up: Impatience<'_>,
    ) -> Result<(), OpError> {
        let (mut key, mut keys) = (Vec::new(), Vec::new());
        // The first again, so that both have been there at the same time.
        for row in [one, other, one] {
            if !self.has_unique(table, number, (row, &mut key), gives_up)? {
                return Ok(());
            }
            keys.push(std::mem::take(&mut key));
        }
        if keys[0] != keys[1] || keys[0] != keys[2] {
            return Ok(());
        }
        let ordered = &self.engine.altered(table)?.indexes()[number];
        let _section = self.thread.member.enter();
        Err(ordered.duplicate(table, other))
    }
}

impl<S: Scheme<M>, M: Machine> TxnState<S, M> {
    /// Adds the entry of a row that no transaction changes meanwhile.
    fn put_entry(
        &mut self,
        engine: &crate::Engine<S, M>,
        (context, number): (&crate::tables::TableContext<S, M>, usize),
        key: &[u8],
        row: RowId,
    ) {
        let local = &mut self.local;
        context.indexes()[number].index.insert(key, row, &mut |old, new| {
            engine.scheme.split(local, context.leaf(number, old), context.leaf(number, new))
        });
    }
}
