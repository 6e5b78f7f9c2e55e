//! Scanning a range of an ordered index.
//!
//! A scan processes a leaf at a time: it registers a gap read for the leaf's guard, reads the
//! entries, and reads each row through the scheme. An entry only says that a row may have a key;
//! the row itself decides. If the table has index-only validity ([`Table::is_index_only`]), a
//! present row has the key of its entry.

use std::num::NonZeroUsize;
use std::ops::{Bound, ControlFlow};

use atoll_machine::Machine;
use atoll_storage::ordered::{Batch, KeyRange};
use atoll_storage::{RowId, StorageError, Table};

use super::call::Call;
use super::found::Found;
use super::point::Reader;
use super::range::{Range, ScanBuffers};
use super::step::Step;
use super::thread::Thread;
use super::txn::TxnState;
use crate::accounting::Component;
use crate::engine::Engine;
use crate::error::OpError;
use crate::scheme::{AbortReason, Conflict, Scheme};
use crate::tables::TableContext;

/// Entries in the first batch, so that a caller that wants only the first row of a range does not
/// pay for a whole leaf.
const FIRST_ENTRIES: usize = 4;
/// Rows that are prefetched together.
const PREFETCHED: usize = 16;

impl<S: Scheme<M>, M: Machine> Call<'_, S, M> {
    /// Scans the rows of a range of an ordered index, in its order. For each row, the worker calls
    /// `look` to read from it, perhaps several times and with versions that do not count; then it
    /// calls `take` once. The scan ends when `take` breaks.
    ///
    /// # Errors
    /// [`OpError::Abort`]; [`OpError::Storage`] for bounds that do not fit the index.
    ///
    /// # Panics
    /// When the table has no index at this position, see [`Engine::index`].
    pub fn scan(
        &mut self,
        table: &Table<M>,
        index: usize,
        range: &Range<'_>,
        look: Reader<'_, M>,
        take: &mut dyn FnMut() -> ControlFlow<()>,
    ) -> Result<(), OpError> {
        self.check_open()?;
        self.check_table(table)?;
        let mut buffers = std::mem::take(&mut self.thread.scan_buffers);
        let done = self.check_range(table, index, range).and_then(|()| {
            if !buffers.bounds(&self.engine.tables.context(table.id()).indexes()[index], range) {
                return Ok(());
            }
            buffers.batch.rewind();
            self.scan_batches(table, index, range, &mut buffers, (look, take))
        });
        self.thread.scan_buffers = buffers;
        done
    }

    /// Checks that the transaction may rely on an index (`INDEXES-3`).
    pub(super) fn check_shown(&mut self, table: &Table<M>, index: usize) -> Result<(), OpError> {
        if TxnState::<S, M>::IN_PLACE {
            return Ok(()); // It locks what is there, whatever was there when it began.
        }
        let since = self.engine.tables.context(table.id()).indexes()[index].since;
        if since.is_some_and(|since| since <= self.txn.shown)
            || self.txn.own_indexes.contains(&(table.id(), index))
        {
            return Ok(());
        }
        Err(self.abort_with(AbortReason::TooLate))
    }

    fn check_range(
        &mut self,
        table: &Table<M>,
        index: usize,
        range: &Range<'_>,
    ) -> Result<(), OpError> {
        self.check_shown(table, index)?;
        let context = self.engine.tables.context(table.id());
        let ordered = &context.indexes()[index];
        for values in range.sides().into_iter().flatten() {
            let (given, expected) = (values.len(), ordered.columns.len());
            if given > expected {
                let index = ordered.name.clone();
                return Err(StorageError::BoundCount { index, expected, given }.into());
            }
            // This rejects NULL where the column excludes it: NULL has no key encoding there.
            let mut both = ordered.columns.iter().zip(values);
            both.try_for_each(|(column, value)| table.schema().check_value(*column, value))?;
        }
        if S::PARTITIONED {
            // The range is in one partition if both bounds have the same value for the first column
            // of the primary key; otherwise it may be in all.
            let leads = ordered.columns.first() == table.schema().primary_key().first();
            let one = match range.sides() {
                [Some([from, ..]), Some([to, ..])] if leads && from == to => Some(from.clone()),
                _ => None,
            };
            return match one {
                Some(first) => self.check_partition(table, Some(&first), false),
                None => self.check_all_partitions(table),
            };
        }
        Ok(())
    }

    fn scan_batches(
        &mut self,
        table: &Table<M>,
        index: usize,
        range: &Range<'_>,
        buffers: &mut ScanBuffers,
        (look, take): (Reader<'_, M>, &mut dyn FnMut() -> ControlFlow<()>),
    ) -> Result<(), OpError> {
        let ScanBuffers { batch, from, to } = buffers;
        let to = match range.to {
            Bound::Unbounded => Bound::Unbounded,
            _ if to.is_empty() => Bound::Unbounded, // No key is greater than the prefix.
            _ => Bound::Excluded(&to[..]),
        };
        let keys = KeyRange { from: Bound::Included(&from[..]), to, descending: range.descending };
        batch.limit(NonZeroUsize::new(FIRST_ENTRIES));
        loop {
            let more = self.until_done(table, |txn, (engine, context, _)| {
                let read = txn.read_gap_batch(engine, context, index, &keys, batch);
                read.map_or_else(Step::Conflict, Step::Done)
            })?;
            for at in 0..batch.len() {
                if at % PREFETCHED == 0 {
                    self.prefetch_batch(table, index, batch, at);
                }
                let Some(found) = batch.get(at) else { break };
                let is_there = self.until_done(table, |txn, (engine, context, _)| {
                    txn.read_found(engine, context, index, (found.row, found.key), look)
                })?;
                if is_there && take().is_break() {
                    return Ok(());
                }
            }
            if !more {
                return Ok(());
            }
            batch.limit(None);
        }
    }

    /// Prefetches what the scan needs to verify that rows have the keys of their entries.
    fn prefetch_batch(&mut self, table: &Table<M>, index: usize, batch: &Batch, from: usize) {
        let Self { engine, thread: Thread { member, .. }, txn } = self;
        let context = engine.tables.context(table.id());
        let columns =
            if table.is_index_only() { &[] } else { &context.indexes()[index].columns[..] };
        let hints = &mut txn.prefetched.hints;
        let coming = || (from..batch.len().min(from + PREFETCHED)).filter_map(|at| batch.get(at));
        let section = member.enter();
        coming().for_each(|found| Found::new(context, found.row).hint(context, columns, hints));
        hints.give::<M>();
        if columns.iter().any(|at| context.views().may_have(*at)) {
            for found in coming() {
                table.hint_at_long_values(&[context.table.slot(found.row)], columns, hints);
            }
            hints.give::<M>();
        }
        drop(section);
    }
}

