//! The process: its user, its resource limits, and a signal that would end it.

use std::io;

/// The effective user id of this process.
#[must_use]
pub fn user_id() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Makes a write beyond the file size limit (`ulimit -f`) fail with `EFBIG`, where `SIGXFSZ` would
/// otherwise kill the process. A handler that the program has set stays.
pub fn refuse_large_files() {
    let mut now = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: `now` is a valid place for the answer; zeroed bytes are a valid `libc::sigaction`.
    // The signal is one that may be ignored.
    unsafe {
        if libc::sigaction(libc::SIGXFSZ, std::ptr::null(), now.as_mut_ptr()) == 0
            && now.assume_init().sa_sigaction == libc::SIG_DFL
        {
            libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        }
    }
}

/// Gives heap memory that is free back to the system, where the allocator can do so (glibc). After
/// much was freed at once, it would otherwise count as memory of the process for long.
pub fn trim_heap() {
    #[cfg(target_env = "gnu")]
    // SAFETY: the call may be made at any time and from any thread.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Memory of the process, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProcessMemory {
    /// Private memory that is resident: heap, stacks, arrays.
    pub private_bytes: u64,
    /// Shared memory that is resident.
    pub shared_bytes: u64,
    /// Bytes of the heap that the program uses.
    pub heap_used_bytes: u64,
    /// Bytes of the heap that are free and resident, at most.
    pub heap_free_bytes: u64,
}

/// The memory of this process; 0 for what the system or the allocator does not report.
#[must_use]
pub fn memory() -> ProcessMemory {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let bytes = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        kib.unwrap_or(0) << 10
    };
    let (heap_used_bytes, heap_free_bytes) = heap();
    ProcessMemory {
        private_bytes: bytes("RssAnon:"),
        shared_bytes: bytes("RssShmem:"),
        heap_used_bytes,
        heap_free_bytes,
    }
}

/// Used and free bytes of the heap.
#[cfg(target_env = "gnu")]
fn heap() -> (u64, u64) {
    // SAFETY: the call may be made at any time and from any thread.
    let info = unsafe { libc::mallinfo2() };
    ((info.uordblks + info.hblkhd) as u64, info.fordblks as u64)
}

#[cfg(not(target_env = "gnu"))]
fn heap() -> (u64, u64) {
    (0, 0)
}

/// The limit of the process's address space (`ulimit -v`) in bytes, if there is one.
#[must_use]
pub fn address_limit() -> Option<u64> {
    limit(libc::RLIMIT_AS)
}

/// The limit of the size of a file (`ulimit -f`) in bytes, if there is one. It also holds for files
/// in memory.
#[must_use]
pub fn file_limit() -> Option<u64> {
    limit(libc::RLIMIT_FSIZE)
}

// `rustix` does not report that a container forbids the call, and returns bytes that were never
// written.
fn limit(which: libc::__rlimit_resource_t) -> Option<u64> {
    let mut limits = std::mem::MaybeUninit::<libc::rlimit>::zeroed();
    // SAFETY: `limits` is a valid place for the answer; zeroed bytes are a valid `libc::rlimit`.
    let limits = unsafe {
        if libc::getrlimit(which, limits.as_mut_ptr()) != 0 {
            return None;
        }
        limits.assume_init()
    };
    (limits.rlim_cur != libc::RLIM_INFINITY).then_some(limits.rlim_cur)
}

/// Whether an error says that a file would exceed the file size limit.
#[must_use]
pub fn is_too_large(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EFBIG)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_of_a_file_that_is_too_large_is_recognised() {
        assert!(is_too_large(&io::Error::from_raw_os_error(libc::EFBIG)));
        assert!(!is_too_large(&io::Error::from_raw_os_error(libc::ENOSPC)));
    }
}
