//! Mappings of memory: the only module that makes, changes and ends them.
//!
//! A mapping hands out its address and no reference, so code that reads or stores there needs an
//! `unsafe` block of its own. Such a block relies on these invariants:
//!
//! - `MAPPING-1`: `start .. start + len` is mapped until the value is dropped. The kernel has
//!   chosen the addresses, and only this value replaces or unmaps pages there.
//! - `MAPPING-2`: a safe call on `&self` changes neither contents nor protection.
//! - `MAPPING-3`: a file that is mapped for writing is read-only in a forked child ([`fork`]). No
//!   child is forked between making such a mapping and registering it.

use std::io;
use std::os::fd::AsFd;
use std::ptr::{self, NonNull};

use rustix::mm::{self, Advice, MapFlags, MprotectFlags, ProtFlags};

use crate::binding::page_bytes;
use crate::fork;

const READ_WRITE: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);

/// An owned mapping; it is unmapped when it is dropped.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    len: usize,
    /// Whether it is registered as read-only in forked children.
    is_protected: bool,
}

// SAFETY: MAPPING-1: the addresses belong to the process and not to a thread; code that accesses
// the memory orders its accesses.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Private memory that can be written; it is zero.
    ///
    /// # Errors
    /// The kernel has no memory or no addresses.
    pub fn anonymous(len: usize) -> io::Result<Self> {
        Self::private(len, READ_WRITE, MapFlags::empty())
    }

    /// Addresses without memory: an access raises a signal.
    ///
    /// # Errors
    /// The kernel has no addresses.
    pub fn reserve(len: usize) -> io::Result<Self> {
        Self::private(len, ProtFlags::empty(), MapFlags::NORESERVE)
    }

    fn private(len: usize, access: ProtFlags, flags: MapFlags) -> io::Result<Self> {
        let flags = MapFlags::PRIVATE | flags;
        // SAFETY: a new mapping at an address that the kernel chooses.
        let start = unsafe { mm::mmap_anonymous(ptr::null_mut(), len, access, flags) }?;
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, len, is_protected: false })
    }

    /// The first `len` bytes of a file, for reading and writing; `flags` must make the mapping
    /// shared. Bytes behind the end of the file raise a signal.
    ///
    /// # Errors
    /// Those of `mmap`.
    pub fn of_file(file: impl AsFd, len: usize, flags: MapFlags) -> io::Result<Self> {
        // MAPPING-3
        let mut no_fork = fork::delay();
        // SAFETY: a new mapping at an address that the kernel chooses.
        let start = unsafe { mm::mmap(ptr::null_mut(), len, READ_WRITE, flags, file, 0) }?;
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        let mut mapping = Self { start, len, is_protected: false };
        mapping.protect(&mut no_fork);
        Ok(mapping)
    }

    fn protect(&mut self, no_fork: &mut fork::Delay) {
        // SAFETY: MAPPING-1, whole pages; `drop` ends the protection before it unmaps them.
        unsafe { no_fork.protect(self.start.as_ptr(), self.len) };
        self.is_protected = true;
    }

    /// Unmaps all but `len` bytes that begin at a multiple of `align`, a power of two. There must
    /// be room: `len + align` bytes or more.
    #[must_use]
    pub fn trimmed(mut self, align: usize, len: usize) -> Self {
        let start = self.start.as_ptr();
        let lead = start.addr().next_multiple_of(align) - start.addr();
        assert!(lead + len <= self.len && !self.is_protected, "no room to align a mapping");
        let end = start.wrapping_add(lead + len);
        let behind = self.len - lead - len;
        // SAFETY: MAPPING-1: both parts belong to this value, which ends to contain them. Nothing
        // accesses them: the value is owned. The call fails for a part of no bytes, and for lack
        // of memory; then the part stays mapped and unused.
        unsafe {
            let _ = mm::munmap(start.cast(), lead);
            let _ = mm::munmap(end.cast(), behind);
        }
        self.start = NonNull::new(start.wrapping_add(lead)).unwrap_or(self.start);
        self.len = len;
        self
    }

    /// Replaces a range by a part of a file, shared with other processes; with `writable`, forked
    /// children can only read the whole mapping.
    ///
    /// # Errors
    /// Those of `mmap`; the range may be unmapped then.
    ///
    /// # Panics
    /// The range is not inside the mapping.
    pub fn place_file(
        &mut self,
        (at, len): (usize, usize),
        (file, offset): (impl AsFd, u64),
        writable: bool,
    ) -> io::Result<()> {
        let to = self.part(at, len).cast();
        let flags = MapFlags::SHARED | MapFlags::NORESERVE | MapFlags::FIXED;
        let access = if writable { READ_WRITE } else { ProtFlags::READ };
        // MAPPING-3
        let mut no_fork = writable.then(fork::delay);
        // SAFETY: MAPPING-1: the range is inside this mapping, and no code uses it meanwhile, since
        // this value is borrowed mutably.
        unsafe { mm::mmap(to, len, access, flags, file, offset) }?;
        if let Some(no_fork) = &mut no_fork {
            self.protect(no_fork);
        }
        Ok(())
    }

    /// Replaces whole pages from `at` on by a private copy of `bytes`, which is read-only.
    ///
    /// # Errors
    /// Those of `mmap` and `mprotect`.
    ///
    /// # Panics
    /// The range is not inside the mapping.
    pub fn place_copy(&mut self, at: usize, bytes: &[u8]) -> io::Result<()> {
        let len = bytes.len().next_multiple_of(page_bytes());
        let to = self.part(at, len);
        let flags = MapFlags::PRIVATE | MapFlags::FIXED;
        // SAFETY: MAPPING-1: the range is inside this mapping, and no code uses it meanwhile, since
        // this value is borrowed mutably. It is as long as `bytes`, and writable for the copy.
        unsafe {
            mm::mmap_anonymous(to.cast(), len, READ_WRITE, flags)?;
            ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
            mm::mprotect(to.cast(), len, MprotectFlags::READ)?;
        }
        Ok(())
    }

    /// Advises the kernel about a range that begins at a page. A kernel returns an error for advice
    /// that it does not know.
    ///
    /// # Errors
    /// Those of `madvise`.
    ///
    /// # Panics
    /// The range is not inside the mapping, or the advice may change contents.
    pub fn advise(&self, at: usize, len: usize, advice: Advice) -> io::Result<()> {
        assert!(
            matches!(
                advice,
                Advice::Random
                    | Advice::WillNeed
                    | Advice::LinuxDontDump
                    | Advice::LinuxHugepage
                    | Advice::LinuxNoHugepage
                    | Advice::LinuxPopulateRead
                    | Advice::LinuxPopulateWrite
            ),
            "{advice:?} may change contents"
        );
        // SAFETY: MAPPING-1 and the check above: MAPPING-2.
        unsafe { mm::madvise(self.part(at, len).cast(), len, advice) }.map_err(io::Error::from)
    }

    /// Removes the pages of a range from the page table: private memory is zero afterwards, and a
    /// shared file keeps its contents.
    ///
    /// # Errors
    /// Those of `madvise`.
    ///
    /// # Safety
    /// The range is of a file, or zero is a valid value of everything in it, which may change under
    /// readers.
    ///
    /// # Panics
    /// The range is not inside the mapping.
    pub unsafe fn discard(&self, at: usize, len: usize) -> io::Result<()> {
        // Not `Advice::DontNeed`, which is the advice of POSIX and does nothing on Linux.
        let advice = Advice::LinuxDontNeed;
        // SAFETY: MAPPING-1; the caller permits the change.
        unsafe { mm::madvise(self.part(at, len).cast(), len, advice) }.map_err(io::Error::from)
    }

    /// Finds for each page of a range whether it is in memory, mapped by this process or not, and
    /// stores that in bit 0 of its byte. The range begins at a page; `pages` has a byte for each.
    ///
    /// # Errors
    /// Those of `mincore`.
    ///
    /// # Panics
    /// The range is not inside the mapping.
    pub fn resident_pages(&self, at: usize, pages: &mut [u8]) -> io::Result<()> {
        let len = pages.len() * page_bytes();
        // SAFETY: MAPPING-1, and `pages` has room for an answer for each page.
        let rc = unsafe { libc::mincore(self.part(at, len).cast(), len, pages.as_mut_ptr()) };
        if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// The first address.
    #[inline]
    #[must_use]
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Bytes of the mapping.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.len
    }

    fn part(&self, at: usize, len: usize) -> *mut u8 {
        assert!(at <= self.len && len <= self.len - at, "{at}, {len} of {}", self.len);
        self.start.as_ptr().wrapping_add(at)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if self.is_protected {
            fork::unprotect(self.start.as_ptr());
        }
        // SAFETY: MAPPING-1, and no code uses the addresses any more.
        let _ = unsafe { mm::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_trimmed_mapping_is_aligned_and_can_be_used() {
        let (align, len) = (1 << 21, 3 * page_bytes());
        for _ in 0..4 {
            let mapping = Mapping::anonymous(align + len).unwrap().trimmed(align, len);
            assert!(mapping.start().addr().get().is_multiple_of(align));
            assert_eq!(mapping.bytes(), len);
            mapping.advise(0, len, Advice::LinuxPopulateWrite).unwrap();
            let mut pages = [0; 3];
            mapping.resident_pages(0, &mut pages).unwrap();
            assert_eq!(pages.map(|page| page & 1), [1; 3]);
        }
    }

    #[test]
    #[should_panic(expected = "may change contents")]
    fn advice_that_may_change_contents_is_refused() {
        let _ = Mapping::anonymous(1).unwrap().advise(0, 1, Advice::LinuxDontNeed);
    }

    #[test]
    #[should_panic(expected = "of 1")]
    fn a_range_behind_the_end_is_refused() {
        let _ = Mapping::anonymous(1).unwrap().advise(1, 1, Advice::WillNeed);
    }
}
