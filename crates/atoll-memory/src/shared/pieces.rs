//! Portable copies with the atomics of Rust, in words as wide as the alignment of the ends allows,
//! for processors without inline assembly [here](super).

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

/// Splits `len` bytes at `address` into adjacent pieces of 1, 2, 4 or 8 bytes, each aligned to its
/// size, and calls `piece` with the offset and the size of each.
#[inline(always)]
fn each_piece(address: usize, len: usize, mut piece: impl FnMut(usize, usize)) {
    if matches!(len, 1 | 2 | 4 | 8) && address & (len - 1) == 0 {
        return piece(0, len);
    }
    if len % 8 == 4 && address.is_multiple_of(4) {
        // For example 100 bytes of a column: whether the odd piece is the first or the last one
        // changes from row to row, so there is no branch on it.
        let head = address & 4;
        piece(if head == 0 { len - 4 } else { 0 }, 4);
        return each_word(head, len / 8, piece);
    }
    let head = address.wrapping_neg() & 7;
    let mut at = 0;
    for bytes in [1, 2, 4] {
        // A piece is skipped only if no larger one would fit either.
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

/// Calls `piece` for each of `words` whole words from offset `at` on.
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
/// The bytes stay mapped during the call, and other threads access them only atomically.
#[inline]
pub unsafe fn read(from: *const u8, into: &mut [u8]) {
    macro_rules! piece {
        ($from:expr, $to:expr, $atomic:ty, $word:ty) => {
            $to.cast::<$word>().write_unaligned((*$from.cast::<$atomic>()).load(Ordering::Relaxed))
        };
    }
    let to = into.as_mut_ptr();
    each_piece(from.addr(), into.len(), |at, bytes| {
        // SAFETY: pieces are within the bytes, for which `into` has room, and are aligned at
        // `from`; the rest is the caller's promise.
        unsafe {
            let (from, to) = (from.add(at), to.add(at));
            by_size!(bytes, piece, from, to)
        }
    });
}

/// Reads `len` bytes from `from` into words; the rest of the last word becomes zero.
///
/// # Safety
/// As [`read`].
///
/// # Panics
/// When `into` has fewer words than the bytes need.
pub unsafe fn read_words(from: *const u8, len: usize, into: &[AtomicU64]) {
    for (number, word) in into[..len.div_ceil(8)].iter().enumerate() {
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
    each_piece(to.addr(), bytes.len(), |at, bytes| {
        // SAFETY: pieces are within the bytes and aligned at `to`; the rest is the caller's
        // promise.
        unsafe {
            let (from, to) = (from.add(at), to.add(at));
            by_size!(bytes, piece, from, to)
        }
    });
}

#[cfg(test)]
mod tests {
    use super::each_piece;

    #[test]
    fn pieces_are_aligned_and_adjacent() {
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
}
