//! Operations on the rows of many keys in one call: with a closure for each row ([`Call::visit`]),
//! or described as data ([`Call::apply`]), so that the fast path is one short loop.
//!
//! The operations are executed in the order of the keys, each as if it were executed alone: a batch
//! is not atomic, and if the scheme makes the transaction wait, it waits outside the gate.
//!
//! - `MANY-1`: all keys and operations of a call are checked before the first one is executed.

use std::hint::cold_path;

use atoll_machine::Machine;
use atoll_storage::{StorageError, Table, Value};

use super::call::Call;
use super::fast::Fast;
use super::found::{Found, Wanted};
use super::key_batch::{Candidates, KeyBatch};
use super::ops::{Aim, Aims, Buffers, Checked, Ops, RowOp, Visit, Visitor, Want, Wants};
use super::step::{Step, StepContext};
use super::txn::TxnState;
use crate::error::OpError;
use crate::row::Row;
use crate::scheme::{Conflict, Scheme};

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

    /// Executes an operation for each of the keys, in their order. Calls `absent` with the position
    /// of each key that has no row. `keys` is a concatenation of keys, each with as many values as
    /// the primary key has columns.
    ///
    /// # Errors
    /// [`OpError::Abort`]; [`OpError::OtherPartition`], [`OpError::DuplicateIndexKey`]: the
    /// transaction has been rolled back. [`OpError::ForeignTable`], [`OpError::ReadOnly`],
    /// [`OpError::KeyUpdate`], and [`OpError::Storage`] for keys and operations that do not fit:
    /// nothing has been done. [`OpError::Storage`] if the system is out of memory, or for values
    /// too long for an index: the transaction has been rolled back.
    pub fn apply(
        &mut self,
        table: &Table<M>,
        keys: &[Value],
        ops: &[RowOp],
        Buffers { input, output }: Buffers<'_>,
        absent: &mut dyn FnMut(usize),
    ) -> Result<(), OpError> {
        self.check_open()?;
        self.check_table(table)?;
        let keys_given = keys.len() / table.schema().primary_key().len();
        if keys_given != ops.len() {
            let (operations, keys) = (ops.len(), keys_given);
            return Err(StorageError::OperationCount { operations, keys }.into());
        }
        let ops = Ops { table, ops, input: input.len(), output: output.len() };
        if keys_given == 1 && keys.len() == table.schema().primary_key().len() {
            return self.apply_alone(table, keys, &ops, Buffers { input, output }, absent);
        }
        self.in_windows(table, keys, &ops, |txn, here, seen, at| {
            let buffers = Buffers { input, output: &mut *output };
            txn.apply_some(here, seen, at, buffers, absent)
        })
    }

    /// Executes the only operation of a call.
    #[inline]
    fn apply_alone(
        &mut self,
        table: &Table<M>,
        key: &[Value],
        ops: &Ops<'_, M>,
        Buffers { input, output }: Buffers<'_>,
        absent: &mut dyn FnMut(usize),
    ) -> Result<(), OpError> {
        let wanted = Wanted { hash: table.hash_of(key)?, key };
        let Some(aim) = ops.of(0) else { return Err(ops.misfit(0)) };
        if aim.is_put {
            self.check_writable(table)?;
        }
        self.check_partition(table, key.first(), aim.is_put)?;
        self.until_done(table, |txn, (engine, context, change)| {
            let here = (engine, context, change);
            // Prefetch the value while the row is verified and requested.
            let found = txn.locate_with(context, wanted, |found| {
                context.table.prefetch_plain(found.slot, aim.column);
            });
            if let Some(found) = found
                && txn.may_use_fast_path()
            {
                match txn.try_fast(here, (found, wanted.hash), aim, input, output) {
                    Fast::Done => return Step::Done(()),
                    Fast::Fallback => {}
                    Fast::Conflict(conflict) => return Step::Conflict(conflict),
                }
            }
            match txn.apply_to(here, (wanted, found), aim, input, output) {
                Step::Done(is_there) => {
                    if !is_there {
                        // Inside the step, as for many keys: a panic breaks the transaction.
                        absent(0);
                    }
                    Step::Done(())
                }
                Step::Again => Step::Again,
                Step::Conflict(conflict) => Step::Conflict(conflict),
                Step::Failed(error) => Step::Failed(error),
            }
        })?;
        self.add_entries(table)
    }
}

