//! Storing and reading integers.

use atoll_machine::{Machine, Ordering};
use atoll_memory::MemoryError;

use super::cells::{Cells, Number};
use super::{Barrier, Segment, Slot, column_line, values_of};
use crate::directory::Change;
use crate::layout::RowId;
use crate::undo::UndoList;
use crate::zone;

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
        undo: &mut UndoList<M>,
    ) -> Result<Option<N>, MemoryError> {
        let what = || values_of(at, size_of::<N>());
        let values = self.own_of(change, slot, &self.extents.values[at], what)?;
        let cell = self.number_at::<N>(values, slot.id);
        let old = cell.get(0);
        let Some(new) = new(old) else { return Ok(None) };
        let entry = (change.inside.epoch, self.table, slot.id);
        undo.push_value(entry, (at as u16, true), size_of::<N>(), |words| {
            words[0].store(old.padded(), Ordering::Relaxed);
        });
        cell.put(0, new);
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
        self.number_at::<N>(values, slot.id).get(0)
    }

    #[inline]
    fn number_at<N: Number>(&self, values: u64, row: RowId) -> Cells<'_, N, M> {
        self.access().cells(values + (row.slot() * size_of::<N>()) as u64, 1)
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
        self.number_at::<N>(values, slot.id).put(0, number);
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
        let cells = self.access().cells::<N>(values, target.capacity() as usize);
        let (mut least, mut greatest) = (zone::EMPTY_MIN, zone::EMPTY_MAX);
        for (slot, number) in numbers {
            cells.put(slot, number);
            (least, greatest) = (least.min(number.zone()), greatest.max(number.zone()));
        }
        self.widen(target.node() + column_line(at), least, greatest);
        Ok(())
    }
}
