//! The garbage queue: rows, index entries and long values that have been retired but not freed.
//!
//! A reader that is ordered before the retiring transaction may still need them. So they wait here,
//! in the order in which they were retired, until the scheme's horizon has passed their stamp.
//! [`crate::worker`] frees them before and after transactions, and
//! [`Engine::collect_garbage`](crate::Engine::collect_garbage) while a worker is not in use.

use std::collections::VecDeque;

use atoll_storage::undo::Replaced;
use atoll_storage::{RowId, TableId, TableSerial};

/// An empty queue with a larger capacity than this gives its memory back.
const KEPT_MAX: usize = 1 << 16;
/// Likewise, with a larger capacity for keys, in bytes.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// What was retired.
#[derive(Debug)]
pub(crate) enum Gone {
    /// A row that was deleted, or an insert that was rolled back, with the hash by which the index
    /// finds the row.
    Row(u64),
    /// An entry of the index at a position, and the length of its key in `Garbage::keys`.
    Entry(usize, usize),
    /// A value that was replaced.
    Value(Replaced),
}

/// One item of the queue.
#[derive(Debug)]
pub(crate) struct Retired {
    /// The item may be freed when the horizon has reached this stamp.
    pub(crate) stamp: u64,
    pub(crate) table: TableId,
    /// Of the table, which may have been dropped since.
    pub(crate) serial: TableSerial,
    pub(crate) row: RowId,
    pub(crate) gone: Gone,
}

/// The number of a table, and its serial number.
pub(crate) type TableName = (TableId, TableSerial);

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Garbage {
    queue: VecDeque<Retired>,
    /// The keys of all entries in the queue, in its order.
    keys: VecDeque<u8>,
    /// The key of the entry that [`Garbage::pop`] has returned last; empty if that was no entry.
    key: Vec<u8>,
    horizon: u64,
    /// Items retired since the last [`Garbage::take_new`].
    new: usize,
    newest: u64,
}

impl Garbage {
    fn retire(&mut self, retired: Retired) {
        self.new += 1;
        self.push(retired);
    }

    fn push(&mut self, retired: Retired) {
        self.newest = self.newest.max(retired.stamp);
        self.queue.push_back(retired);
    }

    pub(crate) fn retire_row(
        &mut self,
        stamp: u64,
        (table, serial): TableName,
        row: RowId,
        hash: u64,
    ) {
        self.retire(Retired { stamp, table, serial, row, gone: Gone::Row(hash) });
    }

    pub(crate) fn retire_entry(
        &mut self,
        stamp: u64,
        (table, serial): TableName,
        row: RowId,
        index: usize,
        key: &[u8],
    ) {
        self.keys.extend(key);
        self.retire(Retired { stamp, table, serial, row, gone: Gone::Entry(index, key.len()) });
    }

    pub(crate) fn retire_value(
        &mut self,
        stamp: u64,
        (table, serial): TableName,
        row: RowId,
        replaced: Replaced,
    ) {
        self.retire(Retired { stamp, table, serial, row, gone: Gone::Value(replaced) });
    }

    /// Takes the oldest item and, if it is an index entry, its key (see [`Garbage::key`]).
    pub(crate) fn pop(&mut self) -> Option<Retired> {
        let retired = self.queue.pop_front()?;
        self.key.clear();
        if let Gone::Entry(_, len) = retired.gone {
            self.key.extend(self.keys.drain(..len));
        }
        Some(retired)
    }

    /// The key of the entry that was popped last.
    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }

    /// Appends an item that was popped last and cannot be freed yet.
    pub(crate) fn put_back(&mut self, retired: Retired) {
        self.keys.extend(&self.key);
        self.push(retired);
    }

    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Items retired since the last call.
    #[inline]
    pub(crate) fn take_new(&mut self) -> usize {
        std::mem::take(&mut self.new)
    }

    /// The newest stamp of all items retired so far.
    pub(crate) fn newest(&self) -> u64 {
        self.newest
    }

    /// The greatest horizon seen so far.
    pub(crate) fn horizon(&self) -> u64 {
        self.horizon
    }

    pub(crate) fn raise_horizon(&mut self, horizon: u64) {
        self.horizon = self.horizon.max(horizon);
    }

    /// Whether the horizon has passed the oldest item.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        self.queue.front().is_some_and(|retired| retired.stamp <= self.horizon)
    }

    /// Gives back the memory of a queue that was large and is empty now.
    pub(crate) fn shrink(&mut self) {
        let is_large = self.queue.capacity() > KEPT_MAX || self.keys.capacity() > KEPT_BYTES_MAX;
        if self.is_empty() && is_large {
            *self = Self { horizon: self.horizon, ..Self::default() };
        }
    }
}
