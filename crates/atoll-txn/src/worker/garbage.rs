//! Rows and entries that are gone but cannot be taken away yet, for schemes that store at commit.
//!
//! Somebody may still be ordered before the transaction that let them go, and must find them. So
//! they wait, in the order in which they were let go, until the scheme's horizon has passed. Then
//! the row is held for a moment, outside any transaction; if it is as it was left, its entries are
//! removed and its slot is free. If somebody has brought the row back, or moved it back, there is
//! nothing to do.
//!
//! - `GARBAGE-1`: entries of a row are removed only when the horizon has passed its newest version,
//!   so nobody needs an older one that had the key.
//! - `GARBAGE-2`: a transaction whose write set has a row does not commit if entries of the row
//!   were removed that it relies on. Either the row counts as changed since it was read; or it is
//!   its writer's from [`Scheme::write`] on, so that nobody else can hold it, and the writer looks
//!   afterwards whether it is still the row of its key, and adds its entries only then.

use std::collections::VecDeque;

use atoll_machine::Machine;
use atoll_storage::image::heap_place;
use atoll_storage::undo::Replaced;
use atoll_storage::{Change, RowId, TableId};

use super::entries::key_of;
use super::{State, Txn, Worker};
use crate::edits::What;
use crate::engine::Engine;
use crate::row::Row;
use crate::scheme::{Scheme, Seen, Target};
use crate::tables::TableContext;

/// So much is taken away before a transaction begins, at most, and twice what it has let go when
/// one that has let go more commits: what waits becomes less, and a small transaction does not pay
/// for a large one.
const COLLECT_MAX: usize = 64;
/// Room for more than this is let go when nothing waits.
const KEPT_MAX: usize = 1 << 16;

#[derive(Debug)]
enum Gone {
    /// A row that was deleted, or that never came to be, with the hash that names it.
    Row(u64),
    /// An entry of an index; so many bytes of key are next in `keys`.
    Entry(usize, usize),
    /// A value that was replaced.
    Value(Replaced),
}

#[derive(Debug)]
struct Retired {
    stamp: u64,
    table: TableId,
    row: RowId,
    gone: Gone,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Garbage {
    queue: VecDeque<Retired>,
    keys: VecDeque<u8>,
    /// Room that is used again: the key of an entry that is looked at.
    key: Vec<u8>,
    horizon: u64,
    /// How much has come since something was last taken away, and the newest stamp that ever came.
    new: usize,
    newest: u64,
}

impl Garbage {
    fn add(&mut self, retired: Retired) {
        self.new += 1;
        self.put_back(retired);
    }

    fn put_back(&mut self, retired: Retired) {
        self.newest = self.newest.max(retired.stamp);
        self.queue.push_back(retired);
    }

    fn add_entry(&mut self, stamp: u64, table: TableId, row: RowId, index: usize, key: &[u8]) {
        self.keys.extend(key);
        self.add(Retired { stamp, table, row, gone: Gone::Entry(index, key.len()) });
    }

    /// What a transaction that has committed has let go. Entries come before their rows.
    pub(super) fn retire_committed<S: Scheme<M>, M: Machine>(
        &mut self,
        txn: &Txn<S, M>,
        engine: &Engine<S, M>,
        stamp: u64,
    ) {
        for entry in &txn.entries.gone {
            self.add_entry(stamp, entry.table, entry.row, entry.index, txn.entries.key(entry));
        }
        for gone in &txn.gone {
            let edits = txn.edits.borrow();
            let what = edits.find(gone.table, gone.row).map(|at| edits.row(at).what);
            if what.is_some_and(|what| what == What::Remove || what.is_nothing()) {
                let gone =
                    Retired { stamp, table: gone.table, row: gone.row, gone: Gone::Row(gone.hash) };
                self.add(gone);
            }
        }
        if !txn.forget {
            return;
        }
        let tables = engine.tables();
        txn.undo.each(
            |table, column| tables.table(table).image_bytes(column),
            |table, row, replaced| {
                let Replaced::Value { column, start } = replaced else { return };
                if engine.tables.context(table).views.has(column.into())
                    && heap_place(&start).is_some()
                {
                    self.add(Retired { stamp, table, row, gone: Gone::Value(replaced) });
                }
            },
        );
    }

