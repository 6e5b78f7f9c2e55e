//! Machines of loom's atomics, for the models in `loom_parking.rs`: one that parks as the kernel
//! does, and some that have a fault.

use std::marker::PhantomData;
use std::time::Duration;

use atoll_machine::{Machine, Ordering, Word};
use loom::sync::atomic::{AtomicU64, fence};
use loom::sync::{Condvar, Mutex};

/// The planted faults of a machine.
pub trait Fault: Send + Sync + Default + 'static {
    /// A fence does nothing.
    const NO_FENCE: bool = false;
    /// Parking does not compare the word with what was seen, as if a release did not change it.
    const BLIND: bool = false;
    /// Waking wakes one thread instead of all.
    const WAKES_ONE: bool = false;
}

macro_rules! faults {
    ($($(#[$doc:meta])* $name:ident { $($fault:ident)? })*) => {$(
        $(#[$doc])*
        #[derive(Default)]
        pub struct $name;

        impl Fault for $name {
            $(const $fault: bool = true;)?
        }
    )*};
}

faults! {
    /// See [`Fault`].
    Sound {}
    /// See [`Fault`].
    NoFence { NO_FENCE }
    /// See [`Fault`].
    Blind { BLIND }
    /// See [`Fault`].
    WakesOne { WAKES_ONE }
}

/// A machine with this fault. Nothing ends a sleep but a waking, so a thread that misses its own
/// sleeps until all others have ended, which loom reports as a deadlock.
pub struct Loom<F>(PhantomData<F>);

/// A word, with the threads that are parked there.
#[derive(Default)]
pub struct LoomWord {
    value: AtomicU64,
    /// The latch of the kernel's list of sleepers.
    latch: Mutex<()>,
    changed: Condvar,
}

impl Word for LoomWord {
    fn new(value: u64) -> Self {
        Self { value: AtomicU64::new(value), ..Self::default() }
    }

    fn load(&self, order: Ordering) -> u64 {
        self.value.load(order)
    }

    fn store(&self, value: u64, order: Ordering) {
        self.value.store(value, order);
    }

    fn swap(&self, value: u64, order: Ordering) -> u64 {
        self.value.swap(value, order)
    }

    fn compare_exchange(
        &self,
        current: u64,
        new: u64,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u64, u64> {
        self.value.compare_exchange(current, new, success, failure)
    }

    fn fetch_add(&self, value: u64, order: Ordering) -> u64 {
        self.value.fetch_add(value, order)
    }

    fn fetch_sub(&self, value: u64, order: Ordering) -> u64 {
        self.value.fetch_sub(value, order)
    }

    fn fetch_or(&self, value: u64, order: Ordering) -> u64 {
        self.value.fetch_or(value, order)
    }

    fn fetch_and(&self, value: u64, order: Ordering) -> u64 {
        self.value.fetch_and(value, order)
    }
}

impl<F: Fault> Machine for Loom<F> {
    type Word = LoomWord;

    fn now_ns() -> u64 {
        0
    }

    fn fence(order: Ordering) {
        if !F::NO_FENCE {
            fence(order);
        }
    }

    fn wait(_round: u32) {
        loom::thread::yield_now();
    }

    fn park(word: &LoomWord, seen: u64, _most: Duration) {
        let latch = word.latch.lock().unwrap();
        if F::BLIND || word.value.load(Ordering::Relaxed) == seen {
            drop(word.changed.wait(latch).unwrap());
        }
    }

    fn unpark(word: &LoomWord) {
        let _latch = word.latch.lock().unwrap();
        if F::WAKES_ONE {
            word.changed.notify_one();
        } else {
            word.changed.notify_all();
        }
    }

    fn prefetch(_address: *const u8, _bytes: usize) {}
}
