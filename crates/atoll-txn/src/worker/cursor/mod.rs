//! Dependent accesses to single values of a table: the caller learns each key from the access
//! before it.
//!
//! The worker cannot prefetch for such keys. It can only let the cache misses of the next access
//! begin while those of this access are still outstanding. A CPU executes a few hundred
//! instructions ahead, so an access must be shorter than that. Therefore the worker does once what
//! each call of [`Call::apply`] would repeat: it stays inside the gate from access to access, and
//! leaves when another thread waits for it.
//!
//! - `CURSOR-1`: an access that the fast path cannot execute (`FAST-1`), or that is invalid,
//!   leaves the gate and goes through [`Call::apply`] as a call of its own.
//! - `CURSOR-2`: the worker shows its stores to takers before it leaves the gate, as at the end of
//!   any step.
//! - `CURSOR-3`: a value that was put in place may be stored a few puts later
//!   ([`super::store_buffer`]), but before the worker leaves the gate, and before the row is read.
//!   The transaction holds the row exclusively from the put on.
//! - `CURSOR-4`: under a partitioned scheme, a row with an exact prediction (`ROWS-2`) is accessed
//!   without any further check ([`exact`]), which shortens the access by a third.

mod exact;

use atoll_machine::Machine;
use atoll_memory::Inside;
use atoll_storage::{Change, PlainColumn, RowId, StorageError, Table, Value};

use super::call::Call;
use super::fast::Fast;
use super::found::{Found, Wanted};
use super::ops::{Buffers, Checked, RowOp};
use super::step::StepContext;
use super::store_buffer::StoreBuffer;
use super::thread::Thread;
use super::txn::{Phase, TxnState};
use crate::error::OpError;
use crate::scheme::Scheme;
use crate::tables::TableContext;
use exact::Keys;

/// Reads and replaces values of a table, see [`Call::cursor`]. Values are encoded as in
/// [`super::RowOp`].
pub trait RowCursor {
    /// Copies a value of the row of a key into the first bytes of `into`. Returns false if there is
    /// no row; the bytes of `into` are undefined then.
    ///
    /// # Errors
    /// As [`Call::apply`].
    fn get(&mut self, key: &[Value], column: usize, into: &mut [u8]) -> Result<bool, OpError>;

    /// Replaces a value of the row of a key by the first bytes of `bytes`. Returns false if there
    /// is no row.
    ///
    /// # Errors
    /// As [`Call::apply`]. An out-of-memory error may be that of an earlier put.
    fn put(&mut self, key: &[Value], column: usize, bytes: &[u8]) -> Result<bool, OpError>;

    /// Whether the transaction can go on, see [`Call::is_open`].
    fn is_open(&self) -> bool;
}

/// See the module.
struct Cursor<'w, S: Scheme<M>, M: Machine> {
    call: Call<'w, S, M>,
    table: &'w Table<M>,
    /// Keys that the transaction may access.
    keys: Keys,
    /// The section of the gate; `None` if the worker is outside.
    inside: Option<Inside>,
    /// The caller's closure has returned.
    returned: bool,
    /// Why pending puts could not be stored; the transaction has been rolled back.
    failed: Option<OpError>,
}

impl<S: Scheme<M>, M: Machine> Call<'_, S, M> {
    /// Lets `body` access rows of a table one after the other. The worker stays inside the gate
    /// between accesses, so `body` must not wait for other threads: a cut, and a thread that seals
    /// the epoch after it, waits until the next access or the end of `body`.
    ///
    /// # Errors
    /// [`OpError::ForeignTable`]: `body` has not been called. [`OpError::Storage`]: out of memory
    /// while storing the last puts; the transaction has been rolled back.
    pub fn cursor(
        &mut self,
        table: &Table<M>,
        body: &mut dyn FnMut(&mut dyn RowCursor),
    ) -> Result<(), OpError> {
        self.check_table(table)?;
        let keys = Keys::of(self, table);
        let call = self.reborrow();
        let mut access = Cursor { call, table, keys, inside: None, returned: false, failed: None };
        body(&mut access);
        access.returned = true;
        access.leave()
    }
}

