//! Garbage collection: frees what the worker has retired, for schemes that store at commit.
//!
//! A transaction that is ordered before the retiring one may still need a retired row or index
//! entry. So the item waits in the worker's [garbage queue](crate::garbage) until the scheme's
//! horizon has passed its stamp. Then the worker locks the row for a short time, outside any
//! transaction. If nothing has changed since, it removes the row's index entries and frees the
//! slot. If another transaction has inserted the row again, or given it the old key of the entry
//! again, the worker frees nothing.
//!
//! - `GARBAGE-1`: entries of a row are removed only when the horizon has passed the row's newest
//!   version, so no transaction needs an older version that had the key.
//! - `GARBAGE-2`: a transaction does not commit if a row of its write set has lost entries that the
//!   transaction relies on. There are two ways to ensure this. Either the removal counts as a
//!   change of the row since it was read. Or the writer owns the row from [`Scheme::write`] on, so
//!   that the collector cannot lock it; the writer then checks whether the row still has its key,
//!   and adds its entries only after that check.

use atoll_machine::Machine;
use atoll_storage::image::heap_place;
use atoll_storage::undo::Replaced;
use atoll_storage::{Change, RowId, TableId};

use super::call::Call;
use super::thread::Thread;
use super::txn::TxnState;
use crate::edits::What;
use crate::engine::Engine;
use crate::garbage::{Garbage, Gone, Retired};
use crate::row::Row;
use crate::scheme::{Scheme, Seen, Target};
use crate::tables::TableContext;

/// At most this many items are freed before a transaction begins. A transaction that has retired
/// more than half as many frees up to twice what it has retired when it ends. So the queue becomes
/// shorter, and a small transaction does not pay for a large one.
const COLLECT_MAX: usize = 64;

impl<S: Scheme<M>, M: Machine> TxnState<S, M> {
    /// Retires what the transaction has removed; it has committed. Entries come before their rows.
    pub(super) fn retire_committed(
        &self,
        garbage: &mut Garbage,
        engine: &Engine<S, M>,
        stamp: u64,
    ) {
        let tables = engine.tables();
        let name = |table: TableId| (table, tables.table(table).serial());
        for entry in &self.entries.gone {
            let key = self.entries.key(entry);
            garbage.retire_entry(stamp, name(entry.table), entry.row, entry.index, key);
        }
        for gone in self.rows.deleted() {
            let edits = self.edits.borrow();
            let what = edits.find(gone.table, gone.row).map(|at| edits.row(at).what);
            if what.is_some_and(|what| what == What::Remove || what.is_nothing()) {
                garbage.retire_row(stamp, name(gone.table), gone.row, gone.hash);
            }
        }
        if !self.rows.must_forget() {
            return;
        }
        self.undo.each(|table, row, replaced| {
            let Replaced::Value { column, start } = replaced else { return };
            let is_view = tables.table(table).is_view(column.into());
            if is_view && heap_place(&start).is_some() {
                garbage.retire_value(stamp, name(table), row, replaced);
            }
        });
    }

    /// Retires what the transaction has added; it has aborted.
    pub(super) fn retire_aborted(&self, garbage: &mut Garbage, engine: &Engine<S, M>) {
        let entries = &self.entries;
        let name = |table: TableId| (table, engine.tables().table(table).serial());
        // This includes entries that the row had before: the slot does not show that, and the
        // collector keeps the entries of a row that is present.
        for entry in &entries.made[..(entries.added + 1).min(entries.made.len())] {
            let table = name(entry.table);
            garbage.retire_entry(0, table, entry.row, entry.index, entries.key(entry));
        }
        for made in self.rows.inserted() {
            garbage.retire_row(0, name(made.table), made.row, made.hash);
        }
    }
}

