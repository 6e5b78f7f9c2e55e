//! A machine on which a run of several "threads" is reproducible.
//!
//! The threads are coroutines of one thread. They give way at shared accesses: at every operation
//! on a word, at every access to table memory, at both ends of a latch, at every wait and at every
//! reading of the clock. The
//! [`stage`](super::stage) decides from a seed which coroutine runs next, and for how long. The
//! clock counts steps. In every second run each coroutine has a store buffer ([`super::buffers`]),
//! like a processor. So a run depends only on the code and the seed, and the same seed reproduces
//! an anomaly.
//!
//! Protocol
//! 1. [`super::stage`] sets how many steps the coroutine may make, and resumes it.
//! 2. Each access counts as a step; the first access beyond the limit gives way before it is made.
//! 3. A wait gives way at once, because the awaited event happens in another coroutine.
//!
//! Invariants
//! - `STEPPED-1`: a coroutine gives way only inside [`step`] and [`wait`], which hold nothing;
//!   there is no other thread, so everything between two steps is atomic.
//! - `STEPPED-2`: outside a coroutine (when tables are created and filled) nothing gives way, but
//!   the clock advances.

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use atoll::machine::{Machine, Ordering, Word};
use corosensei::Yielder;

use super::buffers;

/// The reason why a coroutine gave way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Why {
    /// It has made all its steps.
    Steps,
    /// It waits for another coroutine.
    Waits,
}

/// The handle by which a coroutine gives way.
pub(super) type GiveWay = Yielder<(), Why>;

/// The state of the running coroutine.
pub(super) struct Now {
    /// Its yielder; null outside a coroutine.
    pub(super) yielder: Cell<*const GiveWay>,
    /// Steps left before it gives way.
    pub(super) left: Cell<u64>,
    /// Steps of the whole run.
    pub(super) steps: Cell<u64>,
    /// The clock in nanoseconds.
    pub(super) clock_ns: Cell<u64>,
    /// Nanoseconds of one step.
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
    // SAFETY: before the stage resumes a coroutine, it sets the pointer to the yielder of that
    // coroutine, which is on the coroutine's stack until it ends; it clears the pointer when
    // control returns. So the yielder is alive and belongs to the running coroutine.
    unsafe { (*yielder).suspend(why) };
}

/// One step: other coroutines may run here. Call it before every change that others can see and
/// that is not an operation on a word.
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

    fn read(_address: *const u8, _bytes: usize) {
        step();
    }

    fn write(_address: *const u8, _bytes: usize) {
        step();
    }

    fn exclusive(_address: *const u8) {
        step();
        buffers::release_own();
    }

    fn sleep(_duration: Duration) {
        wait(0);
    }

    fn prefetch(_address: *const u8, _bytes: usize) {}
}

/// A word of [`Stepped`]. Only one thread ever uses it; it is an atomic because words must be
/// `Sync`.
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
