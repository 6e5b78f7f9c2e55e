//! The system calls of a store on its file. Their errors name the call; a failed call leaves
//! nothing behind.

use crate::error::MemoryError;
use atoll_machine::process;
use rustix::fs::{
    Advice, FallocateFlags, FlockOperation, MemfdFlags, Mode, SealFlags, SeekFrom, fadvise,
    fallocate, fchmod, fcntl_add_seals, fcntl_get_seals, flock, fstat, fstatfs, ftruncate,
    memfd_create, seek,
};
use rustix::io::{Errno, retry_on_intr};
use rustix::rand::{GetRandomFlags, getrandom};
use std::fs::{File, OpenOptions};
use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Copy-on-write file systems, by the numbers of the kernel: Btrfs, bcachefs and ZFS. An overwrite
/// needs new space there, whatever was reserved, and a full one would raise SIGBUS.
const COPYING_FILE_SYSTEMS: [i64; 3] = [0x9123_683e, 0xca45_1a4e, 0x2fc1_2fc1];

/// Creates an anonymous memory file of `size` bytes that can neither shrink nor grow.
pub(super) fn memfd(name: &str, size: u64) -> Result<OwnedFd, MemoryError> {
    if let Some(at) = name.bytes().position(|byte| byte == 0) {
        return Err(MemoryError::InvalidOption {
            option: "the position of a zero byte in the store's name",
            value: at as u64,
            need: "a name has no zero bytes",
        });
    }
    let fd = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)
        .map_err(MemoryError::system("memfd_create"))?;
    set_size(&fd, size)?;
    // A receiver of the read-only descriptor must not open it again for writing through /proc.
    fchmod(&fd, Mode::RUSR).map_err(MemoryError::system("fchmod"))?;
    fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW)
        .map_err(MemoryError::system("fcntl(F_ADD_SEALS)"))?;
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
    let facts = fstatfs(&fd).map_err(MemoryError::system("fstatfs"))?;
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
    ftruncate(fd, size).map_err(|error| match error.into() {
        source if process::is_too_large(&source) => MemoryError::FileSize { bytes: size },
        source => MemoryError::System { call: "ftruncate", source },
    })
}

/// A file's size and the bytes it occupies.
pub(super) fn sizes(fd: BorrowedFd<'_>) -> Result<(u64, u64), MemoryError> {
    let stat = fstat(fd).map_err(MemoryError::system("fstat"))?;
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
    match flock(fd, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(MemoryError::system("flock")(error)),
    }
}

/// Sixteen random bytes.
pub(super) fn random_u128() -> Result<u128, MemoryError> {
    let mut bytes = [0_u8; 16];
    loop {
        match getrandom(&mut bytes[..], GetRandomFlags::empty()) {
            Ok(16) => return Ok(u128::from_le_bytes(bytes)),
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(MemoryError::system("getrandom")(error)),
        }
    }
}

/// Reserves space for a range of the file, which keeps its contents. Retries after EINTR.
pub(super) fn reserve(fd: BorrowedFd<'_>, offset: u64, len: u64) -> io::Result<()> {
    Ok(retry_on_intr(|| fallocate(fd, FallocateFlags::empty(), offset, len))?)
}

/// Frees the space of a range; it reads as zeros afterwards.
pub(super) fn punch(fd: BorrowedFd<'_>, offset: u64, len: u64) -> io::Result<()> {
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    Ok(retry_on_intr(|| fallocate(fd, flags, offset, len))?)
}

/// The first offset at or after `from` that holds data, or `None` if only holes follow.
pub(super) fn next_data(fd: BorrowedFd<'_>, from: u64) -> Result<Option<u64>, MemoryError> {
    // No code uses the file position.
    match seek(fd, SeekFrom::Data(from)) {
        Ok(at) => Ok(Some(at)),
        Err(Errno::NXIO) => Ok(None),
        Err(error) => Err(MemoryError::system("lseek(SEEK_DATA)")(error)),
    }
}

/// Whether a file is a memory file: only these have seals.
pub(super) fn is_in_memory(fd: BorrowedFd<'_>) -> bool {
    fcntl_get_seals(fd).is_ok()
}

/// Starts writing the dirty pages of a range to the medium and, with `wait`, waits for these writes
/// and for those in progress. An error may be that of an earlier write of any part of the file.
pub(super) fn write_out(fd: BorrowedFd<'_>, offset: u64, len: u64, wait: bool) -> io::Result<()> {
    let mut flags = libc::SYNC_FILE_RANGE_WRITE;
    if wait {
        flags |= libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    }
    sync_file_range(fd, offset, len, flags)
}

/// Waits for writes of a range that are in progress. An error may be that of an earlier write of
/// any part of the file.
pub(super) fn wait_for_writes(fd: BorrowedFd<'_>, offset: u64, len: u64) -> io::Result<()> {
    sync_file_range(fd, offset, len, libc::SYNC_FILE_RANGE_WAIT_BEFORE)
}

/// `rustix` lacks this call.
fn sync_file_range(fd: BorrowedFd<'_>, offset: u64, len: u64, flags: u32) -> io::Result<()> {
    let (offset, len) = (offset as libc::off64_t, len as libc::off64_t);
    // SAFETY: the call takes plain numbers and writes file pages, which it does not change.
    if unsafe { libc::sync_file_range(fd.as_raw_fd(), offset, len, flags) } == 0 {
        return Ok(());
    }
    Err(io::Error::last_os_error())
}

/// Removes the pages of a range from the page cache, except those that are dirty, being written or
/// mapped by any process, which the kernel skips.
pub(super) fn drop_cached(fd: BorrowedFd<'_>, offset: u64, len: u64) {
    // Its only errors are of bad arguments.
    let _ = fadvise(fd, offset, NonZeroU64::new(len), Advice::DontNeed);
}
