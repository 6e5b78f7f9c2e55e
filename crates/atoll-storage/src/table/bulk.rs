//! Loading many rows at once into a table that has none.
//!
//! 1. [`Table::begin_bulk`] claims the table: no transaction can insert meanwhile, since it would
//!    need a segment.
//! 2. Threads build the segments ([`Table::build_segment`]) and the index ([`IndexBuild`]). Nothing
//!    leads to what they build.
//! 3. [`BulkSegments::publish`] adds all segments and the index to the table, in one section of the
//!    gate. If the load fails before, dropping the segments frees them.
//!
//! - `BULK-1`: a table with a claim has no segment, and gets none but those of the load.
//! - `BULK-2`: the segments are in the table before the index leads to their rows, and the key
//!   predictor predicts the rows last. Meanwhile a transaction may find some of the rows and even
//!   delete them, but it cannot insert, not into a freed slot either.

use atoll_machine::{Latch, Machine, Ordering, Word};

use super::{Filling, KeyPredictor, KeyRun, Slot, Table};
use crate::directory::Change;
use crate::error::StorageError;
use crate::index::BuiltIndex;
use crate::key;
use crate::layout::{RowId, SEGMENT_ROWS, SEGMENTS_MAX};
use crate::segment::{DetachedSegment, SegmentBuffer};
use crate::types::{DataType, Schema, Value};

/// In the word of claims: a load has the table. The other bits count threads that add a segment.
const LOADING: u64 = 1;
const ADDING: u64 = 2;

/// A thread adds a segment to a table; dropping it ends that.
pub(super) struct Adding<'t, M: Machine>(&'t M::Word);

impl<M: Machine> Drop for Adding<'_, M> {
    fn drop(&mut self) {
        self.0.fetch_sub(ADDING, Ordering::AcqRel);
    }
}

/// The segments of a load, and the claim of its table. Dropping it frees the segments and ends the
/// claim.
pub struct BulkSegments<'t, M: Machine> {
    table: &'t Table<M>,
    built: Latch<M, Vec<DetachedSegment<M>>>,
    predictor: KeyPredictor<M>,
}

impl<M: Machine> Drop for BulkSegments<'_, M> {
    fn drop(&mut self) {
        let barrier = self.table.barrier();
        self.built.get_mut().iter().for_each(|segment| barrier.discard(segment));
        self.table.claims.fetch_sub(LOADING, Ordering::AcqRel);
    }
}

impl<M: Machine> Table<M> {
    /// Claims a table without segments for a load; `None` if it has segments, or if another load
    /// has claimed it.
    pub fn begin_bulk(&self) -> Option<BulkSegments<'_, M>> {
        let claimed = self.claims.compare_exchange(0, LOADING, Ordering::AcqRel, Ordering::Relaxed);
        claimed.ok()?;
        let (built, predictor) = (Latch::default(), KeyPredictor::default());
        let bulk = BulkSegments { table: self, built, predictor };
        (self.segment_count() == 0 && !self.has_hidden_columns()).then_some(bulk)
    }

    /// Whether a load has claimed the table.
    pub(super) fn is_loading(&self) -> bool {
        self.claims.load(Ordering::Acquire) & LOADING != 0
    }

    /// Announces that the caller is going to add a segment.
    ///
    /// # Errors
    /// [`StorageError::Loading`].
    pub(super) fn begin_adding(&self) -> Result<Adding<'_, M>, StorageError> {
        let before = self.claims.fetch_add(ADDING, Ordering::AcqRel);
        let adding = Adding::<M>(&self.claims);
        if before & LOADING == 0 {
            return Ok(adding);
        }
        Err(StorageError::Loading(self.name().to_owned()))
    }

    /// As [`hash_buffered`], for rows of this table.
    pub fn hash_buffered(&self, rows: &SegmentBuffer, hashes: &mut Vec<u64>) {
        M::work(key::HASH_WORK * self.schema().primary_key().len() * rows.rows());
        hash_buffered(self.schema(), rows, hashes);
    }

    /// The hash of the key in a slot.
    pub fn hash_stored(&self, slot: Slot<'_, M>) -> u64 {
        let key = self.schema().primary_key();
        if self.key_is_int64 {
            M::work(key::HASH_WORK);
            return key::hash_of_word(self.number::<i64>(slot, key[0]).cast_unsigned());
        }
        let key: Vec<Value> = key.iter().map(|at| self.value_in(slot, *at)).collect();
        self.hash(&key)
    }
}

