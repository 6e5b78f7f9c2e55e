//! Copies that do not branch on the alignment of their ends, since the outcome of such a branch
//! changes from row to row: the first and the last bytes are copied in words that overlap.
//!
//! Rust has no unaligned or vector accesses that may race, so the copies are inline assembly. A
//! copy of 1, 2, 4 or 8 bytes is one access, which the processor performs atomically if it is
//! aligned; no code relies on more.

use std::arch::asm;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of a vector.
const BYTES: usize = 16;

/// Reads `into.len()` bytes from `from`.
///
/// # Safety
/// The bytes stay mapped during the call, and other threads access them only atomically.
#[inline(always)]
pub unsafe fn read(from: *const u8, into: &mut [u8]) {
    // SAFETY: the caller's promise, and `into` has room for as many bytes.
    unsafe { copy(from, into.as_mut_ptr(), into.len()) }
}

/// Reads `len` bytes from `from` into words; the rest of the last word becomes zero.
///
/// # Safety
/// As [`read`].
///
/// # Panics
/// When `into` has fewer words than the bytes need.
#[inline(always)]
pub unsafe fn read_words(from: *const u8, len: usize, into: &[AtomicU64]) {
    let into = &into[..len.div_ceil(8)];
    let Some(last) = into.last() else { return };
    last.store(0, Ordering::Relaxed);
    // SAFETY: the caller's promise, and the words have room for the bytes.
    unsafe { copy(from, into.as_ptr().cast_mut().cast(), len) }
}

/// Writes `bytes` to `to`.
///
/// # Safety
/// As [`read`]; the memory is writable.
#[inline(always)]
pub unsafe fn write(to: *mut u8, bytes: &[u8]) {
    // SAFETY: the caller's promise.
    unsafe { copy(bytes.as_ptr(), to, bytes.len()) }
}

/// Copies `len` bytes, some of them twice.
///
/// # Safety
/// Both ranges are mapped and do not overlap. Other threads access them only atomically.
#[inline(always)]
unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's promise; each access is within the `len` bytes.
    unsafe {
        match len {
            0 => {}
            1 => copy_byte(from, to),
            2 => copy_2(from, to, 0),
            3 => {
                copy_2(from, to, 0);
                copy_2(from, to, 1);
            }
            4 => copy_4(from, to, 0),
            5..8 => {
                copy_4(from, to, 0);
                copy_4(from, to, len - 4);
            }
            8 => copy_8(from, to, 0),
            9..BYTES => {
                copy_8(from, to, 0);
                copy_8(from, to, len - 8);
            }
            BYTES => copy_one(from, to, 0),
            _ => copy_vectors(from, to, len),
        }
    }
}

/// # Safety
/// As [`copy`], of more than [`BYTES`].
#[inline(always)]
unsafe fn copy_vectors(from: *const u8, to: *mut u8, len: usize) {
    if len <= 4 * BYTES {
        // Four vectors at any length, so that texts of varying lengths cause no branches.
        // SAFETY: each is within the `len` bytes; the second and the third cover the bytes between
        // the first and the last.
        unsafe {
            copy_one(from, to, 0);
            copy_one(from, to, BYTES.min(len - BYTES));
            copy_one(from, to, len.saturating_sub(2 * BYTES));
            copy_one(from, to, len - BYTES);
        }
        return;
    }
    if len <= 8 * BYTES {
        // Without a loop, for example 100 bytes of a column.
        // SAFETY: the first and the last 4 vectors are within the `len` bytes.
        unsafe {
            copy_two(from, to, 0);
            copy_two(from, to, 2 * BYTES);
            copy_two(from, to, len - 4 * BYTES);
            copy_two(from, to, len - 2 * BYTES);
        }
        return;
    }
    let mut at = 0;
    while len - at > 2 * BYTES {
        // SAFETY: within the `len` bytes.
        unsafe { copy_two(from, to, at) };
        at += 2 * BYTES;
    }
    // SAFETY: the last two vectors of more than eight.
    unsafe { copy_two(from, to, len - 2 * BYTES) };
}

/// # Safety
/// As [`copy`], of twice [`BYTES`] from `at` on.
#[inline(always)]
unsafe fn copy_two(from: *const u8, to: *mut u8, at: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!(
            "movdqu {one}, [{from} + {at}]",
            "movdqu {two}, [{from} + {at} + 16]",
            "movdqu [{to} + {at}], {one}",
            "movdqu [{to} + {at} + 16], {two}",
            from = in(reg) from,
            to = in(reg) to,
            at = in(reg) at,
            one = out(xmm_reg) _,
            two = out(xmm_reg) _,
            options(nostack, preserves_flags),
        );
    }
}

/// # Safety
/// As [`copy`], of the [`BYTES`] from `at` on.
#[inline(always)]
unsafe fn copy_one(from: *const u8, to: *mut u8, at: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!(
            "movdqu {one}, [{from} + {at}]",
            "movdqu [{to} + {at}], {one}",
            from = in(reg) from,
            to = in(reg) to,
            at = in(reg) at,
            one = out(xmm_reg) _,
            options(nostack, preserves_flags),
        );
    }
}

/// # Safety
/// As [`copy`], of a byte.
#[inline(always)]
unsafe fn copy_byte(from: *const u8, to: *mut u8) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!(
            "mov {one}, byte ptr [{from}]",
            "mov byte ptr [{to}], {one}",
            from = in(reg) from,
            to = in(reg) to,
            one = out(reg_byte) _,
            options(nostack, preserves_flags),
        );
    }
}

macro_rules! copy_word {
    ($name:ident, $size:literal, $template:literal) => {
        /// # Safety
        /// As [`copy`], of a word from `at` on.
        #[inline(always)]
        unsafe fn $name(from: *const u8, to: *mut u8, at: usize) {
            // SAFETY: the caller's promise.
            unsafe {
                asm!(
                    concat!("mov {one", $template, "}, ", $size, " ptr [{from} + {at}]"),
                    concat!("mov ", $size, " ptr [{to} + {at}], {one", $template, "}"),
                    from = in(reg) from,
                    to = in(reg) to,
                    at = in(reg) at,
                    one = out(reg) _,
                    options(nostack, preserves_flags),
                );
            }
        }
    };
}

copy_word!(copy_2, "word", ":x");
copy_word!(copy_4, "dword", ":e");
copy_word!(copy_8, "qword", ":r");
