//! Version chains: older versions of rows, for readers that are ordered before the transactions
//! that replaced them.
//!
//! The newest version of a row is in its table. A writer that replaces it first writes its before
//! image (the columns that change, and whether the row was present) into a delta record. The delta
//! records of a row form a chain from the newest to the oldest. A reader starts from the row in the
//! table and follows the chain back to the version that it may see. If the row changes before the
//! reader has read the other columns in the table, the reader walks again, but only over the new
//! records, up to the one from which it started before. If it walked over the whole chain each
//! time, writers might extend the chain faster than the reader walks.
//!
//! Transactions store their delta records in chunks of words, each in those of its number. It fills
//! the chunks in turn and use them again in the same order, when no reader can need their records.
//! So a transaction allocates nothing after a warm-up, and transactions share no cache lines except
//! by reading.
//!
//! ```text
//! record   stamp | next | present (1 bit), columns | cells
//! cell     column (16 bits), valid (1), bytes (32) | bytes as words
//! ```
//!
//! Invariants
//! - `VERSION_CHAIN-1`: the stamp of a record is the stamp of the version that the record restores,
//!   and stamps decrease along a chain.
//! - `VERSION_CHAIN-2`: a chunk is used again only when the horizon has reached the stamp of the
//!   newest version that replaced one of its records. An active reader does not walk past a version
//!   that it may see, so it does not reach such a record.

use std::collections::VecDeque;
use std::sync::Arc;

use atoll_machine::huge_pages::{self, Array};
use atoll_machine::{Latch, Machine, Ordering, Word};
use atoll_storage::stable::StableVec;

use crate::before_image::BeforeImage;
use crate::scheme::Place;

const CHUNK_WORDS: usize = 1 << 13;
const HEADER_WORDS: usize = 3;
const OFFSET_BITS: u32 = 20;
const CHUNK_BITS: u32 = 24;

/// The address of a delta record; 0 is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeltaRecordId(pub u64);

impl DeltaRecordId {
    /// No record.
    pub const NONE: Self = Self(0);

    fn new(number: u32, chunk: u32, offset: usize) -> Self {
        let number = u64::from(number + 1) << (OFFSET_BITS + CHUNK_BITS);
        Self(number | u64::from(chunk) << OFFSET_BITS | offset as u64)
    }

    fn place(self) -> (u64, u64, usize) {
        let number = (self.0 >> (OFFSET_BITS + CHUNK_BITS)) - 1;
        let chunk = self.0 >> OFFSET_BITS & ((1 << CHUNK_BITS) - 1);
        (number, chunk, (self.0 & ((1 << OFFSET_BITS) - 1)) as usize)
    }
}

/// An older version of a row, as far as it differs from the row in the table. A reader keeps it
/// from attempt to attempt.
#[derive(Debug, Default)]
pub struct OlderVersion {
    image: BeforeImage,
    /// The row, the stamp that the reader wants, and the newest record that the image contains.
    known: Option<(Place, u64, DeltaRecordId)>,
    /// What newer records than that one restore.
    since: BeforeImage,
}

impl OlderVersion {
    /// The columns that differ, and whether the row was present.
    pub fn image(&self) -> &BeforeImage {
        &self.image
    }
}

struct Arena<M: Machine> {
    chunks: StableVec<Array<M::Word>, M>,
    /// The state, while no writer has this number.
    left: Latch<M, Own>,
}

/// The state of the chunks of one number.
#[derive(Debug, Default)]
struct Own {
    made: u32,
    current: Option<u32>,
    used: usize,
    newest_stamp: u64,
    /// Full chunks, each with the newest stamp that replaced one of its records.
    full: VecDeque<(u32, u64)>,
    free: Vec<u32>,
}

/// The delta records of all transactions.
pub struct VersionChains<M: Machine>(StableVec<Arena<M>, M>);

/// The chunks of one number; only the open transaction with the number writes there.
pub struct VersionChainWriter<M: Machine> {
    chains: Arc<VersionChains<M>>,
    number: u32,
    own: Own,
}

impl<M: Machine> Default for VersionChains<M> {
    fn default() -> Self {
        Self(StableVec::default())
    }
}

impl<M: Machine> VersionChains<M> {
    fn words(&self, record: DeltaRecordId) -> &[M::Word] {
        let (number, chunk, offset) = record.place();
        let arena = self.0.get(number).expect("a record's number has an arena");
        &arena.chunks.get(chunk).expect("a record's chunk was made")[offset..]
    }

