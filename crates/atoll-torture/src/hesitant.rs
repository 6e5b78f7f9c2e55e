//! The machine on which threads now and then sleep between two shared accesses, for as long as
//! other threads need for whole transactions.
//!
//! The operating system preempts threads too, but seldom at the critical point. With these sleeps,
//! threads that run in parallel reach interleavings in which one of them misses many steps of the
//! others.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use atoll::machine::{Machine, Native, NativeWord, Ordering, Word};

use atoll_bench::keys::Random;

/// Average number of shared accesses from one sleep to the next.
const ACCESSES: u64 = 640;
/// Longest sleep, in microseconds.
const SLEEP_US_MAX: u64 = 500;

thread_local! {
    /// Shared accesses until this thread sleeps.
    static LEFT: Cell<u64> = const { Cell::new(ACCESSES) };
    static RANDOM: RefCell<Random> = const { RefCell::new(Random::new(0)) };
}

/// Seeds the sleeps of this thread.
pub(super) fn reseed(seed: u64) {
    RANDOM.set(Random::new(seed));
    draw();
}

/// Draws the number of accesses until the next sleep, and the length of this one.
fn draw() -> Duration {
    RANDOM.with_borrow_mut(|random| {
        LEFT.set(random.below(2 * ACCESSES));
        Duration::from_micros(random.below(SLEEP_US_MAX))
    })
}

#[inline]
fn hesitate() {
    match LEFT.get() {
        0 => std::thread::sleep(draw()),
        left => LEFT.set(left - 1),
    }
}

/// The machine, see the module.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Hesitant;

impl Machine for Hesitant {
    type Word = HesitantWord;

    fn now_ns() -> u64 {
        Native::now_ns()
    }

    fn wait(round: u32) {
        Native::wait(round);
    }

    fn read(_address: *const u8, _bytes: usize) {
        hesitate();
    }

    fn write(_address: *const u8, _bytes: usize) {
        hesitate();
    }

    fn exclusive(_address: *const u8) {
        hesitate();
    }

    fn prefetch(address: *const u8, bytes: usize) {
        Native::prefetch(address, bytes);
    }
}

/// A word of [`Hesitant`].
#[derive(Debug, Default)]
pub struct HesitantWord(NativeWord);

impl HesitantWord {
    #[inline]
    fn word(&self) -> &NativeWord {
        hesitate();
        &self.0
    }
}

impl Word for HesitantWord {
    fn new(value: u64) -> Self {
        Self(NativeWord::new(value))
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

    fn fetch_max(&self, value: u64, order: Ordering) -> u64 {
        self.word().fetch_max(value, order)
    }

    fn fetch_or(&self, value: u64, order: Ordering) -> u64 {
        self.word().fetch_or(value, order)
    }

    fn fetch_and(&self, value: u64, order: Ordering) -> u64 {
        self.word().fetch_and(value, order)
    }
}