impl<S: Scheme<M>, M: Machine> Call<'_, S, M> {
    /// Frees some garbage before a transaction begins.
    #[inline]
    pub(super) fn collect_at_begin(&mut self) {
        if !self.thread.garbage.is_empty() {
            self.collect_some(COLLECT_MAX);
        }
    }

    /// Frees garbage after a transaction that has retired many items.
    #[inline]
    pub(super) fn collect_at_end(&mut self) {
        let retired = self.thread.garbage.take_new();
        if retired > COLLECT_MAX / 2 {
            self.collect_some(2 * retired);
        }
    }

    /// Frees at most `most` items of garbage. No transaction is open.
    pub(super) fn collect_some(&mut self, most: usize) {
        if self.thread.garbage.is_empty() {
            return;
        }
        let horizon = self.engine.scheme.horizon(&mut self.txn.local, self.thread.garbage.newest());
        self.thread.garbage.raise_horizon(horizon);
        // Each item once, although `collect_one` puts some back.
        for _ in 0..most.min(self.thread.garbage.len()) {
            if !self.thread.garbage.is_due() {
                return;
            }
            self.collect_one();
        }
        self.thread.garbage.shrink();
    }

    fn collect_one(&mut self) {
        let Self { engine, thread: Thread { member, garbage, .. }, txn } = self;
        let Some(retired) = garbage.pop() else { return };
        let section = member.enter();
        let context = engine.tables.get(retired.table);
        let Some(context) = context.filter(|one| one.table.serial() == retired.serial) else {
            return; // Its table was dropped.
        };
        if context.table.is_leaving() {
            return garbage.put_back(retired); // TABLES-2
        }
        let meta = context.header(retired.row);
        let target = || Target { place: context.place(retired.row), state: &meta.state };
        let change = Change::forward(section.inside());
        if let Gone::Value(replaced) = retired.gone {
            context.table.forget(change, retired.row, replaced);
            return;
        }
        let held = engine.scheme.lock(target());
        let Some((seen, stamp)) = held.filter(|(_, stamp)| *stamp <= garbage.horizon()) else {
            // Try again later: a transaction is writing the row or has written it. Readers of older
            // versions may still need its entries.
            let mut stamp = retired.stamp;
            if let Some((_, newest)) = held {
                engine.scheme.unlock(target(), false);
                stamp = newest;
            }
            garbage.put_back(Retired { stamp, ..retired });
            return;
        };
        let unlinked = match retired.gone {
            Gone::Row(hash) if seen == Seen::Absent && meta.has_hash(hash) => {
                engine.scheme.remove_from_gap(context.stripe(hash).1, &meta.state, stamp);
                context.unlink(retired.row);
                let was_named = context.table.index().remove(hash, retired.row);
                debug_assert!(was_named, "ROWS-1");
                context.table.vacate(change, retired.row);
                true
            }
            _ => false,
        };
        let changed = match retired.gone {
            Gone::Entry(index, _) => {
                txn.remove_entry(engine, context, (retired.row, seen), index, garbage.key(), stamp)
            }
            _ => unlinked,
        };
        engine.scheme.unlock(target(), changed);
        if unlinked {
            context.table.free(retired.row);
        }
    }
}

impl<S: Scheme<M>, M: Machine> TxnState<S, M> {
    /// Removes an index entry of a row that the caller has locked, unless the row has the key now.
    /// Returns whether the index had the entry.
    fn remove_entry(
        &mut self,
        engine: &Engine<S, M>,
        context: &TableContext<S, M>,
        (row, seen): (RowId, Seen),
        index: usize,
        key: &[u8],
        stamp: u64,
    ) -> bool {
        let Some(ordered) = context.indexes().get(index) else { return false }; // It was dropped.
        if seen == Seen::Present {
            let view = Row::stored(&*context.table, context.table.slot(row));
            ordered.key_of(&view, &mut self.entry_key);
            if self.entry_key == key {
                return false;
            }
        }
        let local = &mut self.local;
        ordered
            .index
            .remove_with(
                key,
                row,
                &mut |leaf| {
                    let state = &context.header(row).state;
                    engine.scheme.remove_from_gap(context.leaf(index, leaf).1, state, stamp);
                },
                &mut |from, into| {
                    engine.scheme.split(local, context.leaf(index, from), context.leaf(index, into))
                },
            )
            .is_some()
    }
}

#[cfg(test)]
pub(super) mod tests {
    #![allow(clippy::unwrap_used)]
    use std::ops::Bound;
    use std::sync::Arc;

    use atoll_machine::Native;
    use atoll_memory::Memory;
    use atoll_memory::store::{Store, StoreOptions};
    use atoll_memory::swing::{SwingConfig, SwingMalloc};
    use atoll_storage::ordered::{Batch, KeyRange};
    use atoll_storage::{Column, DataType, Directory, Schema, Table, Value};

    use super::Call;
    use crate::any::{AnyEngine, AnyTxn, Attached};
    use crate::scheme::{AbortReason, Scheme};
    use crate::schemes::SchemeOptions;
    use crate::schemes::mvcc::Mvcc;
    use crate::schemes::{adaptive, no_wait, occ, silo, tictoc, timestamp};
    use crate::{Begin, Engine, EngineOptions, IndexSpec, Pool, TableOptions};