    /// Computes how the version that a reader may see, the newest with a stamp of at most `wanted`,
    /// differs from the row in the table; the chain begins at `newest`. Returns false if the chain
    /// has no such version, which happens only if the row has changed meanwhile.
    pub fn reconstruct(
        &self,
        row: Place,
        newest: DeltaRecordId,
        wanted: u64,
        older: &mut OlderVersion,
    ) -> bool {
        let OlderVersion { image, known, since } = older;
        let before = known.take().filter(|(of, at, _)| (*of, *at) == (row, wanted));
        let is_extended = before.is_some_and(|(_, _, before)| {
            let is_behind = self.walk(newest, wanted, Some(before), since);
            if is_behind {
                image.add_missing(since);
            }
            is_behind
        });
        let is_there = is_extended || self.walk(newest, wanted, None, image);
        *known = is_there.then_some((row, wanted, newest));
        is_there
    }

    /// Walks back to the wanted version or to the record that is known, which it does not apply.
    fn walk(
        &self,
        newest: DeltaRecordId,
        wanted: u64,
        known: Option<DeltaRecordId>,
        image: &mut BeforeImage,
    ) -> bool {
        image.clear(true);
        let mut record = newest;
        while record != DeltaRecordId::NONE {
            if known == Some(record) {
                return true;
            }
            let words = self.words(record);
            let stamp = words[0].load(Ordering::Acquire);
            let next = DeltaRecordId(words[1].load(Ordering::Relaxed));
            self.apply(words, image);
            if stamp <= wanted {
                // `VERSION_CHAIN-2`: older records may have been used again.
                return known.is_none();
            }
            record = next;
        }
        false
    }

    fn apply(&self, words: &[M::Word], image: &mut BeforeImage) {
        let what = words[2].load(Ordering::Relaxed);
        image.present = what & 1 == 1;
        let mut at = HEADER_WORDS;
        for _ in 0..what >> 1 {
            let cell = words[at].load(Ordering::Relaxed);
            let (column, valid) = (cell as u16, cell >> 16 & 1 == 1);
            let len = (cell >> 32) as usize;
            let data = &words[at + 1..][..len.div_ceil(8)];
            let bytes = image.add(column, valid, len);
            for (piece, word) in bytes.chunks_mut(8).zip(data) {
                piece.copy_from_slice(&word.load(Ordering::Relaxed).to_le_bytes()[..piece.len()]);
            }
            at += 1 + data.len();
        }
    }
}

impl<M: Machine> VersionChainWriter<M> {
    /// The writer of this number, of which there must be one at a time.
    pub fn new(chains: Arc<VersionChains<M>>, number: u32) -> Self {
        let arena = chains.0.get_or_init(number.into(), || Arena {
            chunks: StableVec::default(),
            left: Latch::default(),
        });
        let own = std::mem::take(&mut *arena.left.take());
        Self { chains, number, own }
    }

    /// Writes a delta record in front of the chain `next`. It restores `before`, a version of stamp
    /// `stamp`, which a version of stamp `replaced_by` is replacing.
    pub fn push(
        &mut self,
        before: &BeforeImage,
        stamp: u64,
        replaced_by: u64,
        next: DeltaRecordId,
    ) -> DeltaRecordId {
        let cells = || before.cells().map(|(_, _, bytes)| 1 + bytes.len().div_ceil(8));
        let needed = HEADER_WORDS + cells().sum::<usize>();
        let (chunk, offset) = self.allocate(needed);
        self.own.newest_stamp = self.own.newest_stamp.max(replaced_by);
        let record = DeltaRecordId::new(self.number, chunk, offset);
        let words = self.chains.words(record);
        words[1].store(next.0, Ordering::Relaxed);
        let count = before.cells().count() as u64;
        words[2].store(count << 1 | u64::from(before.present), Ordering::Relaxed);
        let mut at = HEADER_WORDS;
        for (column, valid, bytes) in before.cells() {
            let cell = u64::from(column) | u64::from(valid) << 16 | (bytes.len() as u64) << 32;
            words[at].store(cell, Ordering::Relaxed);
            for (word, piece) in words[at + 1..].iter().zip(bytes.chunks(8)) {
                let mut padded = [0; 8];
                padded[..piece.len()].copy_from_slice(piece);
                word.store(u64::from_le_bytes(padded), Ordering::Relaxed);
            }
            at += 1 + bytes.len().div_ceil(8);
        }
        words[0].store(stamp, Ordering::Release);
        record
    }

    /// Raises the stamp of the replacing version to `to`, for records that were pushed with a
    /// `replaced_by` of `from` or more.
    pub fn raise(&mut self, from: u64, to: u64) {
        let own = &mut self.own;
        if from == to {
            return;
        }
        if own.newest_stamp >= from {
            own.newest_stamp = own.newest_stamp.max(to);
        }
        let latest = own.full.iter_mut().rev().take_while(|(_, stamp)| *stamp >= from);
        latest.for_each(|(_, stamp)| *stamp = (*stamp).max(to));
    }

