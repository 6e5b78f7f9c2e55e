//! Files on persistent memory, written with stores.
//!
//! A file system that maps its files directly (DAX) and promises that a mapped page needs nothing
//! of it any more (`MAP_SYNC`) lets a program make bytes durable without asking the kernel: they
//! are copied past the caches ([`crate::lines`]). That promise, and not the name of a path, is what
//! tells persistent memory from anything else. What grows a file goes through the kernel, and so
//! does reading, which gets an error for a bad place where a load would get a signal.
//!
//! - `PM-1`: stores go only where the file has its space: behind its end bytes are written by the
//!   kernel, and holes of a file are given their space when it is opened. So a full medium is an
//!   error, and not a signal.
//! - `PM-2`: bytes that were stored are durable at once; what the kernel wrote, and the size, with
//!   the next sync.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use super::{MediumError, MediumFile, file};
use crate::lines;
use crate::machine::Machine;
use crate::native::Native;

/// Address space for a file that grows is taken in steps of this size.
const STEP_BYTES: usize = 64 << 20;

/// What persistent memory that is emulated costs, on top of what memory does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PmCost {
    /// Before the first byte of a read.
    pub read_latency: Duration,
    /// Before bytes that were written are durable.
    pub write_latency: Duration,
    /// Of one reader; 0: no limit.
    pub read_bytes_s: u64,
    /// Of one writer; 0: no limit.
    pub write_bytes_s: u64,
}

impl PmCost {
    fn ns(latency: Duration, bytes: usize, bytes_s: u64) -> u64 {
        let transfer = (bytes as u128 * 1_000_000_000).checked_div(bytes_s.into()).unwrap_or(0);
        latency.as_nanos() as u64 + transfer as u64
    }

    /// Nanoseconds for making so many bytes durable.
    pub fn write_ns(&self, bytes: usize) -> u64 {
        Self::ns(self.write_latency, bytes, self.write_bytes_s)
    }

    /// Nanoseconds for reading so many bytes.
    pub fn read_ns(&self, bytes: usize) -> u64 {
        Self::ns(self.read_latency, bytes, self.read_bytes_s)
    }
}

/// Takes at least so long since `begun`, of the clock of [`Native`].
fn take_until(begun: u64, ns: u64) {
    while Native::now_ns() - begun < ns {
        std::hint::spin_loop();
    }
}

/// A file; see the module.
#[derive(Debug)]
pub(super) struct PmFile {
    file: File,
    path: String,
    mapped: RwLock<Mapped>,
    /// The kernel has written something since the last sync. Held while it is made durable.
    is_grown: Mutex<bool>,
    flags: libc::c_int,
    cost: Option<PmCost>,
}

/// Where a file lies in memory.
#[derive(Debug)]
struct Mapped {
    address: NonNull<u8>,
    /// Of the mapping; the file may be shorter.
    capacity: usize,
    /// Of the file.
    size: usize,
}

// SAFETY: the mapping belongs to the value, and stores into it are ordered by whoever writes to
// the file, as writes of the kernel would have to be.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: this is the mapping that `map` made, and nobody uses it any more.
        unsafe { libc::munmap(self.address.as_ptr().cast(), self.capacity) };
    }
}

const SYNC: libc::c_int = libc::MAP_SHARED_VALIDATE | libc::MAP_SYNC;

fn map(file: &File, size: usize, flags: libc::c_int) -> io::Result<Mapped> {
    let capacity = (size + 1).next_multiple_of(STEP_BYTES);
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping of an open file, at a place that the kernel chooses.
    let address =
        unsafe { libc::mmap(std::ptr::null_mut(), capacity, access, flags, file.as_raw_fd(), 0) };
    if address == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    let address = NonNull::new(address.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
    Ok(Mapped { address, capacity, size })
}

/// Whether files in a folder lie on persistent memory that can be written with stores. Tried, with
/// a file without a name, since nothing else tells.
pub(super) fn is_pm(folder: &Path) -> bool {
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true).mode(0o600).custom_flags(libc::O_TMPFILE);
    let tried = options.open(folder).and_then(|file| {
        file.set_len(1)?;
        map(&file, 1, SYNC)
    });
    lines::is_supported() && tried.is_ok()
}

