//! The mapping of a whole store into one process, at an address aligned to a chunk.
//!
//! Invariants:
//! - `MAP-1`: `base .. base + len` stays mapped, shared, with the same protection, until the
//!   `Mapping` is dropped. A forked child is the exception: a writable mapping is read-only there
//!   (`MAPPING-3`).
//! - `MAP-2`: `base` is a multiple of [`CHUNK_BYTES`], so that an extent that is aligned in the
//!   store is aligned in memory and huge pages can be used.
//!
//! A failure leaves no mapping behind.

use super::CHUNK_BYTES;
use crate::error::MemoryError;
use atoll_machine::Mapping as Pages;
use rustix::mm::Advice;
use std::io;
use std::os::fd::BorrowedFd;

/// An owned mapping; unmapped on drop.
#[derive(Debug)]
pub(super) struct Mapping(Pages);

impl Mapping {
    /// Maps the first `len` bytes of `fd`, shared.
    pub(super) fn new(fd: BorrowedFd<'_>, len: u64, writable: bool) -> Result<Self, MemoryError> {
        let chunk = CHUNK_BYTES as usize;
        let Some((len, padded)) =
            usize::try_from(len).ok().and_then(|l| Some((l, l.checked_add(chunk)?)))
        else {
            return Err(MemoryError::InvalidOption {
                option: "the store's capacity in bytes",
                value: len,
                need: "it must fit this machine's address space",
            });
        };
        let refused = |source| refused(len, source);
        // A reservation with room to align; the store then replaces the aligned part of it.
        let mut pages = Pages::reserve(padded).map_err(refused)?.trimmed(chunk, len);
        pages.place_file((0, len), (fd, 0), writable).map_err(refused)?;
        Ok(Mapping(pages))
    }

    /// The first byte.
    pub(super) fn base(&self) -> *mut u8 {
        self.0.start().as_ptr()
    }

    /// Advises the kernel about the whole mapping; a kernel ignores advice that it does not know.
    pub(super) fn advise(&self, huge_pages: bool) {
        self.advise_all(Advice::LinuxDontDump);
        if huge_pages {
            self.advise_all(Advice::LinuxHugepage);
        }
    }

    fn advise_all(&self, advice: Advice) {
        let _ = self.0.advise(0, self.0.bytes(), advice);
    }

    /// Turns the kernel's read-ahead off for the mapping of a file, since pages are accessed in
    /// random order. A caller that reads a range in order calls [`Self::fetch`].
    pub(super) fn expect_no_order(&self) {
        self.advise_all(Advice::Random);
    }

    /// Forbids huge pages, for a mapping with pages that are moved one by one.
    pub(super) fn refuse_huge_pages(&self) {
        self.advise_all(Advice::LinuxNoHugepage);
    }

    /// Starts reading the pages of a range that are not in memory (a prefetch); an optimisation
    /// only.
    pub(super) fn fetch(&self, offset: u64, len: u64) {
        let lead = offset % atoll_machine::page_bytes() as u64;
        let (at, len) = ((offset - lead) as usize, (len + lead) as usize);
        let _ = self.0.advise(at, len, Advice::WillNeed);
    }

    /// Faults the pages of a range in for writing, if the kernel supports it; an optimisation only,
    /// so errors are ignored.
    pub(super) fn populate(&self, offset: u64, len: u64) {
        let _ = self.0.advise(offset as usize, len as usize, Advice::LinuxPopulateWrite);
    }

    /// Maps the pages of a range into this process's page table, as reads of them would; so a hole
    /// gets pages, too.
    pub(super) fn map_pages(&self, offset: u64, len: u64) -> Result<(), MemoryError> {
        let mapped = self.0.advise(offset as usize, len as usize, Advice::LinuxPopulateRead);
        mapped.map_err(MemoryError::system("madvise(MADV_POPULATE_READ)"))
    }

    /// Removes the pages of a range from this process's page table. The file keeps the pages with
    /// their contents; the next access maps them again.
    pub(super) fn unmap_pages(&self, offset: u64, len: u64) -> Result<(), MemoryError> {
        // SAFETY: MAP-1: the mapping is of a file.
        let removed = unsafe { self.0.discard(offset as usize, len as usize) };
        removed.map_err(MemoryError::system("madvise(MADV_DONTNEED)"))
    }

    /// Finds for each page of a range whether it is in memory, mapped by this process or not, and
    /// stores that in bit 0 of its byte. The range begins at a page; `pages` has a byte for each.
    pub(super) fn resident_pages(&self, offset: u64, pages: &mut [u8]) -> Result<(), MemoryError> {
        self.0.resident_pages(offset as usize, pages).map_err(MemoryError::system("mincore"))
    }
}

/// The error of a mapping of `len` bytes that the kernel has refused.
fn refused(len: usize, source: io::Error) -> MemoryError {
    if source.raw_os_error() == Some(libc::ENOMEM) {
        return MemoryError::Addresses { bytes: len as u64 };
    }
    MemoryError::System { call: "mmap", source }
}
