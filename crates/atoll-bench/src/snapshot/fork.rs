//! A child that shares this process's memory as it is now, by `fork()`.
//!
//! Invariant `FORK-1`: between `fork()` and its end a child makes only calls that are safe when any
//! thread of the parent may have held any lock: `prctl`, `pause`, `_exit`. It allocates nothing,
//! does not return and runs no destructor. It asks the kernel to end it with its parent.

use std::io;
use std::time::Instant;

use rustix::event::pause;
use rustix::process::{
    Pid, Signal, WaitOptions, kill_process, set_parent_process_death_signal, waitpid,
};

use crate::error::BenchError;

/// A child that keeps the memory as it was at the fork; ended when dropped.
pub struct Child {
    pid: Pid,
    /// Nanoseconds until `fork()` returned here.
    pub ns: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    Exit,
    Hold,
}

impl Child {
    /// Forks a child that sleeps.
    ///
    /// # Errors
    /// [`BenchError::System`].
    pub fn holding() -> Result<Self, BenchError> {
        fork(Then::Hold)
    }
}

fn fork(then: Then) -> Result<Child, BenchError> {
    let begin = Instant::now();
    // SAFETY: FORK-1: the child leaves this function only through `child`.
    let pid = unsafe { libc::fork() };
    if pid < 0 {
        return Err(BenchError::System { call: "fork", source: io::Error::last_os_error() });
    }
    let Some(pid) = Pid::from_raw(pid) else { child(then) };
    Ok(Child { pid, ns: begin.elapsed().as_nanos() as u64 })
}

fn child(then: Then) -> ! {
    // FORK-1: none of these calls needs a lock.
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    if then == Then::Hold {
        loop {
            pause();
        }
    }
    // SAFETY: ends the process without its destructors.
    unsafe { libc::_exit(0) }
}

impl Drop for Child {
    fn drop(&mut self) {
        // The pid is that of a child that has not been waited for, so the kernel has not reused it.
        let _ = kill_process(self.pid, Signal::KILL);
        let _ = waitpid(Some(self.pid), WaitOptions::empty());
    }
}

/// Nanoseconds of each of `forks` forks; the children exit at once.
///
/// # Errors
/// [`BenchError::System`].
pub fn times(forks: usize) -> Result<Vec<u64>, BenchError> {
    (0..forks).map(|_| fork(Then::Exit).map(|child| child.ns)).collect()
}

/// Page faults of this process that needed no disk.
pub fn page_faults() -> u64 {
    // SAFETY: all-zero bytes are a `rusage`, which is plain numbers.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a live local `rusage`.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
    usage.ru_minflt.cast_unsigned()
}

#[cfg(test)]
mod tests {
    use super::{Child, page_faults, times};
    use rustix::process::test_kill_process;

    #[test]
    fn children_end_and_are_waited_for() {
        let times = times(3).expect("fork works where tests run");
        assert!(times.len() == 3 && times.iter().all(|ns| *ns > 0));
        let child = Child::holding().expect("fork works where tests run");
        let pid = child.pid;
        drop(child);
        assert!(test_kill_process(pid).is_err());
        assert!(page_faults() > 0);
    }
}
