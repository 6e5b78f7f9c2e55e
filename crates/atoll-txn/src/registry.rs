//! The registry of open transactions, from which a snapshot learns what it must undo.
//!
//! A cut waits for no transaction. A transaction that is open at the cut may have stored values
//! that the snapshot's memory contains but the snapshot must not show. So the taker of the snapshot
//! collects the undo entries of these transactions. It takes references to the chunks of each
//! transaction's undo list, so no worker waits while it copies.
//!
//! Protocol, for a cut of epoch `E` (epoch `E + 1` is sealed when [`Taking::collect`] is called)
//! 1. A transaction opens its [`TxnContext`] when it first stores, in the same section of the gate,
//!    and closes it inside the gate, at the point where it commits or when it has undone
//!    everything. The epoch of that section is the epoch in which the transaction ended.
//! 2. A transaction that closes in a later epoch than its first store, while a snapshot is being
//!    taken, hands its list over.
//! 3. The taker reads every context, then the lists that were handed over with an end after `E`.
//!
//! Invariants
//! - `REG-1`: after the seal of `E + 1`, the taker finds in step 3 every transaction with stores in
//!   `E` or before that had not ended by then: its context is open, or it closed under a later
//!   epoch and handed its list over *before* it closed, both under the context's latch.
//! - `REG-2`: the taker does not find a transaction that ended in `E` or before, since it closed
//!   its context before the seal.
//! - `REG-3`: the lists that the taker finds undo different places, so their order does not matter:
//!   a transaction ends under a sealed epoch (`WORKER-5`), so a later transaction that stores in
//!   the same places does so after the seal.

use std::sync::Arc;

use atoll_machine::{Latch, Machine, Ordering, Word};
use atoll_storage::undo::{self, Chunk, Entry, UndoList};

use crate::accounting::{Component, Components};
use crate::scheme::AbortReason;

/// See the module.
pub struct Registry<M: Machine> {
    contexts: Latch<M, Vec<Arc<TxnContext<M>>>>,
    handed_over: Latch<M, Vec<HandedOver>>,
    /// The number of snapshots being taken: each from before its cut until its taker has collected.
    takers: M::Word,
    /// Bulk loads that have been published; each counts as a commit.
    loads: M::Word,
}

/// The time from before a cut until [`Taking::collect`]; dropped when the snapshot is complete.
pub struct Taking<'r, M: Machine>(&'r Registry<M>);

/// The public part of a transaction's state, which takers of snapshots read.
pub struct TxnContext<M: Machine> {
    open: Latch<M, Open>,
    commits: M::Word,
    aborts: [M::Word; AbortReason::ALL.len()],
    components: [M::Word; Component::ALL.len()],
    /// Not 0 while it waits for another transaction.
    waits: M::Word,
}

#[derive(Default)]
struct Open {
    /// 0 if no open transaction has stored anything.
    transaction: u64,
    chunks: Vec<Arc<Chunk>>,
}

struct HandedOver {
    transaction: u64,
    ended: u64,
    chunks: Vec<Arc<Chunk>>,
}

/// Counts of the transactions that have ended since the database was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Committed.
    pub commits: u64,
    /// Aborted, by [`AbortReason::index`].
    pub aborts: [u64; AbortReason::ALL.len()],
    /// Nanoseconds that measured transactions have spent, by component.
    pub components: Components,
}

impl<M: Machine> Default for Registry<M> {
    fn default() -> Self {
        let (takers, loads) = (M::Word::new(0), M::Word::new(0));
        Self { contexts: Latch::default(), handed_over: Latch::default(), takers, loads }
    }
}

impl<M: Machine> Registry<M> {
    /// Creates the context of a transaction's state.
    pub fn register(&self) -> Arc<TxnContext<M>> {
        let context = Arc::new(TxnContext {
            open: Latch::default(),
            commits: M::Word::new(0),
            aborts: std::array::from_fn(|_| M::Word::new(0)),
            components: std::array::from_fn(|_| M::Word::new(0)),
            waits: M::Word::new(0),
        });
        self.contexts.take().push(Arc::clone(&context));
        context
    }

    /// The counts of all transactions that have ended.
    pub fn counts(&self) -> Counts {
        let commits = self.loads.load(Ordering::Relaxed);
        let mut sum = Counts { commits, ..Counts::default() };
        self.each(|context| sum.add(context.counts()));
        sum
    }

    /// Counts a bulk load.
    pub(crate) fn count_load(&self) {
        self.loads.fetch_add(1, Ordering::Relaxed);
    }

    /// Announces a snapshot. The taker calls this before the cut, so that a worker that sees the
    /// new epoch also sees that it must hand its list over.
    pub fn taking(&self) -> Taking<'_, M> {
        self.takers.fetch_add(1, Ordering::SeqCst);
        Taking(self)
    }

    fn each(&self, mut body: impl FnMut(&TxnContext<M>)) {
        let contexts = self.contexts.take().clone();
        contexts.iter().for_each(|context| body(context));
    }
}

