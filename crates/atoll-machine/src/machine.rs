//! The interface between transaction code and the machine.
//!
//! Transaction code is generic over [`Machine`]: all that it shares with other threads, its clock,
//! its waits and the compute it performs go through this trait. The same code therefore runs on the
//! real machine ([`Native`](crate::Native)) and under a scheduler that searches for anomalies, and
//! it could run on a simulated machine that charges each access.
//!
//! - A shared word is a [`Machine::Word`].
//! - [`Machine::read`] or [`Machine::write`] precedes an access to values in table memory, to the
//!   entries of an undo list, or to a pointer in a list that grows. They order nothing.
//! - [`Machine::exclusive`] precedes each attempt to take a latch, and its release.
//! - [`Machine::work`] counts hashing, comparing and copying between private places.
//! - [`Machine::now_ns`], [`Machine::wait`] and [`Machine::sleep`] are the clock, the spin loop and
//!   the back-off.
//!
//! - MACHINE-1: transaction code and the row path of storage call no clock, sleep or spin hint of
//!   the operating system, and use no atomic type or mutex directly. `xtask check` enforces it and
//!   has the list of exceptions with their reasons.
//! - MACHINE-2: the trait is type-level. An implementation that needs state keeps it per thread, so
//!   that no shared handle causes cache traffic of its own.
//! - MACHINE-3: the functions that only report an access are empty on the real machine, and so are
//!   their defaults. A thread may be suspended in one of them, so no caller holds a mutex that
//!   other threads wait for in the operating system.
//!
//! No function here can fail.

pub use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::huge_pages::Array;
pub use crate::word_line::WordLine;
use crate::zero_default::{ZeroBytes, ZeroDefault};

/// A machine for transaction code. Type-level: a simulator keeps its own per-thread state.
///
/// # Example
///
/// A second machine; its clock advances by one nanosecond with every reading, so a run repeats
/// exactly:
///
/// ```
/// use atoll_machine::{Machine, NativeWord};
/// use std::cell::Cell;
///
/// struct Stepped;
///
/// thread_local! {
///     static CLOCK: Cell<u64> = const { Cell::new(0) };
/// }
///
/// impl Machine for Stepped {
///     type Word = NativeWord;
///
///     fn now_ns() -> u64 {
///         CLOCK.with(|clock| {
///             clock.set(clock.get() + 1);
///             clock.get()
///         })
///     }
///
///     fn wait(round: u32) {
///         CLOCK.with(|clock| clock.set(clock.get() + u64::from(round)));
///     }
///
///     fn prefetch(_address: *const u8, bytes: usize) {
///         CLOCK.with(|clock| clock.set(clock.get() + bytes as u64));
///     }
/// }
///
/// fn elapsed<M: Machine>() -> u64 {
///     let start = M::now_ns();
///     M::wait(9);
///     M::now_ns() - start
/// }
///
/// assert_eq!(elapsed::<Stepped>(), 10);
/// ```
pub trait Machine: Send + Sync + 'static {
    /// The shared 64-bit word of this machine.
    type Word: Word;

    /// Nanoseconds of a monotonic clock. Only differences have a meaning; the origin is arbitrary
    /// but the same for all threads.
    fn now_ns() -> u64;

    /// Orders the accesses of the calling thread before it with those after it, as
    /// [`std::sync::atomic::fence`] does.
    fn fence(order: Ordering) {
        std::sync::atomic::fence(order);
    }

    /// As [`Machine::fence`] with [`Ordering::SeqCst`], for a caller that has just executed an
    /// atomic read-modify-write with release order. Native: only a compiler fence, on processors
    /// where the read-modify-write is a full fence itself.
    fn fence_behind_rmw() {
        Self::fence(Ordering::SeqCst);
    }

    /// Called in a spin loop; `round` counts up from 0. Native: a spin hint at first, later the
    /// thread yields the CPU.
    fn wait(round: u32);

    /// Called before an access that reads `bytes` bytes of shared memory at `address`. Never
    /// dereferences. Native: nothing.
    #[inline(always)]
    fn read(_address: *const u8, _bytes: usize) {}

    /// Called before an access that writes `bytes` bytes of shared memory at `address`. It orders
    /// nothing; that takes a [`Machine::fence`]. Never dereferences. Native: nothing.
    #[inline(always)]
    fn write(_address: *const u8, _bytes: usize) {}

    /// Called before an attempt to take the latch at `address`, and before its release: both need
    /// its line exclusively. Never dereferences. Native: nothing.
    #[inline(always)]
    fn exclusive(_address: *const u8) {}

    /// Counts compute that is no shared access: about as many instructions as `units`. Native:
    /// nothing.
    #[inline(always)]
    fn work(_units: usize) {}

    /// Suspends the thread for about `duration`. Native: in the operating system.
    fn sleep(duration: Duration) {
        std::thread::sleep(duration);
    }

    /// Suspends the thread while the lower half of `word` is that of `seen`, and no longer than
    /// `most`; it may end early. [`Machine::unpark`] ends it. Native: in the operating system.
    fn park(word: &Self::Word, seen: u64, most: Duration) {
        let _ = (word, seen, most);
        Self::wait(u32::MAX);
    }

    /// Wakes all threads that are parked at `word`, after it has changed.
    fn unpark(word: &Self::Word) {
        let _ = word;
    }

    /// Prefetches `bytes` bytes at `address`. Native: a prefetch hint for each line. Never
    /// dereferences, so any address is allowed.
    fn prefetch(address: *const u8, bytes: usize);

    /// Prefetches the line at `address` for a store, when other threads store to it, too. Native: a
    /// hint that requests the line exclusively. As in [`Machine::prefetch`], any address is
    /// allowed.
    #[inline]
    fn prefetch_to_write(address: *const u8) {
        Self::prefetch(address, 1);
    }
}

