//! Batched reads and replacements of single values. The caller describes the operations as data, so
//! the worker calls no closure for a row, and the fast path is one short loop.
//!
//! A call with a single key looks it up without a window.
//!
//! - `APPLY-1`: the fast path executes an operation only if the lookup's candidate is the row of
//!   the key, the transaction itself has not changed the row (at commit), and the scheme grants the
//!   request at once. It passes a conflict on; it leaves everything else to the slow path, which
//!   handles any access.
//! - `APPLY-2`: all operations of a call are checked before the first one is executed.

use std::ops::Range;

use atoll_machine::{Hints, Machine};
use atoll_storage::{Change, PlainColumn, Slot, StorageError, Table, Value};

use super::call::Call;
use super::found::{Found, Wanted};
use super::key_batch::{Aim, Aims, KeyBatch, Seen as SeenRows};
use super::step::{Here, Step};
use super::txn::TxnState;
use crate::before_image::BeforeImage;
use crate::engine::Engine;
use crate::error::OpError;
use crate::scheme::{AbortReason, Conflict, FetchOnce, Scheme, Seen};
use crate::tables::TableContext;

/// An operation on one value of the row of a key. Values are encoded as in tables: numbers
/// little-endian, all bytes of a `binary(n)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowOp {
    /// Reads a column.
    Get {
        /// Its position.
        column: usize,
        /// Position of the value's first byte in the output.
        to: usize,
    },
    /// Replaces a column.
    Put {
        /// Its position.
        column: usize,
        /// Position of the value's first byte in the input.
        from: usize,
    },
}

/// The buffers that operations read and write.
pub struct Buffers<'b> {
    /// The values that are put.
    pub input: &'b [u8],
    /// Receives the values that are got.
    pub output: &'b mut [u8],
}

/// An operation that has been checked against its table and its buffers.
#[derive(Clone, Copy)]
pub(super) struct Checked {
    pub(super) column: PlainColumn,
    /// Position of its first byte in the input or the output.
    begin: usize,
    is_put: bool,
}

impl Checked {
    /// An operation on the first bytes of a buffer. The length of the buffer is not checked.
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
        &[] // `hint` prefetches the column.
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
        // A CPU cannot predict which operations are puts, so this must not branch on it.
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
    /// Column, whether it is a put, position of the first byte, and length of the buffer.
    #[inline(always)]
    fn parts(&self, at: usize) -> (usize, bool, usize, usize) {
        match self.ops[at] {
            RowOp::Get { column, to } => (column, false, to, self.output),
            RowOp::Put { column, from } => (column, true, from, self.input),
        }
    }
}

impl<S: Scheme<M>, M: Machine> Call<'_, S, M> {
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
            let fast = match found {
                Some(found) if txn.may_use_fast_path() => {
                    txn.try_fast(here, found, wanted.hash, aim, input, output)
                }
                _ => Ok(false),
            };
            match fast {
                Ok(true) => return Step::Done(()),
                Ok(false) => {}
                Err(conflict) => return Step::Conflict(conflict),
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
            let fast = self.apply_fast(here, (window, seen), at, input, output);
            let Some((hash, aim)) = window.get(*at) else { return Step::Done(()) };
            let step = match fast {
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
    }

    /// Executes operations on the fast path (`APPLY-1`) from position `next` on, and advances it.
    // Not inlined into the slow path, so that the loop keeps its values in registers.
    #[inline(never)]
    fn apply_fast(
        &mut self,
        here: Here<'_, S, M>,
        (window, seen): (&KeyBatch<'_, Checked>, &SeenRows<'_, S, M>),
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
            match self.try_fast(here, *found, hash, aim, input, output) {
                Ok(true) => at += 1,
                Ok(false) => break Ok(()),
                Err(conflict) => break Err(conflict),
            }
        };
        *next = at;
        end
    }

    /// Whether the transaction may use the fast path: it is not measured, since the fast path does
    /// not measure; and it has deleted no row in place, since the row's entry is still in the
    /// index.
    #[inline]
    pub(super) fn may_use_fast_path(&self) -> bool {
        !self.stopwatch.is_running() && !self.rows.hides_any()
    }

    /// Executes an operation on a candidate row (`APPLY-1`). Returns false if it has to be executed
    /// on the slow path.
    #[inline(always)]
    pub(super) fn try_fast(
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
            self.get_fast(engine, context, found, hash, aim, output)
        } else if context.moving.has(aim.column.position()) {
            Ok(false)
        } else if Self::IN_PLACE {
            self.put_in_place(engine, context, change, found, hash, aim, input)
        } else {
            self.put_at_commit(engine, context, found, hash, aim, input)
        }
    }

    /// Copies a value if the scheme grants the read. Returns false for the slow path.
    #[inline(always)]
    fn get_fast(
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

    /// Stores a value in place if the scheme grants the write. Returns false for the slow path.
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
        // On OOM, fall back to the slow path, which tries again and reports it.
        Ok(stored.is_ok())
    }

    /// Requests a write in place. Returns whether the row is still that of the key.
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

    /// Adds a change to the write set if the scheme grants the update. Returns false for the slow
    /// path. The transaction also reads the row, since the operation tells whether there is one.
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
            // As in `ask_write_of`: the grant is of no use.
            return Err(AbortReason::Changed.into());
        }
        let (row, column) = (found.slot.id(), aim.column.position());
        self.edits.get_mut().change(context.table.id(), row, column, bytes);
        Ok(true)
    }

    /// The slow path: executes one operation on the candidate row, if that can be verified, or on
    /// the row that the index finds.
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

    /// Executes one operation on the row that was found; `found` is the result of the lookup.
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
