//! The real machine: the hardware's atomics, the kernel's monotonic clock and prefetch hints.
//!
//! - NATIVE-1: [`NativeWord`] has exactly the layout of `AtomicU64`, so mapped memory can be used
//!   as an array of words.
//! - NATIVE-2: [`Native::prefetch`](Machine::prefetch) and the other prefetches issue hints only.
//!   The hardware drops a hint on an address that is not mapped, so a hint never faults.
//! - NATIVE-3: a load of 16 bytes within one cache line reads each of its two words atomically.
//!   Processors with AVX guarantee this for both words together; no processor is known that does
//!   not.
//! - NATIVE-4: on x86_64 an atomic read-modify-write is a full fence: no later load is executed
//!   before all earlier stores are visible.
//! - NATIVE-5: a thread that reads a 0 because the kernel has taken the page sees what was stored
//!   before the kernel was called: the kernel clears the page's entry under a lock and notifies all
//!   processors.

use crate::huge_pages::Array;
use crate::machine::{Machine, Ordering, Word, WordLine};
use crate::zero_default::ZeroBytes;
use rustix::thread::futex::{self, Timespec};
use rustix::time::{ClockId, clock_gettime};
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::Duration;

/// Rounds of [`Machine::wait`] that spin before the thread yields the CPU. A lock is held for well
/// under a microsecond; a thread that waits longer waits for a thread that is not running.
const SPIN_ROUNDS: u32 = 64;

/// Bytes of one cache line.
const LINE: usize = 64;

/// Prefetching more lines than this would only evict the first ones.
const MOST_LINES: usize = 16;

/// The real machine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Native;

impl Machine for Native {
    type Word = NativeWord;