    /// An engine with nothing in it.
    pub(in super::super) fn engine<S: Scheme<Native>>(scheme: S) -> Arc<Pool<S, Native>> {
        let swing = SwingConfig { buddy_bytes: 1 << 30, ..SwingConfig::default() };
        let store = StoreOptions {
            capacity_bytes: SwingMalloc::capacity_for(&swing),
            limit_bytes: 64 << 20,
            huge_pages: false,
        };
        let store = Arc::new(Store::create_memfd("garbage", &store).unwrap());
        let swing = SwingMalloc::create(Arc::clone(&store), &swing).unwrap();
        let directory = Directory::create(Arc::new(Memory::new(store, swing))).unwrap();
        Pool::new(Arc::new(Engine::new(scheme, Arc::new(directory), EngineOptions::default())))
    }

    #[test]
    fn no_two_undo_lists_that_were_shown_have_one_name() {
        let engine = engine(no_wait::NoWait::new(&SchemeOptions::default()));
        let columns = ["id", "n"].map(|name| Column::new(name, DataType::Int64)).to_vec();
        let schema = Schema::new(columns, &["id"]).unwrap();
        let table = engine.create_table("t", schema, &TableOptions::default()).unwrap();
        let mut named = std::collections::HashSet::new();
        // Successive pairs of transactions.
        for id in (0..40i64).step_by(2) {
            let mut txns = [engine.txn().unwrap(), engine.txn().unwrap()];
            let mut worker = engine.worker(false).unwrap();
            for (txn, id) in txns.iter_mut().zip(id..) {
                let mut worker = txn.on(&mut worker);
                for again in 0..3i64 {
                    worker.begin(Begin::default()).unwrap();
                    worker.insert(&table, &[(id * 3 + again).into(), 0i64.into()]).unwrap();
                    assert!(
                        worker.txn.publication.shown() != 0
                            && named.insert(worker.txn.publication.shown()),
                        "{id}"
                    );
                    worker.commit().unwrap();
                }
            }
        }
        assert_eq!(named.len(), 120);
    }

