//! What takers of snapshots see of a transaction: its undo list, once it has stored something.

use std::sync::Arc;

use atoll_machine::Machine;
use atoll_storage::undo::UndoList;

use crate::accounting::Components;
use crate::registry::{Registry, TxnContext};
use crate::scheme::AbortReason;

/// See the module.
pub(super) struct Publication<M: Machine> {
    number: u32,
    context: Arc<TxnContext<M>>,
    /// The name of the undo list once takers can see it, 0 before.
    shown: u64,
    /// How many undo lists with this transaction number have been shown.
    shown_ever: u64,
    chunks_shown: usize,
}

impl<M: Machine> Publication<M> {
    pub(super) fn new(number: u32, registry: &Registry<M>) -> Self {
        let context = registry.register();
        Self { number, context, shown: 0, shown_ever: 0, chunks_shown: 0 }
    }

    /// Shows the undo list to takers if it is new or has grown. The caller is in the same section
    /// as the stores that the new entries undo.
    #[inline]
    pub(super) fn show(&mut self, undo: &UndoList<M>) {
        let chunks = undo.chunks().len();
        if undo.is_empty() || (self.shown != 0 && chunks <= self.chunks_shown) {
            return;
        }
        if self.shown == 0 {
            self.shown_ever += 1;
            // Unique without a shared counter.
            self.shown = u64::from(self.number) << 44 | self.shown_ever;
        }
        self.context.open(self.shown, undo);
        self.chunks_shown = chunks;
    }

    /// Hides the undo list: the transaction ends in `epoch`. Inside the gate.
    #[inline]
    pub(super) fn close(&mut self, registry: &Registry<M>, epoch: u64, undo: &UndoList<M>) {
        if self.shown != 0 {
            self.context.close(registry, epoch, undo.first_epoch());
            (self.shown, self.chunks_shown) = (0, 0);
        }
    }

    /// The name of the undo list, 0 while takers cannot see it.
    #[cfg(test)]
    pub(super) fn shown(&self) -> u64 {
        self.shown
    }

    /// What others see of the transaction.
    pub(super) fn context(&self) -> &Arc<TxnContext<M>> {
        &self.context
    }

    /// Counts the end of the transaction.
    pub(super) fn count(&self, end: Result<(), AbortReason>) {
        self.context.count(end);
    }

    /// Adds the times of a measured transaction.
    pub(super) fn spend(&self, spent: &Components) {
        self.context.spend(spent);
    }
}
