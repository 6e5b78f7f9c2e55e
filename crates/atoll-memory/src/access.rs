//! Safe reads and writes of a store by offset.
//!
//! [`View`] reads, in the owner and in attached processes; [`Access`] also writes. Every access is
//! checked against the size of the store. An offset out of bounds is a bug and panics; the checked
//! variants, which readers in other processes use, return `None`. All accesses are atomic (the
//! module `shared`), so a data race yields old or new bytes, never undefined behaviour.
//!
//! Invariants
//! - `ACCESS-1`: the mapping covers `capacity` bytes from `base` for as long as the store lives,
//!   and the view keeps the store alive.
//! - `ACCESS-2`: the allocator never returns an uncommitted extent. Other offsets inside the
//!   capacity that are not committed read as zero.

use std::hint::cold_path;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};

use crate::shared;
use crate::store::Store;

/// Read access to a store.
#[derive(Clone)]
pub struct View {
    base: *const u8,
    capacity: u64,
    /// Any range of at most [`SMALL_BYTES`] that begins at or before this offset is in bounds.
    small_until: u64,
    store: Arc<Store>,
}

/// Nearly all accesses are at most this long; for them one comparison checks the bounds.
const SMALL_BYTES: u64 = 4096;

// SAFETY: `base` points into the mapping that `store` owns (ACCESS-1), which belongs to no thread;
// all access through it is atomic.
unsafe impl Send for View {}
// SAFETY: as for `Send`.
unsafe impl Sync for View {}

/// Read and write access to a store.
#[derive(Clone)]
pub struct Access(View);

impl View {
    /// Reads `store`.
    pub fn new(store: Arc<Store>) -> Self {
        let capacity = store.capacity_bytes();
        assert!(capacity >= SMALL_BYTES, "a store has pages");
        Self { base: store.base(), capacity, small_until: capacity - SMALL_BYTES, store }
    }

    /// The store.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// Whether the bytes are inside the store.
    #[inline]
    pub fn contains(&self, offset: u64, len_bytes: u64) -> bool {
        if len_bytes <= SMALL_BYTES && offset <= self.small_until {
            return true;
        }
        cold_path();
        offset.checked_add(len_bytes).is_some_and(|end| end <= self.capacity)
    }

    #[inline]
    fn at(&self, offset: u64, len_bytes: u64) -> *const u8 {
        if !self.contains(offset, len_bytes) {
            outside(offset);
        }
        // SAFETY: inside the mapping (ACCESS-1).
        unsafe { self.base.add(offset as usize) }
    }

    /// A shared word of the store.
    #[inline]
    pub fn word(&self, offset: u64) -> &AtomicU64 {
        let pointer = self.at(offset, 8).cast::<AtomicU64>();
        assert!(pointer.is_aligned(), "offset {offset} is not aligned");
        // SAFETY: inside the mapping (`at`, ACCESS-1), aligned, only accessed atomically.
        unsafe { &*pointer }
    }

    /// Reads a word at an aligned offset.
    #[inline]
    pub fn load_u64(&self, offset: u64) -> u64 {
        self.word(offset).load(Ordering::Relaxed)
    }

    /// Reads bytes. An aligned value of 1, 2, 4 or 8 bytes is read in one access, anything else in
    /// several.
    #[inline(always)]
    pub fn read(&self, offset: u64, into: &mut [u8]) {
        let from = self.at(offset, into.len() as u64);
        // SAFETY: inside the mapping (`at`, ACCESS-1), only accessed atomically.
        unsafe { shared::read(from, into) };
    }

    /// Reads `len` bytes into words; the rest of the last word becomes zero.
    ///
    /// # Panics
    /// When `into` has fewer words than the bytes need.
    #[inline(always)]
    pub fn read_words(&self, offset: u64, len: usize, into: &[AtomicU64]) {
        let from = self.at(offset, len as u64);
        // SAFETY: inside the mapping (`at`, ACCESS-1), only accessed atomically.
        unsafe { shared::read_words(from, len, into) };
    }

    /// The address of an offset, for a prefetch only; outside the store it is meaningless.
    #[inline]
    pub fn hint(&self, offset: u64) -> *const u8 {
        self.base.wrapping_add(offset as usize)
    }

    /// The address of bytes inside the store, for passing them on without a copy; `None` if they
    /// are out of bounds.
    #[inline]
    pub fn address(&self, offset: u64, len_bytes: u64) -> Option<*const u8> {
        // SAFETY: inside the mapping (ACCESS-1).
        self.contains(offset, len_bytes).then(|| unsafe { self.base.add(offset as usize) })
    }
}