impl<S: Scheme<M>, M: Machine> Cursor<'_, S, M> {
    /// The fast path: finds the row of a key and calls `act` with it, inside the gate. Unless the
    /// result is `Done`, the caller has to continue with [`Cursor::outside`].
    #[inline(always)]
    fn fast(
        &mut self,
        key: &[Value],
        (column, is_put): (usize, bool),
        act: impl FnOnce(
            (&mut TxnState<S, M>, &mut StoreBuffer),
            StepContext<'_, S, M>,
            (Found<'_, S, M>, u64),
            Checked,
        ) -> Fast,
    ) -> Fast {
        let Some(aim) = Checked::alone(self.table, column, is_put) else { return Fast::Fallback };
        let Ok((hash, predicted)) = self.table.hash_and_predict(key) else { return Fast::Fallback };
        if !self.call.has_named(self.table, key.first(), is_put) {
            return Fast::Fallback;
        }
        let inside = match self.inside {
            Some(inside) if !self.call.thread.member.is_awaited(inside) => inside,
            _ => match self.renew() {
                Ok(Some(inside)) => inside,
                Ok(None) => return Fast::Fallback,
                Err(error) => {
                    self.failed = Some(error);
                    return Fast::Fallback;
                }
            },
        };
        let Call { engine, thread: Thread { store_buffer, .. }, txn } = &mut self.call;
        let context = engine.tables.context(self.table.id());
        let here = (*engine, context, Change::forward(inside));
        let found = predicted.and_then(|row| Found::at_predicted(context, row, hash));
        let is_hash_unique = self.table.is_hash_unique(hash);
        let found = found.filter(|found| is_hash_unique && found.meta.has_hash(hash));
        match found.or_else(|| txn.locate_slow(context, Wanted { hash, key })) {
            Some(found) => act((txn, store_buffer), here, (found, hash), aim),
            None => Fast::Fallback,
        }
    }

    /// Leaves the gate, and enters it again if the transaction is open and may use the fast path.
    #[cold]
    fn renew(&mut self) -> Result<Option<Inside>, OpError> {
        self.leave()?;
        if self.call.is_open() && self.call.txn.may_use_fast_path() {
            self.inside = Some(self.call.thread.member.go_in());
        }
        Ok(self.inside)
    }

    /// Stores pending puts and leaves the gate.
    fn leave(&mut self) -> Result<(), OpError> {
        let Some(inside) = self.inside else { return Ok(()) };
        let Call { engine, thread: Thread { store_buffer, .. }, txn } = &mut self.call;
        let context = engine.tables.context(self.table.id());
        let stored = txn.store_all(context, Change::forward(inside), store_buffer);
        self.go_out();
        stored.map_err(|error| self.call.fail(error))
    }

    /// Leaves the gate. Pending puts are lost.
    fn go_out(&mut self) {
        let Call { thread: Thread { member, store_buffer, .. }, txn, .. } = &mut self.call;
        store_buffer.clear();
        if self.inside.take().is_some() {
            if TxnState::<S, M>::IN_PLACE {
                txn.show(); // CURSOR-2
            }
            member.go_out();
        }
    }

    /// Makes an access that the fast path has not made (`CURSOR-1`).
    #[cold]
    #[inline(never)]
    fn outside(
        &mut self,
        fast: Fast,
        key: &[Value],
        op: RowOp,
        buffers: Buffers<'_>,
    ) -> Result<bool, OpError> {
        self.leave()?;
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        if let Fast::Conflict(conflict) = fast {
            self.call.on_conflict(conflict, &mut 0)?;
        }
        self.table.hash_of(key)?; // Checks that it is one key.
        let mut is_there = true;
        self.call.apply(self.table, key, &[op], buffers, &mut |_| is_there = false)?;
        Ok(is_there)
    }
}

impl<S: Scheme<M>, M: Machine> TxnState<S, M> {
    /// Finds the row of a key with a wrong prediction.
    // Not inlined, so that the fast path keeps its values in registers.
    #[inline(never)]
    fn locate_slow<'g>(
        &mut self,
        context: &'g TableContext<S, M>,
        wanted: Wanted<'_>,
    ) -> Option<Found<'g, S, M>> {
        self.locate(context, wanted)
    }

    /// Locks a row and keeps a value to store into it later.
    #[inline(always)]
    fn buffer_in_place(
        &mut self,
        store_buffer: &mut StoreBuffer,
        (engine, context, change): StepContext<'_, S, M>,
        (found, hash): (Found<'_, S, M>, u64),
        aim: Checked,
        input: &[u8],
    ) -> Fast {
        let Some(bytes) = input.get(aim.bytes()) else { return Fast::Fallback };
        context.table.prefetch_plain(found.slot, aim.column);
        let ready = self.lock_in_place((engine, context, change), (found, hash));
        if !matches!(ready, Fast::Done) {
            return ready;
        }
        self.buffer_put(store_buffer, context, change, (found.slot.id(), aim.column, bytes))
    }

    /// Keeps a value for a row that the transaction holds; if the store buffer is full, stores the
    /// oldest.
    #[inline(always)]
    fn buffer_put(
        &mut self,
        store_buffer: &mut StoreBuffer,
        context: &TableContext<S, M>,
        change: Change,
        (row, column, bytes): (RowId, PlainColumn, &[u8]),
    ) -> Fast {
        if store_buffer.is_full() && self.store_oldest(context, change, store_buffer).is_err() {
            // On OOM the put stays; leaving the gate tries again and reports it.
            return Fast::Fallback;
        }
        store_buffer.push(row, column, bytes);
        Fast::Done
    }

    #[inline]
    fn store_oldest(
        &mut self,
        context: &TableContext<S, M>,
        change: Change,
        store_buffer: &mut StoreBuffer,
    ) -> Result<(), StorageError> {
        let Some((row, column, bytes)) = store_buffer.oldest() else { return Ok(()) };
        let slot = context.table.slot(row);
        context.table.store_plain(change, slot, column, bytes, &mut self.undo)?;
        store_buffer.remove_oldest();
        Ok(())
    }

    fn store_all(
        &mut self,
        context: &TableContext<S, M>,
        change: Change,
        store_buffer: &mut StoreBuffer,
    ) -> Result<(), StorageError> {
        while !store_buffer.is_empty() {
            self.store_oldest(context, change, store_buffer)?;
        }
        Ok(())
    }
}

