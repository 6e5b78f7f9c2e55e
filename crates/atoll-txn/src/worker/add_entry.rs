//! Adding entries to the ordered indexes: those of new rows, and of rows that have moved.
//!
//! The transaction adds an entry, then registers a gap insert, so that a transaction that has read
//! the gap is ordered before it or aborts. In a unique index, it first reads all entries with the
//! key.

use std::ops::Bound;

use atoll_machine::Machine;
use atoll_storage::ordered::{KeyRange, encode};
use atoll_storage::{Table, key};

use super::call::Call;
use super::entries::Entries;
use super::range::ScanBuffers;
use super::step::Step;
use super::txn::TxnState;
use crate::accounting::Component;
use crate::engine::Engine;
use crate::error::OpError;
use crate::scheme::{AbortReason, Scheme};
use crate::tables::TableContext;

/// The progress of adding an entry. If the scheme refuses a request, the next attempt continues
/// from there, so a transaction that waits does not repeat granted requests.
struct Addition<'r> {
    buffers: &'r mut ScanBuffers,
    /// This many entries of the batch have been read, and no other row had the key.
    looked_at: usize,
    /// The index may have more entries with the key behind the batch.
    more: bool,
}

impl<'r> Addition<'r> {
    /// The progress of the next entry, at its beginning.
    fn of(entries: &Entries, buffers: &'r mut ScanBuffers) -> Self {
        let entry = &entries.made[entries.added];
        buffers.batch.rewind();
        if entry.unique {
            buffers.batch.limit(None);
            buffers.from.clear();
            buffers.from.extend_from_slice(entries.key(entry));
        }
        Self { buffers, looked_at: 0, more: entry.unique }
    }
}

impl<S: Scheme<M>, M: Machine> Call<'_, S, M> {
    /// Adds the entries that steps have noted to their indexes.
    #[inline(always)]
    pub(super) fn add_entries(&mut self, table: &Table<M>) -> Result<(), OpError> {
        // Most steps note none.
        if self.txn.entries.has_new() { self.add_new_entries(table) } else { Ok(()) }
    }

    fn add_new_entries(&mut self, table: &Table<M>) -> Result<(), OpError> {
        while self.txn.entries.has_new() {
            if self.is_entry_needless(table) {
                self.txn.entries.added += 1;
                continue;
            }
            self.check_entry_length(table)?;
            self.check_entry_shown(table)?;
            self.check_entry_partitions(table)?;
            let mut buffers = std::mem::take(&mut self.thread.scan_buffers);
            let mut addition = Addition::of(&self.txn.entries, &mut buffers);
            let clash = self.until_done(table, |txn, (engine, context, _)| {
                txn.add_entry(engine, context, &mut addition)
            });
            self.thread.scan_buffers = buffers;
            let clash = clash?;
            self.txn.entries.added += 1;
            if clash {
                self.check_consistent()?;
                // The row is in the table already, so the transaction must roll back.
                let entry = self.txn.entries.made[self.txn.entries.added - 1];
                let ordered = &self.engine.tables.context(table.id()).indexes()[entry.index];
                let values = encode::decode(&ordered.key, self.txn.entries.key(&entry));
                let error = OpError::DuplicateIndexKey {
                    table: table.name().to_owned(),
                    index: ordered.name.clone(),
                    key: key::display(table.schema(), &ordered.columns, &values),
                };
                self.abort(AbortReason::Finished);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Whether nothing will ever look for the next entry.
    fn is_entry_needless(&self, table: &Table<M>) -> bool {
        let entry = &self.txn.entries.made[self.txn.entries.added];
        self.engine.tables.context(table.id()).indexes()[entry.index].is_given_up()
    }

    /// Rejects a unique key that the transaction cannot check; one that is not shown is checked by
    /// the thread that fills it.
    fn check_entry_shown(&mut self, table: &Table<M>) -> Result<(), OpError> {
        let entry = self.txn.entries.made[self.txn.entries.added];
        let ordered = &self.engine.tables.context(table.id()).indexes()[entry.index];
        if entry.unique && ordered.since.is_some_and(|since| since > 0) {
            return self.check_shown(table, entry.index);
        }
        Ok(())
    }

    /// Rejects keys that are too long for the index to distinguish.
    fn check_entry_length(&mut self, table: &Table<M>) -> Result<(), OpError> {
        let entries = &self.txn.entries;
        let entry = &entries.made[entries.added];
        let ordered = &self.engine.tables.context(table.id()).indexes()[entry.index];
        let checked = ordered.check_key_len(entries.key(entry));
        checked.map_err(|error| {
            self.abort(AbortReason::Finished);
            error.into()
        })
    }
}

impl<S: Scheme<M>, M: Machine> TxnState<S, M> {
    /// Adds the next entry and registers the gap insert. `Done(true)` means that the index is
    /// unique and another row has the key.
    fn add_entry(
        &mut self,
        engine: &Engine<S, M>,
        context: &TableContext<S, M>,
        addition: &mut Addition<'_>,
    ) -> Step<bool> {
        match self.has_other(engine, context, addition) {
            Step::Done(false) => {}
            other => return other,
        }
        let entry = self.entries.made[self.entries.added];
        let ordered = &context.indexes()[entry.index];
        let before = self.stopwatch.switch::<M>(Component::Index);
        let Self { local, entries, .. } = self;
        let key = entries.key(&entry);
        let mut split = |old, new| {
            engine.scheme.split(
                local,
                context.leaf(entry.index, old),
                context.leaf(entry.index, new),
            )
        };
        // This runs again after a wait, since the leaf may have been split meanwhile.
        let leaf = match entry.spot {
            Some(spot) => ordered.index.insert_at(spot, key, entry.row, &mut split),
            None => ordered.index.insert(key, entry.row, &mut split),
        };
        self.stopwatch.switch::<M>(before);
        let (place, gap) = context.leaf(entry.index, leaf);
        match engine.scheme.insert_into_gap(&mut self.local, place, gap) {
            Ok(()) => Step::Done(false),
            Err(conflict) => Step::Conflict(conflict),
        }
    }

    /// Whether another row has the key of the next entry, if the key must be unique.
    fn has_other(
        &mut self,
        engine: &Engine<S, M>,
        context: &TableContext<S, M>,
        addition: &mut Addition<'_>,
    ) -> Step<bool> {
        let entry = self.entries.made[self.entries.added];
        let Addition { buffers: ScanBuffers { batch, from: key, .. }, looked_at, more } = addition;
        let range = KeyRange {
            from: Bound::Included(&key[..]),
            to: Bound::Included(&key[..]),
            descending: false,
        };
        loop {
            while let Some(found) = batch.get(*looked_at) {
                let named = (found.row, found.key);
                if found.row != entry.row {
                    match self.read_found(engine, context, entry.index, named, &mut |_| {}) {
                        Step::Done(false) => {}
                        other => return other,
                    }
                }
                *looked_at += 1;
            }
            if !*more {
                return Step::Done(false);
            }
            match self.read_gap_batch(engine, context, entry.index, &range, batch) {
                Ok(has_more) => (*more, *looked_at) = (has_more, 0),
                Err(conflict) => return Step::Conflict(conflict),
            }
        }
    }
}