    /// What a transaction that has aborted had added.
    pub(super) fn retire_aborted<S: Scheme<M>, M: Machine>(&mut self, txn: &Txn<S, M>) {
        let entries = &txn.entries;
        // Those of a row that had them before, too: what a slot holds does not say so, and a row
        // that is there keeps its entries.
        for entry in &entries.made[..(entries.added + 1).min(entries.made.len())] {
            self.add_entry(0, entry.table, entry.row, entry.index, entries.key(entry));
        }
        for made in &txn.made {
            let gone = Gone::Row(made.hash);
            self.add(Retired { stamp: 0, table: made.table, row: made.row, gone });
        }
    }

    /// Whether something waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Whether something can be taken away.
    #[inline]
    fn is_due(&self) -> bool {
        self.queue.front().is_some_and(|retired| retired.stamp <= self.horizon)
    }
}

impl<S: Scheme<M>, M: Machine> Worker<S, M> {
    /// Before a transaction: takes away some of what nobody can need any more.
    #[inline]
    pub(super) fn collect_at_begin(&mut self) {
        if !self.garbage.is_empty() {
            self.collect_some(COLLECT_MAX);
        }
    }

    /// After one that may have let go much.
    #[inline]
    pub(super) fn collect_at_end(&mut self) {
        let let_go = std::mem::take(&mut self.garbage.new);
        if let_go > COLLECT_MAX / 2 {
            self.collect_some(2 * let_go);
        }
    }

    /// Between transactions: takes away `most` of what nobody can need any more, be it what
    /// workers that are gone have left.
    pub fn collect_garbage(&mut self, most: usize) {
        if self.state == State::Open {
            return;
        }
        if self.garbage.is_empty() {
            self.garbage = self.engine.take_left();
        }
        self.collect_some(most);
    }

    /// Whether something waits that [`Worker::collect_garbage`] may take away.
    pub fn has_garbage(&self) -> bool {
        !self.garbage.is_empty()
    }

    /// Takes away all that can be; what cannot is left to other workers.
    pub(super) fn collect_all(&mut self) {
        self.collect_some(usize::MAX);
        if !self.garbage.is_empty() {
            self.engine.leave(std::mem::take(&mut self.garbage));
        }
    }

    fn collect_some(&mut self, most: usize) {
        if self.garbage.is_empty() {
            return;
        }
        let horizon = self.engine.scheme.horizon(&mut self.txn.local, self.garbage.newest);
        self.garbage.horizon = self.garbage.horizon.max(horizon);
        // Each once: some are put back.
        for _ in 0..most.min(self.garbage.queue.len()) {
            if !self.garbage.is_due() {
                return;
            }
            self.collect_one();
        }
        if self.garbage.is_empty() && self.garbage.queue.capacity() > KEPT_MAX {
            self.garbage = Garbage { horizon, ..Garbage::default() };
        }
    }

    fn collect_one(&mut self) {
        let Self { engine, member, txn, garbage, .. } = self;
        let Some(retired) = garbage.queue.pop_front() else { return };
        let context = engine.tables.context(retired.table);
        let meta = context.rows.get(retired.row);
        let target = || Target { place: context.place(retired.row), state: &meta.state };
        garbage.key.clear();
        if let Gone::Entry(_, len) = retired.gone {
            garbage.key.extend(garbage.keys.drain(..len));
        }
        let section = member.enter();
        let change = Change::forward(section.inside());
        if let Gone::Value(replaced) = retired.gone {
            context.table.forget(change, retired.row, replaced);
            return;
        }
        let held = engine.scheme.lock(target());
        let Some((seen, stamp)) = held.filter(|(_, stamp)| *stamp <= garbage.horizon) else {
            // Somebody is writing it, or has: another time. Older versions may still be needed, for
            // whose readers its entries are.
            let mut stamp = retired.stamp;
            if let Some((_, newest)) = held {
                engine.scheme.unlock(target(), false);
                stamp = newest;
            }
            garbage.keys.extend(&garbage.key);
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
                txn.remove_entry(engine, context, (retired.row, seen), index, &garbage.key, stamp)
            }
            _ => unlinked,
        };
        engine.scheme.unlock(target(), changed);
        drop(section);
        if unlinked {
            context.table.free(retired.row);
        }
    }
}