    fn allocate(&mut self, needed: usize) -> (u32, usize) {
        let own = &mut self.own;
        if let Some(chunk) = own.current {
            let words = self.arena_words(chunk);
            let own = &mut self.own;
            if own.used + needed <= words {
                own.used += needed;
                return (chunk, own.used - needed);
            }
            own.full.push_back((chunk, own.newest_stamp));
        }
        let free = (needed <= CHUNK_WORDS).then(|| self.own.free.pop()).flatten();
        let chunk = free.unwrap_or_else(|| self.make(needed.max(CHUNK_WORDS)));
        self.own.current = Some(chunk);
        self.own.used = needed;
        self.own.newest_stamp = 0;
        (chunk, 0)
    }

    fn arena(&self) -> &Arena<M> {
        self.chains.0.get(self.number.into()).expect("made with the writer")
    }

    fn arena_words(&self, chunk: u32) -> usize {
        self.arena().chunks.get(chunk.into()).map_or(0, |words| words.len())
    }

    fn make(&mut self, words: usize) -> u32 {
        let chunk = self.own.made;
        self.own.made += 1;
        let make = || huge_pages::collect(words, |_| M::Word::new(0));
        self.arena().chunks.get_or_init(chunk.into(), make);
        chunk
    }

    /// Frees the chunks in which all records were replaced with the stamp `horizon` or a smaller
    /// one.
    pub fn collect(&mut self, horizon: u64) {
        while let Some((chunk, stamp)) = self.own.full.front().copied()
            && stamp <= horizon
        {
            self.own.full.pop_front();
            self.own.free.push(chunk);
        }
    }
}

