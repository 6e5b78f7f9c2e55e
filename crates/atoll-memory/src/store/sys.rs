//! The system calls of a store, each wrapped so that the rest of the crate needs no `unsafe`
//! for them.
//!
//! Invariant `SYS-1`: a wrapper that takes an address range is only given ranges of a mapping
//! that the calling [`Store`](super::Store) owns. A failed call leaves nothing behind.

use crate::error::MemoryError;
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Makes an anonymous memory file of `size` bytes that can neither shrink nor grow.
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
    // SAFETY: the call just returned this descriptor, nobody else owns it.
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

/// Sets a file's size.
pub(super) fn set_size(fd: &OwnedFd, size: u64) -> Result<(), MemoryError> {
    // SAFETY: a plain call on an owned descriptor.
    if unsafe { libc::ftruncate(fd.as_raw_fd(), size as libc::off_t) } != 0 {
        return Err(MemoryError::last_os("ftruncate"));
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

/// Opens the file behind `fd` once more, for reading only, with an open file of its own.
pub(super) fn reopen_read_only(fd: BorrowedFd<'_>) -> Result<OwnedFd, MemoryError> {
    File::open(format!("/proc/self/fd/{}", fd.as_raw_fd()))
        .map(OwnedFd::from)
        .map_err(|source| MemoryError::System { call: "open(/proc/self/fd)", source })
}

/// Takes the file's writer lock for as long as `fd` is open; `false` if another has it.
pub(super) fn try_lock(fd: &OwnedFd) -> Result<bool, MemoryError> {
    // SAFETY: a plain call on an owned descriptor.
    if unsafe { libc::flock(fd.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
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

/// Gives the file real space for a range, which keeps its contents. EINTR is tried again.
pub(super) fn reserve(fd: BorrowedFd<'_>, offset: u64, len: u64) -> io::Result<()> {
    fallocate(fd, 0, offset, len)
}

/// Takes the space of a range back; it reads as zeros afterwards.
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
    // SAFETY: a plain call on a borrowed descriptor; nobody uses the file position.
    let at = unsafe { libc::lseek(fd.as_raw_fd(), from as libc::off_t, libc::SEEK_DATA) };
    if at >= 0 {
        return Ok(Some(at as u64));
    }
    match io::Error::last_os_error() {
        e if e.raw_os_error() == Some(libc::ENXIO) => Ok(None),
        source => Err(MemoryError::System { call: "lseek(SEEK_DATA)", source }),
    }
}
