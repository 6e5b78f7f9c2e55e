//! Segments in the owner process, and the write barrier.
//!
//! Every store into table memory goes through this module, so no caller can forget what a store
//! needs: the module copies an extent that a snapshot shows before it changes, publishes the copy
//! in the directory, and widens the zone.
//!
//! Protocol of a store, inside the gate
//! 1. Load the birth of the column's extent. If the extent is not frozen, neither in this epoch nor
//!    for a worker that may still be inside under the epoch before (`MEMORY-4`), store. This is the
//!    fast path.
//! 2. Otherwise (slow path) seal the epoch, take the segment's latch, copy the node if it is frozen
//!    (and, through [`Directory`], the path above it), check the extent again, copy it if it is
//!    frozen, and publish its place and then its birth, first in the node and then in the lists of
//!    the table (`SEG-4`).
//!
//! Invariants
//! - `SEG-1`: an extent that is not frozen belongs to a node that is not frozen, so the fast path
//!   needs to check only the birth of the extent (for the same reason as `DIR-2`).
//! - `SEG-2`: the birth of an extent is published after its place; a worker that sees the birth of
//!   its own epoch also sees the place.
//! - `SEG-3`: one worker at a time stores values of a row, since the caller holds the row's lock.
//!   Bits share words with the bits of other rows, so they are set and cleared atomically.
//! - `SEG-4`: the table also keeps place and birth of each extent in lists (`extents.rs`), which
//!   workers read instead of the node: an entry takes 16 bytes and a line of a node 64, so the
//!   lists fit into a cache where the nodes of all segments would not. Once other threads can find
//!   the segment, an entry changes only under the segment's latch, together with the node.
//!
//! A failed allocation leaves the segment unchanged.

mod cells;
mod column_appender;
mod constant;
mod dense_blocks;
mod detached;
mod extents;
mod grown;
mod growth;
mod heap;
mod node;
mod number;
mod retire;
mod segment_buffer;
mod segment_image;
mod slow_path;
mod table_memory;
mod value;

pub use cells::Number;
pub(crate) use constant::Constant;
pub use dense_blocks::DENSE_ROWS;
use dense_blocks::DenseBlocks;
pub(crate) use dense_blocks::DenseMark;

pub use detached::DetachedSegment;
pub use segment_buffer::{ColumnBuffer, SegmentBuffer};
pub use segment_image::{ColumnImage, SegmentImage};
pub use value::{Cell, ValuePlace};

use extents::{Extents, TableExtents};
pub(crate) use grown::Grown;
use growth::Growth;
use heap::Heap;
use node::{PRESENCE, Slotted, validity_of, values_of};
use table_memory::TableMemory;

use std::hint::cold_path;
use std::ops::Range;
use std::ptr;
use std::sync::Arc;

use atoll_machine::{Latch, Machine, Ordering, Word};
use atoll_memory::{Memory, MemoryError};

use crate::directory::{Change, Directory};
use crate::layout::{RowId, TableId, column, column_line, segment, segment_node_bytes};
use crate::stable::StableVec;
use crate::types::{Column, Schema};
use crate::zone;

const _: () = assert!(column::MAX == column::MIN + 8, "a zone is two adjacent words");

/// A segment in the owner process.
pub struct Segment<M: Machine> {
    number: u64,
    /// Offset of its current node.
    node: M::Word,
    /// Slots for which each extent has room; see `growth`.
    capacity: M::Word,
    latch: Latch<M, Growth>,
    /// One for each column that the segment has; only text and binary ever use theirs.
    heaps: Grown<Latch<M, Heap>, M>,
    gsn: Gsn<M>,
    /// The dense-block map of its slots.
    dense_blocks: DenseBlocks<M>,
}

/// The greatest GSN of a commit that wrote into the segment. It has a cache line of its own, since
/// the rest of a segment is mostly read.
#[repr(align(64))]
struct Gsn<M: Machine>(M::Word);

