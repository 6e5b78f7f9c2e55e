//! A table in the owner process: its segments, the index of its primary key, and slots for new
//! rows.
//!
//! Everything here is physical. The scheme, in the layer above, decides which transaction may
//! access a row and when a change takes effect; this module only ensures that a change is complete,
//! can be undone, and never reaches what a snapshot shows.
//!
//! Invariants
//! - `TABLE-1`: a row's key is in its slot before the index has an entry for the row, and stays
//!   there as long as the index has it. So a lookup by hash can verify a row by reading its key.
//! - `TABLE-2`: a slot is reused only after the delete that freed it has committed and the index
//!   has no entry for it; the views in it are empty by then.
//! - `TABLE-3`: each worker fills segments of its own, so inserts of different workers do not
//!   contend.

mod altered;
mod bulk;
mod dropped;
mod fill;
mod key_predictor;
mod numbers;
mod read;
mod shape;
mod slots;
mod sparse;
mod widened;
mod write;

use std::sync::Arc;

use atoll_machine::{Latch, Machine, Ordering, Word};
use atoll_memory::Memory;

use crate::directory::{Change, Directory, Shown};
use crate::error::StorageError;
use crate::index::HashIndex;
use crate::key::{self, Part};
use crate::layout::{RowId, TableId, TableSerial};
use crate::schema_codec;
pub use crate::segment::Slot;
use crate::segment::{Barrier, Grown, Number, Segment};
use crate::stable::StableVec;
use crate::types::{Column, DataType, Schema, Value};

pub use altered::Former;
use altered::Names;
pub use bulk::{BulkSegments, hash_buffered};
pub use dropped::Remains;
pub use key_predictor::KeyRun;
use key_predictor::{KeyPredictor, PredictionTable};
pub use shape::PlainColumn;
use shape::Shape;
pub use slots::Filling;
use slots::IndexOnlyInvalid;

/// See the module.
pub struct Table<M: Machine> {
    /// Its first name.
    name: String,
    serial: TableSerial,
    /// Its first schema; an altered one has other names, and perhaps further columns.
    schema: Schema,
    barrier: Barrier<M>,
    segments: StableVec<Segment<M>, M>,
    segment_count: M::Word,
    /// The threads that add a segment, and whether a load has claimed the table; see `bulk`.
    claims: M::Word,
    index: HashIndex<M>,
    predictor: KeyPredictor<M>,
    /// Free slots of deleted rows.
    free: Latch<M, Vec<RowId>>,
    free_count: M::Word,
    index_only_invalid: IndexOnlyInvalid<M>,
    /// Partly filled segments that workers have left.
    left: Latch<M, Vec<Filling>>,
    /// Bytes of long values that were released since the last search for sparse blocks.
    gone_bytes: M::Word,
    /// The columns of the primary key, if they fit in one word ([`key::word_of_key`]); empty
    /// otherwise.
    key_parts: Box<[Part]>,
    /// Whether the primary key is one `bigint`, the most frequent case.
    key_is_int64: bool,
    /// See `dropped`.
    state: M::Word,
    /// The names after each alteration, see `altered`.
    names: StableVec<Names, M>,
    /// Number of alterations.
    alterations: M::Word,
    /// A thread adds a column.
    widening: Latch<M, ()>,
    /// See `numbers`.
    next_number: M::Word,
    /// By column.
    shapes: Grown<Shape, M>,
    plain_columns: Grown<Option<PlainColumn>, M>,
}

/// A view of a table's key predictor, for a caller that predicts the slots of several keys.
pub struct PredictorView<'t, M: Machine> {
    table: &'t Table<M>,
    known: Option<&'t PredictionTable<M>>,
    key_is_int64: bool,
}

impl<M: Machine> PredictorView<'_, M> {
    /// As [`Table::hash_and_predict`].
    ///
    /// # Errors
    /// As there.
    #[inline(always)]
    pub fn hash_and_predict(&self, wanted: &[Value]) -> Result<(u64, Option<RowId>), StorageError> {
        let word = match wanted {
            [Value::Int64(value)] if self.key_is_int64 => value.cast_unsigned(),
            _ => return self.of_any_key(wanted),
        };
        Ok(self.of_word(word))
    }

    #[inline(always)]
    fn of_word(&self, word: u64) -> (u64, Option<RowId>) {
        M::work(key::HASH_WORK);
        (key::hash_of_word(word), self.known.and_then(|known| known.predict(word)))
    }

    // Not inlined: it would take registers from the case of a single `bigint`.
    #[inline(never)]
    fn of_any_key(&self, wanted: &[Value]) -> Result<(u64, Option<RowId>), StorageError> {
        match key::word_of_key(wanted, &self.table.key_parts) {
            Some(word) => Ok(self.of_word(word)),
            None => self.table.hash_of(wanted).map(|hash| (hash, None)),
        }
    }
}

