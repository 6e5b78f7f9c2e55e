//! Integers, the most frequent type of changed values: each is read and stored in one access of its
//! width.

use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};

use atoll_machine::Machine;
use atoll_memory::{Access, MemoryError};

use super::{Barrier, Segment, Slot, column_line, values_of};
use crate::directory::Change;
use crate::layout::{RowId, SEGMENT_ROWS};
use crate::undo::UndoList;
use crate::zone;

/// An integer as a column holds it: `smallint`, `integer` and `date`, `bigint` and `timestamp`.
pub trait Number: Copy + Default {
    /// The atomic type that holds it in memory.
    type Cell;

    /// The memory of `len` numbers from a place on.
    fn cells(access: &Access, place: u64, len: usize) -> &[Self::Cell];
    /// Loads the number.
    fn get(cell: &Self::Cell) -> Self;
    /// Stores the number.
    fn put(self, cell: &Self::Cell);
    /// Its image, padded with zeroes to a word.
    fn padded(self) -> u64;
    /// Its word in a zone.
    fn zone(self) -> u64;
    /// The sum, or `None` on overflow.
    fn plus(self, other: Self) -> Option<Self>;
}

macro_rules! number {
    ($rust:ty, $word:ty, $cell:ty, $cells:ident) => {
        impl Number for $rust {
            type Cell = $cell;

            #[inline]
            fn cells(access: &Access, place: u64, len: usize) -> &[$cell] {
                access.$cells(place, len)
            }

            #[inline]
            fn get(cell: &$cell) -> Self {
                // In the processor's byte order, which is little-endian (see the layout).
                cell.load(Ordering::Relaxed) as Self
            }

            #[inline]
            fn put(self, cell: &$cell) {
                cell.store(self as $word, Ordering::Relaxed);
            }

            #[inline]
            fn padded(self) -> u64 {
                (self as $word).into()
            }

            #[inline]
            fn zone(self) -> u64 {
                zone::of_i64(self.into())
            }

            #[inline]
            fn plus(self, other: Self) -> Option<Self> {
                self.checked_add(other)
            }
        }
    };
}

number!(i16, u16, AtomicU16, u16s);
number!(i32, u32, AtomicU32, u32s);
number!(i64, u64, AtomicU64, u64s);

impl<M: Machine> Barrier<M> {
    /// As [`Barrier::replace_value`], for a column of such numbers that cannot be NULL: replaces
    /// the old number by the result of `new` and returns it; stores nothing if `new` returns
    /// `None`.
    ///
    /// # Errors
    /// As there.
    #[inline(always)]
    pub fn replace_number<N: Number>(
        &self,
        change: Change,
        slot: Slot<'_, M>,
        at: usize,
        new: impl FnOnce(N) -> Option<N>,
        undo: &mut UndoList,
    ) -> Result<Option<N>, MemoryError> {
        let what = || values_of(at, size_of::<N>());
        let values = self.own_of(change, slot, &self.extents.values[at], what)?;
        let cell = self.number_at::<N>(values, slot.id);
        let old = N::get(cell);
        let Some(new) = new(old) else { return Ok(None) };
        let entry = (change.inside.epoch, self.table, slot.id);
        undo.push_value(entry, (at as u16, true), size_of::<N>(), |words| {
            words[0].store(old.padded(), Ordering::Relaxed);
        });
        new.put(cell);
        self.widen_by(slot.segment, at, new);
        Ok(Some(new))
    }

    /// Widens the zone of a column of such numbers so that it includes `number`.
    #[inline]
    pub fn widen_by<N: Number>(&self, target: &Segment<M>, at: usize, number: N) {
        self.widen(target.node() + column_line(at), number.zone(), number.zone());
    }

    /// Reads a number; 0 for NULL.
    #[inline]
    pub fn number<N: Number>(&self, slot: Slot<'_, M>, at: usize) -> N {
        let values = self.extents.values[at].place(slot.id.segment());
        N::get(self.number_at::<N>(values, slot.id))
    }

    #[inline]
    fn number_at<N: Number>(&self, values: u64, row: RowId) -> &N::Cell {
        &N::cells(self.access(), values + (row.slot() * size_of::<N>()) as u64, 1)[0]
    }

    /// Puts a number into a slot that belongs to the caller alone, in a column of such numbers that
    /// cannot be NULL.
    ///
    /// # Errors
    /// As [`Barrier::fill_numbers`].
    #[inline]
    pub fn fill_number<N: Number>(
        &self,
        change: Change,
        slot: Slot<'_, M>,
        at: usize,
        number: N,
    ) -> Result<(), MemoryError> {
        let what = || values_of(at, size_of::<N>());
        let values = self.own_of(change, slot, &self.extents.values[at], what)?;
        number.put(self.number_at::<N>(values, slot.id));
        self.widen_by(slot.segment, at, number);
        Ok(())
    }

    /// Puts numbers into slots that belong to the caller alone, in a column of such numbers that
    /// cannot be NULL.
    ///
    /// # Errors
    /// [`MemoryError::OutOfMemory`] when a frozen extent cannot be copied; nothing is stored then.
    #[inline]
    pub fn fill_numbers<N: Number>(
        &self,
        change: Change,
        target: &Segment<M>,
        at: usize,
        numbers: impl Iterator<Item = (usize, N)>,
    ) -> Result<(), MemoryError> {
        let what = || values_of(at, size_of::<N>());
        let values = self.own(change, target, &self.extents.values[at], what)?;
        // An array of known length, so that the compiler can drop the bounds checks.
        let cells: &[N::Cell; SEGMENT_ROWS] = N::cells(self.access(), values, SEGMENT_ROWS)
            .first_chunk()
            .expect("the extent has a value for each row of a segment");
        let (mut least, mut greatest) = (zone::EMPTY_MIN, zone::EMPTY_MAX);
        for (slot, number) in numbers {
            number.put(&cells[slot]);
            (least, greatest) = (least.min(number.zone()), greatest.max(number.zone()));
        }
        self.widen(target.node() + column_line(at), least, greatest);
        Ok(())
    }
}
