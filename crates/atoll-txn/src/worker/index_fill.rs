//! Filling an index with the rows of a table beside transactions.
//!
//! The index is in the set of the table already, so every transaction that changes a row since
//! keeps it up to date. What is missing are entries of rows that stay as they were. They are added
//! for some segments at a time:
//! 1. Gather the keys that the rows seem to have, in the order of the rows, without a lock.
//! 2. Sort the entries, and insert them by leaves.
//! 3. Look at the rows once more, in their order: each is locked for a moment, or read as a
//!    transaction reads it. If it has another key than was gathered, it gets the entry of that, and
//!    loses the one that was wrong.
//!
//! All three go through memory from its beginning to its end; nothing waits for a cache line.
//!
//! - `FILL-1`: when the index is shown, it has no entry of a key that the row has not, unless the
//!   entry has been retired and [`Table::is_index_only`] is false. A wrong entry is removed, or an
//!   entry of a row added, while no transaction can change the row.
//! - `FILL-2`: a row that a transaction is writing is looked at again, since the transaction may
//!   roll back to a key that it has not added.
//! - `FILL-3`: a unique index that has been filled may have two rows with one key
//!   ([`super::unique_check`]).
//! - `FILL-4`: a segment without row headers has not been used by a transaction (`ROWS-3`), so its
//!   rows are as they were gathered. A transaction that uses it later knows the index.

use std::ops::Range;
use std::time::Duration;

use atoll_machine::{Machine, Ordering};
use atoll_storage::ordered::EntryRun;
use atoll_storage::{RowId, Table};

use super::call::{Begin, Call};
use super::found::Found;
use super::step::Step;
use super::thread::Thread;
use super::txn::TxnState;
use crate::engine::Engine;
use crate::error::OpError;
use crate::row::Row;
use crate::scheme::{AbortReason, Scheme, Seen};
use crate::tables::TableContext;

/// Rows, and bytes of their keys, from which on no further segment is gathered with them. The more
/// there are, the more entries of each leaf are inserted together; a row takes 40 bytes meanwhile.
const TOGETHER: usize = 1 << 22;
const BYTES_TOGETHER: usize = 128 << 20;
/// Entries that are inserted in one section of the gate.
const ENTRIES_IN_SECTION: usize = 256;
/// Rows between two questions whether to give up, and those that a transaction keeps locked.
const ROWS_PER_QUESTION: usize = 64;
/// Pause before rows that transactions are writing are looked at again.
const PAUSE: Duration = Duration::from_millis(1);

/// Tells whether to give up.
pub type Impatience<'a> = &'a mut dyn FnMut() -> bool;

/// What to do with a row that is looked at.
#[derive(Clone, Copy)]
pub(super) enum Task<'k> {
    /// Only its key is wanted.
    Read,
    /// It gets its entry. It has the one of this key already, which may be wrong.
    Correct(Option<&'k [u8]>),
}

/// What a row is at the moment.
pub(super) enum Looked {
    /// A transaction is writing it.
    Busy,
    Absent,
    /// It has a key, which no other row may have, or which others may have.
    Present {
        unique: bool,
    },
}

/// Rows with the keys that they seemed to have.
#[derive(Default)]
struct Gathered {
    /// The entries of them all.
    run: EntryRun,
    /// In the order of the segments; for each the end of its key in `keys`.
    rows: Vec<(RowId, usize)>,
    keys: Vec<u8>,
}

impl Gathered {
    fn is_full(&self) -> bool {
        self.rows.len() >= TOGETHER || self.keys.len() >= BYTES_TOGETHER
    }

    fn add(&mut self, row: RowId, key: &[u8]) {
        self.run.add(key, row, true);
        self.keys.extend_from_slice(key);
        self.rows.push((row, self.keys.len()));
    }

    /// The rows with their keys.
    fn each(&self) -> impl Iterator<Item = (RowId, &[u8])> {
        self.rows.iter().scan(0, |start, (row, end)| {
            let key = &self.keys[std::mem::replace(start, *end)..*end];
            Some((*row, key))
        })
    }
}

