//! The keys that a transaction is going to access, see [`super::prefetch`].

use atoll_machine::{Hints, Machine};
use atoll_storage::{RowId, Table, TableId, Value};

use super::found::Found;
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
    pub(super) fn prefetch_rows<'c, S: Scheme<M>, M: Machine>(
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
    pub(super) fn prefetch_heap<'c, S: Scheme<M>, M: Machine>(
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