impl<S: Scheme<M>, M: Machine> Txn<S, M> {
    /// Removes an entry of a row that is held, unless the row has the key now; whether it was
    /// there.
    fn remove_entry(
        &mut self,
        engine: &Engine<S, M>,
        context: &TableContext<S, M>,
        (row, seen): (RowId, Seen),
        index: usize,
        key: &[u8],
        stamp: u64,
    ) -> bool {
        let ordered = &context.indexes[index];
        if seen == Seen::Present {
            let view = Row::stored(&*context.table, context.table.slot(row));
            key_of(ordered, &view, &mut self.entry_key);
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
                    let state = &context.rows.get(row).state;
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
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::ops::Bound;
    use std::sync::Arc;

    use atoll_machine::Native;
    use atoll_memory::Memory;
    use atoll_memory::store::{Store, StoreOptions};
    use atoll_memory::swing::{SwingConfig, SwingMalloc};
    use atoll_storage::ordered::{Batch, KeyRange};
    use atoll_storage::{Column, DataType, Directory, Schema, Value};

    use super::Worker;
    use crate::scheme::{AbortReason, Scheme};
    use crate::schemes::SchemeOptions;
    use crate::schemes::{adaptive, mvcc, no_wait, occ, silo, tictoc, timestamp};
    use crate::{Begin, Engine, EngineOptions, IndexSpec, TableOptions};

    fn engine<S: Scheme<Native>>(scheme: S) -> Arc<Engine<S, Native>> {
        let swing = SwingConfig { buddy_bytes: 1 << 30, ..SwingConfig::default() };
        let store = StoreOptions {
            capacity_bytes: SwingMalloc::capacity_for(&swing),
            limit_bytes: 64 << 20,
            huge_pages: false,
        };
        let store = Arc::new(Store::create_memfd("garbage", &store).unwrap());
        let swing = SwingMalloc::create(Arc::clone(&store), &swing).unwrap();
        let directory = Directory::create(Arc::new(Memory::new(store, swing))).unwrap();
        Arc::new(Engine::new(scheme, Arc::new(directory), EngineOptions::default()))
    }

    #[test]
    fn no_two_undo_lists_that_were_shown_have_one_name() {
        let engine = engine(no_wait::NoWait::new(&SchemeOptions::default()));
        let columns = ["id", "n"].map(|name| Column::new(name, DataType::Int64)).to_vec();
        let schema = Schema::new(columns, &["id"]).unwrap();
        let table = engine.create_table("t", schema, &TableOptions::default()).unwrap();
        let mut named = std::collections::HashSet::new();
        // One worker after the other, and two beside each other.
        for id in (0..40i64).step_by(2) {
            let mut workers = [engine.worker().unwrap(), engine.worker().unwrap()];
            for (worker, id) in workers.iter_mut().zip(id..) {
                for again in 0..3i64 {
                    worker.begin(Begin::default()).unwrap();
                    worker.insert(&table, &[(id * 3 + again).into(), 0i64.into()]).unwrap();
                    assert!(worker.txn.shown != 0 && named.insert(worker.txn.shown), "{id}");
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
        let by_n = IndexSpec { name: "by_n".into(), columns: vec!["n".into()], unique: false };
        let options = TableOptions { indexes: vec![by_n], ..TableOptions::default() };
        let schema = Schema::new(columns, &["id"]).unwrap();
        let table = engine.create_table("t", schema, &options).unwrap();
        let mut worker = engine.worker().unwrap();
        // A slot that was tidied may be too new for a timestamp or two.
        let insert = |worker: &mut Worker<S, Native>, row: &[Value]| {
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
            // Now and then a row that is there for a while and comes back with the same value.
            for commits in [true, false, false] {
                insert(&mut worker, &row(7));
                if commits {
                    worker.commit().unwrap();
                    worker.begin(Begin::default()).unwrap();
                    // Where it was in between is nowhere.
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
        let index = &engine.tables.context(table.id()).indexes[0].index;
        let all = KeyRange { from: Bound::Unbounded, to: Bound::Unbounded, descending: false };
        let (mut batch, mut entries) = (Batch::default(), 0);
        let section = worker.member.enter();
        while {
            let more = index.batch(&all, &mut |_| {}, &mut batch);
            entries += batch.len();
            more
        } {}
        drop(section);
        drop(worker);
        (entries, table.row_count())
    }

    #[test]
    fn a_transaction_that_did_not_commit_leaves_no_entry_behind() {
        let options = &SchemeOptions::default();
        assert_eq!(left(no_wait::NoWait::new(options)), (0, 0), "NO_WAIT");
        assert_eq!(left(timestamp::TimestampOrdering::new(options)), (0, 0), "TIMESTAMP");
        assert_eq!(left(mvcc::Mvcc::new(options)), (0, 0), "MVCC");
        assert_eq!(left(occ::Occ::new(options)), (0, 0), "OCC");
        assert_eq!(left(silo::Silo::new(options)), (0, 0), "SILO");
        assert_eq!(left(tictoc::TicToc::new(options)), (0, 0), "TICTOC");
        assert_eq!(left(adaptive::Adaptive::new(options)), (0, 0), "ADAPTIVE");
    }
    /// Rows that one worker deletes while another may still read them.
    #[test]
    fn a_small_transaction_does_not_pay_for_a_large_one_and_nothing_is_forgotten() {
        let engine = engine(mvcc::Mvcc::new(&SchemeOptions::default()));
        let columns = vec![Column::new("id", DataType::Int64)];
        let schema = Schema::new(columns, &["id"]).unwrap();
        let table = engine.create_table("t", schema, &TableOptions::default()).unwrap();
        let keys: Vec<[Value; 1]> = (0..1000i64).map(|id| [id.into()]).collect();
        let mut reader = engine.worker().unwrap();
        for drops in [false, true] {
            let mut worker = engine.worker().unwrap();
            worker.begin(Begin::default()).unwrap();
            keys.iter().for_each(|row| worker.insert(&table, row).unwrap());
            worker.commit().unwrap();
            reader.begin(Begin::default()).unwrap();
            worker.begin(Begin::default()).unwrap();
            assert!(keys.iter().all(|key| worker.delete(&table, key).unwrap()));
            worker.commit().unwrap();
            assert_eq!(worker.garbage.queue.len(), 1000, "the reader may still need them");
            if drops {
                drop(worker);
                reader.collect_garbage(usize::MAX);
                assert!(engine.has_garbage() && !reader.has_garbage(), "the reader is at work");
                reader.commit().unwrap();
                reader.collect_garbage(600);
                assert_eq!((engine.has_garbage(), reader.garbage.queue.len()), (false, 400));
                reader.collect_garbage(600);
                assert!(!reader.has_garbage() && table.row_count() == 0);
                continue;
            }
            reader.commit().unwrap();
            for left in (1..=1000).rev().step_by(super::COLLECT_MAX) {
                assert_eq!(worker.garbage.queue.len(), left);
                worker.begin(Begin::default()).unwrap();
                worker.commit().unwrap();
            }
            // With nobody in the way, who lets much go takes it away.
            worker.begin(Begin::default()).unwrap();
            keys.iter().for_each(|row| worker.insert(&table, row).unwrap());
            worker.commit().unwrap();
            worker.begin(Begin::default()).unwrap();
            assert!(keys.iter().all(|key| worker.delete(&table, key).unwrap()));
            worker.commit().unwrap();
            assert!(!worker.has_garbage());
        }
    }
}
