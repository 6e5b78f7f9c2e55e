//! Foreign keys of rows that are loaded, beside any statement.

use std::borrow::Cow;

use atoll::{Transaction, Value};

use super::Keeper;
use crate::foreign::deferred::{Deferred, Modes};
use crate::foreign::find::Hold;
use crate::interrupt::Interrupt;
use crate::prepared::Prepared;
use crate::prepared::run::{How, Runner};
use crate::short::run::Stop;
use crate::short::scalar::Surroundings;

/// The transaction that a load is part of.
pub(crate) struct Part<'p> {
    pub(crate) hold: Hold,
    /// Where checks go that are made when it commits, if it goes on behind the load.
    pub(crate) deferred: Option<&'p mut Deferred>,
}

impl Part<'_> {
    /// The load is a transaction by itself.
    pub(crate) fn whole() -> Self {
        Self { hold: Hold::Reads, deferred: None }
    }
}

/// Keeps the foreign keys of a load.
pub(crate) struct Loading<'l> {
    insert: &'l Prepared,
    keeper: Keeper<'l>,
    part: Part<'l>,
}

impl<'l> Loading<'l> {
    /// For a load into the table of this `INSERT`; `None` if it has no foreign keys to keep.
    ///
    /// # Errors
    /// A table was altered since the statement was bound.
    pub(crate) fn new(
        insert: &'l Prepared,
        transaction: &mut Transaction,
        interrupt: &Interrupt,
        part: Part<'l>,
    ) -> Result<Option<Self>, Stop> {
        let around = Surroundings::of_nothing(crate::short::scalar::Began::default());
        let how = How::serializable(interrupt);
        let around = Cow::Owned(around);
        let (checks, generated, keeper, at, passes) = (None, None, None, 0, false);
        let mut runner = Runner { transaction, around, checks, generated, keeper, at, how, passes };
        runner.use_tables(insert)?;
        let Some(foreign) = insert.foreign() else { return Ok(None) };
        let modes = part.deferred.as_ref().map_or_else(Modes::default, |one| one.modes.clone());
        let keeper = Keeper::new(foreign, modes, part.hold);
        Ok(Some(Self { insert, keeper, part }))
    }

    /// A row is about to be stored, perhaps in the place of `old`.
    ///
    /// # Errors
    /// As [`Keeper::store`].
    pub(crate) fn store(
        &mut self,
        transaction: &mut Transaction,
        row: &[Value],
        old: Option<&[Value]>,
    ) -> Result<(), Stop> {
        self.keeper.store(transaction, 0, row, old)
    }

    /// A row has been replaced.
    pub(crate) fn replaced(&mut self, old: &[Value], new: &[Value]) {
        self.keeper.gone(0, old, Some(new));
    }

    /// Ends the load: makes checks, and carries out actions.
    ///
    /// # Errors
    /// As those of a statement.
    pub(crate) fn finish(
        self,
        transaction: &mut Transaction,
        around: &Surroundings,
        interrupt: &Interrupt,
    ) -> Result<(), Stop> {
        let Self { insert, keeper, part } = self;
        let how = How { deferred: part.deferred, ..How::serializable(interrupt) };
        let (around, checks, generated) =
            (Cow::Borrowed(around), insert.checks(), insert.generated());
        let (keeper, at, passes) = (Some(keeper), 0, false);
        Runner { transaction, around, checks, generated, keeper, at, how, passes }.finish()
    }
}
