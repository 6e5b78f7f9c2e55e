//! A step of a transaction: the part of an operation that runs in one section of the gate. Also the
//! lookup of a key's row, which most steps begin with.

use atoll_machine::Machine;
use atoll_storage::{Change, Table};

use super::call::Call;
use super::found::{Found, Wanted, find};
use super::thread::{Fillings, Thread};
use super::txn::TxnState;
use crate::accounting::Component;
use crate::engine::Engine;
use crate::error::OpError;
use crate::row_header::RowHeader;
use crate::scheme::{AbortReason, Conflict, Scheme};
use crate::tables::TableContext;
use crate::work;

/// The context of a step.
pub(super) type StepContext<'h, S, M> = (&'h Engine<S, M>, &'h TableContext<S, M>, Change);

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
    txn: &'t mut TxnState<S, M>,
    returned: bool,
}

impl<S: Scheme<M>, M: Machine> Drop for Shown<'_, S, M> {
    #[inline]
    fn drop(&mut self) {
        self.txn.is_broken |= !self.returned;
        if TxnState::<S, M>::IN_PLACE {
            self.txn.show();
        }
    }
}

impl<S: Scheme<M>, M: Machine> Call<'_, S, M> {
    /// Repeats a step until it is done, and waits in between if the scheme says so.
    #[inline]
    pub(super) fn until_done<R>(
        &mut self,
        table: &Table<M>,
        mut step: impl FnMut(&mut TxnState<S, M>, StepContext<'_, S, M>) -> Step<R>,
    ) -> Result<R, OpError> {
        self.until_done_with(table, |txn, _, here| step(txn, here))
    }

    /// As [`Call::until_done`], for a step that inserts rows.
    #[inline]
    pub(super) fn until_done_with<R>(
        &mut self,
        table: &Table<M>,
        mut step: impl FnMut(&mut TxnState<S, M>, &mut Fillings, StepContext<'_, S, M>) -> Step<R>,
    ) -> Result<R, OpError> {
        let mut round = 0;
        loop {
            M::work(work::SECTION);
            let Self { engine, thread: Thread { member, fillings, .. }, txn } = self;
            let context = engine.tables.context(table.id());
            let section = member.enter();
            let mut shown = Shown { txn, returned: false };
            let here = (*engine, context, Change::forward(section.inside()));
            let done = step(shown.txn, fillings, here);
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

impl<S: Scheme<M>, M: Machine> TxnState<S, M> {
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

    /// As [`TxnState::locate`]; calls `name` with the candidate as soon as it is known, so that the
    /// caller can prefetch its values.
    #[inline]
    pub(super) fn locate_with<'g>(
        &mut self,
        context: &'g TableContext<S, M>,
        wanted: Wanted<'_>,
        name: impl FnOnce(&Found<'g, S, M>),
    ) -> Option<Found<'g, S, M>> {
        M::work(work::OPERATION);
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
        meta: &RowHeader<S, M>,
        hash: u64,
    ) -> bool {
        meta.has_hash(hash) && context.table.is_hash_unique(hash) && !self.rows.hides_any()
    }

    /// Finds the row of a key by a search of the index.
    #[inline(never)]
    pub(super) fn look_up<'g>(
        &mut self,
        context: &'g TableContext<S, M>,
        wanted: Wanted<'_>,
    ) -> Option<Found<'g, S, M>> {
        let before = self.stopwatch.switch::<M>(Component::Index);
        let found = find(context, wanted.hash, wanted.key, &self.rows);
        if let (Some(found), Some(predicted)) = (&found, context.table.predict(wanted.hash))
            && found.slot.id() != predicted
        {
            context.table.mark_wrong(wanted.hash);
        }
        self.stopwatch.switch::<M>(before);
        found
    }
}