impl<M: Machine> Table<M> {
    /// Adds a table to the directory, see [`Directory::add_table`].
    ///
    /// # Errors
    /// [`StorageError::Schema`] for a bad name, [`StorageError::Memory`].
    pub fn create(
        directory: &Arc<Directory>,
        change: Change,
        (serial, shown): (TableSerial, Shown),
        name: &str,
        (schema, options): (Schema, &[u8]),
    ) -> Result<Self, StorageError> {
        crate::types::check_object_name(name, &schema)?;
        let encoded = schema_codec::encode(name, &schema);
        let id = directory.add_table(change, (serial, shown), (&encoded, options))?;
        let key = schema.primary_key().iter();
        let key_parts = key::parts(key.map(|at| schema.columns()[*at].data_type));
        let shapes = schema.columns().iter().enumerate();
        let shapes: Grown<_, _> =
            shapes.map(|(at, column)| Shape::of(column, schema.is_in_key(at))).collect();
        let plain_columns = shapes.iter().enumerate();
        Ok(Self {
            name: name.to_owned(),
            serial,
            key_parts,
            key_is_int64: key::is_int64(&schema),
            plain_columns: plain_columns.map(|(at, one)| PlainColumn::of(at, one)).collect(),
            shapes,
            barrier: Barrier::new(Arc::clone(directory), id, &schema),
            schema,
            segments: StableVec::default(),
            segment_count: M::Word::new(0),
            claims: M::Word::new(0),
            index: HashIndex::default(),
            predictor: KeyPredictor::default(),
            free: Latch::default(),
            free_count: M::Word::new(0),
            index_only_invalid: IndexOnlyInvalid::default(),
            left: Latch::default(),
            gone_bytes: M::Word::new(0),
            state: M::Word::new(0),
            names: StableVec::default(),
            alterations: M::Word::new(0),
            widening: Latch::default(),
            next_number: M::Word::new(0),
        })
    }

    /// Its number.
    #[inline]
    pub fn id(&self) -> TableId {
        self.barrier.table()
    }

    /// Its serial number.
    #[inline]
    pub fn serial(&self) -> TableSerial {
        self.serial
    }

    /// The index of its primary key.
    #[inline]
    pub fn index(&self) -> &HashIndex<M> {
        &self.index
    }

    /// The memory that holds the table.
    pub fn memory(&self) -> &Arc<Memory> {
        self.barrier.memory()
    }

    /// Number of segments.
    pub fn segment_count(&self) -> u64 {
        self.segment_count.load(Ordering::Acquire)
    }

    /// The columns of which segments have values, see `widened`.
    #[inline]
    pub(crate) fn columns(&self) -> &Grown<Column, M> {
        self.barrier.columns()
    }

    pub(crate) fn barrier(&self) -> &Barrier<M> {
        &self.barrier
    }

    /// Number of present rows, 0 if the table was dropped; each segment is counted at one time
    /// during the call. A thread that is inside the gate must not call this.
    pub fn row_count(&self) -> u64 {
        self.row_count_up_to(u64::MAX)
    }

    /// As [`Table::row_count`], but counting ends with the segment in which this number is reached.
    pub fn row_count_up_to(&self, most: u64) -> u64 {
        // Inside the gate, since a bitmap may otherwise be copied and freed while it is read.
        let mut member = self.memory().upkeep();
        let segments = self.segment_count();
        let mut rows = 0;
        for number in 0..segments {
            if rows >= most {
                break;
            }
            // One section for each segment, so that a cut does not wait for the whole table.
            let section = member.enter();
            if self.is_removed() {
                return 0; // DROP-3
            }
            rows += self.segments.get(number).map_or(0, |segment| self.barrier.count(segment));
            drop(section);
        }
        rows
    }

