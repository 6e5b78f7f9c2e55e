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

use atoll_machine::Machine;
use atoll_memory::Inside;
use atoll_storage::{Change, Table, Value};

use super::apply::{Buffers, Checked, RowOp};
use super::step::{Found, Wanted};
use super::{Txn, Worker};
use crate::error::Stop;
use crate::scheme::{Refusal, Scheme};
use crate::tables::Guard;

/// Reads and replaces values of a table, see [`Worker::access`]. Values are as in
/// [`super::RowOp`].
pub trait RowAccess {
    /// Copies a value of the row of a key into the first bytes of `into`; false when there is no
    /// row, and `into` means nothing then.
    ///
    /// # Errors
    /// As [`Worker::apply`].
    fn get(&mut self, key: &[Value], column: usize, into: &mut [u8]) -> Result<bool, Stop>;

    /// Replaces a value of the row of a key by the first bytes of `bytes`; false when there is no
    /// row.
    ///
    /// # Errors
    /// As [`Worker::apply`].
    fn put(&mut self, key: &[Value], column: usize, bytes: &[u8]) -> Result<bool, Stop>;

    /// Whether the transaction can go on, see [`Worker::is_open`].
    fn is_open(&self) -> bool;
}

/// See the module.
struct Access<'w, S: Scheme<M>, M: Machine> {
    worker: &'w mut Worker<S, M>,
    table: &'w Table<M>,
    /// Nothing unless it is inside.
    inside: Option<Inside>,
}

impl<S: Scheme<M>, M: Machine> Worker<S, M> {
    /// Lets `body` access rows of a table one after the other. It is inside the gate in between, so
    /// it may wait for nobody; a cut waits until its next access, or its end.
    ///
    /// # Errors
    /// [`Stop::ForeignTable`]; then `body` has not been called.
    pub fn access(
        &mut self,
        table: &Table<M>,
        body: &mut dyn FnMut(&mut dyn RowAccess),
    ) -> Result<(), Stop> {
        self.check_table(table)?;
        body(&mut Access { worker: self, table, inside: None });
        Ok(())
    }
}

impl<S: Scheme<M>, M: Machine> Access<'_, S, M> {
    /// Whether the access was made plainly. An error if that is refused.
    #[inline(always)]
    fn plainly(
        &mut self,
        key: &[Value],
        (column, is_put): (usize, bool),
        Buffers { input, output }: Buffers<'_>,
    ) -> Result<bool, Refusal> {
        let Some(aim) = Checked::alone(self.table, column, is_put) else { return Ok(false) };
        let Ok((hash, guess)) = self.table.hash_and_guess(key) else { return Ok(false) };
        if !self.worker.has_named(self.table, key.first(), is_put) {
            return Ok(false);
        }
        let inside = match self.inside {
            Some(inside) if !self.worker.member.is_awaited(inside) => inside,
            _ => match self.renew() {
                Some(inside) => inside,
                None => return Ok(false),
            },
        };
        let Worker { engine, txn, .. } = &mut *self.worker;
        let guard = engine.tables.guard(self.table.id());
        let here = (&**engine, guard, Change::forward(inside));
        let found = guess.and_then(|row| Found::guessed(guard, row));
        let found = found.filter(|found| found.meta.has_hash(hash));
        match found.or_else(|| txn.locate_anew(guard, Wanted { hash, key })) {
            Some(found) => txn.do_plainly(here, found, hash, aim, input, output),
            None => Ok(false),
        }
    }

    /// Leaves, and goes inside again unless the transaction is not open, or out of the ordinary.
    #[cold]
    fn renew(&mut self) -> Option<Inside> {
        self.leave();
        if self.worker.is_open() && self.worker.txn.is_ordinary() {
            self.inside = Some(self.worker.member.go_in());
        }
        self.inside
    }

    fn leave(&mut self) {
        if self.inside.take().is_some() {
            let Worker { member, txn, context, .. } = &mut *self.worker;
            if Txn::<S, M>::IN_PLACE {
                txn.show(context); // ACCESS-2
            }
            member.go_out();
        }
    }

    /// Makes the access outside (`ACCESS-1`).
    #[cold]
    #[inline(never)]
    fn outside(
        &mut self,
        refused: Option<Refusal>,
        key: &[Value],
        op: RowOp,
        buffers: Buffers<'_>,
    ) -> Result<bool, Stop> {
        self.leave();
        if let Some(refusal) = refused {
            self.worker.refused(refusal, &mut 0)?;
        }
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
        guard: &'g Guard<S, M>,
        wanted: Wanted<'_>,
    ) -> Option<Found<'g, S, M>> {
        self.locate(guard, wanted)
    }
}

impl<S: Scheme<M>, M: Machine> RowAccess for Access<'_, S, M> {
    fn get(&mut self, key: &[Value], column: usize, into: &mut [u8]) -> Result<bool, Stop> {
        let buffers = Buffers { input: &[], output: &mut *into };
        let refused = match self.plainly(key, (column, false), buffers) {
            Ok(true) => return Ok(true),
            Ok(false) => None,
            Err(refusal) => Some(refusal),
        };
        let buffers = Buffers { input: &[], output: into };
        self.outside(refused, key, RowOp::Get { column, to: 0 }, buffers)
    }

    fn put(&mut self, key: &[Value], column: usize, bytes: &[u8]) -> Result<bool, Stop> {
        let buffers = || Buffers { input: bytes, output: &mut [] };
        let is_allowed = !self.worker.read_only;
        let plainly = is_allowed.then(|| self.plainly(key, (column, true), buffers()));
        let refused = match plainly {
            Some(Ok(true)) => return Ok(true),
            Some(Err(refusal)) => Some(refusal),
            Some(Ok(false)) | None => None,
        };
        self.outside(refused, key, RowOp::Put { column, from: 0 }, buffers())
    }

    fn is_open(&self) -> bool {
        self.worker.is_open()
    }
}

impl<S: Scheme<M>, M: Machine> Drop for Access<'_, S, M> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // Perhaps in the middle of an access.
            self.worker.txn.is_broken = true;
        }
        self.leave();
    }
}
