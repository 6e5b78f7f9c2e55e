//! The parent's objects in a forked child. Children report by their exit status.
#![allow(clippy::unwrap_used)]

use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use atoll_machine::Mapping;
use atoll_machine::fork::{self, Here, Legacy, Mark, Unshared};
use rustix::mm::MapFlags;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process, waitpid};

/// One test forks at a time, so that no test sees descriptors of another one.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> std::sync::MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

struct Child(Pid);

/// Runs `body` in a forked child; the child's exit status says whether `body` returned true.
fn forked(body: impl FnOnce() -> bool) -> Child {
    // SAFETY: the child runs `body`, of one thread, and ends without destructors of the parent's.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "{}", std::io::Error::last_os_error());
    let Some(pid) = Pid::from_raw(pid) else {
        // SAFETY: a child that hangs is ended; no destructors run at the end.
        unsafe {
            libc::alarm(60);
            let held = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
            libc::_exit(i32::from(!held.unwrap_or(false)));
        }
    };
    Child(pid)
}

impl Child {
    fn status(self) -> WaitStatus {
        waitpid(Some(self.0), WaitOptions::empty()).unwrap().unwrap().1
    }

    fn holds(self) {
        assert_eq!(self.status().exit_status(), Some(0));
    }
}

fn pipe() -> (OwnedFd, OwnedFd) {
    let (reading, writing) = std::io::pipe().unwrap();
    (reading.into(), writing.into())
}

/// Waits until the other end of a pipe is closed.
fn waits_for(reading: Option<OwnedFd>) -> bool {
    std::fs::File::from(reading.unwrap()).read_to_end(&mut Vec::new()).is_ok()
}

fn leads_to(fd: i32) -> String {
    let path = std::fs::read_link(format!("/proc/self/fd/{fd}"));
    path.map_or_else(|_| String::new(), |path| path.to_string_lossy().into_owned())
}

#[test]
fn a_mark_holds_in_the_process_that_made_it() {
    let _alone = alone();
    let of_parent = Mark::new();
    forked(|| {
        let of_child = Mark::new();
        let of_grandchild =
            forked(|| !of_parent.is_here() && !of_child.is_here() && Mark::new().is_here());
        let all_right = !of_parent.is_here() && of_child.is_here();
        all_right && of_grandchild.status().exit_status() == Some(0)
    })
    .holds();
    assert!(of_parent.is_here());
}

#[test]
fn what_is_here_is_dropped_here_only() {
    struct Told<'t>(&'t AtomicU32);
    impl Drop for Told<'_> {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let _alone = alone();
    let dropped = AtomicU32::new(0);
    let mut one = Some(Here::new(Told(&dropped)));
    let mut two = Some(Here::new(Told(&dropped)));
    forked(|| {
        drop(one.take());
        let kept_back = two.take().and_then(Here::into_inner).is_none();
        drop(Here::new(Told(&dropped)));
        kept_back && dropped.load(Ordering::Relaxed) == 1
    })
    .holds();
    drop(one.take());
    assert!(two.take().and_then(Here::into_inner).is_some());
    assert_eq!(dropped.load(Ordering::Relaxed), 2);
}

#[test]
fn a_child_has_an_empty_file_in_the_place_of_a_descriptor_that_is_not_shared() {
    let _alone = alone();
    let (reading, writing) = pipe();
    let number = writing.as_raw_fd();
    let mut writing = Some(Unshared::make(|| Ok::<_, std::io::Error>(writing)).unwrap());
    let (wait, go) = pipe();
    let (mut wait, mut go) = (Some(wait), Some(go));
    let child = forked(|| {
        let is_empty = leads_to(number).contains("eventfd");
        // The descriptor keeps its number when its owner is dropped.
        drop(writing.take());
        let is_kept = leads_to(number).contains("eventfd");
        drop(go.take());
        waits_for(wait.take()) && is_empty && is_kept
    });
    // The pipe reports its end although the child lives.
    drop(writing.take());
    let mut read = Vec::new();
    assert_eq!(std::fs::File::from(reading).read_to_end(&mut read).unwrap(), 0);
    drop(go.take());
    child.holds();
}

