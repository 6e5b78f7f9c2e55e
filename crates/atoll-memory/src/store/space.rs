//! The space of a store: committing and decommitting chunks.
//!
//! The slow system calls run without the latch. A call
//! 1. waits until no other call has a claim on any chunk of its range,
//! 2. checks the limit, including what other calls are about to commit, and adds a claim,
//! 3. reserves (or punches) the chunks without the latch, and faults them in so that transactions
//!    take no page faults,
//! 4. writes the outcome into the ledger and ends its claim.
//!
//! A call that fails in step 3 punches what it had reserved: STORE-3.

use super::{CHUNK_BYTES, Store, sys};
use crate::error::{MemoryError, Shortage};
use std::io;
use std::ops::Range;
use std::sync::{MutexGuard, PoisonError};

/// Chunks reserved per system call, so that an interrupting signal undoes little work.
const RUN_CHUNKS: u64 = 8;

/// A range of chunks; one call is changing their space.
#[derive(Debug)]
pub(super) struct Claim {
    chunks: Range<u64>,
    /// How many of them the call is about to commit; they already count against the limit.
    missing: u64,
}

/// How far an allocation may raise the committed bytes of a store.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reach {
    /// Up to this many bytes below the limit.
    Below(u64),
    /// Past the limit, until the system has no more.
    PastLimit,
}

impl Store {
    /// Reserves space for the chunks of a range that have none yet. Cheap if all have space.
    ///
    /// # Errors
    /// [`MemoryError::OutOfMemory`] at the limit or if the system has no space,
    /// [`MemoryError::OutOfBounds`], [`MemoryError::ReadOnly`], [`MemoryError::System`]; all
    /// leave everything as it was.
    pub fn commit(&self, offset: u64, len: u64) -> Result<(), MemoryError> {
        self.commit_below(offset, len, 0)
    }

    /// As [`Store::commit`], but leaves `headroom` bytes below the limit uncommitted.
    ///
    /// # Errors
    /// As [`Store::commit`].
    pub fn commit_below(&self, offset: u64, len: u64, headroom: u64) -> Result<(), MemoryError> {
        self.commit_as_far_as(offset, len, Reach::Below(headroom))
    }

    /// As [`Store::commit`], as far as `reach` goes.
    pub(crate) fn commit_as_far_as(
        &self,
        offset: u64,
        len: u64,
        reach: Reach,
    ) -> Result<(), MemoryError> {
        self.check(offset, len)?;
        if !self.is_writable() {
            return Err(MemoryError::ReadOnly);
        }
        let chunks = touched(offset, len);
        if chunks.clone().all(|chunk| self.ledger.has(chunk)) {
            return Ok(());
        }
        let mut claims = self.unclaimed(&chunks);
        let runs = self.ledger.runs(chunks.clone(), false, RUN_CHUNKS);
        let missing: u64 = runs.iter().map(|run| run.end - run.start).sum();
        let pending: u64 = claims.iter().map(|claim| claim.missing).sum();
        let after = self.ledger.committed_bytes() + (pending + missing) * CHUNK_BYTES;
        if missing > 0
            && let Reach::Below(headroom) = reach
        {
            if after > self.limit_bytes {
                return Err(self.out_of_memory(len, Shortage::Limit));
            }
            if after > self.limit_bytes.saturating_sub(headroom) {
                return Err(self.out_of_memory(len, Shortage::Headroom));
            }
        }
        claims.push(Claim { chunks: chunks.clone(), missing });
        drop(claims);
        let reserved = self.reserve_runs(&runs, len);
        self.end_claim(&chunks, || {
            if reserved.is_ok() {
                runs.into_iter().for_each(|run| self.ledger.set(run));
            }
        });
        reserved
    }

    /// Frees the space of the whole chunks inside a range; they read as zeros and must be committed
    /// before they are used again. Partial chunks at the ends stay as they are, and so do chunks
    /// that the file system fails to punch.
    pub fn decommit(&self, offset: u64, len: u64) {
        if !self.is_writable() || self.check(offset, len).is_err() {
            return;
        }
        let (first, end) = (offset.div_ceil(CHUNK_BYTES), (offset + len) / CHUNK_BYTES);
        if first >= end {
            return;
        }
        self.unclaimed(&(first..end)).push(Claim { chunks: first..end, missing: 0 });
        let mut runs = self.ledger.runs(first..end, true, RUN_CHUNKS);
        runs.retain(|run| self.punch_run(run).is_ok());
        self.end_claim(&(first..end), || runs.into_iter().for_each(|run| self.ledger.clear(run)));
    }

    /// Maps ranges of a chunk into this process's page table, as reads would. Does nothing if the
    /// chunk has no space, because a read would allocate pages for it (STORE-2).
    pub(super) fn map_committed(
        &self,
        chunk: u64,
        ranges: &[Range<u64>],
    ) -> Result<(), MemoryError> {
        let chunks = chunk..chunk + 1;
        // The claim keeps other calls from freeing the space meanwhile.
        self.unclaimed(&chunks).push(Claim { chunks: chunks.clone(), missing: 0 });
        let mapped = match self.ledger.has(chunk) {
            true => {
                ranges.iter().try_for_each(|r| self.mapping.map_pages(r.start, r.end - r.start))
            }
            false => Ok(()),
        };
        self.end_claim(&chunks, || ());
        mapped
    }

