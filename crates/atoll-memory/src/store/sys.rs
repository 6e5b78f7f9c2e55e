//! The system calls of a store, each wrapped so that the rest of the crate needs no `unsafe`
//! for them.
//!
//! Invariant `SYS-1`: a wrapper that takes an address range is only given ranges of a mapping
//! that the calling [`Store`](super::Store) owns. A failed call leaves nothing behind.

use crate::error::MemoryError;
use atoll_machine::process;
use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Copy-on-write file systems, by the numbers of the kernel: Btrfs, bcachefs and ZFS. An overwrite
/// needs new space there, whatever was reserved, and a full one would raise SIGBUS.
const COPYING_FILE_SYSTEMS: [i64; 3] = [0x9123_683e, 0xca45_1a4e, 0x2fc1_2fc1];

/// Creates an anonymous memory file of `size` bytes that can neither shrink nor grow.
pub(super) fn memfd(name: &str, size: u64) -> Result<OwnedFd, MemoryError> {
    let name = CString::new(name).map_err(|_| MemoryError::InvalidOption {
        option: "the position of a zero byte in the store's name",
        value: name.bytes().position(|b| b == 0).unwrap_or(0) as u64,
        need: "a name has no zero bytes",
    })?;
    // SAFETY: the name is a live, zero-terminated string.
    let fd =
        unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING) };
    if fd < 0 {
        return Err(MemoryError::last_os("memfd_create"));
    }
    // SAFETY: the call just returned this descriptor, which has no other owner.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    set_size(&fd, size)?;
    // A receiver of the read-only descriptor must not open it again for writing through /proc.
    // SAFETY: plain calls on an owned descriptor.
    unsafe {
        if libc::fchmod(fd.as_raw_fd(), 0o400) != 0 {
            return Err(MemoryError::last_os("fchmod"));
        }
        let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW;
        if libc::fcntl(fd.as_raw_fd(), libc::F_ADD_SEALS, seals) != 0 {
            return Err(MemoryError::last_os("fcntl(F_ADD_SEALS)"));
        }
    }
    Ok(fd)
}

/// Creates an unnamed file of `size` bytes in a folder; it disappears with its last descriptor and
/// mapping. As with a memory file, a process that receives a read-only descriptor cannot reopen it
/// for writing.
pub(super) fn unnamed_file(folder: &Path, size: u64) -> Result<OwnedFd, MemoryError> {
    let refused = |source| MemoryError::NoUnnamedFile {
        folder: folder.to_string_lossy().into_owned(),
        source,
    };
    let flags = libc::O_TMPFILE | libc::O_EXCL;
    let opened =
        OpenOptions::new().read(true).write(true).custom_flags(flags).mode(0o400).open(folder);
    let fd = OwnedFd::from(opened.map_err(refused)?);
    let mut facts = std::mem::MaybeUninit::<libc::statfs>::zeroed();
    // SAFETY: `facts` is a valid place for the answer; zeroed bytes are a valid `libc::statfs`.
    let facts = unsafe {
        if libc::fstatfs(fd.as_raw_fd(), facts.as_mut_ptr()) != 0 {
            return Err(MemoryError::last_os("fstatfs"));
        }
        facts.assume_init()
    };
    if COPYING_FILE_SYSTEMS.contains(&facts.f_type) {
        return Err(refused(io::Error::other(
            "its file system copies what is written again, so space cannot be reserved",
        )));
    }
    set_size(&fd, size)?;
    Ok(fd)
}

/// Sets a file's size.
pub(super) fn set_size(fd: &OwnedFd, size: u64) -> Result<(), MemoryError> {
    // SAFETY: a plain call on an owned descriptor.
    if unsafe { libc::ftruncate(fd.as_raw_fd(), size as libc::off_t) } != 0 {
        return Err(match MemoryError::last_os("ftruncate") {
            MemoryError::System { source, .. } if process::is_too_large(&source) => {
                MemoryError::FileSize { bytes: size }
            }
            other => other,
        });
    }
    Ok(())
}

/// A file's size and the bytes it occupies.
pub(super) fn sizes(fd: BorrowedFd<'_>) -> Result<(u64, u64), MemoryError> {
    let mut stat = std::mem::MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: `stat` is a valid place for the answer; zeroed bytes are a valid `libc::stat`.
    let stat = unsafe {
        if libc::fstat(fd.as_raw_fd(), stat.as_mut_ptr()) != 0 {
            return Err(MemoryError::last_os("fstat"));
        }
        stat.assume_init()
    };
    Ok((stat.st_size as u64, stat.st_blocks as u64 * 512))
}

/// Opens the file behind `fd` again for reading only, with an open file description of its own.
pub(super) fn reopen_read_only(fd: BorrowedFd<'_>) -> Result<OwnedFd, MemoryError> {
    File::open(format!("/proc/self/fd/{}", fd.as_raw_fd()))
        .map(OwnedFd::from)
        .map_err(|source| MemoryError::System { call: "open(/proc/self/fd)", source })
}