/// A slot of a table with its segment, so that a caller reads and stores values of its row without
/// a new lookup of the segment.
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
    /// The slot of a row of this segment.
    #[inline]
    pub(crate) fn new(id: RowId, segment: &'t Segment<M>) -> Self {
        debug_assert_eq!(id.segment(), segment.number);
        Self { id, segment }
    }

    /// The row in it.
    #[inline]
    pub fn id(&self) -> RowId {
        self.id
    }

    /// The greatest GSN of the visible commits that wrote into its segment.
    #[inline]
    pub fn gsn(&self) -> u64 {
        self.segment.gsn()
    }

    /// Raises the GSN of the segment. A commit that wrote into the segment calls this before it
    /// becomes visible.
    #[inline]
    pub fn raise_gsn(&self, gsn: u64) {
        self.segment.raise_gsn(gsn);
    }

    #[inline]
    pub(crate) fn segment(&self) -> &'t Segment<M> {
        self.segment
    }
}

/// The write barrier of a table: what every operation on its segments needs.
pub struct Barrier<M: Machine> {
    directory: Arc<Directory>,
    memory: Arc<Memory>,
    table: TableId,
    columns: Grown<Column, M>,
    /// The values with which later columns began.
    constants: StableVec<Constant, M>,
    extents: TableExtents<M>,
}

impl<M: Machine> Barrier<M> {
    /// The barrier of a table.
    pub fn new(directory: Arc<Directory>, table: TableId, schema: &Schema) -> Self {
        let memory = Arc::clone(directory.memory());
        let extents = TableExtents::new(schema);
        let columns: Grown<Column, M> = schema.columns().iter().cloned().collect();
        let constants = StableVec::default();
        Self { directory, memory, table, columns, constants, extents }
    }

    /// The directory of the database.
    pub(crate) fn directory(&self) -> &Directory {
        &self.directory
    }

    /// The memory behind the barrier.
    pub fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    /// The columns of which segments have values; snapshots may show fewer.
    pub(crate) fn columns(&self) -> &Grown<Column, M> {
        &self.columns
    }

    /// Number of the table.
    pub fn table(&self) -> TableId {
        self.table
    }

