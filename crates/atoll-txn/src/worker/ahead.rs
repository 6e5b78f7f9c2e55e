//! Keys that a transaction is going to ask for, and the cache lines that they need.
//!
//! A lookup meets three misses, one after the other: a bucket of the index, what lies beside the
//! row, and the value. For keys that are known together, the buckets of all are brought in first,
//! then everything that the entries in them name. The misses of one step overlap; between the two,
//! and before the accesses, somebody else may use the CPU.
//!
//! All this is a hint. What is remembered of a row is a guess, which the access checks.

use atoll_machine::Machine;
use atoll_storage::{RowId, Table, TableId, Value};

use crate::engine::Guard;
use crate::scheme::Scheme;

/// A transaction over a whole table must not leave its worker with the table's size.
const KEPT_MAX: usize = 4096;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    table: Option<TableId>,
    keys: Vec<Coming>,
    /// The key that is expected next.
    next: usize,
}

/// A key that is expected.
#[derive(Debug, Clone, Copy)]
struct Coming {
    hash: u64,
    /// Where the row was seen.
    row: Option<RowId>,
}

impl Ahead {
    /// Forgets all keys.
    #[inline]
    pub(super) fn forget(&mut self) {
        if self.keys.capacity() > KEPT_MAX {
            self.keys = Vec::new();
        }
        self.keys.clear();
        self.next = 0;
    }

    /// Expects these keys, which lie one after the other, in this order, and brings in the buckets
    /// of the index.
    pub(super) fn approach<M: Machine>(&mut self, table: &Table<M>, keys: &[Value]) {
        self.forget();
        self.table = Some(table.id());
        for key in keys.chunks_exact(table.schema().primary_key().len()) {
            let hash = table.hash(key);
            table.index().approach(hash);
            self.keys.push(Coming { hash, row: None });
        }
    }

    /// Brings in what lies beside the rows of the keys, and values of the columns that `columns`
    /// says for the position of a key. Inside the gate.
    pub(super) fn touch<'c, S: Scheme<M>, M: Machine>(
        &mut self,
        guard: &Guard<S, M>,
        columns: &dyn Fn(usize) -> &'c [usize],
    ) {
        if self.table != Some(guard.table.id()) {
            return;
        }
        let table = &*guard.table;
        for (at, key) in self.keys.iter_mut().enumerate() {
            key.row = table.index().guess(key.hash);
            let Some(row) = key.row else { continue };
            M::touch(std::ptr::from_ref(guard.rows.get(row)).cast(), 1);
            table.touch_values(row, columns(at));
        }
    }

    /// Where the row of this hash was seen, if it is the key that is expected next.
    #[inline]
    pub(super) fn next(&mut self, table: TableId, hash: u64) -> Option<RowId> {
        let expected = self.keys.get(self.next)?;
        if expected.hash != hash || self.table != Some(table) {
            return None;
        }
        self.next += 1;
        expected.row
    }
}
