//! The process: its user, its limits, and a signal that would end it.

use std::io;

/// The number of the user that this process acts for.
#[must_use]
pub fn user_id() -> u32 {
    // SAFETY: the call takes nothing and cannot fail.
    unsafe { libc::geteuid() }
}

/// Lets a write beyond the largest file that the process may make (`ulimit -f`) fail with `EFBIG`,
/// where the process would be killed by `SIGXFSZ`. A handler that the program has set stays.
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

/// Bytes of addresses that the process may map (`ulimit -v`), if that is limited.
#[must_use]
pub fn address_limit() -> Option<u64> {
    limit(libc::RLIMIT_AS)
}

/// Bytes of the largest file that the process may make (`ulimit -f`), if that is limited. A file in
/// memory is one too.
#[must_use]
pub fn file_limit() -> Option<u64> {
    limit(libc::RLIMIT_FSIZE)
}

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

/// Whether an error says that a file would be larger than the process may make it.
#[must_use]
pub fn is_too_large(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EFBIG)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_too_large_is_told_from_other_errors() {
        assert!(is_too_large(&io::Error::from_raw_os_error(libc::EFBIG)));
        assert!(!is_too_large(&io::Error::from_raw_os_error(libc::ENOSPC)));
    }
}
