//! Prefetching: the keys that a transaction is going to access, and the cache lines that they need.
//!
//! A lookup has three dependent cache misses: the index bucket, the row header, and the value. For
//! keys that are known together, the worker prefetches in two steps: first the index buckets of all
//! keys, except those with a prediction; then the row headers and the values, and after them the
//! heap bytes of long values. The misses within a step overlap. Between the steps, and before the
//! accesses, another transaction may use the CPU.
//!
//! All of this is a hint. The remembered row of a key is a prediction, which the access verifies.

use atoll_machine::Machine;
use atoll_storage::{Table, Value};

use super::call::Call;
use super::thread::Thread;
use crate::accounting::Component;
use crate::scheme::Scheme;

impl<S: Scheme<M>, M: Machine> Call<'_, S, M> {
    /// Prefetches the index buckets of keys that the caller is going to access in this order;
    /// [`Call::prefetch_rows`] is the next step. `keys` is a concatenation of keys, each with as
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
    /// [`Call::prefetch_index`].
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
    /// [`Call::prefetch_index`], and remembers the rows. `columns` returns the columns for the
    /// position of a key. A table of another engine is ignored.
    pub fn prefetch_rows<'c>(&mut self, table: &Table<M>, columns: &dyn Fn(usize) -> &'c [usize]) {
        if self.check_table(table).is_err() {
            return;
        }
        let Self { engine, thread: Thread { member, .. }, txn } = self;
        let before = txn.stopwatch.switch::<M>(Component::Index);
        let context = engine.tables.context(table.id());
        let section = member.enter();
        txn.prefetched.prefetch_rows(context, columns);
        txn.prefetched.hints.give::<M>();
        if !context.views().is_empty() {
            txn.prefetched.prefetch_heap(context, columns);
            txn.prefetched.hints.give::<M>();
        }
        drop(section);
        txn.stopwatch.switch::<M>(before);
    }
}
