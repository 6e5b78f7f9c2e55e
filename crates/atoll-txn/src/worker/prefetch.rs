//! Prefetching: the keys that a transaction is going to access, and the cache lines that they need.
//!
//! A lookup has three dependent cache misses: the index bucket, the row header, and the value. For
//! keys that are known together, the worker prefetches in two steps: first the index buckets of all
//! keys, except those with a prediction; then the row headers and the values, and after them the
//! heap bytes of long values. The misses within a step overlap. Between the steps, and before the
//! accesses, another transaction may use the CPU.
//!
//! All of this is a hint. The remembered row of a key is a prediction, which the access verifies.

use std::sync::Arc;

use atoll_machine::{Hints, Machine};
use atoll_storage::{RowId, Table, TableId, Value};

use super::Worker;
use super::step::Found;
use crate::accounting::Component;
use crate::scheme::Scheme;
use crate::tables::TableContext;

/// A longer list of keys frees its memory, so that a transaction over a whole table does not leave
/// its worker with the memory of a whole table.
const KEPT_MAX: usize = 4096;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Prefetched {
    /// One stream for each table; the first `used` belong to this transaction.
    streams: Vec<Stream>,
    used: usize,
    pub(super) hints: Hints,
}

/// The keys of a table, in the order of their accesses.
#[derive(Debug)]
pub(super) struct Stream {
    table: TableId,
    keys: Vec<ExpectedKey>,
    /// The key that is expected next.
    next: usize,
    /// The row headers have been prefetched, too.
    prefetched: bool,
}

/// A table, and a function that returns the columns to prefetch for the key at a position.
pub type RowPrefetch<'t, 'c, M> = (&'t Table<M>, &'t dyn Fn(usize) -> &'c [usize]);

/// A key that is expected.
#[derive(Debug, Clone, Copy)]
struct ExpectedKey {
    hash: u64,
    /// The row that the index bucket or the key predictor suggests.
    predicted: Option<RowId>,
}

impl Prefetched {
    /// Removes all keys.
    #[inline]
    pub(super) fn forget(&mut self) {
        for stream in &mut self.streams[..self.used] {
            if stream.keys.capacity() > KEPT_MAX {
                stream.keys = Vec::new();
            }
        }
        self.used = 0;
    }

    /// Expects these keys, in this order, and prefetches the index buckets of those without a
    /// prediction. Replaces the keys of the table that were expected before. Returns whether any
    /// bucket was prefetched.
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

    /// Adds prefetch hints for the row headers of the keys, and for the values of the columns that
    /// `columns` returns for the position of a key. Inside the gate.
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

    /// Adds prefetch hints for the heap bytes of long values, when their views have arrived. Inside
    /// the gate.
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

    /// Whether the transaction has expected keys of a table.
    pub(super) fn expects(&self, table: TableId) -> bool {
        self.streams[..self.used].iter().any(|stream| stream.table == table)
    }

    /// Whether the next `keys` expected keys have been prefetched completely and the first of them
    /// has the hash that `first` returns.
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

    /// The keys of a table, if they have been prefetched completely and the next expected one has
    /// this hash; and the hints, for keys that were not prefetched.
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

    /// The predicted row of this hash, if it is that of the next expected key of the table.
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
    /// Prefetches the index buckets of keys that the caller is going to access in this order;
    /// [`Worker::prefetch_rows`] is the next step. `keys` is a concatenation of keys, each with as
    /// many values as the primary key has columns. This is a hint: it grants nothing, and keys that
    /// do not fit are ignored. Returns whether the caller should wait before the next step.
    pub fn prefetch_index(&mut self, table: &Table<M>, keys: &[Value]) -> bool {
        if self.check_table(table).is_err() {
            return false;
        }
        let before = self.txn.stopwatch.switch::<M>(Component::Index);
        let any = self.txn.prefetched.prefetch_index(table, keys);
        self.txn.stopwatch.switch::<M>(before);
        any
    }

    /// Prefetches the index buckets for an insert of rows with these keys. This is a hint, as
    /// [`Worker::prefetch_index`].
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

    /// Prefetches the row headers and values of the rows with the keys that were given to
    /// [`Worker::prefetch_index`], and remembers the rows. Tables of another engine are ignored.
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
