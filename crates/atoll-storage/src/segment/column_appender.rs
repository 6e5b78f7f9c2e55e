//! Stores into many slots of one column of a segment, with one pass through the write barrier.
//!
//! The slots of new rows are mostly adjacent. A column appender checks and, if needed, copies the
//! extents of the column once, widens the zone once, and sets bits a word at a time.

use atoll_machine::lines::LINE_BYTES;
use atoll_machine::{Machine, Ordering};
use atoll_memory::MemoryError;

use super::table_memory::TableMemory;
use super::{Barrier, Number, PRESENCE, Segment, column_line};
use crate::directory::Change;
use crate::layout::segment;
use crate::types::{Column, DataType};
use crate::zone;

/// A writer of values of one column into slots of one segment, which belong to the caller alone.
/// The caller ends it with [`Barrier::end_append`], in the same section of the gate.
pub struct ColumnAppender<'a, M> {
    access: TableMemory<'a, M>,
    data_type: DataType,
    column: usize,
    /// Slots of the segment.
    capacity: usize,
    values: u64,
    /// The value bits, for a column of `bool`.
    bools: Option<Bits<'a, M>>,
    /// The validity bits, for a nullable column.
    validity: Option<Bits<'a, M>>,
    zone: (u64, u64),
}

/// A bitmap in which bits are set and cleared a word at a time. The words also hold bits of other
/// rows (`SEG-3`).
struct Bits<'a, M> {
    access: TableMemory<'a, M>,
    bitmap: u64,
    word: usize,
    on: u64,
    off: u64,
}

impl<'a, M: Machine> Bits<'a, M> {
    fn new(access: TableMemory<'a, M>, bitmap: u64) -> Self {
        Self { access, bitmap, word: 0, on: 0, off: 0 }
    }

    #[inline]
    fn put(&mut self, slot: usize, on: bool) {
        if slot / 64 != self.word {
            self.write();
            self.word = slot / 64;
        }
        let bit = 1 << (slot % 64);
        *(if on { &mut self.on } else { &mut self.off }) |= bit;
    }

    /// Writes the bits that were put since the last write.
    fn write(&mut self) {
        let place = self.bitmap + (self.word * 8) as u64;
        if self.on != 0 {
            self.access.set_bits(place, self.on); // Release order; see `set_present`.
        }
        if self.off != 0 {
            self.access.word(place).fetch_and(!self.off, Ordering::Relaxed);
        }
        (self.on, self.off) = (0, 0);
    }
}

impl<M: Machine> ColumnAppender<'_, M> {
    /// Puts numbers or NULL into slots; the column has this type.
    #[inline]
    pub fn put_numbers<N: Number>(&mut self, values: impl Iterator<Item = (usize, Option<N>)>) {
        let cells = self.access.cells::<N>(self.values, self.capacity);
        for (slot, value) in values {
            cells.put(slot, value.unwrap_or_default());
            if let Some(bits) = &mut self.validity {
                bits.put(slot, value.is_some());
            }
            if let Some(value) = value {
                self.widen(value.zone());
            }
        }
    }

    /// Puts the image of a value (see [`crate::image`]) and its validity into a slot.
    #[inline]
    pub fn put(&mut self, slot: usize, image: &[u8], valid: bool) {
        match &mut self.bools {
            Some(bits) => bits.put(slot, image.first().is_some_and(|byte| *byte != 0)),
            None => self.access.write(self.values + (slot * image.len()) as u64, image),
        }
        if let Some(bits) = &mut self.validity {
            bits.put(slot, valid);
        }
        if valid && let Some(word) = zone::word(self.data_type, image) {
            self.widen(word);
        }
    }

    #[inline]
    fn widen(&mut self, word: u64) {
        self.zone = (self.zone.0.min(word), self.zone.1.max(word));
    }
}

impl<M: Machine> Barrier<M> {
    /// Begins to append values to a column.
    ///
    /// # Errors
    /// [`MemoryError::OutOfMemory`] when a frozen extent cannot be copied.
    pub fn begin_append(
        &self,
        change: Change,
        target: &Segment<M>,
        at: usize,
        &Column { data_type, nullable, .. }: &Column,
    ) -> Result<ColumnAppender<'_, M>, MemoryError> {
        let places = self.own_places(change, target, at, data_type, nullable)?;
        let bits = |bitmap| Bits::new(self.access(), bitmap);
        Ok(ColumnAppender {
            access: self.access(),
            data_type,
            column: at,
            capacity: target.capacity() as usize,
            values: places.values,
            bools: (data_type == DataType::Bool).then(|| bits(places.values)),
            validity: nullable.then(|| bits(places.validity)),
            zone: (zone::EMPTY_MIN, zone::EMPTY_MAX),
        })
    }

    /// Ends the appending: writes the remaining bits and widens the zone.
    pub fn end_append(&self, target: &Segment<M>, mut appender: ColumnAppender<'_, M>) {
        appender.bools.iter_mut().chain(&mut appender.validity).for_each(Bits::write);
        let (min, max) = appender.zone;
        if min <= max {
            self.widen(target.node() + column_line(appender.column), min, max);
        }
    }

    /// Prefetches the memory behind a slot of a column, into which the caller is likely to store
    /// `values` further values soon, and which no thread has used lately.
    #[inline]
    pub fn expect(
        &self,
        target: &Segment<M>,
        (at, width): (usize, usize),
        slot: usize,
        values: usize,
    ) {
        let behind = self.extents.values[at].place(target.number) + ((slot + 1) * width) as u64;
        let bytes = values * width;
        // The line of the last value is in the cache already.
        let used = behind as usize % LINE_BYTES;
        if used > 0 && used + bytes <= LINE_BYTES {
            return;
        }
        if let Some(address) = self.access().address(behind, bytes as u64) {
            M::prefetch(address, bytes);
        }
    }

    /// Makes slots present. Calls `before_visible` when nothing can fail any more and before any
    /// slot is present. The last action is an atomic read-modify-write with release order, so
    /// [`Machine::fence_behind_rmw`] may follow.
    ///
    /// # Errors
    /// [`MemoryError::OutOfMemory`] when a frozen extent cannot be copied; nothing has been changed
    /// then.
    pub fn set_present(
        &self,
        change: Change,
        target: &Segment<M>,
        slots: impl Iterator<Item = usize> + Clone,
        before_visible: impl FnOnce(),
    ) -> Result<(), MemoryError> {
        let presence = self.own(change, target, &self.extents.presence, || PRESENCE)?;
        before_visible();
        let filled = self.access().word(target.node() + segment::FILLED);
        let last = slots.clone().max().map_or(0, |slot| slot as u64 + 1);
        filled.fetch_max(last, Ordering::Relaxed);
        let mut bits = Bits::new(self.access(), presence);
        slots.for_each(|slot| bits.put(slot, true));
        bits.write();
        Ok(())
    }
}
