//! Building an index over many rows at once.
//!
//! Threads collect the hashes of all rows, by part ([`HashedRows`]). Then they build the parts,
//! each in one array of its final size, which is in the caches while it is filled. So a row costs
//! no cache miss and no latch, and nothing is copied when the index grows.

use std::mem;

use atoll_machine::{Latch, Machine, Ordering, Word};

use super::HashIndex;
use super::bucket::{BUCKET, entry};
use super::part::{PARTS, PROBES_FIRST};
use super::table::Buckets;
use crate::bucket_arrays::Size;
use crate::layout::RowId;

/// Rows of a chunk.
const CHUNK: usize = 2048;
/// Rows ahead for which a bucket is prefetched.
const AHEAD: usize = 12;
/// A built table is at most 13/16 full: lookups of one in ten keys need a second bucket then.
const FULL: (usize, usize) = (13, 16);

type Chunk = Vec<(u64, RowId)>;

/// Hashes of rows, by part of the index; of one thread.
pub struct HashedRows {
    filling: Vec<Chunk>,
    full: Vec<Vec<Chunk>>,
}

impl Default for HashedRows {
    fn default() -> Self {
        Self { filling: vec![Chunk::new(); PARTS], full: vec![Vec::new(); PARTS] }
    }
}

impl HashedRows {
    /// Adds a row.
    #[inline]
    pub fn add(&mut self, hash: u64, row: RowId) {
        let part = hash as usize % PARTS;
        let chunk = &mut self.filling[part];
        if chunk.len() == chunk.capacity() {
            let full = mem::replace(chunk, Chunk::with_capacity(CHUNK));
            self.full[part].push(full);
        }
        chunk.push((hash, row));
    }

    fn chunks(mut self) -> impl Iterator<Item = Vec<Chunk>> {
        for (part, chunk) in self.filling.into_iter().enumerate() {
            self.full[part].push(chunk);
        }
        self.full.into_iter()
    }
}

/// An index that is being built; threads share it.
pub struct IndexBuild<M: Machine> {
    /// The rows of the parts that no thread has taken.
    rows: Box<[Latch<M, Vec<Chunk>>]>,
    built: Box<[Latch<M, Option<Buckets<M>>>]>,
    next: M::Word,
}

/// An index that has been built, for [`HashIndex::adopt`].
pub struct BuiltIndex<M: Machine>(Vec<Option<Buckets<M>>>);

impl<M: Machine> IndexBuild<M> {
    /// An index over the rows that threads have hashed.
    pub fn new(hashed: Vec<HashedRows>) -> Self {
        let mut rows: Vec<Vec<Chunk>> = vec![Vec::new(); PARTS];
        for thread in hashed {
            rows.iter_mut().zip(thread.chunks()).for_each(|(all, own)| all.extend(own));
        }
        let rows = rows.into_iter().map(Latch::new).collect();
        let built = (0..PARTS).map(|_| Latch::default()).collect();
        Self { rows, built, next: M::Word::new(0) }
    }

    /// Number of steps, see [`IndexBuild::step`].
    pub const STEPS: u64 = PARTS as u64;

    /// Does the next step of the work; false if none is left. `is_same` says whether two rows with
    /// hashes that begin alike have the same key.
    ///
    /// # Errors
    /// Two rows with the same key.
    pub fn step(&self, is_same: &impl Fn(RowId, RowId) -> bool) -> Result<bool, (RowId, RowId)> {
        let part = self.next.fetch_add(1, Ordering::Relaxed) as usize;
        if part >= PARTS {
            return Ok(false);
        }
        let chunks = mem::take(&mut *self.rows[part].take());
        let count: usize = chunks.iter().map(Vec::len).sum();
        if count == 0 {
            return Ok(true);
        }
        let size = Size::at_least((count * FULL.1).div_ceil(FULL.0 * BUCKET));
        let table = Buckets::<M>::new(size, PROBES_FIRST);
        for chunk in chunks {
            for (at, (hash, row)) in chunk.iter().copied().enumerate() {
                if let Some((ahead, _)) = chunk.get(at + AHEAD) {
                    M::prefetch(table.line(*ahead), 1);
                }
                let is_it = &mut |other| is_same(other, row);
                if let Some(other) = table.fill_unless(hash, entry(hash, row), is_it) {
                    return Err((other, row));
                }
            }
        }
        *self.built[part].take() = Some(table);
        Ok(true)
    }

    /// The index, after the last step.
    pub fn end(mut self) -> BuiltIndex<M> {
        BuiltIndex(self.built.iter_mut().map(|part| part.get_mut().take()).collect())
    }
}

impl<M: Machine> HashIndex<M> {
    /// Takes over a built index. This index has no entries, and no thread adds one meanwhile.
    pub fn adopt(&self, built: BuiltIndex<M>) {
        for (part, table) in (0..).zip(built.0) {
            if let Some(table) = table {
                self.part(part).replace(table);
            }
        }
    }
}