/// Rows that transactions were writing, or may be, with the keys of entries that they have got.
type BusyRows = Vec<(RowId, Option<Box<[u8]>>)>;

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

    pub(super) fn as_upkeep(
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
        let (mut busy, mut segment) = (BusyRows::new(), 0);
        while segment < table.segment_count() {
            let mut gathered = Gathered::default();
            while segment < table.segment_count() && !gathered.is_full() {
                self.gather(table, (number, segment), &mut gathered, &mut busy, gives_up)?;
                segment += 1;
            }
            gathered.run.sort();
            self.insert_gathered(table, number, &gathered, gives_up)?;
            self.correct(table, number, &gathered, &mut busy, gives_up)?;
        }
        let mut key = Vec::new();
        for (row, had) in busy {
            let task = Task::Correct(had.as_deref());
            while let Looked::Busy = self.look(table, number, row, task, &mut key)? {
                self.pause_for(gives_up)?;
            }
        }
        Ok(())
    }

    /// Notes the rows of a segment, with the keys that they seem to have.
    fn gather(
        &mut self,
        table: &Table<M>,
        (number, segment): (usize, u64),
        gathered: &mut Gathered,
        busy: &mut BusyRows,
        gives_up: Impatience<'_>,
    ) -> Result<(), OpError> {
        let context = self.engine.tables.context(table.id());
        let ordered = &context.indexes()[number];
        let rows = table.slots_of(segment).filter(|row| context.may_be_row(*row));
        let mut key = Vec::new();
        // A long value may be half stored, so rows with such keys are locked here, too.
        if ordered.columns.iter().any(|at| context.views().may_have(*at)) {
            for (at, row) in rows.enumerate() {
                if at % ROWS_PER_QUESTION == 0 {
                    self.ask(gives_up)?;
                }
                match self.look(table, number, row, Task::Read, &mut key)? {
                    Looked::Busy => busy.push((row, None)),
                    Looked::Absent => {}
                    Looked::Present { .. } => gathered.add(row, &key),
                }
            }
            return Ok(());
        }
        self.ask(gives_up)?;
        let _section = self.thread.member.enter();
        for row in rows {
            if !table.is_present(row) {
                // A transaction may be about to bring it back.
                busy.push((row, None));
                continue;
            }
            ordered.key_of(&Row::stored(table, table.slot(row)), &mut key);
            gathered.add(row, &key);
        }
        Ok(())
    }

    /// Inserts the entries of gathered rows.
    fn insert_gathered(
        &mut self,
        table: &Table<M>,
        number: usize,
        gathered: &Gathered,
        gives_up: Impatience<'_>,
    ) -> Result<(), OpError> {
        let mut from = 0;
        while from < gathered.run.len() {
            self.ask(gives_up)?;
            self.engine.check_table(table)?;
            let to = gathered.run.len().min(from + ENTRIES_IN_SECTION);
            let Self { engine, thread: Thread { member, .. }, txn } = self;
            let context = engine.tables.context(table.id());
            let _section = member.enter();
            txn.put_entries(engine, (context, number), &gathered.run, from..to);
            from = to;
        }
        Ok(())
    }

    /// Gives gathered rows the entries that they should have; notes those that transactions are
    /// writing.
    fn correct(
        &mut self,
        table: &Table<M>,
        number: usize,
        gathered: &Gathered,
        busy: &mut BusyRows,
        gives_up: Impatience<'_>,
    ) -> Result<(), OpError> {
        let context = self.engine.tables.context(table.id());
        // FILL-4: its transaction makes the header of a row before it may remove an entry.
        M::fence(Ordering::SeqCst);
        let mut key = Vec::new();
        for (at, (row, had)) in gathered.each().enumerate() {
            if at % ROWS_PER_QUESTION == 0 {
                self.ask(gives_up)?;
            }
            if !context.has_headers(row) {
                continue;
            }
            let task = Task::Correct(Some(had));
            if let Looked::Busy = self.look(table, number, row, task, &mut key)? {
                busy.push((row, Some(had.into())));
            }
        }
        Ok(())
    }

    /// Lets go of the rows, and asks whether to give up.
    pub(super) fn ask(&mut self, gives_up: Impatience<'_>) -> Result<(), OpError> {
        if TxnState::<S, M>::IN_PLACE && self.is_open() && !self.release_reads() {
            self.commit()?;
        }
        if gives_up() { Err(AbortReason::Timeout.into()) } else { Ok(()) }
    }

    pub(super) fn pause_for(&mut self, gives_up: Impatience<'_>) -> Result<(), OpError> {
        self.ask(gives_up)?;
        M::sleep(PAUSE);
        Ok(())
    }

    /// Looks at a row; `key` gets its key.
    pub(super) fn look(
        &mut self,
        table: &Table<M>,
        number: usize,
        row: RowId,
        task: Task<'_>,
        key: &mut Vec<u8>,
    ) -> Result<Looked, OpError> {
        self.engine.check_table(table)?;
        if TxnState::<S, M>::IN_PLACE {
            self.look_and_keep(table, number, row, task, key)
        } else {
            self.look_and_lock(table, number, row, task, key)
        }
    }

    /// As [`Call::look`], if the scheme can lock a row outside transactions.
    fn look_and_lock(
        &mut self,
        table: &Table<M>,
        number: usize,
        row: RowId,
        task: Task<'_>,
        key: &mut Vec<u8>,
    ) -> Result<Looked, OpError> {
        let Self { engine, thread: Thread { member, garbage, .. }, txn } = self;
        let context = engine.tables.context(table.id());
        let ordered = &context.indexes()[number];
        let section = member.enter();
        let found = Found::new(context, row);
        let Some((seen, stamp)) = engine.scheme.lock(found.target(context)) else {
            return Ok(Looked::Busy);
        };
        let mut done = Ok(Looked::Absent);
        if seen == Seen::Present {
            let unique = ordered.key_of(&Row::stored(table, found.slot), key);
            done = ordered.check_key_len(key).map(|()| Looked::Present { unique });
        }
        if let (Task::Correct(had), Ok(looked)) = (task, &done) {
            let now = matches!(looked, Looked::Present { .. }).then_some(&key[..]);
            if let Some(wrong) = txn.correct_entry(engine, (context, number), row, (had, now)) {
                // A transaction may have added the same entry, and be about to need it.
                table.invalidate_index_only();
                garbage.retire_entry(stamp, (table.id(), table.serial()), row, number, wrong);
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
        task: Task<'_>,
        key: &mut Vec<u8>,
    ) -> Result<Looked, OpError> {
        if !self.is_open() {
            self.begin(Begin { hurried: true, ..Begin::default() })?;
        }
        self.txn.tries = true;
        let looked = self.until_done(table, |txn, (engine, context, _)| {
            let ordered = &context.indexes()[number];
            let found = Found::new(context, row);
            // Also a slot without a row is kept, so that no row gets it meanwhile.
            let mut there = None;
            let read = txn.read_row(engine, context, found, &|| true, |view| {
                there = found.meta.is_named().then(|| ordered.key_of(view, key));
            });
            match read {
                Step::Done(true) => {}
                Step::Done(false) | Step::Again => return Step::Again,
                Step::Conflict(conflict) => return Step::Conflict(conflict),
                Step::Failed(error) => return Step::Failed(error),
            }
            if there.is_some()
                && let Err(error) = ordered.check_key_len(key)
            {
                return Step::Failed(error.into());
            }
            if let Task::Correct(had) = task {
                let keys = (had, there.is_some().then_some(&key[..]));
                if let Some(wrong) = txn.correct_entry(engine, (context, number), row, keys) {
                    txn.remove_wrong_entry(engine, (context, number), wrong, row);
                }
            }
            Step::Done(there.map_or(Looked::Absent, |unique| Looked::Present { unique }))
        });
        self.txn.tries = false;
        match looked {
            Err(OpError::Held) => Ok(Looked::Busy),
            Err(OpError::Abort(reason)) if reason.is_conflict() => Ok(Looked::Busy),
            looked => looked,
        }
    }
}

impl<S: Scheme<M>, M: Machine> TxnState<S, M> {
    /// Adds entries of a sorted run.
    fn put_entries(
        &mut self,
        engine: &Engine<S, M>,
        (context, number): (&TableContext<S, M>, usize),
        run: &EntryRun,
        entries: Range<usize>,
    ) {
        let local = &mut self.local;
        context.indexes()[number].index.insert_run(run, entries, &mut |old, new| {
            engine.scheme.split(local, context.leaf(number, old), context.leaf(number, new))
        });
    }

    /// Adds the entry of a row that no transaction changes meanwhile, if it has the key `now` and
    /// not the entry of `had`. Returns the key `had` if it is wrong.
    fn correct_entry<'k>(
        &mut self,
        engine: &Engine<S, M>,
        (context, number): (&TableContext<S, M>, usize),
        row: RowId,
        (had, now): (Option<&'k [u8]>, Option<&[u8]>),
    ) -> Option<&'k [u8]> {
        if had == now {
            return None;
        }
        if let Some(key) = now {
            let local = &mut self.local;
            context.indexes()[number].index.insert(key, row, &mut |old, new| {
                engine.scheme.split(local, context.leaf(number, old), context.leaf(number, new))
            });
        }
        had
    }

    /// Removes an entry of a row that no transaction changes meanwhile, in place.
    fn remove_wrong_entry(
        &mut self,
        engine: &Engine<S, M>,
        (context, number): (&TableContext<S, M>, usize),
        key: &[u8],
        row: RowId,
    ) {
        let local = &mut self.local;
        context.indexes()[number].index.remove(key, row, &mut |from, into| {
            engine.scheme.split(local, context.leaf(number, from), context.leaf(number, into))
        });
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeSet;
    use std::ops::Bound;
    use std::sync::Arc;

    use atoll_machine::Native;
    use atoll_storage::ordered::{Batch, KeyRange};
    use atoll_storage::{Column, DataType, Schema, Value};

    use super::super::garbage::tests::engine;
    use super::*;
    use crate::any::{AnyEngine, AnyTxn, Attached};
    use crate::schemes::{SchemeKind, SchemeOptions, SchemeVisitor};
    use crate::{IndexSpec, Pool, TableOptions};

    const ROWS: i64 = 1000;

    /// Changes rows whenever the index asks whether to give up, so also between two of its steps.
    struct Meddler<S: Scheme<Native>> {
        table: Arc<Table<Native>>,
        txn: Attached<S, Native>,
        /// Has deleted a row, and rolls back while the entries are added.
        open: Attached<S, Native>,
        calls: i64,
    }

    impl<S: Scheme<Native>> Meddler<S> {
        fn meddle(&mut self) {
            let Self { table, txn, open, calls } = self;
            if *calls == 4 {
                open.abort(AbortReason::Requested);
            }
            for commits in [true, false] {
                *calls += 1;
                let at = *calls * 7 % ROWS;
                txn.begin(Begin::default()).unwrap();
                // Near to and far from those that the index has looked at.
                for row in [at, ROWS - at] {
                    txn.update(table, &[row.into()], &[(1, (row + *calls * ROWS).into())]).unwrap();
                }
                txn.delete(table, &[((at + 501) % ROWS).into()]).unwrap();
                txn.insert(table, &[(ROWS + *calls).into(), (*calls).into(), Value::Null]).unwrap();
                if commits {
                    txn.commit().unwrap();
                } else {
                    txn.abort(AbortReason::Requested);
                }
            }
        }
    }

    /// Fills an index, then compares the entries with the rows.
    struct Filled {
        /// The column of the index: of numbers, or of texts.
        column: &'static str,
    }

    impl SchemeVisitor<Native> for Filled {
        type Output = ();

        fn visit<S: Scheme<Native>>(self, scheme: S) {
            let pool = engine(scheme);
            let types = [("id", DataType::Int64), ("n", DataType::Int64), ("text", DataType::Text)];
            let columns = types.map(|(name, data_type)| Column::nullable(name, data_type)).to_vec();
            let columns =
                [vec![Column::new("id", DataType::Int64)], columns[1..].to_vec()].concat();
            let schema = Schema::new(columns, &["id"]).unwrap();
            let table = pool.create_table("t", schema, &TableOptions::default()).unwrap();
            let mut txn = Attached::new(&pool).unwrap();
            txn.begin(Begin::default()).unwrap();
            for id in (0..ROWS).chain([-1]) {
                let text = format!("a text that is not short {}", id % 7);
                txn.insert(&table, &[id.into(), id.into(), Value::Text(text)]).unwrap();
            }
            txn.commit().unwrap();
            let spec = IndexSpec {
                name: "made".into(),
                columns: vec![self.column.into()],
                unique: false,
                nulls_not_distinct: false,
            };
            let number = pool.engine().add_index(&table, &spec).unwrap();
            let mut open = Attached::new(&pool).unwrap();
            open.begin(Begin::default()).unwrap();
            open.delete(&table, &[(-1i64).into()]).unwrap();
            let mut meddler = Meddler { table: Arc::clone(&table), txn, open, calls: 0 };
            let gives_up = &mut || {
                meddler.meddle();
                false
            };
            Pool::fill_index(&pool, &table, number, gives_up).unwrap();
            assert!(meddler.calls > 20, "{} times", meddler.calls);
            pool.collect_garbage(usize::MAX);
            meddler.txn.begin(Begin::default()).unwrap();
            meddler.txn.commit().unwrap();
            let context = pool.engine().tables.context(table.id());
            let index = &context.indexes()[number];
            let range =
                KeyRange { from: Bound::Unbounded, to: Bound::Unbounded, descending: false };
            let (mut batch, mut found) = (Batch::default(), BTreeSet::new());
            while {
                let more = index.index.batch(&range, &mut |_| (), &mut batch);
                found.extend(batch.iter().map(|one| (one.key.to_vec(), one.row)));
                more
            } {}
            let mut expected = BTreeSet::new();
            for segment in 0..table.segment_count() {
                for row in table.slots_of(segment).filter(|row| table.is_present(*row)) {
                    let mut key = Vec::new();
                    index.key_of(&Row::stored(&*table, table.slot(row)), &mut key);
                    expected.insert((key, row));
                }
            }
            assert_eq!(expected.len() as u64, table.row_count(), "{}", S::NAME);
            let differ = |from: &BTreeSet<_>, to| from.difference(to).count();
            let (missing, wrong) = (differ(&expected, &found), differ(&found, &expected));
            assert_eq!((missing, wrong), (0, 0), "{} {}: missing, wrong", S::NAME, self.column);
        }
    }

    #[test]
    fn rows_that_change_between_the_steps_have_their_entries_and_no_others() {
        for kind in SchemeKind::ALL.iter().filter(|kind| !kind.is_partitioned()) {
            for column in ["n", "text"] {
                kind.visit(&SchemeOptions::default(), Filled { column });
            }
        }
    }
}