    /// Bytes of its segments in the store, 0 if the table was dropped. A thread that is inside the
    /// gate must not call this.
    pub fn bytes(&self) -> u64 {
        let mut member = self.memory().upkeep();
        let bytes_of = |number| {
            let _inside = member.enter();
            // Of a removed table nothing may be read (DROP-3).
            let segment = self.segments.get(number).filter(|_| !self.is_removed());
            segment.map_or(0, |segment| self.barrier.segment_bytes(segment))
        };
        (0..self.segment_count()).map(bytes_of).sum()
    }

    #[inline]
    fn segment(&self, row: RowId) -> &Segment<M> {
        self.segments.get(row.segment()).expect("a row id comes from this table")
    }

    /// The slot of a row.
    ///
    /// # Panics
    /// When the table has no such segment.
    #[inline]
    pub fn slot(&self, row: RowId) -> Slot<'_, M> {
        Slot::new(row, self.segment(row))
    }

    /// The slot of a row, or `None` if the table has no such segment. If no row has ever been in
    /// the slot, the segment may have no room for it, so the caller may prefetch its values but not
    /// read them.
    #[inline]
    pub fn slot_if_any(&self, row: RowId) -> Option<Slot<'_, M>> {
        self.segments.get(row.segment()).map(|segment| Slot::new(row, segment))
    }

    /// The slots of a segment.
    ///
    /// # Panics
    /// When the table has no such segment.
    pub fn slots_of(
        &self,
        segment: u64,
    ) -> impl DoubleEndedIterator<Item = RowId> + Clone + use<M> {
        let capacity = self.segment(RowId::new(segment, 0)).capacity() as usize;
        (0..capacity).map(move |slot| RowId::new(segment, slot))
    }

    /// Whether a segment of the table has room for this row.
    fn has_slot(&self, row: RowId) -> bool {
        let segment = self.segments.get(row.segment());
        segment.is_some_and(|segment| (row.slot() as u64) < segment.capacity())
    }

    #[inline]
    fn column(&self, at: usize) -> &Column {
        &self.columns()[at]
    }

    /// Whether a column holds numbers of this type.
    #[inline]
    pub fn has_numbers<N: Number>(&self, at: usize) -> bool {
        usize::from(self.shapes[at].number_width) == size_of::<N>()
    }

    /// Whether a column holds numbers of this type that an update may set: it cannot be NULL and is
    /// not part of the primary key.
    #[inline]
    pub fn sets_numbers<N: Number>(&self, at: usize) -> bool {
        usize::from(self.shapes[at].set_width) == size_of::<N>()
    }

    /// Whether the row is present.
    #[inline]
    pub fn is_present(&self, row: RowId) -> bool {
        self.barrier.is_present(self.segment(row), row.slot())
    }

    /// Whether the slot holds this key; the row may be absent.
    #[inline]
    pub fn has_key(&self, row: RowId, wanted: &[Value]) -> bool {
        let mut key = self.schema.primary_key().iter().zip(wanted);
        key.all(|(column, value)| self.holds(row, *column, value))
    }

    #[inline]
    fn holds(&self, row: RowId, at: usize, value: &Value) -> bool {
        let mut room = [0; 16];
        if let Value::Int64(wanted) = value
            && self.column(at).data_type.stored_as() == DataType::Int64
        {
            self.load(self.slot(row), at, &mut room[..8]);
            return room[..8] == wanted.to_le_bytes();
        }
        self.value(row, at) == *value
    }

    /// Bytes of the image of a column, 0 for a column that does not exist.
    pub fn image_bytes(&self, column: u16) -> usize {
        let column = self.columns().get(usize::from(column));
        column.map_or(0, |column| column.data_type.width().max(1))
    }

    /// The word of a key of this table, if keys of this table fit in one word.
    #[inline(always)]
    fn word_of(&self, wanted: &[Value]) -> Option<u64> {
        match wanted {
            [Value::Int64(value)] if self.key_is_int64 => Some(value.cast_unsigned()),
            _ => key::word_of_key(wanted, &self.key_parts),
        }
    }

    /// Hash of a key from a caller; checks the key.
    ///
    /// # Errors
    /// As [`Schema::check_key`].
    #[inline(always)]
    pub fn hash_of(&self, wanted: &[Value]) -> Result<u64, StorageError> {
        M::work(key::HASH_WORK * wanted.len());
        match self.word_of(wanted) {
            Some(word) => Ok(key::hash_of_word(word)),
            None => self.schema().check_key(wanted).map(|()| key::hash(wanted)),
        }
    }

    /// Hash of a key that fits the table.
    #[inline]
    pub fn hash(&self, wanted: &[Value]) -> u64 {
        M::work(key::HASH_WORK * wanted.len());
        self.word_of(wanted).map_or_else(|| key::hash(wanted), key::hash_of_word)
    }

    /// Whether no other key of this table has this hash, so that equal hashes need no comparison of
    /// keys.
    #[inline]
    pub fn is_hash_unique(&self, hash: u64) -> bool {
        // The hash of a key that is a word is invertible.
        !self.key_parts.is_empty() && hash > key::RESERVED_MAX
    }

    /// Predicts the slot of a key from its hash, without the index, if rows were inserted in key
    /// order. The prediction is a hint: the slot may hold another row or no row, or may not exist.
    #[inline]
    pub fn predict(&self, hash: u64) -> Option<RowId> {
        self.predictor.predict(hash)
    }

    /// Whether the prediction of this slot is exact: the slot held the row of the key with this
    /// hash at the time of the call, and holds it until a transaction deletes or moves a row of the
    /// block. False says nothing.
    #[inline(always)]
    pub fn is_exact(&self, slot: Slot<'_, M>, hash: u64) -> bool {
        // If the keys of the table do not fit in a word, no block has a mark.
        self.is_exact_of(slot, key::word_of(hash))
    }

    #[inline(always)]
    fn is_exact_of(&self, slot: Slot<'_, M>, word: u64) -> bool {
        let row = slot.id();
        slot.segment().is_dense(row.slot(), self.predictor.mark_of(word, row))
    }

    /// The slot of a key, if the prediction is [exact](Table::is_exact).
    #[inline(always)]
    pub fn locate_exact(&self, wanted: &[Value]) -> Option<Slot<'_, M>> {
        let word = self.word_of(wanted)?;
        let slot = self.slot_if_any(self.predictor.predict_word(word)?)?;
        self.is_exact_of(slot, word).then_some(slot)
    }

    /// Both [`Table::hash_of`] and [`Table::predict`].
    ///
    /// # Errors
    /// As the former.
    #[inline(always)]
    pub fn hash_and_predict(&self, wanted: &[Value]) -> Result<(u64, Option<RowId>), StorageError> {
        self.predictor().hash_and_predict(wanted)
    }

    /// The key predictor, for a caller that looks up several keys.
    #[inline(always)]
    pub fn predictor(&self) -> PredictorView<'_, M> {
        let known = self.predictor.known();
        PredictorView { table: self, known, key_is_int64: self.key_is_int64 }
    }

    /// Trains the key predictor with a row that was inserted after those of `run`. Ignores a hash
    /// that does not identify its key ([`Table::is_hash_unique`]).
    #[inline]
    pub fn train(&self, run: &mut KeyRun, hash: u64, row: RowId) {
        if self.is_hash_unique(hash)
            && let Some(mark) = self.predictor.train(run, hash, row)
        {
            self.segment(row).mark_dense(row.slot(), mark);
        }
    }

    /// Invalidates the dense block of a row that is about to be deleted or moved: predictions for
    /// its neighbours are no longer [exact](Table::is_exact).
    pub fn invalidate_dense(&self, row: RowId) {
        self.segment(row).invalidate_dense(row.slot());
    }

    /// Reports that [`Table::predict`] has predicted a wrong slot. The caller is inside the gate.
    #[cold]
    pub fn mark_wrong(&self, hash: u64) {
        self.predictor.mark_wrong(hash, |row, word| self.has_slot(row) && self.is_of(row, word));
    }

    /// Whether the key in the slot of a row is this word; the row may be absent.
    fn is_of(&self, row: RowId, word: u64) -> bool {
        let columns = self.schema.primary_key().iter().rev();
        let mut key = columns.zip(key::last_values(word, &self.key_parts));
        key.all(|(column, value)| self.holds(row, *column, &value))
    }

    /// A key as a user writes it, with the names of its columns, for error messages.
    pub fn display_key(&self, wanted: &[Value]) -> String {
        key::display(self.schema(), self.schema.primary_key(), wanted)
    }
}
