//! Allocation of guards: a count of leaves for each number.
//!
//! - `GUARD-1`: a number is offered for a new leaf only while no leaf has it, so there are never
//!   more numbers than there were leaves and concurrent splits at one time. A reader that has the
//!   number from a removed leaf finds that leaf changed. State that is still kept under the number
//!   can only protect more than the new leaf needs.

use atoll_machine::huge_pages::{self, Array};
use atoll_machine::{Machine, Ordering, Word};

use super::GuardId;
use super::pool::Spin;
use crate::stable::StableVec;

/// Words that are allocated together.
const PIECE: u64 = 1 << 10;

/// See the module.
pub(super) struct Guards<M: Machine> {
    /// For each number, the count of leaves that have it or, if that is 0, the next free number
    /// plus 1.
    words: StableVec<Array<M::Word>, M>,
    latch: M::Word,
    /// Numbers ever allocated.
    used: M::Word,
    /// The first free number plus 1, or 0.
    free: M::Word,
}

/// A number that no leaf has; it is freed if it is not accepted.
pub(super) struct Offer<'g, M: Machine> {
    guards: &'g Guards<M>,
    id: GuardId,
}

impl<M: Machine> Guards<M> {
    /// Guards with number 0, which one leaf has.
    pub(super) fn new() -> Self {
        let guards = Self {
            words: StableVec::default(),
            latch: M::Word::new(0),
            used: M::Word::new(1),
            free: M::Word::new(0),
        };
        guards.share(GuardId(0));
        guards
    }

    fn word(&self, id: GuardId) -> &M::Word {
        let (piece, at) = (u64::from(id.0) / PIECE, u64::from(id.0) % PIECE);
        let make = || huge_pages::collect(PIECE as usize, |_| M::Word::new(0));
        &self.words.get_or_init(piece, make)[at as usize]
    }

    /// Offers a number that no leaf has; `None` when all numbers are in use.
    pub(super) fn offer(&self) -> Option<Offer<'_, M>> {
        let _latch = Spin::<M>::take(&self.latch);
        let id = if let Some(free) = self.free.load(Ordering::Relaxed).checked_sub(1) {
            let id = GuardId(free as u32);
            self.free.store(self.word(id).load(Ordering::Relaxed), Ordering::Relaxed);
            id
        } else {
            let id = GuardId(u32::try_from(self.used.load(Ordering::Relaxed)).ok()?);
            self.used.store(u64::from(id.0) + 1, Ordering::Relaxed);
            id
        };
        self.word(id).store(0, Ordering::Relaxed);
        Some(Offer { guards: self, id })
    }

    /// Counts one more leaf of the guard.
    pub(super) fn share(&self, id: GuardId) {
        let _latch = Spin::<M>::take(&self.latch);
        self.word(id).fetch_add(1, Ordering::Relaxed);
    }

    /// Counts one leaf of the guard less; frees the number of the last one.
    pub(super) fn leave(&self, id: GuardId) {
        let _latch = Spin::<M>::take(&self.latch);
        let word = self.word(id);
        if word.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.free_latched(id);
        }
    }

    fn free_latched(&self, id: GuardId) {
        self.word(id).store(self.free.load(Ordering::Relaxed), Ordering::Relaxed);
        self.free.store(u64::from(id.0) + 1, Ordering::Relaxed);
    }

    /// Numbers ever allocated.
    pub(super) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }
}

impl<M: Machine> Offer<'_, M> {
    pub(super) fn id(&self) -> GuardId {
        self.id
    }

    /// Accepts the number for a leaf.
    pub(super) fn accept(self) -> GuardId {
        self.guards.share(self.id);
        let id = self.id;
        std::mem::forget(self);
        id
    }
}

impl<M: Machine> Drop for Offer<'_, M> {
    fn drop(&mut self) {
        let _latch = Spin::<M>::take(&self.guards.latch);
        self.guards.free_latched(self.id);
    }
}
