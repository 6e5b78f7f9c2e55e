//! The row of a key: what a lookup wants and what it finds.

use atoll_machine::{Hints, Machine};
use atoll_storage::{RowId, Slot, Value};

use super::row_changes::RowChanges;
use crate::row_header::RowHeader;
use crate::scheme::{Scheme, Target};
use crate::tables::TableContext;

/// A key that is being looked up.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'k> {
    pub(super) hash: u64,
    pub(super) key: &'k [Value],
}

/// The row that the hash index finds for a key. An open transaction may have inserted it.
#[inline]
pub(super) fn find<'g, S: Scheme<M>, M: Machine>(
    context: &'g TableContext<S, M>,
    hash: u64,
    key: &[Value],
    changes: &RowChanges,
) -> Option<Found<'g, S, M>> {
    let table = &context.table;
    let is_hash_unique = table.is_hash_unique(hash);
    let row = table.index().find(hash, |row| {
        context.header(row).has_hash(hash)
            && (is_hash_unique || table.has_key(row, key))
            && !changes.hides(table.id(), row)
    })?;
    Some(Found::new(context, row))
}

/// The slot and the row header that a lookup has found.
pub(super) struct Found<'g, S: Scheme<M>, M: Machine> {
    pub(super) slot: Slot<'g, M>,
    pub(super) meta: &'g RowHeader<S, M>,
}

impl<S: Scheme<M>, M: Machine> Clone for Found<'_, S, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S: Scheme<M>, M: Machine> Copy for Found<'_, S, M> {}

impl<'g, S: Scheme<M>, M: Machine> Found<'g, S, M> {
    #[inline]
    pub(super) fn new(context: &'g TableContext<S, M>, row: RowId) -> Self {
        Self { slot: context.table.slot(row), meta: context.header(row) }
    }

    /// A row that is predicted to be that of a key; `None` if there is no such slot. Under a
    /// partitioned scheme, only a transaction that has the key's partition may use the result.
    #[inline]
    pub(super) fn at_predicted(
        context: &'g TableContext<S, M>,
        row: RowId,
        hash: u64,
    ) -> Option<Self> {
        let slot = context.table.slot_if_any(row)?;
        let is_exact = S::PARTITIONED && context.table.is_exact(slot, hash);
        let meta = if is_exact { &context.any_row } else { context.header(row) };
        Some(Self { slot, meta })
    }

    /// The cache line of the row header, unless it is the shared header, which is in a cache.
    #[inline(always)]
    pub(super) fn line_beside(&self, context: &TableContext<S, M>) -> Option<*const u8> {
        let is_away = !S::PARTITIONED || !std::ptr::eq(self.meta, &raw const context.any_row);
        is_away.then(|| std::ptr::from_ref(self.meta).cast())
    }

    /// Adds prefetch hints for the row header and the values of these columns.
    #[inline]
    pub(super) fn hint(&self, context: &TableContext<S, M>, columns: &[usize], hints: &mut Hints) {
        self.line_beside(context).iter().for_each(|line| hints.add_line::<M>(*line));
        context.table.hint_at_values(&[self.slot], columns, hints);
    }

    /// The target of a request to the scheme.
    #[inline]
    pub(super) fn target(&self, context: &TableContext<S, M>) -> Target<'g, S::State> {
        target(context, self.slot.id(), self.meta)
    }
}

/// The target of a request to the scheme.
#[inline]
pub(super) fn target<'s, S: Scheme<M>, M: Machine>(
    context: &TableContext<S, M>,
    row: RowId,
    meta: &'s RowHeader<S, M>,
) -> Target<'s, S::State> {
    Target { place: context.place(row), state: &meta.state }
}
