//! Numbers of guards, and how many leaves have each.
//!
//! - `GUARD-1`: a number is offered for a new leaf only while no leaf has it, so there are never
//!   more of them than there were leaves, and splits under way, at a time. Who knew it from a leaf
//!   that has gone finds that leaf changed; what is still kept under it can only be more than the
//!   new leaf needs.

use atoll_machine::huge_pages::{self, Array};
use atoll_machine::{Machine, Ordering, Word};

use super::GuardId;
use super::pool::Spin;
use crate::stable::StableVec;

/// Words that are made at once.
const PIECE: u64 = 1 << 10;

/// See the module.
pub(super) struct Guards<M: Machine> {
    /// For each number the leaves that have it or, if there are none, the next free number, from 1.
    words: StableVec<Array<M::Word>>,
    latch: M::Word,
    /// Numbers ever given out.
    used: M::Word,
    /// First free number, from 1.
    free: M::Word,
}

/// A number that no leaf has; it goes back if it is not accepted.
pub(super) struct Offer<'g, M: Machine> {
    guards: &'g Guards<M>,
    id: GuardId,
}

impl<M: Machine> Guards<M> {
    /// With guard 0, which one leaf has.
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

    /// A number that no leaf has; none when all are used up.
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

    /// One more leaf has the guard, as another one does.
    pub(super) fn share(&self, id: GuardId) {
        let _latch = Spin::<M>::take(&self.latch);
        self.word(id).fetch_add(1, Ordering::Relaxed);
    }

    /// A leaf that had the guard has gone.
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

    /// Numbers ever given out.
    pub(super) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }
}

impl<M: Machine> Offer<'_, M> {
    pub(super) fn id(&self) -> GuardId {
        self.id
    }

    /// A leaf has it from now on.
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
