//! The shortest path to a value: for a row with an exact prediction (`ROWS-2`), in a transaction
//! that has the key's partition.
//!
//! The fewer instructions there are between two loads that miss the cache, the more misses overlap.
//! So this path has as few instructions as possible and leaves everything unusual to the fast path
//! of [`super`].

use atoll_machine::Machine;
use atoll_memory::Inside;
use atoll_storage::{Change, PlainColumn, Slot, Table, Value};

use super::super::store_buffer::StoreBuffer;
use super::{Call, Cursor, Fast, Thread};
use crate::engine::partition_of;
use crate::scheme::Scheme;

/// Keys that a transaction may access in a table, as far as one comparison can decide.
#[derive(Clone, Copy)]
pub(super) enum Keys {
    /// All keys: the transaction has all partitions.
    All,
    /// The keys of the only partition that the transaction has.
    Of { partition: u32, partitions: u32 },
    /// The decision needs more than one comparison.
    Asked,
}

impl Keys {
    pub(super) fn of<S: Scheme<M>, M: Machine>(call: &Call<'_, S, M>, table: &Table<M>) -> Self {
        match call.txn.partitions[..] {
            [] => Self::All,
            [partition] if !call.engine.tables.context(table.id()).replicated => {
                Self::Of { partition, partitions: call.engine.partitions() }
            }
            _ => Self::Asked,
        }
    }

    #[inline(always)]
    fn has(self, key: &[Value]) -> bool {
        match self {
            Self::All => true,
            Self::Of { partition, partitions } => {
                partition_of(key.first(), partitions) == partition
            }
            Self::Asked => false,
        }
    }
}

impl<'w, S: Scheme<M>, M: Machine> Cursor<'w, S, M> {
    /// The exact slot of a key that the transaction may access, and a column of it.
    #[inline(always)]
    fn locate_exact(
        &self,
        key: &[Value],
        column: usize,
    ) -> Option<(Slot<'w, M>, PlainColumn, Inside)> {
        // While inside, the transaction is open and has deleted no row itself (`ROWS-2`).
        let inside = self.inside.filter(|_| self.keys.has(key))?;
        let slot = self.table.locate_exact(key)?;
        let column = self.table.plain(column)?;
        (!self.call.thread.member.is_awaited(inside)).then_some((slot, column, inside))
    }

    /// Reads a value; returns false if it has done nothing.
    #[inline(always)]
    pub(super) fn get_exact(&mut self, key: &[Value], column: usize, into: &mut [u8]) -> bool {
        let Some((slot, column, _)) = self.locate_exact(key, column) else { return false };
        let Some(into) = into.get_mut(..column.width()) else { return false };
        if !self.call.thread.store_buffer.is_empty() && self.call.thread.store_buffer.has(slot.id())
        {
            return false; // CURSOR-3
        }
        self.call.txn.note_gsn(|| slot.gsn());
        self.table.load_plain(slot, column, into);
        true
    }

    /// Replaces a value; returns `Fallback` if it has done nothing.
    #[inline(always)]
    pub(super) fn put_exact(&mut self, key: &[Value], column: usize, bytes: &[u8]) -> Fast {
        let Some((slot, column, inside)) = self.locate_exact(key, column) else {
            return Fast::Fallback;
        };
        let Some(bytes) = bytes.get(..column.width()) else { return Fast::Fallback };
        let Call { engine, thread: Thread { store_buffer, .. }, txn } = &mut self.call;
        let context = engine.tables.context(self.table.id());
        let is_kept =
            StoreBuffer::takes(column) && !context.indexes().moving.may_have(column.position());
        if !is_kept || txn.read_only || column.is_in_key() {
            return Fast::Fallback;
        }
        self.table.prefetch_plain(slot, column);
        txn.note_gsn(|| slot.gsn());
        txn.buffer_put(store_buffer, context, Change::forward(inside), (slot.id(), column, bytes))
    }
}
