//! A list that grows while others read it and whose entries never move.
//!
//! Chunk `k` holds `FIRST << k` entries, so an index is found with two shifts and no lock.

use std::sync::OnceLock;

const FIRST_BITS: u32 = 4;
const CHUNKS: usize = 40;

/// See the module.
pub struct Chunked<T> {
    chunks: [OnceLock<Box<[OnceLock<T>]>>; CHUNKS],
}

impl<T> Default for Chunked<T> {
    fn default() -> Self {
        Self { chunks: [const { OnceLock::new() }; CHUNKS] }
    }
}

impl<T> Chunked<T> {
    #[inline]
    fn place(index: u64) -> (usize, usize) {
        let shifted = index + (1 << FIRST_BITS);
        let chunk = shifted.ilog2() - FIRST_BITS;
        (chunk as usize, (shifted - (1u64 << (chunk + FIRST_BITS))) as usize)
    }

    /// The entry, if it was set.
    #[inline]
    pub fn get(&self, index: u64) -> Option<&T> {
        let (chunk, at) = Self::place(index);
        self.chunks.get(chunk)?.get()?[at].get()
    }

    /// The entry, made by `make` if this is the first to ask for it.
    #[inline]
    pub fn get_or_init(&self, index: u64, make: impl FnOnce() -> T) -> &T {
        let (chunk, at) = Self::place(index);
        let chunk = self.chunks[chunk].get_or_init(|| {
            (0..1usize << (chunk as u32 + FIRST_BITS)).map(|_| OnceLock::new()).collect()
        });
        chunk[at].get_or_init(make)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_index_has_its_own_place() {
        let list = Chunked::default();
        for i in 0..10_000u64 {
            assert_eq!(list.get(i), None);
            assert_eq!(*list.get_or_init(i, || i * 3), i * 3);
        }
        for i in 0..10_000u64 {
            assert_eq!(list.get(i), Some(&(i * 3)));
        }
    }
}
