//! The ring buffer of a log: its last bytes in DRAM. Workers write them, the leader of a flush
//! reads them.
//!
//! - `RING-1`: only the writer that reserved a range of the log writes it, and a flush reads only
//!   filled ranges. A byte of the ring is reused only after a flush has written it out.

use std::sync::atomic::{AtomicU64, Ordering};

const WORD: u64 = 8;

/// The ring buffer of one log; see the module.
pub struct Ring {
    words: Box<[AtomicU64]>,
}

impl Ring {
    /// A ring of `capacity_bytes`.
    ///
    /// # Panics
    /// When the capacity is not a power of two, or is less than 8.
    pub fn new(capacity_bytes: u64) -> Self {
        assert!(capacity_bytes.is_power_of_two() && capacity_bytes >= WORD);
        Self { words: (0..capacity_bytes / WORD).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Capacity in bytes.
    pub fn capacity_bytes(&self) -> u64 {
        self.words.len() as u64 * WORD
    }

    fn word(&self, lsn: u64) -> &AtomicU64 {
        &self.words[(lsn / WORD) as usize & (self.words.len() - 1)]
    }

    /// Writes bytes at an LSN that is a multiple of 8; the rest of the last word becomes zero.
    pub fn write(&self, lsn: u64, bytes: &[u8]) {
        let (whole, rest) = bytes.as_chunks::<{ WORD as usize }>();
        let mut at = lsn;
        for chunk in whole {
            self.word(at).store(u64::from_le_bytes(*chunk), Ordering::Relaxed);
            at += WORD;
        }
        if !rest.is_empty() {
            let mut last = [0; WORD as usize];
            last[..rest.len()].copy_from_slice(rest);
            self.word(at).store(u64::from_le_bytes(last), Ordering::Relaxed);
        }
    }

    /// Fills `into` with the bytes from an LSN on; the LSN and the length are multiples of 8.
    pub fn read(&self, from: u64, into: &mut [u8]) {
        let (words, rest) = into.as_chunks_mut::<{ WORD as usize }>();
        debug_assert!(rest.is_empty(), "whole words are read");
        for (word, at) in words.iter_mut().zip((from..).step_by(WORD as usize)) {
            *word = self.word(at).load(Ordering::Relaxed).to_le_bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_from_behind_the_end() {
        let ring = Ring::new(64);
        let bytes: Vec<u8> = (0..45).collect();
        ring.write(1000, &bytes);
        let mut out = [0; 48];
        ring.read(1000, &mut out);
        assert_eq!(out[..45], bytes);
        assert_eq!(out[45..], [0; 3]);
    }
}
