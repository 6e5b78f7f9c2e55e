//! The mapping of a whole store into one process, at an address aligned to a chunk.
//!
//! Invariants:
//! - `MAP-1`: `base .. base + len` stays mapped, shared, with the same protection, until the
//!   `Mapping` is dropped.
//!   A forked child is the exception: a writable mapping is read-only there ([`fork`]).
//! - `MAP-2`: `base` is a multiple of [`CHUNK_BYTES`], so that an extent that is aligned in the
//!   store is aligned in memory and huge pages can be used.
//!
//! A failure leaves no mapping behind.

use super::CHUNK_BYTES;
use crate::error::MemoryError;
use atoll_machine::fork;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

/// An owned mapping; unmapped on drop.
#[derive(Debug)]
pub(super) struct Mapping {
    base: *mut u8,
    len: usize,
    writable: bool,
}

// SAFETY: MAP-1: the address range belongs to the process, not to a thread; the users of the store
// coordinate writes to its bytes.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `len` bytes of `fd`, shared.
    pub(super) fn new(fd: BorrowedFd<'_>, len: u64, writable: bool) -> Result<Self, MemoryError> {
        let too_large = MemoryError::InvalidOption {
            option: "the store's capacity in bytes",
            value: len,
            need: "it must fit this machine's address space",
        };
        let chunk = CHUNK_BYTES as usize;
        let Some((len, padded)) =
            usize::try_from(len).ok().and_then(|l| Some((l, l.checked_add(chunk)?)))
        else {
            return Err(too_large);
        };
        // No child is forked between making the mapping and registering it.
        let mut no_fork = writable.then(fork::delay);
        // A reservation with room to align; the store then replaces the aligned part of it.
        // SAFETY: a new anonymous mapping at an address of the kernel's choice.
        let room = unsafe {
            libc::mmap(
                ptr::null_mut(),
                padded,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if room == libc::MAP_FAILED {
            return Err(refused(len));
        }
        let room = room.cast::<u8>();
        let lead = room.align_offset(chunk);
        let protection =
            if writable { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
        // SAFETY: `lead < chunk`, so `lead + len` is inside the reservation made above, which no
        // other code knows; MAP_FIXED replaces only that, and the ends are unmapped once.
        unsafe {
            let base = room.add(lead);
            let mapped = libc::mmap(
                base.cast(),
                len,
                protection,
                libc::MAP_SHARED | libc::MAP_NORESERVE | libc::MAP_FIXED,
                fd.as_raw_fd(),
                0,
            );
            if mapped == libc::MAP_FAILED {
                let error = refused(len);
                libc::munmap(room.cast(), padded);
                return Err(error);
            }
            if lead > 0 {
                libc::munmap(room.cast(), lead);
            }
            if lead < chunk {
                libc::munmap(base.add(len).cast(), chunk - lead);
            }
            // The mapping was made above, and is unmapped after the registration has ended.
            if let Some(no_fork) = &mut no_fork {
                no_fork.protect(base, len);
            }
            Ok(Mapping { base, len, writable })
        }
    }

    /// The first byte.
    pub(super) fn base(&self) -> *mut u8 {
        self.base
    }

    /// Advises the kernel about the whole mapping; a kernel ignores advice that it does not know.
    pub(super) fn advise(&self, huge_pages: bool) {
        // SAFETY: MAP-1; neither advice changes contents.
        unsafe {
            libc::madvise(self.base.cast(), self.len, libc::MADV_DONTDUMP);
            if huge_pages {
                libc::madvise(self.base.cast(), self.len, libc::MADV_HUGEPAGE);
            }
        }
    }

    /// Turns the kernel's read-ahead off for the mapping of a file, since pages are accessed in
    /// random order. A caller that reads a range in order calls [`Self::fetch`].
    pub(super) fn expect_no_order(&self) {
        // SAFETY: MAP-1; the advice changes no contents.
        unsafe { libc::madvise(self.base.cast(), self.len, libc::MADV_RANDOM) };
    }

    /// Forbids huge pages, for a mapping with pages that are moved one by one.
    pub(super) fn refuse_huge_pages(&self) {
        // SAFETY: MAP-1; the advice changes no contents.
        unsafe { libc::madvise(self.base.cast(), self.len, libc::MADV_NOHUGEPAGE) };
    }

    /// Starts reading the pages of a range that are not in memory (a prefetch); an optimisation
    /// only.
    pub(super) fn fetch(&self, offset: u64, len: u64) {
        debug_assert!(offset + len <= self.len as u64);
        let lead = offset % atoll_machine::page_bytes() as u64;
        // SAFETY: MAP-1, within the mapping, from the start of a page; it changes no contents.
        unsafe {
            let start = self.base.add((offset - lead) as usize);
            libc::madvise(start.cast(), (len + lead) as usize, libc::MADV_WILLNEED);
        }
    }

    /// Faults the pages of a range in for writing, if the kernel supports it; an optimisation only,
    /// so errors are ignored.
    pub(super) fn populate(&self, offset: u64, len: u64) {
        debug_assert!(offset + len <= self.len as u64);
        // SAFETY: MAP-1, the range was checked by the caller against the store's capacity.
        unsafe {
            let start = self.base.add(offset as usize);
            libc::madvise(start.cast(), len as usize, libc::MADV_POPULATE_WRITE);
        }
    }

    /// Maps the pages of a range into this process's page table, as reads of them would; so a hole
    /// gets pages, too.
    pub(super) fn map_pages(&self, offset: u64, len: u64) -> Result<(), MemoryError> {
        debug_assert!(offset + len <= self.len as u64);
        // SAFETY: MAP-1, within the mapping; the effect is that of reading its bytes.
        let rc = unsafe {
            let start = self.base.add(offset as usize);
            libc::madvise(start.cast(), len as usize, libc::MADV_POPULATE_READ)
        };
        if rc == 0 { Ok(()) } else { Err(MemoryError::last_os("madvise(MADV_POPULATE_READ)")) }
    }

    /// Removes the pages of a range from this process's page table. The file keeps the pages with
    /// their contents; the next access maps them again.
    pub(super) fn unmap_pages(&self, offset: u64, len: u64) -> Result<(), MemoryError> {
        debug_assert!(offset + len <= self.len as u64);
        // SAFETY: MAP-1, within the mapping. It is shared, so its bytes are those of the file and
        // not of the page table: the advice changes none of them.
        let rc = unsafe {
            let start = self.base.add(offset as usize);
            libc::madvise(start.cast(), len as usize, libc::MADV_DONTNEED)
        };
        if rc == 0 { Ok(()) } else { Err(MemoryError::last_os("madvise(MADV_DONTNEED)")) }
    }

    /// Finds for each page of a range whether it is in memory, mapped by this process or not, and
    /// stores that in bit 0 of its byte. The range begins at a page; `pages` has a byte for each.
    pub(super) fn resident_pages(&self, offset: u64, pages: &mut [u8]) -> Result<(), MemoryError> {
        let len = pages.len() * atoll_machine::page_bytes();
        debug_assert!(offset as usize + len <= self.len);
        // SAFETY: MAP-1, within the mapping, and `pages` has room for an answer for each page.
        let rc = unsafe {
            let start = self.base.add(offset as usize);
            libc::mincore(start.cast(), len, pages.as_mut_ptr())
        };
        if rc == 0 { Ok(()) } else { Err(MemoryError::last_os("mincore")) }
    }
}

/// The error of a mapping of `len` bytes that the kernel has just refused.
fn refused(len: usize) -> MemoryError {
    match MemoryError::last_os("mmap") {
        MemoryError::System { source, .. } if source.raw_os_error() == Some(libc::ENOMEM) => {
            MemoryError::Addresses { bytes: len as u64 }
        }
        other => other,
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if self.writable {
            fork::unprotect(self.base);
        }
        // SAFETY: the range was mapped by `new` and is unmapped only here.
        unsafe {
            libc::munmap(self.base.cast(), self.len);
        }
    }
}