/// A shared 64-bit word, with the meaning of [`std::sync::atomic::AtomicU64`].
///
/// As with the standard type, a load must not have release order and a store must not have acquire
/// order; both panic, because they are errors in the calling code and not in its input.
///
/// The default value is a word that holds 0.
pub trait Word: Send + Sync + Default + 'static {
    /// Proof that a word that holds 0 has bytes of 0 and needs no drop, if that is so. Then large
    /// arrays of words are not written when they are allocated.
    const ZERO_BYTES: Option<ZeroBytes<Self>> = None;

    /// A word that holds `value`.
    fn new(value: u64) -> Self;

    /// The current value.
    fn load(&self, order: Ordering) -> u64;

    /// A bit for each of the words with an upper half that equals `wanted` in the bits of `mask`.
    /// The words are read one by one, in any order, as by a [`Word::load`] with acquire order.
    #[inline]
    fn upper_like(words: &[Self; 8], wanted: u32, mask: u32) -> u32
    where
        Self: Sized,
    {
        let is_like = |word: &Self| {
            let upper = (word.load(Ordering::Acquire) >> 32) as u32;
            (upper ^ wanted) & mask == 0
        };
        (0..8).fold(0, |bits, at| bits | u32::from(is_like(&words[at])) << at)
    }

    /// Discards words that the program no longer needs, while threads may still read them: each
    /// word keeps its value or becomes 0, at any time, and later stores to it may be lost. A thread
    /// that reads such a 0 with acquire order sees everything that was stored before this call.
    /// Native: the memory goes back to the system.
    fn discard(lines: &Array<WordLine<Self>>)
    where
        Self: Sized,
    {
        let words = lines.iter().flat_map(|line| &line.0);
        words.for_each(|word| word.store(0, Ordering::Release));
    }

    /// Replaces the value.
    fn store(&self, value: u64, order: Ordering);

    /// Replaces the value and returns the old one.
    fn swap(&self, value: u64, order: Ordering) -> u64;

    /// Replaces the value by `new` if it is `current`. Never fails spuriously.
    ///
    /// # Errors
    ///
    /// The value found, if it was not `current`.
    fn compare_exchange(
        &self,
        current: u64,
        new: u64,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u64, u64>;

    /// Adds, wrapping around, and returns the old value.
    fn fetch_add(&self, value: u64, order: Ordering) -> u64;

    /// Subtracts, wrapping around, and returns the old value.
    fn fetch_sub(&self, value: u64, order: Ordering) -> u64;

    /// Replaces the value by `value` if that is greater, and returns the old value. The order is
    /// that of a replacement; without one, the load has acquire order.
    #[inline]
    fn fetch_max(&self, value: u64, order: Ordering) -> u64 {
        let mut current = self.load(Ordering::Acquire);
        while current < value {
            match self.compare_exchange(current, value, order, Ordering::Acquire) {
                Ok(_) => break,
                Err(found) => current = found,
            }
        }
        current
    }

    /// Sets the bits of `value` and returns the old value.
    fn fetch_or(&self, value: u64, order: Ordering) -> u64;

    /// Clears all bits except those of `value` and returns the old value.
    fn fetch_and(&self, value: u64, order: Ordering) -> u64;
}

// SAFETY: ZERO-1, by the proof.
unsafe impl<W: Word> ZeroDefault for W {
    const IS_ZERO: bool = W::ZERO_BYTES.is_some();
}
