//! One access after the other to single values of a table, for who learns each key from the access
//! before it.
//!
//! Nothing can be brought in beforehand then; what can be had is that the next key's misses begin
//! while this one's are still on their way. A CPU looks a few hundred instructions ahead, so an
//! access has to be shorter than that. What each call of [`Worker::apply`] does again is therefore
//! done once: the worker stays inside the gate from access to access, and comes out when somebody
//! waits for that.
//!
//! - `ACCESS-1`: an access that is out of the ordinary (`APPLY-1`), or wrong, is made outside by
//!   [`Worker::apply`], as if it came by itself.
//! - `ACCESS-2`: what was stored is shown before the worker leaves, as at the end of any step.
//! - `ACCESS-3`: a value that was put in place may be stored a few puts later ([`super::late`]),
//!   but before the worker leaves, and before the row is read. The row is the transaction's from
//!   the put on.
//! - `ACCESS-4`: where transactions are told apart by partitions, a row that is surely that of its
//!   key (`ROWS-2`) is accessed with nothing else asked ([`exact`]), which makes the access two
//!   thirds as long.

mod exact;

use atoll_machine::Machine;
use atoll_memory::Inside;
use atoll_storage::{Change, PlainColumn, RowId, StorageError, Table, Value};

use super::apply::{Buffers, Checked, RowOp};
use super::late::Late;
use super::step::{Found, Here, Step, Wanted};
use super::{State, Txn, Worker};
use crate::error::OpError;
use crate::scheme::{Conflict, Scheme};
use crate::tables::TableContext;
use exact::Keys;

/// Reads and replaces values of a table, see [`Worker::access`]. Values are as in
/// [`super::RowOp`].
pub trait RowAccess {
    /// Copies a value of the row of a key into the first bytes of `into`; false when there is no
    /// row, and `into` means nothing then.
    ///
    /// # Errors
    /// As [`Worker::apply`].
    fn get(&mut self, key: &[Value], column: usize, into: &mut [u8]) -> Result<bool, OpError>;

    /// Replaces a value of the row of a key by the first bytes of `bytes`; false when there is no
    /// row.
    ///
    /// # Errors
    /// As [`Worker::apply`]. For want of memory, it may be the error of a put before.
    fn put(&mut self, key: &[Value], column: usize, bytes: &[u8]) -> Result<bool, OpError>;

    /// Whether the transaction can go on, see [`Worker::is_open`].
    fn is_open(&self) -> bool;
}

/// See the module.
struct Access<'w, S: Scheme<M>, M: Machine> {
    worker: &'w mut Worker<S, M>,
    table: &'w Table<M>,
    /// Keys that it may access.
    keys: Keys,
    /// Nothing unless it is inside.
    inside: Option<Inside>,
    /// What it was given to has returned.
    returned: bool,
}

impl<S: Scheme<M>, M: Machine> Worker<S, M> {
    /// Lets `body` access rows of a table one after the other. It is inside the gate in between, so
    /// it may wait for nobody; a cut, and whoever seals the epoch after it, waits until its next
    /// access, or its end.
    ///
    /// # Errors
    /// [`OpError::ForeignTable`]; then `body` has not been called. [`OpError::Storage`] for want of
    /// memory for the last puts; it has been rolled back.
    pub fn access(
        &mut self,
        table: &Table<M>,
        body: &mut dyn FnMut(&mut dyn RowAccess),
    ) -> Result<(), OpError> {
        self.check_table(table)?;
        let keys = Keys::of(self, table);
        let mut access = Access { worker: self, table, keys, inside: None, returned: false };
        body(&mut access);
        access.returned = true;
        access.leave()
    }
}

