//! The ledger: which chunks of a store have space, one bit per chunk, and how many times each chunk
//! has lost its space. It is in the private DRAM of the process.
//!
//! Reading a bit takes no latch; bits change only under the store's latch (`STORE-2`).

use super::CHUNK_BYTES;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The bitmap and the count of its ones.
#[derive(Debug)]
pub(super) struct Ledger {
    words: Box<[AtomicU64]>,
    lives: Box<[AtomicU32]>,
    committed: AtomicU64,
}

impl Ledger {
    /// A ledger for `chunks` chunks, none committed.
    pub(super) fn new(chunks: u64) -> Ledger {
        let words = (0..chunks.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        let lives = (0..chunks).map(|_| AtomicU32::new(0)).collect();
        Ledger { words, lives, committed: AtomicU64::new(0) }
    }

    /// Bytes committed.
    pub(super) fn committed_bytes(&self) -> u64 {
        self.committed.load(Ordering::Acquire) * CHUNK_BYTES
    }

    /// Whether a chunk has space. `Acquire`: a thread that sees the bit may use the chunk.
    pub(super) fn has(&self, chunk: u64) -> bool {
        let word = self.words[(chunk / 64) as usize].load(Ordering::Acquire);
        word & (1 << (chunk % 64)) != 0
    }

    /// How many times a chunk has lost its space; when the number changes, what was known of its
    /// pages is void.
    pub(super) fn life(&self, chunk: u64) -> u32 {
        self.lives[chunk as usize].load(Ordering::Acquire)
    }

    /// Marks chunks as committed.
    pub(super) fn set(&self, chunks: Range<u64>) {
        for chunk in chunks {
            let bit = 1_u64 << (chunk % 64);
            let old = self.words[(chunk / 64) as usize].fetch_or(bit, Ordering::AcqRel);
            if old & bit == 0 {
                self.committed.fetch_add(1, Ordering::AcqRel);
            }
        }
    }

    /// Marks chunks as given back.
    pub(super) fn clear(&self, chunks: Range<u64>) {
        for chunk in chunks {
            let bit = 1_u64 << (chunk % 64);
            let old = self.words[(chunk / 64) as usize].fetch_and(!bit, Ordering::AcqRel);
            if old & bit != 0 {
                self.lives[chunk as usize].fetch_add(1, Ordering::AcqRel);
                self.committed.fetch_sub(1, Ordering::AcqRel);
            }
        }
    }

    /// The runs of chunks in `within` with a bit equal to `wanted`, each at most `longest` long.
    pub(super) fn runs(&self, within: Range<u64>, wanted: bool, longest: u64) -> Vec<Range<u64>> {
        let mut runs: Vec<Range<u64>> = Vec::new();
        for chunk in within {
            if self.has(chunk) != wanted {
                continue;
            }
            match runs.last_mut() {
                Some(run) if run.end == chunk && run.end - run.start < longest => run.end += 1,
                _ => runs.push(chunk..chunk + 1),
            }
        }
        runs
    }
}
