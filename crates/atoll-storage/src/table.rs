//! A table in its owner: segments, the index of the primary key, and places for new rows.
//!
//! Everything here is physical. Who may touch a row, and when a change counts, is decided above, by
//! a scheme; this module only sees to it that a change lands whole, can be undone, and never
//! reaches what a snapshot shows.
//!
//! Invariants
//! - `TABLE-1`: a row's key is in its slot before the index names the row, and stays until the
//!   index no longer does. So a row found by hash can be confirmed by reading its key.
//! - `TABLE-2`: a slot is handed out again only after the delete that freed it has committed and
//!   the index no longer names it; the views in it are empty by then.
//! - `TABLE-3`: each worker fills segments of its own, so inserts meet no other worker.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use atoll_machine::{Hints, Latch, Machine};
use atoll_memory::{Member, Memory, MemoryError};

use crate::directory::{Change, Directory};
use crate::error::StorageError;
use crate::image::{self, HeapPlace, Plain};
use crate::index::HashIndex;
use crate::key;
use crate::layout::{RowId, SEGMENT_ROWS, TableId};
use crate::schema_codec;
use crate::segment::{Barrier, Cell, Number, Segment, ValuePlace};
use crate::stable::StableVec;
use crate::types::{Column, DataType, Schema, Value};
use crate::undo::{Before, Replaced, UndoList};

/// So many bytes of long values must have gone before looking for sparse blocks pays.
const SPARSE_BYTES_MIN: u64 = 1 << 20;
/// Values of a fixed size up to this one are shown without allocating.
const SHOWN_BYTES: usize = 64;
/// Bytes of a cache line.
const LINE_BYTES: usize = 64;

/// See the module.
pub struct Table<M: Machine> {
    name: String,
    schema: Schema,
    barrier: Barrier<M>,
    segments: StableVec<Segment<M>>,
    segment_count: AtomicUsize,
    index: HashIndex<M>,
    /// Slots whose rows were deleted.
    free: Latch<M, Vec<RowId>>,
    free_count: AtomicUsize,
    /// Segments that a worker left half filled.
    left: Latch<M, Vec<Filling>>,
    /// Bytes of long values that went since somebody last looked for sparse blocks.
    gone_bytes: AtomicU64,
    /// The columns of the primary key fit a word together, see [`key::hash_of_word`].
    key_is_word: bool,
    /// It is one column of this type, which most are.
    key_is_int64: bool,
    /// One for each column.
    shapes: Box<[Shape]>,
}

/// What is asked of a column most often.
struct Shape {
    /// Bytes of a value, 0 for a bit.
    width: usize,
    /// No value reaches over the end of a cache line, since arrays of them begin at one.
    is_in_a_line: bool,
    is_view: bool,
    /// A value is so many bytes and nothing else: no bit, no NULL, nothing that lies elsewhere.
    is_flat: bool,
    /// And its type has no zones.
    is_bytes: bool,
}

impl Shape {
    fn of(column: &Column) -> Self {
        let width = column.data_type.width();
        let is_in_a_line = width <= 1 || LINE_BYTES.is_multiple_of(width);
        let is_view = column.data_type.is_view();
        let is_flat = width > 0 && !is_view && !column.nullable;
        Self {
            width,
            is_in_a_line,
            is_view,
            is_flat,
            is_bytes: is_flat && !column.data_type.has_zone(),
        }
    }
}

/// Where a worker puts its next new row of a table.
#[derive(Debug, Clone, Copy, Default)]
pub struct Filling {
    segment: u64,
    next: usize,
    active: bool,
}

/// A slot of a table that has been found, so that values of its row can be read and stored without
/// looking for it again.
pub struct Slot<'t, M: Machine> {
    id: RowId,
    segment: &'t Segment<M>,
}

impl<M: Machine> Clone for Slot<'_, M> {
    #[inline]
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Machine> Copy for Slot<'_, M> {}

impl<'t, M: Machine> Slot<'t, M> {
    /// The row in it.
    #[inline]
    pub fn id(&self) -> RowId {
        self.id
    }

