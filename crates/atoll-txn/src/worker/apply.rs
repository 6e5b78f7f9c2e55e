//! Reading and replacing single values of many rows, as data: the caller says beforehand what is to
//! be done, so nothing is called for a row, and what most rows need is one short loop.
//!
//! A key that comes by itself is looked for without a window: nothing is prepared for others.
//!
//! - `APPLY-1`: an operation is done plainly only if nothing about it is out of the ordinary: the
//!   row is where it was seen, the transaction itself has not changed it (at commit), the scheme
//!   grants at once. A refusal is passed on; everything else is left to the steps that are for any
//!   access.
//! - `APPLY-2`: an operation is checked, with all others of its call, before anything is done.

use std::ops::Range;

use atoll_machine::{Hints, Machine};
use atoll_storage::{Change, PlainColumn, Slot, StorageError, Table, Value};

use super::key_batch::{Aim, Aims, KeyBatch, Seen as SeenRows};
use super::step::{Found, Here, Step, Wanted};
use super::{Txn, Worker};
use crate::before_image::BeforeImage;
use crate::engine::Engine;
use crate::error::OpError;
use crate::scheme::{AbortReason, Conflict, FetchOnce, Scheme, Seen};
use crate::tables::TableContext;

/// What is done with one value of the row of a key. Values are copied as they lie in tables:
/// numbers little-endian, all bytes of a `binary(n)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowOp {
    /// Reads a column.
    Get {
        /// Its position.
        column: usize,
        /// Where the value goes in the output: its first byte.
        to: usize,
    },
    /// Replaces a column.
    Put {
        /// Its position.
        column: usize,
        /// Where the value lies in the input: its first byte.
        from: usize,
    },
}

/// Bytes that operations read and write.
pub struct Buffers<'b> {
    /// What is put.
    pub input: &'b [u8],
    /// Where goes what is got.
    pub output: &'b mut [u8],
}

/// An operation that fits its table and its bytes.
#[derive(Clone, Copy)]
pub(super) struct Checked {
    pub(super) column: PlainColumn,
    /// Where its bytes begin in the input or the output.
    begin: usize,
    is_put: bool,
}

impl Checked {
    /// An operation with the first of its bytes, which are enough or not.
    #[inline(always)]
    pub(super) fn alone<M: Machine>(table: &Table<M>, column: usize, is_put: bool) -> Option<Self> {
        let column = table.plain(column)?;
        let is_allowed = !(is_put & column.is_in_key());
        is_allowed.then_some(Self { column, begin: 0, is_put })
    }

    #[inline]
    pub(super) fn bytes(self) -> Range<usize> {
        self.begin..self.begin + self.column.width()
    }
}

impl Aim for Checked {
    #[inline]
    fn updates(self) -> bool {
        self.is_put
    }

    #[inline(always)]
    fn hint<M: Machine>(
        self,
        line: Option<*const u8>,
        table: &Table<M>,
        slot: Slot<'_, M>,
        hints: &mut Hints,
    ) {
        table.hint_at_plain(line, slot, self.column, hints);
    }

    #[inline(always)]
    fn columns<'a>(self) -> &'a [usize]
    where
        Self: 'a,
    {
        &[] // It is gathered with the row.
    }
}

/// Copies a value of a row, if the row is still that of the key with this hash.
struct Get<'g, S: Scheme<M>, M: Machine> {
    table: &'g Table<M>,
    found: Found<'g, S, M>,
    hash: u64,
    column: PlainColumn,
    into: &'g mut [u8],
}

impl<S: Scheme<M>, M: Machine> FetchOnce for Get<'_, S, M> {
    #[inline(always)]
    fn fetch(&mut self, image: Option<&BeforeImage>) -> bool {
        let Self { table, found, hash, column, into } = self;
        if !found.meta.has_hash(*hash) {
            return false;
        }
        match image.and_then(|image| image.get(column.position())) {
            Some((_, bytes)) => into.copy_from_slice(bytes),
            None => table.load_plain(found.slot, *column, into),
        }
        true
    }
}

struct Ops<'o, M: Machine> {
    table: &'o Table<M>,
    ops: &'o [RowOp],
    /// Bytes of the input and of the output.
    input: usize,
    output: usize,
}

impl<M: Machine> Aims<Checked> for Ops<'_, M> {
    #[inline(always)]
    fn of(&self, at: usize) -> Option<Checked> {
        let (column, is_put, begin, given) = self.parts(at);
        let column = self.table.plain(column)?;
        let fits = begin.saturating_add(column.width()) <= given;
        // Whether something is put cannot be predicted, so nothing may branch on it here.
        let is_allowed = fits & !(is_put & column.is_in_key());
        is_allowed.then_some(Checked { column, begin, is_put })
    }

    #[cold]
    fn misfit(&self, operation: usize) -> OpError {
        let (at, is_put, begin, given) = self.parts(operation);
        let Some(column) = self.table.plain(at) else {
            let described = self.table.schema().columns().get(at);
            let what = match described {
                None => "does not exist".to_owned(),
                Some(one) if one.nullable => "may be NULL".to_owned(),
                Some(one) => format!("holds {}", one.data_type),
            };
            return StorageError::NotPlain { column: at, what }.into();
        };
        if is_put && column.is_in_key() {
            return OpError::key_update(self.table, at);
        }
        let needed = column.width();
        StorageError::OutsideBuffer { operation, begin, needed, given }.into()
    }
}

