//! Properties of a table's columns that every access needs, computed once.

use std::num::NonZeroU64;

use atoll_machine::Hints;
use atoll_machine::lines::LINE_BYTES;

#[cfg(doc)]
use super::Table;
#[cfg(doc)]
use crate::segment::Number;
use crate::types::Column;

/// The properties of a column that accesses need most often.
pub(super) struct Shape {
    /// Bytes of a value, 0 for a bit.
    pub(super) width: usize,
    /// No value crosses the end of a cache line, since arrays of values begin at one.
    pub(super) is_in_a_line: bool,
    pub(super) is_view: bool,
    /// A value is `width` bytes in the values extent and nothing else: the column holds no bits, no
    /// NULL and no views.
    pub(super) is_flat: bool,
    /// The column is flat and its type has no zones.
    pub(super) is_bytes: bool,
    /// The column is flat, and every bit pattern is a valid value.
    is_plain: bool,
    pub(super) is_in_key: bool,
    /// Bytes of an integer, for a column of integers (see [`Number`]); 0 for other types.
    pub(super) number_width: u8,
    /// `number_width` if the column cannot be NULL and an update may set it to every number; 0
    /// otherwise.
    pub(super) set_width: u8,
}

impl Shape {
    pub(super) fn of(column: &Column, is_in_key: bool) -> Self {
        let width = column.data_type.width();
        let is_in_a_line = width <= 1 || LINE_BYTES.is_multiple_of(width);
        let is_view = column.data_type.is_view();
        let is_flat = width > 0 && !is_view && !column.nullable;
        let number_width = if column.data_type.is_integer() { width as u8 } else { 0 };
        let sets_any = is_flat && !is_in_key && column.data_type.is_any_bytes();
        Self {
            width,
            is_in_a_line,
            is_view,
            is_flat,
            is_bytes: is_flat && !column.data_type.has_zone(),
            is_plain: is_flat && column.data_type.is_any_bytes(),
            is_in_key,
            number_width,
            set_width: if sets_any { number_width } else { 0 },
        }
    }
}

/// A column of fixed-width values of which every bit pattern is valid, and which cannot be NULL:
/// integers, floats, dates, timestamps and `binary(n)`. It belongs to the table that returned it
/// ([`Table::plain`]).
// One word, since a transaction passes it from step to step for each access. From the lowest bit:
// the bytes of a value, the position, and flags.
#[derive(Debug, Clone, Copy)]
pub struct PlainColumn(NonZeroU64);

impl PlainColumn {
    const POSITION_SHIFT: u32 = u32::BITS;
    const IN_KEY: u64 = 1 << 48;
    const IN_A_LINE: u64 = 1 << 49;
    const IS_BYTES: u64 = 1 << 50;
    const IN_TWO_LINES: u64 = 1 << 51;

    /// The column at this position, if it is plain.
    pub(super) fn of(at: usize, shape: &Shape) -> Option<Self> {
        let (at, width) = (u16::try_from(at).ok()?, u32::try_from(shape.width).ok()?);
        let bits = [
            (shape.is_in_key, Self::IN_KEY),
            (shape.is_in_a_line, Self::IN_A_LINE),
            (shape.is_bytes, Self::IS_BYTES),
            (Hints::TWO_LINES.contains(&shape.width), Self::IN_TWO_LINES),
        ];
        let what = bits.iter().fold(0, |what, (is, bit)| if *is { what | bit } else { what });
        let word = u64::from(width) | u64::from(at) << Self::POSITION_SHIFT | what;
        NonZeroU64::new(word).filter(|_| shape.is_plain).map(Self)
    }

    #[inline]
    fn is(self, what: u64) -> bool {
        self.0.get() & what != 0
    }

    /// Position of the column.
    #[inline]
    pub fn position(self) -> usize {
        (self.0.get() >> Self::POSITION_SHIFT) as u16 as usize
    }

    /// Whether the column is part of the primary key.
    #[inline]
    pub fn is_in_key(self) -> bool {
        self.is(Self::IN_KEY)
    }

    /// No value crosses the end of a cache line.
    #[inline]
    pub(super) fn is_in_a_line(self) -> bool {
        self.is(Self::IN_A_LINE)
    }

    /// A value spans two or three cache lines (its width is in [`Hints::TWO_LINES`]).
    #[inline]
    pub(super) fn is_in_two_lines(self) -> bool {
        self.is(Self::IN_TWO_LINES)
    }

    /// The type of the column has no zones.
    #[inline]
    pub(super) fn is_bytes(self) -> bool {
        self.is(Self::IS_BYTES)
    }

    /// Bytes of a value, at least one.
    #[inline]
    pub fn width(self) -> usize {
        self.0.get() as u32 as usize
    }
}
