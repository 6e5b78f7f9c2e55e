//! Files on persistent memory, written with store instructions.
//!
//! A file system that maps its files directly (DAX) and guarantees that a mapped page needs no
//! further metadata update (`MAP_SYNC`) lets a program make bytes durable without a system call: it
//! stores them past the caches ([`crate::lines`]). This guarantee, and not the name of a path,
//! identifies persistent memory. A write that extends a file goes through the kernel. So does a
//! read: for a bad block the kernel returns an error where a load would raise a signal.
//!
//! - `PM-1`: stores go only to allocated space of the file: the kernel writes bytes behind the end,
//!   and holes of a file are allocated when it is opened. So a full medium is an error, and not a
//!   signal.
//! - `PM-2`: stored bytes are durable at once; bytes that the kernel wrote, and the size, are
//!   durable with the next sync.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use rustix::fs::{FallocateFlags, fallocate};
use rustix::mm::MapFlags;

use super::buffer::write_zeroes;
use super::{MediumError, MediumFile};
use crate::fork::Replaced;
use crate::lines::{self, Lines, Processor, copy_through};
use crate::machine::Machine;
use crate::mapping::Mapping;
use crate::native::Native;

/// A growing file gets address space in steps of this size.
const STEP_BYTES: usize = 64 << 20;

/// The cost of emulated persistent memory, on top of the cost of the memory that it uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PmCost {
    /// Latency before the first byte of a read.
    pub read_latency: Duration,
    /// Latency until written bytes are durable.
    pub write_latency: Duration,
    /// Bandwidth of one reader; 0: no limit.
    pub read_bytes_s: u64,
    /// Bandwidth of one writer; 0: no limit.
    pub write_bytes_s: u64,
}

impl PmCost {
    fn ns(latency: Duration, bytes: usize, bytes_s: u64) -> u64 {
        let transfer = (bytes as u128 * 1_000_000_000).checked_div(bytes_s.into()).unwrap_or(0);
        latency.as_nanos() as u64 + transfer as u64
    }

    /// Nanoseconds to make `bytes` bytes durable.
    pub fn write_ns(&self, bytes: usize) -> u64 {
        Self::ns(self.write_latency, bytes, self.write_bytes_s)
    }

    /// Nanoseconds to read `bytes` bytes.
    pub fn read_ns(&self, bytes: usize) -> u64 {
        Self::ns(self.read_latency, bytes, self.read_bytes_s)
    }
}

/// Spins until `ns` nanoseconds have passed since `begun`, by the clock of [`Native`].
fn take_until(begun: u64, ns: u64) {
    while Native::now_ns() - begun < ns {
        std::hint::spin_loop();
    }
}

/// The backing of a file: the kernel and the processor, or a model of both that records the
/// operations.
pub(super) trait Backing: fmt::Debug + Send + Sync {
    /// The type that stores into the mapping.
    type Lines: Lines;

    fn lines(&self) -> &Self::Lines;

    /// Maps the file, which is writable through the lines as far as its space is allocated.
    fn map(&self, size: usize) -> io::Result<Mapped>;

    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<()>;

    /// Writes through the kernel: the bytes, and a size that the write changes, are durable after a
    /// sync.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    fn sync(&self) -> io::Result<()>;
}

/// An open file of a file system.
#[derive(Debug)]
pub(super) struct Kernel {
    file: File,
    flags: MapFlags,
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
        self.file.sync_data()
    }
}

/// A file; see the module.
#[derive(Debug)]
pub(super) struct PmFile<B = Kernel> {
    backing: B,
    path: String,
    mapped: RwLock<Mapped>,
    /// Whether the kernel has written something since the last sync. Locked during a sync.
    is_grown: Mutex<bool>,
    cost: Option<PmCost>,
}

/// The mapping of a file.
#[derive(Debug)]
pub(super) struct Mapped {
    /// The file may be shorter.
    mapping: Mapping,
    /// Bytes of the file.
    size: usize,
}

const SYNC: MapFlags = MapFlags::SHARED_VALIDATE.union(MapFlags::SYNC);

