//! The gate between workers that touch table memory and the one who starts a new epoch.
//!
//! A snapshot is a new epoch. The extents that it shows must not change any more, so whoever starts
//! an epoch has to know that no worker is still storing under the old one. A busy flag is not
//! enough: a worker that copies extents is always busy, and waiting for it to be idle took 90 ms in
//! a probe. So a worker announces *the epoch in which* it is inside, and only announcements of old
//! epochs are waited for.
//!
//! Protocol
//! 1. A member announces the epoch it read, then reads the epoch again; if it has moved, it
//!    announces the new one. From then on it is inside.
//! 2. [`Gate::advance`] publishes the next epoch.
//! 3. [`Gate::drain`], called by whoever has seen that epoch, makes sure that every announcement
//!    made under an old one can be seen (`membarrier`, so that step 1 needs no fence), then waits
//!    until nobody is inside under an older epoch. The barrier belongs to the one who drains: a
//!    member can see the epoch, and drain, before the one who advanced gets to its next step.
//!
//! Invariants
//! - `GATE-1`: once `drain(e)` has returned, nobody is inside under an epoch before `e`, and nobody
//!   will be.
//! - `GATE-2`: all who are inside under one epoch read the same [`Inside::frontier`]: they agree on
//!   which extents are frozen. The frontier of an epoch is written before the epoch is visible, and
//!   its place is written again only two epochs later, when nobody can be inside any more.
//!
//! | field | written by | read by | ordering |
//! |---|---|---|---|
//! | `epoch` | `advance` (one at a time) | members, `advance` | SeqCst / Acquire |
//! | `frontier[e % 2]` | `advance` to `e` | members inside under `e` | by `epoch` |
//! | `shown` | `drain` | `drain` | Release / Acquire |
//! | `slots[i]` | its member | `drain` | Release (+ barrier to enter) / Acquire |
//!
//! A member enters with Release too: `drain` may find it inside again, under the new epoch, and
//! must then know what it stored when it was inside before.
//!
//! A process that dies inside leaves nothing behind: the gate lies in its own memory.

use std::sync::{Arc, Mutex, PoisonError};

#[cfg(not(loom))]
use crate::sync::compiler_fence;
use crate::sync::{AtomicU64, Ordering, fence, wait};

/// Most members at a time.
pub const MEMBERS_MAX: usize = if cfg!(loom) { 2 } else { 1025 };

const OUTSIDE: u64 = 0;

/// One cache line, so that no member's announcement disturbs another's.
#[repr(align(128))]
struct Line(AtomicU64);

/// See the module.
pub struct Gate {
    epoch: Line,
    frontier: [Line; 2],
    /// The newest epoch of which somebody has executed the barrier of `drain`.
    shown: Line,
    slots: Vec<Line>,
    free: Mutex<Slots>,
    /// `membarrier` works here, so members need no fence.
    asymmetric: bool,
}

struct Slots {
    free: Vec<usize>,
    used: usize,
}

/// What a member knows while it is inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inside {
    /// The epoch under which it is inside.
    pub epoch: u64,
    /// The newest epoch that a lease held when this one began: an extent born in it or before is
    /// frozen, any other may be written in place.
    pub frontier: u64,
}

impl Inside {
    /// Whether memory born in this epoch must be copied before it is written.
    #[inline]
    pub fn is_frozen(self, birth: u64) -> bool {
        birth <= self.frontier && birth != self.epoch
    }
}

impl Gate {
    /// A gate in epoch 1 with nobody inside and nothing frozen.
    pub fn new() -> Self {
        let line = |value| Line(AtomicU64::new(value));
        Self {
            epoch: line(1),
            frontier: [line(0), line(0)],
            shown: line(1),
            slots: (0..MEMBERS_MAX).map(|_| line(OUTSIDE)).collect(),
            free: Mutex::new(Slots { free: (0..MEMBERS_MAX).rev().collect(), used: 0 }),
            asymmetric: !cfg!(loom) && atoll_machine::membarrier::is_available(),
        }
    }

    /// The current epoch.
    pub fn epoch(&self) -> u64 {
        self.epoch.0.load(Ordering::Acquire)
    }

