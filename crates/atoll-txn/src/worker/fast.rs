//! The fast path to a single value: no closure, no measurement, and nothing that is out of the
//! ordinary. Batches and cursors share it.
//!
//! - `FAST-1`: it executes an operation only if the candidate is the row of the key, the
//!   transaction itself has not changed the row (at commit), and the scheme grants the request at
//!   once. It passes a conflict on; it leaves everything else to the general path
//!   ([`super::point`]), which handles any access.

use atoll_machine::Machine;
use atoll_storage::{PlainColumn, Table};

use super::found::Found;
use super::ops::Checked;
use super::step::StepContext;
use super::txn::TxnState;
use crate::before_image::BeforeImage;
use crate::scheme::{AbortReason, Conflict, FetchOnce, Scheme, Seen};
use crate::work;

/// How the fast path ended. It reports no errors, so that this fits into registers.
pub(super) enum Fast {
    /// The operation has been executed.
    Done,
    /// The general path has to execute it.
    Fallback,
    /// The scheme has refused a request.
    Conflict(Conflict),
}

impl From<Conflict> for Fast {
    #[inline(always)]
    fn from(conflict: Conflict) -> Self {
        Self::Conflict(conflict)
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

impl<S: Scheme<M>, M: Machine> TxnState<S, M> {
    /// Whether the transaction may use the fast path: it is not measured, since the fast path does
    /// not measure; and it has deleted no row in place, since the row's entry is still in the
    /// index.
    #[inline]
    pub(super) fn may_use_fast_path(&self) -> bool {
        !self.stopwatch.is_running() && !self.rows.hides_any()
    }

    /// Executes an operation on a candidate row (`FAST-1`).
    #[inline(always)]
    pub(super) fn try_fast(
        &mut self,
        here: StepContext<'_, S, M>,
        (found, hash): (Found<'_, S, M>, u64),
        aim: Checked,
        input: &[u8],
        output: &mut [u8],
    ) -> Fast {
        M::work(work::OPERATION);
        let (_, context, _) = here;
        let table = &*context.table;
        if !table.is_hash_unique(hash) || !found.meta.has_hash(hash) {
            return Fast::Fallback;
        }
        if !Self::IN_PLACE && self.edits.get_mut().find(table.id(), found.slot.id()).is_some() {
            return Fast::Fallback;
        }
        if !aim.is_put {
            self.get_fast(here, (found, hash), aim, output)
        } else if context.indexes().moving.may_have(aim.column.position()) {
            Fast::Fallback
        } else if Self::IN_PLACE {
            self.put_in_place(here, (found, hash), aim, input)
        } else {
            self.put_at_commit(here, (found, hash), aim, input)
        }
    }

    /// Copies a value if the scheme grants the read.
    #[inline(always)]
    fn get_fast(
        &mut self,
        (engine, context, _): StepContext<'_, S, M>,
        (found, hash): (Found<'_, S, M>, u64),
        aim: Checked,
        output: &mut [u8],
    ) -> Fast {
        let Some(into) = output.get_mut(aim.bytes()) else { return Fast::Fallback };
        let get = Get { table: &*context.table, found, hash, column: aim.column, into };
        let (target, tables) = (found.target(context), engine.tables());
        let seen = engine.scheme.read_once(&mut self.local, tables, target, get);
        self.note_gsn(|| found.slot.gsn());
        match seen {
            Ok(Some(Seen::Present)) => Fast::Done,
            Ok(_) => Fast::Fallback,
            Err(conflict) => conflict.into(),
        }
    }

    /// Stores a value in place if the scheme grants the write.
    #[inline(always)]
    fn put_in_place(
        &mut self,
        here: StepContext<'_, S, M>,
        (found, hash): (Found<'_, S, M>, u64),
        aim: Checked,
        input: &[u8],
    ) -> Fast {
        let Some(bytes) = input.get(aim.bytes()) else { return Fast::Fallback };
        let ready = self.lock_in_place(here, (found, hash));
        if !matches!(ready, Fast::Done) {
            return ready;
        }
        let (_, context, change) = here;
        match context.table.store_plain(change, found.slot, aim.column, bytes, &mut self.undo) {
            Ok(()) => Fast::Done,
            // On OOM, fall back to the general path, which tries again and reports it.
            Err(_) => Fast::Fallback,
        }
    }

    /// Requests a write in place; falls back if the row is no longer that of the key.
    #[inline(always)]
    pub(super) fn lock_in_place(
        &mut self,
        (engine, context, _): StepContext<'_, S, M>,
        (found, hash): (Found<'_, S, M>, u64),
    ) -> Fast {
        let (target, tables) = (found.target(context), engine.tables());
        let asked = engine.scheme.write(&mut self.local, tables, target, true);
        self.note_gsn(|| found.slot.gsn());
        match asked {
            Ok(()) if found.meta.has_hash(hash) => Fast::Done,
            Ok(()) => Fast::Fallback,
            Err(conflict) => conflict.into(),
        }
    }

    /// Adds a change to the write set if the scheme grants the update. The transaction also reads
    /// the row, since the operation tells whether there is one.
    #[inline(always)]
    fn put_at_commit(
        &mut self,
        (engine, context, _): StepContext<'_, S, M>,
        (found, hash): (Found<'_, S, M>, u64),
        aim: Checked,
        input: &[u8],
    ) -> Fast {
        let Some(bytes) = input.get(aim.bytes()) else { return Fast::Fallback };
        let (target, tables) = (found.target(context), engine.tables());
        let mut fetch = |_: Option<&BeforeImage>| found.meta.has_hash(hash);
        let seen = engine.scheme.update(&mut self.local, tables, target, &mut fetch);
        self.note_gsn(|| found.slot.gsn());
        match seen {
            Ok(Seen::Present) if found.meta.has_hash(hash) => {
                let (row, column) = (found.slot.id(), aim.column.position());
                M::work(work::copy(bytes.len()));
                self.edits.get_mut().change(context.table.id(), row, column, bytes);
                Fast::Done
            }
            // As in `ask_write_of`: the grant is of no use.
            Ok(Seen::Present) => Conflict::from(AbortReason::Changed).into(),
            Ok(Seen::Absent | Seen::Held) => Fast::Fallback,
            Err(conflict) => conflict.into(),
        }
    }
}
