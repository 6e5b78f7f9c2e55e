//! Writing cache lines to persistent memory.
//!
//! A store to persistent memory is durable when it has left the caches. So bytes are stored past
//! the caches (non-temporal stores), or their lines are written back, and a fence waits until the
//! memory controller has accepted them. The processor determines the instruction that writes a line
//! back: `clwb` keeps the line in the cache, `clflushopt` does not, and `clflush` is slow but
//! always available.
//!
//! All operations on lines go through [`Lines`], so that a medium that simulates crashes can
//! replace the processor (`medium/crash/lines.rs`).
//!
//! - `LINES-1`: when [`copy_through`] returns, the bytes have left the caches, as seen from any
//!   thread: the copying thread executes the fence itself.

/// Bytes of a cache line.
pub const LINE_BYTES: usize = 64;
/// Bytes of the smaller of the two non-temporal stores.
pub const WORD: usize = 8;
const PAIR: usize = 2 * WORD;

/// The instruction that writes a line back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteBack {
    /// Keeps the line in the cache.
    Clwb,
    /// Evicts the line; several write-backs overlap.
    ClflushOpt,
    /// Evicts the line; write-backs are serialised.
    Clflush,
}

/// Stores bytes and writes them out of the caches: a processor, or a model of one that records the
/// operations.
///
/// # Safety
/// For the functions that take an address: the bytes there are writable memory of the
/// implementation, and no other thread accesses them meanwhile.
#[allow(unsafe_code)]
pub trait Lines {
    /// Stores two words past the caches, at an address that is a multiple of their size.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn stream_pair(&self, to: *mut u8, words: &[[u8; WORD]; 2]);

    /// Stores a word past the caches, at an address that is a multiple of its size.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn stream_word(&self, to: *mut u8, word: &[u8; WORD]);

    /// Stores bytes of one word into the caches.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn store(&self, to: *mut u8, bytes: &[u8]);

    /// Begins to write back the line of a byte.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn write_back(&self, at: *mut u8);

    /// Waits until what this thread has streamed and begun to write back has left the caches.
    fn fence(&self);
}

/// Copies bytes to persistent memory that no other thread accesses meanwhile; see `LINES-1`.
///
/// # Safety
/// `bytes.len()` bytes from `to` on are writable memory of `lines`, and no other thread accesses
/// them meanwhile.
#[allow(unsafe_code)]
pub unsafe fn copy_through(lines: &impl Lines, to: *mut u8, bytes: &[u8]) {
    let head = to.align_offset(WORD).min(bytes.len());
    let (first, rest) = bytes.split_at(head);
    // SAFETY: `first` and `rest` together are the bytes for which the caller guarantees the
    // conditions; `at` is within them or directly behind, and aligned for the store that is used.
    unsafe {
        copy_and_write_back(lines, to, first);
        let mut at = to.add(head);
        let (mut words, last) = rest.as_chunks::<WORD>();
        if at.align_offset(PAIR) != 0
            && let Some((word, others)) = words.split_first()
        {
            lines.stream_word(at, word);
            (at, words) = (at.add(WORD), others);
        }
        let (pairs, odd) = words.as_chunks::<2>();
        for pair in pairs {
            lines.stream_pair(at, pair);
            at = at.add(PAIR);
        }
        for word in odd {
            lines.stream_word(at, word);
            at = at.add(WORD);
        }
        copy_and_write_back(lines, at, last);
    }
    lines.fence();
}

/// # Safety
/// As [`copy_through`]; fewer bytes than a word.
#[allow(unsafe_code)]
unsafe fn copy_and_write_back(lines: &impl Lines, to: *mut u8, bytes: &[u8]) {
    if bytes.is_empty() {
        return;
    }
    // SAFETY: the caller's; all the bytes are in one word, so in one line.
    unsafe {
        lines.store(to, bytes);
        lines.write_back(to);
    }
}

pub use imp::{is_supported, write_back};