    #[inline]
    fn access(&self) -> TableMemory<'_, M> {
        TableMemory::new(self.memory.access())
    }

    /// Creates an empty segment with this capacity and adds it to the directory; `None` when the
    /// table is full.
    ///
    /// # Errors
    /// [`MemoryError::OutOfMemory`].
    pub fn create(&self, change: Change, capacity: u64) -> Result<Option<Segment<M>>, MemoryError> {
        let mut made = Vec::new();
        let columns = self.columns.len();
        let result = self.create_node(change, columns, capacity, &mut made).and_then(|node| {
            self.directory.add_segment(change, self.table, node).map(|number| (node, number))
        });
        if !matches!(result, Ok((_, Some(_)))) {
            made.iter().for_each(|offset| self.memory.discard(*offset));
        }
        let (node, Some(number)) = result? else { return Ok(None) };
        self.note(number, node, 0..columns);
        let heaps = (0..columns).map(|_| Latch::default()).collect();
        Ok(Some(Segment::new(number, node, capacity, heaps)))
    }

    /// Enters the extents of these columns of a segment, which no transaction can find yet, into
    /// the lists.
    fn note(&self, number: u64, node: u64, columns: Range<usize>) {
        let access = self.access();
        let first = self.columns.iter().take(columns.start);
        let skipped = if columns.start == 0 { 0 } else { self.extents.each(first).count() };
        let all = self.extents.each(self.columns.iter().take(columns.end));
        for (extents, what) in all.skip(skipped) {
            let load = |at| access.load_u64(node + at);
            extents.publish(number, load(what.place), load(what.birth)); // SHARED-2
        }
    }

    /// The lists of the columns of a segment, each with the place of its extents in the node.
    fn each(&self, target: &Segment<M>) -> impl Iterator<Item = (&Extents<M>, Slotted)> {
        self.extents.each(self.columns.iter().take(target.columns()))
    }

    fn create_node(
        &self,
        change: Change,
        columns: usize,
        capacity: u64,
        made: &mut Vec<u64>,
    ) -> Result<u64, MemoryError> {
        let epoch = change.inside.epoch;
        let access = self.access();
        let mut zeroed = |bytes: u64| -> Result<u64, MemoryError> {
            let extent = self.memory.allocate(bytes, change.purpose)?;
            made.push(extent.offset);
            // A slot that was never filled must read as well-formed values (empty views).
            access.fill(extent.offset, 0, bytes);
            Ok(extent.offset)
        };
        let node = zeroed(segment_node_bytes(columns))?;
        access.store_u64(node, epoch);
        access.store_u64(node + segment::COLUMNS, columns as u64);
        access.store_u64(node + segment::CAPACITY, capacity);
        // Columns that were added begin with their constants.
        let first = self.columns.first();
        for (_, what) in self.extents.each(self.columns.iter().take(first)) {
            access.store_u64(node + what.place, zeroed(what.bytes(capacity))?);
            access.store_u64(node + what.birth, epoch);
        }
        for at in 0..first {
            access.store_u64(node + column_line(at) + column::MIN, zone::EMPTY_MIN);
            access.store_u64(node + column_line(at) + column::MAX, zone::EMPTY_MAX);
        }
        (first..columns).for_each(|at| self.put_constant(node, at));
        Ok(node)
    }

    /// Makes a slot present or absent.
    ///
    /// # Errors
    /// As [`Barrier::store_value`].
    pub fn set_presence(
        &self,
        change: Change,
        target: &Segment<M>,
        slot: usize,
        present: bool,
    ) -> Result<(), MemoryError> {
        let presence = self.own(change, target, &self.extents.presence, || PRESENCE)?;
        if present {
            let node = target.node.load(Ordering::Acquire);
            let filled = self.access().word(node + segment::FILLED);
            filled.fetch_max(slot as u64 + 1, Ordering::Relaxed);
        }
        self.set_bit(presence, slot, present);
        Ok(())
    }

    /// The place of a segment's extent, into which the caller may store until the section of
    /// `change` ends. Copies the extent first if it is frozen.
    #[inline]
    fn own(
        &self,
        change: Change,
        target: &Segment<M>,
        extents: &Extents<M>,
        what: impl FnOnce() -> Slotted,
    ) -> Result<u64, MemoryError> {
        match self.writable(change, extents, target.number) {
            Some(place) => Ok(place),
            None => self.own_slow(change, target, extents, what()),
        }
    }

    /// As [`Barrier::own`], for the segment of a slot; the fast path does not load the segment.
    #[inline]
    fn own_of(
        &self,
        change: Change,
        slot: Slot<'_, M>,
        extents: &Extents<M>,
        what: impl FnOnce() -> Slotted,
    ) -> Result<u64, MemoryError> {
        match self.writable(change, extents, slot.id.segment()) {
            Some(place) => Ok(place),
            None => self.own_slow(change, slot.segment, extents, what()),
        }
    }

    /// The place of a segment's extent, if the caller may store into it without a copy until the
    /// section of `change` ends.
    #[inline]
    fn writable(&self, change: Change, extents: &Extents<M>, segment: u64) -> Option<u64> {
        let thawing = self.memory.thawing(); // before the birth is read: MEMORY-4
        extents.place_if(segment, |birth| Memory::may_store(change.inside, thawing, birth))
    }

    #[inline]
    fn set_bit(&self, bitmap: u64, slot: usize, on: bool) {
        let word = self.access().word(bitmap + (slot / 64 * 8) as u64);
        let bit = 1u64 << (slot % 64);
        if on {
            word.fetch_or(bit, Ordering::Relaxed);
        } else {
            word.fetch_and(!bit, Ordering::Relaxed);
        }
    }

    /// Widens the zone in a column's line so that it includes both words.
    #[inline]
    fn widen(&self, line: u64, least: u64, greatest: u64) {
        let [min, max] = self.access().pair(line + column::MIN);
        if least < min.load(Ordering::Relaxed) {
            cold_path();
            M::write(ptr::from_ref(min).cast(), size_of_val(min));
            min.fetch_min(least, Ordering::Relaxed);
        }
        if greatest > max.load(Ordering::Relaxed) {
            cold_path();
            M::write(ptr::from_ref(max).cast(), size_of_val(max));
            max.fetch_max(greatest, Ordering::Relaxed);
        }
    }

    /// The greatest value that a column of a segment has ever held, as a word of [`zone`].
    pub fn greatest(&self, target: &Segment<M>, at: usize) -> u64 {
        let node = target.node.load(Ordering::Acquire);
        self.access().load_u64(node + column_line(at) + column::MAX)
    }

    #[inline]
    fn bit(&self, bitmap: u64, slot: usize) -> bool {
        let word = self.access().load_u64(bitmap + (slot / 64 * 8) as u64);
        word >> (slot % 64) & 1 == 1
    }

    /// Whether a slot holds a row.
    pub fn is_present(&self, target: &Segment<M>, slot: usize) -> bool {
        (slot as u64) < target.capacity()
            && self.bit(self.extents.presence.place(target.number), slot)
    }

    /// The number of present rows, counted in the presence bitmap.
    pub fn count(&self, target: &Segment<M>) -> u64 {
        let capacity = target.capacity(); // Before the place: GROWTH-2.
        let presence = self.extents.presence.place(target.number);
        (0..capacity / 64)
            .map(|word| self.access().load_u64(presence + word * 8).count_ones())
            .map(u64::from)
            .sum()
    }
}