impl<M: Machine> Ops<'_, M> {
    /// Column, whether it is put, first byte, and bytes of its buffer.
    #[inline(always)]
    fn parts(&self, at: usize) -> (usize, bool, usize, usize) {
        match self.ops[at] {
            RowOp::Get { column, to } => (column, false, to, self.output),
            RowOp::Put { column, from } => (column, true, from, self.input),
        }
    }
}

impl<S: Scheme<M>, M: Machine> Worker<S, M> {
    /// Does an operation for each of the keys, in their order; calls `absent` with the position of
    /// a key that has no row. Keys lie one after the other, each with as many values as the primary
    /// key has columns.
    ///
    /// # Errors
    /// [`OpError::Abort`]; [`OpError::OtherPartition`], [`OpError::DuplicateIndexKey`]: the
    /// transaction has been rolled back. [`OpError::ForeignTable`], [`OpError::ReadOnly`],
    /// [`OpError::KeyUpdate`], and [`OpError::Storage`] for keys and operations that do not fit:
    /// nothing has been done. [`OpError::Storage`] for want of memory, or for values too long for
    /// an index: it has been rolled back.
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

    /// Does the only operation of a call.
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
        self.until_done(table, |engine, txn, context, change| {
            let here = (engine, context, change);
            // The value is on its way while the row is asked for.
            let found = txn.locate_naming(context, wanted, |found| {
                context.table.prefetch_plain(found.slot, aim.column);
            });
            let plainly = match found {
                Some(found) if txn.is_ordinary() => {
                    txn.do_plainly(here, found, wanted.hash, aim, input, output)
                }
                _ => Ok(false),
            };
            match plainly {
                Ok(true) => return Step::Done(()),
                Ok(false) => {}
                Err(conflict) => return Step::Conflict(conflict),
            }
            match txn.apply_to(here, (wanted, found), aim, input, output) {
                Step::Done(is_there) => {
                    if !is_there {
                        // Inside, as for many keys: what it panics with ends the transaction.
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

impl<S: Scheme<M>, M: Machine> Txn<S, M> {
    #[inline]
    fn apply_some(
        &mut self,
        here: Here<'_, S, M>,
        (window, seen): (&KeyBatch<'_, Checked>, &SeenRows<'_, S, M>),
        at: &mut usize,
        Buffers { input, output }: Buffers<'_>,
        absent: &mut dyn FnMut(usize),
    ) -> Step<()> {
        let begin = *at;
        loop {
            let plainly = self.apply_plainly(here, (window, seen), at, input, output);
            let Some((hash, aim)) = window.get(*at) else { return Step::Done(()) };
            let step = match plainly {
                Ok(()) => {
                    let wanted = window.wanted(*at, hash);
                    self.apply_one(
                        here,
                        (wanted, seen.get(*at).copied().flatten()),
                        aim,
                        input,
                        output,
                    )
                }
                Err(conflict) => Step::Conflict(conflict),
            };
            match step {
                Step::Done(true) => {}
                Step::Done(false) => absent(window.first + *at),
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
    }

    /// Applies operations from a position on, which it moves on, as long as there is nothing about
    /// them (`APPLY-1`). An error if that is a refusal.
    // Not inlined: among all that may be out of the ordinary it would lose its registers.
    #[inline(never)]
    fn apply_plainly(
        &mut self,
        here: Here<'_, S, M>,
        (window, seen): (&KeyBatch<'_, Checked>, &SeenRows<'_, S, M>),
        next: &mut usize,
        input: &[u8],
        output: &mut [u8],
    ) -> Result<(), Conflict> {
        if !self.is_ordinary() {
            return Ok(());
        }
        let mut at = *next;
        let end = loop {
            let (Some((hash, aim)), Some(Some(found))) = (window.get(at), seen.get(at)) else {
                break Ok(());
            };
            match self.do_plainly(here, *found, hash, aim, input, output) {
                Ok(true) => at += 1,
                Ok(false) => break Ok(()),
                Err(conflict) => break Err(conflict),
            }
        };
        *next = at;
        end
    }

    /// Whether nothing about the transaction is out of the ordinary: it is not measured, which is
    /// for the steps that measure, and has deleted no row in place, whose entry may be met first.
    #[inline]
    pub(super) fn is_ordinary(&self) -> bool {
        !self.stopwatch.is_running() && self.gone_rows.is_empty()
    }

    /// Whether the operation was done on a row that was seen (`APPLY-1`). An error if that is
    /// refused.
    #[inline(always)]
    pub(super) fn do_plainly(
        &mut self,
        (engine, context, change): Here<'_, S, M>,
        found: Found<'_, S, M>,
        hash: u64,
        aim: Checked,
        input: &[u8],
        output: &mut [u8],
    ) -> Result<bool, Conflict> {
        let table = &*context.table;
        if !table.is_hash_unique(hash) || !found.meta.has_hash(hash) {
            return Ok(false);
        }
        if !Self::IN_PLACE && self.edits.get_mut().find(table.id(), found.slot.id()).is_some() {
            return Ok(false);
        }
        if !aim.is_put {
            self.get_plainly(engine, context, found, hash, aim, output)
        } else if context.moving.has(aim.column.position()) {
            Ok(false)
        } else if Self::IN_PLACE {
            self.put_in_place(engine, context, change, found, hash, aim, input)
        } else {
            self.put_at_commit(engine, context, found, hash, aim, input)
        }
    }

    /// Whether the row was granted and copied.
    #[inline(always)]
    fn get_plainly(
        &mut self,
        engine: &Engine<S, M>,
        context: &TableContext<S, M>,
        found: Found<'_, S, M>,
        hash: u64,
        aim: Checked,
        output: &mut [u8],
    ) -> Result<bool, Conflict> {
        let Some(into) = output.get_mut(aim.bytes()) else { return Ok(false) };
        let get = Get { table: &*context.table, found, hash, column: aim.column, into };
        let (target, tables) = (found.target(context), engine.tables());
        let seen = engine.scheme.read_once(&mut self.local, tables, target, get);
        self.note_gsn(|| found.slot.gsn());
        Ok(seen? == Some(Seen::Present))
    }

    /// Whether the row was granted and the value has been stored.
    #[inline(always)]
    #[allow(clippy::too_many_arguments)]
    fn put_in_place(
        &mut self,
        engine: &Engine<S, M>,
        context: &TableContext<S, M>,
        change: Change,
        found: Found<'_, S, M>,
        hash: u64,
        aim: Checked,
        input: &[u8],
    ) -> Result<bool, Conflict> {
        let Some(bytes) = input.get(aim.bytes()) else { return Ok(false) };
        if !self.ask_in_place(engine, context, found, hash)? {
            return Ok(false);
        }
        let stored =
            context.table.store_plain(change, found.slot, aim.column, bytes, &mut self.undo);
        // For want of memory it is tried again, and told, by the steps for any access.
        Ok(stored.is_ok())
    }

    /// Whether the row was granted, to be written in place, and is still that of the key.
    #[inline(always)]
    pub(super) fn ask_in_place(
        &mut self,
        engine: &Engine<S, M>,
        context: &TableContext<S, M>,
        found: Found<'_, S, M>,
        hash: u64,
    ) -> Result<bool, Conflict> {
        let (target, tables) = (found.target(context), engine.tables());
        let asked = engine.scheme.write(&mut self.local, tables, target, true);
        self.note_gsn(|| found.slot.gsn());
        asked?;
        Ok(found.meta.has_hash(hash))
    }

    /// Whether the row was granted and the value is in the write set. The row is read, too: that it
    /// is there is what the operation tells.
    #[inline(always)]
    fn put_at_commit(
        &mut self,
        engine: &Engine<S, M>,
        context: &TableContext<S, M>,
        found: Found<'_, S, M>,
        hash: u64,
        aim: Checked,
        input: &[u8],
    ) -> Result<bool, Conflict> {
        let Some(bytes) = input.get(aim.bytes()) else { return Ok(false) };
        let (target, tables) = (found.target(context), engine.tables());
        let mut fetch = |_: Option<&BeforeImage>| found.meta.has_hash(hash);
        let seen = engine.scheme.update(&mut self.local, tables, target, &mut fetch);
        self.note_gsn(|| found.slot.gsn());
        if seen? != Seen::Present {
            return Ok(false);
        }
        if !found.meta.has_hash(hash) {
            // As in `ask_write_of`: what was granted is of no use.
            return Err(AbortReason::Changed.into());
        }
        let (row, column) = (found.slot.id(), aim.column.position());
        self.edits.get_mut().change(context.table.id(), row, column, bytes);
        Ok(true)
    }

    /// Applies one operation, whatever comes, to the row that was seen or to the one that the index
    /// names.
    #[cold]
    #[inline(never)]
    fn apply_one(
        &mut self,
        here: Here<'_, S, M>,
        (wanted, seen): (Wanted<'_>, Option<Found<'_, S, M>>),
        aim: Checked,
        input: &[u8],
        output: &mut [u8],
    ) -> Step<bool> {
        let (_, context, _) = here;
        let found = match seen {
            Some(found) if self.is_verified(context, found.meta, wanted.hash) => Some(found),
            _ => self.look_up(context, wanted),
        };
        self.apply_to(here, (wanted, found), aim, input, output)
    }

    /// Applies one operation, whatever comes, to the row that was found, if one was.
    #[cold]
    #[inline(never)]
    fn apply_to(
        &mut self,
        (engine, context, change): Here<'_, S, M>,
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
