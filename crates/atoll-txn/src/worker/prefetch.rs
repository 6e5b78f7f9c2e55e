//! Keys that a transaction is going to ask for, and the cache lines that they need.
//!
//! A lookup meets three misses, one after the other: a bucket of the index, what lies beside the
//! row, and the value. For keys that are known together, the buckets of all are brought in first,
//! but where the table can guess rows; then everything that the entries in them name, then long
//! values, which are named there. The misses of one step overlap; between the two, and before the
//! accesses, somebody else may use the CPU.
//!
//! All this is a hint. What is remembered of a row is a guess, which the access checks.

use std::sync::Arc;

use atoll_machine::{Hints, Machine};
use atoll_storage::{RowId, Table, TableId, Value};

use super::Worker;
use super::step::Found;
use crate::accounting::Component;
use crate::scheme::Scheme;
use crate::tables::TableContext;

/// A transaction over a whole table must not leave its worker with the table's size.
const KEPT_MAX: usize = 4096;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Prefetched {
    /// One for each table; the first `used` are of this transaction.
    streams: Vec<Stream>,
    used: usize,
    pub(super) hints: Hints,
}

/// The keys of a table.
#[derive(Debug)]
pub(super) struct Stream {
    table: TableId,
    keys: Vec<ExpectedKey>,
    /// The key that is expected next.
    next: usize,
    /// What lies beside the rows has been brought in, too.
    prefetched: bool,
}

/// A table, and which columns will be accessed of the row whose key has a position.
pub type RowPrefetch<'t, 'c, M> = (&'t Table<M>, &'t dyn Fn(usize) -> &'c [usize]);

/// A key that is expected.
#[derive(Debug, Clone, Copy)]
struct ExpectedKey {
    hash: u64,
    /// Where the row was seen, or is guessed until then.
    predicted: Option<RowId>,
}

impl Prefetched {
    /// Forgets all keys.
    #[inline]
    pub(super) fn forget(&mut self) {
        for stream in &mut self.streams[..self.used] {
            if stream.keys.capacity() > KEPT_MAX {
                stream.keys = Vec::new();
            }
        }
        self.used = 0;
    }

    /// Expects these keys, which lie one after the other, in this order, and brings in the buckets
    /// of the index for those whose row cannot be guessed. What was expected of the table before is
    /// forgotten. Whether there are such buckets.
    pub(super) fn prefetch_index<M: Machine>(&mut self, table: &Table<M>, keys: &[Value]) -> bool {
        let stream = self.stream(table.id());
        let mut any = false;
        for key in keys.chunks_exact(table.schema().primary_key().len()) {
            let sought = table.hash_and_predict(key);
            let (hash, predicted) = sought.unwrap_or_else(|_| (table.hash(key), None));
            stream.keys.push(ExpectedKey { hash, predicted });
            any |= predicted.is_none();
        }
        for key in stream.keys.iter().filter(|key| any && key.predicted.is_none()) {
            M::prefetch(table.index().bucket(key.hash).line(), 1);
        }
        any
    }

    /// An empty stream for a table.
    fn stream(&mut self, table: TableId) -> &mut Stream {
        let known = self.streams[..self.used].iter().position(|stream| stream.table == table);
        let at = known.unwrap_or_else(|| {
            if self.used == self.streams.len() {
                self.streams.push(Stream { table, keys: Vec::new(), next: 0, prefetched: false });
            }
            self.used += 1;
            self.used - 1
        });
        let stream = &mut self.streams[at];
        stream.keys.clear();
        (stream.table, stream.next, stream.prefetched) = (table, 0, false);
        stream
    }

    /// Gathers what lies beside the rows of the keys, and values of the columns that `columns` says
    /// for the position of a key. Inside the gate.
    fn prefetch_rows<'c, S: Scheme<M>, M: Machine>(
        &mut self,
        context: &TableContext<S, M>,
        columns: &dyn Fn(usize) -> &'c [usize],
    ) {
        let table = &*context.table;
        let Self { streams, used, hints } = self;
        let mut streams = streams[..*used].iter_mut();
        let Some(stream) = streams.find(|stream| stream.table == table.id()) else { return };
        stream.prefetched = true;
        for (at, key) in stream.keys.iter_mut().enumerate() {
            let hash = key.hash;
            key.predicted = key.predicted.or_else(|| table.index().bucket(hash).candidate(hash));
            match key.predicted.and_then(|row| Found::at_predicted(context, row, hash)) {
                Some(found) => found.hint(context, columns(at), hints),
                None => key.predicted = None,
            }
        }
    }

    /// Gathers long values of those columns, once what names them has come. Inside the gate.
    fn prefetch_heap<'c, S: Scheme<M>, M: Machine>(
        &mut self,
        context: &TableContext<S, M>,
        columns: &dyn Fn(usize) -> &'c [usize],
    ) {
        let table = &*context.table;
        let mut streams = self.streams[..self.used].iter();
        let Some(stream) = streams.find(|stream| stream.table == table.id()) else { return };
        let rows = stream.keys.iter().enumerate();
        for (at, row) in rows.filter_map(|(at, key)| Some((at, key.predicted?))) {
            table.hint_at_long_values(&[table.slot(row)], columns(at), &mut self.hints);
        }
    }

    /// Whether keys of a table are expected, or were.
    pub(super) fn expects(&self, table: TableId) -> bool {
        self.streams[..self.used].iter().any(|stream| stream.table == table)
    }

    /// Whether everything has been brought in that so many keys need from the one with this hash
    /// on, if they are those that are expected.
    pub(super) fn has_prefetched(
        &mut self,
        table: TableId,
        keys: usize,
        first: impl FnOnce() -> Option<u64>,
    ) -> bool {
        if !self.expects(table) {
            return false;
        }
        let stream = first().and_then(|hash| self.prefetched(table, hash).0);
        stream.is_some_and(|stream| stream.keys.len() - stream.next >= keys)
    }

    /// The keys of a table, if the one that is expected next has this hash, and everything that it
    /// and those behind it need has been brought in; and where what is not is gathered.
    #[inline]
    pub(super) fn prefetched(
        &mut self,
        table: TableId,
        hash: u64,
    ) -> (Option<&mut Stream>, &mut Hints) {
        let mut streams = self.streams[..self.used].iter_mut();
        let stream = streams.find(|stream| stream.table == table);
        let is_next = |stream: &Stream| stream.keys.get(stream.next).map(|key| key.hash);
        (stream.filter(|one| one.prefetched && is_next(one) == Some(hash)), &mut self.hints)
    }

    /// Where the row of this hash was seen, if it is the key that is expected next in its table.
    #[inline]
    pub(super) fn next(&mut self, table: TableId, hash: u64) -> Option<RowId> {
        let mut streams = self.streams[..self.used].iter_mut();
        streams.find(|stream| stream.table == table)?.next(hash)
    }
}