impl<S: Scheme<M>, M: Machine> RowCursor for Cursor<'_, S, M> {
    fn get(&mut self, key: &[Value], column: usize, into: &mut [u8]) -> Result<bool, OpError> {
        if S::PARTITIONED {
            if self.get_exact(key, column, into) {
                return Ok(true);
            }
            return out_of_line(|| self.get_general(key, column, into));
        }
        self.get_general(key, column, into)
    }

    fn put(&mut self, key: &[Value], column: usize, bytes: &[u8]) -> Result<bool, OpError> {
        if S::PARTITIONED {
            return match self.put_exact(key, column, bytes) {
                Fast::Done => Ok(true),
                step => out_of_line(|| self.put_general(step, key, column, bytes)),
            };
        }
        self.put_general(Fast::Fallback, key, column, bytes)
    }

    fn is_open(&self) -> bool {
        self.call.is_open()
    }
}

impl<S: Scheme<M>, M: Machine> Cursor<'_, S, M> {
    #[inline(always)]
    fn get_general(
        &mut self,
        key: &[Value],
        column: usize,
        into: &mut [u8],
    ) -> Result<bool, OpError> {
        let fast = self.fast(key, (column, false), |(txn, store_buffer), here, found, aim| {
            let (found, hash) = found;
            if store_buffer.has(found.slot.id()) {
                return Fast::Fallback; // CURSOR-3
            }
            txn.try_fast(here, (found, hash), aim, &[], &mut *into)
        });
        match fast {
            Fast::Done => Ok(true),
            other => {
                let buffers = Buffers { input: &[], output: into };
                self.outside(other, key, RowOp::Get { column, to: 0 }, buffers)
            }
        }
    }

    /// `fast` is the result of the exact path; `Fallback` means that it has done nothing.
    #[inline(always)]
    fn put_general(
        &mut self,
        mut fast: Fast,
        key: &[Value],
        column: usize,
        bytes: &[u8],
    ) -> Result<bool, OpError> {
        if matches!(fast, Fast::Fallback) {
            fast = self.put_fast(key, column, bytes);
        }
        match fast {
            Fast::Done => Ok(true),
            other => {
                let buffers = Buffers { input: bytes, output: &mut [] };
                self.outside(other, key, RowOp::Put { column, from: 0 }, buffers)
            }
        }
    }

    #[inline(always)]
    fn put_fast(&mut self, key: &[Value], column: usize, bytes: &[u8]) -> Fast {
        let is_allowed = !self.call.txn.read_only;
        self.fast(key, (column, true), |(txn, store_buffer), here, found, aim| {
            let (_, context, _) = here;
            if !is_allowed {
                return Fast::Fallback;
            }
            if !TxnState::<S, M>::IN_PLACE {
                let (found, hash) = found;
                return txn.try_fast(here, (found, hash), aim, bytes, &mut []);
            }
            if context.indexes().moving.may_have(aim.column.position())
                || !StoreBuffer::takes(aim.column)
            {
                return Fast::Fallback;
            }
            txn.buffer_in_place(store_buffer, here, found, aim, bytes)
        })
    }
}

/// Calls a function out of line, so that the caller keeps its values in registers.
#[cold]
#[inline(never)]
fn out_of_line<R>(call: impl FnOnce() -> R) -> R {
    call()
}

impl<S: Scheme<M>, M: Machine> Drop for Cursor<'_, S, M> {
    fn drop(&mut self) {
        // A panic may have stopped an access half way. If the transaction has ended before, the
        // flag must not affect the next one.
        self.call.txn.is_broken |= !self.returned && self.call.txn.phase == Phase::Open;
        self.go_out();
    }
}
