//! The parent's objects in a forked child. Children report by their exit status.
#![allow(clippy::unwrap_used)]

use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use atoll_machine::fork::{self, Here, Legacy, Mark, Unshared};

/// One test forks at a time, so that no test sees descriptors of another one.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> std::sync::MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

struct Child(libc::pid_t);

/// Runs `body` in a forked child; the child's exit status says whether `body` returned true.
fn forked(body: impl FnOnce() -> bool) -> Child {
    // SAFETY: the child runs `body`, of one thread, and ends without destructors of the parent's.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "{}", std::io::Error::last_os_error());
    if pid == 0 {
        // SAFETY: a child that hangs is ended; no destructors run at the end.
        unsafe {
            libc::alarm(60);
            let held = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
            libc::_exit(i32::from(!held.unwrap_or(false)));
        }
    }
    Child(pid)
}

impl Child {
    fn status(self) -> i32 {
        let mut status = 0;
        // SAFETY: a child of this process and a place for its status.
        assert_eq!(unsafe { libc::waitpid(self.0, &raw mut status, 0) }, self.0);
        status
    }

    fn holds(self) {
        assert_eq!(self.status(), 0);
    }
}

fn pipe() -> (OwnedFd, OwnedFd) {
    let mut ends = [0; 2];
    // SAFETY: room for two descriptors, which the call makes.
    unsafe {
        assert_eq!(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC), 0);
        (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1]))
    }
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
        all_right && of_grandchild.status() == 0
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
fn a_mapping_is_read_only_in_a_child_until_it_is_unprotected() {
    let _alone = alone();
    let len = atoll_machine::page_bytes();
    let (prot, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping of one page, which nothing else uses.
    let page = unsafe { libc::mmap(std::ptr::null_mut(), len, prot, flags, -1, 0) }.cast::<u8>();
    // SAFETY: the mapping is whole pages, and is never unmapped.
    unsafe { fork::delay().protect(page, len) };
    // SAFETY: inside the mapping; a child gets a signal.
    let store = |value| unsafe { page.write_volatile(value) };
    store(7);
    let status = forked(|| {
        store(8);
        true
    });
    assert_eq!(status.status() & 0x7f, libc::SIGSEGV);
    // SAFETY: as above.
    assert_eq!(unsafe { page.read_volatile() }, 7);
    fork::unprotect(page);
    forked(|| {
        store(9);
        true
    })
    .holds();
    // SAFETY: as above.
    assert_eq!(unsafe { page.read_volatile() }, 9);
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
    // SAFETY: the child made above, which has not been waited for.
    unsafe { libc::kill(other.0, libc::SIGKILL) };
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
            let status = child.status();
            over.fetch_or(status != 0, Ordering::Relaxed);
            assert_eq!(status, 0);
        }
        over.store(true, Ordering::Relaxed);
    });
}

/// A pipe that is closed on exec: those that this process was started with are not.
fn is_pipe_of_ours(fd: i32) -> bool {
    // SAFETY: asks for flags only.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFD) };
    flags >= 0 && flags & libc::FD_CLOEXEC != 0 && leads_to(fd).starts_with("pipe:")
}