/// Gives all of a file space of its own, also what a copy shares with another or left out.
fn take_space(file: &File, size: u64) -> io::Result<()> {
    loop {
        // SAFETY: the descriptor is open.
        let unshared = unsafe {
            libc::fallocate(file.as_raw_fd(), libc::FALLOC_FL_UNSHARE_RANGE, 0, size as i64)
        };
        if unshared == 0 {
            return Ok(());
        }
        // SAFETY: the descriptor is open.
        let done = unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, size as i64) };
        match done {
            0 => return Ok(()),
            libc::EINTR => {}
            error => return Err(io::Error::from_raw_os_error(error)),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a file can be mapped so that stores are durable: single files of a file system may be
/// set not to be.
pub(super) fn can_map(file: &File, cost: Option<PmCost>) -> bool {
    cost.is_some() || map(file, 1, SYNC).is_ok()
}

impl PmFile {
    /// A file that is open for reading and writing; with a cost one of any file system, whose bytes
    /// are durable as far as that is in memory.
    ///
    /// # Errors
    /// [`MediumError`].
    pub(super) fn new(file: File, path: String, cost: Option<PmCost>) -> Result<Self, MediumError> {
        let flags = if cost.is_some() { libc::MAP_SHARED } else { SYNC };
        let mapped = file.metadata().map(|known| known.len()).and_then(|size| {
            // A copy of a file may have got holes: PM-1.
            if size > 0 {
                take_space(&file, size)?;
            }
            map(&file, size as usize, flags)
        });
        let mapped = mapped.map_err(|source| MediumError::new("map", &path, source))?;
        let (mapped, is_grown) = (RwLock::new(mapped), Mutex::new(false));
        Ok(Self { file, path, mapped, is_grown, flags, cost })
    }

    fn mapped(&self) -> RwLockReadGuard<'_, Mapped> {
        self.mapped.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn failed(&self, what: &'static str) -> impl Fn(io::Error) -> MediumError {
        move |source| MediumError::new(what, &self.path, source)
    }

    /// Writes what goes beyond the end of the file, and what is missing before it.
    fn grow(&self, offset: usize, bytes: &[u8]) -> Result<(), MediumError> {
        let mut mapped = self.mapped.write().unwrap_or_else(PoisonError::into_inner);
        *lock(&self.is_grown) = true;
        let write = |bytes: &[u8], at| self.file.write_all_at(bytes, at);
        file::write_zeroes(mapped.size as u64, offset as u64, write)
            .and_then(|()| write(bytes, offset as u64))
            .map_err(self.failed("write"))?;
        let size = mapped.size.max(offset + bytes.len());
        if size >= mapped.capacity {
            *mapped = map(&self.file, size, self.flags).map_err(self.failed("map"))?;
        }
        mapped.size = size;
        Ok(())
    }
}

impl MediumFile for PmFile {
    fn size(&self) -> Result<u64, MediumError> {
        Ok(self.mapped().size as u64)
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<(), MediumError> {
        let begun = Native::now_ns();
        self.file.read_exact_at(into, offset).map_err(self.failed("read"))?;
        if let Some(cost) = self.cost {
            take_until(begun, cost.read_ns(into.len()));
        }
        Ok(())
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), MediumError> {
        let begun = if self.cost.is_some() { Native::now_ns() } else { 0 };
        let offset = offset as usize;
        let mapped = self.mapped();
        if offset + bytes.len() > mapped.size {
            drop(mapped);
            self.grow(offset, bytes)?;
        } else {
            // SAFETY: the file has its space up to `size` (PM-1) and is mapped that far, for as
            // long as the guard lives; who writes to a place of a file has it for itself.
            unsafe { lines::copy_through(mapped.address.add(offset).as_ptr(), bytes) };
        }
        if let Some(cost) = self.cost {
            take_until(begun, cost.write_ns(bytes.len()));
        }
        Ok(())
    }

    fn reserve(&self, size_bytes: u64) -> Result<(), MediumError> {
        let size = self.mapped().size as u64;
        if size < size_bytes {
            self.grow(size_bytes as usize, &[])?;
        }
        Ok(())
    }

    fn sync(&self) -> Result<(), MediumError> {
        // PM-2: what was stored is durable already.
        let mut is_grown = lock(&self.is_grown);
        if *is_grown {
            // SAFETY: the descriptor is open for as long as `file` lives.
            if unsafe { libc::fdatasync(self.file.as_raw_fd()) } != 0 {
                return Err(self.failed("sync")(io::Error::last_os_error()));
            }
            *is_grown = false;
        }
        Ok(())
    }

    fn path(&self) -> &str {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::{FileMedium, Medium, MediumKind, Open};
    use super::*;

    const COST: PmCost = PmCost {
        read_latency: Duration::ZERO,
        write_latency: Duration::from_nanos(200),
        read_bytes_s: 0,
        write_bytes_s: 0,
    };

    #[test]
    fn bytes_written_within_and_behind_the_end_come_back() {
        let folder = tempfile::tempdir().unwrap();
        let medium = FileMedium::emulated_pm(folder.path(), COST).unwrap();
        assert_eq!(medium.kind(), MediumKind::EmulatedPm);
        let file = medium.open("home", Open::Create).unwrap();
        file.write_at(100, b"behind").unwrap();
        file.sync().unwrap();
        file.reserve(4096).unwrap();
        file.write_at(97, b"...BEH").unwrap();
        file.write_at(4090, b"across the end").unwrap();
        file.sync().unwrap();
        assert_eq!(file.size().unwrap(), 4104);
        let again = medium.open("home", Open::Read).unwrap();
        let mut bytes = vec![1; 4104];
        again.read_at(0, &mut bytes).unwrap();
        assert_eq!(bytes[90..108], *b"\0\0\0\0\0\0\0...BEHind\0\0");
        assert_eq!(bytes[4088..], *b"\0\0across the end");
        assert!(again.read_at(4100, &mut [0; 5]).is_err());
    }

    #[test]
    fn a_file_grows_beyond_what_was_mapped_at_first() {
        let folder = tempfile::tempdir().unwrap();
        let medium = FileMedium::emulated_pm(folder.path(), COST).unwrap();
        let file = medium.open("log", Open::Create).unwrap();
        file.write_at(0, b"first").unwrap();
        // A hole, as a copy of a file may have it.
        let hole = File::options().write(true).open(folder.path().join("log")).unwrap();
        hole.set_len(STEP_BYTES as u64 + 10).unwrap();
        let file = medium.open("log", Open::Write).unwrap();
        file.write_at(STEP_BYTES as u64 + 2, b"last").unwrap();
        file.write_at(STEP_BYTES as u64 + 10, b"more").unwrap();
        file.write_at(STEP_BYTES as u64 + 4, b"ST").unwrap();
        let mut bytes = [0; 14];
        file.read_at(STEP_BYTES as u64, &mut bytes).unwrap();
        assert_eq!(bytes, *b"\0\0laST\0\0\0\0more");
    }
}
