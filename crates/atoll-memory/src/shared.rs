//! Copying bytes that others may read and write at the same time.
//!
//! A few bytes are taken in the widest aligned words that the ends allow, each accessed atomically,
//! so a race gives old or new words. The words of a value are the same whenever it is accessed. (A
//! reader who was led astray by a value that was just changing may meet other words than the
//! writer's; all processors that this runs on give it some of the bytes, and it throws them away.)
//! Of many bytes, those who race with a writer get some of the old and some of the new, and throw
//! them away; where the processor has wider registers those are used.
//! Who copies has checked the bounds once for all of them; checking again for each word cost more
//! than the copy.

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

/// Calls `piece` with offset and size of each piece of `len` bytes from `address` on: each is
/// aligned to its size, 1, 2, 4 or 8, and they lie side by side.
#[inline(always)]
fn each_piece(address: usize, len: usize, mut piece: impl FnMut(usize, usize)) {
    if matches!(len, 1 | 2 | 4 | 8) && address & (len - 1) == 0 {
        return piece(0, len);
    }
    if len % 8 == 4 && address.is_multiple_of(4) {
        // Such as 100 bytes in a column: whether the odd piece is the first or the last one
        // changes from row to row, so there is no branch on it.
        let head = address & 4;
        piece(if head == 0 { len - 4 } else { 0 }, 4);
        return each_word(head, len / 8, piece);
    }
    let head = address.wrapping_neg() & 7;
    let mut at = 0;
    for bytes in [1, 2, 4] {
        // A piece is left out only if no larger one would fit either.
        if head & bytes != 0 && len - at >= bytes {
            piece(at, bytes);
            at += bytes;
        }
    }
    let words = (len - at) / 8;
    each_word(at, words, &mut piece);
    at += words * 8;
    for bytes in [4, 2, 1] {
        if len - at >= bytes {
            piece(at, bytes);
            at += bytes;
        }
    }
}

/// So many whole words, from an offset on.
#[inline(always)]
fn each_word(mut at: usize, words: usize, mut piece: impl FnMut(usize, usize)) {
    let end = at + words * 8;
    while end - at >= 32 {
        piece(at, 8);
        piece(at + 8, 8);
        piece(at + 16, 8);
        piece(at + 24, 8);
        at += 32;
    }
    while at < end {
        piece(at, 8);
        at += 8;
    }
}

/// Applies the macro `piece` with the types of a piece's size.
macro_rules! by_size {
    ($bytes:expr, $piece:ident, $from:expr, $to:expr) => {
        match $bytes {
            8 => $piece!($from, $to, AtomicU64, u64),
            4 => $piece!($from, $to, AtomicU32, u32),
            2 => $piece!($from, $to, AtomicU16, u16),
            _ => $piece!($from, $to, AtomicU8, u8),
        }
    };
}

/// Reads `into.len()` bytes from `from`.
///
/// # Safety
/// They lie in memory that stays mapped meanwhile and that others access atomically only.
#[inline(always)]
pub unsafe fn read(from: *const u8, into: &mut [u8]) {
    #[cfg(target_arch = "x86_64")]
    if into.len() >= vector::BYTES {
        // SAFETY: the caller's promise, and `into` has room for as many bytes.
        return unsafe { vector::copy(from, into.as_mut_ptr(), into.len()) };
    }
    // SAFETY: the caller's promise.
    unsafe { read_pieces(from, into) }
}

/// As [`read`], by words, as wide as the ends allow.
///
/// # Safety
/// As [`read`].
unsafe fn read_pieces(from: *const u8, into: &mut [u8]) {
    macro_rules! piece {
        ($from:expr, $to:expr, $atomic:ty, $word:ty) => {
            $to.cast::<$word>().write_unaligned((*$from.cast::<$atomic>()).load(Ordering::Relaxed))
        };
    }
    let to = into.as_mut_ptr();
    each_piece(from.addr(), into.len(), |at, bytes| {
        // SAFETY: pieces lie within the bytes, which `into` has room for, and are aligned at
        // `from`; the rest is the caller's promise.
        unsafe {
            let (from, to) = (from.add(at), to.add(at));
            by_size!(bytes, piece, from, to)
        }
    });
}

/// Reads `len` bytes from `from` into as many words as they fill, the last one filled up with
/// zeroes.
///
/// # Safety
/// As [`read`].
///
/// # Panics
/// When there are not so many words.
#[inline(always)]
pub unsafe fn read_words(from: *const u8, len: usize, into: &[AtomicU64]) {
    let into = &into[..len.div_ceil(8)];
    #[cfg(target_arch = "x86_64")]
    if len >= vector::BYTES {
        into[into.len() - 1].store(0, Ordering::Relaxed);
        // SAFETY: the caller's promise, and the words have room for the bytes.
        return unsafe { vector::copy(from, into.as_ptr().cast_mut().cast(), len) };
    }
    for (number, word) in into.iter().enumerate() {
        let (at, mut piece) = (number * 8, [0; 8]);
        // SAFETY: within the `len` bytes; the rest is the caller's promise.
        unsafe { read(from.add(at), &mut piece[..(len - at).min(8)]) };
        word.store(u64::from_le_bytes(piece), Ordering::Relaxed);
    }
}

