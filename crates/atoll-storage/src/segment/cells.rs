//! Integers in table memory, the most frequent type of changed values: each is read and stored in
//! one access of its width, which is reported to the machine first (`MACHINE-1`).

use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64};

use atoll_machine::{Machine, Ordering};
use atoll_memory::Access;

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

/// Numbers in table memory.
pub(super) struct Cells<'a, N: Number, M> {
    cells: &'a [N::Cell],
    machine: PhantomData<fn() -> M>,
}

impl<'a, N: Number, M: Machine> Cells<'a, N, M> {
    /// The numbers in these cells.
    #[inline(always)]
    pub(super) fn new(cells: &'a [N::Cell]) -> Self {
        Self { cells, machine: PhantomData }
    }

    /// Loads a number.
    #[inline(always)]
    pub(super) fn get(&self, at: usize) -> N {
        let cell = &self.cells[at];
        M::read(ptr::from_ref(cell).cast(), size_of_val(cell));
        N::get(cell)
    }

    /// Stores a number.
    #[inline(always)]
    pub(super) fn put(&self, at: usize, number: N) {
        let cell = &self.cells[at];
        M::write(ptr::from_ref(cell).cast(), size_of_val(cell));
        number.put(cell);
    }
}
