//! Reading values, and prefetching the memory that reads will need.
//!
//! Under a scheme with optimistic readers, a writer may change a row while a reader reads it. The
//! reader then gets arbitrary bytes, which the scheme discards when it validates the read.

use atoll_machine::{Hints, Machine};

use super::{PlainColumn, Slot, Table};
use crate::image::{self, HeapPlace, Plain};
use crate::layout::RowId;
use crate::segment::Number;
use crate::types::{Column, Value};

/// Fixed-width values up to this size are passed to a callback without an allocation.
const SHOWN_BYTES: usize = 64;

impl<M: Machine> Table<M> {
    /// Reads the image of a value (see [`crate::image`]), which has the width of the column;
    /// returns its validity.
    #[inline]
    pub fn load(&self, slot: Slot<'_, M>, at: usize, image: &mut [u8]) -> bool {
        let shape = &self.shapes[at];
        if shape.is_flat && image.len() == shape.width {
            self.barrier.load_flat(slot, at, image);
            return true;
        }
        let Column { data_type, nullable, .. } = *self.column(at);
        self.barrier.load_value(slot, at, data_type, nullable, image)
    }

    /// Whether a column holds texts or binaries.
    #[inline]
    pub fn is_view(&self, at: usize) -> bool {
        self.shapes[at].is_view
    }

    /// The plain column at a position, if there is one.
    #[inline]
    pub fn plain(&self, at: usize) -> Option<PlainColumn> {
        *self.plain_columns.get(at)?
    }

    /// Reads a value of a plain column; `into` has the column's width.
    #[inline(always)]
    pub fn load_plain(&self, slot: Slot<'_, M>, column: PlainColumn, into: &mut [u8]) {
        debug_assert_eq!(into.len(), column.width());
        self.barrier.load_flat(slot, column.position(), into);
    }

    /// Prefetches a value of a row.
    #[inline]
    pub fn prefetch_plain(&self, slot: Slot<'_, M>, column: PlainColumn) {
        M::prefetch(self.address_of_plain(slot, column), column.width());
    }

    /// Adds the line of an address, if there is one, and the address of a value to the prefetch
    /// hints.
    #[inline(always)]
    pub fn hint_at_plain(
        &self,
        line: Option<*const u8>,
        slot: Slot<'_, M>,
        column: PlainColumn,
        hints: &mut Hints,
    ) {
        let address = self.address_of_plain(slot, column);
        match line {
            // The most frequent case: the address's line and the lines of the value in one step.
            Some(line) if column.is_in_two_lines() => {
                return hints.add_line_and_two::<M>(line, address, column.width());
            }
            Some(line) => hints.add_line::<M>(line),
            None => {}
        }
        if column.is_in_a_line() {
            hints.add_line::<M>(address);
        } else {
            hints.add::<M>(address, column.width());
        }
    }

    /// The address of a value of a row, for a prefetch.
    #[inline(always)]
    fn address_of_plain(&self, slot: Slot<'_, M>, column: PlainColumn) -> *const u8 {
        let row = slot.id();
        self.barrier.hint_at(row, column.position(), row.slot() * column.width())
    }

    /// Reads a number of a column of this type; 0 for NULL.
    #[inline]
    pub fn number<N: Number>(&self, slot: Slot<'_, M>, at: usize) -> N {
        debug_assert!(self.has_numbers::<N>(at));
        self.barrier.number(slot, at)
    }

    /// A value of a row.
    pub fn value(&self, row: RowId, at: usize) -> Value {
        self.value_in(self.slot(row), at)
    }

    /// The value in a slot.
    pub fn value_in(&self, slot: Slot<'_, M>, at: usize) -> Value {
        let width = self.column(at).data_type.width().max(1);
        let mut room = [0; 16];
        let mut wide = Vec::new();
        let image = if width <= room.len() {
            &mut room[..width]
        } else {
            wide.resize(width, 0);
            &mut wide[..]
        };
        let valid = self.load(slot, at, image);
        if valid { self.value_of_image(slot, at, image) } else { Value::Null }
    }

    /// The value of a valid image of this row, which is the current image or an older one.
    pub fn value_of_image(&self, slot: Slot<'_, M>, at: usize, image: &[u8]) -> Value {
        let data_type = self.column(at).data_type;
        let heap = data_type.is_view().then(|| image::heap_place(image)).flatten();
        let value = match heap {
            Some(place) => self
                .barrier
                .heap_read(slot.segment(), at, place)
                .and_then(|bytes| image::of_bytes(data_type, bytes)),
            None => image::decode(data_type, image),
        };
        // Only an image that a writer is changing decodes to no value; the reader will discard the
        // result.
        value.unwrap_or(Value::Null)
    }

    /// Appends the plain bytes of a value of a row to `out`; returns its validity.
    pub fn plain_into(&self, slot: Slot<'_, M>, at: usize, out: &mut Vec<u8>) -> bool {
        self.show_plain(slot, at, |plain| plain.map(|bytes| out.extend_from_slice(bytes)).is_some())
    }

    /// Passes the plain bytes of a value of a row to `body`.
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
        let (view, is_valid) = self.barrier.view(slot, at, nullable);
        if !is_valid {
            return body(None);
        }
        if let Some(place) = HeapPlace::of_view(view) {
            return self.barrier.heap_show(slot.segment(), at, place, body);
        }
        let mut image = [0; 16];
        for (bytes, word) in image.chunks_exact_mut(8).zip(view) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        body(image::inline(&image))
    }

    /// Passes the plain bytes of a valid image of a row, which is the current image or an older
    /// one, to `body`. If a writer is changing the row, `body` may get other bytes or NULL; the
    /// reader will discard the result.
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
            Some(place) => self.barrier.heap_show(slot.segment(), at, place, body),
            None => body(image::inline(image)),
        }
    }

    /// Adds the addresses of values of rows to the prefetch hints, column by column, so that the
    /// fixed work per column is done once. Skips columns that do not exist.
    pub fn hint_at_values(&self, slots: &[Slot<'_, M>], columns: &[usize], hints: &mut Hints) {
        for at in columns.iter().copied() {
            let Some(shape) = self.shapes.get(at) else { continue };
            let (extents, width) = (self.barrier.hints_of(at), shape.width);
            if shape.is_in_a_line {
                for slot in slots {
                    hints.add_line::<M>(extents.of(slot.id(), width));
                }
                continue;
            }
            for slot in slots {
                hints.add::<M>(extents.of(slot.id(), width), width);
            }
        }
    }

    /// Adds the addresses of long values of rows to the prefetch hints; the views should be in the
    /// cache by then.
    pub fn hint_at_long_values(&self, slots: &[Slot<'_, M>], columns: &[usize], hints: &mut Hints) {
        for at in columns.iter().copied() {
            if !self.shapes.get(at).is_some_and(|shape| shape.is_view) {
                continue;
            }
            // A slot that was predicted need not exist.
            let exists = |slot: &&Slot<'_, M>| self.has_slot(slot.id());
            for slot in slots.iter().filter(exists) {
                // If a writer is changing the view, the wrong lines are prefetched, which is
                // harmless.
                let (view, _) = self.barrier.view(*slot, at, false);
                if let Some((place, bytes)) = HeapPlace::of_view(view)
                    .and_then(|place| self.barrier.place_in_heap(slot.segment(), at, place))
                {
                    hints.add::<M>(place, bytes);
                }
            }
        }
    }
}