impl<S: Scheme<M>, M: Machine> TxnState<S, M> {
    /// Executes operations of a window from `at` on, in one section, until there is a reason to
    /// leave it; advances `at`. `fast` executes as many as it can; `one` executes the next one and
    /// returns whether the row is there, which `absent` learns otherwise. All get `with`.
    #[inline(always)]
    fn run_some<A: Aim, T>(
        &mut self,
        window: &KeyBatch<'_, A>,
        at: &mut usize,
        with: &mut T,
        fast: impl Fn(&mut Self, &mut T, &mut usize) -> Result<(), Conflict>,
        one: impl Fn(&mut Self, &mut T, Wanted<'_>, (usize, A)) -> Step<bool>,
        absent: impl Fn(&mut T, usize),
    ) -> Step<()> {
        let begin = *at;
        loop {
            let refused = fast(self, with, at).err();
            let Some((hash, aim)) = window.get(*at) else { return Step::Done(()) };
            let step = match refused {
                None => one(self, with, window.wanted(*at, hash), (*at, aim)),
                Some(conflict) => Step::Conflict(conflict),
            };
            match step {
                Step::Done(true) => {}
                Step::Done(false) => absent(with, window.first + *at),
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
                // The caller adds new index entries outside this section.
                return Step::Done(());
            }
        }
    }

    /// The candidate of a window's key if that can be verified, else the row that the index finds.
    #[inline]
    fn verified<'g>(
        &mut self,
        here: StepContext<'g, S, M>,
        seen: Option<&Option<Found<'g, S, M>>>,
        wanted: Wanted<'_>,
    ) -> Option<Found<'g, S, M>> {
        let (_, context, _) = here;
        match seen {
            Some(Some(found)) if self.is_verified(context, found.meta, wanted.hash) => Some(*found),
            _ => {
                cold_path();
                self.look_up(context, wanted)
            }
        }
    }

    #[inline]
    fn visit_some(
        &mut self,
        here: StepContext<'_, S, M>,
        (window, seen): (&KeyBatch<'_, Want<'_>>, &Candidates<'_, S, M>),
        at: &mut usize,
        mut body: Visitor<'_, M>,
    ) -> Step<()> {
        let (engine, context, change) = here;
        self.run_some(
            window,
            at,
            &mut body,
            |_, _, _| Ok(()),
            |txn, body, wanted, (at, want)| {
                let found = txn.verified(here, seen.get(at), wanted);
                let position = window.first + at;
                if want.update {
                    txn.edit(engine, context, change, wanted, found, |row| {
                        body(position, Visit::Update(row));
                    })
                } else {
                    let read = |row: &Row<'_, M>| body(position, Visit::Read(row));
                    txn.read(engine, context, wanted, found, read)
                }
            },
            |body, position| body(position, Visit::Absent),
        )
    }

    #[inline]
    fn apply_some(
        &mut self,
        here: StepContext<'_, S, M>,
        (window, seen): (&KeyBatch<'_, Checked>, &Candidates<'_, S, M>),
        at: &mut usize,
        Buffers { input, output }: Buffers<'_>,
        absent: &mut dyn FnMut(usize),
    ) -> Step<()> {
        self.run_some(
            window,
            at,
            &mut (output, absent),
            |txn, (output, _), at| txn.apply_fast(here, (window, seen), at, input, output),
            |txn, (output, _), wanted, (at, aim)| {
                txn.apply_one(here, (wanted, seen.get(at)), aim, input, output)
            },
            |(_, absent), position| absent(position),
        )
    }

    /// Executes operations on the fast path from position `next` on, and advances it.
    // Not inlined into the slow path, so that the loop keeps its values in registers.
    #[inline(never)]
    fn apply_fast(
        &mut self,
        here: StepContext<'_, S, M>,
        (window, seen): (&KeyBatch<'_, Checked>, &Candidates<'_, S, M>),
        next: &mut usize,
        input: &[u8],
        output: &mut [u8],
    ) -> Result<(), Conflict> {
        if !self.may_use_fast_path() {
            return Ok(());
        }
        let mut at = *next;
        let end = loop {
            let (Some((hash, aim)), Some(Some(found))) = (window.get(at), seen.get(at)) else {
                break Ok(());
            };
            match self.try_fast(here, (*found, hash), aim, input, output) {
                Fast::Done => at += 1,
                Fast::Fallback => break Ok(()),
                Fast::Conflict(conflict) => break Err(conflict),
            }
        };
        *next = at;
        end
    }

    /// The general path: executes one operation.
    #[cold]
    #[inline(never)]
    fn apply_one(
        &mut self,
        here: StepContext<'_, S, M>,
        (wanted, seen): (Wanted<'_>, Option<&Option<Found<'_, S, M>>>),
        aim: Checked,
        input: &[u8],
        output: &mut [u8],
    ) -> Step<bool> {
        let found = self.verified(here, seen, wanted);
        self.apply_to(here, (wanted, found), aim, input, output)
    }

    /// Executes one operation on the row that was found; `found` is the result of the lookup.
    #[cold]
    #[inline(never)]
    fn apply_to(
        &mut self,
        (engine, context, change): StepContext<'_, S, M>,
        (wanted, found): (Wanted<'_>, Option<Found<'_, S, M>>),
        aim: Checked,
        input: &[u8],
        output: &mut [u8],
    ) -> Step<bool> {
        if aim.is_put {
            let bytes = &input[aim.bytes()];
            self.edit(engine, context, change, wanted, found, |row| {
                row.set_plain(aim.column, bytes);
            })
        } else {
            let into = &mut output[aim.bytes()];
            self.read(engine, context, wanted, found, |row| row.plain(aim.column, into))
        }
    }
}