impl<M: Machine> Drop for VersionChainWriter<M> {
    fn drop(&mut self) {
        let own = std::mem::take(&mut self.own);
        *self.arena().left.take() = own;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use atoll_machine::Native;

    use atoll_storage::TableId;

    use super::{
        BeforeImage, DeltaRecordId, OlderVersion, Ordering, VersionChainWriter, VersionChains, Word,
    };
    use crate::scheme::Place;

    const ROW: Place = Place::row(TableId(0), 7);

    fn image(column: u16, byte: u8, len: usize) -> BeforeImage {
        let mut image = BeforeImage::default();
        image.clear(true);
        image.add(column, true, len).fill(byte);
        image
    }

    #[test]
    fn a_reader_gets_the_columns_of_the_version_that_it_may_see() {
        let chains = Arc::new(VersionChains::<Native>::default());
        let mut writer = VersionChainWriter::new(Arc::clone(&chains), 3);
        // Versions with stamps 10 (column 1 = 1), 20 (column 2 = 2), 30, 40 (the row as it is).
        let oldest = writer.push(&image(1, 1, 100), 10, 20, DeltaRecordId::NONE);
        let middle = writer.push(&image(2, 2, 3), 20, 30, oldest);
        let newest = writer.push(&image(1, 3, 100), 30, 40, middle);
        let mut found = OlderVersion::default();
        let mut at = |wanted| {
            let ok = chains.reconstruct(ROW, newest, wanted, &mut found);
            let byte = |column| found.image().get(column).map(|(_, bytes)| bytes[0]);
            (ok, byte(1), byte(2))
        };
        assert_eq!(at(35), (true, Some(3), None));
        assert_eq!(at(29), (true, Some(3), Some(2)));
        assert_eq!(at(10), (true, Some(1), Some(2)));
        assert!(!at(9).0);
    }

    #[test]
    fn chunks_are_used_again_once_the_horizon_has_passed_them() {
        let chains = Arc::new(VersionChains::<Native>::default());
        let mut writer = VersionChainWriter::new(Arc::clone(&chains), 0);
        for stamp in 1..100_000u64 {
            let record =
                writer.push(&image(0, stamp as u8, 100), stamp, stamp + 1, DeltaRecordId::NONE);
            let mut found = OlderVersion::default();
            assert!(chains.reconstruct(ROW, record, stamp, &mut found));
            assert_eq!(found.image().get(0), Some((true, &[stamp as u8; 100][..])));
            writer.collect(stamp.saturating_sub(50));
        }
        assert!(writer.own.made < 5, "{} chunks were made", writer.own.made);
        let made = writer.own.made;
        drop(writer);
        assert_eq!(
            VersionChainWriter::new(chains, 0).own.made,
            made,
            "a new writer goes on with them"
        );
    }

    #[test]
    fn a_chunk_is_not_used_again_before_the_stamp_that_was_raised() {
        let chains = Arc::new(VersionChains::<Native>::default());
        let mut writer = VersionChainWriter::new(Arc::clone(&chains), 0);
        let old = writer.push(&image(0, 1, 1000), 1, 5, DeltaRecordId::NONE);
        let mut kept = Vec::new();
        while writer.own.full.len() < 3 {
            kept.push(writer.push(&image(0, 2, 1000), 1, 10, DeltaRecordId::NONE));
        }
        writer.raise(10, 12);
        let stamps: Vec<u64> = writer.own.full.iter().map(|(_, stamp)| *stamp).collect();
        assert_eq!((stamps, writer.own.newest_stamp), (vec![12; 3], 12));
        writer.collect(11);
        assert!(writer.own.free.is_empty());
        writer.collect(12);
        assert_eq!(writer.own.free.len(), 3);
        assert!(chains.reconstruct(ROW, old, 1, &mut OlderVersion::default()));
        // The stamps of an earlier transaction's records stay the same.
        let mut writer = VersionChainWriter::new(Arc::<VersionChains<Native>>::default(), 0);
        while writer.own.full.is_empty() {
            writer.push(&image(0, 1, 1000), 1, 5, DeltaRecordId::NONE);
        }
        writer.own.newest_stamp = 10;
        writer.raise(10, 12);
        assert_eq!((writer.own.full[0].1, writer.own.newest_stamp), (5, 12));
    }

    #[test]
    fn a_record_larger_than_a_chunk_has_one_of_its_own() {
        let chains = Arc::new(VersionChains::<Native>::default());
        let mut writer = VersionChainWriter::new(Arc::clone(&chains), 0);
        let record = writer.push(&image(7, 9, 200_000), 1, 2, DeltaRecordId::NONE);
        let mut found = OlderVersion::default();
        assert!(chains.reconstruct(ROW, record, 1, &mut found));
        assert_eq!(found.image().get(7), Some((true, &[9; 200_000][..])));
    }

    /// After any number of attempts, in chains of random changes.
    #[test]
    fn a_version_that_is_brought_back_step_by_step_is_the_one_brought_back_at_once() {
        let mut word = 1u64;
        let mut below = |limit: u64| {
            word = word.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            (word >> 33) % limit
        };
        for _ in 0..500 {
            let chains = Arc::new(VersionChains::<Native>::default());
            let mut writer = VersionChainWriter::new(Arc::clone(&chains), 0);
            let (mut newest, mut step_by_step) = (DeltaRecordId::NONE, OlderVersion::default());
            let (wanted, last) = (below(5), 5 + below(30));
            for stamp in 0..last {
                let column = below(4) as u16;
                let mut before = image(column, stamp as u8, 3 + usize::from(column));
                before.present = below(4) > 0;
                newest = writer.push(&before, stamp, stamp + 1, newest);
                if stamp < wanted || below(3) > 0 {
                    continue;
                }
                let mut at_once = OlderVersion::default();
                assert!(chains.reconstruct(ROW, newest, wanted, &mut at_once));
                assert!(chains.reconstruct(ROW, newest, wanted, &mut step_by_step));
                let columns = |older: &OlderVersion| {
                    [0, 1, 2, 3]
                        .map(|at| older.image.get(at).map(|(valid, bytes)| (valid, bytes.to_vec())))
                };
                assert_eq!(columns(&step_by_step), columns(&at_once));
                assert_eq!(step_by_step.image.present, at_once.image.present);
            }
        }
    }

    #[test]
    fn who_looks_again_does_not_go_back_over_what_is_known() {
        let chains = Arc::new(VersionChains::<Native>::default());
        let mut writer = VersionChainWriter::new(Arc::clone(&chains), 0);
        let visible = writer.push(&image(0, 1, 8), 1, 2, DeltaRecordId::NONE);
        let mut older = OlderVersion::default();
        assert!(chains.reconstruct(ROW, visible, 1, &mut older));
        // No writer may do this while there is a reader; it shows a walk that goes too far.
        chains.words(visible)[0].store(99, Ordering::Relaxed);
        let newest = writer.push(&image(1, 2, 8), 2, 3, visible);
        assert!(chains.reconstruct(ROW, newest, 1, &mut older));
        assert_eq!(older.image().get(0), Some((true, &[1; 8][..])));
        assert_eq!(older.image().get(1), Some((true, &[2; 8][..])));
        // Another row has another chain, and so has another version.
        let other = Place::row(TableId(0), 8);
        assert!(!chains.reconstruct(other, newest, 1, &mut older));
        // So has a reader that wants another stamp.
        assert!(chains.reconstruct(ROW, newest, 2, &mut older));
        assert_eq!(older.image().get(0), None);
    }
}