impl Stream {
    /// See [`Prefetched::next`].
    #[inline]
    pub(super) fn next(&mut self, hash: u64) -> Option<RowId> {
        let expected = self.keys.get(self.next).filter(|key| key.hash == hash)?;
        self.next += 1;
        expected.predicted
    }
}

impl<S: Scheme<M>, M: Machine> Worker<S, M> {
    /// Brings in the cache lines that finding rows with these keys will need, all at the same time,
    /// for who asks for them in this order; then comes [`Worker::prefetch_rows`]. Keys lie one
    /// after the other, each with as many values as the primary key has columns. A hint: it grants
    /// nothing, and keys that do not fit are passed over. Whether there is anything to wait for.
    pub fn prefetch_index(&mut self, table: &Table<M>, keys: &[Value]) -> bool {
        if self.check_table(table).is_err() {
            return false;
        }
        let before = self.txn.stopwatch.switch::<M>(Component::Index);
        let any = self.txn.prefetched.prefetch_index(table, keys);
        self.txn.stopwatch.switch::<M>(before);
        any
    }

    /// Brings in the cache lines of the index that inserting rows with these keys will need. A
    /// hint, as [`Worker::prefetch_index`].
    pub fn prefetch_index_for_insert(&mut self, table: &Table<M>, keys: &[Value]) {
        if self.check_table(table).is_err() {
            return;
        }
        let before = self.txn.stopwatch.switch::<M>(Component::Index);
        for key in keys.chunks_exact(table.schema().primary_key().len()) {
            M::prefetch(table.index().bucket(table.hash(key)).line(), 1);
        }
        self.txn.stopwatch.switch::<M>(before);
    }

    /// Brings in the cache lines that reading or changing the rows will need whose keys were
    /// approached, all at the same time, and remembers where the rows are. Tables of another engine
    /// are passed over.
    pub fn prefetch_rows<'c>(&mut self, wanted: &[RowPrefetch<'_, 'c, M>]) {
        let Self { engine, member, txn, .. } = self;
        let is_here = |table: &Table<M>| Arc::ptr_eq(table.memory(), engine.memory());
        let wanted = || wanted.iter().filter(|(table, _)| is_here(table));
        let before = txn.stopwatch.switch::<M>(Component::Index);
        let section = member.enter();
        for (table, columns) in wanted() {
            txn.prefetched.prefetch_rows(engine.tables.context(table.id()), columns);
        }
        txn.prefetched.hints.give::<M>();
        for (table, columns) in wanted() {
            let context = engine.tables.context(table.id());
            if !context.views.is_empty() {
                txn.prefetched.prefetch_heap(context, columns);
            }
        }
        txn.prefetched.hints.give::<M>();
        drop(section);
        txn.stopwatch.switch::<M>(before);
    }
}