/// Bytes of the mapping of a file of this size, with address space for it to grow.
fn capacity(size: usize) -> usize {
    (size + 1).next_multiple_of(STEP_BYTES)
}

fn map(file: &File, size: usize, flags: MapFlags) -> io::Result<Mapped> {
    Ok(Mapped { mapping: Mapping::of_file(file, capacity(size), flags)?, size })
}

impl Mapped {
    /// Addresses for a file without memory: an access raises a signal.
    pub(super) fn of_nothing(size: usize) -> io::Result<Self> {
        Ok(Self { mapping: Mapping::reserve(capacity(size))?, size })
    }

    /// The first address.
    pub(super) fn address(&self) -> usize {
        self.mapping.start().addr().get()
    }
}

/// Whether the files of a folder are on persistent memory that can be written with stores. Tries it
/// with an unnamed file, since there is no other way to find out.
pub(super) fn is_pm(folder: &Path) -> bool {
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true).mode(0o600).custom_flags(libc::O_TMPFILE);
    let tried = options.open(folder).and_then(|file| {
        file.set_len(1)?;
        map(&file, 1, SYNC)
    });
    lines::is_supported() && tried.is_ok()
}

/// Allocates space for the whole file, also for ranges that a copy shares with another file or has
/// as holes.
fn take_space(file: &File, size: u64) -> io::Result<()> {
    loop {
        if fallocate(file, FallocateFlags::UNSHARE_RANGE, 0, size).is_ok() {
            return Ok(());
        }
        // The C library writes zeroes where a file system lacks the call, unlike `rustix`.
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

/// Whether a file can be mapped so that stores are durable: a file system may exclude single files.
pub(super) fn can_map(file: &File, cost: Option<PmCost>) -> bool {
    cost.is_some() || map(file, 1, SYNC).is_ok()
}

impl PmFile {
    /// A file that is open for reading and writing. With a cost it may be on any file system, and
    /// its bytes are durable only if that file system is in memory that survives.
    ///
    /// # Errors
    /// [`MediumError`].
    pub(super) fn new(
        (file, _withheld): (File, Replaced),
        path: String,
        cost: Option<PmCost>,
    ) -> Result<Self, MediumError> {
        let flags = if cost.is_some() { MapFlags::SHARED } else { SYNC };
        let size = file.metadata().and_then(|known| {
            // A copy of a file may have holes: PM-1.
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
    /// A file of this size, with all its space allocated.
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

    /// Writes bytes that extend the file, and zeroes between the old end and `offset`.
    fn grow(&self, offset: usize, bytes: &[u8]) -> Result<(), MediumError> {
        let mut mapped = self.mapped.write().unwrap_or_else(PoisonError::into_inner);
        let write = |bytes: &[u8], at| self.backing.write_at(bytes, at);
        let written = write_zeroes(mapped.size as u64, offset as u64, write)
            .and_then(|()| write(bytes, offset as u64));
        // Set after the writes: otherwise a concurrent sync could clear it before the writes that
        // it must make durable.
        *lock(&self.is_grown) = true;
        written.map_err(self.failed("write"))?;
        let size = mapped.size.max(offset + bytes.len());
        if size >= mapped.mapping.bytes() {
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
            let to = mapped.mapping.start().as_ptr().wrapping_add(offset);
            // SAFETY: the file's space is allocated up to `size` (PM-1) and mapped that far as long
            // as the guard lives; a caller that writes to a range of the file has that range for
            // itself.
            unsafe { copy_through(lines, to, bytes) };
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
        // PM-2: stored bytes are durable already.
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
        // A hole, as in a copy of a file.
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

    /// A file that another thread syncs before every write through the kernel.
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
    fn a_write_that_grows_a_file_is_synced_despite_concurrent_syncs() {
        let file = PmFile::on(Synced::default(), 0, "home".to_owned(), None).unwrap();
        let file = Arc::new(file);
        file.backing.file.set(Arc::downgrade(&file)).unwrap();
        file.write_at(10, b"behind a hole").unwrap();
        file.sync().unwrap();
        file.sync().unwrap();
        assert_eq!(*lock(&file.backing.done), ["write", "write", "sync"]);
    }
}
