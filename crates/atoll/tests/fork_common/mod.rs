//! Forked children for tests: a child runs one closure and reports by its exit status.

#![allow(dead_code, clippy::unwrap_used)]

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

pub struct Child(libc::pid_t);

/// Runs `body` in a forked child; the exit status of the child tells whether `body` returned true.
/// The child runs nothing else, and is killed if it hangs.
pub fn forked(body: impl FnOnce() -> bool) -> Child {
    // SAFETY: the child runs `body` on its only thread.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "{}", std::io::Error::last_os_error());
    if pid == 0 {
        // SAFETY: neither call takes a pointer.
        unsafe {
            libc::alarm(60);
            let held = catch_unwind(AssertUnwindSafe(body)).unwrap_or(false);
            libc::_exit(i32::from(!held));
        }
    }
    Child(pid)
}

impl Child {
    pub fn holds(self) {
        let mut status = 0;
        // SAFETY: the pid of a child of this process, and a valid pointer for its status.
        assert_eq!(unsafe { libc::waitpid(self.0, &raw mut status, 0) }, self.0);
        assert_eq!(status, 0, "what the child looked at does not hold, or it hung");
    }

    pub fn kill(self) {
        // SAFETY: the pid of a child of this process that has not been waited for.
        unsafe {
            libc::kill(self.0, libc::SIGKILL);
            libc::waitpid(self.0, std::ptr::null_mut(), 0);
        }
    }
}

/// A signal between a parent and its child: one waits until the other sends it.
pub struct Signal(File, File);

impl Signal {
    pub fn new() -> Self {
        let mut ends = [0; 2];
        // SAFETY: the array has space for the two descriptors that the call writes.
        let [reading, writing] = unsafe {
            assert_eq!(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC), 0);
            ends.map(|fd| File::from(OwnedFd::from_raw_fd(fd)))
        };
        Self(reading, writing)
    }

    pub fn send(&self) {
        (&self.1).write_all(b"!").unwrap();
    }

    pub fn wait(&self) {
        (&self.0).read_exact(&mut [0]).unwrap();
    }
}

/// Waits for a condition that must become true; the limit ends a broken test.
pub fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < Duration::from_secs(60), "never came to be: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}