    /// The greatest GSN of a commit that wrote into its segment and can be seen.
    #[inline]
    pub fn gsn(&self) -> u64 {
        self.segment.gsn()
    }

    /// A commit with this GSN, which wrote into the segment, is going to be seen.
    #[inline]
    pub fn raise_gsn(&self, gsn: u64) {
        self.segment.raise_gsn(gsn);
    }

    pub(crate) fn segment(&self) -> &'t Segment<M> {
        self.segment
    }
}

impl Filling {
    /// The segment with this number, from a slot on.
    pub(crate) fn at(segment: u64, next: usize) -> Self {
        Self { segment, next, active: true }
    }

    /// Whether a segment is being filled.
    pub fn is_active(&self) -> bool {
        self.active
    }
}

impl<M: Machine> Table<M> {
    /// Adds a table to the directory.
    ///
    /// # Errors
    /// [`StorageError::Schema`] for a bad name, [`StorageError::Memory`].
    pub fn create(
        directory: &Arc<Directory>,
        change: Change,
        name: &str,
        schema: Schema,
    ) -> Result<Self, StorageError> {
        crate::types::check_name("table", name)?;
        let id = directory.add_table(change, &schema_codec::encode(name, &schema))?;
        Ok(Self {
            name: name.to_owned(),
            key_is_word: key::is_word(&schema),
            key_is_int64: key::is_int64(&schema),
            shapes: schema.columns().iter().map(Shape::of).collect(),
            schema,
            barrier: Barrier::new(Arc::clone(directory), id),
            segments: StableVec::default(),
            segment_count: AtomicUsize::new(0),
            index: HashIndex::default(),
            free: Latch::default(),
            free_count: AtomicUsize::new(0),
            left: Latch::default(),
            gone_bytes: AtomicU64::new(0),
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its columns and primary key.
    #[inline]
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Its number.
    #[inline]
    pub fn id(&self) -> TableId {
        self.barrier.table()
    }

    /// The index of its primary key.
    #[inline]
    pub fn index(&self) -> &HashIndex<M> {
        &self.index
    }

    /// The memory it lies in.
    pub fn memory(&self) -> &Arc<Memory> {
        self.barrier.memory()
    }

    /// Segments.
    pub fn segment_count(&self) -> u64 {
        self.segment_count.load(Ordering::Acquire) as u64
    }

    pub(crate) fn barrier(&self) -> &Barrier<M> {
        &self.barrier
    }

    /// Rows present at some moment during the call. Not to be called by a thread that is inside.
    pub fn row_count(&self) -> u64 {
        // Inside, since bitmaps may be copied and freed meanwhile.
        let mut member = self.memory().upkeep();
        let segments = self.segment_count();
        let mut rows = 0;
        for number in 0..segments {
            // A section each, so that a cut does not wait for the whole table.
            let section = member.enter();
            rows += self.segments.get(number).map_or(0, |segment| self.barrier.count(segment));
            drop(section);
        }
        rows
    }

    #[inline]
    fn segment(&self, row: RowId) -> &Segment<M> {
        self.segments.get(row.segment()).expect("a row id comes from this table")
    }

    /// The slot of a row.
    ///
    /// # Panics
    /// When the row is none of this table.
    #[inline]
    pub fn slot(&self, row: RowId) -> Slot<'_, M> {
        Slot { id: row, segment: self.segment(row) }
    }

    #[inline]
    fn column(&self, at: usize) -> &Column {
        &self.schema.columns()[at]
    }

    /// Whether the row is present.
    #[inline]
    pub fn is_present(&self, row: RowId) -> bool {
        self.barrier.is_present(self.segment(row), row.slot())
    }

    /// Whether the slot holds this key, present or not.
    #[inline]
    pub fn has_key(&self, row: RowId, wanted: &[Value]) -> bool {
        let mut key = self.schema.primary_key().iter().zip(wanted);
        key.all(|(column, value)| self.holds(row, *column, value))
    }

    #[inline]
    fn holds(&self, row: RowId, at: usize, value: &Value) -> bool {
        let mut room = [0; 16];
        if let Value::Int64(wanted) = value
            && self.column(at).data_type == DataType::Int64
        {
            self.load(self.slot(row), at, &mut room[..8]);
            return room[..8] == wanted.to_le_bytes();
        }
        self.value(row, at) == *value
    }

    /// Reads the image of a value (see [`crate::image`]), as wide as the column; returns whether it
    /// is valid.
    #[inline]
    pub fn load(&self, slot: Slot<'_, M>, at: usize, image: &mut [u8]) -> bool {
        let shape = &self.shapes[at];
        if shape.is_flat && image.len() == shape.width {
            self.barrier.load_flat(slot.segment, slot.id.slot(), at, image);
            return true;
        }
        let Column { data_type, nullable, .. } = *self.column(at);
        self.barrier.load_value(slot.segment, slot.id.slot(), at, data_type, nullable, image)
    }

    /// A value of a row.
    pub fn value(&self, row: RowId, at: usize) -> Value {
        let width = self.column(at).data_type.width().max(1);
        let mut room = [0; 16];
        let mut wide = Vec::new();
        let image = if width <= room.len() {
            &mut room[..width]
        } else {
            wide.resize(width, 0);
            &mut wide[..]
        };
        let valid = self.load(self.slot(row), at, image);
        if valid { self.value_of_image(row, at, image) } else { Value::Null }
    }

    /// The value of a valid image of this row, be it the one that stands there or an older one.
    pub fn value_of_image(&self, row: RowId, at: usize, image: &[u8]) -> Value {
        let data_type = self.column(at).data_type;
        let heap = data_type.is_view().then(|| image::heap_place(image)).flatten();
        let value = match heap {
            Some(place) => self
                .barrier
                .heap_read(self.segment(row), at, place)
                .and_then(|bytes| image::of_bytes(data_type, bytes)),
            None => image::decode(data_type, image),
        };
        // Only a row that is being changed under a reader who will look again reads as neither.
        value.unwrap_or(Value::Null)
    }

    /// Gathers where values of a row lie; columns that do not exist are passed over.
    #[inline]
    pub fn hint_at_values(&self, slot: Slot<'_, M>, columns: &[usize], hints: &mut Hints) {
        let Slot { id: row, segment } = slot;
        for at in columns.iter().copied() {
            let Some(shape) = self.shapes.get(at) else { continue };
            let address = self.barrier.hint_of(segment, row.slot(), at, shape.width);
            if shape.is_in_a_line {
                hints.add_line::<M>(address);
            } else {
                hints.add::<M>(address, shape.width);
            }
        }
    }

    /// Gathers where long values of a row lie, once the values themselves have come.
    pub fn hint_at_long_values(&self, slot: Slot<'_, M>, columns: &[usize], hints: &mut Hints) {
        for at in columns.iter().copied() {
            if !self.shapes.get(at).is_some_and(|shape| shape.is_view) {
                continue;
            }
            // Perhaps being changed meanwhile: then the wrong lines come.
            let (view, _) = self.barrier.view(slot.segment, slot.id.slot(), at, false);
            if let Some((place, bytes)) = HeapPlace::of_view(view)
                .and_then(|place| self.barrier.place_in_heap(slot.segment, at, place))
            {
                hints.add::<M>(place, bytes);
            }
        }
    }

    /// A place for a new row.
    ///
    /// # Errors
    /// [`StorageError::Memory`], [`StorageError::TableFull`].
    pub fn claim(&self, change: Change, filling: &mut Filling) -> Result<RowId, StorageError> {
        if self.free_count.load(Ordering::Relaxed) > 0
            && let Some(row) = self.pop_free()
        {
            return Ok(row);
        }
        if !filling.active || filling.next == SEGMENT_ROWS {
            let left = self.left.take().pop();
            *filling = match left {
                Some(filling) => filling,
                None => self.new_segment(change)?,
            };
        }
        let row = RowId::new(filling.segment, filling.next);
        filling.next += 1;
        Ok(row)
    }

    fn pop_free(&self) -> Option<RowId> {
        let row = self.free.take().pop()?;
        self.free_count.fetch_sub(1, Ordering::Relaxed);
        Some(row)
    }

    fn new_segment(&self, change: Change) -> Result<Filling, StorageError> {
        Ok(Filling::at(self.add_segment(change)?, 0))
    }

    /// Adds an empty segment; returns its number. What several threads add at once is all there
    /// when the last of them has returned.
    ///
    /// # Errors
    /// [`StorageError::Memory`], [`StorageError::TableFull`].
    pub fn add_segment(&self, change: Change) -> Result<u64, StorageError> {
        let Some(segment) = self.barrier.create(change, &self.schema)? else {
            let rows = self.segment_count.load(Ordering::Relaxed) * SEGMENT_ROWS;
            return Err(StorageError::TableFull(self.name.clone(), rows as u64));
        };
        let number = segment.number();
        self.segments.get_or_init(number, || segment);
        self.segment_count.fetch_max(number as usize + 1, Ordering::AcqRel);
        Ok(number)
    }

    /// A worker will insert no more; the next one goes on where it stopped.
    pub fn leave(&self, filling: Filling) {
        if filling.active && filling.next < SEGMENT_ROWS {
            self.left.take().push(filling);
        }
    }

    /// Gives a slot back that no row uses: its delete has committed, or its insert has been undone.
    pub fn free(&self, row: RowId) {
        self.free.take().push(row);
        self.free_count.fetch_add(1, Ordering::Relaxed);
    }

    /// Stores a value and writes down what stood there.
    ///
    /// # Errors
    /// [`StorageError::Memory`]; nothing is changed then.
    #[inline]
    pub fn store(
        &self,
        change: Change,
        slot: Slot<'_, M>,
        at: usize,
        plain: Plain<'_>,
        undo: &mut UndoList,
    ) -> Result<(), StorageError> {
        let Slot { id: row, segment } = slot;
        let shape = &self.shapes[at];
        if shape.is_bytes
            && let Some(bytes) = plain.filter(|bytes| bytes.len() == shape.width)
        {
            return Ok(self.barrier.replace_bytes(change, segment, (row, at), bytes, undo)?);
        }
        let Column { data_type, nullable, .. } = *self.column(at);
        let fits = |bytes: &[u8]| data_type.is_view() || bytes.len() == data_type.width().max(1);
        debug_assert!(plain.is_none_or(fits), "{plain:?} for {data_type}");
        /// A number that is not NULL, where none can be.
        macro_rules! number {
            ($rust:ty) => {
                if !nullable && let Some(bytes) = plain.and_then(|bytes| bytes.first_chunk()) {
                    let (place, value) = ((row, at, data_type), <$rust>::from_le_bytes(*bytes));
                    return Ok(self.barrier.replace_number(change, segment, place, value, undo)?);
                }
            };
        }
        match data_type {
            DataType::Int16 => number!(i16),
            DataType::Int32 | DataType::Date => number!(i32),
            DataType::Int64 | DataType::Timestamp => number!(i64),
            _ => {}
        }
        let mut room = [0; 16];
        let image = self.encode(change, row, at, plain, &mut room)?;
        let cell = Cell { column: at, data_type, nullable, image, valid: plain.is_some() };
        self.barrier.replace_value(change, segment, row, cell, undo).map_err(|error| {
            let place = data_type.is_view().then(|| image::heap_place(image)).flatten();
            self.release_heap(change, row, at, place);
            error.into()
        })
    }

    /// Where a value can be stored until the section of `change` ends, so that storing it there
    /// cannot fail and is all that is to be done. `None` where it is not as simple as that.
    #[inline]
    pub fn place_for(
        &self,
        change: Change,
        slot: Slot<'_, M>,
        at: usize,
        plain: Plain<'_>,
    ) -> Option<ValuePlace> {
        let Slot { id: row, segment } = slot;
        let shape = &self.shapes[at];
        let bytes = plain.filter(|bytes| shape.is_flat && bytes.len() == shape.width)?;
        let place = self.barrier.place_in(change, segment, (row.slot(), at), shape.width)?;
        if !shape.is_bytes {
            // Wider than it need be, should the value not be stored after all.
            self.barrier.widen_for(segment, at, self.column(at).data_type, bytes);
        }
        Some(place)
    }

    /// Reads a number of a column of its type; 0 for NULL.
    #[inline]
    pub fn number<N: Number>(&self, slot: Slot<'_, M>, at: usize) -> N {
        debug_assert_eq!(self.column(at).data_type.width(), size_of::<N>());
        self.barrier.number(slot.segment, slot.id, at)
    }

    /// Puts a value into a slot that is absent and vacant; there is nothing to undo.
    ///
    /// # Errors
    /// [`StorageError::Memory`]; nothing is changed then.
    #[inline]
    pub(crate) fn fill_value(
        &self,
        change: Change,
        slot: Slot<'_, M>,
        at: usize,
        plain: Plain<'_>,
    ) -> Result<(), StorageError> {
        let Slot { id: row, segment } = slot;
        let Column { data_type, nullable, .. } = *self.column(at);
        let mut room = [0; 16];
        let image = self.encode(change, row, at, plain, &mut room)?;
        let cell = Cell { column: at, data_type, nullable, image, valid: plain.is_some() };
        self.barrier.store_value(change, segment, row.slot(), cell).map_err(|error| {
            let place = data_type.is_view().then(|| image::heap_place(image)).flatten();
            self.release_heap(change, row, at, place);
            error.into()
        })
    }

    /// Lets go of the long values of an absent slot.
    pub fn vacate(&self, change: Change, row: RowId) {
        (0..self.schema.columns().len()).for_each(|at| self.empty_view(change, row, at));
    }

    #[inline(always)]
    pub(crate) fn encode<'v>(
        &self,
        change: Change,
        row: RowId,
        at: usize,
        plain: Plain<'v>,
        room: &'v mut [u8; 16],
    ) -> Result<&'v [u8], StorageError> {
        match plain {
            // What most values are; a result of another function would come through memory.
            Some(bytes) if !self.column(at).data_type.is_view() => Ok(bytes),
            _ => self.encode_view(change, row, at, plain, room),
        }
    }

