//! Scanning all rows of a table in the order of their slots, without an ordered index.
//!
//! 1. Register a gap read for every stripe of the hash index: the transaction relies on the absence
//!    of all keys that it does not find.
//! 2. Read, through the scheme, the row of each slot to which the hash index may lead.
//!
//! A row that a scan misses because its inserter had not named its slot yet gets its gap insert
//! after the gap read, so the inserter meets it (`SCHEME-3`), as in [`super::point`].

use std::ops::ControlFlow;

use atoll_machine::{Machine, Ordering};
use atoll_storage::{RowId, Table};

use super::call::Call;
use super::found::Found;
use super::point::Reader;
use super::step::Step;
use super::thread::Thread;
use crate::error::OpError;
use crate::scheme::Scheme;

/// Gap reads in one section of the gate.
const GAPS_TOGETHER: u32 = 64;
/// Rows that are prefetched together.
const PREFETCHED: usize = 16;

impl<S: Scheme<M>, M: Machine> Call<'_, S, M> {
    /// Scans all rows of a table, in no order. `look` and `take` are those of [`Call::scan`].
    ///
    /// # Errors
    /// [`OpError::Abort`]; [`OpError::OtherPartition`] for a transaction that has not named all
    /// partitions.
    pub fn scan_heap(
        &mut self,
        table: &Table<M>,
        look: Reader<'_, M>,
        take: &mut dyn FnMut() -> ControlFlow<()>,
    ) -> Result<(), OpError> {
        self.check_open()?;
        self.check_table(table)?;
        if S::PARTITIONED {
            self.check_all_partitions(table)?;
        }
        let stripes = self.engine.tables.context(table.id()).stripe_count();
        let mut read = 0;
        while read < stripes {
            let end = (read + GAPS_TOGETHER).min(stripes);
            self.until_done(table, |txn, (engine, context, _)| {
                while read < end {
                    let (place, gap) = context.stripe_at(read);
                    if let Err(conflict) = engine.scheme.read_gap(&mut txn.local, place, gap) {
                        return Step::Conflict(conflict);
                    }
                    read += 1;
                }
                txn.note_gsn(|| context.gone_gsn());
                Step::Done(())
            })?;
        }
        M::fence(Ordering::SeqCst);
        for segment in 0..table.segment_count() {
            let mut slots = table.slots_of(segment).peekable();
            while slots.peek().is_some() {
                let rows = self.named(table, slots.by_ref().take(PREFETCHED));
                for row in rows.into_iter().flatten() {
                    let is_there = self.until_done(table, |txn, (engine, context, _)| {
                        if txn.rows.hides(context.table.id(), row) {
                            return Step::Done(false);
                        }
                        let found = Found::new(context, row);
                        let is_named = || found.meta.is_named();
                        match txn.read_row(engine, context, found, &is_named, &mut *look) {
                            // The slot has been freed, or another key is about to use it.
                            Step::Again if !is_named() => Step::Done(false),
                            step => step,
                        }
                    })?;
                    if is_there && take().is_break() {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    /// Those of a few slots to which the hash index may lead; prefetches their rows.
    fn named(
        &mut self,
        table: &Table<M>,
        slots: impl Iterator<Item = RowId>,
    ) -> [Option<RowId>; PREFETCHED] {
        let Self { engine, thread: Thread { member, .. }, txn } = self;
        let context = engine.tables.context(table.id());
        let hints = &mut txn.prefetched.hints;
        let section = member.enter();
        let mut named = [None; PREFETCHED];
        let found = slots.map(|row| Found::new(context, row)).filter(|one| one.meta.is_named());
        for (found, place) in found.zip(&mut named) {
            found.hint(context, &[], hints);
            *place = Some(found.slot.id());
        }
        hints.give::<M>();
        drop(section);
        named
    }
}