#[cold]
fn outside(offset: u64) -> ! {
    panic!("offset {offset} is outside the store");
}

macro_rules! scalars {
    ($name:ident, $word:ty) => {
        /// A slice of `len` numbers from a naturally aligned offset on, for a caller that accesses
        /// several of them, or one of them repeatedly: the bounds are checked once.
        #[inline]
        pub fn $name(&self, offset: u64, len: usize) -> &[$word] {
            let bytes = len.saturating_mul(size_of::<$word>());
            let pointer = self.at(offset, bytes as u64).cast::<$word>();
            assert!(pointer.is_aligned(), "offset {offset} is not aligned");
            // SAFETY: inside the mapping (`at`, ACCESS-1; no store has `u64::MAX` bytes), which is
            // writable (`Access::new`) and lives as long as `self` does, aligned, only accessed
            // atomically.
            unsafe { std::slice::from_raw_parts(pointer, len) }
        }
    };
}

impl Access {
    /// Reads and writes `store`.
    ///
    /// # Panics
    /// When the store is mapped for reading only: a bug of the caller.
    pub fn new(store: Arc<Store>) -> Self {
        assert!(store.is_writable(), "only the owner of a store writes to it");
        Self(View::new(store))
    }

    /// The same store for reading.
    pub fn view(&self) -> &View {
        &self.0
    }

    /// Writes a word at an aligned offset.
    #[inline]
    pub fn store_u64(&self, offset: u64, value: u64) {
        self.word(offset).store(value, Ordering::Relaxed);
    }

    scalars!(u16s, AtomicU16);
    scalars!(u32s, AtomicU32);
    scalars!(u64s, AtomicU64);

    /// Writes bytes, in pieces as [`View::read`] reads them.
    #[inline]
    pub fn write(&self, offset: u64, bytes: &[u8]) {
        let to = self.at(offset, bytes.len() as u64).cast_mut();
        // SAFETY: inside the mapping (`at`, ACCESS-1), which is writable (`Access::new`), only
        // accessed atomically.
        unsafe { shared::write(to, bytes) };
    }

    /// Copies `len_bytes` from a frozen extent, which does not change, to a new one that no other
    /// thread has seen yet.
    pub fn copy(&self, from: u64, to: u64, len_bytes: u64) {
        assert!(
            from.abs_diff(to) >= len_bytes,
            "extents at {from} and {to} overlap in {len_bytes} bytes"
        );
        let source = self.at(from, len_bytes);
        let target = self.at(to, len_bytes).cast_mut();
        // SAFETY: both are inside the mapping (`at`, ACCESS-1), which is writable, and do not
        // overlap; the source does not change (MEMORY-1) and only the caller knows the target.
        unsafe { std::ptr::copy_nonoverlapping(source, target, len_bytes as usize) };
    }

    /// Fills a new extent that no other thread has seen yet.
    pub fn fill(&self, offset: u64, byte: u8, len_bytes: u64) {
        let target = self.at(offset, len_bytes).cast_mut();
        // SAFETY: inside the mapping (`at`, ACCESS-1), which is writable; only the caller knows it.
        unsafe { std::ptr::write_bytes(target, byte, len_bytes as usize) };
    }
}

impl Deref for Access {
    type Target = View;

    fn deref(&self) -> &View {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::StoreOptions;

    #[test]
    fn a_range_that_ends_outside_the_store_is_out_of_bounds() {
        let (capacity_bytes, limit_bytes) = (4 << 20, 4 << 20);
        let options = StoreOptions { capacity_bytes, limit_bytes, huge_pages: false };
        let view = View::new(Arc::new(Store::create_memfd("access", &options).unwrap()));
        let capacity = view.store().capacity_bytes();
        for len in (0..40).chain([4096, capacity - 1, capacity]) {
            assert!(view.contains(0, len) && view.contains(capacity - len, len), "{len}");
            for offset in [capacity - len + 1, capacity + 1, u64::MAX - len, u64::MAX] {
                assert!(!view.contains(offset, len), "{offset} and {len}");
                assert_eq!(view.address(offset, len), None);
            }
        }
        assert!(!view.contains(0, capacity + 1) && !view.contains(1, u64::MAX));
        assert_eq!(view.load_u64(capacity - 8), 0);
    }
}
