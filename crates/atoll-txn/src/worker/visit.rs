//! Reading and changing many rows whose keys are known together.
//!
//! They are looked for in windows ([`super::key_batch`]), and the caller's closure is shown each
//! row. The accesses come in the order of the keys, each as if it were made by itself: the windows
//! are no atomic steps, and a scheme that makes the transaction wait does so outside the gate.

use std::hint::cold_path;

use atoll_machine::{Hints, Machine};
use atoll_storage::{Change, Slot, Table, Value};

use super::key_batch::{Aim, Aims, KeyBatch, Seen};
use super::step::Step;
use super::{Txn, Worker};
use crate::engine::Engine;
use crate::error::OpError;
use crate::row::{Row, RowEdit};
use crate::scheme::{Conflict, Scheme};
use crate::tables::TableContext;

/// What a transaction is going to do with a row.
#[derive(Debug, Clone, Copy)]
pub struct Want<'c> {
    /// Columns that will be read or changed: a hint.
    pub columns: &'c [usize],
    /// Whether the row may be changed.
    pub update: bool,
}

impl<'c> Want<'c> {
    /// To read these columns.
    pub const fn read(columns: &'c [usize]) -> Self {
        Self { columns, update: false }
    }

    /// To read and change these columns.
    pub const fn update(columns: &'c [usize]) -> Self {
        Self { columns, update: true }
    }
}

/// A row as it is visited.
pub enum Visit<'v, 'a, M: Machine> {
    /// There is no row with the key.
    Absent,
    /// It is to be read.
    Read(&'v Row<'a, M>),
    /// It may be changed.
    Update(&'v mut RowEdit<'a, M>),
}

/// What is called with the position of a key and its row.
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

impl<S: Scheme<M>, M: Machine> Worker<S, M> {
    /// Calls `body` for each of the keys, in their order, with its position and its row. Keys lie
    /// one after the other, each with as many values as the primary key has columns; `wants` says
    /// for the position of a key what will be done with the row. Both are called several times for
    /// a key perhaps, `body` inside the gate.
    ///
    /// # Errors
    /// [`OpError::Abort`]; [`OpError::ReadOnly`], and [`OpError::Storage`] for a key that does not
    /// fit the table: nothing has been done then; [`OpError::OtherPartition`],
    /// [`OpError::DuplicateIndexKey`], and [`OpError::KeyUpdate`] and [`OpError::Storage`] for
    /// values that do not fit: the transaction has been rolled back then.
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

impl<S: Scheme<M>, M: Machine> Txn<S, M> {
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
                // It is asked for again in a step of its own, so that its waiting begins there.
                Step::Again | Step::Conflict(Conflict::WouldBlock(_)) if *at > begin => {
                    return Step::Done(());
                }
                Step::Again => return Step::Again,
                Step::Conflict(conflict) => return Step::Conflict(conflict),
            }
            *at += 1;
            if self.entries.has_new() {
                // New entries of indexes are added outside.
                return Step::Done(());
            }
        }
        Step::Done(())
    }
}