impl<S: Scheme<M>, M: Machine> TxnState<S, M> {
    /// Registers a gap read for the next leaf of a range and reads its entries. Returns whether
    /// there are more.
    pub(super) fn read_gap_batch(
        &mut self,
        engine: &Engine<S, M>,
        context: &TableContext<S, M>,
        index: usize,
        range: &KeyRange<'_>,
        batch: &mut Batch,
    ) -> Result<bool, Conflict> {
        let before = self.stopwatch.switch::<M>(Component::Index);
        let Self { local, .. } = self;
        let mut conflict = None;
        let mut observe = |leaf| {
            let (place, gap) = context.leaf(index, leaf);
            if let Err(refused) = engine.scheme.read_gap(local, place, gap) {
                conflict = Some(refused);
            }
        };
        let more = context.indexes()[index].index.batch(range, &mut observe, batch);
        self.stopwatch.switch::<M>(before);
        self.note_gsn(|| context.gone_gsn());
        match conflict {
            None => Ok(more),
            Some(conflict) => {
                batch.step_back();
                Err(conflict)
            }
        }
    }

    /// Reads the row of an entry. `Done(false)` means that the row is absent or has another key.
    pub(super) fn read_found(
        &mut self,
        engine: &Engine<S, M>,
        context: &TableContext<S, M>,
        index: usize,
        (row, key): (RowId, &[u8]),
        body: Reader<'_, M>,
    ) -> Step<bool> {
        if self.rows.hides(context.table.id(), row) {
            return Step::Done(false);
        }
        let found = Found::new(context, row);
        let ordered = &context.indexes()[index];
        let mut now = std::mem::take(&mut self.entry_key);
        let mut has_key = false;
        let is_named = || found.meta.is_named();
        let step = self.read_row(engine, context, found, &is_named, |view| {
            // Only now, since the scheme has locked the row or read its version (`SLOTS-1`).
            has_key = context.table.is_index_only() || {
                ordered.key_of(view, &mut now);
                now == key
            };
            if has_key {
                body(view);
            }
        });
        self.entry_key = now;
        match step {
            Step::Done(is_there) => Step::Done(is_there && has_key),
            // The slot has been freed, or another key is about to use it.
            Step::Again if !found.meta.is_named() => Step::Done(false),
            other => other,
        }
    }
}

impl<S: Scheme<M>, M: Machine> Call<'_, S, M> {
    /// Checks that the transaction may search for another row with the key of the next entry, if
    /// the key must be unique. Such a row can be in any partition, unless the index begins with the
    /// first column of the primary key.
    #[inline]
    pub(super) fn check_entry_partitions(&mut self, table: &Table<M>) -> Result<(), OpError> {
        if !S::PARTITIONED {
            return Ok(());
        }
        let entry = &self.txn.entries.made[self.txn.entries.added];
        let ordered = &self.engine.tables.context(table.id()).indexes()[entry.index];
        let leads = ordered.columns.first() == table.schema().primary_key().first();
        if entry.unique && !leads { self.check_all_partitions(table) } else { Ok(()) }
    }

    pub(super) fn check_all_partitions(&mut self, table: &Table<M>) -> Result<(), OpError> {
        if self.txn.partitions.is_empty() || self.engine.tables.context(table.id()).replicated {
            return Ok(());
        }
        let all = 0..self.engine.partitions();
        let missing = all.into_iter().find(|one| self.txn.partitions.binary_search(one).is_err());
        let Some(partition) = missing else { return Ok(()) };
        self.abort(AbortReason::Finished);
        Err(OpError::OtherPartition { table: table.name().to_owned(), partition })
    }
}