#[test]
fn a_descriptor_leads_elsewhere_in_a_child() {
    let _alone = alone();
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(b"whole").unwrap();
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let read_only = OwnedFd::from(std::fs::File::open(path).unwrap());
    let replaced = fork::delay().replace(file.as_fd(), read_only);
    forked(|| (&file).write_all(b"spoilt").is_err()).holds();
    (&file).write_all(b".").unwrap();
    drop(replaced);
    forked(|| (&file).write_all(b".").is_ok()).holds();
}

#[test]
fn a_mapping_of_a_file_is_read_only_in_a_child_until_it_is_dropped() {
    let _alone = alone();
    let file = tempfile::tempfile().unwrap();
    file.set_len(1).unwrap();
    let mapping = Mapping::of_file(&file, 1, MapFlags::SHARED).unwrap();
    let page = mapping.start().as_ptr();
    // SAFETY: inside the mapping; a child gets a signal.
    let store = |value| unsafe { page.write_volatile(value) };
    store(7);
    let status = forked(|| {
        store(8);
        true
    });
    assert_eq!(status.status().terminating_signal(), Some(libc::SIGSEGV));
    // SAFETY: as above.
    assert_eq!(unsafe { page.read_volatile() }, 7);
    // The addresses can be used for another mapping, which is not read-only in children.
    drop(mapping);
    let again = Mapping::anonymous(1).unwrap();
    forked(|| {
        // SAFETY: inside the mapping, which no other code uses.
        unsafe { again.start().as_ptr().write_volatile(9) };
        true
    })
    .holds();
}

/// Waits for a condition that must become true; the limit only ends a broken test.
fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let begun = std::time::Instant::now();
    while !done() {
        assert!(begun.elapsed().as_secs() < 60, "never became true: {what}");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

#[test]
fn a_legacy_has_readers_as_long_as_children_live_that_were_forked_since() {
    let _alone = alone();
    let before = Legacy::new();
    let (wait, go) = pipe();
    let (mut wait, mut go) = (Some(wait), Some(go));
    let child = forked(|| {
        drop(go.take());
        // The grandchild continues when the child has ended.
        let _ = forked(|| waits_for(wait.take()));
        true
    });
    let since = Legacy::new();
    child.holds();
    assert!(before.has_readers(), "the grandchild reads");
    assert!(!since.has_readers());
    let running = Legacy::new();
    let other = forked(|| {
        // `exec` closes every descriptor that is not meant for the new program.
        let path = c"/bin/sleep".as_ptr();
        // SAFETY: live, zero-terminated strings and a null behind them.
        unsafe { libc::execv(path, [path, c"60".as_ptr(), std::ptr::null()].as_ptr()) };
        false
    });
    eventually("exec ends the reading", || !running.has_readers());
    kill_process(other.0, Signal::KILL).unwrap();
    other.status();
    drop(go.take());
    eventually("the end of the grandchild", || !before.has_readers());
}

#[test]
fn a_fork_never_meets_a_descriptor_between_its_making_and_its_keeping() {
    let _alone = alone();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    let made = Unshared::make(|| Ok::<_, std::io::Error>(pipe().0)).unwrap();
                    drop(made);
                }
            });
        }
        for _ in 0..200 {
            let child = forked(|| {
                let open = std::fs::read_dir("/proc/self/fd").unwrap();
                // The process that runs the tests may have passed pipes on.
                let numbers = open.filter_map(|one| one.ok()?.file_name().to_str()?.parse().ok());
                numbers.filter(|number: &i32| *number > 2).all(|fd| !is_pipe_of_ours(fd))
            });
            let status = child.status().exit_status();
            over.fetch_or(status != Some(0), Ordering::Relaxed);
            assert_eq!(status, Some(0));
        }
        over.store(true, Ordering::Relaxed);
    });
}

/// A pipe that is closed on exec: those that this process was started with are not.
fn is_pipe_of_ours(fd: i32) -> bool {
    let flags = std::fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).unwrap_or_default();
    let flags = flags.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| i32::from_str_radix(flags.trim(), 8).ok());
    flags.is_some_and(|flags| flags & libc::O_CLOEXEC != 0) && leads_to(fd).starts_with("pipe:")
}