    /// Entries of the index on the second column, and rows, after many transactions that did not
    /// commit and a few that did.
    fn left<S: Scheme<Native>>(scheme: S) -> (usize, u64) {
        let engine = engine(scheme);
        let columns = ["id", "n"].map(|name| Column::new(name, DataType::Int64)).to_vec();
        let by_n = IndexSpec {
            name: "by_n".into(),
            columns: vec!["n".into()],
            unique: false,
            nulls_not_distinct: false,
        };
        let options = TableOptions { indexes: vec![by_n], ..TableOptions::default() };
        let schema = Schema::new(columns, &["id"]).unwrap();
        let table = engine.create_table("t", schema, &options).unwrap();
        let (mut worker, mut txn) = (engine.worker(false).unwrap(), engine.txn().unwrap());
        let mut worker = txn.on(&mut worker);
        // The first timestamps may be too old for a slot that was collected.
        let insert = |worker: &mut Call<'_, S, Native>, row: &[Value]| {
            let mut tried = (0..9).map(|_| {
                worker.begin(Begin::default()).unwrap();
                worker.insert(&table, row)
            });
            assert!(tried.any(|done| done.is_ok()));
        };
        for i in 0..90i64 {
            let key = [Value::Int64(i % 9)];
            let row = |n: i64| [key[0].clone(), Value::Int64(n)];
            insert(&mut worker, &row(i));
            match i % 4 {
                0 => assert!(worker.update(&table, &key, &[(1, (i + 500).into())]).unwrap()),
                1 => assert!(worker.delete(&table, &key).unwrap()),
                2 => {
                    assert!(worker.delete(&table, &key).unwrap());
                    worker.insert(&table, &row(i)).unwrap();
                }
                _ => {}
            }
            worker.abort(AbortReason::Requested);
            if i % 9 != 8 {
                continue;
            }
            // From time to time, a row that is committed, and inserted again with the same value.
            for commits in [true, false, false] {
                insert(&mut worker, &row(7));
                if commits {
                    worker.commit().unwrap();
                    worker.begin(Begin::default()).unwrap();
                    // Two changes of the key in one update: the intermediate key leaves no entry.
                    for first in [1000, 2000] {
                        let changes = [i + first, i + first + 500].map(|n| (1, n.into()));
                        assert!(worker.update(&table, &key, &changes).unwrap());
                        worker.commit().unwrap();
                        worker.begin(Begin::default()).unwrap();
                    }
                    assert!(worker.delete(&table, &key).unwrap());
                    worker.commit().unwrap();
                } else {
                    worker.abort(AbortReason::Requested);
                }
            }
        }
        for _ in 0..300 {
            worker.begin(Begin::default()).unwrap();
            worker.commit().unwrap();
        }
        let index = &engine.engine().tables.context(table.id()).indexes()[0].index;
        let all = KeyRange { from: Bound::Unbounded, to: Bound::Unbounded, descending: false };
        let (mut batch, mut entries) = (Batch::default(), 0);
        let section = worker.thread.member.enter();
        while {
            let more = index.batch(&all, &mut |_| {}, &mut batch);
            entries += batch.len();
            more
        } {}
        drop(section);
        (entries, table.row_count())
    }

    #[test]
    fn a_transaction_that_did_not_commit_leaves_no_entry_behind() {
        let options = &SchemeOptions::default();
        assert_eq!(left(no_wait::NoWait::new(options)), (0, 0), "NO_WAIT");
        assert_eq!(left(timestamp::TimestampOrdering::new(options)), (0, 0), "TIMESTAMP");
        assert_eq!(left(Mvcc::new(options)), (0, 0), "MVCC");
        assert_eq!(left(occ::Occ::new(options)), (0, 0), "OCC");
        assert_eq!(left(silo::Silo::new(options)), (0, 0), "SILO");
        assert_eq!(left(tictoc::TicToc::new(options)), (0, 0), "TICTOC");
        assert_eq!(left(adaptive::Adaptive::new(options)), (0, 0), "ADAPTIVE");
    }

    type Versioned = Pool<Mvcc<Native>, Native>;

    /// An engine with an empty table.
    fn table() -> (Arc<Versioned>, Arc<Table<Native>>) {
        let engine = engine(Mvcc::new(&SchemeOptions::default()));
        let schema = Schema::new(vec![Column::new("id", DataType::Int64)], &["id"]).unwrap();
        let table = engine.create_table("t", schema, &TableOptions::default()).unwrap();
        (engine, table)
    }

    fn insert_all(writer: &mut Call<'_, Mvcc<Native>, Native>, table: &Table<Native>) {
        writer.begin(Begin::default()).unwrap();
        (0..1000i64).for_each(|id| writer.insert(table, &[id.into()]).unwrap());
        writer.commit().unwrap();
    }

    fn delete_all(writer: &mut Call<'_, Mvcc<Native>, Native>, table: &Table<Native>) {
        writer.begin(Begin::default()).unwrap();
        assert!((0..1000i64).all(|id| writer.delete(table, &[id.into()]).unwrap()));
        writer.commit().unwrap();
    }

    #[test]
    fn a_small_transaction_does_not_pay_for_a_large_one() {
        let (engine, table) = table();
        let (mut worker, mut txn) = (engine.worker(false).unwrap(), engine.txn().unwrap());
        let writer = &mut txn.on(&mut worker);
        let mut reader = Attached::new(&engine).unwrap();
        insert_all(writer, &table);
        reader.begin(Begin::default()).unwrap();
        delete_all(writer, &table);
        assert_eq!(writer.thread.garbage.len(), 1000, "the reader may still need them");
        reader.commit().unwrap();
        for left in (1..=1000).rev().step_by(super::COLLECT_MAX) {
            assert_eq!(writer.thread.garbage.len(), left);
            writer.begin(Begin::default()).unwrap();
            writer.commit().unwrap();
        }
        // Without a reader, a transaction that retires much frees it when it ends.
        insert_all(writer, &table);
        delete_all(writer, &table);
        assert!(writer.thread.garbage.is_empty());
    }

    #[test]
    fn the_garbage_of_idle_workers_is_collected() {
        let (engine, table) = table();
        let mut reader = Attached::new(&engine).unwrap();
        {
            let (mut worker, mut txn) = (engine.worker(false).unwrap(), engine.txn().unwrap());
            insert_all(&mut txn.on(&mut worker), &table);
            reader.begin(Begin::default()).unwrap();
            delete_all(&mut txn.on(&mut worker), &table);
        }
        engine.collect_garbage(usize::MAX);
        assert_eq!(engine.idle_workers(), (1, 1), "the reader may still need them");
        reader.commit().unwrap();
        engine.collect_garbage(600);
        assert_eq!(engine.idle_workers(), (1, 1), "some are left");
        engine.collect_garbage(600);
        assert_eq!((engine.idle_workers(), table.row_count()), ((1, 0), 0));
    }
}
