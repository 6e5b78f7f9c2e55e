//! Maps separate extents of a store side by side.
//!
//! The values of a column are stored in one extent for each segment. A program that needs the whole
//! column at one address would have to copy it. Instead this module maps the same pages a second
//! time, in order, so the column is one array without a copy. An extent with patched values is
//! replaced by a private copy.
//!
//! Invariants
//! - `STITCH-1`: the pieces are mapped into an address range that was reserved for them, so they
//!   never replace other memory of the process.
//! - `STITCH-2`: all pages are readable and never written.

use std::os::fd::AsRawFd;
use std::sync::Arc;

use crate::error::MemoryError;
use crate::store::Store;

/// A piece of the array.
#[derive(Debug)]
pub enum Piece<'p> {
    /// Bytes of the store: offset and length.
    Shared(u64, u64),
    /// A private copy of these bytes.
    Private(&'p [u8]),
}

impl Piece<'_> {
    fn len(&self) -> u64 {
        match self {
            Self::Shared(_, len) => *len,
            Self::Private(bytes) => bytes.len() as u64,
        }
    }
}

/// Extents of a store, mapped side by side.
#[derive(Debug)]
pub struct Stitched {
    address: *mut libc::c_void,
    len: usize,
    _store: Arc<Store>,
}

// SAFETY: the mapping belongs to no thread and is only read (STITCH-2).
unsafe impl Send for Stitched {}
// SAFETY: as for `Send`.
unsafe impl Sync for Stitched {}

fn system(call: &'static str) -> MemoryError {
    MemoryError::System { call, source: std::io::Error::last_os_error() }
}

impl Stitched {
    /// Maps the pieces in order. All but the last must be whole pages, and shared ones must start
    /// at a page boundary of the store.
    ///
    /// # Errors
    /// [`MemoryError::InvalidOption`] for other pieces, [`MemoryError::System`] when the kernel
    /// refuses (a process may have some 65,000 mappings).
    pub fn map(store: &Arc<Store>, pieces: &[Piece<'_>]) -> Result<Self, MemoryError> {
        let page = atoll_machine::binding::page_bytes() as u64;
        let whole = |value: u64| value.is_multiple_of(page);
        let inner = &pieces[..pieces.len().saturating_sub(1)];
        if let Some(odd) = inner.iter().find(|piece| !whole(piece.len())) {
            return Err(unaligned(odd.len()));
        }
        let total: u64 = pieces.iter().map(|piece| piece.len().next_multiple_of(page)).sum();
        let len = total.max(page) as usize;
        // SAFETY: reserves a range of addresses that nothing else uses; touches no memory.
        let address = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
            libc::mmap(std::ptr::null_mut(), len, libc::PROT_NONE, flags, -1, 0)
        };
        if address == libc::MAP_FAILED {
            return Err(system("mmap of a range for a column"));
        }
        let stitched = Self { address, len, _store: Arc::clone(store) };
        let mut at = 0u64;
        for piece in pieces {
            stitched.place(store, at, piece, page)?;
            at += piece.len().next_multiple_of(page);
        }
        Ok(stitched)
    }

    fn place(
        &self,
        store: &Store,
        at: u64,
        piece: &Piece<'_>,
        page: u64,
    ) -> Result<(), MemoryError> {
        let len = piece.len().next_multiple_of(page) as usize;
        let (prot, flags, fd, offset) = match piece {
            Piece::Shared(offset, bytes) => {
                if !offset.is_multiple_of(page) || store.slice(*offset, *bytes).is_none() {
                    return Err(unaligned(*offset));
                }
                let flags = libc::MAP_SHARED | libc::MAP_FIXED;
                (libc::PROT_READ, flags, store.fd().as_raw_fd(), *offset)
            }
            Piece::Private(_) => {
                let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
                (libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0)
            }
        };
        if len == 0 {
            return Ok(());
        }
        // SAFETY: `at + len` is inside the range that `map` reserved (STITCH-1): the sum of the
        // rounded lengths is its length.
        let mapped = unsafe {
            libc::mmap(self.address.byte_add(at as usize), len, prot, flags, fd, offset as i64)
        };
        if mapped == libc::MAP_FAILED {
            return Err(system("mmap of a column's extent"));
        }
        if let Piece::Private(bytes) = piece {
            // SAFETY: `len` bytes at `mapped` were just mapped writable for this call alone; they
            // become read-only before any other thread sees them (STITCH-2).
            let sealed = unsafe {
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), mapped.cast::<u8>(), bytes.len());
                libc::mprotect(mapped, len, libc::PROT_READ)
            };
            if sealed != 0 {
                return Err(system("mprotect of a patched extent"));
            }
        }
        Ok(())
    }

    /// The address of the first piece.
    pub fn address(&self) -> *const u8 {
        self.address.cast::<u8>()
    }
}

fn unaligned(value: u64) -> MemoryError {
    MemoryError::InvalidOption {
        option: "a piece of a column",
        value,
        need: "it must be whole pages of the store",
    }
}

impl Drop for Stitched {
    fn drop(&mut self) {
        // SAFETY: `map` made this range for this value; users of the address keep the value.
        unsafe { libc::munmap(self.address, self.len) };
    }
}