/// Writes `bytes` to `to`.
///
/// # Safety
/// As [`read`]; the memory is writable.
#[inline]
pub unsafe fn write(to: *mut u8, bytes: &[u8]) {
    macro_rules! piece {
        ($from:expr, $to:expr, $atomic:ty, $word:ty) => {
            (*$to.cast::<$atomic>())
                .store($from.cast::<$word>().read_unaligned(), Ordering::Relaxed)
        };
    }
    let from = bytes.as_ptr();
    #[cfg(target_arch = "x86_64")]
    if bytes.len() >= vector::BYTES {
        // SAFETY: the caller's promise.
        return unsafe { vector::copy(from, to, bytes.len()) };
    }
    each_piece(to.addr(), bytes.len(), |at, bytes| {
        // SAFETY: pieces lie within the bytes and are aligned at `to`; the rest is the caller's
        // promise.
        unsafe {
            let (from, to) = (from.add(at), to.add(at));
            by_size!(bytes, piece, from, to)
        }
    });
}

/// Copying two words at a time, in a third of the instructions.
///
/// The compiler knows no atomic access of this width, so it is written down as instructions. Each
/// reads or writes an aligned word that lies in it at once, as far as such a word lies in one cache
/// line, which it does: the processor's own rule for words, kept by its wider accesses.
#[cfg(target_arch = "x86_64")]
mod vector {
    use std::arch::asm;

    /// Fewest bytes that it copies.
    pub const BYTES: usize = 16;

    /// Copies `len` bytes, at least [`BYTES`], some of them twice.
    ///
    /// # Safety
    /// Both ranges are mapped and do not overlap. Where others access one meanwhile, they do so
    /// atomically.
    #[inline(always)]
    pub unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
        debug_assert!(len >= BYTES);
        if (4 * BYTES..=8 * BYTES).contains(&len) {
            // Without a loop, as 100 bytes in a column.
            // SAFETY: the first half of the most that they can be, and the last, lie within them.
            unsafe {
                copy_two(from, to, 0);
                copy_two(from, to, 2 * BYTES);
                copy_two(from, to, len - 4 * BYTES);
                copy_two(from, to, len - 2 * BYTES);
            }
            return;
        }
        let mut at = 0;
        while len - at >= 2 * BYTES {
            // SAFETY: within the `len` bytes.
            unsafe { copy_two(from, to, at) };
            at += 2 * BYTES;
        }
        if len - at >= BYTES {
            // SAFETY: as above.
            unsafe { copy_one(from, to, at) };
        }
        if !len.is_multiple_of(BYTES) {
            // SAFETY: the last bytes of at least so many.
            unsafe { copy_one(from, to, len - BYTES) };
        }
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
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::{each_piece, read, read_words, write};

    #[test]
    fn pieces_are_aligned_and_lie_side_by_side() {
        for address in 64..80 {
            for len in 0..40 {
                let mut pieces = Vec::new();
                each_piece(address, len, |at, bytes| {
                    assert_eq!((address + at) % bytes, 0, "{bytes} bytes at {at} of {address}");
                    pieces.push((at, bytes));
                });
                pieces.sort_unstable();
                let end = pieces.iter().fold(0, |next, (at, bytes)| {
                    assert_eq!(*at, next, "{len} bytes at {address}");
                    next + bytes
                });
                assert_eq!(end, len);
            }
        }
    }

    #[test]
    fn bytes_fill_words_up_to_zeroes_wherever_they_come_from() {
        let memory: Vec<u64> = (0..40).map(|at| (at + 1) * 0x0102_0304_0506_0708).collect();
        let bytes: Vec<u8> = memory.iter().flat_map(|word| word.to_le_bytes()).collect();
        for start in 0..17 {
            for len in 0..140 {
                let words: Vec<_> = (0..len / 8 + 2).map(|_| AtomicU64::new(!0)).collect();
                // SAFETY: within `memory`, which nobody else knows.
                unsafe { read_words(memory.as_ptr().cast::<u8>().add(start), len, &words) };
                let mut expected = bytes[start..start + len].to_vec();
                expected.resize(len.next_multiple_of(8), 0);
                expected.resize(words.len() * 8, 0xff);
                let words =
                    words.iter().flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes());
                assert_eq!(words.collect::<Vec<_>>(), expected, "{len} bytes from {start}");
            }
        }
    }

    #[test]
    fn bytes_come_back_and_their_neighbours_stay() {
        for start in 0..9 {
            for len in 0..140 {
                let mut memory = [0xaa; 160];
                let bytes: Vec<u8> = (1..=len as u8).collect();
                let mut back = vec![0; len];
                // SAFETY: within `memory`, which nobody else knows.
                unsafe {
                    let place = memory.as_mut_ptr().add(start);
                    write(place, &bytes);
                    read(place, &mut back);
                }
                assert_eq!(back, bytes);
                let others = memory[..start].iter().chain(&memory[start + len..]);
                assert!(others.copied().all(|byte| byte == 0xaa));
            }
        }
    }
}
