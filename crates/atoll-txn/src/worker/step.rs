//! A step of a transaction: the part of an operation that runs in one section of the gate. Also the
//! lookup of a key's row, which most steps begin with.

use std::collections::HashSet;
use std::hash::BuildHasher;

use atoll_machine::{Hints, Machine};
use atoll_storage::{Change, RowId, Slot, Table, Value};

use super::{Txn, Worker, target};
use crate::accounting::Component;
use crate::engine::Engine;
use crate::error::OpError;
use crate::registry::TxnContext;
use crate::rows::Meta;
use crate::scheme::{AbortReason, Conflict, Scheme, Target};
use crate::tables::TableContext;

/// The row that the hash index finds for a key. An open transaction may have inserted it.
#[inline]
pub(super) fn find<'g, S: Scheme<M>, M: Machine, H: BuildHasher>(
    context: &'g TableContext<S, M>,
    hash: u64,
    key: &[Value],
    gone: &HashSet<(u32, u64), H>,
) -> Option<Found<'g, S, M>> {
    let table = &context.table;
    let is_hash_unique = table.is_hash_unique(hash);
    let row = table.index().find(hash, |row| {
        context.rows.get(row).has_hash(hash)
            && (is_hash_unique || table.has_key(row, key))
            && (gone.is_empty() || !gone.contains(&(table.id().0, row.0)))
    })?;
    Some(Found::new(context, row))
}

/// The slot and the row header that a lookup has found.
pub(super) struct Found<'g, S: Scheme<M>, M: Machine> {
    pub(super) slot: Slot<'g, M>,
    pub(super) meta: &'g Meta<S, M>,
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
        Self { slot: context.table.slot(row), meta: context.rows.get(row) }
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
        let meta = if is_exact { &context.any_row } else { context.rows.get(row) };
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

/// The context of a step.
pub(super) type Here<'h, S, M> = (&'h Engine<S, M>, &'h TableContext<S, M>, Change);

/// How a step ended.
pub(super) enum Step<R> {
    /// It has succeeded.
    Done(R),
    /// The index or the row has changed meanwhile: the step has to run again.
    Again,
    /// The scheme has refused a request.
    Conflict(Conflict),
    /// It has failed with an error.
    Failed(OpError),
}

/// Shows what a step has stored to takers before the section ends, even if a callback panics.
struct Shown<'t, S: Scheme<M>, M: Machine> {
    txn: &'t mut Txn<S, M>,
    context: &'t TxnContext<M>,
    returned: bool,
}

impl<S: Scheme<M>, M: Machine> Drop for Shown<'_, S, M> {
    #[inline]
    fn drop(&mut self) {
        self.txn.is_broken |= !self.returned;
        if Txn::<S, M>::IN_PLACE {
            self.txn.show(self.context);
        }
    }
}

/// A key that is being looked up.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'k> {
    pub(super) hash: u64,
    pub(super) key: &'k [Value],
}

impl<S: Scheme<M>, M: Machine> Worker<S, M> {
    /// Repeats a step until it is done, and waits in between if the scheme says so.
    #[inline]
    pub(super) fn until_done<R>(
        &mut self,
        table: &Table<M>,
        mut step: impl FnMut(&Engine<S, M>, &mut Txn<S, M>, &TableContext<S, M>, Change) -> Step<R>,
    ) -> Result<R, OpError> {
        let mut round = 0;
        loop {
            let Self { engine, member, txn, .. } = self;
            let context = engine.tables.context(table.id());
            let section = member.enter();
            let mut shown = Shown { txn, context: &self.context, returned: false };
            let done = step(engine, shown.txn, context, Change::forward(section.inside()));
            shown.returned = true;
            drop(shown);
            drop(section);
            match done {
                Step::Done(result) => return Ok(result),
                Step::Again => {}
                Step::Conflict(conflict) => self.on_conflict(conflict, &mut round)?,
                Step::Failed(error) => return Err(self.fail_with(error)),
            }
        }
    }

    /// Rolls back after an error in a step, which may have stored already.
    pub(super) fn fail_with(&mut self, error: OpError) -> OpError {
        match error {
            OpError::Storage(error) => self.fail(error),
            other => {
                self.abort(AbortReason::Finished);
                other
            }
        }
    }
}

impl<S: Scheme<M>, M: Machine> Txn<S, M> {
    /// Finds the row of a key. Candidates are the row that was prefetched for the key, else the row
    /// that the table predicts, else the candidate in the key's index bucket. If the candidate
    /// cannot be verified, the index is searched.
    #[inline]
    pub(super) fn locate<'g>(
        &mut self,
        context: &'g TableContext<S, M>,
        wanted: Wanted<'_>,
    ) -> Option<Found<'g, S, M>> {
        self.locate_with(context, wanted, |_| ())
    }

    /// As [`Txn::locate`]; calls `name` with the candidate as soon as it is known, so that the
    /// caller can prefetch its values.
    #[inline]
    pub(super) fn locate_with<'g>(
        &mut self,
        context: &'g TableContext<S, M>,
        wanted: Wanted<'_>,
        name: impl FnOnce(&Found<'g, S, M>),
    ) -> Option<Found<'g, S, M>> {
        let hash = wanted.hash;
        let before = self.stopwatch.switch::<M>(Component::Index);
        let expected = self.prefetched.next(context.table.id(), hash);
        let predicted = expected.or_else(|| context.table.predict(hash));
        let found = predicted.and_then(|row| Found::at_predicted(context, row, hash));
        let named = || context.table.index().bucket(hash).candidate(hash);
        let found = found.or_else(|| named().map(|row| Found::new(context, row))).inspect(name);
        let found = found.filter(|found| self.is_verified(context, found.meta, hash));
        self.stopwatch.switch::<M>(before);
        found.or_else(|| self.look_up(context, wanted))
    }

    /// Whether the row header of a candidate proves that it is the row of the key.
    #[inline]
    pub(super) fn is_verified(
        &self,
        context: &TableContext<S, M>,
        meta: &Meta<S, M>,
        hash: u64,
    ) -> bool {
        meta.has_hash(hash) && context.table.is_hash_unique(hash) && self.gone_rows.is_empty()
    }

    /// Finds the row of a key by a search of the index.
    #[inline(never)]
    pub(super) fn look_up<'g>(
        &mut self,
        context: &'g TableContext<S, M>,
        wanted: Wanted<'_>,
    ) -> Option<Found<'g, S, M>> {
        let before = self.stopwatch.switch::<M>(Component::Index);
        let found = find(context, wanted.hash, wanted.key, &self.gone_rows);
        if let (Some(found), Some(predicted)) = (&found, context.table.predict(wanted.hash))
            && found.slot.id() != predicted
        {
            context.table.mark_wrong(wanted.hash);
        }
        self.stopwatch.switch::<M>(before);
        found
    }
}
