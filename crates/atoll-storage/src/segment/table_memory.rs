//! Table memory as transactions access it: each access is reported to the machine first
//! (`MACHINE-1`).
//!
//! On the real machine a report is nothing, and these functions are those of [`Access`].

use std::marker::PhantomData;
use std::sync::atomic::AtomicU64;

use atoll_machine::{Machine, Ordering};
use atoll_memory::Access;

use super::cells::{Cells, Number};

/// See the module.
pub(super) struct TableMemory<'a, M> {
    access: &'a Access,
    machine: PhantomData<fn() -> M>,
}

impl<M> Clone for TableMemory<'_, M> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<M> Copy for TableMemory<'_, M> {}

impl<'a, M: Machine> TableMemory<'a, M> {
    /// Accesses the memory of `access`.
    #[inline(always)]
    pub(super) fn new(access: &'a Access) -> Self {
        Self { access, machine: PhantomData }
    }

    #[inline(always)]
    fn reads(self, offset: u64, bytes: usize) {
        M::read(self.access.hint(offset), bytes);
    }

    #[inline(always)]
    fn writes(self, offset: u64, bytes: usize) {
        M::write(self.access.hint(offset), bytes);
    }

    /// As [`atoll_memory::View::read`].
    #[inline(always)]
    pub(super) fn read(self, offset: u64, into: &mut [u8]) {
        self.reads(offset, into.len());
        self.access.read(offset, into);
    }

    /// As [`atoll_memory::View::read_words`].
    #[inline(always)]
    pub(super) fn read_words(self, offset: u64, len: usize, into: &[AtomicU64]) {
        self.reads(offset, len);
        self.access.read_words(offset, len, into);
    }

    /// As [`Access::write`].
    #[inline(always)]
    pub(super) fn write(self, offset: u64, bytes: &[u8]) {
        self.writes(offset, bytes.len());
        self.access.write(offset, bytes);
    }

    /// Loads a word at an aligned offset.
    #[inline(always)]
    pub(super) fn load_u64(self, offset: u64) -> u64 {
        self.reads(offset, 8);
        self.access.load_u64(offset)
    }

    /// As [`TableMemory::load_u64`], with acquire order.
    #[inline(always)]
    pub(super) fn load_acquire(self, offset: u64) -> u64 {
        self.reads(offset, 8);
        self.access.word(offset).load(Ordering::Acquire)
    }

    /// Two adjacent words from an aligned offset on, which the caller reads.
    #[inline(always)]
    pub(super) fn pair(self, offset: u64) -> [&'a AtomicU64; 2] {
        self.reads(offset, 16);
        let words = self.access.u64s(offset, 2);
        [&words[0], &words[1]]
    }

    /// Stores a word at an aligned offset.
    #[inline(always)]
    pub(super) fn store_u64(self, offset: u64, value: u64) {
        self.word(offset).store(value, Ordering::Relaxed);
    }

    /// As [`TableMemory::store_u64`], with release order.
    #[inline(always)]
    pub(super) fn store_release(self, offset: u64, value: u64) {
        let word = self.word(offset);
        M::fence(Ordering::Release); // Table memory has no words of the machine.
        word.store(value, Ordering::Release);
    }

    /// Sets bits of a word at an aligned offset. An atomic read-modify-write with release order.
    #[inline(always)]
    pub(super) fn set_bits(self, offset: u64, bits: u64) {
        self.word(offset).fetch_or(bits, Ordering::AcqRel);
    }

    /// A word at an aligned offset, which the caller is about to change.
    #[inline(always)]
    pub(super) fn word(self, offset: u64) -> &'a AtomicU64 {
        self.writes(offset, 8);
        self.access.word(offset)
    }

    /// The cells of `len` numbers from an aligned offset on.
    #[inline(always)]
    pub(super) fn cells<N: Number>(self, offset: u64, len: usize) -> Cells<'a, N, M> {
        Cells::new(N::cells(self.access, offset, len))
    }

    /// Reports that the bytes at an offset have been copied to another one.
    pub(super) fn copied(self, from: u64, to: u64, bytes: u64) {
        self.reads(from, bytes as usize);
        self.writes(to, bytes as usize);
    }

    /// As [`Access::copy`].
    pub(super) fn copy(self, from: u64, to: u64, bytes: u64) {
        self.copied(from, to, bytes);
        self.access.copy(from, to, bytes);
    }

    /// As [`Access::fill`].
    pub(super) fn fill(self, offset: u64, byte: u8, bytes: u64) {
        self.writes(offset, bytes as usize);
        self.access.fill(offset, byte, bytes);
    }

    /// The address of an offset, for a prefetch only; outside the store it is meaningless.
    #[inline(always)]
    pub(super) fn hint(self, offset: u64) -> *const u8 {
        self.access.hint(offset)
    }

    /// The address of bytes inside the store, for a prefetch; `None` if they are out of bounds.
    #[inline(always)]
    pub(super) fn address(self, offset: u64, bytes: u64) -> Option<*const u8> {
        self.access.address(offset, bytes)
    }
}
