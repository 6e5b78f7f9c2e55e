//! Batched reads and updates of rows, for keys that are known together.
//!
//! The worker looks the keys up in windows ([`super::key_batch`]) and calls the caller's closure
//! for each row. The accesses are made in the order of the keys, each as if it were made alone: a
//! window is not atomic, and if the scheme makes the transaction wait, it waits outside the gate.

use std::hint::cold_path;

use atoll_machine::{Hints, Machine};
use atoll_storage::{Change, Slot, Table, Value};

use super::call::Call;
use super::key_batch::{Aim, Aims, KeyBatch, Seen};
use super::step::Step;
use super::txn::TxnState;
use crate::engine::Engine;
use crate::error::OpError;
use crate::row::{Row, RowEdit};
use crate::scheme::{Conflict, Scheme};
use crate::tables::TableContext;

/// The operation of a transaction on a row.
#[derive(Debug, Clone, Copy)]
pub struct Want<'c> {
    /// Columns that will be read or changed; a hint for prefetching.
    pub columns: &'c [usize],
    /// Whether the row may be changed.
    pub update: bool,
}

impl<'c> Want<'c> {
    /// Reads these columns.
    pub const fn read(columns: &'c [usize]) -> Self {
        Self { columns, update: false }
    }

    /// Reads and changes these columns.
    pub const fn update(columns: &'c [usize]) -> Self {
        Self { columns, update: true }
    }
}

/// What the callback gets for a key.
pub enum Visit<'v, 'a, M: Machine> {
    /// There is no row with the key.
    Absent,
    /// The row, for reading.
    Read(&'v Row<'a, M>),
    /// The row, for reading and changing.
    Update(&'v mut RowEdit<'a, M>),
}

/// A callback that gets the position of a key and its row.
pub type Visitor<'b, M> = &'b mut dyn FnMut(usize, Visit<'_, '_, M>);

impl Aim for Want<'_> {
    #[inline]
    fn updates(self) -> bool {
        self.update
    }

    #[inline]
    fn hint<M: Machine>(
        self,
        line: Option<*const u8>,
        _: &Table<M>,
        _: Slot<'_, M>,
        hints: &mut Hints,
    ) {
        line.iter().for_each(|line| hints.add_line::<M>(*line));
    }

    #[inline]
    fn columns<'a>(self) -> &'a [usize]
    where
        Self: 'a,
    {
        self.columns
    }
}

struct Wants<'f, 'c>(&'f dyn Fn(usize) -> Want<'c>);

impl<'c> Aims<Want<'c>> for Wants<'_, 'c> {
    #[inline]
    fn of(&self, at: usize) -> Option<Want<'c>> {
        Some(self.0(at))
    }

    fn misfit(&self, at: usize) -> OpError {
        unreachable!("anything can be done with row {at}")
    }
}

impl<S: Scheme<M>, M: Machine> Call<'_, S, M> {
    /// Calls `body` for each of the keys, in their order, with its position and its row. `keys` is
    /// a concatenation of keys, each with as many values as the primary key has columns; `wants`
    /// returns the operation for the position of a key. Both may be called several times for a key,
    /// `body` inside the gate.
    ///
    /// # Errors
    /// [`OpError::Abort`]; [`OpError::ReadOnly`], and [`OpError::Storage`] for a key that does not
    /// fit the table: nothing has been done; [`OpError::OtherPartition`],
    /// [`OpError::DuplicateIndexKey`], [`OpError::KeyUpdate`], and [`OpError::Storage`] for values
    /// that do not fit: the transaction has been rolled back.
    pub fn visit<'c>(
        &mut self,
        table: &Table<M>,
        keys: &[Value],
        wants: &dyn Fn(usize) -> Want<'c>,
        body: Visitor<'_, M>,
    ) -> Result<(), OpError> {
        self.in_windows(table, keys, &Wants(wants), |txn, here, seen, at| {
            txn.visit_some(here, seen, at, &mut *body)
        })
    }
}

impl<S: Scheme<M>, M: Machine> TxnState<S, M> {
    /// Visits rows of a window from `at` on, in one section, until there is a reason to leave it.
    #[inline]
    fn visit_some(
        &mut self,
        (engine, context, change): (&Engine<S, M>, &TableContext<S, M>, Change),
        (window, seen): (&KeyBatch<'_, Want<'_>>, &Seen<'_, S, M>),
        at: &mut usize,
        body: Visitor<'_, M>,
    ) -> Step<()> {
        let begin = *at;
        while let Some((hash, aim)) = window.get(*at) {
            let wanted = window.wanted(*at, hash);
            let found = match seen.get(*at) {
                Some(Some(found)) if self.is_verified(context, found.meta, hash) => Some(*found),
                _ => {
                    cold_path();
                    self.look_up(context, wanted)
                }
            };
            let position = window.first + *at;
            let step = if aim.update {
                self.edit(engine, context, change, wanted, found, |row| {
                    body(position, Visit::Update(row));
                })
            } else {
                self.read(engine, context, wanted, found, |row| body(position, Visit::Read(row)))
            };
            match step {
                Step::Done(true) => {}
                Step::Done(false) => body(position, Visit::Absent),
                Step::Failed(error) => return Step::Failed(error),
                // The next step begins with this row, so that its wait begins with that step.
                Step::Again | Step::Conflict(Conflict::WouldBlock(_)) if *at > begin => {
                    return Step::Done(());
                }
                Step::Again => return Step::Again,
                Step::Conflict(conflict) => return Step::Conflict(conflict),
            }
            *at += 1;
            if self.entries.has_new() {
                // The worker adds new index entries outside this section.
                return Step::Done(());
            }
        }
        Step::Done(())
    }
}
