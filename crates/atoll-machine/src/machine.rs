//! The seam between transaction code and what it runs on.
//!
//! Transaction code is generic over [`Machine`]: it reaches the clock, shared words, the waiting
//! loop and memory hints through this trait alone. The same code therefore runs on the real
//! machine ([`Native`](crate::Native)) and on a simulated one that counts cycles.
//!
//! - MACHINE-1: code above this layer never calls the operating system's clock, an atomic type or
//!   a spin hint directly; a simulator that implements the trait sees every one of them.
//! - MACHINE-2: the trait is type-level. An implementation that needs state keeps it per thread,
//!   so that no shared handle adds traffic of its own.
//!
//! Nothing here can fail.

pub use std::sync::atomic::Ordering;

use crate::huge_pages::Array;
pub use crate::word_line::WordLine;

/// What transaction code runs on. Type-level: a simulator keeps its own per-thread state.
///
/// # Example
///
/// A second machine whose clock advances by one nanosecond with every question about it, so
/// that a run repeats exactly:
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
///     fn touch(_address: *const u8, bytes: usize) {
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

    /// Nanoseconds of a monotonic clock. Only differences have a meaning; the zero is arbitrary
    /// but the same for all threads.
    fn now_ns() -> u64;

    /// Orders the accesses of the calling thread before it with those after it, as
    /// [`std::sync::atomic::fence`] does.
    fn fence(order: Ordering) {
        std::sync::atomic::fence(order);
    }

    /// As [`Machine::fence`] with [`Ordering::SeqCst`], for who has just changed a word by reading
    /// and writing it in one step, in an order that releases. Native: on processors on which that
    /// step is a fence itself, only one for the compiler.
    fn fence_behind_rmw() {
        Self::fence(Ordering::SeqCst);
    }

    /// Called in a spin loop; `round` counts up from 0. Native: a spin hint at first, then the
    /// CPU is yielded.
    fn wait(round: u32);

    /// Says that `bytes` bytes of memory at `address` are about to be touched. Native: a prefetch
    /// hint for the lines. Never dereferences, so any address is allowed.
    fn prefetch(address: *const u8, bytes: usize);

    /// Says that memory at `address` is about to be changed, which others change, too. Native: a
    /// hint that asks for the line by itself. As [`Machine::prefetch`], any address is allowed.
    #[inline]
    fn prefetch_to_write(address: *const u8) {
        Self::prefetch(address, 1);
    }
}

/// A shared 64-bit word, with the meaning of [`std::sync::atomic::AtomicU64`].
///
/// Orderings that the standard type refuses are refused here too: a load may not release and a
/// store may not acquire; both panic, because they are mistakes in the calling code and not in
/// its input.
pub trait Word: Send + Sync + Default + 'static {
    /// A word that holds `value`.
    fn new(value: u64) -> Self;

    /// The present value.
    fn load(&self, order: Ordering) -> u64;

    /// A bit for each of the words whose upper half is `wanted` in the bits of `mask`. The words
    /// are read one by one, in any order, as by a [`Word::load`] that acquires.
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

    /// Discards words that nobody needs any more, while some may still look at them: each stays as
    /// it is or becomes 0, at any time, and what is stored in it may be lost. Who sees the 0 of one
    /// sees, if it acquires, what was stored before this was called. Native: their memory goes back
    /// to the system.
    fn discard(lines: &Array<WordLine<Self>>)
    where
        Self: Sized,
    {
        let words = lines.iter().flat_map(|line| &line.0);
        words.for_each(|word| word.store(0, Ordering::Release));
    }

    /// Replaces the value.
    fn store(&self, value: u64, order: Ordering);

    /// Replaces the value and returns the one before.
    fn swap(&self, value: u64, order: Ordering) -> u64;

    /// Replaces the value by `new` if it is `current`. Never fails spuriously.
    ///
    /// # Errors
    ///
    /// The value found, when it was not `current`.
    fn compare_exchange(
        &self,
        current: u64,
        new: u64,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u64, u64>;

    /// Adds, wrapping around, and returns the value before.
    fn fetch_add(&self, value: u64, order: Ordering) -> u64;

    /// Subtracts, wrapping around, and returns the value before.
    fn fetch_sub(&self, value: u64, order: Ordering) -> u64;

    /// Sets the bits of `value` and returns the value before.
    fn fetch_or(&self, value: u64, order: Ordering) -> u64;

    /// Keeps the bits of `value` only and returns the value before.
    fn fetch_and(&self, value: u64, order: Ordering) -> u64;
}