impl<S: Scheme<M>, M: Machine> Access<'_, S, M> {
    /// Calls `act` with the row of a key, inside; what `act` did not do is to be done outside.
    #[inline(always)]
    fn plainly(
        &mut self,
        key: &[Value],
        (column, is_put): (usize, bool),
        act: impl FnOnce(
            (&mut Txn<S, M>, &mut Late),
            Here<'_, S, M>,
            (Found<'_, S, M>, u64),
            Checked,
        ) -> Step<()>,
    ) -> Step<()> {
        let Some(aim) = Checked::alone(self.table, column, is_put) else { return Step::Again };
        let Ok((hash, predicted)) = self.table.hash_and_predict(key) else { return Step::Again };
        if !self.worker.has_named(self.table, key.first(), is_put) {
            return Step::Again;
        }
        let inside = match self.inside {
            Some(inside) if !self.worker.member.is_awaited(inside) => inside,
            _ => match self.renew() {
                Ok(Some(inside)) => inside,
                Ok(None) => return Step::Again,
                Err(error) => return Step::Failed(error),
            },
        };
        let Worker { engine, txn, late, .. } = &mut *self.worker;
        let context = engine.tables.context(self.table.id());
        let here = (&**engine, context, Change::forward(inside));
        let found = predicted.and_then(|row| Found::at_predicted(context, row, hash));
        let is_hash_unique = self.table.is_hash_unique(hash);
        let found = found.filter(|found| is_hash_unique && found.meta.has_hash(hash));
        match found.or_else(|| txn.locate_anew(context, Wanted { hash, key })) {
            Some(found) => act((txn, late), here, (found, hash), aim),
            None => Step::Again,
        }
    }

    /// Leaves, and goes inside again unless the transaction is not open, or out of the ordinary.
    #[cold]
    fn renew(&mut self) -> Result<Option<Inside>, OpError> {
        self.leave()?;
        if self.worker.is_open() && self.worker.txn.is_ordinary() {
            self.inside = Some(self.worker.member.go_in());
        }
        Ok(self.inside)
    }

    /// Stores what was put, and leaves.
    fn leave(&mut self) -> Result<(), OpError> {
        let Some(inside) = self.inside else { return Ok(()) };
        let Worker { engine, txn, late, .. } = &mut *self.worker;
        let context = engine.tables.context(self.table.id());
        let stored = txn.store_all(context, Change::forward(inside), late);
        self.go_out();
        stored.map_err(|error| self.worker.fail(error))
    }

    /// Leaves. What was put and is not stored is lost.
    fn go_out(&mut self) {
        let Worker { member, txn, context, late, .. } = &mut *self.worker;
        late.clear();
        if self.inside.take().is_some() {
            if Txn::<S, M>::IN_PLACE {
                txn.show(context); // ACCESS-2
            }
            member.go_out();
        }
    }

    /// Makes an access that was not made plainly (`ACCESS-1`).
    #[cold]
    #[inline(never)]
    fn outside(
        &mut self,
        plainly: Step<()>,
        key: &[Value],
        op: RowOp,
        buffers: Buffers<'_>,
    ) -> Result<bool, OpError> {
        self.leave()?;
        match plainly {
            Step::Conflict(conflict) => self.worker.on_conflict(conflict, &mut 0)?,
            Step::Failed(error) if self.worker.is_open() => {
                return Err(self.worker.fail_with(error));
            }
            Step::Failed(error) => return Err(error),
            Step::Done(()) | Step::Again => {}
        }
        self.table.hash_of(key)?; // That it is one key.
        let mut is_there = true;
        self.worker.apply(self.table, key, &[op], buffers, &mut |_| is_there = false)?;
        Ok(is_there)
    }
}

impl<S: Scheme<M>, M: Machine> Txn<S, M> {
    /// The row of a key that is not where the table guesses it.
    // Not inlined: what is found at once would lose its registers.
    #[inline(never)]
    fn locate_anew<'g>(
        &mut self,
        context: &'g TableContext<S, M>,
        wanted: Wanted<'_>,
    ) -> Option<Found<'g, S, M>> {
        self.locate(context, wanted)
    }

    /// Keeps a value that is put in place.
    #[inline(always)]
    fn put_late(
        &mut self,
        late: &mut Late,
        (engine, context, change): Here<'_, S, M>,
        (found, hash): (Found<'_, S, M>, u64),
        aim: Checked,
        input: &[u8],
    ) -> Step<()> {
        let Some(bytes) = input.get(aim.bytes()) else { return Step::Again };
        context.table.prefetch_plain(found.slot, aim.column);
        match self.ask_in_place(engine, context, found, hash) {
            Ok(true) => {}
            Ok(false) => return Step::Again,
            Err(conflict) => return Step::Conflict(conflict),
        }
        self.keep_late(late, context, change, (found.slot.id(), aim.column, bytes))
    }

    /// Keeps a value of a row that is the transaction's; stores the oldest, if there is no room.
    #[inline(always)]
    fn keep_late(
        &mut self,
        late: &mut Late,
        context: &TableContext<S, M>,
        change: Change,
        (row, column, bytes): (RowId, PlainColumn, &[u8]),
    ) -> Step<()> {
        if late.is_full()
            && let Err(error) = self.store_oldest(context, change, late)
        {
            return Step::Failed(error.into());
        }
        late.push(row, column, bytes);
        Step::Done(())
    }

    #[inline]
    fn store_oldest(
        &mut self,
        context: &TableContext<S, M>,
        change: Change,
        late: &mut Late,
    ) -> Result<(), StorageError> {
        let Some((row, column, bytes)) = late.pop() else { return Ok(()) };
        let slot = context.table.slot(row);
        context.table.store_plain(change, slot, column, bytes, &mut self.undo)
    }

    fn store_all(
        &mut self,
        context: &TableContext<S, M>,
        change: Change,
        late: &mut Late,
    ) -> Result<(), StorageError> {
        while !late.is_empty() {
            self.store_oldest(context, change, late)?;
        }
        Ok(())
    }
}