    /// A place for one thread at a time; `None` when [`MEMBERS_MAX`] are taken.
    pub fn join(self: &Arc<Self>) -> Option<Member> {
        let mut slots = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = slots.free.pop()?;
        slots.used = slots.used.max(slot + 1);
        drop(slots);
        Some(Member { gate: Arc::clone(self), slot })
    }

    /// Makes the next epoch visible; everything born up to `frontier` is frozen in it. Only one
    /// thread at a time may advance; returns the new epoch. Drain before relying on it.
    pub fn advance(&self, frontier: u64) -> u64 {
        let next = self.epoch.0.load(Ordering::Relaxed) + 1;
        // GATE-2: the last reader of this place was inside under `next - 2`, drained since.
        self.frontier[(next % 2) as usize].0.store(frontier, Ordering::Relaxed);
        self.epoch.0.store(next, Ordering::SeqCst);
        next
    }

    /// Waits until nobody is inside under an epoch before `epoch`, which has begun (`GATE-1`).
    /// Never called by a thread that is inside under an older one itself.
    pub fn drain(&self, epoch: u64) {
        if self.shown.0.load(Ordering::Acquire) < epoch {
            self.heavy_barrier();
            self.shown.0.fetch_max(epoch, Ordering::Release);
        }
        let used = self.free.lock().unwrap_or_else(PoisonError::into_inner).used;
        for slot in &self.slots[..used] {
            let mut round = 0;
            loop {
                let announced = slot.0.load(Ordering::Acquire);
                if announced == OUTSIDE || announced >= epoch {
                    break;
                }
                wait(round);
                round += 1;
            }
        }
    }

    /// The member's half of the barrier.
    #[inline]
    fn light_barrier(&self) {
        #[cfg(not(loom))]
        if self.asymmetric {
            return compiler_fence(Ordering::SeqCst);
        }
        fence(Ordering::SeqCst);
    }

    /// The other half: afterwards every member has either announced visibly or will see the epoch.
    fn heavy_barrier(&self) {
        if self.asymmetric {
            atoll_machine::membarrier::membarrier();
        } else {
            fence(Ordering::SeqCst);
        }
    }
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

/// A thread's place at the gate.
pub struct Member {
    gate: Arc<Gate>,
    slot: usize,
}

impl Member {
    /// Goes inside; the guard leaves. A member is inside once at a time.
    #[inline]
    pub fn enter(&mut self) -> Section<'_> {
        let inside = self.go_in();
        Section { slot: &self.gate.slots[self.slot].0, inside }
    }

    /// Goes inside until [`Member::go_out`], for who cannot keep a guard: the whole member is used
    /// meanwhile, but not to go inside.
    #[inline]
    pub fn go_in(&mut self) -> Inside {
        let gate = &*self.gate;
        let slot = &gate.slots[self.slot].0;
        let mut epoch = gate.epoch.0.load(Ordering::Relaxed);
        loop {
            slot.store(epoch, Ordering::Release);
            gate.light_barrier();
            let seen = gate.epoch.0.load(Ordering::Acquire);
            if seen == epoch {
                break;
            }
            epoch = seen;
        }
        let frontier = gate.frontier[(epoch % 2) as usize].0.load(Ordering::Relaxed);
        Inside { epoch, frontier }
    }

    /// Leaves.
    #[inline]
    pub fn go_out(&mut self) {
        self.gate.slots[self.slot].0.store(OUTSIDE, Ordering::Release);
    }

    /// Whether a new epoch has begun since: who stays inside keeps somebody waiting.
    #[inline]
    pub fn is_awaited(&self, inside: Inside) -> bool {
        self.gate.epoch.0.load(Ordering::Relaxed) != inside.epoch
    }

    /// The gate.
    pub fn gate(&self) -> &Arc<Gate> {
        &self.gate
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.gate.slots[self.slot].0.store(OUTSIDE, Ordering::Release);
        let mut slots = self.gate.free.lock().unwrap_or_else(PoisonError::into_inner);
        slots.free.push(self.slot);
    }
}

/// The time a member spends inside.
pub struct Section<'m> {
    slot: &'m AtomicU64,
    inside: Inside,
}

impl Section<'_> {
    /// What the member knows.
    #[inline]
    pub fn inside(&self) -> Inside {
        self.inside
    }
}

impl Drop for Section<'_> {
    #[inline]
    fn drop(&mut self) {
        self.slot.store(OUTSIDE, Ordering::Release);
    }
}