    #[inline]
    fn now_ns() -> u64 {
        let time = clock_gettime(ClockId::Monotonic);
        (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
    }

    #[inline]
    fn fence_behind_rmw() {
        // NATIVE-4
        if cfg!(target_arch = "x86_64") {
            std::sync::atomic::compiler_fence(Ordering::SeqCst);
        } else {
            Self::fence(Ordering::SeqCst);
        }
    }

    #[inline]
    fn wait(round: u32) {
        if round < SPIN_ROUNDS {
            std::hint::spin_loop();
        } else {
            std::thread::yield_now();
        }
    }

    fn park(word: &NativeWord, seen: u64, most: Duration) {
        let most = Timespec { tv_sec: most.as_secs() as i64, tv_nsec: most.subsec_nanos().into() };
        // It ends early if the word has changed, or for a signal; the caller looks again.
        let _ = futex::wait(word.low(), futex::Flags::PRIVATE, seen as u32, Some(&most));
    }

    fn unpark(word: &NativeWord) {
        // It cannot fail for a word of this process.
        let _ = futex::wake(word.low(), futex::Flags::PRIVATE, i32::MAX as u32);
    }

    #[inline]
    fn prefetch(address: *const u8, bytes: usize) {
        if bytes == 0 {
            return;
        }
        // Steps of a line, then the last byte, which may be one line further: the number of lines
        // depends on the address, and a branch on it would be mispredicted.
        let bytes = bytes.min(MOST_LINES * LINE);
        prefetch(address);
        let mut at = LINE;
        while at < bytes {
            prefetch(address.wrapping_add(at));
            at += LINE;
        }
        if bytes > 1 {
            prefetch(address.wrapping_add(bytes - 1));
        }
    }

    #[inline]
    fn prefetch_to_write(address: *const u8) {
        prefetch_to_change(address);
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn prefetch_to_change(address: *const u8) {
    // SAFETY: NATIVE-2. `prefetchw` is a hint; it changes no register, flag or memory, and where a
    // processor does not know it, it does nothing.
    unsafe {
        std::arch::asm!(
            "prefetchw [{0}]",
            in(reg) address,
            options(nostack, preserves_flags, readonly)
        );
    }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn prefetch_to_change(address: *const u8) {
    prefetch(address);
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn prefetch(address: *const u8) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: NATIVE-2. The instruction is part of the base instruction set of x86_64 and reads
    // nothing that the program can observe.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
}

/// As [`Word::upper_like`], with the upper halves in two vector registers: comparing them one by
/// one took a twentieth of the instructions of a transaction's read.
#[cfg(target_arch = "x86_64")]
#[inline]
fn upper_like(words: &[NativeWord; 8], wanted: u32, mask: u32) -> u32 {
    let bits;
    // SAFETY: NATIVE-3. The code reads the eight words and changes registers only.
    unsafe {
        std::arch::asm!(
            "movd {wanted}, {wanted_word:e}",
            "pshufd {wanted}, {wanted}, 0",
            "movd {mask}, {mask_word:e}",
            "pshufd {mask}, {mask}, 0",
            "movdqu {one}, [{words}]",
            "movdqu {two}, [{words} + 16]",
            "shufps {one}, {two}, 0xdd",
            "movdqu {two}, [{words} + 32]",
            "movdqu {zero}, [{words} + 48]",
            "shufps {two}, {zero}, 0xdd",
            "pxor {zero}, {zero}",
            "pxor {one}, {wanted}",
            "pxor {two}, {wanted}",
            "pand {one}, {mask}",
            "pand {two}, {mask}",
            "pcmpeqd {one}, {zero}",
            "pcmpeqd {two}, {zero}",
            // One byte for each word.
            "packssdw {one}, {two}",
            "packsswb {one}, {zero}",
            "pmovmskb {bits:e}, {one}",
            wanted_word = in(reg) wanted,
            mask_word = in(reg) mask,
            words = in(reg) words.as_ptr(),
            bits = lateout(reg) bits,
            wanted = out(xmm_reg) _,
            mask = out(xmm_reg) _,
            one = out(xmm_reg) _,
            two = out(xmm_reg) _,
            zero = out(xmm_reg) _,
            options(nostack, preserves_flags),
        );
    }
    bits
}

#[cfg(target_arch = "aarch64")]
#[inline]
fn prefetch(address: *const u8) {
    // SAFETY: NATIVE-2. `prfm` is a hint; it changes no register, flag or memory.
    unsafe {
        std::arch::asm!(
            "prfm pldl1keep, [{0}]",
            in(reg) address,
            options(nostack, preserves_flags, readonly)
        );
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[inline]
fn prefetch(_address: *const u8) {}

/// The shared word of the real machine: one atomic of the hardware.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct NativeWord(AtomicU64);

impl NativeWord {
    /// Its lower half, at which the kernel can let threads wait.
    fn low(&self) -> &AtomicU32 {
        let first = (&raw const self.0).cast::<AtomicU32>();
        // SAFETY: both halves of the word are aligned for 32 bits and live as long as it; the
        // kernel alone looks at one by itself, and it stores nothing.
        unsafe { &*first.add(usize::from(cfg!(target_endian = "big"))) }
    }
}

impl Word for NativeWord {
    // SAFETY: it is an atomic (NATIVE-1), which has the bytes of its value.
    const ZERO_BYTES: Option<ZeroBytes<Self>> = Some(unsafe { ZeroBytes::new() });

    #[inline]
    fn new(value: u64) -> Self {
        Self(AtomicU64::new(value))
    }

    #[inline]
    fn load(&self, order: Ordering) -> u64 {
        self.0.load(order)
    }

    #[cfg(target_arch = "x86_64")]
    #[inline]
    fn upper_like(words: &[Self; 8], wanted: u32, mask: u32) -> u32 {
        upper_like(words, wanted, mask)
    }

    fn discard(lines: &Array<WordLine<Self>>) {
        // SAFETY: a line is eight atomics and nothing else (NATIVE-1), for which 0 is a valid
        // value.
        unsafe { lines.discard() }; // NATIVE-5
    }

    #[inline]
    fn store(&self, value: u64, order: Ordering) {
        self.0.store(value, order);
    }

    #[inline]
    fn swap(&self, value: u64, order: Ordering) -> u64 {
        self.0.swap(value, order)
    }

    #[inline]
    fn compare_exchange(
        &self,
        current: u64,
        new: u64,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u64, u64> {
        self.0.compare_exchange(current, new, success, failure)
    }

    #[inline]
    fn fetch_add(&self, value: u64, order: Ordering) -> u64 {
        self.0.fetch_add(value, order)
    }

    #[inline]
    fn fetch_sub(&self, value: u64, order: Ordering) -> u64 {
        self.0.fetch_sub(value, order)
    }

    #[inline]
    fn fetch_max(&self, value: u64, order: Ordering) -> u64 {
        self.0.fetch_max(value, order)
    }

    #[inline]
    fn fetch_or(&self, value: u64, order: Ordering) -> u64 {
        self.0.fetch_or(value, order)
    }

    #[inline]
    fn fetch_and(&self, value: u64, order: Ordering) -> u64 {
        self.0.fetch_and(value, order)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_never_goes_back() {
        let mut last = Native::now_ns();
        for _ in 0..10_000 {
            let now = Native::now_ns();
            assert!(now >= last, "{now} came after {last}");
            last = now;
        }
        assert!(last > 0);
    }

    #[test]
    fn the_clock_is_common_to_threads() {
        let before = Native::now_ns();
        let inside = std::thread::spawn(Native::now_ns).join().expect("the thread only reads");
        assert!(before <= inside && inside <= Native::now_ns());
    }

    #[test]
    fn words_that_are_alike_are_found_like_one_by_one() {
        /// A word with the default implementation, which reads the words one by one.
        #[derive(Default)]
        struct Plain(NativeWord);

        macro_rules! pass_on {
            ($($name:ident),*) => {$(
                fn $name(&self, value: u64, order: Ordering) -> u64 {
                    self.0.$name(value, order)
                }
            )*};
        }
        impl Word for Plain {
            fn new(value: u64) -> Self {
                Self(NativeWord::new(value))
            }
            fn load(&self, order: Ordering) -> u64 {
                self.0.load(order)
            }
            fn store(&self, value: u64, order: Ordering) {
                self.0.store(value, order);
            }
            fn compare_exchange(
                &self,
                current: u64,
                new: u64,
                success: Ordering,
                failure: Ordering,
            ) -> Result<u64, u64> {
                self.0.compare_exchange(current, new, success, failure)
            }
            pass_on!(swap, fetch_add, fetch_sub, fetch_or, fetch_and);
        }

        let (wanted, mask) = (0xabcd_ef12, 0xffff_fff0);
        let words = [0xabcd_ef12, 0xabcd_ef1f, 0xabcd_ef22, 0, u32::MAX, 0x2bcd_ef12];
        for round in 0..words.len().pow(4) {
            let upper = |at: usize| words[round / words.len().pow(at as u32 % 4) % words.len()];
            // The lower half is ignored.
            let word = |at| u64::from(upper(at)) << 32 | u64::from(upper(at + 1));
            let native = std::array::from_fn(|at| NativeWord::new(word(at)));
            let plain = std::array::from_fn(|at| Plain::new(word(at)));
            let expected = Plain::upper_like(&plain, wanted, mask);
            assert_eq!(NativeWord::upper_like(&native, wanted, mask), expected, "round {round}");
            let first = (upper(0) ^ wanted) & mask == 0;
            assert_eq!(expected & 1 == 1, first);
        }
    }

    #[test]
    fn prefetch_takes_any_address_and_any_length() {
        let bytes = [7_u8; 300];
        Native::prefetch(bytes.as_ptr(), bytes.len());
        Native::prefetch(std::ptr::null(), 4096);
        Native::prefetch(std::ptr::without_provenance(usize::MAX), usize::MAX);
        Native::prefetch(std::ptr::without_provenance(1), 0);
        let (below, above) = (std::ptr::null(), std::ptr::without_provenance(usize::MAX));
        [bytes.as_ptr(), below, above].into_iter().for_each(Native::prefetch_to_write);
        assert_eq!(bytes, [7_u8; 300]);
    }

    #[test]
    fn a_word_has_the_layout_of_its_atomic() {
        assert_eq!(size_of::<NativeWord>(), 8);
        assert_eq!(align_of::<NativeWord>(), align_of::<AtomicU64>());
    }

    #[test]
    fn every_operation_of_a_word_returns_the_value_before() {
        let word = NativeWord::new(5);
        assert_eq!(word.swap(6, Ordering::AcqRel), 5);
        assert_eq!(word.fetch_add(10, Ordering::AcqRel), 6);
        assert_eq!(word.fetch_sub(1, Ordering::AcqRel), 16);
        assert_eq!(word.fetch_or(0xf0, Ordering::AcqRel), 15);
        assert_eq!(word.fetch_and(0x0f, Ordering::AcqRel), 0xff);
        word.store(u64::MAX, Ordering::Release);
        assert_eq!(word.fetch_add(2, Ordering::Relaxed), u64::MAX);
        assert_eq!(word.load(Ordering::Acquire), 1);
    }

    #[test]
    fn compare_exchange_changes_the_word_only_when_it_matches() {
        let word = NativeWord::new(1);
        let exchange =
            |current, new| word.compare_exchange(current, new, Ordering::AcqRel, Ordering::Acquire);
        assert_eq!(exchange(2, 9), Err(1));
        assert_eq!(exchange(1, 3), Ok(1));
        assert_eq!(word.load(Ordering::Acquire), 3);
        assert_eq!(NativeWord::default().load(Ordering::Acquire), 0);
    }

    #[test]
    fn waiting_goes_on_for_any_number_of_rounds() {
        for round in [0, 1, SPIN_ROUNDS - 1, SPIN_ROUNDS, u32::MAX] {
            Native::wait(round);
        }
    }

    #[test]
    fn adding_from_several_threads_loses_nothing() {
        let word = NativeWord::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        word.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(word.load(Ordering::Relaxed), 4000);
    }
}
