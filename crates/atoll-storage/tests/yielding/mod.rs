//! A machine on which threads interleave more often than on the real one.

use std::cell::Cell;
use std::sync::atomic::AtomicU64;

use atoll_machine::{Machine, Ordering, Word};
use atoll_storage::key::mix;

/// A machine that takes the CPU from its threads at any access.
pub struct Yielding;

/// The word of the machine.
#[derive(Default)]
pub struct YieldingWord(AtomicU64);

thread_local! {
    static TURN: Cell<u64> = const { Cell::new(0) };
}

impl YieldingWord {
    /// Yields at most accesses; the pattern differs from thread to thread and from run to run.
    fn word(&self) -> &AtomicU64 {
        let turn = TURN.with(|turn| {
            turn.set(turn.get() + 1);
            turn.get()
        });
        if mix(turn).is_multiple_of(3) {
            std::thread::yield_now();
        }
        &self.0
    }
}

impl Word for YieldingWord {
    fn new(value: u64) -> Self {
        Self(AtomicU64::new(value))
    }
    fn load(&self, order: Ordering) -> u64 {
        self.word().load(order)
    }
    fn store(&self, value: u64, order: Ordering) {
        self.word().store(value, order);
    }
    fn swap(&self, value: u64, order: Ordering) -> u64 {
        self.word().swap(value, order)
    }
    fn compare_exchange(
        &self,
        current: u64,
        new: u64,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u64, u64> {
        self.word().compare_exchange(current, new, success, failure)
    }
    fn fetch_add(&self, value: u64, order: Ordering) -> u64 {
        self.word().fetch_add(value, order)
    }
    fn fetch_sub(&self, value: u64, order: Ordering) -> u64 {
        self.word().fetch_sub(value, order)
    }
    fn fetch_or(&self, value: u64, order: Ordering) -> u64 {
        self.word().fetch_or(value, order)
    }
    fn fetch_and(&self, value: u64, order: Ordering) -> u64 {
        self.word().fetch_and(value, order)
    }
}

impl Machine for Yielding {
    type Word = YieldingWord;

    fn now_ns() -> u64 {
        0
    }
    fn wait(_round: u32) {
        std::thread::yield_now();
    }
    fn prefetch(_address: *const u8, _bytes: usize) {}
}