impl<M: Machine> Taking<'_, M> {
    /// The undo entries for stores of epochs up to `epoch`, of all transactions that were open at
    /// the end of `epoch`, in the order in which the snapshot applies them. A table of an entry may
    /// have been dropped since.
    pub fn collect(&self, epoch: u64) -> Vec<Entry> {
        let mut lists: Vec<(u64, Vec<Arc<Chunk>>)> = Vec::new();
        self.0.each(|context| {
            let open = context.open.take();
            if open.transaction != 0 {
                lists.push((open.transaction, open.chunks.clone()));
            }
        });
        for list in self.0.handed_over.take().iter().filter(|list| list.ended > epoch) {
            if !lists.iter().any(|(transaction, _)| *transaction == list.transaction) {
                lists.push((list.transaction, list.chunks.clone()));
            }
        }
        let mut out = Vec::new();
        for (_, chunks) in lists {
            let start = out.len();
            for chunk in chunks {
                let entries = undo::parse_up_to(&chunk.words(), epoch);
                out.extend(entries.expect("lists are well-formed"));
            }
            out[start..].reverse();
        }
        out
    }
}

impl<M: Machine> Drop for Taking<'_, M> {
    fn drop(&mut self) {
        let mut handed_over = self.0.handed_over.take();
        if self.0.takers.fetch_sub(1, Ordering::SeqCst) == 1 {
            handed_over.clear();
        }
    }
}

impl<M: Machine> TxnContext<M> {
    /// Shows the undo list of a transaction that has stored for the first time or added a chunk.
    pub fn open(&self, transaction: u64, list: &UndoList<M>) {
        let mut open = self.open.take();
        open.transaction = transaction;
        let known = open.chunks.len();
        open.chunks.extend_from_slice(&list.chunks()[known..]);
    }

    /// Ends the transaction in `epoch`. The worker calls this inside the gate.
    pub fn close(&self, registry: &Registry<M>, epoch: u64, first_epoch: u64) {
        let mut open = self.open.take();
        let chunks = std::mem::take(&mut open.chunks);
        let transaction = std::mem::take(&mut open.transaction);
        if first_epoch < epoch && registry.takers.load(Ordering::SeqCst) > 0 {
            // Before the latch is released (REG-1).
            let list = HandedOver { transaction, ended: epoch, chunks };
            registry.handed_over.take().push(list);
        } else {
            open.chunks = chunks;
            open.chunks.clear();
        }
    }

    /// Notes that the transaction begins or ends to wait for another one.
    pub(crate) fn set_waits(&self, waits: bool) {
        self.waits.store(u64::from(waits), Ordering::Relaxed);
    }

    /// Whether the transaction waited for another one at some moment during the call.
    pub fn waits(&self) -> bool {
        self.waits.load(Ordering::Relaxed) != 0
    }

    /// Counts the end of a transaction. Only the transaction of the context calls this.
    pub fn count(&self, end: Result<(), AbortReason>) {
        let counter = match end {
            Ok(()) => &self.commits,
            Err(reason) => &self.aborts[reason.index()],
        };
        counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Adds the times of a measured transaction. Only the transaction of the context calls this.
    pub fn spend(&self, spent: &Components) {
        for (sum, ns) in self.components.iter().zip(spent) {
            sum.store(sum.load(Ordering::Relaxed) + ns, Ordering::Relaxed);
        }
    }

    fn counts(&self) -> Counts {
        let load = |counter: &M::Word| counter.load(Ordering::Relaxed);
        Counts {
            commits: load(&self.commits),
            aborts: std::array::from_fn(|at| load(&self.aborts[at])),
            components: std::array::from_fn(|at| load(&self.components[at])),
        }
    }
}

impl Counts {
    fn add(&mut self, other: Self) {
        self.commits += other.commits;
        self.aborts.iter_mut().zip(other.aborts).for_each(|(sum, count)| *sum += count);
        self.components.iter_mut().zip(other.components).for_each(|(sum, ns)| *sum += ns);
    }

    /// The number of aborts for any reason.
    pub fn aborts_all(&self) -> u64 {
        self.aborts.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use atoll_machine::Native;
    use atoll_storage::undo::Before;

    use atoll_storage::{RowId, TableId};

    use super::*;

    /// The rows of a transaction's list: one entry each, of epoch `epoch`.
    fn list(epoch: u64, rows: &[u64]) -> UndoList<Native> {
        let mut list = UndoList::default();
        for row in rows {
            list.push(epoch, TableId(0), RowId(*row), Before::Presence(true));
        }
        list
    }

    fn rows(registry: &Registry<Native>, epoch: u64) -> Vec<u64> {
        let entries = registry.taking().collect(epoch);
        entries.iter().map(|entry| entry.row.0).collect()
    }

    #[test]
    fn who_ended_before_the_seal_or_began_behind_it_is_not_found() {
        let registry = Registry::<Native>::default();
        let contexts: Vec<_> = (0..3).map(|_| registry.register()).collect();
        let taking = registry.taking();
        contexts[0].open(1, &list(5, &[1]));
        contexts[0].close(&registry, 5, 5);
        contexts[1].open(2, &list(5, &[2]));
        contexts[2].open(3, &list(6, &[3]));
        assert_eq!(rows(&registry, 5), [2]);
        contexts[1].close(&registry, 6, 5);
        assert_eq!(rows(&registry, 5), [2], "handed over");
        assert_eq!(rows(&registry, 6), [3]);
        drop(taking);
        assert_eq!(rows(&registry, 5), [0; 0], "no taker is left");
    }
}
