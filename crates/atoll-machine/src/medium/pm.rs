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

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use super::buffer::write_zeroes;
use super::{MediumError, MediumFile};
use crate::fork::{self, Replaced};
use crate::lines::{self, Lines, Processor, copy_through};
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

/// What a file lies on: the kernel and the processor, or a model of both that remembers.
pub(super) trait Backing: fmt::Debug + Send + Sync {
    /// What stores into the mapping.
    type Lines: Lines;

    fn lines(&self) -> &Self::Lines;

    /// The file in memory, which is writable through the lines as far as it has its space.
    fn map(&self, size: usize) -> io::Result<Mapped>;

    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<()>;

    /// Writes as the kernel does: durable after a sync, as is a size that it changes.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    fn sync(&self) -> io::Result<()>;
}

/// An open file of a file system.
#[derive(Debug)]
pub(super) struct Kernel {
    file: File,
    flags: libc::c_int,
    /// A forked child must not write to it.
    _withheld: Replaced,
}

impl Backing for Kernel {
    type Lines = Processor;

    fn lines(&self) -> &Processor {
        &Processor
    }

    fn map(&self, size: usize) -> io::Result<Mapped> {
        map(&self.file, size, self.flags)
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(into, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        // SAFETY: the descriptor is open for as long as `file` lives.
        match unsafe { libc::fdatasync(self.file.as_raw_fd()) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// A file; see the module.
#[derive(Debug)]
pub(super) struct PmFile<B = Kernel> {
    backing: B,
    path: String,
    mapped: RwLock<Mapped>,
    /// The kernel has written something since the last sync. Held while it is made durable.
    is_grown: Mutex<bool>,
    cost: Option<PmCost>,
}

/// Where a file lies in memory.
#[derive(Debug)]
pub(super) struct Mapped {
    address: NonNull<u8>,
    /// Of the mapping; the file may be shorter.
    capacity: usize,
    /// Of the file.
    size: usize,
    /// A forked child can only read it.
    is_protected: bool,
}

// SAFETY: the mapping belongs to the value, and stores into it are ordered by whoever writes to
// the file, as writes of the kernel would have to be.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

impl Drop for Mapped {
    fn drop(&mut self) {
        if self.is_protected {
            fork::unprotect(self.address.as_ptr());
        }
        // SAFETY: this is the mapping that `map` made, and nobody uses it any more.
        unsafe { libc::munmap(self.address.as_ptr().cast(), self.capacity) };
    }
}

const SYNC: libc::c_int = libc::MAP_SHARED_VALIDATE | libc::MAP_SYNC;

fn map(file: &File, size: usize, flags: libc::c_int) -> io::Result<Mapped> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    Mapped::new(size, access, flags, file.as_raw_fd())
}

impl Mapped {
    /// A mapping of a file of this size, with room for it to grow.
    fn new(
        size: usize,
        access: libc::c_int,
        flags: libc::c_int,
        file: libc::c_int,
    ) -> io::Result<Self> {
        let capacity = (size + 1).next_multiple_of(STEP_BYTES);
        let is_protected = flags & libc::MAP_TYPE != libc::MAP_PRIVATE;
        // No child is forked between making the mapping and registering it.
        let mut no_fork = is_protected.then(fork::delay);
        // SAFETY: a new mapping, at a place that the kernel chooses.
        let address = unsafe { libc::mmap(std::ptr::null_mut(), capacity, access, flags, file, 0) };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let address = NonNull::new(address.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        if let Some(no_fork) = &mut no_fork {
            // SAFETY: the mapping that was just made, of whole pages; `drop` ends this first.
            unsafe { no_fork.protect(address.as_ptr(), capacity) };
        }
        Ok(Self { address, capacity, size, is_protected })
    }

    /// Addresses for a file that is not there: who touches one gets a signal.
    pub(super) fn of_nothing(size: usize) -> io::Result<Self> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        Self::new(size, libc::PROT_NONE, flags, -1)
    }

    /// The first of the addresses.
    pub(super) fn address(&self) -> usize {
        self.address.addr().get()
    }
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
    pub(super) fn new(
        (file, _withheld): (File, Replaced),
        path: String,
        cost: Option<PmCost>,
    ) -> Result<Self, MediumError> {
        let flags = if cost.is_some() { libc::MAP_SHARED } else { SYNC };
        let size = file.metadata().and_then(|known| {
            // A copy of a file may have got holes: PM-1.
            if known.len() > 0 {
                take_space(&file, known.len())?;
            }
            Ok(known.len())
        });
        let size = size.map_err(|source| MediumError::new("map", &path, source))?;
        Self::on(Kernel { file, flags, _withheld }, size as usize, path, cost)
    }
}

impl<B: Backing> PmFile<B> {
    /// A file of this size, all of which has its space.
    ///
    /// # Errors
    /// [`MediumError`].
    pub(super) fn on(
        backing: B,
        size: usize,
        path: String,
        cost: Option<PmCost>,
    ) -> Result<Self, MediumError> {
        let mapped = backing.map(size);
        let mapped = mapped.map_err(|source| MediumError::new("map", &path, source))?;
        let (mapped, is_grown) = (RwLock::new(mapped), Mutex::new(false));
        Ok(Self { backing, path, mapped, is_grown, cost })
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
        let write = |bytes: &[u8], at| self.backing.write_at(bytes, at);
        let written = write_zeroes(mapped.size as u64, offset as u64, write)
            .and_then(|()| write(bytes, offset as u64));
        // Not before: a sync of somebody else would have taken it for what it makes durable.
        *lock(&self.is_grown) = true;
        written.map_err(self.failed("write"))?;
        let size = mapped.size.max(offset + bytes.len());
        if size >= mapped.capacity {
            *mapped = self.backing.map(size).map_err(self.failed("map"))?;
        }
        mapped.size = size;
        Ok(())
    }
}

impl<B: Backing> MediumFile for PmFile<B> {
    fn size(&self) -> Result<u64, MediumError> {
        Ok(self.mapped().size as u64)
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<(), MediumError> {
        let begun = Native::now_ns();
        self.backing.read_at(into, offset).map_err(self.failed("read"))?;
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
            let lines = self.backing.lines();
            // SAFETY: the file has its space up to `size` (PM-1) and is mapped that far, for as
            // long as the guard lives; who writes to a place of a file has it for itself.
            unsafe { copy_through(lines, mapped.address.add(offset).as_ptr(), bytes) };
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
            self.backing.sync().map_err(self.failed("sync"))?;
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
    use std::sync::{Arc, OnceLock, Weak};

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

    /// A file that somebody else syncs before every write of the kernel.
    #[derive(Debug, Default)]
    struct Synced {
        file: OnceLock<Weak<PmFile<Self>>>,
        done: Mutex<Vec<&'static str>>,
    }

    impl Backing for Synced {
        type Lines = Processor;

        fn lines(&self) -> &Processor {
            &Processor
        }

        fn map(&self, size: usize) -> io::Result<Mapped> {
            Mapped::of_nothing(size)
        }

        fn read_at(&self, _into: &mut [u8], _offset: u64) -> io::Result<()> {
            Ok(())
        }

        fn write_at(&self, _bytes: &[u8], _offset: u64) -> io::Result<()> {
            self.file.get().unwrap().upgrade().unwrap().sync().unwrap();
            lock(&self.done).push("write");
            Ok(())
        }

        fn sync(&self) -> io::Result<()> {
            lock(&self.done).push("sync");
            Ok(())
        }
    }

    #[test]
    fn what_grows_a_file_is_synced_whoever_else_syncs_it() {
        let file = PmFile::on(Synced::default(), 0, "home".to_owned(), None).unwrap();
        let file = Arc::new(file);
        file.backing.file.set(Arc::downgrade(&file)).unwrap();
        file.write_at(10, b"behind a hole").unwrap();
        file.sync().unwrap();
        file.sync().unwrap();
        assert_eq!(*lock(&file.backing.done), ["write", "write", "sync"]);
    }
}
