//! Rollback, and cleaning up after the end of a transaction.

use std::time::Duration;

use atoll_machine::Machine;
use atoll_storage::Change;

use super::call::Call;
use super::commit::seal;
use super::thread::Thread;
use super::txn::{Phase, TxnState};
use crate::accounting::Component;
use crate::engine::Engine;
use crate::row::Row;
use crate::scheme::{AbortReason, Scheme};
use crate::work;

/// Pause before a rollback that was out of memory tries again.
const ROLLBACK_PAUSE: Duration = Duration::from_millis(1);
impl<S: Scheme<M>, M: Machine> Call<'_, S, M> {
    /// Rolls the open transaction back; does nothing if none is open.
    pub fn abort(&mut self, reason: AbortReason) {
        if self.txn.phase != Phase::Open {
            self.txn.phase = Phase::Idle;
            return;
        }
        self.txn.stopwatch.switch::<M>(Component::Abort);
        self.txn.log.withdraw();
        self.undo_all();
        let Self { engine, thread: Thread { member, sealed, .. }, txn } = self;
        let section = member.enter();
        let change = Change::rollback(section.inside());
        seal(engine, sealed, change.inside.epoch);
        if TxnState::<S, M>::IN_PLACE {
            txn.remove_made(engine, change);
        }
        txn.publication.close(&engine.registry, change.inside.epoch, &txn.undo);
        drop(section);
        let Self { engine, thread: Thread { garbage, .. }, txn } = self;
        engine.scheme.end(&mut txn.local, engine.tables(), false);
        if TxnState::<S, M>::IN_PLACE {
            for made in txn.rows.inserted() {
                engine.tables().table(made.table).free(made.row);
            }
        } else {
            txn.retire_aborted(garbage, engine);
        }
        self.finish(Err(reason), Phase::Finished);
        if !TxnState::<S, M>::IN_PLACE {
            self.collect_at_begin();
            self.collect_at_end();
        }
    }

    /// Undoes the stores, entry by entry. Some memory is reserved for this. If even the reserve is
    /// used up, the rollback waits until other transactions have ended, rather than leave a row
    /// wrong.
    fn undo_all(&mut self) {
        if self.txn.undo.is_empty() {
            return;
        }
        let Self { engine, thread: Thread { member, backwards, .. }, txn } = self;
        let tables = engine.tables();
        backwards.begin(&txn.undo);
        while let Some((table, row, was)) = backwards.step(&txn.undo) {
            loop {
                let section = member.enter();
                let change = Change::rollback(section.inside());
                // Takers do not know yet of a write set if storing it has failed half way.
                txn.show();
                let restored = tables.table(table).restore(change, row, was);
                drop(section);
                if restored.is_ok() {
                    break;
                }
                engine.free_dropped();
                engine.memory().reclaim();
                M::sleep(ROLLBACK_PAUSE);
            }
        }
    }

    pub(super) fn finish(&mut self, end: Result<(), AbortReason>, phase: Phase) {
        M::work(work::END);
        if !self.txn.upkeep {
            self.txn.publication.count(end);
        }
        if let Some(spent) = self.txn.stopwatch.stop::<M>(end.is_ok()) {
            self.txn.publication.spend(&spent);
        }
        self.txn.clear(self.engine);
        self.txn.phase = phase;
    }
}

impl<S: Scheme<M>, M: Machine> TxnState<S, M> {
    /// Calls `pause`, after an attempt that was rolled back and before the next one. The time of
    /// the pause counts as a cost of the abort.
    pub(super) fn pause(&mut self, pause: &mut dyn FnMut()) {
        if let Some(spent) = self.stopwatch.pause::<M>(pause) {
            self.publication.spend(&spent);
        }
    }

    fn clear(&mut self, engine: &Engine<S, M>) {
        for (table, row) in self.rows.take_unused() {
            engine.tables().table(table).free(row);
        }
        if !self.undo.is_empty() {
            self.undo.clear();
        }
        if !self.edits.get_mut().is_clear() {
            self.edits.get_mut().clear();
        }
        self.is_broken = false;
        self.rows.clear();
        self.entries.clear();
    }

    /// In place, while the rows are locked and after all stores are undone: removes the entries
    /// that the transaction has added.
    fn remove_made(&mut self, engine: &Engine<S, M>, change: Change) {
        let Self { entries, local, entry_key: now, .. } = self;
        for entry in &entries.made[..(entries.added + 1).min(entries.made.len())] {
            let context = engine.tables.context(entry.table);
            let ordered = &context.indexes()[entry.index];
            if context.table.is_present(entry.row) {
                let view = Row::stored(&*context.table, context.table.slot(entry.row));
                ordered.key_of(&view, now);
                if *now == entries.key(entry) {
                    continue;
                }
            }
            ordered.index.remove(entries.key(entry), entry.row, &mut |from, into| {
                let (from, into) =
                    (context.leaf(entry.index, from), context.leaf(entry.index, into));
                engine.scheme.split(local, from, into)
            });
        }
        for made in self.rows.inserted() {
            let context = engine.tables.context(made.table);
            context.unlink(made.row);
            context.table.index().remove(made.hash, made.row);
            context.table.vacate(change, made.row);
        }
    }
}
