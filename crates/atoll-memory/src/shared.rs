//! Copies of bytes that other threads may read and write at the same time.
//!
//! An aligned number of 1, 2, 4 or 8 bytes is copied in one access, so a race yields the old or the
//! new number. For anything else, a reader that races with a writer gets a mix of old and new
//! bytes; it discards them when it finds that the row has changed.
//! The caller checks the bounds once for the whole copy; a check for each word cost more than the
//! copy.

#[cfg(target_arch = "x86_64")]
mod instructions;
#[cfg(any(test, not(target_arch = "x86_64")))]
mod pieces;

#[cfg(target_arch = "x86_64")]
pub use instructions::{read, read_words, write};
#[cfg(not(target_arch = "x86_64"))]
pub use pieces::{read, read_words, write};

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    macro_rules! tests {
        ($way:ident) => {
            mod $way {
                #[test]
                fn bytes_fill_words_padded_with_zeroes_at_any_alignment() {
                    super::fill_words(|from, len, words| {
                        // SAFETY: the caller's promise.
                        unsafe { crate::shared::$way::read_words(from, len, words) }
                    });
                }

                #[test]
                fn bytes_come_back_and_their_neighbours_stay() {
                    super::write_and_read(
                        // SAFETY: the caller's promise.
                        |to, bytes| unsafe { crate::shared::$way::write(to, bytes) },
                        // SAFETY: the caller's promise.
                        |from, into| unsafe { crate::shared::$way::read(from, into) },
                    );
                }
            }
        };
    }

    #[cfg(target_arch = "x86_64")]
    tests!(instructions);
    tests!(pieces);

    /// Calls `read_words` with bytes that do not change.
    fn fill_words(read_words: impl Fn(*const u8, usize, &[AtomicU64])) {
        let memory: Vec<u64> = (0..60).map(|at| (at + 1) * 0x0102_0304_0506_0708).collect();
        let bytes: Vec<u8> = memory.iter().flat_map(|word| word.to_le_bytes()).collect();
        for start in 0..17 {
            for len in 0..=300 {
                let words: Vec<_> = (0..len / 8 + 2).map(|_| AtomicU64::new(!0)).collect();
                read_words(memory.as_ptr().cast::<u8>().wrapping_add(start), len, &words);
                let mut expected = bytes[start..start + len].to_vec();
                expected.resize(len.next_multiple_of(8), 0);
                expected.resize(words.len() * 8, 0xff);
                let words =
                    words.iter().flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes());
                assert_eq!(words.collect::<Vec<_>>(), expected, "{len} bytes from {start}");
            }
        }
    }

    /// Calls both with bytes that no other thread accesses.
    fn write_and_read(write: impl Fn(*mut u8, &[u8]), read: impl Fn(*const u8, &mut [u8])) {
        for start in 0..17 {
            for len in 0..=300 {
                let mut memory = [0xaa; 330];
                let bytes: Vec<u8> = (0..len).map(|at| (at % 167) as u8).collect();
                let mut back = [0xbb; 330];
                let place = memory.as_mut_ptr().wrapping_add(start);
                write(place, &bytes);
                read(place, &mut back[7..7 + len]);
                assert_eq!(back[7..7 + len], bytes);
                let beside = back[..7].iter().chain(&back[7 + len..]);
                assert!(beside.copied().all(|byte| byte == 0xbb));
                assert_eq!(memory[start..start + len], bytes);
                let others = memory[..start].iter().chain(&memory[start + len..]);
                assert!(others.copied().all(|byte| byte == 0xaa));
            }
        }
    }
}