    fn encode_view<'v>(
        &self,
        change: Change,
        row: RowId,
        at: usize,
        plain: Plain<'v>,
        room: &'v mut [u8; 16],
    ) -> Result<&'v [u8], StorageError> {
        let data_type = self.column(at).data_type;
        if data_type.is_view()
            && let Some(long) = plain.filter(|bytes| bytes.len() > image::INLINE_BYTES_MAX)
        {
            *room = self.barrier.heap_append(change, self.segment(row), at, long)?;
            return Ok(room);
        }
        Ok(image::of_plain(data_type, plain, room).expect("a short value needs no heap"))
    }

    /// Makes a slot absent and writes down that it was present.
    ///
    /// # Errors
    /// [`StorageError::Memory`]; nothing is changed then.
    pub fn erase(
        &self,
        change: Change,
        row: RowId,
        undo: &mut UndoList,
    ) -> Result<(), StorageError> {
        undo.push(change.inside.epoch, self.id(), row, Before::Presence(true));
        self.barrier.set_presence(change, self.segment(row), row.slot(), false).map_err(|error| {
            undo.pop(0);
            error.into()
        })
    }

    /// Puts back what an undo entry says.
    ///
    /// # Errors
    /// [`MemoryError::OutOfMemory`] when even the memory kept for rollbacks is used up; the entry
    /// can be tried again.
    pub fn restore(&self, change: Change, row: RowId, was: Before<'_>) -> Result<(), MemoryError> {
        let segment = self.segment(row);
        match was {
            Before::Presence(present) => {
                self.barrier.set_presence(change, segment, row.slot(), present)?;
                if !present {
                    self.vacate(change, row);
                }
                Ok(())
            }
            Before::Value { column, valid, image } => {
                let at = usize::from(column);
                let Column { data_type, nullable, .. } = *self.column(at);
                let width = data_type.width().max(1);
                let mut now = [0; 16];
                let heap = data_type.is_view().then(|| {
                    self.load(self.slot(row), at, &mut now);
                    image::heap_place(&now)
                });
                let image = &image[..width];
                let cell = Cell { column: at, data_type, nullable, image, valid };
                self.barrier.store_value(change, segment, row.slot(), cell)?;
                self.release_heap(change, row, at, heap.flatten());
                Ok(())
            }
        }
    }

    /// After commit: what an undo entry kept for the case of a rollback is no longer needed. For a
    /// deleted row, its long values go too.
    pub fn forget(&self, change: Change, row: RowId, replaced: Replaced) {
        match replaced {
            Replaced::Value { column, start } => {
                let at = usize::from(column);
                if self.column(at).data_type.is_view() {
                    self.release_heap(change, row, at, image::heap_place(&start));
                }
            }
            Replaced::Presence(true) => self.vacate(change, row),
            Replaced::Presence(false) => {}
        }
    }

    /// Replaces a long value of an absent slot by an empty view, so that the slot reads as
    /// well-formed when the block behind it is gone. If the view cannot be replaced for want of
    /// memory, the block is kept.
    fn empty_view(&self, change: Change, row: RowId, at: usize) {
        let Column { data_type, nullable, .. } = *self.column(at);
        if !data_type.is_view() {
            return;
        }
        let mut now = [0; 16];
        self.load(self.slot(row), at, &mut now);
        let Some(place) = image::heap_place(&now) else { return };
        let cell = Cell { column: at, data_type, nullable, image: &[0; 16], valid: !nullable };
        let stored = self.barrier.store_value(change, self.segment(row), row.slot(), cell);
        if stored.is_ok() {
            self.release_heap(change, row, at, Some(place));
        }
    }

    pub(crate) fn release_heap(
        &self,
        change: Change,
        row: RowId,
        at: usize,
        place: Option<HeapPlace>,
    ) {
        if let Some(place) = place {
            self.gone_bytes.fetch_add(place.len.into(), Ordering::Relaxed);
            self.barrier.heap_release(change, self.segment(row), at, place);
        }
    }

    /// Appends the plain bytes of a value of a row to `out`; returns whether it is valid.
    pub fn plain_into(&self, slot: Slot<'_, M>, at: usize, out: &mut Vec<u8>) -> bool {
        self.show_plain(slot, at, |plain| plain.map(|bytes| out.extend_from_slice(bytes)).is_some())
    }

    /// Shows the plain bytes of a value of a row.
    #[inline]
    pub fn show_plain<R>(
        &self,
        slot: Slot<'_, M>,
        at: usize,
        body: impl FnOnce(Plain<'_>) -> R,
    ) -> R {
        let Column { data_type, nullable, .. } = *self.column(at);
        if data_type.is_view() {
            return self.show_view(slot, at, nullable, body);
        }
        let width = data_type.width().max(1);
        let mut room = [0; SHOWN_BYTES];
        let mut wide = Vec::new();
        let image = match room.get_mut(..width) {
            Some(room) => room,
            None => {
                wide.resize(width, 0);
                &mut wide[..]
            }
        };
        let is_valid = self.load(slot, at, image);
        body(is_valid.then_some(image))
    }

    #[inline]
    fn show_view<R>(
        &self,
        slot: Slot<'_, M>,
        at: usize,
        nullable: bool,
        body: impl FnOnce(Plain<'_>) -> R,
    ) -> R {
        let (view, is_valid) = self.barrier.view(slot.segment, slot.id.slot(), at, nullable);
        if !is_valid {
            return body(None);
        }
        if let Some(place) = HeapPlace::of_view(view) {
            return self.barrier.heap_show(slot.segment, at, place, body);
        }
        let mut image = [0; 16];
        for (bytes, word) in image.chunks_exact_mut(8).zip(view) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        body(image::inline(&image))
    }

    /// Shows the plain bytes of a valid image of a row, be it the one that stands there or an older
    /// one. Only a row that is being changed under a reader who will look again may show something
    /// else, or NULL.
    #[inline]
    pub fn show_plain_of_image<R>(
        &self,
        slot: Slot<'_, M>,
        at: usize,
        image: &[u8],
        body: impl FnOnce(Plain<'_>) -> R,
    ) -> R {
        if !self.column(at).data_type.is_view() {
            return body(Some(image));
        }
        match image::heap_place(image) {
            Some(place) => self.barrier.heap_show(slot.segment, at, place, body),
            None => body(image::inline(image)),
        }
    }

    /// Whether enough long values went since the last call that blocks may be sparse.
    pub fn may_be_sparse(&self) -> bool {
        let enough = self.gone_bytes.load(Ordering::Relaxed) >= SPARSE_BYTES_MIN;
        if enough {
            self.gone_bytes.store(0, Ordering::Relaxed);
        }
        enough
    }

    /// Values that lie in sparse blocks, at most `most`: row and column. Storing each again, as a
    /// transaction of its own, empties the blocks. Not to be called by a thread that is inside;
    /// `member` is its place at the gate.
    pub fn sparse_values(&self, member: &mut Member, most: usize) -> Vec<(RowId, usize)> {
        let columns = self.schema.columns().iter().enumerate();
        let views: Vec<usize> =
            columns.filter(|(_, column)| column.data_type.is_view()).map(|(at, _)| at).collect();
        let mut found = Vec::new();
        for number in 0..self.segment_count() {
            let Some(segment) = self.segments.get(number) else { continue };
            for at in views.iter().copied() {
                let blocks = self.barrier.sparse_blocks(segment, at);
                if blocks.is_empty() {
                    continue;
                }
                let section = member.enter();
                for slot in 0..SEGMENT_ROWS {
                    let row = RowId::new(number, slot);
                    let mut image = [0; 16];
                    let valid = self.is_present(row) && self.load(self.slot(row), at, &mut image);
                    let place = image::heap_place(&image).filter(|_| valid);
                    if place.is_some_and(|place| blocks.contains(&place.block)) {
                        found.push((row, at));
                    }
                }
                drop(section);
                if found.len() >= most {
                    found.truncate(most);
                    return found;
                }
            }
        }
        found
    }

    /// Bytes of the image of a column, 0 for a column that does not exist.
    pub fn image_bytes(&self, column: u16) -> usize {
        let column = self.schema.columns().get(usize::from(column));
        column.map_or(0, |column| column.data_type.width().max(1))
    }

    /// Hash of a key that somebody gave for this table.
    ///
    /// # Errors
    /// As [`Schema::check_key`].
    #[inline]
    pub fn hash_of(&self, wanted: &[Value]) -> Result<u64, StorageError> {
        match wanted {
            [Value::Int64(value)] if self.key_is_int64 => Ok(key::hash_of_int64(*value)),
            _ => match self.hash_of_word(wanted) {
                Some(hash) => Ok(hash),
                None => self.schema.check_key(wanted).map(|()| key::hash(wanted)),
            },
        }
    }

    /// Hash of a key of this table.
    #[inline]
    pub fn hash(&self, wanted: &[Value]) -> u64 {
        match wanted {
            [Value::Int64(value)] if self.key_is_int64 => key::hash_of_int64(*value),
            _ => self.hash_of_word(wanted).unwrap_or_else(|| key::hash(wanted)),
        }
    }

    /// The hash of a key of this table's types, if they fit a word.
    #[inline]
    fn hash_of_word(&self, wanted: &[Value]) -> Option<u64> {
        let key = self.schema.primary_key();
        if !self.key_is_word || wanted.len() != key.len() {
            return None;
        }
        key::hash_of_word(wanted, key.iter().map(|at| self.column(*at).data_type))
    }

    /// Whether two keys with the same hash are the same key, so that no key needs to be compared.
    #[inline]
    pub fn is_exact(&self, hash: u64) -> bool {
        // The hash of a word is a word that has no other; two values stand for something else.
        self.key_is_word && hash > 1
    }

    /// A key as people write it.
    pub fn display_key(&self, wanted: &[Value]) -> String {
        let types = self.schema.primary_key().iter().map(|at| self.column(*at).data_type);
        key::display(wanted, types)
    }
}
