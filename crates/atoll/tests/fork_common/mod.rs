//! Forked children for tests: a child runs one closure and reports by its exit status.

#![allow(dead_code, clippy::unwrap_used)]

use std::io::{PipeReader, PipeWriter, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use rustix::process::{Pid, WaitOptions, kill_process, waitpid};

pub struct Child(Pid);

/// Runs `body` in a forked child; the exit status of the child tells whether `body` returned true.
/// The child runs nothing else, and is killed if it hangs.
pub fn forked(body: impl FnOnce() -> bool) -> Child {
    // SAFETY: the child runs `body` on its only thread.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "{}", std::io::Error::last_os_error());
    let Some(pid) = Pid::from_raw(pid) else {
        // SAFETY: neither call takes a pointer.
        unsafe {
            libc::alarm(60);
            let held = catch_unwind(AssertUnwindSafe(body)).unwrap_or(false);
            libc::_exit(i32::from(!held));
        }
    };
    Child(pid)
}

impl Child {
    pub fn holds(self) {
        let status = waitpid(Some(self.0), WaitOptions::empty()).unwrap().unwrap().1;
        let held = status.exit_status() == Some(0);
        assert!(held, "what the child looked at does not hold, or it hung: {status:?}");
    }

    pub fn kill(self) {
        kill_process(self.0, rustix::process::Signal::KILL).unwrap();
        waitpid(Some(self.0), WaitOptions::empty()).unwrap();
    }
}

/// A signal between a parent and its child: one waits until the other sends it.
pub struct Signal(PipeReader, PipeWriter);

impl Signal {
    pub fn new() -> Self {
        let (reading, writing) = std::io::pipe().unwrap();
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