/// The processor that this runs on.
#[derive(Debug, Clone, Copy)]
pub struct Processor;

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod imp {
    use std::arch::asm;
    use std::arch::x86_64::{
        __cpuid, __cpuid_count, _mm_clflush, _mm_sfence, _mm_stream_si64, _mm_stream_si128,
    };
    use std::sync::LazyLock;

    use super::{LINE_BYTES, Lines, Processor, WORD, WriteBack};

    /// Whether this processor can be told to write back lines.
    pub fn is_supported() -> bool {
        true
    }

    /// The best instruction of this processor; queried once.
    pub fn write_back() -> WriteBack {
        static FOUND: LazyLock<WriteBack> = LazyLock::new(|| {
            const CLFLUSHOPT: u32 = 1 << 23;
            const CLWB: u32 = 1 << 24;
            let features = if __cpuid(0).eax >= 7 { __cpuid_count(7, 0).ebx } else { 0 };
            match features {
                bits if bits & CLWB != 0 => WriteBack::Clwb,
                bits if bits & CLFLUSHOPT != 0 => WriteBack::ClflushOpt,
                _ => WriteBack::Clflush,
            }
        });
        *FOUND
    }

    impl Lines for Processor {
        #[inline]
        unsafe fn stream_pair(&self, to: *mut u8, words: &[[u8; WORD]; 2]) {
            // SAFETY: the caller's.
            unsafe { _mm_stream_si128(to.cast(), std::ptr::read_unaligned(words.as_ptr().cast())) }
        }

        #[inline]
        unsafe fn stream_word(&self, to: *mut u8, word: &[u8; WORD]) {
            // SAFETY: the caller's.
            unsafe { _mm_stream_si64(to.cast(), i64::from_le_bytes(*word)) }
        }

        #[inline]
        unsafe fn store(&self, to: *mut u8, bytes: &[u8]) {
            // SAFETY: the caller's.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) }
        }

        #[inline]
        unsafe fn write_back(&self, at: *mut u8) {
            let line = at.map_addr(|address| address & !(LINE_BYTES - 1));
            // SAFETY: the caller's; the contents of the line do not change.
            unsafe {
                match write_back() {
                    WriteBack::Clwb => asm!("clwb [{}]", in(reg) line, options(nostack)),
                    WriteBack::ClflushOpt => {
                        asm!("clflushopt [{}]", in(reg) line, options(nostack));
                    }
                    WriteBack::Clflush => _mm_clflush(line),
                }
            }
        }

        #[inline]
        fn fence(&self) {
            // SAFETY: every x86_64 processor has the instruction.
            unsafe { _mm_sfence() }
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
#[allow(unsafe_code)]
mod imp {
    use super::{Lines, Processor, WORD, WriteBack};

    /// Whether this processor has instructions to write lines back. Not supported here: persistent
    /// memory is then used through its file system, like any file.
    pub fn is_supported() -> bool {
        false
    }

    /// Not used here.
    pub fn write_back() -> WriteBack {
        WriteBack::Clflush
    }

    // These stores do not leave the caches.
    impl Lines for Processor {
        unsafe fn stream_pair(&self, to: *mut u8, words: &[[u8; WORD]; 2]) {
            // SAFETY: the caller's.
            unsafe { self.store(to, words.as_flattened()) }
        }

        unsafe fn stream_word(&self, to: *mut u8, word: &[u8; WORD]) {
            // SAFETY: the caller's.
            unsafe { self.store(to, word) }
        }

        unsafe fn store(&self, to: *mut u8, bytes: &[u8]) {
            // SAFETY: the caller's.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) }
        }

        unsafe fn write_back(&self, _at: *mut u8) {}

        fn fence(&self) {}
    }
}

#[cfg(test)]
#[allow(unsafe_code)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_any_length_go_to_any_place() {
        let source: Vec<u8> = (0..200).map(|at| at as u8 ^ 0x5a).collect();
        for start in 0..40 {
            for len in 0..150 {
                let mut target = [0xee; 256];
                let bytes = &source[start..start + len];
                // SAFETY: at least 216 bytes are left from `start` on.
                unsafe { copy_through(&Processor, target[start..].as_mut_ptr(), bytes) };
                assert_eq!(&target[start..start + len], bytes, "{start} {len}");
                let around = target[..start].iter().chain(&target[start + len..]);
                assert!(around.into_iter().all(|byte| *byte == 0xee), "{start} {len}");
            }
        }
    }
}