    /// Bytes of the committed chunks that a range touches; each counts as a whole chunk.
    pub(crate) fn committed_in(&self, offset: u64, len: u64) -> u64 {
        if self.check(offset, len).is_err() {
            return 0;
        }
        let chunks = touched(offset, len);
        chunks.filter(|chunk| self.ledger.has(*chunk)).count() as u64 * CHUNK_BYTES
    }

    /// Fills the ledger from the file: a chunk with any data gets space for the rest of the chunk.
    pub(super) fn find_committed(&self) -> Result<(), MemoryError> {
        let mut from = 0;
        while from < self.capacity_bytes() {
            let Some(at) = sys::next_data(self.fd(), from)? else {
                break;
            };
            let chunk = at / CHUNK_BYTES;
            self.reserve_run(&(chunk..chunk + 1), CHUNK_BYTES)?;
            self.ledger.set(chunk..chunk + 1);
            from = (chunk + 1) * CHUNK_BYTES;
        }
        Ok(())
    }

    /// Takes the latch once no other call has a claim on any of these chunks.
    fn unclaimed(&self, chunks: &Range<u64>) -> MutexGuard<'_, Vec<Claim>> {
        let overlaps =
            |claim: &Claim| claim.chunks.start < chunks.end && chunks.start < claim.chunks.end;
        self.claim_ended
            .wait_while(self.latch(), |claims| claims.iter().any(overlaps))
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the claim on these chunks after writing its outcome into the ledger.
    fn end_claim(&self, chunks: &Range<u64>, record: impl FnOnce()) {
        let mut claims = self.latch();
        record();
        claims.retain(|claim| claim.chunks != *chunks);
        drop(claims);
        self.claim_ended.notify_all();
    }

    fn latch(&self) -> MutexGuard<'_, Vec<Claim>> {
        // Nothing under the latch panics half-way through a change.
        self.latch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reserves space for all runs or for none.
    fn reserve_runs(&self, runs: &[Range<u64>], asked_bytes: u64) -> Result<(), MemoryError> {
        for (n, run) in runs.iter().enumerate() {
            if let Err(error) = self.reserve_run(run, asked_bytes) {
                // STORE-3: a failed reservation may leave part of itself on some file systems.
                for run in &runs[..=n] {
                    let _ = self.punch_run(run);
                }
                return Err(error);
            }
        }
        Ok(())
    }

    fn reserve_run(&self, run: &Range<u64>, asked_bytes: u64) -> Result<(), MemoryError> {
        let (offset, len) = (run.start * CHUNK_BYTES, (run.end - run.start) * CHUNK_BYTES);
        if self.header.pages_move {
            // Faulted in through the mapping, which has small pages; `fallocate` may use huge ones.
            self.mapping.populate(offset, len);
        }
        match sys::reserve(self.fd(), offset, len) {
            Ok(()) => {
                self.mapping.populate(offset, len);
                Ok(())
            }
            Err(source) => match source.raw_os_error() {
                Some(libc::ENOSPC | libc::ENOMEM | libc::EDQUOT | libc::EFBIG) => {
                    Err(self.out_of_memory(asked_bytes, Shortage::System))
                }
                _ => Err(MemoryError::System { call: "fallocate", source }),
            },
        }
    }

    fn punch_run(&self, run: &Range<u64>) -> io::Result<()> {
        sys::punch(self.fd(), run.start * CHUNK_BYTES, (run.end - run.start) * CHUNK_BYTES)
    }
}

/// The chunks that a range touches; none if it is empty.
fn touched(offset: u64, len: u64) -> Range<u64> {
    let first = offset / CHUNK_BYTES;
    if len == 0 { first..first } else { first..(offset + len).div_ceil(CHUNK_BYTES) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::store::StoreOptions;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn space_that_is_given_back_while_it_is_mapped_stays_given_back() {
        let (capacity_bytes, limit_bytes) = (4 * CHUNK_BYTES, 4 * CHUNK_BYTES);
        let options = StoreOptions { capacity_bytes, limit_bytes, huge_pages: false };
        let store = Store::create_moving("test", &options).unwrap();
        let (whole, stop) = (CHUNK_BYTES..2 * CHUNK_BYTES, AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    store.map_committed(1, std::slice::from_ref(&whole)).unwrap();
                }
            });
            let occupied: Vec<u64> = (0..200)
                .map(|_| {
                    store.commit(whole.start, CHUNK_BYTES).unwrap();
                    store.decommit(whole.start, CHUNK_BYTES);
                    sys::sizes(store.fd()).unwrap().1
                })
                .collect();
            stop.store(true, Ordering::Relaxed);
            assert!(occupied.iter().all(|bytes| *bytes == CHUNK_BYTES), "{occupied:?}");
        });
    }
}
