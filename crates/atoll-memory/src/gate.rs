//! The gate: the epoch barrier between workers that access table memory and the thread that takes
//! a snapshot.
//!
//! A snapshot begins a new epoch. The extents that the snapshot shows must not change any more, so
//! the thread that begins the epoch has to know that no worker still stores under an older one. A
//! busy flag is not enough: a worker that copies extents is always busy, and waiting until it was
//! idle took 90 ms in an experiment. So a worker announces *the epoch in which* it is inside the
//! gate, and the thread waits only for announcements of older epochs.
//!
//! Protocol
//! 1. A member announces the epoch that it has read, then reads the epoch again. If the epoch has
//!    changed, it announces the new one and repeats. Afterwards it is inside.
//! 2. [`Gate::advance`] publishes the next epoch.
//! 3. [`Gate::drain`] issues a `membarrier`, after which every announcement of an older epoch is
//!    visible (so step 1 needs no fence), then waits until no member is inside under an older
//!    epoch. Any thread that has seen the new epoch may call it. The barrier is part of `drain` and
//!    not of `advance`, because a member can see the epoch and drain before the thread that called
//!    `advance` continues.
//!
//! Invariants
//! - `GATE-1`: once `drain(e)` has returned, no member is inside under an epoch before `e`, and
//!   none will enter under one.
//! - `GATE-2`: all members inside under one epoch read the same [`Inside::frontier`], so they agree
//!   on which extents are frozen. The frontier of an epoch is written before the epoch becomes
//!   visible. Its slot is reused only two epochs later, when no member can be inside under it. The
//!   same holds for the number of cuts before the epoch.
//!
//! | field | written by | read by | ordering |
//! |---|---|---|---|
//! | `epoch` | `advance` (one at a time) | members, `advance` | SeqCst / Acquire |
//! | `frontier[e % 2]` | `advance` to `e` | members inside under `e` | by `epoch` |
//! | `cuts[e % 2]` | `advance` to `e` | members inside under `e`, `cuts` | Release / Acquire |
//! | `shown` | `drain` | `drain` | Release / Acquire |
//! | `slots[i]` | its member | `drain` | Release (+ barrier to enter) / Acquire |
//!
//! A member enters with Release, too: `drain` may find that it has left and has entered again under
//! the new epoch, and must then see what it stored in the section before.
//!
//! A process that dies inside leaves nothing behind: the gate is in the private memory of the
//! process.

use std::sync::{Arc, Mutex, PoisonError};

#[cfg(not(loom))]
use crate::sync::compiler_fence;
use crate::sync::{AtomicU64, Ordering, fence, wait};

/// The most members at a time.
pub const MEMBERS_MAX: usize = if cfg!(loom) { 2 } else { 1041 };

const OUTSIDE: u64 = 0;

/// A word in its own pair of cache lines, so that announcements of members do not cause false
/// sharing.
#[repr(align(128))]
struct Line(AtomicU64);

/// The gate of one database; see the module.
pub struct Gate {
    epoch: Line,
    frontier: [Line; 2],
    /// Cuts before the epoch, by its parity.
    cuts: [Line; 2],
    /// The newest epoch for which a thread has executed the barrier of `drain`.
    shown: Line,
    slots: Vec<Line>,
    free: Mutex<Slots>,
    /// The system supports `membarrier`, so members need no fence.
    asymmetric: bool,
}

struct Slots {
    free: Vec<usize>,
    used: usize,
}

/// The epoch and the frontier that a member reads when it enters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inside {
    /// The epoch under which the member is inside.
    pub epoch: u64,
    /// The newest epoch that a lease held when the current epoch began. An extent with a birth at
    /// or before it is frozen; any other may be written in place.
    pub frontier: u64,
}

impl Inside {
    /// Whether an extent with this birth must be copied before it is written.
    #[inline]
    pub fn is_frozen(self, birth: u64) -> bool {
        birth <= self.frontier && birth != self.epoch
    }
}

impl Gate {
    /// A gate in epoch 1 with no member inside and no frozen extent.
    pub fn new() -> Self {
        let line = |value| Line(AtomicU64::new(value));
        Self {
            epoch: line(1),
            frontier: [line(0), line(0)],
            cuts: [line(0), line(0)],
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

    /// Adds a member, for use by one thread at a time; `None` if there are [`MEMBERS_MAX`].
    pub fn join(self: &Arc<Self>) -> Option<Member> {
        let mut slots = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = slots.free.pop()?;
        slots.used = slots.used.max(slot + 1);
        drop(slots);
        Some(Member { gate: Arc::clone(self), slot })
    }

    /// How many cuts there were before this epoch, for a member that is inside under it: cuts are
    /// the ends of the epochs that snapshots show.
    #[inline]
    pub fn cuts_before(&self, epoch: u64) -> u64 {
        self.cuts[(epoch % 2) as usize].0.load(Ordering::Acquire)
    }

    /// How many cuts there were before the current epoch.
    #[inline]
    pub fn cuts(&self) -> u64 {
        loop {
            let epoch = self.epoch();
            let cuts = self.cuts_before(epoch);
            // The slot is reused only after another epoch has become visible.
            if self.epoch() == epoch {
                return cuts;
            }
        }
    }

    /// Makes the next epoch visible and returns it; every extent with a birth up to `frontier` is
    /// frozen in it. `is_cut` says whether a snapshot shows the epoch that ends. Only one thread at
    /// a time may advance. Members may still be inside under the old epoch until [`Gate::drain`]
    /// returns.
    pub fn advance(&self, frontier: u64, is_cut: bool) -> u64 {
        let epoch = self.epoch.0.load(Ordering::Relaxed);
        let next = epoch + 1;
        // GATE-2: the last readers of this slot were inside under `next - 2`, drained since.
        self.frontier[(next % 2) as usize].0.store(frontier, Ordering::Relaxed);
        let cuts = self.cuts_before(epoch) + u64::from(is_cut);
        self.cuts[(next % 2) as usize].0.store(cuts, Ordering::Release);
        self.epoch.0.store(next, Ordering::SeqCst);
        next
    }

    /// Waits until no member is inside under an epoch before `epoch`, which has begun (`GATE-1`).
    /// A thread that is itself inside under an older epoch must not call this.
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

    /// The drain's half: afterwards each member's announcement is visible, or the member will see
    /// the new epoch.
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

/// The slot of one thread at the gate.
pub struct Member {
    gate: Arc<Gate>,
    slot: usize,
}

impl Member {
    /// Enters the gate until the section is dropped. A member can be inside only once at a time.
    #[inline]
    pub fn enter(&mut self) -> Section<'_> {
        let inside = self.go_in();
        Section { slot: &self.gate.slots[self.slot].0, inside }
    }

    /// Enters the gate until [`Member::go_out`], for a caller that cannot keep a [`Section`]. It
    /// must not enter again before it has left.
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

    /// Leaves the gate.
    #[inline]
    pub fn go_out(&mut self) {
        self.gate.slots[self.slot].0.store(OUTSIDE, Ordering::Release);
    }

    /// Whether a new epoch has begun since the member entered, so that a drain may be waiting for
    /// it.
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

/// The time that a member spends inside; dropping it leaves the gate.
pub struct Section<'m> {
    slot: &'m AtomicU64,
    inside: Inside,
}

impl Section<'_> {
    /// The epoch and the frontier of this section.
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