impl<S: Scheme<M>, M: Machine> RowAccess for Access<'_, S, M> {
    fn get(&mut self, key: &[Value], column: usize, into: &mut [u8]) -> Result<bool, OpError> {
        if S::PARTITIONED {
            if self.get_surely(key, column, into) {
                return Ok(true);
            }
            return apart(|| self.get_anyhow(key, column, into));
        }
        self.get_anyhow(key, column, into)
    }

    fn put(&mut self, key: &[Value], column: usize, bytes: &[u8]) -> Result<bool, OpError> {
        if S::PARTITIONED {
            return match self.put_surely(key, column, bytes) {
                Step::Done(()) => Ok(true),
                step => apart(|| self.put_anyhow(step, key, column, bytes)),
            };
        }
        self.put_anyhow(Step::Again, key, column, bytes)
    }

    fn is_open(&self) -> bool {
        self.worker.is_open()
    }
}

impl<S: Scheme<M>, M: Machine> Access<'_, S, M> {
    #[inline(always)]
    fn get_anyhow(
        &mut self,
        key: &[Value],
        column: usize,
        into: &mut [u8],
    ) -> Result<bool, OpError> {
        let plainly = self.plainly(key, (column, false), |(txn, late), here, found, aim| {
            let (found, hash) = found;
            if late.has(found.slot.id()) {
                return Step::Again; // ACCESS-3
            }
            txn.do_plainly(here, found, hash, aim, &[], &mut *into).into()
        });
        match plainly {
            Step::Done(()) => Ok(true),
            other => {
                let buffers = Buffers { input: &[], output: into };
                self.outside(other, key, RowOp::Get { column, to: 0 }, buffers)
            }
        }
    }

    /// `step`: what has come of it so far; `Again` is nothing.
    #[inline(always)]
    fn put_anyhow(
        &mut self,
        mut step: Step<()>,
        key: &[Value],
        column: usize,
        bytes: &[u8],
    ) -> Result<bool, OpError> {
        if matches!(step, Step::Again) {
            step = self.put_plainly(key, column, bytes);
        }
        match step {
            Step::Done(()) => Ok(true),
            other => {
                let buffers = Buffers { input: bytes, output: &mut [] };
                self.outside(other, key, RowOp::Put { column, from: 0 }, buffers)
            }
        }
    }

    #[inline(always)]
    fn put_plainly(&mut self, key: &[Value], column: usize, bytes: &[u8]) -> Step<()> {
        let is_allowed = !self.worker.read_only;
        self.plainly(key, (column, true), |(txn, late), here, found, aim| {
            let (_, context, _) = here;
            if !is_allowed {
                return Step::Again;
            }
            if !Txn::<S, M>::IN_PLACE {
                let (found, hash) = found;
                return txn.do_plainly(here, found, hash, aim, bytes, &mut []).into();
            }
            if context.moving.has(aim.column.position()) || !Late::takes(aim.column) {
                return Step::Again;
            }
            txn.put_late(late, here, found, aim, bytes)
        })
    }
}

/// Keeps what is called out of the caller, which would lose its registers to it.
#[cold]
#[inline(never)]
fn apart<R>(call: impl FnOnce() -> R) -> R {
    call()
}

/// Whether an operation was done plainly.
impl From<Result<bool, Conflict>> for Step<()> {
    #[inline(always)]
    fn from(plainly: Result<bool, Conflict>) -> Self {
        match plainly {
            Ok(true) => Self::Done(()),
            Ok(false) => Self::Again,
            Err(conflict) => Self::Conflict(conflict),
        }
    }
}

impl<S: Scheme<M>, M: Machine> Drop for Access<'_, S, M> {
    fn drop(&mut self) {
        // Perhaps in the middle of an access; if it has ended before, the next one must not know.
        self.worker.txn.is_broken |= !self.returned && self.worker.state == State::Open;
        self.go_out();
    }
}
