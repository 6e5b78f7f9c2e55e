//! A machine on which a run of several "threads" repeats exactly.
//!
//! All threads are coroutines of one; they give way at shared accesses: at every operation of a
//! word, at both ends of a latch, at every wait and every question about the time. Which one goes
//! on, and for how long, is the decision of the [`stage`](super::stage), from a seed. The clock
//! counts steps, from wherever it is. In every second run each coroutine has a store buffer
//! ([`super::buffers`]), as a processor of its own would. So what happens is a function of the code
//! and the seed alone, and an anomaly that was found once is found again.
//!
//! Protocol
//! 1. [`super::stage`] says how many steps the coroutine may make, and resumes it.
//! 2. Each access counts a step; the one after the last allowed gives way first.
//! 3. A wait gives way at once: what is waited for happens in another coroutine.
//!
//! Invariants
//! - `STEPPED-1`: a coroutine gives way only inside [`step`] and [`wait`], both of which hold
//!   nothing; there is no other thread, so between two steps everything is atomic.
//! - `STEPPED-2`: outside a coroutine (when tables are made and filled) nothing gives way; time
//!   passes all the same.

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::AtomicU64;

use atoll::machine::{Machine, Ordering, Word};
use corosensei::Yielder;

use super::buffers;

/// Why a coroutine gave way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Why {
    /// Its steps were used up.
    Steps,
    /// It waits for another.
    Waits,
}

/// How a coroutine gives way.
pub(super) type GiveWay = Yielder<(), Why>;

/// What the running coroutine counts.
pub(super) struct Now {
    /// Of the running coroutine; null outside.
    pub(super) yielder: Cell<*const GiveWay>,
    /// Steps that are left before it gives way.
    pub(super) left: Cell<u64>,
    /// Steps of the whole run.
    pub(super) steps: Cell<u64>,
    /// Nanoseconds.
    pub(super) clock_ns: Cell<u64>,
    /// What one step takes.
    pub(super) step_ns: Cell<u64>,
}

thread_local! {
    pub(super) static NOW: Now = const {
        Now {
            yielder: Cell::new(ptr::null()),
            left: Cell::new(0),
            steps: Cell::new(0),
            clock_ns: Cell::new(1),
            step_ns: Cell::new(1),
        }
    };
}

/// Whether a coroutine is running on this thread.
pub fn is_on_stage() -> bool {
    NOW.with(|now| !now.yielder.get().is_null())
}

fn give_way(now: &Now, why: Why) {
    let yielder = now.yielder.get();
    if yielder.is_null() {
        return; // STEPPED-2
    }
    match why {
        Why::Steps => buffers::rest(),
        Why::Waits => buffers::release_all(),
    }
    // SAFETY: the stage sets the pointer before it resumes a coroutine, to the yielder that this
    // coroutine got and keeps on its stack to its end, and clears it when control comes back. So
    // the yielder lives, and it is the running coroutine's own.
    unsafe { (*yielder).suspend(why) };
}

/// One step: the place where another coroutine may come in between. To be called as well before
/// whatever else others can see.
pub fn step() {
    NOW.with(|now| {
        now.steps.set(now.steps.get() + 1);
        now.clock_ns.set(now.clock_ns.get() + now.step_ns.get());
        match now.left.get() {
            0 => give_way(now, Why::Steps),
            left => now.left.set(left - 1),
        }
    });
}

/// One turn of a wait.
pub fn wait(_round: u32) {
    NOW.with(|now| {
        now.steps.set(now.steps.get() + 1);
        now.clock_ns.set(now.clock_ns.get() + now.step_ns.get());
        give_way(now, Why::Waits);
    });
}

/// The machine, see the module.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stepped;

impl Machine for Stepped {
    type Word = SteppedWord;

    fn now_ns() -> u64 {
        step();
        NOW.with(|now| now.clock_ns.get())
    }

    fn fence(order: Ordering) {
        buffers::fence(order);
    }

    fn wait(round: u32) {
        wait(round);
    }

    fn prefetch(_address: *const u8, _bytes: usize) {
        step();
        // Perhaps it is a latch.
        buffers::release_own();
    }
}

/// A word of [`Stepped`]. Only one thread ever uses it: an atomic because words must be `Sync`.
#[derive(Debug, Default)]
pub struct SteppedWord(AtomicU64);

impl Drop for SteppedWord {
    fn drop(&mut self) {
        buffers::forget(self.address());
    }
}

impl SteppedWord {
    fn address(&self) -> usize {
        ptr::from_ref(self).addr()
    }

    fn change(&self, new: impl FnOnce(u64) -> u64) -> u64 {
        step();
        buffers::exchange(self.address());
        let before = self.0.load(Ordering::Relaxed);
        self.0.store(new(before), Ordering::Relaxed);
        before
    }
}

impl Word for SteppedWord {
    fn new(value: u64) -> Self {
        Self(AtomicU64::new(value))
    }

    fn load(&self, _: Ordering) -> u64 {
        step();
        buffers::seen(self.address(), self.0.load(Ordering::Relaxed))
    }

    fn store(&self, value: u64, order: Ordering) {
        step();
        buffers::store(self.address(), self.0.load(Ordering::Relaxed), order);
        self.0.store(value, Ordering::Relaxed);
    }

    fn swap(&self, value: u64, _: Ordering) -> u64 {
        self.change(|_| value)
    }

    fn compare_exchange(
        &self,
        current: u64,
        new: u64,
        _: Ordering,
        _: Ordering,
    ) -> Result<u64, u64> {
        let before = self.change(|value| if value == current { new } else { value });
        if before == current { Ok(before) } else { Err(before) }
    }

    fn fetch_add(&self, value: u64, _: Ordering) -> u64 {
        self.change(|before| before.wrapping_add(value))
    }

    fn fetch_sub(&self, value: u64, _: Ordering) -> u64 {
        self.change(|before| before.wrapping_sub(value))
    }

    fn fetch_or(&self, value: u64, _: Ordering) -> u64 {
        self.change(|before| before | value)
    }

    fn fetch_and(&self, value: u64, _: Ordering) -> u64 {
        self.change(|before| before & value)
    }
}