/// Takes the file's writer lock for as long as `fd` is open; `false` if another has it.
pub(super) fn try_lock(fd: &impl AsFd) -> Result<bool, MemoryError> {
    // SAFETY: a plain call on an owned descriptor.
    if unsafe { libc::flock(fd.as_fd().as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
        return Ok(true);
    }
    match io::Error::last_os_error() {
        e if e.kind() == io::ErrorKind::WouldBlock => Ok(false),
        source => Err(MemoryError::System { call: "flock", source }),
    }
}

/// Sixteen random bytes.
pub(super) fn random_u128() -> Result<u128, MemoryError> {
    let mut bytes = [0_u8; 16];
    loop {
        // SAFETY: the buffer is live and 16 bytes long.
        let n = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
        if n == 16 {
            return Ok(u128::from_le_bytes(bytes));
        }
        if n < 0 && io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            return Err(MemoryError::last_os("getrandom"));
        }
    }
}

/// Reserves space for a range of the file, which keeps its contents. Retries after EINTR.
pub(super) fn reserve(fd: BorrowedFd<'_>, offset: u64, len: u64) -> io::Result<()> {
    fallocate(fd, 0, offset, len)
}

/// Frees the space of a range; it reads as zeros afterwards.
pub(super) fn punch(fd: BorrowedFd<'_>, offset: u64, len: u64) -> io::Result<()> {
    fallocate(fd, libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE, offset, len)
}

fn fallocate(fd: BorrowedFd<'_>, mode: i32, offset: u64, len: u64) -> io::Result<()> {
    loop {
        // SAFETY: a plain call on a borrowed descriptor.
        let rc = unsafe {
            libc::fallocate(fd.as_raw_fd(), mode, offset as libc::off_t, len as libc::off_t)
        };
        if rc == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// The first offset at or after `from` that holds data, or `None` if only holes follow.
pub(super) fn next_data(fd: BorrowedFd<'_>, from: u64) -> Result<Option<u64>, MemoryError> {
    // SAFETY: a plain call on a borrowed descriptor; no code uses the file position.
    let at = unsafe { libc::lseek(fd.as_raw_fd(), from as libc::off_t, libc::SEEK_DATA) };
    if at >= 0 {
        return Ok(Some(at as u64));
    }
    match io::Error::last_os_error() {
        e if e.raw_os_error() == Some(libc::ENXIO) => Ok(None),
        source => Err(MemoryError::System { call: "lseek(SEEK_DATA)", source }),
    }
}

/// Whether a file is a memory file: only these have seals.
pub(super) fn is_in_memory(fd: BorrowedFd<'_>) -> bool {
    // SAFETY: a plain call on a borrowed descriptor.
    unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GET_SEALS) >= 0 }
}

/// Starts writing the dirty pages of a range to the medium and, with `wait`, waits for these writes
/// and for those in progress. An error may be that of an earlier write of any part of the file.
pub(super) fn write_out(fd: BorrowedFd<'_>, offset: u64, len: u64, wait: bool) -> io::Result<()> {
    let mut flags = libc::SYNC_FILE_RANGE_WRITE;
    if wait {
        flags |= libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    }
    let (offset, len) = (offset as libc::off64_t, len as libc::off64_t);
    // SAFETY: a plain call on a borrowed descriptor.
    if unsafe { libc::sync_file_range(fd.as_raw_fd(), offset, len, flags) } == 0 {
        return Ok(());
    }
    Err(io::Error::last_os_error())
}

/// Waits for writes of a range that are in progress. An error may be that of an earlier write of
/// any part of the file.
pub(super) fn wait_for_writes(fd: BorrowedFd<'_>, offset: u64, len: u64) -> io::Result<()> {
    let (offset, len) = (offset as libc::off64_t, len as libc::off64_t);
    let flags = libc::SYNC_FILE_RANGE_WAIT_BEFORE;
    // SAFETY: a plain call on a borrowed descriptor.
    if unsafe { libc::sync_file_range(fd.as_raw_fd(), offset, len, flags) } == 0 {
        return Ok(());
    }
    Err(io::Error::last_os_error())
}

/// Removes the pages of a range from the page cache, except those that are dirty, being written or
/// mapped by any process, which the kernel skips.
pub(super) fn drop_cached(fd: BorrowedFd<'_>, offset: u64, len: u64) {
    let (offset, len) = (offset as libc::off_t, len as libc::off_t);
    // SAFETY: a plain call on a borrowed descriptor. Its only errors are of bad arguments.
    unsafe { libc::posix_fadvise(fd.as_raw_fd(), offset, len, libc::POSIX_FADV_DONTNEED) };
}
