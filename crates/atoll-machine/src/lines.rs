//! Cache lines on their way to persistent memory.
//!
//! A store to memory that keeps its bytes without power is durable when it has left the caches. So
//! bytes are copied past them (non-temporal stores), or their lines are written back, and a fence
//! waits until the memory controller has them. Which instruction writes lines back is asked of the
//! processor: `clwb` leaves the line in the cache, `clflushopt` does not, `clflush` is slow and
//! everywhere.
//!
//! - `LINES-1`: when [`copy_through`] returns, the bytes have left the caches, whichever thread
//!   asks: the fence is the copying thread's own.

/// Bytes of a cache line.
pub const LINE_BYTES: usize = 64;

/// How this processor writes a line back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteBack {
    /// And keeps it.
    Clwb,
    /// And forgets it, without waiting for others.
    ClflushOpt,
    /// And forgets it, one after the other.
    Clflush,
}

pub use imp::{copy_through, is_supported, write_back};

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod imp {
    use std::arch::asm;
    use std::arch::x86_64::{
        __cpuid, __cpuid_count, _mm_clflush, _mm_sfence, _mm_stream_si64, _mm_stream_si128,
    };
    use std::sync::LazyLock;

    use super::{LINE_BYTES, WriteBack};

    const WORD: usize = 8;
    const PAIR: usize = 16;

    /// Whether this processor can be told to write back lines.
    pub fn is_supported() -> bool {
        true
    }

    /// Asked of the processor once.
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

    /// Copies bytes to where nobody else reads or writes meanwhile, see `LINES-1`.
    ///
    /// # Safety
    /// So many bytes from `to` on are writable memory, and nobody else touches them meanwhile.
    pub unsafe fn copy_through(to: *mut u8, bytes: &[u8]) {
        let head = to.align_offset(WORD).min(bytes.len());
        let (first, rest) = bytes.split_at(head);
        // SAFETY: `first` and `rest` together are the bytes that the caller vouches for; `at` is
        // within them or just behind, and aligned to the store that is used.
        unsafe {
            copy_and_write_back(to, first);
            let mut at = to.add(head);
            let (mut words, last) = rest.as_chunks::<WORD>();
            if at.align_offset(PAIR) != 0
                && let Some((word, others)) = words.split_first()
            {
                _mm_stream_si64(at.cast(), i64::from_le_bytes(*word));
                (at, words) = (at.add(WORD), others);
            }
            let (pairs, odd) = words.as_chunks::<2>();
            for pair in pairs {
                _mm_stream_si128(at.cast(), std::ptr::read_unaligned(pair.as_ptr().cast()));
                at = at.add(PAIR);
            }
            for word in odd {
                _mm_stream_si64(at.cast(), i64::from_le_bytes(*word));
                at = at.add(WORD);
            }
            copy_and_write_back(at, last);
            _mm_sfence();
        }
    }

    /// # Safety
    /// As [`copy_through`]; fewer bytes than a word.
    unsafe fn copy_and_write_back(to: *mut u8, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        // SAFETY: the caller's; all the bytes lie in one word, so in one line.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
            let line = to.map_addr(|address| address & !(LINE_BYTES - 1));
            match write_back() {
                WriteBack::Clwb => asm!("clwb [{}]", in(reg) line, options(nostack)),
                WriteBack::ClflushOpt => asm!("clflushopt [{}]", in(reg) line, options(nostack)),
                WriteBack::Clflush => _mm_clflush(line),
            }
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
#[allow(unsafe_code)]
mod imp {
    use super::WriteBack;

    /// Whether this processor can be told to write back lines. Not here: persistent memory is then
    /// used through its file system, as any file.
    pub fn is_supported() -> bool {
        false
    }

    /// Not known.
    pub fn write_back() -> WriteBack {
        WriteBack::Clflush
    }

    /// Copies bytes; they do not leave the caches here.
    ///
    /// # Safety
    /// So many bytes from `to` on are writable memory, and nobody else touches them meanwhile.
    pub unsafe fn copy_through(to: *mut u8, bytes: &[u8]) {
        // SAFETY: the caller's.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) }
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
                // SAFETY: 216 bytes are left behind the 40th.
                unsafe { copy_through(target[start..].as_mut_ptr(), bytes) };
                assert_eq!(&target[start..start + len], bytes, "{start} {len}");
                let around = target[..start].iter().chain(&target[start + len..]);
                assert!(around.into_iter().all(|byte| *byte == 0xee), "{start} {len}");
            }
        }
    }
}
