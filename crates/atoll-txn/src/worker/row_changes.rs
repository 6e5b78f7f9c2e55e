//! The rows that a transaction has inserted and deleted, and what its end has to free.

use std::collections::HashSet;
use std::hash::BuildHasherDefault;

use atoll_storage::{RowId, TableId};

use crate::kept;
use crate::place::PlaceHasher;

/// A longer list frees its memory, so that a transaction over a whole table does not leave its
/// state with the memory of a whole table.
const KEPT_MAX: usize = 4096;

/// A row and the hash by which the index finds it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Named {
    pub(super) table: TableId,
    pub(super) row: RowId,
    pub(super) hash: u64,
}

/// See the module.
#[derive(Default)]
pub(super) struct RowChanges {
    inserted: Vec<Named>,
    deleted: Vec<Named>,
    /// The rows that were deleted in place: their entries are in the index until the end.
    hidden: HashSet<(u32, u64), BuildHasherDefault<PlaceHasher>>,
    /// Slots that were claimed but will not be used.
    unused: Vec<(TableId, RowId)>,
    /// The commit has to free a replaced long value or a deleted row.
    must_forget: bool,
}

impl RowChanges {
    /// Rows that the transaction has inserted: their entries are removed if it aborts.
    pub(super) fn inserted(&self) -> &[Named] {
        &self.inserted
    }

    /// Rows that it has deleted: their entries are removed if it commits.
    pub(super) fn deleted(&self) -> &[Named] {
        &self.deleted
    }

    #[inline]
    pub(super) fn insert(&mut self, row: Named) {
        self.inserted.push(row);
    }

    pub(super) fn delete(&mut self, row: Named) {
        self.must_forget = true;
        self.deleted.push(row);
    }

    /// Hides a row that was deleted in place from later operations of the transaction.
    pub(super) fn hide(&mut self, table: TableId, row: RowId) {
        self.hidden.insert((table.0, row.0));
    }

    /// Whether the transaction has deleted a row in place.
    #[inline]
    pub(super) fn hides(&self, table: TableId, row: RowId) -> bool {
        !self.hidden.is_empty() && self.hidden.contains(&(table.0, row.0))
    }

    /// Whether it has deleted any row in place.
    #[inline]
    /// Whether the transaction has inserted or deleted rows.
    pub(super) fn any(&self) -> bool {
        !self.inserted().is_empty() || !self.deleted().is_empty()
    }

    pub(super) fn hides_any(&self) -> bool {
        !self.hidden.is_empty()
    }

    /// Notes a slot that was claimed but will not be used. It is freed at the end, since the scheme
    /// has got a request for it.
    pub(super) fn leave_unused(&mut self, table: TableId, row: RowId) {
        self.unused.push((table, row));
    }

    /// The slots of [`RowChanges::leave_unused`].
    pub(super) fn take_unused(&mut self) -> impl Iterator<Item = (TableId, RowId)> {
        self.unused.drain(..)
    }

    /// Notes whether the commit has to free what the undo list keeps.
    #[inline]
    pub(super) fn forget_if(&mut self, has_replaced: bool) {
        self.must_forget |= has_replaced;
    }

    /// Whether the commit has to free what the undo list keeps.
    #[inline]
    pub(super) fn must_forget(&self) -> bool {
        self.must_forget
    }

    /// Empties the lists. The slots of [`RowChanges::take_unused`] have been taken.
    pub(super) fn clear(&mut self) {
        debug_assert!(self.unused.is_empty(), "unused slots are freed");
        kept::clear(&mut self.unused);
        if self.inserted.capacity().max(self.deleted.capacity()) > KEPT_MAX {
            (self.inserted, self.deleted) = (Vec::new(), Vec::new());
        }
        self.inserted.clear();
        self.deleted.clear();
        if self.hidden.capacity() > KEPT_MAX {
            self.hidden = HashSet::default();
        } else if !self.hidden.is_empty() {
            self.hidden.clear();
        }
        self.must_forget = false;
    }
}