impl<M: Machine> Segment<M> {
    fn new(number: u64, node: u64, capacity: u64, heaps: Grown<Latch<M, Heap>, M>) -> Self {
        Self {
            number,
            node: M::Word::new(node),
            capacity: M::Word::new(capacity),
            latch: Latch::new(Growth::ended(capacity)),
            heaps,
            gsn: Gsn(M::Word::new(0)),
            dense_blocks: DenseBlocks::default(),
        }
    }

    /// Slots for which each extent has room.
    pub(crate) fn capacity(&self) -> u64 {
        self.capacity.load(Ordering::Acquire)
    }

    /// How many columns it has; the table may have been given more since.
    pub(crate) fn columns(&self) -> usize {
        self.heaps.len()
    }

    /// Its number in the table.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Offset of its current node.
    pub(crate) fn node(&self) -> u64 {
        self.node.load(Ordering::Acquire)
    }

    #[inline]
    pub(crate) fn gsn(&self) -> u64 {
        self.gsn.0.load(Ordering::Acquire)
    }

    #[inline]
    pub(crate) fn raise_gsn(&self, gsn: u64) {
        self.gsn.0.fetch_max(gsn, Ordering::AcqRel);
    }

    /// Whether the block of a slot is dense and has this mark.
    #[inline]
    pub(crate) fn is_dense(&self, slot: usize, mark: DenseMark) -> bool {
        self.dense_blocks.has(slot, mark)
    }

    /// Marks the block of a slot as dense. The caller has put a row into each slot of the block
    /// (`DENSE-1`).
    pub(crate) fn mark_dense(&self, slot: usize, mark: DenseMark) {
        self.dense_blocks.mark(slot, mark);
    }

    /// Invalidates the block of a slot, before its row is deleted or moved.
    pub(crate) fn invalidate_dense(&self, slot: usize) {
        self.dense_blocks.invalidate(slot);
    }

    /// The heap of a column.
    pub(crate) fn heap(&self, column: usize) -> &Latch<M, Heap> {
        &self.heaps[column]
    }
}