/// The hashes of the keys of buffered rows, in their order.
pub fn hash_buffered(schema: &Schema, rows: &SegmentBuffer, hashes: &mut Vec<u64>) {
    hashes.clear();
    let key = schema.primary_key();
    if key::parts(key.iter().map(|at| schema.columns()[*at].data_type)).is_empty() {
        let mut values: Vec<Value> = Vec::with_capacity(key.len());
        hashes.extend((0..rows.rows()).map(|row| {
            values.clear();
            values.extend(key.iter().map(|at| rows.value(row, *at)));
            key::hash(&values)
        }));
        return;
    }
    // As `key::word_of_key`, column by column.
    hashes.resize(rows.rows(), 0);
    for at in key {
        let bytes = rows.numbers(*at);
        macro_rules! shift_in {
            ($number:ty) => {
                for (word, bytes) in hashes.iter_mut().zip(bytes.as_chunks().0) {
                    let number = <$number>::from_le_bytes(*bytes);
                    *word = word.unbounded_shl(<$number>::BITS) | u64::from(number);
                }
            };
        }
        match schema.columns()[*at].data_type.stored_as() {
            DataType::Int16 => shift_in!(u16),
            DataType::Int32 | DataType::Date => shift_in!(u32),
            _ => shift_in!(u64),
        }
    }
    hashes.iter_mut().for_each(|word| *word = key::hash_of_word(*word));
}

impl<'t, M: Machine> BulkSegments<'t, M> {
    /// The table.
    pub fn table(&self) -> &'t Table<M> {
        self.table
    }

    /// Builds a segment of the load, and trains the key predictor with its rows, of which the
    /// caller gives the hashes, and the key run of its thread. Each number is used once; in the end
    /// they are numbers from 0 on, without a gap. `bits` is a buffer for bits.
    ///
    /// # Errors
    /// [`StorageError::Memory`], [`StorageError::TableFull`].
    pub fn build(
        &self,
        number: u64,
        rows: &SegmentBuffer,
        (hashes, run): (&[u64], &mut KeyRun),
        bits: &mut Vec<u8>,
    ) -> Result<(), StorageError> {
        if number >= SEGMENTS_MAX {
            return Err(self.full());
        }
        let table = self.table;
        let built = table.barrier().build(number, table.schema(), rows, bits)?;
        for (slot, hash) in hashes.iter().copied().enumerate() {
            if table.is_hash_unique(hash)
                && let Some(mark) = self.predictor.train(run, hash, RowId::new(number, slot))
            {
                built.segment().mark_dense(slot, mark);
            }
        }
        self.built.take().push(built);
        Ok(())
    }

    fn full(&self) -> StorageError {
        let rows = SEGMENTS_MAX * SEGMENT_ROWS as u64;
        StorageError::TableFull(self.table.name().to_owned(), rows)
    }

    /// Sorts the segments, after all have been built. They can be read from then on.
    ///
    /// # Panics
    /// When their numbers are not those from 0 on.
    pub fn sort(&mut self) {
        let built = self.built.get_mut();
        built.sort_unstable_by_key(|one| one.segment().number());
        let is_complete = (0..).zip(built.iter()).all(|(at, one)| one.segment().number() == at);
        assert!(is_complete, "a load builds each segment from 0 on once");
    }

    /// Number of segments.
    pub fn len(&mut self) -> usize {
        self.built.get_mut().len()
    }

    /// Whether there are no segments.
    pub fn is_empty(&mut self) -> bool {
        self.len() == 0
    }

    /// A reader of the sorted segments.
    pub fn reader<'s>(&'s mut self) -> impl Fn(RowId) -> Slot<'s, M> {
        let built: &'s [DetachedSegment<M>] = self.built.get_mut();
        move |row| Slot::new(row, built[row.segment() as usize].segment())
    }

    /// Publishes the sorted segments and the index of their rows, in one section of the gate.
    /// Before anything is published, and when nothing can fail any more, calls `decided`, which
    /// returns the GSN of the load.
    ///
    /// # Errors
    /// [`StorageError::Memory`], [`StorageError::TableFull`]; the table is unchanged.
    pub fn publish(
        mut self,
        change: Change,
        index: BuiltIndex<M>,
        decided: impl FnOnce() -> u64,
    ) -> Result<(), StorageError> {
        let table = self.table;
        let built = self.built.get_mut();
        let nodes = built.iter().map(|one| one.segment().node());
        if !table.barrier().directory().add_first_segments(change, table.id(), nodes)? {
            return Err(self.full());
        }
        let gsn = decided();
        let mut partly = Vec::new();
        let count = built.len() as u64;
        for detached in built.drain(..) {
            let segment = detached.attach();
            segment.raise_gsn(gsn);
            let (filled, capacity) = (table.barrier().count(&segment), segment.capacity());
            let filling = Filling::at(segment.number(), filled as usize, capacity as usize);
            table.segments.get_or_init(segment.number(), || segment);
            partly.push(filling);
        }
        table.segment_count.fetch_max(count, Ordering::AcqRel);
        table.index().adopt(index);
        table.predictor.adopt(std::mem::take(&mut self.predictor)); // BULK-2
        // Inserters take the last one first, so that the first gaps are filled first.
        partly.into_iter().rev().for_each(|filling| table.leave(filling));
        Ok(())
    }
}
